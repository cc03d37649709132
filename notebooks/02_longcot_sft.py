# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # LongCoT SFT: learning to judge, think and answer by imitation
#
# Reinforcement learning can only make likelier what a model already does now and then. So SAIL-RL first
# shows it: **supervised fine-tuning** (SFT) on 400,000 responses with the three blocks *judge, think, answer*
# (section 3.4.1). At 8B this stage alone lifts the mean of the reasoning benchmarks from 39.3 to 52.1, and
# RL then to 59.3 (table 1). Here you look into the stage: its loss, its mask, its first minutes, and what the
# policy that comes out knows.
#
# **At the end you will know**
# - which tokens count, and how the paper's loss and TRL's are one loss in two units;
# - what SFT learns first, and what last;
# - how training all weights compares with LoRA, when both are tuned alike;
# - what the SFT policy of this project can do and what not;
# - why its decisions to think are *calibrated* and three in four right, and how these two fit together.
#
# **Time:** about two minutes on two CPU cores to run, half an hour to read.
#
# **Rung:** the same on each: it trains the micro policy from its beginning, on lessons that are drawn as it
# goes. `sailrl-lite sft --rung` trains the others.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import copy
import json
import random
import re
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures
from sailrl_lite.config import SHIPPED
from sailrl_lite.response import DIRECT, THINK
from sailrl_lite.rungs import read_rung
from sailrl_lite.training.data import numbered, sft_dataset
from sailrl_lite.training.models import TAGS, load_checkpoint
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import CLEAN, Noise, teach

read_rung(RUNG)

# %% [markdown]
# ## 1. Which tokens count
# A lesson is a prompt (picture $I$ and question) and the teacher's response: judgment $J$, trace $T$, answer
# $A$. TRL's `SFTTrainer` turns lessons into batches, and says by a **label** for each token whether its loss
# counts. Here is the real trainer, with the real policy of this project (a Qwen2.5-VL of 1.6 million
# parameters).

# %%
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig, SFTTrainer


def new_trainer(policy, lessons, steps=1, rate=1e-3, peft=None, callbacks=()):
    """TRL's trainer, quiet, with the settings that a small vision-language model on a CPU needs."""
    settings = SFTConfig(
        output_dir=tempfile.mkdtemp(), max_steps=steps, per_device_train_batch_size=16, seed=SEED,
        learning_rate=rate, lr_scheduler_type="cosine", warmup_steps=min(3, steps - 1), adam_beta2=0.98,
        max_length=None, remove_unused_columns=False, train_sampling_strategy="sequential", bf16=False,
        gradient_checkpointing=False, dataloader_pin_memory=False, report_to=[], disable_tqdm=True,
        save_strategy="no", logging_steps=10_000,
    )  # fmt: skip
    trainer = SFTTrainer(
        model=policy, args=settings, train_dataset=lessons, processing_class=processor,
        peft_config=peft, callbacks=list(callbacks),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


# %%
shipped, processor = load_checkpoint(SHIPPED)
words = processor.tokenizer.convert_ids_to_tokens
lessons = sft_dataset(2000, Noise())  # such as it was trained on: from a teacher who errs
trainer = new_trainer(shipped, lessons)
batch = trainer.data_collator([lessons[k] for k in range(16)])
print({name: tuple(tensor.shape) for name, tensor in batch.items()})
counts = batch["labels"] != -100  # (16 lessons, tokens); -100 is "does not count"

# %%
strips = {}
for k in (0, 12):
    family = tuple(FAMILIES)[k]
    keep = batch["attention_mask"][k].bool()  # without the padding at the end
    tokens = words(batch["input_ids"][k][keep])
    strips[f"{family}: blue tokens count"] = tokens, np.where(counts[k][keep], 1.0, np.nan)
figures.token_strip(strips)
plt.show()

# %% [markdown]
# Grey is given: the chat's frame, the picture (eight tokens), the question. Blue is learnt: the whole
# response, tags and all, and the token that ends it. So the policy learns to *write* its judgment, and not
# only to think after one. By hand: everything after `assistant` and its line end counts, except padding.


# %%
def labels_by_hand(ids):
    """The labels of one row of token ids, (tokens,)."""
    tokens = words(ids)
    start = tokens.index("assistant") + 2
    end = tokens.index("<|im_end|>", start) + 1
    labels = torch.full_like(ids, -100)
    labels[start:end] = ids[start:end]
    return labels


assert all(
    torch.equal(labels_by_hand(i), row) for i, row in zip(batch["input_ids"], batch["labels"], strict=True)
)

# %% [markdown]
# ## 2. The objective, in two units
# The paper's loss (section 3.4.1) is
#
# $$\mathcal{L}_{\text{LongCoT-SFT}} = -\frac{1}{|\mathcal{D}|} \sum_{(I,J,T,A) \in \mathcal{D}}
# \log P_\theta(J \circ T \circ A \mid I).$$
#
# The probability of a whole response is a product over its tokens, so its logarithm is a **sum over tokens**,
# and the mean is taken **over samples**. TRL takes the mean **over tokens**, of the whole batch. Let lesson
# $i$ of $N$ have $n_i$ tokens that count, and the loss $S_i$, summed over them (in nats, since the logarithm
# is the natural one). Then
#
# $$\mathcal{L}_{\text{paper}} = \frac{1}{N} \sum_i S_i, \qquad
# \mathcal{L}_{\text{TRL}} = \frac{\sum_i S_i}{\sum_i n_i}, \qquad
# \text{so} \quad \mathcal{L}_{\text{paper}} = \bar n \; \mathcal{L}_{\text{TRL}}, \quad
# \bar n = \frac{1}{N} \sum_i n_i.$$


# %%
def token_losses(policy, batch):
    """(lessons, tokens): the loss of each token in nats, NaN where it does not count."""
    inputs = {name: tensor for name, tensor in batch.items() if name not in ("labels", "use_cache")}
    logits = policy(**inputs).logits[:, :-1]  # place t says what stands at t + 1
    labels = batch["labels"][:, 1:]
    picked = logits.log_softmax(-1).gather(2, labels.clamp(min=0)[..., None])[..., 0]
    return torch.nn.functional.pad(torch.where(labels != -100, -picked, torch.nan), (1, 0), value=torch.nan)


def paper_loss(losses):
    return losses.nansum(1).mean()  # sum over tokens, mean over samples


# %%
with torch.no_grad():
    losses = token_losses(shipped, batch)
    from_trl = trainer.compute_loss(trainer.model, dict(batch)).item()
n_mean = counts.sum(1).float().mean().item()
paper = paper_loss(losses).item()
print(f"the paper's loss, by hand    {paper:.6f} nats a lesson")
print(f"TRL's own number             {from_trl:.6f} nats a token")
print(f"TRL's x {n_mean:.4f} tokens     {from_trl * n_mean:.6f}")
assert abs(losses.nanmean().item() - from_trl) < 1e-5
assert abs(paper / n_mean - from_trl) < 1e-5

# %% [markdown]
# Does it matter which one is trained on? Within a batch the two gradients point the same way, and differ by
# the factor $\bar n$. AdamW divides by the size of the gradient, so a constant factor changes next to
# nothing; only the *changes* of $\bar n$ from batch to batch weigh batches differently. A third reading, the
# mean over each lesson's tokens first and then over lessons, is *not* the same direction:


# %%
def gradient(policy, loss):
    """The gradient of a loss by all weights, as one long vector."""
    parts = torch.autograd.grad(loss, list(policy.parameters()), retain_graph=True)
    return torch.cat([part.flatten() for part in parts]).double()


losses = token_losses(shipped, batch)
readings = {"paper": paper_loss(losses), "TRL": losses.nanmean(), "mean of means": losses.nanmean(1).mean()}
g = {name: gradient(shipped, loss) for name, loss in readings.items()}
for name in ("TRL", "mean of means"):
    cosine = torch.cosine_similarity(g["paper"], g[name], 0).item()
    times = (g["paper"].norm() / g[name].norm()).item()
    print(f"{name:14} cosine with the paper's gradient {cosine:.4f}, which is {times:.2f} times as long")
assert torch.allclose(g["paper"], n_mean * g["TRL"], atol=1e-4)
assert torch.cosine_similarity(g["paper"], g["mean of means"], 0) < 0.99

# %% [markdown]
# Whoever sums over tokens gives a long response more say than a short one. Half of our lessons think, but:

# %%
many = trainer.data_collator([lessons[k] for k in range(390)])
sizes = (many["labels"] != -100).sum(1).numpy()
thinks = np.array([THINK in words(ids) for ids in many["input_ids"]])
shares = {"lessons": thinks.mean(), "tokens that count": sizes[thinks].sum() / sizes.sum()}
figures.use_style()
figure, axis = plt.subplots(figsize=(7.5, 1.7))
for name, share in shares.items():
    bars = axis.barh([name] * 2, [share, 1 - share], left=[0, share], color=[figures.AFTER, figures.BEFORE])
    axis.bar_label(
        bars, [f"think {share:.0%}", f"direct {1 - share:.0%}"], label_type="center", color="white"
    )
axis.set(xlim=(0, 1), xticks=[], ylim=(1.5, -0.5), title="Who has the say in the loss")
axis.grid(visible=False)
plt.show()

# %% [markdown]
# In the paper, where a sample may have 20,000 tokens and a direct answer a dozen, the balance is far more
# lopsided: the decision to think is a handful of tokens among thousands.
#
# ## 3. Where the loss is
# The same two lessons, now coloured by the loss of each token under the policy that we ship:

# %%
with torch.no_grad():
    losses = token_losses(shipped, batch)
strips = {}
for k in (0, 12):
    rows = batch["attention_mask"][k].bool() & counts[k]
    strips[tuple(FAMILIES)[k]] = words(batch["input_ids"][k][rows]), losses[k][rows].numpy()
figures.token_strip(strips, "loss, nats")
plt.show()

# %% [markdown]
# The format costs nothing any more. What still costs is what cannot be known from the picture: whether this
# teacher happened to think, where it slipped, and (for our policy) the digits it reads badly. Sorted
# by part of the response, over 390 lessons:


# %%
FRAME = {*TAGS, "\\boxed{", "}", "<|im_end|>"}


def parts_of(tokens):
    """For each token of a response: "frame", "judgment", "trace" or "answer"."""
    inside, found = "frame", []
    for token in tokens:
        inside = {"<judge>": "judgment", "<think>": "trace", "<answer>": "answer"}.get(token, inside)
        found.append("frame" if token in FRAME else inside)
    return found


def loss_by_part(policy, batch):
    """The mean loss of a token, for each part of the responses of a batch."""
    with torch.no_grad():
        losses = token_losses(policy, batch)
    counted = ~losses.isnan()
    rows = zip(batch["input_ids"], counted, strict=True)
    parts = [part for ids, row in rows for part in parts_of(words(ids[row]))]
    return pd.Series(losses[counted].numpy()).groupby(np.array(parts)).mean()


# %%
def entropy(q):
    return -q * np.log(q) - (1 - q) * np.log(1 - q)


by_part = loss_by_part(shipped, many)
print(by_part.round(3).to_string())
print(f"the least a judgment can cost, with a quarter of wrong labels: {entropy(0.25):.3f}")
assert by_part["frame"] < 0.01
assert abs(by_part["judgment"] - entropy(0.25)) < 0.1

# %% [markdown]
# The judgment is one token for our tokenizer, so its loss can be compared with theory. The teacher decides
# wrongly in a quarter of all lessons, at random. Nobody can foresee that, and the best that is left is to say
# 75 to 25 each time, at a cost of $H(0.25) = 0.562$ nats. The policy is there. Section 7 comes back to it.
#
# ## 4. The first minute of SFT
# The shipped policy saw 3,600 updates of 64 lessons. What comes first? An untrained policy, 60 updates of 16:

# %%
from transformers import TrainerCallback

from sailrl_lite.training.models import build_policy


class Parts(TrainerCallback):
    """Notes the loss by part on lessons that are held out, every fifth update."""

    def __init__(self, held_out):
        self.held_out, self.rows = held_out, {}

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step % 5 == 0:
            self.rows[state.global_step] = loss_by_part(model, self.held_out)


held_out = trainer.data_collator([lessons[k] for k in range(1900, 1926)])
parts = Parts(held_out)
young = build_policy(processor, SEED)
new_trainer(young, lessons, steps=60, rate=2e-3, callbacks=[parts]).train()
parts.rows[60] = loss_by_part(young, held_out)

# %%
curves = pd.DataFrame(parts.rows).T
axis = curves.plot(figsize=(8, 3.1), lw=2)
shades = {line.get_label(): line.get_color() for line in axis.get_lines()}
for part in curves:  # where the shipped policy is
    axis.plot([60.6, 62], [by_part[part]] * 2, color=shades[part], lw=3, clip_on=False)
axis.axhline(np.log(len(processor.tokenizer)), color="0.5", ls=":")
axis.text(59, np.log(len(processor.tokenizer)) - 0.1, "any token alike", ha="right", va="top", fontsize=9)
axis.set(xlabel="update", ylabel="loss, nats a token", xlim=(0, 62))
axis.set_title("What SFT learns first (short bars: the shipped policy)", loc="left")
axis.legend(ncols=2, loc="upper right", bbox_to_anchor=(0.97, 0.86))
plt.show()
assert curves.loc[60, "frame"] < 0.5 and curves.loc[60, "answer"] > 4 * curves.loc[60, "frame"]

# %% [markdown]
# (Dotted: what it costs to give every token of the vocabulary the same chance.) The frame first: it is the
# same in every lesson. The judgment soon falls to about $\ln 2 = 0.69$, a coin,
# and to go lower the policy must understand the *question*. Traces learn their grammar. The answers stay the
# hardest: they need the *picture*, and a small model learns to see only after hundreds of updates.
#
# ## 5. All weights, or LoRA?
# The paper trains all weights, since the new format is a large step away from what the model did before
# (section 3.4.1). **LoRA** trains a low-rank change $W + BA$ of each matrix instead, far fewer weights. Let
# us ask our policy for a large step: a format it has never seen, the judgment *last*, from a teacher that
# does not err.


# %%
def judgment_last(text):
    judgment, rest = text.split("</judge>", 1)
    return f"{rest.strip()}\n{judgment}</judge>"


def turned_lessons(count, split, seed):
    def lesson(k):
        problem = make_problem(tuple(FAMILIES)[k % 13], 10_000 * (seed + 1) + k // 13, split)
        text = judgment_last(teach(problem, random.Random(f"{seed}/{k}"), CLEAN).text)
        prompt = [{"role": "user", "content": problem.question}]
        completion = [{"role": "assistant", "content": text}]
        return {"prompt": prompt, "completion": completion, "image": problem.image}

    return numbered(count, lesson)


held = turned_lessons(130, "test", seed=9)
held = trainer.data_collator([held[k] for k in range(130)])
print(words(held["input_ids"][8][held["labels"][8] != -100]))

# %% [markdown]
# The rules of a fair race: the same lessons in the same order, the same number of updates (24 of 16 lessons),
# and for *each* method the best of three learning rates, chosen with seed 0. Then the chosen rate runs with
# three fresh seeds, and only these are compared: a rate that was picked by a run looks good in that run. The
# measure is the paper's loss on 130 unseen problems.

# %%
from peft import LoraConfig
from scipy.stats import t

from sailrl_lite.training.rollout import respond

MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
METHODS = {"all weights": None, "LoRA": LoraConfig(r=16, lora_alpha=32, target_modules=MATRICES)}
RATES = {"all weights": (3e-4, 1e-3, 3e-3), "LoRA": (1e-3, 3e-3, 1e-2)}


def held_loss(policy):
    with torch.no_grad():
        return paper_loss(token_losses(policy, held)).item()


# %%
TURNED = re.compile(r"<think>[^<]*</think>\s*<answer>\\boxed\{[^{}<]*\}</answer>\s*<judge>[^<]*</judge>\s*")


def turned(policy):
    """The share of responses to 65 unseen problems that are in the new format."""
    some = [make_problem(family, k, "test") for family in FAMILIES for k in range(5)]
    questions, pictures = [p.question for p in some], [p.image for p in some]
    texts = respond(policy, processor, questions, pictures, seed=SEED)
    return np.mean([bool(TURNED.fullmatch(text)) for (text,) in texts])


def train(method, rate, seed, steps=24):
    torch.manual_seed(seed)
    fresh, peft = load_checkpoint(SHIPPED)[0], copy.deepcopy(METHODS[method])
    run = new_trainer(fresh, turned_lessons(16 * steps, "train", seed), steps, rate, peft)
    run.train()
    row = {"method": method, "rate": rate, "seed": seed, "loss": held_loss(run.model)}
    row["trained"] = sum(p.numel() for p in run.model.parameters() if p.requires_grad)
    return row | {"turned": turned(run.model.merge_and_unload() if peft else run.model)}


# %%
race = [train(method, rate, 0) for method, rates in RATES.items() for rate in rates]
tuning = pd.DataFrame(race)
before = held_loss(shipped)
print(f"before: {before:.1f} nats a lesson")
display(tuning.pivot(index="method", columns="rate", values="loss").round(2))
best = tuning.loc[tuning.groupby("method")["loss"].idxmin()].set_index("method")["rate"]
print({method: f"{n:,} weights" for method, n in tuning.groupby("method")["trained"].first().items()})

# %%
FRESH = (1, 2, 3)  # seeds; more of them make the interval narrower
race += [train(method, best[method], seed) for method in METHODS for seed in FRESH]
race = pd.DataFrame(race)
chosen = race[race["seed"].isin(FRESH)]
finals = chosen.pivot(index="seed", columns="method", values="loss")
gap = finals["LoRA"] - finals["all weights"]
half = t.ppf(0.975, len(gap) - 1) * gap.std() / np.sqrt(len(gap))  # Student's t
display(finals.round(2))
low, high = gap.mean() - half, gap.mean() + half
print(f"LoRA - all weights: {gap.mean():+.2f} nats a lesson, 95% interval {low:+.2f} to {high:+.2f}")
print("in the new format:", chosen.groupby("method")["turned"].mean().round(2).to_dict())
assert (finals < before / 10).all(axis=None)  # both have learnt it
assert gap.mean() > 0  # all weights are ahead
assert tuning.query("method == 'LoRA' and rate == 0.001")["loss"].item() > 3 * finals["LoRA"].mean()

# %%
figure, axis = plt.subplots(figsize=(7.5, 3))
for method, color in (("all weights", figures.AFTER), ("LoRA", figures.BEFORE)):
    first = tuning[tuning["method"] == method]
    axis.plot(first["rate"], first["loss"], "-", color=color, lw=1.5)
    shown = race[race["method"] == method]
    axis.plot(shown["rate"], shown["loss"], "o", color=color, label=method, alpha=0.8)
axis.axhline(before, color="0.5", ls=":")
axis.text(1e-2, before * 0.93, "before", ha="right", va="top", fontsize=9)
axis.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="loss, nats a lesson")
axis.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"], minor=False)
axis.set_yticks([], minor=True)
axis.set_xticks([3e-4, 1e-3, 3e-3, 1e-2], ["0.0003", "0.001", "0.003", "0.01"])
axis.set_title("A new format in 24 updates, on unseen problems", loc="left")
axis.legend(loc="right")
plt.show()

# %% [markdown]
# Read it in three steps. *Tuning first*: at the rate that is best for all weights, LoRA has hardly begun. $B$
# starts at zero, and LoRA wants a rate three times as high. Many a comparison of the two measures just this.
# *Then the gap*: with both tuned, all weights end about 0.4 nats a lesson ahead, and more of their responses
# are in the new format. That is what the paper's argument predicts, and here it is shown. *Then its size*:
# both have come from 58 nats to about 2, so LoRA has learnt 99% of what all weights have. We also tried
# other ranks in the same way, once each: rank 4 ends at 2.36, rank 64 (half as many weights as the policy
# has) at 2.04. The gap closes as the rank grows.
#
# And mind the scale. LoRA had twelve weights for a hundred of the policy's here; at 8B it would have one or
# fewer. The step from chat to judge-think-answer is another than ours, and 24 updates say little about 390
# (400,000 samples in batches of 1,024): LoRA may catch up, or fall behind. To know, one would repeat this
# race with more updates, tuned anew for each length.
#
# ## 6. What the SFT policy can do, and what not
# The quality of the shipped policy is measured once on 200 unseen problems a family and kept in
# `data/micro-sft-quality.json`. Beside it a live sample of 20 *other* problems a family.

# %%
from sailrl_lite.study.evaluation import evaluate

measured = pd.DataFrame(
    json.loads((SHIPPED.parent / "micro-sft-quality.json").read_text("utf-8"))["families"]
).set_index("family")
others = [make_problem(family, k, "test") for family in FAMILIES for k in range(1000, 1020)]
live = evaluate(shipped, processor, others, seed=SEED, bar=None)
lively = live.groupby("family", sort=False)[["accuracy", "trigger_rate"]].mean().loc[measured.index]

# %%
figure, axes = plt.subplots(2, 1, figsize=(9.5, 4.6), sharex=True)
for axis, measure in zip(axes, ("accuracy", "trigger_rate"), strict=True):
    value = measured[measure]
    ends = value - measured[f"{measure}_low"], measured[f"{measure}_high"] - value
    axis.bar(measured.index, value, yerr=ends, color=figures.AFTER, ecolor="0.3", capsize=2, label="kept")
    axis.plot(lively[measure], "D", color="black", ms=5, label="live, 20 others")
    axis.set(ylim=(0, 1.03), title=measure.replace("_", " "))
    axis.grid(axis="x", visible=False)
axes[0].plot(measured["majority_guess"], "_", color="red", ms=16, mew=2, label="commonest answer")
axes[0].legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
axes[1].tick_params(axis="x", rotation=30)
plt.show()
assert abs(lively["accuracy"].mean() - measured["accuracy"].mean()) < 0.1

# %% [markdown]
# It sees well: perception is nine in ten right. It reasons badly: four in ten, far above the guess of the
# commonest answer and far from good. Where do its traces fail? (Means over the responses that have one.)

# %%
judged = measured.groupby("kind", sort=False)[["accuracy", "logic", "grounding", "consistency"]].mean()
display(judged.round(2))
assert judged.loc["perception", "accuracy"] > 0.85 > 0.5 > judged.loc["reasoning", "accuracy"]

# %% [markdown]
# And it knows nothing but its world. A word that its tokenizer has never met becomes `<unk>`:

# %%
from sailrl_lite.training.models import encode_prompts, knows

picture = others[0].image
print({word: knows(processor, word) for word in ("triangle", "sum", "zebra", "elephant")})
print(words(processor.tokenizer("How many zebras are left?")["input_ids"]))
assert knows(processor, "triangle") and not knows(processor, "zebra")

# %% [markdown]
# ## 7. When does it think, and does it know when?
# The judgment is one token, so we need not sample to learn how likely the policy is to think. Start the
# response with `<judge>` and read the probabilities of what comes next:


# %%
def chance_to_think(policy, problems):
    """(problems,) the probability of the judgment that thinks, of the two that there are."""
    sides = processor.tokenizer.convert_tokens_to_ids([THINK, DIRECT])
    found = []
    for start in range(0, len(problems), 130):
        some = problems[start : start + 130]
        inputs = encode_prompts(processor, [p.question for p in some], [p.image for p in some], "<judge>")
        with torch.no_grad():
            found.append(policy(**inputs).logits[:, -1].softmax(-1)[:, sides])
    both = torch.cat(found).numpy()
    assert both.sum(1).min() > 0.98  # hardly anything else is ever said
    return both[:, 0] / both.sum(1)


# %%
asked = [make_problem(family, k, "test") for family in FAMILIES for k in range(2000, 2060)]
chance = chance_to_think(shipped, asked)
needs = np.array([problem.needs_thinking for problem in asked])
figure, axis = plt.subplots(figsize=(8, 2.7))
for part, label, color in ((~needs, "no thinking needed", figures.BEFORE), (needs, "needed", figures.AFTER)):
    axis.hist(chance[part], np.linspace(0, 1, 51), color=color, alpha=0.8, label=label)
axis.set(xlabel="P(think)", ylabel="problems", xlim=(0, 1))
axis.set_title("How likely the SFT policy is to think, on 780 unseen problems", loc="left")
axis.legend()
plt.show()
print(f"mean P(think): needed {chance[needs].mean():.2f}, not needed {chance[~needs].mean():.2f}")
print(f"a decision by P(think) > 1/2 agrees with the label on {np.mean((chance > 0.5) == needs):.1%}")
assert np.mean((chance > 0.5) == needs) > 0.95

# %% [markdown]
# Two neat heaps, and each problem in the right one. The policy *knows* which questions need thinking.
# And yet it decides rightly in three of four cases only. The heaps stand at a quarter and at three quarters,
# not at 0 and 1: these are the rates of its teacher.
#
# **Calibration** asks whether a stated chance is the true frequency. But the frequency of what?

# %%
from sailrl_lite.study.evaluation import bootstrap

teacher_thinks = np.array([teach(p, random.Random(f"{SEED}/{p.id}"), Noise()).thinks for p in asked])
rng = np.random.default_rng(SEED)


def reliability(chance, happened):
    """A row a tenth that holds 10 problems or more: mean chance, frequency and its 95% interval, size."""
    place = np.floor(10 * chance)
    rows = [(chance[m], happened[m]) for k in range(10) if (m := place == k).sum() >= 10]
    return pd.DataFrame(
        [(c.mean(), *bootstrap(h.astype(float), rng), len(c)) for c, h in rows],
        columns=["chance", "frequency", "low", "high", "problems"],
    )


# %%
figure, axis = plt.subplots(figsize=(5.2, 4.2))
axis.plot([0, 1], [0, 1], color="0.5", ls=":")
events = {
    "the teacher thinks": (teacher_thinks, figures.AFTER),
    "thinking is needed": (needs, figures.BEFORE),
}
for name, (happened, color) in events.items():
    table = reliability(chance, happened)
    ends = table["frequency"] - table["low"], table["high"] - table["frequency"]
    axis.errorbar(
        table["chance"], table["frequency"], np.clip(ends, 0, None), fmt="o", color=color, label=name
    )
axis.set(xlabel="P(think) of the policy", ylabel="how often it is so", xlim=(0, 1), ylim=(-0.03, 1.03))
axis.set_title("Calibrated to what?", loc="left")
axis.legend()
plt.show()

# %%
off = {}
for name, (happened, _) in events.items():
    table = reliability(chance, happened)
    off[name] = (table["frequency"] - table["chance"]).abs().max()
    print(f"{name}: the largest gap to the diagonal is {off[name]:.2f}")
assert off["the teacher thinks"] < 0.15 < 0.2 < off["thinking is needed"]

# %% [markdown]
# As a forecast of its **teacher** the policy is on the diagonal: calibrated. As a statement about the
# **problem** it is far too timid. SFT is a fine imitator, and that is the whole of it: it copies the noise
# with the rest.
#
# In one line: let a problem need thinking with probability $q$, given what the policy sees, and let a label
# be wrong with rate $\varepsilon$. The teacher then thinks with probability
#
# $$p = (1 - \varepsilon) \, q + \varepsilon \, (1 - q), \qquad \text{so} \qquad
# q = \frac{p - \varepsilon}{1 - 2 \varepsilon}.$$

# %%
EPSILON = Noise().wrong_label
without_noise = np.clip((chance - EPSILON) / (1 - 2 * EPSILON), 0, 1)
for name, forecast in {"as it is": chance, "noise taken out": without_noise}.items():
    print(f"{name:16} mean squared distance to the true label: {np.mean((forecast - needs) ** 2):.3f}")
assert np.mean((without_noise - needs) ** 2) < 0.03 < 0.06 < np.mean((chance - needs) ** 2)

# %% [markdown]
# ### A cheap remedy
# If the policy knows, why ask it at temperature 1? At temperature $\tau$ the chance to think becomes
# $p^{1/\tau} / (p^{1/\tau} + (1-p)^{1/\tau})$. Turn the knob:


# %%
def sharpened(p, tau):
    return p ** (1 / tau) / (p ** (1 / tau) + (1 - p) ** (1 / tau))


def right_decisions(p, tau):
    think = sharpened(p, tau)
    return np.where(needs, think, 1 - think).mean()


# %%
def draw(tau):
    figures.use_style()
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.7))
    think = sharpened(chance, tau)
    colors, names = [figures.BEFORE, figures.AFTER], ["not needed", "needed"]
    parts = [think[~needs], think[needs]]
    axes[0].hist(parts, np.linspace(0, 1, 41), stacked=True, color=colors, label=names)
    axes[0].set(xlabel="P(think)", ylabel="problems", title=f"temperature {tau:.2f}")
    axes[0].legend()
    taus = np.linspace(0.1, 2, 60)
    axes[1].plot(taus, [right_decisions(chance, t) for t in taus], color=figures.AFTER, lw=2)
    axes[1].plot(tau, right_decisions(chance, tau), "o", color=figures.BEFORE, ms=9)
    axes[1].set(xlabel="temperature", title="right decisions", ylim=(0.5, 1.02))
    return figure


figures.knobs(draw, tau=(0.5, 0.1, 2.0, 0.05))
sampled = live["judging"].mean()
print(f"at temperature 1: computed {right_decisions(chance, 1):.3f}, sampled in section 6: {sampled:.3f}")
assert abs(right_decisions(chance, 1) - sampled) < 0.1
assert right_decisions(chance, 0.1) > 0.95

# %% [markdown]
# A low temperature mends the decisions of *this* policy, whose labels were wrong at random. Had its teacher
# erred in a *regular* way (always thinking about bars, say), the heaps would stand in the wrong places and no
# temperature would help. The judging reward of notebook 05 compares each decision with a label, and can mend
# both, as far as the labels of RL are better than those of SFT.
#
# ## 8. Your own lesson
# Any family and seed, any response. What would the policy have written, and which of your tokens surprise it?

# %%
mine = make_problem("story", seed=3, split="test")
my_response = r"""<judge>This question needs step-by-step reasoning.</judge>
<think>
left=20
</think>
<answer>\boxed{20}</answer>"""

lesson = {"prompt": [{"role": "user", "content": mine.question}], "image": mine.image,
          "completion": [{"role": "assistant", "content": my_response}]}  # fmt: skip
one = trainer.data_collator([lesson])
with torch.no_grad():
    mine_losses = token_losses(shipped, one)[0]
keep = ~mine_losses.isnan()
figures.token_strip(
    {mine.question: (words(one["input_ids"][0][keep]), mine_losses[keep].numpy())}, "loss, nats"
)
plt.show()
print(f"P(think) = {chance_to_think(shipped, [mine])[0]:.2f}, gold {mine.gold}; the policy itself writes:")
print(respond(shipped, processor, [mine.question], [mine.image], seed=SEED)[0][0])

# %% [markdown]
# ## 9. Exercises
# **Exercise 1 (easy).** A batch has three lessons with 12, 14 and 34 tokens that count. TRL logs a loss of
# 0.2. What is the paper's loss of this batch?

# %%
paper_says = None


# %%
def check_1(value):
    if value is None:
        return "Not yet: put a number in the place of None."
    if abs(value - 12) < 1e-6:
        return "Not yet: that is the sum over all tokens. The paper takes the mean over lessons."
    if abs(value - 0.2 * 20) > 1e-6:
        return "Not yet: a lesson has how many tokens on average, and each costs what?"
    return "Right. 0.2 nats a token are 4 nats a lesson of 20 tokens."


print(check_1(paper_says))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# paper_says = 0.2 * (12 + 14 + 34) / 3
# ```
# </details>
#
# **Exercise 2 (medium).** Suppose we want a policy that is *given* the judgment and learns the rest. Write
# `rest_only(ids)`: labels as in section 1, but nothing counts up to and including `</judge>`.


# %%
def rest_only(ids):
    return labels_by_hand(ids)


# %%
def check_2(rest_only):
    for ids in batch["input_ids"]:
        labels, tokens = rest_only(ids.clone()), words(ids)
        cut = tokens.index("</judge>") + 1
        if (labels[:cut] != -100).any():
            return f"Not yet: {tokens[int((labels != -100).nonzero()[0, 0])]!r} counts, and should not."
        if not torch.equal(labels[cut:], labels_by_hand(ids)[cut:]):
            return "Not yet: what comes after the judgment must count as before."
    return "Right. A policy trained so could think well, and would never learn when."


print(check_2(rest_only))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def rest_only(ids):
#     labels = labels_by_hand(ids)
#     labels[: words(ids).index("</judge>") + 1] = -100
#     return labels
# ```
# </details>
#
# **Exercise 3 (hard).** In practice nobody tells you $\varepsilon$. Write `noise_rate(p)`, which estimates it
# from the chances to think alone. It is checked on our policy, and on made-up ones with a tenth and with four
# tenths of wrong labels, each within 0.04.


# %%
def noise_rate(p):
    return 0.0


# %%
def check_3(noise_rate):
    for epsilon in (0.1, 0.25, 0.4):
        q = np.random.default_rng(1).beta(0.05, 0.05, 800)  # nearly always sure
        p = chance if epsilon == 0.25 else (1 - epsilon) * q + epsilon * (1 - q)
        if abs((found := noise_rate(p)) - epsilon) > 0.04:
            return f"Not yet: you say {found:.2f} where it is {epsilon}."
    return "Right. How unsure a policy sounds about clear questions is the noise of its labels."


print(check_3(noise_rate))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Most problems are clear: $q$ is nearly 0 or 1. What is $p$ then, and what is the smaller of $p$ and $1-p$?
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def noise_rate(p):
#     return float(np.median(np.minimum(p, 1 - p)))
# ```
# </details>
#
# ## Where to go next
# - `sailrl-lite sft` trains the shipped policy again, `sailrl-lite sft --data FILE` goes on from it with a
#   file that `sailrl-lite curate sft` has made (notebook 01).
# - Notebook 03 turns to rewards, beginning with the format; notebook 05 continues section 7 with RL.
