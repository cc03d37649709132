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
# # DAPO: the algorithm, part by part
#
# A reward says how good a response is. An algorithm has to turn it into a change of the weights. SAIL-RL uses
# **DAPO** ([arXiv 2503.14476](https://arxiv.org/abs/2503.14476)), which is policy gradient with five
# mends. Each is one or two lines. You write them yourself, and every number that you get is compared with the
# number that TRL's own `GRPOTrainer` gives for the same batch.
#
# **At the end you will know**
# - what the clipped objective pays and where its gradient is zero, and why the upper limit is wider;
# - what dividing by a group's standard deviation does to easy, hard and all-but-equal groups;
# - which groups teach nothing, and what becomes of them, of cut-off responses, and of missing verdicts;
# - whose gradient a mean over tokens favours, and whose a mean over responses;
# - why clipping does nothing at all with one update a batch, and what it does with five;
# - how the distance from the SFT policy is measured, though nothing in the loss asks for it.
#
# **Time:** about a minute and a half on two CPU cores to run, forty minutes to read.
#
# **Rung:** policy and values of the live runs are the rung's; problems and judge are the micro-world's on
# each, since their truth is exact. What the text says of numbers it says of `preview`.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures
from sailrl_lite.config import EngineConfig, RLConfig, checkpoint_of
from sailrl_lite.rungs import config_of

rung = config_of(RUNG, RLConfig)  # its values of a run; the live runs put shorter ones in their place

# %% [markdown]
# ## 1. The objective on one page
# Take one prompt and $G$ rollouts $o_1 \dots o_G$ of it. $R_i$ is the reward of rollout $i$; its
# **advantage** is what it earned more than its group, $A_i = R_i - \bar R$. Token $t$ of it had the
# probability $\pi_{old}$ when it was sampled, and has $\pi_\theta$ now; $r_{i,t} = \pi_\theta / \pi_{old}$
# is the **ratio**. DAPO makes this as large as it can:
#
# $$J = \frac{1}{\sum_i |o_i|} \sum_i \sum_t
#   \min\bigl(r_{i,t} A_i, \; \mathrm{clip}(r_{i,t}, 1-\varepsilon_{low}, 1+\varepsilon_{high}) \, A_i\bigr)$$
#
# over prompts whose rollouts differ in their reward. No more: no value network, no KL term. Here is what one
# token contributes, as a function of its ratio. (In a running notebook, sliders appear.)


# %%
def objective(ratio, advantage, low=0.20, high=0.28):
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def draw(low, high):
    figures.use_style()
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.2), sharex=True)
    ratio = torch.linspace(0.4, 1.7, 300)
    for axis, advantage, edge in zip(axes, (1, -1), (1 + high, 1 - low), strict=True):
        axis.plot(ratio, ratio * advantage, "--", color="0.6", label=r"$r A$, unclipped")
        axis.plot(ratio, objective(ratio, advantage, low, high), color=figures.AFTER, lw=2.5, label="clipped")
        far = 1.7 if advantage > 0 else 0.4
        axis.axvspan(*sorted((edge, far)), color=figures.BEFORE, alpha=0.15)
        axis.text((edge + far) / 2, 0.05, "gradient 0", ha="center", transform=axis.get_xaxis_transform())
        axis.plot([1], [advantage], "o", color="0.2")
        axis.set(xlabel="ratio r", title=f"A = {advantage:+d}: the token should become "
                 f"{'likelier' if advantage > 0 else 'rarer'}")  # fmt: skip
    axes[0].set_ylabel("what the token contributes")
    axes[0].legend(loc="upper left")
    return figure


figures.knobs(draw, low=(0.20, 0.05, 0.5, 0.01), high=(0.28, 0.05, 0.5, 0.01))

# %% [markdown]
# Every rollout starts at the dot, $r = 1$. Once a good token has become 1.28 times as likely, or a bad one
# 0.8 times, it is left alone. And look at the other side of each panel: a good token that has become *rarer*
# keeps its full gradient, however far it went. Clipping stops a push that has worked; it never stops one that
# has gone wrong.
#
# ## 2. The advantage
# Four groups of five rollouts. The third differs in a format error only, and in the fourth the judge gave no
# verdict for one rollout, which is neither a 0 nor a 1.

# %%
NONE = torch.nan
GROUPS = {
    "two good of five": [1, 1, 0.1, 0.1, 0],
    "one good of five": [1, 0.1, 0.1, 0.1, 0.1],
    "a format error": [0.1, 0.1, 0.1, 0.1, 0],
    "no verdict for one": [NONE, 1, 0.1, 0.1, 0.1],
}
rewards = torch.tensor(list(GROUPS.values()))


def advantages(rewards, scale=False):
    known = ~rewards.isnan()
    centered = rewards - rewards.nanmean(1, keepdim=True)
    if scale:
        spread = (centered.nan_to_num(0) ** 2).sum(1, keepdim=True) / (known.sum(1, keepdim=True) - 1)
        centered = centered / (spread.sqrt() + 1e-4)
    return centered.nan_to_num(0)


# %% [markdown]
# TRL computes its own. `stock` is TRL's trainer as it comes; its reward function pays the table above, row by
# row, whatever the policy writes.

# %%
from trl import GRPOTrainer

from sailrl_lite.training.dapo import group_advantages, has_spread
from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.policies import load_policy, reference_of
from sailrl_lite.training.rl import grpo_config


def pays_the_table(completions, **columns):
    return [None if np.isnan(x) else x for x in rewards.flatten().tolist()]


def new_policy():
    """The SFT policy of the rung, and its processor."""
    return load_policy(checkpoint_of(rung), rung.policy, train=True, seed=SEED)


policy, processor = new_policy()
one_update = replace(rung, prompts=4, rollouts=5, updates=1, steps=1)
args = grpo_config(one_update, Path(tempfile.mkdtemp()))
stock = GRPOTrainer(policy, pays_the_table, args, rl_dataset(4), processing_class=processor)
stock.model.train()
examples = [stock.train_dataset[k] for k in range(4) for _ in range(5)]

# %%
for scale in ("none", "group"):
    stock.scale_rewards = scale
    theirs = stock._generate_and_score_completions(examples)["advantages"].view(4, 5)
    by_hand = advantages(rewards, scale == "group")
    torch.testing.assert_close(by_hand, theirs)
    torch.testing.assert_close(by_hand, group_advantages(rewards, scale == "group"))
    columns = [f"rollout {k}" for k in range(1, 6)]
    print("reward minus mean" if scale == "none" else "... divided by the deviation")
    display(pd.DataFrame(by_hand.numpy(), list(GROUPS), columns).round(2))

# %% [markdown]
# Three things to see.
#
# - **No verdict.** The rollout is out of the mean, and its advantage is 0. Had it been a silent 0, the other
#   four would have looked better than they are, and a trace that nobody judged would be pushed down:

# %%
silent = advantages(rewards.nan_to_num(0))[3]
print("no verdict:", advantages(rewards)[3].numpy().round(2), "\nsilent 0:  ", silent.numpy().round(2))
assert silent[0] < -0.2 and (silent[1:] > advantages(rewards)[3, 1:]).all()

# %% [markdown]
# - **Small differences.** Without the division, the third group's advantages are at most 0.08, as little as
#   its rewards differ. With it they are as large as those of the second group: a slip of the format, worth a
#   tenth, pushes as hard as the answer. Dividing by the deviation cancels $\alpha$ in such groups.
# - **Easy and hard prompts.** Let a reward be 1 with probability $p$ and 0 otherwise. The mean push, $E|A|$,
#   is $2p(1-p)$ without the division, and $2\sqrt{p(1-p)}$ with it, in the limit of large groups:

# %%
scaled = group_advantages(rewards, scale=True)
assert abs(scaled[2, -1] / scaled[1, 0]) > 0.99 and group_advantages(rewards)[2].abs().max() < 0.081

p = np.linspace(0.01, 0.99, 99)
generator = torch.Generator().manual_seed(SEED)
drawn = torch.rand(99, 100, 512, generator=generator) < torch.tensor(p)[:, None, None]
push = {
    scale: np.array([group_advantages(x.float(), scale).abs().mean() for x in drawn])
    for scale in (False, True)
}
assert np.abs(push[False] - 2 * p * (1 - p)).max() < 0.02
assert np.abs(push[True] - 2 * np.sqrt(p * (1 - p))).max() < 0.03

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(6.5, 2.8))
named = {False: ("minus mean", figures.AFTER), True: ("divided by deviation", figures.BEFORE)}
for scale, (label, color) in named.items():
    axis.plot(p, push[scale] / push[scale].max(), color=color, lw=2, label=label)
axis.set(title="Mean push of a prompt, relative to one at p = 0.5", xlabel="p, probability of a good rollout")
axis.set_ylim(0, 1.05)
axis.legend(loc="lower center")
plt.show()
weight = {scale: push[scale][4] / push[scale][49] for scale in push}  # p = 0.05 against p = 0.5
print(f"a prompt at p = 0.05 pushes {weight[False]:.2f} or, divided, {weight[True]:.2f} of one at 0.5")
assert weight[True] > 1.8 * weight[False]

# %% [markdown]
# Division gives very easy and very hard prompts about twice the say they had. The account of the paper
# subtracts the mean and mentions no division, so that is our default (`scale="none"`); DAPO's own paper
# divides (`scale="group"`).
#
# ## 3. Dynamic sampling
# A group whose rollouts all earn the same has no advantage: it costs five rollouts and teaches nothing. If a
# rollout is good with probability $p$, a group of $G$ has spread with probability $1 - p^G - (1-p)^G$. With
# $G = 5$:

# %%
simulated = has_spread(drawn[:, :, :500].float().reshape(-1, 5)).view(99, 10_000).float().mean(1)
formula = 1 - p**5 - (1 - p) ** 5
assert np.abs(simulated.numpy() - formula).max() < 0.03
for k in (4, 49, 94):
    print(f"p = {p[k]:.2f}: {formula[k]:.0%} of the groups have spread (simulated {simulated[k]:.0%})")

# %% [markdown]
# How many groups of the shipped policy have it? Six problems a family, five rollouts each. *Content* is the
# cascade without its format term.

# %%
from sailrl_lite.rewards import get_reward
from sailrl_lite.training.reward import grade
from sailrl_lite.training.rollout import respond
from sailrl_lite.world.problems import FAMILIES, make_problem

problems = [make_problem(family, k, "test") for family in FAMILIES for k in range(6)]
texts = respond(policy, processor, [p.question for p in problems], [p.image for p in problems], 5, seed=SEED)
graded = [[grade(p, text)[1] for text in five] for p, five in zip(problems, texts, strict=True)]
spread = {}
for name, alpha in (("total", 0.9), ("content", 1.0)):
    reward = get_reward("cascade", alpha)
    table = torch.tensor([[reward(c) for c in five] for five in graded])
    spread[name] = has_spread(table).view(len(FAMILIES), 6).float().mean(1).numpy()
    no_trl = torch.isclose(table.std(1), torch.zeros(len(table)))  # how TRL finds them, to count them only
    assert torch.equal(no_trl, ~has_spread(table))
spread = pd.DataFrame(spread, list(FAMILIES))
assert (spread["content"] <= spread["total"]).all()

# %%
figures.use_style()
axis = spread["total"].plot.bar(figsize=(9, 2.6), width=0.7, color=figures.AFTER)
axis.set(title="Share of groups with spread: SFT policy, cascade", ylim=(0, 1.05))
axis.tick_params(axis="x", rotation=30)
axis.grid(axis="x", visible=False)
plt.show()
malformed = np.mean([not c.format for five in graded for c in five])
print(f"all families: total {spread['total'].mean():.2f}, content {spread['content'].mean():.2f};"
      f" malformed responses {malformed:.1%}")  # fmt: skip
assert 0.5 < spread["total"].mean() < 1

# %% [markdown]
# *Total* and *content* part where a group differs only in its format. DAPO filters on right and wrong
# (`filter_on="content"`). The format term, however, is there to give a signal when all else is zero, so the
# default here is `filter_on="total"`. For a policy that has learnt the format, as ours, it makes next to no
# difference.
#
# TRL counts groups without spread and trains on all the same. `DapoTrainer` draws other prompts in their
# place, `refills` times at most, and keeps those with spread first:

# %%
from transformers.trainer_callback import PrinterCallback

from sailrl_lite.judges.specs import get_judge
from sailrl_lite.rewards import for_trl
from sailrl_lite.training.dapo import Dapo, DapoTrainer


def make_trainer(config, dapo=None):
    """The trainer of the package, fresh from the SFT policy, with a line of metrics an update."""
    policy, processor = new_policy()
    args = grpo_config(config, Path(tempfile.mkdtemp()))
    args.logging_steps, args.save_strategy = 1, "no"
    reward = for_trl("cascade", get_judge("exact"))
    data = rl_dataset(1000)
    trainer = DapoTrainer(policy, reward, args, data, processing_class=processor,
                          dapo=dapo or Dapo(), reference=reference_of(policy))  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def one_batch(dapo, **options):
    """What the loss reads, and what was counted, for one generation batch."""
    trainer = make_trainer(replace(rung, prompts=24, steps=1, updates=1, **options), dapo)
    trainer.model.train()
    trainer.state.max_steps = 1  # set by `train`
    rows = [trainer.train_dataset[k] for k in range(24) for _ in range(5)]
    batch = trainer._generate_and_score_completions(rows)
    return batch, {name: values[-1] for name, values in trainer._metrics["train"].items()}


# %%
found = {}
for refills in (0, 1, 3):
    _, counted = one_batch(Dapo(refills=refills))
    found[refills] = [counted[f"groups/{name}"] for name in ("drawn", "informative")]
found = pd.DataFrame(found, ["groups drawn", "of them with spread"]).T.rename_axis("refills")
display(found.astype(int))
assert (found["of them with spread"].diff().dropna() >= 0).all() and found.iloc[0, 0] == 24

# %% [markdown]
# 24 groups were asked for. There is a price: a refill is more rollouts, and rollouts are most of the cost of
# a step at full scale. So there is a limit, and where it is reached, the batch is a little smaller.
#
# ## 4. Ratio and clipping
# From $J$ to its gradient. Where the minimum takes the first term, the token contributes $r A$, and since
# $\nabla r = r \, \nabla \log \pi_\theta$, its gradient is $r A \, \nabla \log \pi_\theta$. Where it takes
# the clipped one, the gradient is 0. So a token counts unless $A > 0$ and $r > 1 + \varepsilon_{high}$, or
# $A < 0$ and $r < 1 - \varepsilon_{low}$. A batch of two responses, to see it in numbers:

# %%
ratio = torch.tensor([[1.5, 0.5, 1.1], [1.5, 0.5, 0.9]])
toy = {
    "advantages": torch.tensor([1.0, -1.0]),
    "old": torch.log(torch.tensor([[0.2, 0.9, 0.05], [0.3, 0.6, 0.1]])),
    "mask": torch.ones(2, 3, dtype=torch.long),
}
now = (toy["old"] + ratio.log()).requires_grad_()  # the log-probabilities under the present policy


def dapo_loss(now, batch, low=0.20, high=0.28):
    ratio = (now - batch["old"]).exp()
    each = objective(ratio, batch["advantages"][:, None], low, high)
    return -(each * batch["mask"]).sum() / batch["mask"].sum()


loss = dapo_loss(now, toy)
(gradient,) = torch.autograd.grad(loss, now)
A = toy["advantages"][:, None]
counts = ~((A > 0) & (ratio > 1.28) | (A < 0) & (ratio < 0.80))
torch.testing.assert_close(gradient, -(ratio * A * counts) / 6)
table = {
    (f"A = {int(a):+d}", name): values[row].tolist()
    for row, a in enumerate(toy["advantages"])
    for name, values in (("ratio", ratio), ("pull, 6 x minus the gradient", -gradient * 6 + 0.0))
}
display(pd.DataFrame(table, [f"token {k}" for k in range(1, 4)]).T.round(2))

# %% [markdown]
# And TRL? Its loss asks one method for the log-probabilities of the present policy. We give it ours, and let
# TRL do the rest:


# %%
def trl_loss(now, batch, ref=None, **settings):
    """The loss that GRPOTrainer itself computes for a batch given as numbers."""
    rows = len(batch["mask"])
    prompt = torch.ones(rows, 1, dtype=torch.long)
    for name, value in ({"beta": 0.0} | settings).items():
        setattr(stock, name, value)
    stock._get_per_token_logps_and_entropies = lambda *_, **__: (now, torch.zeros_like(now), None)
    stock.current_gradient_accumulation_steps = 1  # set by `train`
    return stock._compute_loss(stock.model, {
        "prompt_ids": prompt, "prompt_mask": prompt, "completion_ids": torch.zeros_like(batch["mask"]),
        "completion_mask": batch["mask"], "advantages": batch["advantages"],
        "old_per_token_logps": batch["old"], "ref_per_token_logps": ref,
        "num_items_in_batch": batch.get("items", batch["mask"].sum()),
    })  # fmt: skip


theirs = trl_loss(now, toy, loss_type="dapo", epsilon_low=0.20, epsilon_high=0.28)
torch.testing.assert_close(loss, theirs)
torch.testing.assert_close(gradient, torch.autograd.grad(theirs, now)[0])
clipped = stock._metrics["train"]["clip_ratio/region_mean"][-1]
print(f"by hand {loss:.6f}, TRL {theirs:.6f}; clipped tokens {clipped:.3f}")
assert np.isclose(clipped, (~counts).float().mean())

# %% [markdown]
# **Clip-higher.** Why is the upper limit wider? A ratio limits a *relative* change. A token of probability
# 0.9 can never reach 1.28 times that; a token of 0.01 is stopped at 0.0128. So the upper limit binds only
# rare tokens, the ones in which exploration consists, and DAPO loosens it. The lower limit stays, since
# loosening it would let tokens be pushed to nothing.

# %%
old = torch.tensor([0.9, 0.5, 0.1, 0.01])
limits = pd.DataFrame({"stopped at, high = 0.20": old * 1.2, "high = 0.28": old * 1.28}, old.tolist())
limits = limits.round(4).astype(object).where(limits < 1, "never")
display(limits.rename_axis("probability when sampled"))
for high in (0.20, 0.28):  # past the limit the gradient is 0, just below it is not
    for probability in (0.1, 0.01):
        for beyond in (0.999, 1.001):
            moved = torch.tensor(probability * (1 + high) * beyond, requires_grad=True)
            objective(moved / probability, torch.tensor(1.0), 0.2, high).backward()
            assert (moved.grad == 0) == (beyond > 1)

# %% [markdown]
# It is no wall. A large step can carry a ratio far past the limit; clipping only means that this token does
# not push further in the updates that follow on the same batch.
#
# ## 5. Tokens or responses
# GRPO takes the mean over the tokens of each response and then over responses; DAPO one mean over all tokens.
# The difference is whose gradient counts how much. A direct answer of 4 tokens and a trace of 12, before the
# first update, so that all ratios are 1:

# %%
lengths = torch.tensor([4, 12])
pair = {
    "advantages": torch.tensor([1.0, -1.0]),
    "old": torch.full((2, 12), -0.5),
    "mask": (torch.arange(12) < lengths[:, None]).long(),
}


def denominators(how, lengths, longest=12):
    """What the sum over the tokens of each response is divided by."""
    return {
        "dapo": lengths.sum().expand(len(lengths)),  # all tokens of the batch
        "grpo": len(lengths) * lengths,  # responses, and the tokens of this one
        "dr_grpo": torch.full_like(lengths, len(lengths) * longest),  # a constant
    }[how]


# %%
stock.max_completion_length = 12
shares = {}
for how in ("grpo", "dapo", "dr_grpo"):
    now = pair["old"].clone().requires_grad_()
    each = (now - pair["old"]).exp() * pair["advantages"][:, None] * pair["mask"]
    loss = -(each.sum(1) / denominators(how, lengths)).sum()
    (gradient,) = torch.autograd.grad(loss, now)
    theirs = trl_loss(now, pair, loss_type=how)
    torch.testing.assert_close(loss, theirs)
    torch.testing.assert_close(gradient, torch.autograd.grad(theirs, now)[0])
    size = gradient.abs().sum(1)
    shares[how] = [*gradient.abs().amax(1).tolist(), *(size / size.sum()).tolist()]
columns = ["a token, direct", "a token, trace", "share, direct", "share, trace"]
shares = pd.DataFrame(shares, columns).T
display(shares.round(3))
assert np.allclose(shares["share, trace"], [0.5, 0.75, 0.75])

# %% [markdown]
# With a mean over responses, a token of the trace weighs a third of a token of the answer: a long, bad trace
# is hardly punished for its length, and a long good one hardly learnt. With a mean over tokens all weigh
# alike, and a long response as a whole weighs more. That matters where two *modes* of very different length
# are compared, as in SAIL-RL. In the rollouts of section 3:

# %%
size = [len(processor.tokenizer(text)["input_ids"]) for five in texts for text in five]
modes = pd.DataFrame({"tokens": size, "mode": [c.decision or "none" for five in graded for c in five]})
modes = modes[modes["mode"] != "none"]
by_mode = modes.groupby("mode")["tokens"].agg(["mean", "size", "sum"])
by_mode["share, mean over responses"] = by_mode["size"] / by_mode["size"].sum()
by_mode["share, mean over tokens"] = by_mode["sum"] / by_mode["sum"].sum()
display(by_mode.round(2))
assert by_mode.loc["think", "share, mean over tokens"] > by_mode.loc["think", "share, mean over responses"]

# %% [markdown]
# **Rows that need not be computed.** A row of advantage 0 has no gradient, and `DapoTrainer` does not send it
# through the model. But its tokens must stay in the denominator, or the others would weigh more:

# %%
three = {
    "advantages": torch.tensor([1.0, 0.0, -1.0]), "old": torch.full((3, 4), -0.5),
    "mask": torch.ones(3, 4, dtype=torch.long),
}  # fmt: skip
full_now = three["old"].clone().requires_grad_()
(full,) = torch.autograd.grad(trl_loss(full_now, three, loss_type="dapo"), full_now)
kept = {name: value[[0, 2]] for name, value in three.items()} | {"items": three["mask"].sum()}
kept_now = kept["old"].clone().requires_grad_()
(packed,) = torch.autograd.grad(trl_loss(kept_now, kept, loss_type="dapo"), kept_now)
torch.testing.assert_close(full[[0, 2]], packed)
print("the same gradient from two rows of three:", packed[:, 0].tolist())

# %% [markdown]
# ## 6. Overlong responses
# A response that reaches the limit is cut off. It has no answer, so it earns 0, not because it was wrong but
# because it was long. DAPO's *overlong filtering* leaves it out of the loss (`overlong="mask"`), while it
# stays in its group's mean. Here with a limit of 16 tokens, so that there are some:

# %%
cut = {}
for overlong in ("keep", "mask"):
    batch, counted = one_batch(Dapo(refills=0, overlong=overlong), max_new_tokens=16)
    whole = (batch["completion_ids"] == stock._tokenizer.convert_tokens_to_ids("<|im_end|>")).any(1)
    used = batch["advantages"] != 0
    cut[overlong] = [counted["truncated"], int(used.sum()), int((used & ~whole).sum())]
cut = pd.DataFrame(cut, ["share cut off", "rows trained on", "of them cut off"]).T
display(cut.round(2))
assert cut.loc["mask", "of them cut off"] == 0 < cut.loc["keep", "of them cut off"]

# %% [markdown]
# Masking has its own danger: nothing now tells the policy to be shorter. DAPO adds a soft punishment for
# length to the reward; the account of SAIL-RL mentions none, and neither do we add one.
#
# ## 7. One batch, several updates
# The paper's figures (appendix A.2): 256 prompts, 5 rollouts each, so 1,280 responses a generation batch; 256
# responses an update, so **five updates** on each batch; three epochs over 70,000 prompts. In TRL's words:

# %%
paper = config_of("paper", RLConfig)
paper = replace(paper, device_batch=0, engine=EngineConfig())  # as if one device held all of it
args = grpo_config(paper, Path(tempfile.mkdtemp()))
print("generation batch:", args.generation_batch_size, "  an update:", args.per_device_train_batch_size)
assert args.generation_batch_size == 1280 and args.per_device_train_batch_size == 256
batches = -(-3 * 70_000 // 256)
assert batches == paper.steps
print(f"{batches} batches, {5 * batches} updates, {3 * 5 * 70_000:,} rollouts")

# %% [markdown]
# Why does this matter? In the first update on a batch the policy *is* the one that sampled it, so every
# ratio is 1 and nothing is clipped. Only from the second update on can clipping act. With one update a batch
# it is decoration. Watch it: the same number of batches, one update each, and five.

# %%
shape = {"prompts": 24, "rollouts": 5, "seed": SEED}
runs = {}
for updates, steps in ((1, 4), (5, 14)):
    trainer = make_trainer(replace(rung, updates=updates, steps=steps, **shape))
    trainer.train()
    log = pd.DataFrame([entry for entry in trainer.state.log_history if "loss" in entry])
    log["batch"], log["update"] = np.divmod(np.arange(len(log)), updates)
    runs[updates] = log
trained = trainer.model.eval()
fractions = {n: log.groupby("update")["clip_ratio/region_mean"].mean() for n, log in runs.items()}
print({n: by_update.round(4).tolist() for n, by_update in fractions.items()})

# %%
one, five = runs[1]["clip_ratio/region_mean"], fractions[5]
assert (one == 0).all() and five[0] == 0 and (five[1:] > 0).all() and five.max() < 0.03

figures.use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 2.8), width_ratios=[1, 1.5])
sides = runs[5].groupby("update")[["clip_ratio/high_mean", "clip_ratio/low_mean"]].mean() * 100
sides.index += 1
assert sides["clip_ratio/low_mean"].sum() > sides["clip_ratio/high_mean"].sum()
sides.plot.bar(stacked=True, ax=left, color=[figures.AFTER, figures.BEFORE], rot=0, width=0.7)
left.legend(["too likely, $A>0$", "too rare, $A<0$"])
left.set(title="Clipped tokens, %", xlabel="update on the same batch")
left.grid(axis="x", visible=False)
by_batch = runs[5].groupby("batch")
right.plot(by_batch["reward"].mean().dropna(), lw=2, color=figures.AFTER, label="reward")
right.plot(by_batch["judging"].mean().dropna(), lw=2, color=figures.BEFORE, label="judging")
right.set(title="The same run: reward, and rightly chosen modes", xlabel="generation batch", ylim=(0, 1))
right.legend()
plt.show()

# %% [markdown]
# None in the first update, then more with each: the policy moves away from the one that sampled. Nearly all
# are bad tokens that have become rare. But they are few; with a learning rate as small as ours clipping is a
# safeguard and not what shapes the run. It is a small run (120 rollouts a batch), made for looking and not
# for proof; `sailrl-lite rl` makes a longer one.
#
# ### What "clip within [0.20, 0.28]" may mean
# The paper says that the clip value is "dynamically adjusted" within this range, and no more. Two readings:
#
# 1. **asymmetric**: DAPO's clip-higher with its own values, 0.20 below and 0.28 above. DAPO's paper has just
#    these two numbers, which speaks for this reading. It is the default.
# 2. **adaptive**: one $\varepsilon$ for both sides that moves inside the range, narrower when more than a
#    target share of tokens is clipped, wider when fewer are.
#
# The second in one line, checked against a run:


# %%
def move(epsilon, clipped, target=0.02):
    return min(0.28, max(0.20, epsilon + (-0.005 if clipped > target else 0.005)))


target = float(runs[5]["clip_ratio/region_mean"].median())  # of the run above, so that both ways occur
trainer = make_trainer(replace(rung, updates=5, steps=3, **shape), Dapo("adaptive", clip_target=target))
trainer.train()
log = pd.DataFrame([entry for entry in trainer.state.log_history if "loss" in entry])
epsilon, expected = 0.28, []
for clipped in log["clip_ratio/region_mean"]:
    epsilon = move(epsilon, clipped, target)
    expected.append(epsilon)
print("epsilon after each update:", log["clip/high"].round(3).tolist())
assert np.allclose(expected, log["clip/high"]) and np.allclose(log["clip/low"], log["clip/high"])

# %% [markdown]
# ## 8. No KL term, but KL measured
# Many algorithms add $\beta \, KL(\pi_\theta \| \pi_{SFT})$ to the loss, to stay near the start. DAPO and
# SAIL-RL do not. How far the policy has gone is worth knowing all the same. The exact KL needs the
# probability of *every* token at every place; from the sampled tokens alone one can estimate it. With
# $d = \log \pi_\theta - \log \pi_{SFT}$ of the sampled token, both $d$ and $k_3 = e^{-d} + d - 1$ have the
# right mean. On a toy vocabulary of five:

# %%
now_p = torch.tensor([0.50, 0.25, 0.15, 0.07, 0.03])
sft_p = torch.tensor([0.40, 0.30, 0.10, 0.12, 0.08])
exact = float((now_p * (now_p / sft_p).log()).sum())
generator = torch.Generator().manual_seed(SEED)
sampled = torch.multinomial(now_p, 20_000, replacement=True, generator=generator)
d = (now_p / sft_p).log()[sampled]
k3 = (-d).exp() + d - 1
print(f"exact {exact:.4f}")
for name, estimate in (("d", d), ("k3", k3)):
    error = float(estimate.std()) / len(d) ** 0.5
    print(f"{name:3} mean {estimate.mean():.4f} +- {error:.4f}, one sample's deviation {estimate.std():.3f}")
    assert abs(estimate.mean() - exact) < 4 * error
assert k3.std() < d.std() and (k3 >= 0).all()

# %% [markdown]
# $k_3$ is never negative and varies less, so it is what TRL and we use. TRL's loss with a KL term, on the
# batch of section 4. As the tokens were sampled by the old policy, each $k_3$ is weighed by its ratio:

# %%
now = (toy["old"] + ratio.log()).requires_grad_()
ref = toy["old"] + torch.tensor([[0.3, -0.2, 0.1], [-0.4, 0.2, 0.0]])
d = now - ref
by_hand = dapo_loss(now, toy) + 0.1 * (ratio * ((-d).exp() + d - 1)).mean()
theirs = trl_loss(now, toy, ref, loss_type="dapo", beta=0.1)
torch.testing.assert_close(by_hand, theirs)
print(f"without {dapo_loss(now, toy):.4f}, with beta = 0.1 {theirs:.4f}, by hand {by_hand:.4f}")

# %% [markdown]
# And now the policy that was trained above, against its start. For each token that it wrote itself, the
# exact KL over the whole vocabulary, beside $k_3$ of this one token:

# %%
from sailrl_lite.training.models import encode_prompts
from sailrl_lite.training.rollout import sample

sft, _ = new_policy()
inputs = dict(encode_prompts(processor, [p.question for p in problems], [p.image for p in problems]))
rolled = sample(trained, inputs, 4, seed=SEED).ids
width = max(map(len, rolled))
ids = torch.tensor([row + [0] * (width - len(row)) for row in rolled])
known = torch.arange(width) < torch.tensor([[len(row)] for row in rolled])


@torch.no_grad()
def log_probs_of(model):
    """(rows, width, vocabulary): of every token that could have stood at each place of a rollout."""
    text = {name: inputs[name].repeat_interleave(4, 0) for name in ("input_ids", "mm_token_type_ids")}
    mask = torch.cat([inputs["attention_mask"].repeat_interleave(4, 0), known.long()], 1)
    picture = inputs["pixel_values"].view(len(problems), -1, inputs["pixel_values"].shape[1])
    output = model(
        input_ids=torch.cat([text["input_ids"], ids], 1), attention_mask=mask,
        mm_token_type_ids=torch.cat([text["mm_token_type_ids"], torch.zeros_like(ids)], 1),
        pixel_values=picture.repeat_interleave(4, 0).flatten(0, 1),
        image_grid_thw=inputs["image_grid_thw"].repeat_interleave(4, 0),
    )  # fmt: skip
    return output.logits[:, -width - 1 : -1].float().log_softmax(-1)


# %%
after, before = log_probs_of(trained), log_probs_of(sft)
exact = (after.exp() * (after - before)).sum(-1)[known]
d = (after - before).gather(2, ids[..., None])[..., 0][known]
k3 = (-d).exp() + d - 1
gap = k3 - exact
print(f"{len(d)} tokens: exact {exact.mean():.4f}, k3 {k3.mean():.4f} +- {k3.std() / len(d) ** 0.5:.4f}")
most = exact.sort().values[-len(d) // 10 :].sum() / exact.sum()
print(f"one token in ten holds {most:.0%} of it")
assert abs(gap.mean()) < 5 * gap.std() / len(d) ** 0.5 and most > 0.5

# %%
strips, each = {}, (after.exp() * (after - before)).sum(-1)
for k in (0, 4 * 6 * list(FAMILIES).index("add")):
    pieces = [processor.tokenizer.decode([token]) for token in rolled[k]]
    strips[problems[k // 4].question] = (pieces, each[k][known[k]].tolist())
figures.token_strip(strips, "exact KL at this place")
plt.show()

# %% [markdown]
# The estimate is right on average, and noisy: most tokens have hardly moved, and a few carry nearly
# everything, above all the one that decides whether to think. That is why the curve of KL in `metrics.csv`
# jumps. What a KL *term* would save or cost is one of the study's open questions.
#
# ## 9. Your own batch
# Rewards of a few groups (`NONE` for no verdict), lengths of the responses, ratios. What does each response
# weigh in the gradient?

# %%
my_rewards = torch.tensor([[1.0, 0.7, 0.1], [0.1, 0.1, NONE]])
my_lengths = torch.tensor([[6, 20, 18], [5, 7, 9]])
my_ratio = 1.1  # of every token

steps = torch.arange(int(my_lengths.max()))
mine = {
    "advantages": group_advantages(my_rewards).flatten(),
    "mask": ((steps < my_lengths.flatten()[:, None]) & ~my_rewards.isnan().flatten()[:, None]).long(),
    "old": torch.full((my_rewards.numel(), len(steps)), -1.0),
}
now = (mine["old"] + np.log(my_ratio)).requires_grad_()
loss = dapo_loss(now, mine)
torch.testing.assert_close(loss, trl_loss(now, mine, loss_type="dapo"))
pull = -torch.autograd.grad(loss, now)[0].sum(1)
names = [f"group {g + 1}, rollout {k + 1}" for g, k in np.ndindex(*my_rewards.shape)]
print("groups with spread:", has_spread(my_rewards).tolist(), f"  loss {loss:.4f}")
shown = {"reward": my_rewards.flatten(), "advantage": mine["advantages"], "pull": pull}
display(pd.DataFrame(shown, names).round(3))

# %% [markdown]
# ## 10. Exercises
# **Exercise 1 (easy).** Clip-higher with 0.20 and 0.28. A good token ($A > 0$) was sampled with probability
# 0.05: from which probability on is it left alone? And a bad one ($A < 0$) that was sampled with 0.5?

# %%
good_token_stops_at = None
bad_token_stops_at = None


# %%
def check_1(good, bad):
    if good is None or bad is None:
        return "Not yet: put a probability in the place of each None."
    for name, value, old, advantage in (("good", good, 0.05, 1.0), ("bad", bad, 0.5, -1.0)):
        slopes = []
        for nudge in (-0.001, 0.001):
            moved = torch.tensor(value / old * (1 + nudge), requires_grad=True)
            objective(moved, torch.tensor(advantage)).backward()
            slopes.append(float(moved.grad) != 0)
        if slopes != [advantage > 0, advantage < 0]:
            return f"Not yet: the {name} token's gradient does not end at {value:g}. Multiply, do not add."
    return "Right. The limits are relative: rare tokens may move less, in probability, than common ones."


print(check_1(good_token_stops_at, bad_token_stops_at))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# good_token_stops_at = 0.05 * 1.28
# bad_token_stops_at = 0.5 * 0.80
# ```
# </details>
#
# **Exercise 2 (medium).** The cascade does not pay 0 and 1 only. Let it pay each of several values with the
# probabilities `chances` (they sum to 1). How likely is it that a group of `rollouts` has spread?


# %%
def my_spread(chances, rollouts):
    return 1 - chances[0] ** rollouts


# %%
def check_2(rule):
    for chances, rollouts in (((0.5, 0.5), 5), ((0.7, 0.2, 0.1), 5), ((0.9, 0.05, 0.05), 2), ((1.0,), 5)):
        generator = torch.Generator().manual_seed(1)
        weights = torch.tensor(chances)
        values = torch.multinomial(weights, 40_000 * rollouts, replacement=True, generator=generator)
        seen = float(has_spread(values.view(-1, rollouts).float()).float().mean())
        if abs(rule(chances, rollouts) - seen) > 0.01:
            said = rule(chances, rollouts)
            return f"Not yet: for {chances} and {rollouts} rollouts you say {said:.3f}, but it is {seen:.3f}."
    return "Right. A group lacks spread only if all of its rollouts drew the same value."


print(check_2(my_spread))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def my_spread(chances, rollouts):
#     return 1 - sum(chance**rollouts for chance in chances)
# ```
# </details>
#
# **Exercise 3 (hard).** Write the whole loss: from the rewards of groups, NaN where there is no verdict, to
# one number. A row without a verdict is in neither sum nor denominator. TRL is the judge, on ten random
# batches.


# %%
def my_loss(now, old, rewards, mask, low, high):
    """now, old: (groups * G, T) log-probabilities; rewards: (groups, G); mask: (groups * G, T) of 0 and 1."""
    return now.mean()


# %%
def check_3(mine):
    for seed in range(10):
        g = torch.Generator().manual_seed(seed)
        rewards = torch.randint(0, 4, (3, 5), generator=g) / 3
        rewards[0, seed % 5] = torch.nan
        mask = (torch.arange(6) < torch.randint(1, 7, (15, 1), generator=g)).long()
        old = -torch.rand(15, 6, generator=g) * 2
        now = old + 0.3 * torch.randn(15, 6, generator=g)
        scored = mask * ~rewards.isnan().flatten()[:, None]
        batch = {"advantages": group_advantages(rewards).flatten(), "old": old, "mask": scored}
        due = trl_loss(now, batch, loss_type="dapo", epsilon_low=0.2, epsilon_high=0.28)
        said = torch.as_tensor(mine(now, old, rewards, mask, 0.2, 0.28))
        if said.isnan():
            return "Not yet: the loss is NaN. A missing verdict got into a sum; `nan_to_num` or `where` help."
        if not torch.isclose(said, due, atol=1e-5):
            return f"Not yet: batch {seed} gives {said:.4f}, TRL says {due:.4f}."
    return "Right: ten batches, and TRL agrees with every one."


print(check_3(my_loss))

# %% [markdown]
# <details><summary>Hint</summary>
#
# `advantages` of section 2, then `objective` of section 1, then a masked mean. Multiply the mask by
# "has a verdict" before you sum it.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_loss(now, old, rewards, mask, low, high):
#     scored = mask * ~rewards.isnan().flatten()[:, None]
#     each = objective((now - old).exp(), advantages(rewards).flatten()[:, None], low, high)
#     return -(each * scored).sum() / scored.sum()
# ```
# </details>
#
# ## Where to go next
# - `sailrl_lite/training/dapo.py` is all of this; `sailrl-lite rl --set clip=adaptive --set
#   scale=group` runs the variants.
# - Notebook 06 is about what goes *into* the algorithm: why the reward is a product.
