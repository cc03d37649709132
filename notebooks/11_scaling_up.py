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
# # Scaling up: from a CPU to 64 GPUs
#
# Everything so far ran on a CPU, with a policy of 1.6 million parameters. The paper trained one of eight
# billion on 64 GPUs. Between the two lies a **ladder** of four rungs, and one claim: moving up changes
# values and no code. Here you look at this claim from all sides, and work out what a rung needs before you
# rent it.
#
# **At the end you will know**
# - what changes from rung to rung, and where each value comes from;
# - that TRL, verl and pencil and paper pay the same reward for the same response, and where they part;
# - how memory, hours and the judge's bill follow from three short formulas, and how far to trust them;
# - which line starts each rung, and what the code of the next rung does on your CPU;
# - the traps that cost others days, each in a few lines;
# - how to watch a run, when to stop it, and what stopping too early costs.
#
# Not one number here was measured on a GPU: the upper rungs were *not run*. Their code was, on a CPU and with
# small weights, and section 8 does it before your eyes.
#
# **Time:** about a minute on two CPU cores to run, an hour to read.
#
# **Rung:** sections 1 to 7 show all four side by side, and 8 to 11 are about the micro policy, whatever the
# rung. `RUNG` is yours: section 2 makes mistakes in its values, and section 7 says what it needs to start.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import logging
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from matplotlib import pyplot as plt

import sailrl_lite
from sailrl_lite import figures
from sailrl_lite.config import SHIPPED, PlanConfig, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.figures.style import BLACK, BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from sailrl_lite.rungs import RUNGS, config_of, origins, read_rung

read_rung(RUNG)
PACKAGE = Path(sailrl_lite.__file__).parent
WORK = Path(tempfile.mkdtemp())  # all files of this notebook
pd.set_option("display.max_colwidth", 80)

# %% [markdown]
# ## 1. Four rungs in one picture

# %%
from sailrl_lite.plan.estimate import make_plan, shape_for


def plan_of(rung, kind=RLConfig, values=None, assumed=None):
    """What a stage of a rung needs, with some values changed."""
    config = config_of(rung, kind).with_values(values or {})
    assumption = config_of(rung, PlanConfig).with_values(assumed or {})
    return make_plan(config, assumption, shape_for(config, config_of(rung, SFTConfig)))


plans = {rung: plan_of(rung) for rung in RUNGS}
ladder = pd.DataFrame({
    "parameters of the policy": [p.setup.shape.parameters for p in plans.values()],
    "of them trained": [p.setup.trained for p in plans.values()],
    "GPUs": [p.setup.gpus if p.gpu.memory else 0 for p in plans.values()],
    "rollouts of a run": [p.steps * p.setup.batch for p in plans.values()],
    "longest response, tokens": [p.setup.longest_completion for p in plans.values()],
    "operations of a run": [p.steps * p.operations.total for p in plans.values()],
}, list(RUNGS))  # fmt: skip
assert ladder.drop(columns="of them trained").apply(lambda column: column.is_monotonic_increasing).all()

# %%
figures.use_style()
figure, axes = plt.subplots(1, 4, figsize=(11, 2.7))
shown = ("parameters of the policy", "GPUs", "rollouts of a run", "operations of a run")
for axis, column in zip(axes, shown, strict=True):
    bars = axis.bar(RUNGS, ladder[column], color=[GREY, SKY, BLUE, PURPLE])
    axis.bar_label(bars, [f"{value:.2g}" for value in ladder[column]], fontsize=8)
    axis.set_title(column)
    axis.set_yscale("symlog" if column == "GPUs" else "log")
    axis.margins(y=0.15)
    axis.tick_params(axis="x", rotation=30)
    axis.grid(axis="x", visible=False)
plt.show()
display(ladder.map(lambda value: f"{value:.3g}"))

# %% [markdown]
# Mind the axes: from the first rung to the last, the operations grow by eight orders of magnitude, and
# the rollouts by fifty times. A step up is a larger policy and longer responses, much more than more of them.
#
# ## 2. Only values change
# A rung is a file of values, `sailrl_lite/rungs/NAME.toml`. All four fill in the *same* configuration. These
# are the values of RL in which they differ:

# %%
values = pd.DataFrame({rung: config_of(rung, RLConfig).flat() for rung in RUNGS})
differ = values[values.astype(str).nunique(axis=1) > 1]
display(differ.astype(object).where(differ.astype(str) != "", "(what ships)"))
print(f"{len(differ)} values of {len(values)} differ")
assert len({type(config_of(rung, RLConfig)) for rung in RUNGS}) == 1
assert {"rollouts", "alpha", "clip", "scale"}.isdisjoint(set(differ.index) - {"alpha"})  # the method is one

# %% [markdown]
# `alpha` is no difference either: `None` is the reward's own, which is 0.9. What makes SAIL-RL what it is
# (the reward, five rollouts, the clip range, no division by the deviation) is the same everywhere.
#
# And no code that trains, rewards or judges asks on which rung it is:

# %%
named = [
    file.relative_to(PACKAGE).as_posix()
    for room in ("training", "rewards", "judges", "rungs")
    for file in sorted((PACKAGE / room).rglob("*.py"))
    if re.search(r"""["'](single-gpu|node)["']""", file.read_text(encoding="utf-8"))
]
print("files that name a rung:", named)
assert named == ["rungs/__init__.py"]  # the list of them

# %% [markdown]
# ### Where does a value come from?
# From what you gave, else the file of the rung, else the default; and the file says what it rests on. This is
# `sailrl-lite config show --rung paper --set steps=100`, without the defaults:

# %%
rows = origins(read_rung("paper"), RLConfig, {"steps": "100"})
table = pd.DataFrame(rows, columns=["setting", "value", "from", "what it rests on"]).set_index("setting")
display(table[table["from"] != "default"])
assert table.loc["steps", "from"] == "given" and table.loc["rollouts", "what it rests on"] == "the account: 5"

# %% [markdown]
# A wrong name or a wrong value never goes unnoticed into a run of twenty hours. It is refused in one line, by
# the command line, by the notebook, and in a rung file of your own alike:


# %%
def said(action, *args, **kwargs):
    """The one line with which something is refused."""
    try:
        action(*args, **kwargs)
    except SailRLError as error:
        return str(error)
    raise AssertionError("it was not refused")


# %%
def checked(values, rung=RUNG):
    config_of(rung, RLConfig).with_values(values).check()


for mistake in ({"learning_rat": "1e-5"}, {"engine.sampler": "vlm"}, {"prompts": "many"}, {"updates": "7"}):
    print(mistake, "->", said(checked, mistake))
own = WORK / "mine.toml"
own.write_text('about = "half a node"\n[engine]\nproceses = 4\n', encoding="utf-8")
print("mine.toml ->", said(read_rung, str(own)).replace(str(WORK), "."))
own.write_text('about = "half a node"\n[engine]\nprocesses = 4\nsharding = "fsdp2"\n', encoding="utf-8")
print(read_rung(str(own)).values)

# %% [markdown]
# ## 3. The same reward on each rung
# The lower rungs train with TRL, the upmost with verl. TRL calls what `for_trl` makes, once for a batch. verl
# calls `compute_score`, once for each response, with what stands in its Parquet file. Rollouts of the shipped
# policy, two for each family, and what both say of them:

# %%
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.rewards import for_trl
from sailrl_lite.rewards.verl import compute_score
from sailrl_lite.training.policies import load_policy
from sailrl_lite.training.rollout import respond
from sailrl_lite.world.problems import FAMILIES, make_problem

policy, processor = load_policy(SHIPPED)
problems = [make_problem(family, 0, "test") for family in FAMILIES]
twos = respond(policy, processor, [p.question for p in problems], [p.image for p in problems], 2, seed=SEED)
cases = [(p, text) for p, two in zip(problems, twos, strict=True) for text in two]
cases.append((problems[0], "<answer>7</answer>"))  # and a malformed one


# %%
async def by_trl(cases, judge=None):
    columns = {
        "gold": [p.gold for p, _ in cases], "needs_thinking": [p.needs_thinking for p, _ in cases],
        "question": [p.question for p, _ in cases], "problem": [p for p, _ in cases],
        "image": [p.image for p, _ in cases],
    }  # fmt: skip
    function = for_trl("cascade", judge or get_judge("exact"))
    return await function([text for _, text in cases], **columns)


async def by_verl(cases, judge="exact"):
    rows = []
    for p, text in cases:
        truth = {"family": p.family, "seed": p.seed, "split": p.split, "shortcut": 0.0}
        info = {"needs_thinking": p.needs_thinking, "question": p.question, "problem": truth}
        rows.append(await compute_score("micro", text, p.gold, info, judge=judge))
    return rows


# %% [markdown]
# And by hand, from the formula and the verifier:

# %%
from sailrl_lite.training.reward import grade


def by_hand(p, text, alpha=0.9):
    c = grade(p, text)[1]
    thinking = (c.logic + c.grounding + c.consistency) / 3
    return (alpha * c.judging * thinking * c.answer + 1 - alpha) if c.format else 0.0


trl_says, verl_says = await by_trl(cases), await by_verl(cases)
hand_says = [by_hand(p, text) for p, text in cases]
three = pd.DataFrame({"TRL": trl_says, "verl": [row["score"] for row in verl_says], "by hand": hand_says})
display(three.value_counts(sort=False).rename("responses").reset_index().round(3))
assert np.allclose(three["TRL"], three["by hand"]) and np.allclose(three["verl"], three["by hand"])
assert three["TRL"].nunique() > 2  # not all the same

# %% [markdown]
# ### Where they part: no verdict
# TRL has a word for a rollout without a reward, `None`; verl's baseline takes every score. So the same
# failure of a judge has two consequences:

# %%
from sailrl_lite.judges.protocol import Judge, NoVerdict
from sailrl_lite.training.dapo import group_advantages


class Silent(Judge):
    name = "silent"

    async def judge(self, cases, continuous=False, sample=0):
        return [NoVerdict("timeout")] * len(cases)


thought = next((p, text) for p, text in cases if by_hand(p, text) > 0.99 and grade(p, text)[0].think)
(no_reward,) = await by_trl([thought], Silent())
(row,) = await by_verl([thought], Silent())
print("TRL:", no_reward, "  verl:", {name: row[name] for name in ("score", "unscored", "thinking")})
group = {"TRL": [torch.nan, 1, 0.1, 0.1, 0.1], "verl": [row["score"], 1, 0.1, 0.1, 0.1]}
for engine, rewards in group.items():
    print(f"{engine:5} advantages", group_advantages(torch.tensor([rewards]))[0].numpy().round(2))
assert no_reward is None and row["score"] == 0 and row["unscored"] == 1

# %% [markdown]
# With verl a rollout that nobody judged is pushed down, and the others look better than they are. So on that
# rung `unscored` is what to watch; at more than half of the judged ones `compute_score` stops the run.
#
# **Your own response**, as both engines see it:

# %%
my_problem = make_problem("angle", 0, "test")
my_text = r"<judge>This question needs step-by-step reasoning.</judge><think>50+60=110</think>"
my_text += r"<answer>\boxed{70}</answer>"

(mine,), (mine_verl,) = await by_trl([(my_problem, my_text)]), await by_verl([(my_problem, my_text)])
print(f"TRL {mine:.3f}, verl {mine_verl['score']:.3f}, by hand {by_hand(my_problem, my_text):.3f}")
print(mine_verl)
assert np.isclose(mine, mine_verl["score"])

# %% [markdown]
# ## 4. What fits: three formulas
# **States.** AdamW in mixed precision keeps, for each trained parameter, the weight and its gradient in two
# bytes each, and in four bytes each a precise copy of the weight and two moments: $2 + 2 + 3 \cdot 4 = 16$
# bytes ([ZeRO](https://arxiv.org/abs/1910.02054), section 3.1). Sharded over $n$ GPUs each holds one $n$-th.
#
# **Cache.** While a response is written, each layer keeps a key and a value for every token so far, in two
# bytes a number: $2 \cdot 2 \cdot \text{layers} \cdot \text{width of the keys}$ bytes a token.
#
# **Work.** A token takes a multiplication and an addition for each parameter on the way forward, and twice as
# many on the way back: $6 N$ operations for each token that is trained on, $2 N$ for one that is sampled.
#
# With them, the training of one step of the `node` rung by hand (a step is what stands in a row of
# `metrics.csv`: a batch of rollouts, and here five updates); and by the package, which also counts attention,
# the picture's part and much else:

# %%
from sailrl_lite.plan.hardware import GIB
from sailrl_lite.plan.memory import states

node, shape = plans["node"], plans["node"].setup.shape
N, text = shape.parameters, shape.text
states_by_hand = 16 * N
cache_by_hand = 2 * 2 * text.layers * text.keys
tokens = node.setup.batch * (node.setup.prompt + node.setup.completion)
work_by_hand = 6 * N * tokens

work = node.operations.forward + node.operations.backward
print(f"states {states_by_hand / GIB:.1f} GiB, on each of 8 GPUs {states_by_hand / 8 / GIB:.1f} GiB")
longest = node.setup.longest_prompt + node.setup.longest_completion
print(
    f"cache: a token {cache_by_hand / 2**10:.0f} KiB, the longest row {cache_by_hand * longest / GIB:.2f} GiB"
)
print(f"operations of a step {work_by_hand:.2e}, by the package {work:.2e} ({work / work_by_hand - 1:+.0%})")
assert sum(states(node.setup)) == states_by_hand and shape.cache_bytes == cache_by_hand
assert abs(work / work_by_hand - 1) < 0.15
held = node.memory.weights + node.memory.gradients + node.memory.optimizer
assert np.isclose(held, states_by_hand / 8)

# %% [markdown]
# The number of parameters is no estimate. `read_shape` counts them from a configuration alone, and for the
# micro policy one can count again:

# %%
assert plans["preview"].setup.shape.parameters == sum(p.numel() for p in policy.parameters())
print(f"{plans['preview'].setup.shape.parameters:,} parameters either way")

# %% [markdown]
# Now the memory of one GPU on each rung, part by part: at the height of an update, and while responses are
# sampled. Black lines are what there is.

# %%
PARTS = {
    "weights": BLUE, "gradients": SKY, "optimizer": PURPLE, "reference": GREEN, "activations": ORANGE,
    "logits": BROWN, "gathered": GREY, "generation": RED, "vllm": RED, "overhead": "0.85",
}  # fmt: skip
ONLY_IN = {"update": ("gradients", "activations", "logits", "gathered"), "rollout": ("generation", "vllm")}


def parts_of(needed, phase):
    """GiB by part in one of the two phases."""
    other = ONLY_IN["rollout" if phase == "update" else "update"]
    return {name: size / GIB for name, size in needed.parts().items() if name not in other}


# %%
def draw_plan(axis, name, plan, top):
    """Two bars of a plan, stacked from its parts, and the line of what its GPU has."""
    for j, phase in enumerate(("update", "rollout")):
        left = 0.0
        for part, size in parts_of(plan.memory, phase).items():
            hatch = "///" if part in ("vllm", "activations") else ""
            look = {"color": PARTS[part], "hatch": hatch, "edgecolor": "white"}
            axis.barh(top + j, size, left=left, label=part, **look)
            left += size
    if plan.gpu.memory:
        axis.vlines(plan.gpu.memory / GIB, top - 0.5, top + 1.5, BLACK, lw=3)
        axis.text(plan.gpu.memory / GIB, top + 0.5, f"  {plan.gpu.name}", va="center", fontsize=9)
    return [(top, f"{name}, update"), (top + 1, f"{name}, rollout")]


def draw_memory(plans):
    figures.use_style()
    figure, axis = plt.subplots(figsize=(10, 0.9 + 0.55 * len(plans) * 2))
    labels = []
    for k, (name, plan) in enumerate(plans.items()):
        labels += draw_plan(axis, name, plan, 2.4 * k)
    axis.set_yticks([place for place, _ in labels], [label for _, label in labels])
    axis.set(xlabel="GiB on one GPU", title="Memory by part")
    axis.set_xlim(0, 1.18 * max(plan.gpu.memory / GIB or plan.memory.peak / GIB for plan in plans.values()))
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    handles = dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
    return figure


# %%
draw_memory(plans)
plt.show()
for plan in plans.values():
    assert np.isclose(sum(parts_of(plan.memory, "update").values()), plan.memory.update / GIB)
    assert np.isclose(sum(parts_of(plan.memory, "rollout").values()), plan.memory.rollout / GIB)
    assert not plan.problem  # all four fit

# %% [markdown]
# On one 24 GB card it is the frozen weights that fill the memory; LoRA's own states are a sliver. On the node
# the states are sharded, and the share that vLLM is *given* is the largest part. It is given back for the
# update, which is why both phases fit.
#
# **Your own machine.** What would the 7B policy, all weights trained, take on other GPUs, with other pieces
# at once? (In a running notebook, sliders appear.)


# %%
def draw_own(gpus, device_batch, vllm_memory):
    updates = 5
    prompts = int(gpus) * int(device_batch) * updates  # so that all can share them
    own = {
        "engine.processes": f"{int(gpus)}", "prompts": f"{prompts}", "device_batch": f"{int(device_batch)}",
        "engine.vllm_memory": f"{vllm_memory}", "engine.sharding": "zero3" if gpus > 1 else "none",
        "policy.dtype": "bfloat16",
    }  # fmt: skip
    plan = plan_of("node", values=own)
    figure = draw_memory({f"{int(gpus)} GPUs": plan})
    figure.axes[0].set_title(plan.problem.split(",")[0] or "it fits", color=RED if plan.problem else BLACK)
    return figure


figures.knobs(draw_own, gpus=(8, 1, 32, 1), device_batch=(1, 1, 8, 1), vllm_memory=(0.3, 0.1, 0.9, 0.05))

# %% [markdown]
# ## 5. What it costs
# Seconds are operations, divided by the GPUs' speed on paper and by the share of it that is reached (assumed:
# 40%). Sampling is slow for another reason: each new token has to read all weights from memory.

# %%
rows = {}
for rung in RUNGS:
    for kind, stage in ((SFTConfig, "SFT"), (RLConfig, "RL")):
        plan = plan_of(rung, kind)
        spent = plan.seconds
        judge = plan.judging
        rows[rung, stage] = {
            "hours": plan.hours,
            "GPU hours": plan.hours * plan.setup.gpus if plan.gpu.memory else 0,
            "of it sampling": spent.rollout / spent.total,
            "judge's calls": judge.calls if judge else 0,
            "judge, $": judge.dollars if judge else 0,
            "disk, GiB": plan.disk.total / GIB,
        }
costs = pd.DataFrame(rows).T
display(costs.round({"hours": 2, "GPU hours": 1, "of it sampling": 2, "judge, $": 2, "disk, GiB": 1}))

# %% [markdown]
# Both by hand, for a step of the `node` rung. What the package adds is a fixed time for each layer and, in
# sampling, the reading of prompts and of the cache:

# %%
REACHED = 0.4  # of the speed on paper, of operations and of memory alike
training = work / (node.setup.gpus * node.gpu.flops * REACHED)
reading = node.setup.completion * 2 * text.parameters / (node.gpu.bandwidth * REACHED)
planned = node.seconds.forward + node.seconds.backward
print(f"forward and backward {training:.1f} s, by the package {planned:.1f} s")
print(f"reading all weights for each token {reading:.1f} s, all sampling {node.seconds.rollout:.1f} s")
print(f"a run: {node.steps} steps of {node.seconds.total:.0f} s")
assert training < planned < 1.25 * training and 0.4 * node.seconds.rollout < reading < node.seconds.rollout
assert np.isclose(node.steps * node.seconds.total / 3600, costs.loc[("node", "RL"), "hours"])

# %% [markdown]
# A step also scores rollouts without training on them (under the policy that wrote them and, to measure the
# KL, under the SFT policy), and keeps no activations but works them out again: that is the rest of it.
#
# `NaN` is "not known", which is not the same as nothing: a judge that you serve yourself has no price a
# token, but it takes GPUs of its own. What a GPU hour costs is for you to say; prices differ by a factor of
# five between providers. With yours, the whole bill:

# %%
GPU_DOLLARS = 2.0  # for an hour of one GPU: put in your own price

whole = pd.DataFrame({
    "GPUs, $": (costs["GPU hours"] * GPU_DOLLARS).groupby(level=0).sum(),
    "judge, $": costs.xs("RL", level=1)["judge, $"],
})  # fmt: skip
display(whole.loc[list(RUNGS)].round(0))
paper_judge = plans["paper"].judging
per_trace = paper_judge.dollars / paper_judge.traces
print(
    f"paper: {paper_judge.traces:,.0f} traces judged, ${per_trace:.3f} for each, ${paper_judge.dollars:,.0f}"
)
in_out = paper_judge.tokens_in * 1.25e-6 + paper_judge.tokens_out * 10e-6
assert np.isclose(paper_judge.dollars, in_out)  # at Gemini's $1.25 and $10 for a million tokens

# %% [markdown]
# Only written traces go to the judge, so a policy that learns when *not* to think makes its own training
# cheaper. The tokens of a reply are the largest part, and they are assumed: `plan.reply_tokens`, which counts
# the judge's own hidden reasoning. Half of it, half of that part. Notebook 10 came to less with 1,000 such
# tokens in one call: it has half of the rollouts judged, as the micro policy thinks; here it is six of ten
# (`plan.trigger_rate`, assumed), and those too that dynamic sampling then drops.
#
# ## 6. How far to trust it
# A formula is worth what it predicts. `published.toml` has runs that others have published, with what they
# state of them, and one of ours, on a CPU ("own"). One constant (the time that a layer takes, whatever its
# size) was fitted, to one of them; all else is from the formulas. The same as `sailrl-lite plan --check`:

# %%
from sailrl_lite.plan.published import compare

published = pd.DataFrame([row.to_json() for row in compare()])
measured = published[published["figure"] != "fits"]
display(measured[["run", "figure", "published", "planned", "error", "role"]].round(2).reset_index(drop=True))

figures.use_style()
figure, axes = plt.subplots(1, 3, figsize=(11, 3.3))
looks = {"tested": (BLUE, "o"), "fitted": (RED, "D"), "assumed": (ORANGE, "^"), "own": (GREEN, "s")}
for axis, figure_of in zip(axes, ("GiB", "GPUs", "seconds"), strict=True):
    part = measured[measured["figure"] == figure_of]
    ends = [
        part[["published", "planned"]].min().min() * 0.8,
        part[["published", "planned"]].max().max() * 1.2,
    ]
    axis.plot(ends, ends, color="0.7", lw=1)
    for role, group in part.groupby("role"):
        color, marker = looks[role]
        axis.plot(group["published"], group["planned"], marker, color=color, label=role, ms=7, alpha=0.8)
    axis.set(xscale="log", yscale="log", title=figure_of, xlabel="published")
    axis.legend()
axes[0].set_ylabel("planned")
plt.show()
tested = measured[measured["role"] == "tested"]
errors = tested["error"].abs().groupby(tested["figure"]).agg(["mean", "max", "size"])
display(errors.round(2))
assert errors.loc["GiB", "mean"] < 0.15 and errors.loc["seconds", "mean"] < 0.3
assert (tested.loc[tested["figure"] == "GPUs", "error"] != 0).sum() == 1

# %% [markdown]
# Of those *tested*, memory is within about a tenth, time within a quarter in the worst; of nine counts of the
# GPUs that a model needs eight are right, and once it asks for two where one did. All the timed ones of other
# people's that were tested ran on one framework, so take hours on another with more salt. Where it says
# "assumed", the source leaves out something the plan depends on, and the error is up to a third.
#
# ### What is refused, and what would do
# A plan that cannot fit is refused, and told what would fit. Each remedy was tried before it is named; here
# each is tried again. First all weights of 3B on one RTX-4090, then 7B with LoRA on the same card.

# %%
from sailrl_lite.plan.remedies import remedies


def settings_in(remedy):
    """The values of RL and of the plan that a remedy's options stand for."""
    given = dict(pair.split("=", 1) for pair in re.findall(r"--set (\S+)", remedy))
    assumed = dict(re.findall(r"--(gpu) (\S+)", remedy))
    if gpus := re.search(r"--gpus (\d+)", remedy):
        given["engine.processes"] = gpus[1]
    return given, assumed


TOO_MUCH = {
    "all weights of 3B": {"policy.weights": "full"},
    "LoRA of 7B": {"checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"},
}
for name, values in TOO_MUCH.items():
    plan = plan_of("single-gpu", values=values)
    print(f"{name}: {plan.problem}")
    config = config_of("single-gpu", RLConfig).with_values(values)
    for remedy in remedies(plan, config, config_of("single-gpu", PlanConfig)):
        given, assumed = settings_in(remedy)
        better = plan_of("single-gpu", values=values | given, assumed=assumed)
        print(f"   {remedy}: {max(better.memory.update, better.memory.rollout) / GIB:.1f} GiB")
        assert plan.problem and not better.problem

# %% [markdown]
# The same on the command line is `sailrl-lite plan --rung single-gpu --set policy.weights=full`. It ends
# with status 2 where the plan cannot fit, so that a script that starts a run can ask first.
#
# ## 7. Starting each rung
# The launch line follows from the values of the engine. This is how:


# %%
def launch(rung, stage="rl", options=""):
    """The line that starts a stage of a rung."""
    config = config_of(rung, SFTConfig if stage == "sft" else RLConfig)
    engine, command = config.engine, f"{stage} --rung {rung} {options}".strip()
    if engine.trainer == "verl" and stage == "rl":
        folder, options = "runs/verl", command.removeprefix("rl ")
        return f"sailrl-lite export verl {folder} {options}   # then {folder}/launch.sh on each machine"
    if engine.processes == 1:
        return f"sailrl-lite {command}"
    how = f"--config_file sailrl_lite/rungs/{engine.sharding}.yaml --num_processes {engine.processes}"
    if (machines := engine.processes // 8) > 1:
        how += f" \\\n    --num_machines {machines} --machine_rank $RANK"
        how += " --main_process_ip $HEAD --main_process_port 29500"
    return f"accelerate launch {how} \\\n    -m sailrl_lite {command}"


# %%
for rung in RUNGS:
    print(f"# {rung}: {read_rung(rung).about}")
    for stage in ("sft", "rl"):
        print(launch(rung, stage))
    print()

# %% [markdown]
# (On more than one machine each gets the same line, with `RANK` counted from 0 and `HEAD` the address of the
# first.) What has to be there before you type them:

# %%
before = {}
for rung in RUNGS:
    for stage, kind in (("sft", SFTConfig), ("rl", RLConfig)):
        config = config_of(rung, kind)
        before[rung, stage] = {
            "starts from": config.checkpoint or ("nothing" if stage == "sft" else "what ships"),
            "data": config.data or "the micro-world",
            "judge": config.judge if stage == "rl" else "",
        }
display(pd.DataFrame(before).T)
print(f"A rehearsal of {RUNG}: two steps, problems of the micro-world, the exact judge\n")
tiny = "--set steps=2 --set data="
print(launch(RUNG, "sft", f"{tiny} --out runs/try-sft"))
place = "" if config_of(RUNG, RLConfig).engine.trainer == "verl" else " --out runs/try-rl"
print(launch(RUNG, "rl", f"{tiny} --set judge=exact --checkpoint runs/try-sft/policy{place}"))

# %% [markdown]
# - **Packages**: `pip install -c constraints.txt -e '.[gpu]'` for one GPU, `'.[node]'` for a node; verl wants
#   an environment of its own (`'.[verl]'`, `constraints-verl.txt`).
# - **Policy**: its weights come from the hub. SAIL-VL2 brings code of its own, which is run only where you
#   say `--set policy.remote_code=true`; untested, and refused if it lacks the interface that training here
#   needs, as what is public of it does. Then another policy climbs: `--set checkpoint=NAME`.
# - **Data**: `sailrl-lite curate sft` and `curate rl` (notebook 01) leave a `data.parquet` in
#   `runs/curate-sft` and `runs/curate-rl`, where the rung looks for it; another file is named with `--data`.
# - **Judge**: its key goes into `OPENAI_API_KEY` and nowhere else. That of `node` is one you serve yourself,
#   on GPUs that are *not* among the eight: `vllm serve Qwen/Qwen2.5-VL-32B-Instruct --port 8001`. A budget
#   (`llm:MODEL,max_calls=100000`) stops a run before the bill does, and `sailrl-lite judge-check` says how
#   far to trust the judge (notebook 10).
# - **Rehearse** before you pay: two steps of the micro-world need neither data nor account, and show that all
#   parts start. What they reward says nothing yet; the memory that they hold can stand beside the plan's.
#
# What is missing is named in one line before anything is loaded. So it is if the launch and the configuration
# do not agree:

# %%
from sailrl_lite.training.processes import check_launch
from sailrl_lite.training.rl import train_rl

missing = {"engine.sampler": "transformers", "data": "none/rl.parquet"}
print(said(train_rl, config_of("single-gpu", RLConfig).with_values(missing), WORK / "no"))
refusal = said(check_launch, config_of("node", RLConfig).engine, 1)
print(re.sub(r"--config_file \S*/", "--config_file .../", refusal))
assert "zero3.yaml --num_processes 8" in refusal and "zero3.yaml --num_processes 8" in launch("node")
for file in ("zero3", "fsdp2", "two-cpu"):
    assert (PACKAGE / "rungs" / f"{file}.yaml").is_file()

# %% [markdown]
# Words of the engine, and what they choose:
#
# | rollouts | settings | started beside |
# |---|---|---|
# | transformers, in process | `engine.sampler=transformers` | nothing |
# | vLLM on the training GPUs | `engine.sampler=vllm`, `engine.vllm=colocate` | nothing |
# | vLLM on GPUs of its own | `engine.sampler=vllm`, `engine.vllm=server` | `trl vllm-serve --model NAME` |
#
# FSDP2 in the place of ZeRO-3: `--config_file sailrl_lite/rungs/fsdp2.yaml` and `--set
# engine.sharding=fsdp2`. The paper's benchmarks: `sailrl-lite export vlmevalkit OUT/ --rung NAME`.
#
# ### The folder for verl
# Here with problems of the micro-world and three steps; at full size it is the same files with your curated
# data. verl itself is not needed to write them.

# %%
from sailrl_lite.export.verl import export_verl

short = {"data": "", "checkpoint": "shipped", "judge": "exact", "steps": "3", "prompts": "64"}
exported = config_of("paper", RLConfig).with_values(short)
export_verl(exported, WORK / "verl")
for file in sorted((WORK / "verl").iterdir()):
    print(f"{file.name:18} {file.stat().st_size:>9,} bytes")
overrides = dict(line.split("=", 1) for line in (WORK / "verl/overrides.txt").read_text("utf-8").splitlines())
wanted = [
    "algorithm.norm_adv_by_std_in_grpo", "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.optim.lr",
    "actor_rollout_ref.actor.clip_ratio_low", "actor_rollout_ref.actor.clip_ratio_high",
    "actor_rollout_ref.actor.use_kl_loss", "actor_rollout_ref.actor.loss_agg_mode",
    "data.max_prompt_length", "data.max_response_length", "trainer.nnodes", "trainer.n_gpus_per_node",
]  # fmt: skip
display(pd.Series({name: overrides[name] for name in wanted}, name="value"))
assert int(overrides["actor_rollout_ref.rollout.n"]) == exported.rollouts == 5
assert float(overrides["actor_rollout_ref.actor.optim.lr"]) == exported.learning_rate
assert int(overrides["trainer.nnodes"]) * int(overrides["trainer.n_gpus_per_node"]) == 64

# %% [markdown]
# A row of its Parquet file is a problem, with the truth that the exact judge needs; and the reward of a
# response to it is the one of section 3:

# %%
import random

from sailrl_lite.world.teacher import CLEAN, teach

data = pd.read_parquet(WORK / "verl/train.parquet")
row = data.iloc[0]
info = dict(row["extra_info"])
print(info)
problem = make_problem(**info["problem"])
lesson = teach(problem, random.Random(SEED), CLEAN).text
score = await compute_score(row["data_source"], lesson, row["reward_model"]["ground_truth"], info)
print(f"a lesson of an unerring teacher scores {score['score']:.1f}")
assert len(data) == 64 and problem.question == info["question"] and np.isclose(score["score"], 1)

# %% [markdown]
# And its README says in plain words in what such a run differs from one by TRL. At full size:

# %%
from sailrl_lite.export.verl_values import plan_verl

for note in plan_verl(config_of("paper", RLConfig), rows=70_000).notes:
    print("-", note)
assert "no verdict: verl has no such thing" in (WORK / "verl/README.md").read_text("utf-8")

# %% [markdown]
# ## 8. The next rung's code, here
# What can be shown without a GPU is that the *code* of the upper rungs runs. First, the `single-gpu` rung
# itself with what a CPU has not taken out: the micro policy in the place of the 3B one, the exact judge in
# the place of an API, transformers in the place of vLLM, and fewer prompts. LoRA, bfloat16, gradient
# checkpointing, one response at a time in an update: all that stays. Two steps.

# %%
from safetensors.torch import load_file

on_this_cpu = {"checkpoint": "shipped", "data": "", "judge": "exact", "engine.sampler": "transformers"}
small = {
    "steps": "2",
    "prompts": "4",
    "max_new_tokens": "64",
    "policy.max_pixels": "0",
    "learning_rate": "1e-3",
}
lora = config_of("single-gpu", RLConfig).with_values(on_this_cpu | small)
print({name: value for name, value in lora.flat().items() if name.startswith(("policy.", "engine."))})
trained = train_rl(lora, WORK / "lora", bar=False)
log = pd.read_csv(WORK / "lora/metrics.csv")
display(log[["step", "reward", "answer", "judging", "thinking", "tokens", "kl"]].round(3))

# %% [markdown]
# Which weights did it train? The adapters, and no others:

# %%
adapters = load_file(trained / "adapter_model.safetensors")
moved = [name for name, weight in adapters.items() if "lora_B" in name and weight.any()]
count, whole = sum(w.numel() for w in adapters.values()), sum(p.numel() for p in policy.parameters())
print(
    f"{count:,} weights of adapters beside {whole:,} frozen ones; {len(moved)} of the B matrices have moved"
)
assert moved and not (trained / "model.safetensors").exists()
assert all("language_model" in name for name in adapters)  # none in the part that sees
again, _ = load_policy(trained, lora.policy)  # with the frozen weights, found by their name
frozen = {name.replace(".base_layer", ""): w for name, w in again.named_parameters() if "lora_" not in name}
shipped = dict(policy.named_parameters())
same = [
    torch.equal(w, shipped[name.removeprefix("base_model.model.")].bfloat16()) for name, w in frozen.items()
]
assert all(same) and len(same) == len(shipped)
print(f"all {len(same)} frozen tensors are the shipped ones, to the last bit of bfloat16")

# %% [markdown]
# Second, **two processes**, as on a node, only that they are two of this CPU: `accelerate launch` starts
# them, each samples and trains on its half of the prompts, the gradients are averaged, one of them writes.

# %%
TWO = [
    sys.executable,
    "-m",
    "accelerate.commands.launch",
    "--config_file",
    str(PACKAGE / "rungs/two-cpu.yaml"),
]
TWO += ["-m", "sailrl_lite", "rl", "--steps", "1", "--set", "prompts=8", "--set", "engine.processes=2"]
paths = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
ended = subprocess.run(
    [*TWO, "--quiet", "--out", str(WORK / "two")], capture_output=True, text=True, cwd=WORK,
    env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
)  # fmt: skip
assert ended.returncode == 0, ended.stderr[-2000:]
two = pd.read_csv(WORK / "two/metrics.csv")
one_config = RLConfig(steps=1, prompts=8)
train_rl(one_config, WORK / "one", bar=False)
one = pd.read_csv(WORK / "one/metrics.csv")
columns = ["reward", "answer", "judging", "groups/drawn", "tokens", "grad_norm"]
display(pd.concat({"two processes": two, "one": one})[columns].droplevel(1).round(3))
assert len(two) == 1 and (WORK / "two/policy/model.safetensors").is_file()
assert two["groups/drawn"][0] >= 8  # all groups are counted, not those of one process

# %% [markdown]
# The two rows differ by luck, since two processes draw other random numbers than one. That they compute the
# same *update* from the same rollouts is tested (`tests/test_processes.py`), with the rollouts held fixed.
# ZeRO-3 and FSDP2 shard over such processes too, vLLM and verl have checks in environments of their own
# (`make help` lists them); none of it says how fast a GPU is.
#
# ## 9. Traps
# Each of these has cost somebody days, mostly since nothing failed aloud.
#
# **Cut prompts.** A limit of tokens that cuts a prompt cuts its picture's tokens. Here the model at least
# says so; cut in the text after them, and the question is gone without a word. So nothing is ever cut here:
# what is too long is left out, and told.

# %%
from sailrl_lite.training.data import Reader
from sailrl_lite.training.models import encode_prompts

question, picture = my_problem.question, my_problem.image
inputs = dict(encode_prompts(processor, [question], [picture]))
cut = {name: value[:, -10:] if name != "pixel_values" and name != "image_grid_thw" else value
       for name, value in inputs.items()}  # fmt: skip
try:
    policy(**cut)
    raise AssertionError("a cut picture went unnoticed")
except ValueError as error:
    print("the model:", error)
tokens = inputs["input_ids"].shape[1]
reader = Reader(processor, "max_prompt_tokens", tokens - 1)
prompt = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
print("here:     ", said(reader.check, {"prompt": prompt, "image": picture}, "problem angle-test-0"))

# %% [markdown]
# **A picture on its side.** Cameras store a turn as a note (EXIF) beside the pixels. Viewers follow it, the
# image processor does not:

# %%
from PIL import Image

from sailrl_lite.pictures import upright

exif = Image.Exif()
exif[0x0112] = 6  # "turn me by 90 degrees"
picture.save(WORK / "turned.jpg", exif=exif, quality=95)
picture.save(WORK / "plain.jpg", quality=95)
turned, plain = Image.open(WORK / "turned.jpg"), Image.open(WORK / "plain.jpg")
seen = [processor.image_processor(image, return_tensors="pt")["pixel_values"] for image in (turned, plain)]
print("to the processor the two are", "the same" if torch.equal(*seen) else "different", turned.size)
print("a person, and `upright`, see", upright(turned).size)
assert torch.equal(*seen) and upright(turned).size == turned.size[::-1]

# %% [markdown]
# **A resume that restores nothing.** Weights on the hub have other names than the module's. With
# `strict=False`, which is what the trainer's own resume does for such a model, none of them is loaded, and
# the run goes on from whatever was there:

# %%
import copy

from sailrl_lite.training.runs import restore_strictly

lost = copy.deepcopy(policy)
with torch.no_grad():
    for weight in lost.parameters():
        weight.zero_()
found = lost.load_state_dict(load_file(SHIPPED / "model.safetensors"), strict=False)
alive = sum(bool(weight.any()) for weight in lost.parameters())
print(f"not strict: {len(found.missing_keys)} missing, {len(found.unexpected_keys)} not expected, "
      f"{alive} of {len(shipped)} tensors restored, no error")  # fmt: skip
restore_strictly(lost, str(SHIPPED))
back = sum(torch.equal(weight, shipped[name]) for name, weight in lost.named_parameters())
print(f"strict: {back} of {len(shipped)} restored")
assert alive == 0 and back == len(shipped)

# %% [markdown]
# **Rewards of `None`, in TRL's log.** TRL leaves a `None` out of the baseline, as it should. But where all
# reward functions say `None` (there is only one here) it also warns, with the whole row, for every rollout:

# %%
from trl import GRPOTrainer

from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.rl import grpo_config

heard = []


class Ear(logging.Handler):
    def emit(self, record):
        heard.append(record.getMessage())


def one_without(completions, **columns):
    return [None, *[1.0, 0.0, 0.0, 0.0]]


args = grpo_config(RLConfig(prompts=1, updates=1, steps=1), WORK / "stock")
stock = GRPOTrainer(load_policy(SHIPPED)[0], one_without, args, rl_dataset(1), processing_class=processor)

# %%
stock.model.train()
logger, ear = logging.getLogger("trl.trainer.grpo_trainer"), Ear()
ours, logger.filters, propagates = logger.filters, [], logger.propagate
logger.addHandler(ear)
logger.propagate = False
batch = stock._generate_and_score_completions([stock.train_dataset[0]] * 5)
logger.removeHandler(ear)
logger.filters, logger.propagate = ours, propagates
print(f"TRL: {len(heard)} warning of {len(heard[0]):,} characters for 1 rollout without a verdict")
print("advantages:", batch["advantages"].numpy().round(2))
assert len(heard) == 1 and "None" in heard[0] and batch["advantages"][0] == 0
record = logging.makeLogRecord({"name": logger.name, "msg": heard[0]})
assert not logger.filter(record)  # the package keeps it out of the log, and counts `unscored` instead

# %% [markdown]
# A judge that is down for an hour would fill the disk with that.
#
# **Clipping that does nothing.** With one update a batch every ratio is 1 (notebook 07), so a clip range that
# is tuned with care is decoration. Section 10 runs some steps with one update, and looks.
#
# **Settings that exclude each other.** Some pairs fail late, or train badly without failing. They are refused
# before anything is loaded:

# %%
from sailrl_lite.config import EngineConfig, PolicyConfig
from sailrl_lite.training.policies import check_policy
from sailrl_lite.training.vllm import check_vllm

full_16, four = PolicyConfig(dtype="bfloat16"), PolicyConfig(weights="4bit")
print("- four bits and vLLM:", said(check_vllm, four, EngineConfig(sampler="vllm")))
print("- four bits, sharded:", said(check_policy, four, EngineConfig(processes=8, sharding="zero3")))
print("- all weights in bfloat16, not sharded:", said(check_policy, full_16, EngineConfig()))
print("- verl without a limit:", said(export_verl, replace(exported, max_prompt_tokens=0), WORK / "no"))
print("- training where verl should:", said(train_rl, config_of("paper", RLConfig), WORK / "no"))

# %% [markdown]
# ## 10. Watching a run
# A run on 64 GPUs costs by the hour, so the question is not only how it ends but how early you can tell. What
# to look at is the same on each rung, in `metrics.csv` (with verl in `rewards.csv` and its own log). First a
# healthy run: the study's cascade, seed 0.

# %%
from sailrl_lite.study.logs import LOGS, read_log, read_logs

healthy = read_log(LOGS / "cascade-0.json").metrics
figures.learning_curves(healthy)
plt.show()
ends = healthy.iloc[[0, -1]][["reward", "content/nonzero", "truncated", "unscored", "tokens", "entropy"]]
display(ends.round(3))
assert healthy["reward"].iloc[-4:].mean() > healthy["reward"].iloc[:4].mean() + 0.1
assert healthy["unscored"].max() == 0 and healthy["truncated"].max() < 0.05

# %% [markdown]
# None of the runs of the study broke down, so the sick ones have to be made: three live runs of a few steps,
# small ones, made to be looked at, and one that is well. `live` is what `train_rl` does, with any reward
# function and any policy.

# %%
from transformers.trainer_callback import PrinterCallback

from sailrl_lite.training.callbacks import StopBetweenBatches, Watch
from sailrl_lite.training.dapo import Dapo, DapoTrainer


def live(name, reward, steps, start=None, **settings):
    """The metrics of a short run, and why it stopped ("" if it came to its end)."""
    config = RLConfig(**{"steps": steps, "prompts": 12, "epochs": 1, "seed": SEED} | settings)
    trainee, folder = start or load_policy(SHIPPED)[0], WORK / name
    folder.mkdir(exist_ok=True)
    stop = StopBetweenBatches(config.updates, get_judge("exact"))
    trainer = DapoTrainer(
        trainee, reward, grpo_config(config, folder), rl_dataset(12 * steps), processing_class=processor,
        callbacks=[Watch(folder, config.updates, (), bar=False), stop], dapo=Dapo(refills=0), stop=stop,
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return pd.read_csv(folder / "metrics.csv"), stop.why


# %%
exact = for_trl("cascade", get_judge("exact"))
well, _ = live("well", exact, 4, updates=1)
clipped = well["clip_ratio/region_mean"], healthy["clip_ratio/region_mean"]
print(f"clipped tokens with one update a batch: {clipped[0].mean():.5f}, with two: {clipped[1].mean():.5f}")
assert clipped[0].max() == 0 < clipped[1].mean()

# %% [markdown]
# **The judge dies.** From the third step on it gives no verdict. The trainer itself stops such a run, with a
# checkpoint, at a step where more than half of the rollouts that were judged have none. (The others wrote no
# trace, so nobody had to be asked. If they counted, this policy would go on without a judge, paid only where
# it does not think.)


# %%
class Dying(Judge):
    """The exact judge, until it has been asked often enough."""

    name = "dying"

    def __init__(self, calls):
        self.inner, self.left = get_judge("exact"), calls

    async def judge(self, cases, continuous=False, sample=0):
        self.left -= 1
        if self.left < 0:
            return [NoVerdict("timeout")] * len(cases)
        return await self.inner.judge(cases, continuous, sample)


dead, why = live("dead", for_trl("thinking+answer", Dying(2)), 5)
display(dead[["step", "reward", "unscored", "groups/informative"]].round(2))
print("stopped:", why)
assert 0.2 < dead["unscored"].iloc[-1] < 0.7 and dead["unscored"].iloc[0] == 0
assert why and dead["step"].iloc[-1] == 3 and list((WORK / "dead").rglob("checkpoint-*"))

# %% [markdown]
# **A cold start.** The policy is bad at everything (here, the shipped one with noise in its weights, as if
# SFT had been cut short), so hardly a rollout earns anything but for its format.

# %%
cold_policy, NOISE = load_policy(SHIPPED)[0], 0.45
generator = torch.Generator().manual_seed(SEED)
with torch.no_grad():
    for weight in cold_policy.parameters():
        if weight.dim() > 1:
            weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)
cold, _ = live("cold", exact, 4, cold_policy)
display(cold[["step", "reward", "format", "content/nonzero", "groups/informative"]].round(2))
assert cold["content/nonzero"].mean() < 0.1

# %% [markdown]
# **Ever longer.** A reward that pays for length, on purpose; a lenient judge that likes detail does the same.


# %%
def pays_length(completion_ids, **columns):
    return [min(1.0, len(ids) / 64) for ids in completion_ids]


long, _ = live("long", pays_length, 12, learning_rate=1e-3, overlong="keep")
display(long.iloc[::3][["step", "reward", "tokens", "truncated"]].round(2))
assert long["tokens"].iloc[-3:].mean() > 1.3 * long["tokens"].iloc[:3].mean()

# %% [markdown]
# **Reward up, truth down.** For this one there are logs: the arm that is paid for thinking always. From the
# first four steps to the last eight, the reward it is trained on nearly doubles. What the paper's reward
# would have said of the same responses falls, with each of eight seeds.

# %%
always = read_log(LOGS / "always-think-0.json").metrics
figures.use_style()
figure, axes = plt.subplots(1, 4, figsize=(11, 2.7))
panels = {
    "the judge dies": (dead, {"unscored": RED, "reward": BLUE}),
    "cold start": (cold, {"content/nonzero": RED, "reward": BLUE}),
    "ever longer": (
        long.assign(tokens=long["tokens"] / 64),
        {"tokens": RED, "truncated": ORANGE},
    ),
    "reward up, truth down": (always, {"true_cascade": RED, "reward": BLUE}),
}
for axis, (title, (log, columns)) in zip(axes, panels.items(), strict=True):
    for column, color in columns.items():
        label = "tokens / 64" if column == "tokens" else column
        axis.plot(log["step"], log[column], color=color, label=label, ls="-" if color == BLUE else "--", lw=2)
    axis.set(title=title, xlabel="step", ylim=(-0.03, 1.03))
    axis.legend(fontsize=8)
plt.show()
for seed in range(8):
    log = read_log(LOGS / f"always-think-{seed}.json").metrics[["reward", "true_cascade"]]
    rise = log.iloc[-8:].mean() / log.iloc[:4].mean()
    print(f"seed {seed}: reward x {rise['reward']:.2f}, truth x {rise['true_cascade']:.2f}")
    assert rise["reward"] > 1.8 and rise["true_cascade"] < 0.95

# %% [markdown]
# The last one cannot be seen from the reward. At full scale there is no exact truth; what there is are
# proxies: trigger rate by label, a second judge on a sample, a benchmark every so many steps.
#
# ## 11. Rules for stopping
# Simple rules on the mean of the last `w` steps. A threshold belongs between what healthy runs do and what
# sick ones do, and each has its reason:
#
# | rule | fires when | why there |
# |---|---|---|
# | no verdicts | over 0.2 of the rollouts have none | one of five in a group; half of the judged stop a run |
# | cold start | under 0.1 are paid for content | then most groups have none that is: $0.9^5 = 0.59$ |
# | too long | over 0.1 are cut off, or length is over 1.5 times the first | what is cut off teaches nothing |
# | one mode | under 0.05 think, or over 0.95 | then most groups agree on the mode: $0.95^5 = 0.77$ |
# | few groups teach | under 0.2 of those drawn | each one that teaches costs five |
# | no gain | the reward rose by less than 0.01 in `2w` steps | none but the price of a step: see below |
#
# `alarms` says of each at which step it fires first.


# %%
def watched(log, w=4):
    """What the rules look at, means of w steps; NaN is "not known". log: a row a step."""
    first, last = log.iloc[:w].mean(numeric_only=True), log.rolling(w).mean(numeric_only=True)
    missing = pd.Series(np.nan, log.index)  # a comparison with it is false
    return pd.DataFrame({
        "no verdict": last.get("unscored", missing),
        "paid": last.get("content/nonzero", missing),
        "cut off": last["truncated"],
        "length": last["tokens"] / first["tokens"],
        "thinking": last.get("trigger_rate", missing),
        "groups that teach": last["groups/informative"] / last["groups/drawn"],
        "gain": last["reward"] - last["reward"].shift(2 * w),
    })  # fmt: skip


def alarms(log, w=4):
    """Rule to the first step at which it fires."""
    seen = watched(log, w)
    fires = {
        "no verdicts": seen["no verdict"] > 0.2,
        "cold start": seen["paid"] < 0.1,
        "too long": (seen["cut off"] > 0.1) | (seen["length"] > 1.5),
        "one mode": (seen["thinking"] < 0.05) | (seen["thinking"] > 0.95),
        "few groups teach": seen["groups that teach"] < 0.2,
        "no gain": seen["gain"] < 0.01,
    }
    return {rule: int(log["step"][when].iloc[0]) for rule, when in fires.items() if when.any()}


# %%
sick = {"the judge dies": dead, "cold start": cold, "ever longer": long}
for name, log in (sick | {"well": well, "healthy": healthy}).items():
    print(f"{name}: {alarms(log, w=2 if len(log) < 20 else 4)}")
assert "no verdicts" in alarms(dead, 2) and "cold start" in alarms(cold, 2) and "too long" in alarms(long, 2)
assert not alarms(well, 2) and set(alarms(healthy)) <= {"no gain"}
assert 0.95**5 > 0.9**5 > 0.5  # five rollouts that are all alike, in most groups

# %% [markdown]
# And how near did healthy runs come to a threshold? All eight of the full system:

# %%
folders = [folder for folder in (LOGS, LOGS.parent / "regimes") if folder.is_dir()]
logs = [log for folder in folders for log in read_logs(folder) if len(log.metrics)]
full = [log.metrics for log in logs if log.head["arm"] == "cascade"]
edges = pd.concat([watched(log) for log in full]).agg(["min", "max"])
display(edges.round(2))
assert edges.loc["max", "length"] < 1.3 and edges.loc["min", "paid"] > 0.5
assert len(full) == 8 and set().union(*(alarms(log) for log in full)) == {"no gain"}

# %% [markdown]
# Only the gain comes to its threshold. The next is length, with 1.28 of 1.5. Where your data differ, so do
# these: if 97% of your problems need thinking, *one mode* has no business at 0.95.
#
# **Your own run.** Put its folder in the place of the empty text, as seen from this notebook's; it may still
# be running, for `metrics.csv` is written anew after each step.

# %%
my_run = ""  # for example "../runs/rl"; empty is the healthy run of above

mine = pd.read_csv(Path(my_run) / "metrics.csv") if my_run else healthy
print(alarms(mine) or "no rule fires")
display(watched(mine).tail(3).round(3))

# %% [markdown]
# **What alarms cost.** A rule that finds what is sick is half of it. The other half is what it does to runs
# that are well. So let each rule loose on every shipped log of RL, and count: how many runs it stops, how
# many steps that saves, and how much reward and truth is lost by it (end of the run less the moment of the
# stop; negative is gain).


# %%
def cost_of(n, log, w=4):
    """What is saved and lost by a stop after step n of a run."""
    ends = [
        log[name].iloc[-w:].mean() - log[name].iloc[n - w : n].mean() for name in ("reward", "true_cascade")
    ]
    return {"at step": n, "steps saved": len(log) - n, "reward lost": ends[0], "truth lost": ends[1]}


def stops_of(logs, w=4):
    """A row for each rule that fires in a run: the run's arm, and what the stop costs."""
    return pd.DataFrame([
        {"rule": rule, "arm": log.head["arm"]} | cost_of(n, log.metrics)
        for log in logs for rule, n in alarms(log.metrics, w).items()
    ])  # fmt: skip


# %%
stops = stops_of(logs)
verdicts = stops.groupby("rule")[["at step", "steps saved", "reward lost", "truth lost"]].mean()
verdicts.insert(0, "runs stopped", stops.groupby("rule").size())
print(f"{len(logs)} runs, each of {min(len(log.metrics) for log in logs)} steps or more")
display(verdicts.round(3))
print("no run is stopped by:", ", ".join(sorted({"no verdicts", "cold start"} - set(verdicts.index))))
for rule in ("one mode", "too long", "few groups teach"):
    print(f"{rule}:", stops.loc[stops["rule"] == rule, "arm"].value_counts().to_dict())
assert not {"no verdicts", "cold start"} & set(verdicts.index)  # every one of these had its judge, and SFT
assert "always-think" in set(stops.loc[stops["rule"] == "one mode", "arm"])
others = stops.loc[stops["rule"].isin(["too long", "few groups teach"]), "arm"]
assert others.str.startswith("mark-").all()  # pictures that give the answer away

# %% [markdown]
# An alarm should keep still on runs that are well, and those about verdicts and cold starts do. *One mode*
# finds the arms that were built to have one, and those that a shortcut or hard problems alone drove to it; to
# stop these costs reward, and whether it should have been stopped is for a person to say. *Too long* and *few
# groups teach* fire only where a mark in the picture gives the answer away.
#
# *No gain* is another kind of rule: it stops runs that are well. Does it at least know when a run has come to
# its end? The reward of a single step is noisy. How noisy is a gain, and what if more steps are averaged?

# %%
wobble = [log["reward"] - log["reward"].rolling(9, center=True).mean() for log in full]
a_step = float(pd.concat(wobble).std())  # of the reward of one step, about its own running mean
rows = {}
for w in (2, 4, 8):
    stopped = stops_of(logs, w).query("rule == 'no gain'")
    share = stopped["steps saved"].sum() / (stopped["at step"] + stopped["steps saved"]).sum()
    rows[w] = {
        "noise of a gain": a_step * (2 / w) ** 0.5, "runs stopped": len(stopped),
        "at step": stopped["at step"].mean(), "of their steps saved": share,
        "reward lost": stopped["reward lost"].mean(),
    }  # fmt: skip
no_gain = pd.DataFrame(rows).T.rename_axis("w")
display(no_gain.round(3))
assert no_gain["noise of a gain"].min() > 0.01 and no_gain["runs stopped"].is_monotonic_decreasing
assert no_gain["reward lost"].min() > 0  # it is not free

# %% [markdown]
# It does not: even with eight steps the noise of a gain is more than the 0.01 that is asked for, so where a
# run still rises slowly the rule fires by luck. (Most that `w = 8` stops are the long ones, which had much to
# gain yet.) And the more it averages, the later it speaks: it must see `3w` steps first. To bring the noise
# down to 0.01 here, it would average about thirty, which is all of most of these runs. So is it worth it?
# That hangs on the price of a step:

# %%
paper, gain = plans["paper"], no_gain.loc[4]
gpu_hours = gain["of their steps saved"] * paper.hours * paper.setup.gpus
print(f"'no gain' stops {gain['runs stopped']:.0f} of {len(logs)} runs, saves "
      f"{gain['of their steps saved']:.0%} of their steps and loses {gain['reward lost']:.3f} of reward;\n"
      f"as large a share of the paper's rung is {gpu_hours:,.0f} GPU hours")  # fmt: skip
assert 0 < gain["of their steps saved"] < 1
steps_needed = 2 * (a_step / 0.01) ** 2
print(f"steps to average, for a noise of 0.01: {steps_needed:.0f}")
assert steps_needed > 16

# %% [markdown]
# **How to stop.** Ctrl-C once ends the step and leaves a checkpoint; the same line with `--resume` goes on as
# if nothing had happened. A run that is killed loses what it did since its last checkpoint, of which there is
# one every `save_every` steps. With verl it is the same `launch.sh` that goes on. At most, that is:

# %%
for rung, plan in plans.items():
    every = config_of(rung, RLConfig).save_every
    hours = every * plan.seconds.total / 3600
    gpus = f", {hours * plan.setup.gpus:.1f} GPU hours" if plan.gpu.memory else ""
    print(f"{rung:10} {every} steps, {60 * hours:.0f} minutes{gpus}")
    assert hours < 1

# %% [markdown]
# These logs are of runs of a few dozen steps; do not carry a threshold over to one of 800 without looking at
# it again. What carries over is the method: try a rule on runs whose end you know before you give it a key.
#
# ## 12. Exercises
# **Exercise 1 (easy).** All weights of a model of 8.3 billion parameters, AdamW, mixed precision, sharded
# over GPUs of 24 GiB. How many GPUs do the *states* alone need?

# %%
gpus_for_states = None


# %%
def check_1(n):
    if n is None:
        return "Not yet: put a number in the place of None."
    need = 16 * 8.3e9 / GIB
    if n * 24 < need:
        return f"Not yet: {n} GPUs have {n * 24} GiB, and the states are more. How many bytes a parameter?"
    if (n - 1) * 24 >= need:
        return "Not yet: fewer would do."
    return f"Right: {need:.0f} GiB. And then there is no room yet for a single activation."


print(check_1(gpus_for_states))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# gpus_for_states = -(-16 * 8.3e9 // (24 * 2**30))
# ```
# </details>
#
# **Exercise 2 (medium).** LoRA of the 7B policy on one L40S, with the values of the `single-gpu` rung. It
# does not fit as it stands, with this share for vLLM. Change values (not to four bits, and not the model)
# until it does.

# %%
my_values = {"engine.vllm_memory": "0.3"}


# %%
def check_2(values):
    seven = {"checkpoint": "Qwen/Qwen2.5-VL-7B-Instruct"}
    if "checkpoint" in values or values.get("policy.weights", "lora") != "lora":
        return "Not yet: the same model, and LoRA."
    try:
        plan = plan_of("single-gpu", values=seven | values, assumed={"gpu": "L40S"})
    except SailRLError as error:
        return f"Not yet: {error}"
    if plan.problem:
        return f"Not yet: {plan.problem}"
    return f"Right: {plan.memory.peak / GIB:.1f} GiB of {plan.gpu.memory / GIB:.1f} at most."


print(check_2(my_values))

# %% [markdown]
# <details><summary>Hint</summary>
#
# What must vLLM's share hold at least, and what is left beside the frozen weights?
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_values = {"engine.vllm_memory": "0.45"}
# ```
# </details>
#
# **Exercise 3 (hard).** Write a rule that fires on each of the three sick runs, on the arm where truth falls
# (its seeds 0 to 2), and on no run of the full system. It sees the columns that a run at full scale has, so
# not those that begin with `true_`.


# %%
def my_rule(log):
    """True where the run should be stopped. log: the metrics up to now, a row a step."""
    return log["unscored"].iloc[-2:].mean() > 0.2 if "unscored" in log else False


# %%
def check_3(rule):
    def fires(log):
        seen = log.drop(columns=[name for name in log if name.startswith("true_")])
        return any(rule(seen.iloc[:n]) for n in range(2, len(seen) + 1))

    for name, log in sick.items():
        if not fires(log):
            return f"Not yet: it keeps still when this happens: {name}."
    for log in logs:
        arm, seed = log.head["arm"], log.head["seed"]
        if arm == "always-think" and seed < 3 and not fires(log.metrics):
            return (
                f"Not yet: it keeps still on {arm}, seed {seed}. What does that policy do on easy questions?"
            )
        if arm == "cascade" and fires(log.metrics):
            return f"Not yet: a false alarm on the full system, seed {seed}."
    return "Right. And how many of the other runs does it stop?"


print(check_3(my_rule))

# %% [markdown]
# <details><summary>Hint</summary>
#
# `trigger_direct` is the share of responses with a trace where none is needed.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_rule(log):
#     first, last = log.iloc[:2].mean(numeric_only=True), log.iloc[-2:].mean(numeric_only=True)
#     return bool(
#         last.get("unscored", 0) > 0.2
#         or last.get("content/nonzero", 1) < 0.1
#         or last["tokens"] > 1.5 * first["tokens"] + 2
#         or last.get("trigger_direct", 0) > 0.7
#     )
# ```
# </details>
#
# ## Where to go next
# - `sailrl-lite config show --rung NAME` prints every value and what it rests on; copy a rung's file and name
#   it with `--rung mine.toml`.
# - `sailrl-lite plan --rung NAME --gpus N --gpu TYPE` says what a run needs, or why it cannot fit.
# - `python -m sailrl_lite.bench gpu` measures a rung's speed and memory where there is a GPU.
