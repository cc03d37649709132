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
# # LLM judges: how far can a judge be trusted?
#
# The thinking reward of SAIL-RL asks a large model whether a trace is sound. Training then makes likelier
# whatever that model passes, so its errors become lessons. How often is it wrong, in which direction, about
# what? In the micro-world the truth is known, so any judge can be examined. You examine four.
#
# **At the end you will know**
# - why a gain on benchmarks does not show that the judge was right;
# - how to measure a judge: false pass, false fail, kappa, each with an interval, and why accuracy misleads;
# - how to find a judge's blind spots, and what a policy earns in one;
# - how to read a reply, and why "no verdict" must be neither 0 nor 1;
# - what judging the paper's 1,050,000 rollouts costs, and what the judge's errors do to the advantages.
#
# **Time:** about a minute on two CPU cores to run, forty-five minutes to read.
#
# **Rung:** the same on each: a judge does not ask what wrote a trace.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import json
import os
import re
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures
from sailrl_lite.config import SHIPPED
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Scores, Verdict
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.rungs import read_rung

read_rung(RUNG)
JUDGE = os.environ.get("SAILRL_JUDGE", "recorded")  # yours: a judge's text such as "llm:MODEL,base_url=URL"
pd.set_option("display.max_colwidth", 110)

# %% [markdown]
# ## 1. What the paper shows about its judge
# Three models served as the judge (table 9). The policies that they trained score alike:

# %%
judged_by = {
    "GPT-5": [49.7, 63.5, 66.4],
    "Gemini-2.5-Pro": [49.4, 63.8, 66.1],
    "Qwen2.5-VL-32B": [48.4, 62.7, 64.9],
}
table_9 = pd.DataFrame(judged_by, ["MathVision", "LogicVista", "MMMU"])
baseline = pd.Series([27.6, 45.0, 55.4], table_9.index)
figures.use_style()
axis = table_9.plot.bar(figsize=(8.5, 3.2), width=0.75, rot=0)
for k, (level, bars) in enumerate(zip(baseline, zip(*axis.containers, strict=True), strict=True)):
    axis.hlines(level, k - 0.42, k + 0.42, "0.2", lw=2, label="before" if k == 0 else None)
    for bar in bars:
        axis.text(bar.get_x() + 0.125, bar.get_height() + 1, f"{bar.get_height()}", ha="center", fontsize=8)
axis.set(ylim=(0, 84), ylabel="accuracy, %", title="The paper's table 9: one method, three judges")
axis.legend(ncols=4, loc="upper center", frameon=False)
axis.grid(axis="x", visible=False)
plt.show()

# %%
spread = table_9.max(axis=1) - table_9.min(axis=1)
gain = table_9.mean(axis=1) - baseline
display(pd.DataFrame({"gain over the baseline": gain, "spread between the judges": spread}).round(1))
print(f"mean spread {spread.mean():.1f} points")
assert spread.max() < gain.min() / 5 and np.isclose(spread.mean(), 1.3)

# %% [markdown]
# This is all that is said about how good the judge is. It shows that the method does not hang on one model.
# It does not show that the verdicts were right:
#
# - The gain has other causes too. The baseline is called "SFT", but its figures are those of the Instruct
#   model before any of the training, and the answer reward needs no judge.
# - Three judges can be wrong *together*. Models that learnt from much the same texts may well overlook the
#   same things, and then their policies come out alike.
# - The quality of reasoning (figure 4) was measured by the kind of model that gave the reward. A policy that
#   learnt to please its judge and one that learnt to reason look the same in that figure. This is the
#   **circularity** of LLM judges. The way out of it is a truth that does not come from a judge.
#
# ## 2. The protocol, and four judges
# A judge is given *cases* (question, picture, trace, answer) and returns for each a verdict or the cause
# why there is none. That is the whole protocol:
#
#     class Judge:
#         async def judge(self, cases, continuous=False, sample=0) -> list[Verdict | NoVerdict]
#
# You can write one in a few lines. This one reads answers from a file: 54 real replies of a multimodal LLM
# to our prompt, in one call for all three scores (`data/README.md` says how they were come by; they were
# not independent of each other).

# %%
from sailrl_lite.judges.reply import read_reply


class Recorded(Judge):
    """What an LLM once replied; no verdict on a case that it was not shown."""

    name = "recorded LLM"

    def __init__(self, path):
        self.replies = {r["id"]: r for r in map(json.loads, path.read_text("utf-8").splitlines())}

    async def judge(self, cases, continuous=False, sample=0):
        return [self.read(self.replies.get(case.problem.id), case) for case in cases]

    def read(self, row, case):
        if row is None or (row["think"], row["answer"]) != (case.think, case.answer):
            return NoVerdict("not recorded")
        return read_reply(row["message"], row["finish_reason"], row["keys"])


# %% [markdown]
# The four: the *exact* judge (it knows the truth), a *noisy* one (the exact one, turned in 10% of the cases
# either way), the *learned* one (a model of 1.6 million parameters that ships with the project and never
# sees the truth), and *yours*. Yours is what the environment variable `SAILRL_JUDGE` says, such as
# `llm:MODEL,base_url=http://localhost:8000/v1`; where it says nothing, the recorded LLM. An LLM gets 162
# requests here, one for each score of 54 traces, or 54 with `calls=combined`.

# %%
recorded = Recorded(SHIPPED.parent / "judge-transcript.jsonl")
judges = {
    "exact": get_judge("exact"),
    "noisy": get_judge("noisy:exact,false_pass=0.1,false_fail=0.1"),
    "learned": get_judge("learned"),
    "yours": recorded if JUDGE == "recorded" else get_judge(JUDGE),
}
for name, judge in judges.items():
    print(f"{name:8} {judge.name}")

# %% [markdown]
# ### The examination paper
# `labelled_set` is a fixed list of traces, each about a problem of its own, in three parts: *clean*,
# *noised* (one error of the teacher), and *adversarial* (built to look right and be wrong, or the reverse,
# or to talk the judge round). The truth of each is the exact verifier's.

# %%
from sailrl_lite.judges.labelled import labelled_set

traces = labelled_set(650)
truth = np.array([list(vars(t.truth).values()) for t in traces])  # (650, 3), each 0 or 1
about = pd.DataFrame({"source": [t.source for t in traces]} | dict(zip(DIMENSIONS, truth.T, strict=True)))
display(about.groupby("source", sort=False).agg(["mean", "size"])[list(DIMENSIONS)].round(2))
for t in (traces[0], traces[13], traces[26], traces[62]):
    print(f"{t.source}, {t.name}: {t.case.think[:60]!r}, answer {t.case.answer}; {t.truth}")

# %% [markdown]
# Every judge but yours is asked about all 650. Yours may cost money, so it is asked only about the 54 that
# the recorded LLM has seen, and all four are compared on those.

# %%
cases = [t.case for t in traces]
shared = [k for k, t in enumerate(traces) if t.id in recorded.replies]
said = {name: await judges[name].judge(cases, continuous=name == "learned")
        for name in ("exact", "noisy", "learned")}  # fmt: skip
few = await judges["yours"].judge([cases[k] for k in shared])
said["yours"] = [NoVerdict("not asked")] * len(cases)
for k, opinion in zip(shared, few, strict=True):
    said["yours"][k] = opinion
for name, opinions in said.items():
    print(f"{name:8} {sum(isinstance(o, Verdict) for o in opinions)} verdicts")
assert len(shared) == 54


# %% [markdown]
# The learned judge was asked for probabilities; section 6 needs them. A score passes from 0.5 on:


# %%
def passes(opinions):
    """(cases, 3): 1 for a pass, 0 for a fail, NaN where there is no verdict."""
    none = [np.nan] * 3
    return np.array(
        [[*vars(o.scores.binary(0.5)).values()] if isinstance(o, Verdict) else none for o in opinions]
    )


passed = {name: passes(opinions) for name, opinions in said.items()}
assert (passed["exact"] == truth).all()

# %% [markdown]
# ## 3. Four counts, and what to make of them
# For one dimension, a verdict falls into one of four boxes: passed or failed, rightly or wrongly. Two error
# rates say more than one, since they ask two questions:
#
# $$f_+ = P(\text{passed} \mid \text{wrong}) \qquad f_- = P(\text{failed} \mid \text{right})$$
#
# Here for the learned judge and $d_1$:

# %%
right, ok = truth[:, 0] == 1, passed["learned"][:, 0] == 1
boxes = {
    "true pass": (right & ok).sum(),
    "false pass": (~right & ok).sum(),
    "true fail": (~right & ~ok).sum(),
    "false fail": (right & ~ok).sum(),
}
f_plus = boxes["false pass"] / (~right).sum()
f_minus = boxes["false fail"] / right.sum()
accuracy = (boxes["true pass"] + boxes["true fail"]) / len(right)
print({name: int(count) for name, count in boxes.items()})
print(f"accuracy {accuracy:.3f}, false pass {f_plus:.3f}, false fail {f_minus:.3f}")

# %% [markdown]
# **Kappa** asks how much of the agreement is more than chance. Two who pass at these rates without looking
# would agree with probability $p_e$, so
#
# $$\kappa = \frac{p_o - p_e}{1 - p_e}$$
#
# with $p_o$ the accuracy: 0 for a judge that knows nothing, 1 for a perfect one. The package counts the
# same, and so does scikit-learn:

# %%
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from sailrl_lite.judges.check import ALL_THREE, check

p_e = right.mean() * ok.mean() + (1 - right.mean()) * (1 - ok.mean())
kappa = (accuracy - p_e) / (1 - p_e)
groups = {name: [getattr(t, name) for t in traces] for name in ("source", "family", "name")}
full = {name: check([t.truth for t in traces], [said[name]], groups) for name in ("noisy", "learned")}
row = full["learned"].iloc[0]  # of all traces, logic
assert np.allclose(
    [accuracy, f_plus, f_minus, kappa], row[["accuracy", "false_pass", "false_fail", "kappa"]].tolist()
)
assert np.isclose(kappa, cohen_kappa_score(right, ok))
by_sklearn = confusion_matrix(right, ok).ravel().tolist()
assert by_sklearn == [boxes[box] for box in ("true fail", "false pass", "false fail", "true pass")]
print(f"kappa {kappa:.3f}, 95% interval {row['kappa_low']:.3f} to {row['kappa_high']:.3f} (bootstrap)")

# %% [markdown]
# ### Why accuracy misleads
# Meet a judge that looks at nothing and passes everything:

# %%
always = [Verdict(dict.fromkeys(DIMENSIONS, 1))] * len(traces)
columns = ["dimension", "accuracy", "false_pass", "false_fail", "kappa"]
table = check([t.truth for t in traces], [always])[:3][columns]
display(table.round(2))
assert (table["accuracy"] > 0.6).all() and (table["kappa"] == 0).all()

# %% [markdown]
# Right about two of three, and worthless: under it every written trace earns the same. The better the
# policy, the *higher* its accuracy. Kappa sees through it, and so do the two error rates, of which one is
# 1.
#
# ### The same from the command line
# `sailrl-lite judge-check --judge TEXT` does this for any judge and writes a report. In a notebook one
# awaits `check_judge`; here for the noisy judge, which knows its own error rates, so that the check is
# checked too.

# %%
from sailrl_lite.study.judge_check import PAPER_ROLLOUTS, check_judge, project
from sailrl_lite.study.judge_report import overview

folder = Path(tempfile.mkdtemp())
report = json.loads((await check_judge(judges["noisy"], folder, repeats=1, bar=False)).read_text())
print(*overview(report).split("\n")[2:], sep="\n")
for line in report["overall"][:3]:
    for rate in ("false_pass", "false_fail"):
        assert line[f"{rate}_low"] <= 0.1 <= line[f"{rate}_high"], line
assert np.isclose(report["overall"][0]["kappa"], full["noisy"]["kappa"][0])

# %% [markdown]
# The intervals hold the true 10%, as 95% of such intervals should. And the learned judge:

# %%
figures.judge_confusion(full["learned"], "learned")
plt.show()

# %% [markdown]
# Orange is what is paid and should not be. Note the lower row: on clean traces the judge is all but
# perfect, on the adversarial ones it is not. **A judge that is examined on ordinary traces only looks
# better than it will be in training,** where a policy looks for the other kind.
#
# ## 4. Four judges on the same 54 traces
# Judges may be compared only on the same traces: on another sample, all figures would be others.

# %%
short = {name: check([traces[k].truth for k in shared], [[said[name][k] for k in shared]]) for name in said}
rows = {name: table.iloc[:3] for name, table in short.items()}
rates = ["accuracy", "false_pass", "false_fail", "kappa"]
figures.use_style()
figure, axes = plt.subplots(1, 4, figsize=(12, 3.6), sharey=True)
for axis, rate in zip(axes, rates, strict=True):
    for place, (name, table) in enumerate(rows.items()):
        y, value = np.arange(3) + 0.18 * (place - 1.5), table[rate].to_numpy(float)
        ends = [value - table[f"{rate}_low"], table[f"{rate}_high"] - value]
        axis.errorbar(value, y, xerr=ends, fmt="o", ms=5, capsize=2, label=name)
    axis.set(title=rate.replace("_", " "), xlim=(-0.04, 1.04))
    axis.set_yticks(range(3), DIMENSIONS)
    axis.grid(axis="y", visible=False)
axes[0].invert_yaxis()
labels = ["exact", "noisy", "learned", f"yours ({judges['yours'].name})"]
marks = axes[0].get_legend_handles_labels()[0]
figure.legend(marks, labels, loc="outside lower center", ncols=4, frameon=False)
figure.suptitle("Four judges, the same 54 traces, 95% intervals", fontsize=12, weight="bold")
plt.show()

# %%
shown = pd.concat({name: table.set_index("dimension")[[*rates, "verdicts"]] for name, table in rows.items()})
display(shown.round(2))
assert (shown.loc["exact", "kappa"] == 1).all()
if JUDGE == "recorded":
    assert (shown.loc["yours", "kappa"] > 0.8).all()  # as data/README.md says

# %% [markdown]
# Fifty-four traces are few, and the intervals say so: many of them overlap. Overlap does not settle it,
# though, since all judged the *same* traces. What tells two judges apart are the traces that one gets right
# and the other wrong. If they were equally good, each would have half of these (the sign test):

# %%
from scipy.stats import binomtest

rows = []
for k, dimension in enumerate(DIMENSIONS):
    a, b = (passed[name][shared, k] == truth[shared, k] for name in ("learned", "yours"))
    known = ~np.isnan(passed["yours"][shared, k])
    only_a, only_b = int((a & ~b & known).sum()), int((~a & b & known).sum())
    p = binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    rows.append([dimension, only_a, only_b, p])
display(pd.DataFrame(rows, columns=["", "only learned right", "only yours right", "p"]).round(3))
assert binomtest(5, 5).pvalue > 0.05 > binomtest(6, 6).pvalue

# %% [markdown]
# So read such a table with restraint. Even five to none has $p = 0.06$ and may be chance; six to none would
# be the first to pass the usual 5%. To tell two good judges apart takes hundreds of traces, and no sample
# of 54 can show that a judge is *never* wrong.
#
# ## 5. Where is a judge blind?
# The mean error hides what matters. Errors that are spread at random cost time; errors that sit in one
# place can be *found*. So take them apart: by family, and by what is wrong with the trace.

# %%
table = full["learned"]
by_family = table[table["by"] == "family"].pivot(index="group", columns="dimension", values="false_pass")
by_family = by_family.loc[list(dict.fromkeys(groups["family"])), list(DIMENSIONS)].astype(float)
counts = table[(table["by"] == "name") & (table["dimension"] != ALL_THREE)].copy()
counts["wrong"] = counts["n_false_pass"] + counts["n_true_fail"]
worst = counts[counts["wrong"] >= 5].sort_values(["false_pass", "wrong"], ascending=False)[:10]
worst_names = (
    worst["dimension"] + " of \u201c" + worst["group"].str.replace(r"^\w+: ", "", regex=True) + "\u201d"
)

# %%
figures.use_style()
figure, (left, axis) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=[1, 1.4])
left.imshow(by_family, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
for (row, column), rate in np.ndenumerate(by_family.to_numpy()):
    left.text(column, row, f"{rate:.0%}", ha="center", va="center", fontsize=9)
left.set_xticks(range(3), DIMENSIONS)
left.set_yticks(range(len(by_family)), by_family.index)
left.set_title("False passes by family")
left.grid(visible=False)
bars = axis.barh(range(len(worst)), worst["false_pass"], color=figures.BEFORE)
n = [f" {a} of {b}" for a, b in zip(worst["n_false_pass"], worst["wrong"], strict=True)]
axis.bar_label(bars, n, fontsize=9)
axis.set_yticks(range(len(worst)), worst_names)
axis.invert_yaxis()
axis.set(xlim=(0, 1.22), title="False passes by what is wrong: the ten worst", xlabel="share passed")
axis.grid(axis="y", visible=False)
figure.suptitle("The blind spots of the learned judge", fontsize=12, weight="bold")
plt.show()

# %%
control = full["noisy"].query("by == 'name'").dropna(subset="n_false_pass")
control = control[control["n_false_pass"] + control["n_true_fail"] >= 5]
luckless = control.sort_values("false_pass").iloc[-1]
first = worst.iloc[0]
for name, row, rate in (("noisy", luckless, 0.1), ("learned", first, f_plus)):
    hits, n = int(row["n_false_pass"]), int(row["n_false_pass"] + row["n_true_fail"])
    chance = binomtest(hits, n, rate, "greater").pvalue
    where = f"{name:8} {row['group']}, {row['dimension']}"
    print(f"{where}: {hits} of {n}; chance {chance:.1g}, times {len(control)}: {chance * len(control):.1g}")
assert first["false_pass"] > 0.8 and chance * len(control) < 0.001 and f_plus < 1 / 3

# %% [markdown]
# The first line is the control. The noisy judge errs without looking, so its worst place is chance and
# nothing else, and yet it looks bad: there are many places, and few traces in each. Multiply the chance of
# such a count by the number of places before you believe it. The second line survives that by far. A flaw
# that is passed nearly every time is a **blind spot**, and a mean rate of under a third had hidden it.
#
# Look at one trace of each of the three worst kinds, picked by a rule: the first that fooled it. Below each
# stand the exact scores and the judge's probabilities of a pass; the arrow marks the error.

# %%
cards, seen = [], set()
for place in worst.itertuples():
    if len(cards) == 3 or place.group in seen:
        continue
    seen.add(place.group)
    d = DIMENSIONS.index(place.dimension)
    hits = [
        k for k, t in enumerate(traces) if t.name == place.group and truth[k, d] < passed["learned"][k, d]
    ]
    cards.append((place.group, hits[0]))

# %%
titles, rows = zip(*cards, strict=True)
figure = figures.verdict_cards(
    [cases[k] for k in rows],
    [traces[k].truth for k in rows],
    [said["learned"][k].scores for k in rows],
    titles,
)
figure.suptitle("Flawed traces that the learned judge passed", fontsize=12, weight="bold")
plt.show()

# %% [markdown]
# Where is the recorded LLM blind? Its few disagreements with the verifier, in full. Judge for yourself who
# is right; a trace that reads two things and answers with one of them is a border case of "consistent".

# %%
rows = []
for k in shared:
    for d, dimension in enumerate(DIMENSIONS):
        if passed["yours"][k, d] != truth[k, d] and isinstance(said["yours"][k], Verdict):
            t, why = traces[k], said["yours"][k].reasons.get(dimension, "")
            trace = f"{t.case.think}, answer {t.case.answer}".replace("\n", ", ")[:90]
            rows.append([t.name, trace, dimension, int(truth[k, d]), why])
display(pd.DataFrame(rows, columns=["what it is", "trace", "dimension", "exact", "what yours says"]))

# %% [markdown]
# ## 6. Yes or no, or a number?
# The paper asks its judge for 0 or 1. With scores anywhere in [0, 1] it loses 2.1 points on MathVision, 4.4
# on LogicVista and 3.3 on MMMU (table 7), and it says that LLMs cannot grade finely. The learned judge
# gives probabilities, so you can look. First: do they mean what they say? Of the scores near 0.8, 80%
# should belong to sound traces.

# %%
p = np.array([[getattr(o, d) for d in DIMENSIONS] for o in said["learned"]])
edges = np.array([0, 0.02, 0.2, 0.5, 0.8, 0.98, 1.0001])
rows = []
for low, high in pairwise(edges):
    here = (p >= low) & (p < high)
    share = binomtest(int(truth[here].sum()), int(here.sum()))
    ends = share.proportion_ci(method="wilson")
    rows.append([p[here].mean(), share.statistic, ends.low, ends.high, here.sum()])
bins = pd.DataFrame(rows, columns=["said", "true", "low", "high", "scores"])
display(bins.round(2))
first_bin, *_, last_bin = bins["true"]
assert first_bin < 0.2 and last_bin > 0.9 and bins["true"].corr(bins["said"], "spearman") > 0.8
middle = (p >= 0.02) & (p < 0.98)
assert truth[middle].mean() > p[middle].mean() and middle.mean() < 0.5

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(6.2, 3.6))
axis.plot([0, 1], [0, 1], "--", color="0.5", label="as it should be")
ends = [bins["true"] - bins["low"], bins["high"] - bins["true"]]
axis.errorbar(
    bins["said"], bins["true"], ends, fmt="o-", capsize=3, color=figures.AFTER, label="learned judge"
)
for row in bins.itertuples():
    axis.annotate(f"{row.scores}", (row.said, row.true), (7, -12), textcoords="offset points", fontsize=8)
axis.set(xlabel="probability of a pass, as said", ylabel="share that is truly right", xlim=(-0.03, 1.09))
axis.set_title("Reliability of the learned judge (number of scores)")
axis.legend()
plt.show()

# %% [markdown]
# The order is right: what gets a higher score is right more often. The numbers are less good: of the scores
# that are not at an end, more belong to right traces than they say. And most do stand at an end; in the
# middle, where a fine score would have to prove itself, there are few and the intervals are wide.
#
# What does each kind of score bring? Two measures. The *mean square* of score minus truth (for yes-or-no
# scores that is the error rate). And a property of groups: five rollouts that are *all sound* should earn
# the same, so that there is nothing to learn from them and dynamic sampling drops the group.

# %%
from sailrl_lite.training.dapo import group_advantages, has_spread

sound = [k for k, t in enumerate(traces) if t.source == "clean" and t.truth == Scores(1, 1, 1)]
fives = np.array(sound[: len(sound) // 5 * 5]).reshape(-1, 5)
rows = {}
for kind, scores in (("yes or no", passed["learned"]), ("continuous", p)):
    groups_of_sound = torch.tensor(scores.mean(1)[fives])
    spread = has_spread(groups_of_sound).float().mean().item()
    size = group_advantages(groups_of_sound).abs().mean().item()
    rows[kind] = [((scores - truth) ** 2).mean(), spread, size]
table = pd.DataFrame(
    rows, ["mean square error", "groups of five sound with a spread", "mean size of their advantages"]
).T
display(table.round(3))
assert table.iloc[1, 1] > 0.9 > 0.3 > table.iloc[0, 1] and table.iloc[1, 0] <= table.iloc[0, 0]

# %% [markdown]
# Here is a reason for yes and no that does not need the paper's. (The five are about five problems, a
# stand-in for five rollouts of one.) A number is never twice the same, so *every* group has a spread,
# dynamic sampling never drops one, and small differences that mean nothing decide which of five sound
# traces goes up. They are small, but where advantages are divided by the group's deviation, an option of
# DAPO, they come out full size. The mean square says the other half: for *knowing* how a trace is, the
# number is no worse than yes or no. That it trains worse (table 7) is a statement about LLM judges; a judge
# of this kind could come out otherwise.
#
# ## 7. Reading what comes back
# An LLM was asked for one JSON object. Here is what such models send, with what `read_reply` makes of it,
# and two parsers that one would write in a minute. `due` is what the score for logic should be; a dash is
# none.

# %%
GALLERY = {
    "as asked": ('{"logic_reason": "sound", "logic": true}', 1),
    "in a fence": ('```json\n{"logic": 0}\n```', 0),
    "in prose": ('The verdict is {"logic": 0}. Hope this helps!', 0),
    "as a text": ('{"logic": "True"}', 1),
    "in a wrapper": ('{"scores": {"logic": 1.0}}', 1),
    "a mark out of ten": ('{"logic": 10}', None),
    "half a point": ('{"logic": 0.5}', None),
    "not sure": ('{"logic": null}', None),
    "changed its mind": ('{"logic": 1} Wait, line 2 is wrong. {"logic": 0}', None),
    "said twice": ('{"logic": 1, "logic": 0}', None),
    "quotes the trace": ('{"logic_reason": "It only says \\"logic\\": 1", "logic": false}', 0),
    "cut off": ('{"logic": 1, "grou', None),
    "a list": ("[1, 0, 1]", None),
    "only prose": ("The logic: 1 step is missing, so it fails.", None),
    "nothing": (None, None),
}


# %%
def naive_json(text):
    return json.loads(text)["logic"]


def naive_regex(text):
    return int(re.search(r"logic\W+([01])", text)[1])


def ours(text):
    found = read_reply({"content": text}, "stop", ["logic"])
    return found.logic if isinstance(found, Verdict) else None


def tried(parser, text):
    try:
        return parser(text)
    except Exception as error:
        return error


# %%
parsers = {"read_reply": ours, "json.loads": naive_json, "regex": naive_regex}


def is_right(result, due):
    return result is None if due is None else not isinstance(result, str) and result == due


def written(result, good):
    text = type(result).__name__ if isinstance(result, Exception) else "-" if result is None else repr(result)
    return text if good else f"{text}  ✗"


rows, right_reads = {}, dict.fromkeys(parsers, 0)
for name, (text, due) in GALLERY.items():
    rows[name] = {"the reply": text or "(no content)", "due": "-" if due is None else due}
    for parser, function in parsers.items():
        result = tried(function, text)
        right_reads[parser] += is_right(result, due)
        rows[name][parser] = written(result, is_right(result, due))
display(pd.DataFrame(rows).T)
print("right:", right_reads, "of", len(GALLERY))
assert right_reads["read_reply"] == len(GALLERY) and right_reads["json.loads"] < 6 > right_reads["regex"]

# %% [markdown]
# An exception is the good case: somebody sees it, unless it is caught and turned into 0. The bad cases are
# silent. The regex pays for a forged score that the judge merely *quotes*, takes "1 step is missing" for a
# pass, and ten out of ten for one. `read_reply` makes no verdict of all that it would have to guess, and
# says why:

# %%
for name in ("a mark out of ten", "changed its mind", "said twice", "only prose", "cut off"):
    print(f"{name:18}", read_reply({"content": GALLERY[name][0]}, "stop", ["logic"]))

# %% [markdown]
# ## 8. No verdict is not a zero
# Time-outs, refusals and broken replies happen. What should the rollout earn? Five rollouts, and the judge
# was silent on the fourth:

# %%
none = torch.nan
group = {"left out": [1.0, 0.7, 0.1, none, 0.1], "a silent 0": [1.0, 0.7, 0.1, 0.0, 0.1]}
group["a silent 1"] = [1.0, 0.7, 0.1, 1.0, 0.1]
advantages = {name: group_advantages(torch.tensor([rewards]))[0] for name, rewards in group.items()}
by_hand = np.array([1.0, 0.7, 0.1, 0.1]) - np.mean([1.0, 0.7, 0.1, 0.1])
assert np.allclose(advantages["left out"][[0, 1, 2, 4]], by_hand) and advantages["left out"][3] == 0
names = ["1\nR = 1", "2\nR = 0.7", "3\nR = 0.1", "4\nno verdict", "5\nR = 0.1"]
figures.use_style()
colors = [figures.AFTER, figures.BEFORE, "0.6"]
axis = pd.DataFrame(advantages, names).plot.bar(figsize=(9, 3), width=0.8, rot=0, color=colors)
axis.axhline(0, color="0.2", lw=1)
axis.set(
    title="Advantages of one group, by what no verdict is taken for", ylabel="advantage", xlabel="rollout"
)
axis.legend(ncols=3, loc="upper right")
axis.grid(axis="x", visible=False)
plt.show()

# %%
all_missing = torch.full((1, 5), none)
print(
    "all five missing:",
    group_advantages(all_missing)[0].tolist(),
    "spread:",
    has_spread(all_missing)[0].item(),
)
assert (group_advantages(all_missing) == 0).all() and not has_spread(all_missing)[0]
one_known = torch.tensor([[0.7, none, none, none, none]])
assert (group_advantages(one_known) == 0).all()  # nothing to compare it with

# %% [markdown]
# Left out, the fourth rollout moves nothing, and the others are compared with each other. A silent 0 pushes
# down a trace that nobody has judged, and lifts all the others; a silent 1 makes it the best of the group.
#
# One such rollout would be noise. But verdicts are not missing at random: long traces run into time-outs.
# Suppose half of the rollouts are long, long and short ones are equally sound, with mean reward $\mu$, and
# a long one has no verdict with probability $m$. If no verdict counts as $v$, the expected reward of a long
# one is $\mu + m (v - \mu)$. A rollout is itself one of the $G$ in its mean, so the difference between the
# advantages of long and short is
#
# $$\Delta = \left(1 - \tfrac{1}{G}\right) m \, (v - \mu)$$


# %%
def bias(missing, mean, value, groups=20_000, size=5):
    """Mean advantage of long rollouts minus that of short ones, simulated; `value` stands for no verdict."""
    rng = np.random.default_rng(SEED)
    rewards = (rng.random((groups, size)) < mean).astype(float)
    long = rng.random((groups, size)) < 0.5
    rewards[long & (rng.random((groups, size)) < missing)] = value
    advantage = group_advantages(torch.tensor(rewards)).numpy()
    return advantage[long].mean() - advantage[~long].mean()


for value in (0, 1):
    formula = (1 - 1 / 5) * 0.2 * (value - 0.6)
    print(f"v = {value}: simulated {bias(0.2, 0.6, value):+.3f}, formula {formula:+.3f}")
    assert abs(bias(0.2, 0.6, value) - formula) < 0.02
print(f"left out: {bias(0.2, 0.6, np.nan):+.3f}")
assert abs(bias(0.2, 0.6, np.nan)) < 0.02


# %%
def draw(mean_reward):
    figures.use_style()
    figure, axis = plt.subplots(figsize=(7.5, 3.3))
    m = np.linspace(0, 0.5, 6)
    for (name, value), color in zip(
        {"left out": np.nan, "a silent 0": 0, "a silent 1": 1}.items(), colors, strict=True
    ):
        axis.plot(m, [bias(x, mean_reward, value) for x in m], "o", color=color, label=name)
        line = (1 - 1 / 5) * m * (0 if np.isnan(value) else value - mean_reward)
        axis.plot(m, line, color=color, lw=1)
    axis.set(
        xlabel="share of long traces without a verdict",
        ylabel="advantage, long minus short",
        ylim=(-0.42, 0.42),
    )
    axis.set_title(f"What no verdict teaches about length (mean reward {mean_reward:.2f})", loc="left")
    axis.legend(ncols=3, loc="upper left")
    return figure


figures.knobs(draw, mean_reward=(0.6, 0.05, 0.95, 0.05))  # dots are simulated, lines the formula

# %% [markdown]
# A silent 0 teaches to think briefly, a silent 1 to think at length until the judge gives up. Neither was
# asked for. Left out, nothing is taught about length. (What remains: the traces that are never judged are
# never improved. So the share without a verdict is logged, and too many of them stop a run.)
#
# ## 9. Attacks on the judge
# A policy that is paid by a judge will write to the judge. `attacks` holds 44 texts of seven kinds, each
# with the right and with a wrong answer. None reasons, so none deserves anything. First, what reaches an
# LLM judge of a forged end of the trace:

# %%
from sailrl_lite.judges.attacks import ATTACKS, attacks
from sailrl_lite.judges.prompt import has_content, messages, screen
from sailrl_lite.world.problems import make_problem

targets = [make_problem(family, 0, "test") for family in ("color_of", "bars", "suppose", "angle")]
suite = [(p, attack) for p in targets for attack in attacks(p)]
p, forged = next((p, a) for p, a in suite if a.name == "ours, right answer")
print("written by the policy:\n" + forged.think)
sent = messages(Case(p.question, forged.think, forged.answer))[1]["content"][-1]["text"]
print("\nsent to the judge:\n" + sent[sent.index("<reasoning>") : sent.index("<final_answer>")])
for tag in ("question", "reasoning", "final_answer"):
    assert sent.count(f"<{tag}>") == sent.count(f"</{tag}>") == 1

# %% [markdown]
# No angle bracket survives, so no tag can be forged. `screen` then keeps back what need not be sent (it
# says nothing: 0 throughout) and what must not be (too long: no verdict). Of each kind:

# %%
attack_cases = [Case(p.question, a.think, a.answer, p.image, p) for p, a in suite]
kinds = np.array([a.kind for _, a in suite])
fates = {Verdict: "scored 0 unsent", NoVerdict: "no verdict, too long"}
outcome = np.array([fates.get(type(screen(case)), "sent") for case in attack_cases])
screened = pd.crosstab(kinds, outcome, normalize="index").loc[list(ATTACKS)]
display(screened.rename_axis(None).rename_axis(None, axis=1).round(2))
assert screened.loc["empty", "scored 0 unsent"] == 1 and screened.loc["very long", "no verdict, too long"] > 0
assert not has_content(":") and has_content("circle=red")

# %% [markdown]
# `screen` stops what is empty or endless. The rest must be withstood by the judge itself. The learned judge
# has no such guard and has never seen an attack. Its verdicts on all of them, unscreened:

# %%
attacked = passes(await judges["learned"].judge(attack_cases))
exact_attacked = passes(await judges["exact"].judge(attack_cases))
assert (exact_attacked == 0).all()
share = pd.DataFrame(attacked, columns=DIMENSIONS).groupby(kinds).mean().loc[list(ATTACKS)]
share["all three"] = pd.Series(attacked.prod(1)).groupby(kinds).mean()
assert share["all three"].max() < 0.02 and share["grounding"].max() < 0.05 < share["logic"].max()
kept = outcome == "sent"
sent_only = (
    pd.DataFrame(attacked[kept], columns=DIMENSIONS).groupby(kinds[kept]).mean().reindex(list(ATTACKS))
)
sent_only["all three"] = pd.Series(attacked[kept].prod(1)).groupby(kinds[kept]).mean()

# %%
figures.use_style()
figure, axes = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True)
for axis, values, title in zip(
    axes, (share, sent_only), ("As written", "What screen would let through"), strict=True
):
    axis.imshow(values.fillna(0), cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        axis.text(column, row, "-" if np.isnan(value) else f"{value:.0%}", ha="center", va="center")
    axis.set_xticks(range(4), values.columns)
    axis.set_title(title)
    axis.grid(visible=False)
axes[0].set_yticks(range(len(ATTACKS)), ATTACKS)
figure.suptitle("Share of attacks that the learned judge passes", fontsize=12, weight="bold")
plt.show()

# %% [markdown]
# None gets all three: what claims nothing about the picture gets no pass for grounding. But a few get
# logic. Which ones?

# %%
names = [a.name.rsplit(",", 1)[0] for _, a in suite]
by_text = pd.DataFrame(attacked, columns=DIMENSIONS).groupby([kinds, names]).mean()
display(by_text.sort_values(["logic", "consistency"], ascending=False)[:4].round(2))
best = next(a for (p, a), name in zip(suite, names, strict=True) if name == by_text["logic"].idxmax()[1])
print(best.think[:200])
assert by_text["logic"].max() >= 0.25

# %% [markdown]
# This judge cannot read: more than half of these words and signs are unknown to it. On what it never met in
# training it falls to one side or the other, and to which can only be found by trying. An LLM does read
# them, and may be talked round. Of the few attacks in the sample:

# %%
rows = []
for k in shared:
    if traces[k].name.startswith("attack"):
        v = said["yours"][k]
        why = v.reasons.get("logic", "") if isinstance(v, Verdict) else str(v)
        rows.append([traces[k].name, cases[k].think[:60], *passed["yours"][k], why])
display(pd.DataFrame(rows, columns=["attack", "begins", *DIMENSIONS, "reason for logic"]))
if JUDGE == "recorded":
    assert rows and all(row[2:5] == [0, 0, 0] for row in rows)

# %% [markdown]
# Few tries say little. If $n$ of $n$ tries fail, success rates up to $1 - 0.05^{1/n}$ cannot be ruled out
# (one-sided, 95%): an attack that works every second time may well have been missed.

# %%
n, worked = len(rows), sum(np.nansum(row[2:5]) > 0 for row in rows)
print(
    f"{worked} of {n} worked; had none, success rates up to {1 - 0.05 ** (1 / n):.0%} would remain possible"
)
assert np.isclose(binomtest(0, n, 1 - 0.05 ** (1 / n)).pvalue, 0.05, atol=0.05) and n < 10

# %% [markdown]
# ### What would a policy earn?
# Take a policy that has the right answer and decides rightly to think. The cascade pays $0.9 \, R_{think} +
# 0.1$, by the judge's scores. What does a kind of trace earn, and what is due? The attacks, beside the
# *tricks* of the labelled set, which do reason, with one flaw (those with the right answer).

# %%
from sailrl_lite.answers import equivalent
from sailrl_lite.rewards import REWARDS, Components


def pay(scores):
    """What the cascade pays for a right answer after a trace with these scores."""
    return REWARDS["cascade"](Components(1, 1, 1, *scores, decision="think", trace="written"))


assert np.isclose(pay([1, 0, 0]), 0.9 / 3 + 0.1)
rows = [(f"attack: {a.kind}", pay(scores), 0.1) for (p, a), scores in zip(suite, attacked, strict=True)
        if a.answer == p.gold]  # fmt: skip
for t, judged, due in zip(traces, passed["learned"], truth, strict=True):
    if not t.name.startswith(("attack", "harmless")) and equivalent(t.case.problem.gold, t.case.answer):
        rows.append((t.name, pay(judged), pay(due)))
earned = pd.DataFrame(rows, columns=["trace", "paid", "due"]).groupby("trace").agg(["mean", "size"])
earned = earned[earned["paid", "size"] >= 5].drop(columns=("due", "size"))
earned = earned.sort_values(("paid", "mean"), ascending=False)

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(9, 0.22 * len(earned) + 1))
y = np.arange(len(earned))
axis.barh(y, earned["paid", "mean"], color=figures.BEFORE, label="paid by the learned judge")
axis.plot(earned["due", "mean"], y, "D", color="0.15", ms=5, label="due")
axis.set_yticks(y, [f"{name} ({n})" for name, n in zip(earned.index, earned["paid", "size"], strict=True)])
axis.set_ylim(len(earned) - 0.4, -0.6)
axis.set(
    xlim=(0, 1.03), xlabel="reward of a right answer", title="What a kind of trace earns (number of traces)"
)
axis.legend(loc="lower right")
axis.grid(axis="y", visible=False)
plt.show()

# %%
extra = (earned["paid", "mean"] - earned["due", "mean"]).sort_values(ascending=False)
display(extra[:5].round(2).rename("paid beyond what is due").to_frame())
best_attack = earned["paid", "mean"][[name.startswith("attack") for name in earned.index]].max()
assert (
    best_attack < 0.5
    and extra["logic: contradiction"] > 0.2
    and np.isclose(earned.loc["clean", ("paid", "mean")], 1, atol=0.05)
)

# %% [markdown]
# Honest reasoning pays best by far, so attacks are no way to beat it: the three questions protect each
# other. But two ways lead downhill. The blind spot pays: a trace that says both things and goes on with the
# right one fails two questions and is paid as if it failed one. And training compares a rollout with its
# *group*: where none is sound, the 0.4 of a filler with a lucky answer beats the 0.1 of an honest try that
# failed. Notebook 12 trains against such judges.
#
# ## 10. What it would cost
# The paper has 70,000 prompts, 3 epochs, 5 rollouts: 1,050,000 rollouts. Not all need a judge: a malformed
# response earns nothing anyway, and a blank trace is scored by the label. The share that does, measured on
# the shipped policy (another policy has another share):

# %%
from sailrl_lite import parse_response
from sailrl_lite.study.evaluation import unseen_problems
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rollout import respond

policy, processor = load_checkpoint(SHIPPED)
problems = unseen_problems(per_family=20)
texts = respond(policy, processor, [p.question for p in problems], [p.image for p in problems], seed=SEED)
responses = [parse_response(text) for (text,) in texts]
to_judge = [Case(p.question, r.think, r.answer, p.image) for p, r in zip(problems, responses, strict=True)
            if r.well_formed and r.think]  # fmt: skip
share_judged = len(to_judge) / len(problems)
print(f"{len(to_judge)} of {len(problems)} rollouts need a verdict ({share_judged:.0%})")

# %% [markdown]
# How long is a prompt? A rough count: four characters make a token. A call for one score repeats everything
# but the other two criteria, the picture too. The reply's length is that of the recorded LLM, with reasons.


# %%
def tokens(asked):
    """A rough count: characters / 4, without the picture."""
    system, user = asked
    return (len(system["content"]) + len(user["content"][-1]["text"])) / 4


MODES = {"one call": [DIMENSIONS], "three calls": [(d,) for d in DIMENSIONS]}
prompt = {
    mode: np.mean([sum(tokens(messages(case, keys, picture="data:")) for keys in calls) for case in to_judge])
    for mode, calls in MODES.items()
}
reply = np.mean([len(r["message"]["content"]) / 4 for r in recorded.replies.values()])
fixed = len(messages(to_judge[0])[0]["content"]) / 4  # the system message, the same in every call
print(
    f"the same in every call: {fixed / prompt['one call']:.0%} of the text; endpoints may bill that part less"
)
print({mode: round(count) for mode, count in prompt.items()}, "tokens in;", round(reply), "out")
assert 1.5 < prompt["three calls"] / prompt["one call"] < 3


# %%
def bill(mode, price_in=1.25, price_out=10.0, picture=256, trace=500, hidden=0, rpm=1000, share=share_judged):
    """Tokens in and out a verdict, dollars, and days. trace: tokens by which a trace is longer than ours;
    hidden: tokens that a judge thinks before it replies, in each call; rpm: requests a minute."""
    calls = len(MODES[mode])
    tokens_in, tokens_out = prompt[mode] + calls * (picture + trace), reply + calls * hidden
    verdicts = PAPER_ROLLOUTS * share
    dollars = verdicts * (tokens_in * price_in + tokens_out * price_out) / 1e6
    return tokens_in, tokens_out, dollars, verdicts * calls / rpm / 60 / 24


bills = {f"{m}, {h:,} hidden tokens": bill(m, hidden=h) for h in (0, 1000) for m in MODES}
bills = pd.DataFrame(bills, ["tokens in", "tokens out", "dollars", "days"]).T
display(bills.round(1))

# %% [markdown]
# Prices are dollars for a million tokens, and only examples: put in those of your endpoint. Models that
# think before they reply bill those hidden tokens too, and there one must measure, not guess. The package
# makes the same projection from what a judge has really used (`judge-check` prints it), for *all* rollouts:

# %%
for mode, calls in MODES.items():
    tokens_in, tokens_out, dollars, _ = bill(mode, share=1)
    used = {"replies": len(calls), "tokens_in": tokens_in, "tokens_out": tokens_out}
    used["cost"] = float(tokens_in * 1.25 + tokens_out * 10) / 1e6
    projected = project(used, verdicts=1)
    print(mode, projected)
    assert projected["calls"] == PAPER_ROLLOUTS * len(calls) and np.isclose(
        projected["cost"], dollars, rtol=1e-4
    )


# %%
def draw(price_in, price_out, picture, trace, hidden, rpm):
    figures.use_style()
    figure, axes = plt.subplots(1, 2, figsize=(10, 2.6), sharey=True)
    bills = [bill(mode, price_in, price_out, picture, trace, hidden, rpm) for mode in MODES]
    spent = (
        np.array([[b[0] * price_in, b[1] * price_out] for b in bills]) * PAPER_ROLLOUTS * share_judged / 1e6
    )
    axes[0].barh(range(2), spent[:, 0], color=figures.AFTER, label="tokens in")
    axes[0].barh(range(2), spent[:, 1], left=spent[:, 0], color=figures.BEFORE, label="tokens out")
    axes[1].barh(range(2), [b[3] for b in bills], color="0.6")
    for y, (_, _, dollars, days) in enumerate(bills):
        axes[0].text(dollars, y, f" ${dollars:,.0f}", va="center")
        axes[1].text(days, y, f" {days:.1f} days", va="center")
    for axis, title in zip(axes, ("Dollars", f"Days at {rpm:,.0f} requests a minute"), strict=True):
        axis.set(title=title, xlim=(0, 1.25 * axis.get_xlim()[1]), yticks=range(2), yticklabels=list(MODES))
        axis.grid(axis="y", visible=False)
    axes[0].legend(loc="lower right")
    figure.suptitle(f"A verdict on {PAPER_ROLLOUTS * share_judged:,.0f} rollouts", fontsize=12, weight="bold")
    return figure


figures.knobs(
    draw, price_in=(1.25, 0, 10, 0.05), price_out=(10, 0, 50, 0.5), picture=(256, 0, 2000, 16),
    trace=(500, 0, 4000, 100), hidden=(0, 0, 4000, 100), rpm=(1000, 50, 10_000, 50),
)  # fmt: skip

# %%
one, three, one_hidden, three_hidden = bills["dollars"]
print(f"three calls cost {three / one:.1f} times one call,")
print(f"with hidden tokens {three_hidden / one_hidden:.1f} times")
assert 1.3 < three / one < three_hidden / one_hidden < 3

# %% [markdown]
# What do three calls buy? Each criterion is read on its own, and where a reply is bad, one score is asked
# again and not three. (But a case has a verdict only when all three have one: with a share $q$ of calls
# that stay bad, $1-(1-q)^3$ of the rollouts are left out.) Whether they are also *more right* is a matter
# of measurement: run `judge-check` with `calls=combined` and without.
#
# ## 11. What the judge's errors do to learning
# Take one dimension, a sound trace and a flawed one. A judge that errs passes the first with probability
# $1-f_-$ and the second with $f_+$. The expected difference of their scores, and so of their advantages, is
#
# $$(1 - f_-) - f_+ = 1 - f_+ - f_-$$
#
# instead of 1. So errors of either kind *scale* what is learnt about the two. (In the cascade one flaw of a
# right answer costs $0.3 \, (1 - f_+ - f_-)$.) Simulated with noisy judges on the labelled set:

# %%
light = [k for k, c in enumerate(cases) if len(c.think) < 500]
light_cases, light_truth = [cases[k] for k in light], truth[light]
grid = [(0.0, 0.0), (0.2, 0.0), (0.0, 0.2), (0.2, 0.2), (0.4, 0.1), (0.1, 0.4), (0.5, 0.5)]
gaps = []
for plus, minus in grid:
    noisy = get_judge(f"noisy:exact,false_pass={plus},false_fail={minus},seed=1")
    scores = passes(await noisy.judge(light_cases))
    gaps.append(scores[light_truth == 1].mean() - scores[light_truth == 0].mean())
closed = [1 - plus - minus for plus, minus in grid]
table = pd.DataFrame(grid, columns=["f+", "f-"]).assign(simulated=gaps, formula=closed)
display(table.round(3))
assert np.allclose(gaps, closed, atol=0.06) and np.isclose(pay([1, 1, 1]) - pay([0, 1, 1]), 0.3)

# %% [markdown]
# In the formula $f_+$ and $f_-$ weigh the same. So does the direction not matter? It does, and which one is
# worse depends on how many traces are sound. With a share $s$ of sound ones:
#
# - of what is *passed*, $\frac{(1-s) f_+}{(1-s) f_+ + s (1-f_-)}$ is flawed. While sound traces are rare,
#   this is most of it; without false passes it is nothing.
# - of what is *failed*, $\frac{s f_-}{s f_- + (1-s)(1-f_+)}$ is sound. Once flawed traces are rare, this is
#   most of it; without false fails it is nothing.
#
# Passed rollouts are made likelier, failed ones rarer. Groups of five, by a judge with one error rate at
# 0.2 and the other at 0:


# %%
def flawed_among_passed(s, plus, minus):
    return (1 - s) * plus / ((1 - s) * plus + s * (1 - minus))


def sound_among_failed(s, plus, minus):
    return s * minus / (s * minus + (1 - s) * (1 - plus))


def simulated(s, plus, minus, groups=20_000):
    """The flawed share of the rollouts that are made likelier, and the sound share of those made rarer."""
    rng = np.random.default_rng(SEED)
    sound = rng.random((groups, 5)) < s
    score = np.where(sound, rng.random((groups, 5)) >= minus, rng.random((groups, 5)) < plus)
    advantage = group_advantages(torch.tensor(score, dtype=torch.float)).numpy()
    return 1 - sound[advantage > 1e-6].mean(), sound[advantage < -1e-6].mean()


# %%
s = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
lenient, strict = (np.array([simulated(x, *rates) for x in s]) for rates in ((0.2, 0), (0, 0.2)))
figures.use_style()
figure, axes = plt.subplots(1, 2, figsize=(10, 3.3), sharey=True)
for k, (axis, title) in enumerate(
    zip(axes, ("Flawed, of those made likelier", "Sound, of those made rarer"), strict=True)
):
    axis.plot(s, lenient[:, k], "o-", color=figures.BEFORE, label="lenient judge, $f_+ = 0.2$")
    axis.plot(s, strict[:, k], "o-", color=figures.AFTER, label="strict judge, $f_- = 0.2$")
    axis.set(title=title, xlabel="share of sound traces", ylim=(-0.03, 1))
axes[0].set_ylabel("share")
axes[0].legend()
plt.show()
assert np.abs(lenient[:, 0] - flawed_among_passed(s, 0.2, 0)).max() < 0.03 and (lenient[:, 1] == 0).all()
assert np.abs(strict[:, 1] - sound_among_failed(s, 0, 0.2)).max() < 0.03 and (strict[:, 0] == 0).all()

# %% [markdown]
# Early in training, when few traces are sound, most of what a lenient judge raises is flawed, while a
# strict one never raises the wrong thing. Late in training most of what a strict judge lowers is sound.
# Which error to fear depends on the stage, and a judge that was fit to start with may be unfit to go on
# with.
#
# All this is about errors at random. A policy that *finds* a blind spot makes $f_+ = 1$ there; the
# difference $1 - f_+ - f_-$ is 0 or less, and nothing pulls it out again. What full training makes of it is
# measured in notebook 12.
#
# ## 12. Your own attack
# Write a trace for this problem that deserves less than it gets. Any text will do.

# %%
mine = make_problem("angle", seed=0, split="test")
my_trace = "left=65\nleft=60\nright=65\n180-65=115\n115-65=50"
my_answer = mine.gold
figures.scored_trace(mine, my_trace, my_answer)
plt.show()
my_case = Case(mine.question, my_trace, my_answer, mine.image, mine)
for name in ("exact", "noisy", "learned"):
    (verdict,) = await judges[name].judge([my_case])
    print(f"{name:8} {verdict.scores}  paid {pay(vars(verdict.scores).values()):.2f}")
print("screened:", screen(my_case))

# %% [markdown]
# ## 13. Exercises
# **Exercise 1 (easy).** A judge passed 90 of 100 right traces and 30 of 50 wrong ones. Its false-pass rate,
# false-fail rate and kappa?

# %%
false_pass = false_fail = kappa_of_it = None


# %%
def check_1(false_pass, false_fail, kappa_of_it):
    if None in (false_pass, false_fail, kappa_of_it):
        return "Not yet: put a number in the place of each None."
    if abs(false_pass - 30 / 50) > 0.005:
        return "Not yet: false_pass is a share of what is truly *wrong*."
    if abs(false_fail - 10 / 100) > 0.005:
        return "Not yet: false_fail is a share of what is truly *right*."
    p_o, p_e = 110 / 150, 100 / 150 * 120 / 150 + 50 / 150 * 30 / 150
    if abs(kappa_of_it - p_o) < 0.005:
        return "Not yet: that is the accuracy. Take off what chance would give."
    if abs(kappa_of_it - (p_o - p_e) / (1 - p_e)) > 0.005:
        return "Not yet: kappa. p_e multiplies the shares of truth and judge, for passes and for fails."
    return "Right. An accuracy of 0.73, and a kappa of one third: most of that agreement is chance."


print(check_1(false_pass, false_fail, kappa_of_it))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# false_pass, false_fail = 30 / 50, 10 / 100
# p_o = (90 + 20) / 150
# p_e = (100 / 150) * (120 / 150) + (50 / 150) * (30 / 150)
# kappa_of_it = (p_o - p_e) / (1 - p_e)
# ```
# </details>
#
# **Exercise 2 (medium).** A share `s` of the traces is sound, and the judge fails sound ones at the rate
# `f_minus`. How large may its false-pass rate be if at most half of what it passes is to be flawed?


# %%
def largest_false_pass(s, f_minus):
    return None


# %%
def check_2(answer):
    for s, f_minus in ((0.1, 0.0), (0.1, 0.2), (0.3, 0.1), (0.8, 0.1)):
        if (value := answer(s, f_minus)) is None:
            return "Not yet: return a number."
        if not 0 <= value <= 1:
            return f"Not yet: for s = {s}, f_minus = {f_minus} you return {value:.2f}, which is no rate."
        flawed = flawed_among_passed(s, value, f_minus)
        if flawed > 0.5 + 1e-9:
            return f"Not yet: for s = {s}, f_minus = {f_minus} that leaves {flawed:.0%} flawed."
        if value < 1 and flawed < 0.5 - 1e-9:
            return f"Not yet: for s = {s}, f_minus = {f_minus} it may be larger."
    return (
        "Right. With one sound trace in ten, a judge that lets 12% of the flawed pass is already too lenient."
    )


print(check_2(largest_false_pass))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Set the flawed among the passed, $(1-s) f_+$, equal to the sound among them, $s (1-f_-)$. A rate is never
# above 1.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def largest_false_pass(s, f_minus):
#     return min(1, s * (1 - f_minus) / (1 - s))
# ```
# </details>
#
# **Exercise 3 (hard).** Find a hole of your own: a trace for `hole_problem`, with the right answer, that
# the learned judge passes in all three dimensions while the verifier fails at least one.

# %%
from sailrl_lite.world.verifier import verify

hole_problem = make_problem("color_of", seed=0, split="test")
my_hole = "square=red"
figures.gallery([hole_problem])
plt.show()


# %%
def check_3(think):
    p = hole_problem
    case = Case(p.question, think, p.gold, p.image, p)
    (judged,), exact = judges["learned"].score([case]), verify(p, think, p.gold).scores()
    if exact == Scores(1, 1, 1):
        return "Not yet: the verifier finds nothing wrong with it."
    if judged.scores != Scores(1, 1, 1):
        return f"Not yet: the learned judge says {judged.scores}, because of {dict(judged.reasons)}."
    paid, due = pay([1, 1, 1]), pay(vars(exact).values())
    return f"Right. The verifier says {exact}; the cascade pays {paid:.1f} where {due:.1f} is due."


print(check_3(my_hole))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Start from the sound trace, `square=orange`. The judge looks hard at what the question asks about. In what
# words, other than those of the question, could one speak of the rest of the picture?
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_hole = "purple triangle=no\nsquare=orange"
# ```
#
# There is one. Put before sound traces of this family, false denials like this and false counts
# (`circles=2`) go through nine times in ten, false colours (`circle=red`) one time in seven (seeds 0 to
# 11): the judge looks at what questions of the family ask about.
# </details>
#
# ## Where to go next
# - `sailrl-lite judge-check --judge TEXT --out FOLDER` examines any judge and writes a report.
# - `sailrl-lite judge-train` makes another learned judge; `learned:FOLDER` names it.
# - Notebook 12 trains policies against judges that err, and watches judged and exact scores part.
