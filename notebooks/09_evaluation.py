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
# # Evaluation: from responses to claims
#
# "Accuracy rose by 4.6 points." Of what, on which problems, sampled how, compared by whom, and would it have
# risen again? This notebook takes a number of that kind apart, from single responses to the table of claims
# in which each statement of the paper gets a verdict.
#
# **At the end you will know**
# - how far accuracy moves between two samplings of one policy, and why that is not how far it moves between
#   two trainings;
# - what the temperature, the comparison of answers and the divisor of "relative tokens" do to a result;
# - what accuracy hides: lucky answers, the mode, the format; and what pass@4 means here;
# - what SFT and RL changed, in the paper and here (Tables 1 and 2, Figure 5);
# - how a claim becomes a verdict, worked by hand, and what "untestable here" means;
# - how to put a claim of your own to the logs.
#
# **Time:** about a minute on two CPU cores to run, three quarters of an hour to read.
#
# **Rung:** the same on each: it reads the logs of the study, and asks the micro policy. `sailrl-lite export
# vlmevalkit` measures the others on the paper's benchmarks.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import math

import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from matplotlib import pyplot as plt
from scipy import stats

from sailrl_lite import figures, parse_response
from sailrl_lite.config import SHIPPED
from sailrl_lite.figures.results import read_results, reported
from sailrl_lite.figures.style import ARMS, BLUE, GREEN, GREY, ORANGE, RED, SKY, use_style
from sailrl_lite.rungs import read_rung
from sailrl_lite.study.evaluation import NEVER_THINK, evaluate, unseen_problems
from sailrl_lite.study.statistics import RESOLUTION, holm, paired
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.world.problems import FAMILIES, make_problem

read_rung(RUNG)
results = read_results()

# %% [markdown]
# ## 1. One policy, asked four times
# The shipped policy (after SFT, before RL), 130 problems, one response to each. Then the same again, and
# again, with other seeds of the sampling. Nothing else changes.

# %%
policy, processor = load_checkpoint(SHIPPED)
problems = unseen_problems(10)
tries = [evaluate(policy, processor, problems, seed=seed, bar=None) for seed in range(4)]
right = np.array([rows["accuracy"] for rows in tries]).T  # (problems, tries) of 0 and 1
print("accuracy:", [f"{share:.1%}" for share in right.mean(0)])

# %%
kinds = tries[0]["kind"].to_numpy()
use_style()
figure, (left, right_panel) = plt.subplots(1, 2, figsize=(7.4, 2.9), width_ratios=(1, 1.5))
for row, kind in enumerate(("perception", "general", "reasoning")):
    left.plot(100 * right[kinds == kind].mean(0), [row] * 4, "o", color=BLUE, alpha=0.6)
left.set_yticks(range(3), ("perception", "general", "reasoning"))
left.set(ylim=(2.5, -0.5), xlim=(0, 102), xlabel="accuracy, %", title="each dot is a sampling")
order = np.argsort(right.mean(1), kind="stable")
right_panel.imshow(right[order].T, cmap="Blues", vmax=1.4, aspect="auto", interpolation="nearest")
right_panel.set(yticks=range(4), ylabel="try", xlabel="problem, sorted", title="right (dark) or wrong")
right_panel.grid(visible=False)
plt.show()

# %% [markdown]
# Most problems are not simply solved or unsolved: the policy is right *sometimes*. Each problem $i$ has a
# chance $p_i$, and a response is a draw from it.
#
# **Unseen** means two things. No handwritten digit of a test picture is in a training picture, since the
# scans were split before anything was drawn. And the problems come from a stream of their own:

# %%
from sailrl_lite.world.scenes import scans

for digit in range(10):
    assert not set(scans(digit, "train")) & set(scans(digit, "test"))


def look(problem):
    return problem.question, problem.image.tobytes()


twins = {}
for family in FAMILIES:
    trained = {look(make_problem(family, k)) for k in range(500)}
    twins[family] = sum(look(make_problem(family, k, "test")) in trained for k in range(80))
print("of 80 test problems, same picture and question within 500 training problems:", twins)
assert twins["read_number"] == twins["add"] == 0  # handwriting

# %% [markdown]
# Where a family has few possible pictures, twins could turn up by chance; the counts say how often that
# happens. On the web nobody can count them, which is why benchmarks leak.
#
# ## 2. Three sources of chance
# An accuracy is a mean over problems, and three draws stand behind it: which **problems** were asked, which
# **responses** were sampled, and how the **training** went. For one policy, let $p$ be the mean of the $p_i$.
# The variance of a single mark splits exactly into two parts:
#
# $$\underbrace{p(1-p)}_{\text{a new problem, a new response}} =
# \underbrace{\overline{p_i(1-p_i)}}_{\text{a new response}} +
# \underbrace{\mathrm{Var}(p_i)}_{\text{a new problem}}$$

# %%
n = len(problems)
total, within, between = right.var(), right.var(1).mean(), right.mean(1).var()
assert np.isclose(total, right.mean() * (1 - right.mean())) and np.isclose(total, within + between)

sampling = right.var(1, ddof=1).mean()  # four tries know p_i roughly: n - 1 takes the bias out
print(f"new problems and responses: ±{196 * math.sqrt(total / n):.1f} points for {n} problems")
print(f"the same problems, new responses: ±{196 * math.sqrt(sampling / n):.1f} points")
print(f"seen over four samplings: standard deviation {100 * right.mean(0).std(ddof=1):.1f} points,")
print(f"expected: {100 * math.sqrt(sampling / n):.1f} points")

# %% [markdown]
# Two intervals, two questions. `summarize` draws *problems* anew (a bootstrap), and so gives the first: how
# would this policy do on other problems of this kind?

# %%
from sailrl_lite.study.evaluation import summarize

table = summarize(tries[0].assign(all="all"), by=["all"])
half = (table["accuracy_high"] - table["accuracy_low"])[0] / 2
by_hand = 1.96 * math.sqrt(tries[0]["accuracy"].var(ddof=0) / n)
print(f"bootstrap over problems ±{100 * half:.1f}, by hand ±{100 * by_hand:.1f} points")
assert abs(half - by_hand) < 0.02

# %% [markdown]
# Do more tries help as much as more problems? Turn the knob.

# %%
spread = right.mean(1).var(ddof=1) - sampling / 4  # of the p_i alone
assert abs(spread + sampling - total) < 0.01


def draw(problems):
    use_style()
    figure, axis = plt.subplots(figsize=(6.2, 2.6))
    k = np.arange(1, 17)
    axis.plot(
        k, 196 * np.sqrt((spread + sampling / k) / problems), color=ORANGE, marker="s", label="more tries"
    )
    axis.plot(
        k, 196 * np.sqrt((spread + sampling) / (k * problems)), color=BLUE, marker="o", label="more problems"
    )
    axis.axhline(196 * np.sqrt(spread / problems), color=ORANGE, ls=":")
    axis.set(xlabel=f"responses, times {problems:g}", ylabel="half an interval, points", ylim=(0, None))
    axis.set_title(f"{problems:g} problems asked k times, or k times {problems:g} problems asked once")
    axis.legend()
    return figure


figures.knobs(draw, problems=(130, 10, 1040, 10))

# %% [markdown]
# The third source, training, is in neither. Only **seeds** show it: whole runs. In the study all runs answer
# the *same* 1,040 problems, so an interval over seeds says how the *method* does on these problems when it
# is run again. The arm `sft` is one policy that is only sampled anew with each seed, and `cascade` is trained
# anew as well:

# %%
spread = {arm: results.scores(arm, "accuracy", kind="reasoning") for arm in ("sft", "cascade")}
alone = math.sqrt(right[kinds == "reasoning"].var(1, ddof=1).mean() / 400)
for arm, values in spread.items():
    print(f"{arm:8} {len(values)} seeds, standard deviation {100 * values.std():.1f} points on reasoning")
print(f"sampling 400 responses of the shipped policy, by the formula: {100 * alone:.1f} points")

# %% [markdown]
# A standard deviation from so few seeds is itself uncertain by a quarter or more. Notebook 08 shows what goes
# wrong when responses are taken for runs.
#
# ## 3. The temperature decides what is measured
# At temperature 1 responses are drawn from the policy itself; at 0 it always says its most likely next word.

# %%
temperatures = (0.0, 0.5, 1.0, 1.3)
at = {t: evaluate(policy, processor, problems, temperature=t, seed=SEED, bar=None) for t in temperatures}
assert at[1.0]["accuracy"].mean() == right.mean(0)[SEED]  # the same seed, the same responses

use_style()
figure, axis = plt.subplots(figsize=(6.2, 2.9))
shown = {
    "accuracy": (BLUE, "o"),
    "trigger_rate": (ORANGE, "s"),
    "sound": (GREEN, "^"),
    "format_rate": (GREY, "D"),
}
for measure, (color, marker) in shown.items():
    shares = [100 * at[t][measure].mean() for t in temperatures]
    axis.plot(temperatures, shares, color=color, marker=marker, label=measure.replace("_", " "))
axis.set(xlabel="temperature", ylabel="%", ylim=(0, 103), title="One policy, no RL, four temperatures")
axis.legend(loc="lower left", ncols=2)
plt.show()

# %%
greedy, sampled = (100 * at[t]["accuracy"].mean() for t in (0.0, 1.0))
step = 100 * (results.scores("cascade", "accuracy") - results.scores("sft", "accuracy")).mean()
display(Markdown(
    f"The same weights score {sampled:.0f}% or {greedy:.0f}%: **{abs(greedy - sampled):.0f} points by the "
    f"temperature**. In the study all of RL moves accuracy by {step:+.0f} points, at temperature 1. So say "
    "the temperature with every figure, and compare at one."
))  # fmt: skip
assert greedy > sampled + 10

# %% [markdown]
# This is a caution about our own results too. A likely reason for the gap: the teacher errs in a minority of
# lessons, and its student errs as often when sampled; greedy, it takes the majority's way, which is the right
# one. Then much of what RL has to gain here is to say at temperature 1 what the policy already knows at 0.
# Whether it gains more than that, the logs cannot tell: all of their evaluations are at temperature 1, that
# of the rollouts. The account of the paper names no temperature for its tests.
#
# ## 4. Who says that an answer is right?
# The paper had GPT-4o-mini compare answers. Here a set of rules does (notebook 03). Three shortcuts that are
# often seen, on the responses of two runs that the study kept:

# %%
import re


def responses(arm, tests="plain"):
    """The responses of an arm's run with seed 0, with the kind, label and gold of their problems."""
    rows = pd.read_csv(results.folder / "responses" / f"{arm}-0.csv.gz")
    rows = rows[rows["tests"] == tests].reset_index(drop=True)
    asked = [
        make_problem(family, int(name.rsplit("-", 1)[1]), "test")
        for name, family in zip(rows["id"], rows["family"], strict=True)
    ]
    parsed = [parse_response(text) for text in rows["response"]]
    facts = {"kind": [p.kind for p in asked], "gold": [p.gold for p in asked]}
    return rows.assign(**facts, parsed=parsed, needs_thinking=[p.needs_thinking for p in asked])


kept = {arm: responses(arm) for arm in ("sft", "answer-only", "thinking-answer", "always-think", "cascade")}


# %%
def same_text(text, answer, gold):
    return answer == gold


def last_word(text, answer, gold):
    return (re.findall(r"[\w-]+", re.sub(r"</?\w+>", " ", text)) or [""])[-1] == gold


def somewhere(text, answer, gold):
    return gold in text


marks = {}
for arm in ("sft", "cascade"):
    rows = kept[arm][kept[arm]["kind"] == "reasoning"]
    answers = [response.answer for response in rows["parsed"]]
    for rule in (somewhere, last_word, same_text):
        cases = zip(rows["response"], answers, rows["gold"], strict=True)
        marks.setdefault(rule.__name__, {})[arm] = 100 * np.mean([rule(*case) for case in cases])
    marks.setdefault("equivalent (ours)", {})[arm] = 100 * rows["accuracy"].mean()
marks = pd.DataFrame(marks).T.assign(gain=lambda t: t["cascade"] - t["sft"])
display(marks.round(1).rename_axis("accuracy on reasoning, %"))
assert marks.loc["somewhere", "sft"] > marks.loc["equivalent (ours)", "sft"]

# %% [markdown]
# `somewhere` finds the gold in a trace whose answer is wrong: it pays for talking. Two arms need not be
# flattered alike, so look at the gain, too. The last two rows agree because our answers are short words and
# numbers. Elsewhere equality of texts is not enough:

# %%
from sailrl_lite.answers import equivalent

pairs = {
    ("12", "12.0"): True, ("1/2", "0.5"): True, ("90", "90°"): True, ("blue", "It is blue."): True,
    ("5 m", "500 cm"): True, ("50%", "0.5"): False, ("12 cm", "12 m"): False, ("listen", "silent"): False,
}  # fmt: skip
rows = [(*pair, pair[0] == pair[1], equivalent(*pair)) for pair in pairs]
display(pd.DataFrame(rows, columns=["gold", "prediction", "==", "equivalent"]))
assert all(equivalent(gold, said) == due for (gold, said), due in pairs.items())

# %% [markdown]
# ## 5. By family, with a floor, and with the format
# A mean over thirteen families hides which of them moved. And 50% is a fine accuracy for arithmetic and none
# at all for yes and no: the **majority guess**, the commonest training answer whatever the picture, is the
# floor. Bars: after SFT; dots: after RL; both of seed 0.

# %%
from sailrl_lite.study.evaluation import commonest_answer

by_family = pd.DataFrame(
    {arm: rows.groupby("family", sort=False)["accuracy"].mean() for arm, rows in kept.items()}
)
guessed = kept["sft"]["gold"] == kept["sft"]["family"].map(commonest_answer)
by_family["floor"] = guessed.groupby(kept["sft"]["family"], sort=False).mean()

use_style()
figure, axis = plt.subplots(figsize=(7.4, 3.6))
places = np.arange(len(by_family))
axis.bar(places, 100 * by_family["sft"], 0.7, color=SKY, label=ARMS["sft"].label)
axis.plot(places, 100 * by_family["cascade"], "o", color=BLUE, label=ARMS["cascade"].label)
axis.hlines(100 * by_family["floor"], places - 0.45, places + 0.45, color=RED, lw=2, label="majority guess")
names = [f"{family.replace('_', ' ')}\n({FAMILIES[family].kind})" for family in by_family.index]
axis.set_xticks(places, names, rotation=60, ha="right", rotation_mode="anchor")
axis.set(ylabel="accuracy, %", ylim=(0, 103), title="80 problems a family, one response each")
figure.legend(loc="outside lower center", ncols=3)
plt.show()
assert (by_family["sft"] > by_family["floor"]).mean() > 0.8

# %% [markdown]
# With 80 problems a family, one such dot is good to about ten points. Compare kinds, not families; the claims
# below do.
#
# **Malformed responses.** Their answer counts if it can be read, and the *rewards* pay nothing for it. Count
# both, or a change of the format looks like a change of skill:

# %%
lines = ["| | malformed | answer right all the same | accuracy | malformed counted as wrong |"]
lines.append("|---|---|---|---|---|")
for arm, rows in kept.items():
    well = np.array([response.well_formed for response in rows["parsed"]])
    a = rows["accuracy"].to_numpy()
    cells = f"{(~well).sum()} of {len(rows)} | {a[~well].sum()} | {a.mean():.1%} | {(a * well).mean():.1%}"
    lines.append(f"| {ARMS[arm].label} | {cells} |")
    assert np.isclose(results.scores(arm, "format_rate")[0], well.mean(), atol=1e-4)
    assert np.isclose(results.scores(arm, "accuracy")[0], a.mean(), atol=1e-4)
display(Markdown("\n".join(lines)))

# %% [markdown]
# The two assertions say that the texts and the log of seed 0 tell the same story.
#
# ## 6. When it thinks, and what that costs
# The **trigger rate** is the share of responses whose think block is not blank. Alone it is neither good nor
# bad: split it by what the label says.

# %%
rates = {}
for arm, rows in kept.items():
    rates[ARMS[arm].label] = 100 * rows.groupby("needs_thinking")["trigger_rate"].mean()
rates = pd.DataFrame(rates).T.rename(columns={False: "no thinking needed", True: "thinking needed"})
display(rates.round(1).rename_axis("thinks, %", axis=1))

# %% [markdown]
# **Relative tokens** are tokens over those of not thinking. Whose not thinking? There are two candidates, and
# they are different models: `base`, which never saw a trace, or *the same policy* with a direct answer put
# into its mouth by a prefill (which counts as tokens). The table of claims uses `base`, the stand-in for the
# paper's model that never thinks. Live, the second:

# %%
from sailrl_lite.study.evaluation import with_relative_tokens

never = evaluate(policy, processor, problems, NEVER_THINK, seed=SEED, bar=None)
mine = with_relative_tokens(tries[0], never)
own, forced = (rows.groupby("kind")["tokens"].mean() for rows in (tries[0], never))
ratios = {
    "ratio of means": own / forced,
    "mean of families' ratios": mine.groupby("kind")["relative_tokens"].mean(),
}
display(pd.DataFrame(ratios).round(3))
add = mine["family"] == "add"
by_hand = tries[0].loc[add, "tokens"].mean() / never.loc[add, "tokens"].mean()
assert np.isclose(mine.loc[add, "relative_tokens"].mean(), by_hand) and never["trigger_rate"].max() == 0

# %% [markdown]
# The order of averaging matters where families differ in length, because a ratio of means gives the long ones
# more weight. Now both divisors on the logs, seed by seed. The second is the policy *before* RL, forced.

# %%
lines = ["| tokens relative to | `base` | forced | `base` | forced |", "|---|---|---|---|---|"]
lines.append("| | perception | perception | reasoning | reasoning |")
for arm in ("base", "sft", "always-think", "thinking-answer", "cascade"):
    cells = []
    for kind in ("perception", "reasoning"):
        tokens, base, forced = (
            results.scores(name, "tokens", kind=kind) for name in (arm, "base", "sft-forced-direct")
        )
        assert np.allclose((tokens / base).dropna(), results.scores(arm, "relative_tokens", kind=kind))
        cells += [f"{(tokens / base).mean():.2f}", f"{(tokens / forced).mean():.2f}"]
    lines.append(f"| {ARMS[arm].label} | {' | '.join(cells)} |")
display(Markdown("\n".join(lines)))

# %% [markdown]
# Our traces are a few lines long and the paper's are pages, so the ratios are small: their order can be
# compared, their size cannot.
#
# ## 7. Right, and sound?
# A **lucky** answer is right after a trace that is not sound (a sub-reward is 0). Accuracy cannot tell it
# from a good one. Mode times answer times quality, for reasoning:

# %%
from sailrl_lite.figures.shares import OUTCOMES
from sailrl_lite.world.verifier import DIMENSIONS


def outcome(row):
    """The key of `OUTCOMES` that a response falls under."""
    if not row["parsed"].well_formed:
        return "share/malformed"
    answer = "right" if row["accuracy"] else "wrong"
    if not row["trigger_rate"]:
        return f"share/direct_{answer}"
    sound = all(row[name] == 1 for name in DIMENSIONS)
    return f"share/think_{answer}_{'sound' if sound else 'unsound'}"


shares = {}
for arm, rows in kept.items():
    found = rows[rows["kind"] == "reasoning"].apply(outcome, axis=1)
    shares[ARMS[arm].label] = 100 * found.value_counts(normalize=True)
shares = pd.DataFrame(shares).reindex(OUTCOMES).fillna(0)
assert np.allclose(shares.sum(), 100)

# %%
use_style()
figure, axis = plt.subplots(figsize=(7.4, 3.3))
start = np.zeros(shares.shape[1])
for name, (label, color, hatch) in OUTCOMES.items():
    part = shares.loc[name].to_numpy()
    axis.barh(shares.columns, part, left=start, color=color, hatch=hatch, edgecolor="white", label=label)
    start += part
axis.invert_yaxis()
axis.set(xlim=(0, 100), xlabel="% of responses to reasoning problems", title="What accuracy adds up (seed 0)")
axis.grid(axis="y", visible=False)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# Accuracy adds up the first three parts, and of the malformed what is right all the same. Is the log's
# `lucky` what the texts say? (It counts a malformed response too, where its trace and answer can be read.)

# %%
for arm, rows in kept.items():
    rows = rows[rows["kind"] == "reasoning"]
    sound = (rows[list(DIMENSIONS)] == 1).all(axis=1)
    lucky = ((rows["trigger_rate"] == 1) & ~sound & (rows["accuracy"] == 1)).mean()
    print(f"{arm:16} lucky {lucky:.1%} of all, {lucky / rows['accuracy'].mean():.1%} of the right answers")
    assert np.isclose(lucky, results.scores(arm, "lucky", kind="reasoning")[0], atol=1e-4)

# %% [markdown]
# ## 8. Two things called pass@4
# Four tries, $c$ of them right. In the account of the paper, **pass@4** is $c/4$, and prompts with
# $0 < c < 4$ are kept for RL. Elsewhere **pass@k** is the chance that at least one of $k$ tries is right.
# From $n$ tries, the unbiased estimate is one minus the share of $k$-subsets without a right one:
#
# $$\text{pass@}k = 1 - \binom{n-c}{k} \Big/ \binom{n}{k}$$

# %%
import itertools


def pass_at(k, c, n=4):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


for c, k in itertools.product(range(5), range(1, 5)):
    tried = [1] * c + [0] * (4 - c)
    assert np.isclose(pass_at(k, c), np.mean([max(some) for some in itertools.combinations(tried, k)]))

count = right.sum(1)  # c of each of our problems
usual = [np.mean([pass_at(k, c) for c in count]) for k in range(1, 5)]
print("pass@1 to pass@4, usual:", [f"{share:.1%}" for share in usual])
print(f"the account's pass@4:    {(count / 4).mean():.1%}")
assert np.isclose(usual[0], (count / 4).mean())  # the account's is pass@1, by four tries

# %% [markdown]
# The package's step for curation, asked with the responses that we already have:

# %%
import io

from sailrl_lite.curation.passrate import PassRate
from sailrl_lite.curation.schema import Row


class Replay:
    """A sampler that says again what was said above."""

    fingerprint = "four tries"

    def __call__(self, rows, wanted, seed):
        return [[said["response"][int(row.id)] for said in tries] for row in rows]


def as_row(number, problem):
    picture = io.BytesIO()
    problem.image.save(picture, "png")
    return Row(str(number), picture.getvalue(), problem.question, problem.gold)


rates = PassRate(Replay()).rates([as_row(number, problem) for number, problem in enumerate(problems)])
assert np.allclose(rates, count / 4)

# %%
use_style()
figure, (left, axis) = plt.subplots(1, 2, figsize=(7.4, 2.7))
bars = np.bincount(count, minlength=5)
left.bar(range(5), bars, color=[GREY, BLUE, BLUE, BLUE, GREY])
left.set(xlabel="right tries of 4 (grey: the filter drops them)", ylabel="problems", title="c, a problem")
axis.plot(range(1, 5), 100 * np.array(usual), "o-", color=ORANGE, label="pass@k, usual")
axis.axhline(100 * np.mean(rates), color=BLUE, ls="--", label="the account's pass@4")
axis.set(xlabel="k", xticks=range(1, 5), ylabel="%", ylim=(0, 103), title="Two numbers, one name")
axis.legend(loc="lower right")
plt.show()

# %% [markdown]
# ## 9. Base, SFT, RL
# Now the paper's first two tables. On the left its figures, one run each; on the right ours, with 95%
# intervals over seeds. Our families *stand for* benchmarks: compare the steps, not the levels.

# %%
from sailrl_lite.figures import tables

tables.table(results, "table1")
plt.show()
tables.table(results, "table2")
plt.show()

# %%
systems = ("SAIL-VL2-8B-Instruct", "SAIL-VL2-8B-LongCoT", "SAIL-VL2-8B-Thinking")
from sailrl_lite.study.measured import measured

lines = ["| step | problems | the paper, points | ours, points [95%] |", "|---|---|---|---|"]
for artifact, kinds_of in (("table1", ["reasoning"]), ("table2", ["general", "perception"])):
    theirs = reported(artifact).loc["average", list(systems)]
    ours = [measured(results.evaluations, arm, "accuracy", kinds_of) for arm in ("base", "sft", "cascade")]
    for k, step in enumerate(("base to SFT", "SFT to RL")):
        c = paired(ours[k + 1], ours[k])
        mine = f"{100 * c.mean:+.1f} [{100 * c.low:.1f}, {100 * c.high:.1f}]"
        lines.append(
            f"| {step} | {' and '.join(kinds_of)} | {theirs.iloc[k + 1] - theirs.iloc[k]:+.1f} | {mine} |"
        )
display(Markdown("\n".join(lines)))

# %% [markdown]
# `base` and `sft` are one policy each, sampled anew; only `cascade` was trained several times. The interval
# of the first step is one of sampling, so it says nothing about another SFT.
#
# **Figure 5**: when does the full system think?

# %%
from sailrl_lite.figures import shares as share_figures

share_figures.figure5(results)
plt.show()
before, after = (results.scores(arm, "judging") for arm in ("sft", "cascade"))
c = paired(after.to_dict(), before.to_dict())
display(Markdown(
    f"Decisions that agree with the label: {before.mean():.1%} after SFT, {after.mean():.1%} after RL "
    f"({100 * c.mean:+.1f} points [{100 * c.low:.1f}, {100 * c.high:.1f}], {c.seeds} seeds)."
))  # fmt: skip

# %% [markdown]
# ## 10. From a claim to a verdict
# Who looks first and claims afterwards will find something. Our claims were **registered**: written down,
# with arms, measure, problems and direction, before the first run that counts. What came later are notes
# (`git log -p sailrl_lite/study/claims.toml` shows both). What one of them looks like:

# %%
from sailrl_lite.study.registered import CLAIMS_FILE, load_claims

NAME = "t6-reasoning"
text = CLAIMS_FILE.read_text()
begin = text.index(f'id = "{NAME}"')
print(text[begin : text.index("\n\n", begin)])
registered = {claim.id: claim for claim in load_claims()[0]}
claim = registered[NAME]

# %% [markdown]
# Work it through. **First** the measure, for each seed of both arms, and the differences:

# %%
rows = results.evaluations.query("tests == 'plain' and kind in @claim.kinds")
rows = rows.assign(right=rows["accuracy"] * rows["n"])
sums = rows.groupby(["arm", "seed"])[["right", "n"]].sum()
share = (sums["right"] / sums["n"]).unstack("arm")[[claim.a, claim.b]].dropna()
d = (share[claim.a] - share[claim.b]).to_numpy()
display((100 * share.assign(difference=d)).round(1).T)

# %% [markdown]
# **Second** mean, interval and p. The standard error is $s/\sqrt n$, the reference is Student's $t$ with
# $n - 1$ degrees of freedom, and `RESOLUTION` keeps a spread below one response in 400 from being believed.

# %%
n_seeds = len(d)
error = max(d.std(ddof=1), RESOLUTION) / math.sqrt(n_seeds)
ends = d.mean() + error * stats.t.ppf([0.025, 0.975], n_seeds - 1)
p = 2 * stats.t.sf(abs(d.mean()) / error, n_seeds - 1)
print(
    f"{100 * d.mean():+.2f} points [{100 * ends[0]:+.2f}, {100 * ends[1]:+.2f}], p = {p:.2g}, {n_seeds} seeds"
)
found = paired(share[claim.a].to_dict(), share[claim.b].to_dict())
assert np.allclose([found.mean, found.low, found.high, found.p], [d.mean(), *ends, p])

# %% [markdown]
# **Third** the correction. This is one of many claims, and the smallest of many p values is small by luck.
# Holm: the smallest of $m$ is multiplied by $m$, the next by $m - 1$, and none may fall below the one before.

# %%
from sailrl_lite.study.claims import compare

testable = [c for c in registered.values() if not c.untestable]
p_of = {c.id: compare(results.evaluations, results.curves, c).p for c in testable}
m, worst = len(p_of), 0.0
corrected = {}
for rank, name in enumerate(sorted(p_of, key=lambda name: (math.isnan(p_of[name]), p_of[name]))):
    worst = max(worst, min(1.0, (m - rank) * p_of[name]))
    corrected[name] = worst
known = [name for name in p_of if not math.isnan(p_of[name])]
assert np.allclose(
    [corrected[name] for name in known], [q for q in holm(list(p_of.values())) if not math.isnan(q)]
)
print(f"p = {p_of[NAME]:.2g}; among {m} testable claims corrected to {corrected[NAME]:.2g}")

# %% [markdown]
# **Fourth** the rule. *Reproduced*: the sign is as claimed and the corrected p below 0.05. *Opposite*: the
# same with the other sign. *Not reproduced*: everything else. Does `data/claims.csv` say the same?

# %%
from sailrl_lite.study.report import CLAIMS

claims = pd.read_csv(CLAIMS, dtype=str).fillna("").set_index("id")
as_claimed = d.mean() > 0 if claim.expect == "higher" else d.mean() < 0
verdict = "not reproduced" if corrected[NAME] >= 0.05 else "reproduced" if as_claimed else "opposite"
print("by hand:", verdict, "  the table:", claims.loc[NAME, "verdict"])
row = claims.loc[NAME]
assert [row["ours"], row["ci_low"], row["ci_high"]] == [f"{100 * x:+.2f}" for x in (d.mean(), *ends)]
assert row["p_adjusted"] == f"{corrected[NAME]:.2g}" and row["verdict"] == verdict

# %% [markdown]
# All claims at once: sorted p values against the bar that Holm sets for each, $0.05/(m - k)$. What lies left
# of the first crossing is clear; the rest is not, even where p is below 0.05.

# %%
from sailrl_lite.figures.style import VERDICTS

ranked = sorted(known, key=p_of.get)
use_style()
figure, axis = plt.subplots(figsize=(7.4, 3))
axis.step(range(m), 0.05 / (m - np.arange(m)), where="mid", color="0.3", label="Holm's bar")
axis.axhline(0.05, color="0.6", ls=":", label="0.05")
for verdict, look_of in VERDICTS.items():
    places = [k for k, name in enumerate(ranked) if claims.loc[name, "verdict"] == verdict]
    if places:
        axis.plot(places, [max(p_of[ranked[k]], 1e-12) for k in places], ls="", marker=look_of.marker,
                  color=look_of.color, label=f"{verdict}: {len(places)}")  # fmt: skip
axis.set(
    yscale="log",
    xlabel="claims, by p",
    ylabel="p, uncorrected (1e-12 or less below)",
    title="Which claims are clear?",
)
axis.legend(loc="lower right")
plt.show()
clear = {name for name in known if corrected[name] < 0.05}
assert clear == {name for name in known if claims.loc[name, "verdict"] in ("reproduced", "opposite")}

# %% [markdown]
# Some claims say that a difference is *small* ("more weight on logic changes accuracy by less than 1 point").
# For those, p asks whether the whole interval lies within the margin: that few seeds see no difference is no
# evidence that there is none.
#
# ## 11. All claims
# Read from `data/claims.csv`, which `sailrl-lite study report` writes. No verdict in it was typed.


# %%
def place(artifact):
    return artifact.replace("table", "Table ").replace("figure", "Figure ")


def claim_lines(rows):
    lines = ["| claim | the paper | ours [95%] | seeds | p, Holm | verdict |", "|---|---|---|---|---|---|"]
    for c in rows.itertuples():
        ours = f"{c.ours} [{c.ci_low}, {c.ci_high}]" if c.ours else ""
        lines.append(
            f"| {c.statement} | {c.reported} | {ours} | {c.seeds} | {c.p_adjusted} | **{c.verdict}** |"
        )
    return lines


counts = claims["verdict"].value_counts()
parts = [f"Of {len(claims)} claims: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + "."]
artifacts = sorted(
    claims["artifact"].unique(), key=lambda name: (name[0] == "f", int(re.sub(r"\D", "", name)))
)
for artifact in artifacts:
    parts += [f"**{place(artifact)}**", "\n".join(claim_lines(claims[claims["artifact"] == artifact]))]
display(Markdown("\n\n".join(parts)))
assert set(artifacts) == {f"table{k}" for k in range(1, 11)} | {"figure4", "figure5"}

# %%
crossed = pd.crosstab(claims["artifact"], claims["verdict"]).reindex(
    index=artifacts, columns=VERDICTS, fill_value=0
)
use_style()
figure, axis = plt.subplots(figsize=(6.4, 3.4))
start = np.zeros(len(crossed))
for (name, look_of), hatch in zip(VERDICTS.items(), ("", "////", "xxxx", "...."), strict=True):
    axis.barh(
        [place(a) for a in artifacts], crossed[name], left=start, color=look_of.color, hatch=hatch, label=name
    )
    start += crossed[name].to_numpy()
axis.invert_yaxis()
axis.set(xlabel="claims", title="Verdicts by table and figure of the paper")
axis.grid(axis="y", visible=False)
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# And with the intervals: first accuracy, then the rest.

# %%
from sailrl_lite.figures import claims as claim_figures

claim_figures.claims(results, claim_figures.ACCURACY)
plt.show()

# %%
claim_figures.claims(results, claim_figures.THINKING)
plt.show()

# %% [markdown]
# ## 12. What did not reproduce, and why
# "Not reproduced" has three very different readings. The interval may hold both 0 and what the paper found:
# then we *cannot tell*. It may hold 0 and leave out the paper's figure: then the effect is not of that size
# here, if there is one. Or it leaves 0 out, and either the correction for many claims asks for more, or the
# sign is not the claimed one. The column "reference" is the accuracy that was to be beaten: near 100% there
# is no room above.

# %%
from sailrl_lite.paper import reported as figure_of


def papers_difference(c):
    """The paper's difference in points, mean over the benchmarks of the claim; NaN where none is given."""
    entry = c.reported
    if c.measure != "accuracy" or "b" not in entry or "metric" in entry:
        return math.nan
    pair = [
        np.mean([figure_of(c.artifact, entry[s], of, "accuracy_pct") for of in entry["of"]]) for s in "ab"
    ]
    return pair[0] - pair[1]


def reading(row, c):
    low, high, paper = float(row["ci_low"]), float(row["ci_high"]), papers_difference(c)
    if c.margin:
        return "is not within the margin"
    if not low <= 0 <= high:
        return "leaves 0 out"
    if math.isnan(paper):
        return "holds 0"
    return "holds 0 and the paper's figure" if low <= paper <= high else "holds 0, not the paper's figure"


# %%
failed = claims[claims["verdict"].isin(("not reproduced", "opposite"))]
lines = [
    "| claim | verdict | paper | ours [95%] | interval | reference | why |",
    "|---|---|---|---|---|---|---|",
]
for name, row in failed.iterrows():
    c, level = registered[name], ""
    paper = papers_difference(c)
    if c.measure == "accuracy":
        reference = measured(results.evaluations, c.b, c.measure, c.b_kinds or c.kinds, c.families)
        level = f"{100 * np.mean(list(reference.values())):.0f}%"
    theirs = "" if math.isnan(paper) else f"{paper:+.1f}"
    ours = f"{row['ours']} [{row['ci_low']}, {row['ci_high']}]"
    head = f"{place(c.artifact)}: {c.statement} | {row['verdict']} | {theirs} | {ours}"
    lines.append(f"| {head} | {reading(row, c)} | {level} | {row['why']} |")
display(Markdown("\n".join(lines) if len(failed) else "Every testable claim reproduced."))
assert len(failed) == len(lines) - 2

# %%
said = [reading(row, registered[name]) for name, row in failed.iterrows()]
of_accuracy = np.array([registered[name].measure == "accuracy" for name in claims.index])
accuracy = claims[of_accuracy & (claims["ci_low"] != "")]
halves = (accuracy["ci_high"].astype(float) - accuracy["ci_low"].astype(float)) / 2
display(Markdown(
    "The intervals of what did not reproduce: "
    + "; ".join(f"{count} {what}" for what, count in pd.Series(said, dtype=str).value_counts().items())
    + f". Half an interval of accuracy is {halves.median():.1f} points in the median: an effect much smaller "
    "than that this study can neither show nor rule out."
))  # fmt: skip

# %% [markdown]
# What is known about causes? Two lie in this world and can be seen above: a *ceiling*, where the reference
# leaves little room, and the *temperature*, at which every policy here has its sampling errors to shed, with
# whatever reward for right answers (section 3). A third is a suspicion: a model this small reads its answer
# off its trace, and so has fewer ways to be right for a wrong reason than one of 8 billion parameters.
# Notebook 08 goes through single tables, and shows a regime, the marked pictures, in which right answers can
# be had without a sound trace.
#
# ## 13. What "untestable here" means
# Not "false", and not "small": there is no arm that could speak to it. These claims stay in the table so that
# nobody takes silence for a verdict.

# %%
mute = claims[claims["verdict"] == "untestable here"]
lines = ["| claim | the paper | why |", "|---|---|---|"]
lines += [f"| {place(c.artifact)}: {c.statement} | {c.reported} | {c.why} |" for c in mute.itertuples()]
display(Markdown("\n".join(lines)))
assert (mute["ours"] == "").all()
assert set(mute.index) >= {c.id for c in registered.values() if c.untestable}

# %% [markdown]
# "Reproduced" is modest, too. It says that the *sign* of the claim holds in this world, at this size and
# temperature, clearly over these seeds. It does not say that the paper's number is right.
#
# ## 14. Your own claim
# Arms, measure, kinds and direction: change them and run. Arms are named by `sailrl-lite study list`;
# measures are `accuracy`, `trigger_rate`, `judging`, `sound`, `lucky`, `logic`, `grounding`, `consistency`,
# `tokens` and more. It is corrected as one *more* claim beside the registered ones; and since you have seen
# the logs, it is a hypothesis for new seeds rather than a finding.

# %%
from sailrl_lite.study.claims import judge
from sailrl_lite.study.registered import Claim

yours = Claim(
    id="mine", artifact="", statement="With the full system more traces are sound than with answers alone.",
    reported={}, a="cascade", b="answer-only", measure="sound", kinds=("reasoning",), expect="higher",
)  # fmt: skip
c = compare(results.evaluations, results.curves, yours)
p = holm([*p_of.values(), c.p])[-1]
verdict, why = judge(yours, c, p, len(p_of) + 1)
print(f"{100 * c.mean:+.1f} points [{100 * c.low:.1f}, {100 * c.high:.1f}], p {p:.2g}: {verdict}, {why}")
assert p >= c.p

# %% [markdown]
# ## 15. Exercises
# **Exercise 1 (easy).** Of four tries one is right. What is the usual pass@2, and what the account's pass@4?

# %%
usual_pass_at_2 = None
account_pass_at_4 = None


# %%
def check_1(usual, account):
    if usual is None or account is None:
        return "Not yet: put a number in the place of each None."
    if abs(account - 1 / 4) > 1e-6:
        return f"Not yet: the account's pass@4 is not {account}; it is the share of right tries."
    if abs(usual - (1 - (3 / 4) ** 2)) < 1e-3:
        return "Not yet: that draws with replacement. Two of the four tries are drawn, and no try twice."
    if abs(usual - pass_at(2, 1)) > 1e-6:
        return f"Not yet: the usual pass@2 is not {usual}. How many of the 6 pairs hold the right try?"
    return "Right. One try, and two names would give it two pass rates."


print(check_1(usual_pass_at_2, account_pass_at_4))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# usual_pass_at_2 = 1 - math.comb(3, 2) / math.comb(4, 2)
# account_pass_at_4 = 1 / 4
# ```
# </details>
#
# **Exercise 2 (medium).** Write the rule of the verdicts. `mean` is the difference in points, `p` is
# corrected. `expect` is "higher", "lower", "equal" (nearer to 0 than `margin`) or "not lower" (than
# `-margin`). For the last two p already asks the right question: below 0.05 the whole interval is on that
# side of the margin on which the mean is.


# %%
def my_verdict(expect, margin, mean, p):
    return "reproduced" if p < 0.05 else "not reproduced"


# %%
from sailrl_lite.study.statistics import Comparison


def check_2(mine):
    rng = np.random.default_rng(SEED)
    for _ in range(200):
        expect = str(rng.choice(("higher", "lower", "equal", "not lower")))
        margin = float(rng.choice((1, 2))) if expect in ("equal", "not lower") else 0.0
        mean, p = round(float(rng.normal(0, 2)), 2), round(float(rng.choice((0.01, 0.3))), 2)
        case = Claim("x", "", "", {}, "a", "b", "accuracy", expect=expect, margin=margin)
        difference = Comparison(mean / 100, mean / 100 - 0.001, mean / 100 + 0.001, p, p, 5)
        due, said = judge(case, difference, p, 50)[0], mine(expect, margin, mean, p)
        if said != due:
            return f"Not yet: {expect!r}, margin {margin:g}, mean {mean:+}, p {p}: {due!r}, you say {said!r}."
    return "Right. Mechanical, and that is the point: it can be written down before the first run."


print(check_2(my_verdict))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Two questions: is it clear (p), and does it hold (mean, expect, margin)? Clear and holds, clear and does not
# hold, not clear.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_verdict(expect, margin, mean, p):
#     holds = {
#         "higher": mean > 0, "lower": mean < 0, "equal": abs(mean) < margin, "not lower": mean > -margin,
#     }[expect]
#     if p >= 0.05:
#         return "not reproduced"
#     return "reproduced" if holds else "opposite"
# ```
# </details>
#
# **Exercise 3 (hard).** Each of 60 problems was answered four times: `right` is a table (problems, tries) of
# 0 and 1. Give a 95% bootstrap interval of the accuracy on *problems of this kind*. The code below draws
# responses anew, as if there were 240 problems. How often does its interval hold the truth?


# %%
def my_interval(right, rng):
    values = right.ravel()
    means = rng.choice(values, (400, len(values))).mean(1)
    return np.quantile(means, [0.025, 0.975])


# %%
def check_3(mine):
    rng = np.random.default_rng(SEED)
    held, studies = 0, 400
    for _ in range(studies):
        chance = rng.beta(0.5, 0.5, 60)  # of the kind's problems; their mean is 0.5 in truth
        low, high = mine((rng.random((60, 4)) < chance[:, None]).astype(float), rng)
        held += low <= 0.5 <= high
    if held / studies < 0.9:
        return f"Not yet: it holds the truth in {held / studies:.0%} of {studies} studies: too narrow."
    if held / studies > 0.985:
        return f"Not yet: it holds the truth in {held / studies:.0%} of {studies} studies: too wide."
    return f"Right: it holds the truth in {held / studies:.0%} of {studies} studies. The problem is the unit."


print(check_3(my_interval))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Four answers to one problem are alike. Draw *problems*, and take all four tries of each that was drawn.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_interval(right, rng):
#     means = right.mean(1)  # a value a problem
#     return np.quantile(rng.choice(means, (400, len(means))).mean(1), [0.025, 0.975])
# ```
#
# The runs of the study answer the same problems in the same way, and that is why *their* unit is the seed.
# </details>
#
# ## Where to go next
# - `sailrl-lite study report` makes the table of claims again from the logs; `sailrl-lite evaluate` measures
#   a checkpoint of your own.
# - Notebook 08 has the ablations one by one, and what an interval over seeds is worth.
# - Notebook 12 has what the paper left open; there nothing is corrected, and no verdict is given.
