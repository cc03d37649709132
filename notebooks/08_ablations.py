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
# # Ablations: what a difference is worth
#
# An **ablation** takes one thing away, leaves everything else alone, and looks at what is lost. The paper has
# ten tables of this kind, each with one run a row. Here every row is several runs, so you can ask what a
# single run cannot tell: is this the thing that was taken away, or is it the luck of a seed? You derive the
# interval that answers it, see two ways to fool yourself, and read each table of the paper beside ours.
#
# **At the end you will know**
# - what makes a comparison fair, and why a level at the start of training proves nothing;
# - why the *seed* is the unit, what pairing buys, and how many seeds a difference needs;
# - how to find an effect where there is none, and how Holm's correction stops you;
# - which claims of Tables 3, 4, 5, 7, 8, 9, 10 and Figure 4 hold in the micro-world, and which do not;
# - how to add an arm of your own in three lines, and run it.
#
# **Time:** about a minute on two CPU cores to run, three quarters of an hour to read.
#
# **Rung:** the same on each: it reads the logs of the study, which is of the micro policy.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from matplotlib import pyplot as plt
from scipy import stats

from sailrl_lite import figures
from sailrl_lite.figures import curves, tables
from sailrl_lite.figures.results import read_results, reported
from sailrl_lite.figures.style import ARMS, BLUE, GREY, RED, use_style
from sailrl_lite.paper import REPORTED
from sailrl_lite.rungs import read_rung
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.report import CLAIMS
from sailrl_lite.study.statistics import RESOLUTION, holm, interval, paired

read_rung(RUNG)
results = read_results()
claims = pd.read_csv(CLAIMS, dtype=str).fillna("")

# %% [markdown]
# ## 1. Two arms, seed by seed
# An **arm** is one way to train. These two differ in their reward and in nothing else: `answer-only` pays
# right answers, `cascade` is the full system. A line joins two runs of the same **seed**: they saw the same
# problems in the same order. Both were then asked the same unseen questions.

# %%
a = results.scores("cascade", "accuracy", kind="reasoning")
b = results.scores("answer-only", "accuracy", kind="reasoning")
seeds = a.index.intersection(b.index)

use_style()
figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3), width_ratios=(1.2, 1))
for seed in seeds:
    left.plot([0, 1], [100 * b[seed], 100 * a[seed]], color=GREY, marker="o")
    right.plot(100 * (a[seed] - b[seed]), 0, "o", color=GREY)
left.set_xticks((0, 1), ("answer only", "full system"))
left.set(xlim=(-0.3, 1.3), ylabel="accuracy on reasoning, %", title="a line a seed")
mean, low, high = interval(100 * (a - b)[seeds])
right.errorbar(mean, -0.3, xerr=[[mean - low], [high - mean]], fmt="D", color=BLUE, capsize=3)
right.axvline(0, color="0.3", lw=0.8)
right.set(ylim=(-0.6, 0.3), yticks=[], xlabel="difference, points", title="differences and 95% interval")
plt.show()

# %% [markdown]
# Before anybody looks at such a picture, five things must be settled:
#
# 1. **One thing differs.** The same start, problems, steps, rollouts.
# 2. **The same tuning.** If one arm got its learning rate from a search, the other must have one too. Here no
#    arm was tuned at all.
# 3. **Several seeds**, since a run is a draw.
# 4. **Paired** by seed: what the runs share cancels in the difference.
# 5. **The claims written down first**, and counted (section 5). Ours are in `study/claims.toml`, committed
#    before the first run.
#
# ## 2. A level at the start proves nothing
# The policies began as students of a *teacher* who errs at rates that we chose. What do the curves of the
# paper's Figure 4 begin with, in our world? With whatever we like. Logic of the teacher's lessons, if it
# slips more often:

# %%
import random

from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import Noise, teach
from sailrl_lite.world.verifier import verify

problems = [make_problem(family, seed) for family in ("add", "angle", "story") for seed in range(60)]


def logic_of_lessons(slip):
    rng = random.Random(SEED)
    lessons = [(p, teach(p, rng, Noise(slip=slip, wrong_label=0))) for p in problems]
    return np.mean([verify(p, lesson.trace, lesson.answer).logic for p, lesson in lessons])


for slip in (0.0, 0.12, 0.3):
    print(f"slips in {slip:.0%} of lessons (and other errors as ever): logic {logic_of_lessons(slip):.2f}")
assert logic_of_lessons(0.0) > logic_of_lessons(0.3) + 0.15

# %% [markdown]
# So that one curve starts at 0.8 and another at 0.55 says something of the teacher. What can be compared with
# the paper is a **change**: against another arm, or against the start.
#
# ## 3. The arms, and one of your own
# All arms are in one file that a person can read.

# %%
from sailrl_lite.study.arms import ARMS_FILE

text = ARMS_FILE.read_text()
study = load_study()
print(len(study.arms), "arms,", len(study.runs(["all"])), "runs. What all share, and some arms:\n")
for name in ("[budget]", "[arms.cascade]", "[arms.answer-only]", "[arms.learned]"):
    start = text.index(name)
    print(text[start : text.index("\n\n", start)], end="\n\n")

# %% [markdown]
# To add one, write three lines. This one pays a right decision and a right answer, and no judge looks at the
# traces. Change it to what you like; section 10 runs it.

# %%
MY_ARM = """
[arms.mine]
about = "no judge of traces: judging * answer"
reward = "judging+answer"
"""

# %% [markdown]
# The live runs of this notebook have a tiny budget of their own, the same for both arms.

# %%
import tempfile
from pathlib import Path

TINY = """
[budget]
steps = 6
prompts = 24
[study]
seeds = 1
per_family = 8
[arms.cascade]
about = "the full system"
"""
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
(folder / "arms.toml").write_text(TINY + MY_ARM)
tiny = load_study(folder / "arms.toml")
for arm in tiny.arms.values():
    print(f"{arm.name}: {arm.about}; reward {arm.rl.reward}, {arm.rl.steps} steps")
same = {name: (v, vars(tiny.arms["mine"].rl)[name]) for name, v in vars(tiny.arms["cascade"].rl).items()}
print("they differ in:", {name: pair for name, pair in same.items() if pair[0] != pair[1]})

# %% [markdown]
# ## 4. The seed is the unit
# The differences $d_1 \dots d_n$, one a seed. If they are about normal around the true difference $\delta$,
#
# $$\bar d \pm t_{0.975,\,n-1} \frac{s}{\sqrt n}, \qquad s^2 = \frac{1}{n-1} \sum_i (d_i - \bar d)^2$$
#
# holds $\delta$ in 95% of studies. $t$ stands in the place of 1.96 because $s$ is itself estimated: with five
# seeds it is 2.78, with three 4.30.

# %%
d = (a - b)[seeds].to_numpy()
n = len(d)
s = max(np.sqrt(((d - d.mean()) ** 2).sum() / (n - 1)), RESOLUTION)
half = stats.t.ppf(0.975, n - 1) * s / np.sqrt(n)
print("by hand:    ", np.round(100 * np.array([d.mean(), d.mean() - half, d.mean() + half]), 2))
found = paired(a.to_dict(), b.to_dict())
print("the package:", np.round(100 * np.array([found.mean, found.low, found.high]), 2), f"p = {found.p:.3f}")
assert np.allclose([found.mean, found.low, found.high], [d.mean(), d.mean() - half, d.mean() + half])

# %% [markdown]
# (`RESOLUTION` is the one thing added: a spread below one response in 400 is not believed, else seeds that
# agree by chance would make certainty.)
#
# There is a tempting other way. Each run answered hundreds of questions; put all together and you have
# thousands of responses, and a small error:

# %%
rows = results.evaluations.query("tests == 'plain' and kind == 'reasoning'")
responses = {arm: rows.loc[rows["arm"] == arm, "n"].sum() for arm in ("cascade", "answer-only")}
error = np.sqrt(sum(x.mean() * (1 - x.mean()) / n for x, n in zip((a, b), responses.values(), strict=True)))
print(f"{responses['cascade']} responses an arm: half an interval is {196 * error:.1f} points")
print(f"{n} seeds: half an interval is {100 * half:.1f} points")

# %% [markdown]
# What is wrong with it? The responses of a run come from *one* policy. If that policy had a lucky training,
# all its responses did. And the same 80 problems a family are asked of each run: to pool them as if they
# were new counts each problem several times. Let two arms be equal in truth, let the
# policies of an arm scatter around the same accuracy, and count how often each way cries "effect!":

# %%
rng = np.random.default_rng(SEED)


def false_alarms(scatter, seeds=5, questions=400, studies=4000):
    """How often two equal arms seem to differ, by responses and by seeds."""
    skill = np.clip(0.6 + scatter * rng.standard_normal((2, studies, seeds)), 0.01, 0.99)
    share = rng.binomial(questions, skill) / questions
    means, difference = share.mean(2), share[0] - share[1]
    naive = np.abs(means[0] - means[1]) / np.sqrt((means * (1 - means)).sum(0) / (seeds * questions)) > 1.96
    by_seed = stats.ttest_1samp(difference, 0, axis=1).pvalue < 0.05
    return naive.mean(), by_seed.mean()


# %%
scatters = np.array([0, 0.5, 1, 2, 3, 4]) / 100
alarms = np.array([false_alarms(scatter) for scatter in scatters])
spreads = [results.scores(arm, "accuracy", kind="reasoning").std() for arm in study.groups["table3"][1:]]

use_style()
figure, axis = plt.subplots(figsize=(6.2, 2.9))
axis.plot(100 * scatters, 100 * alarms[:, 0], color=RED, marker="s", label="by responses")
axis.plot(100 * scatters, 100 * alarms[:, 1], color=BLUE, marker="o", label="by seeds")
axis.axhline(5, color="0.3", ls=":", lw=1)
axis.set(xlabel="scatter of equally good policies, points", ylabel="false alarms, %", ylim=(0, None))
axis.set_title("Two equal arms, five seeds, 400 questions: how often is a difference found?")
axis.legend()
plt.show()
assert abs(alarms[:, 1] - 0.05).max() < 0.02 and alarms[-1, 0] > 0.25

# %%
display(Markdown(
    f"By seeds the rate is 5% whatever the scatter; by responses it is 5% only if policies do not scatter at "
    f"all. In our logs the trained arms of Table 3 have standard deviations over seeds of "
    f"{', '.join(f'{100 * s:.1f}' for s in spreads)} points. The drawing of 400 answers alone would give at "
    f"most {100 * np.sqrt(a.mean() * (1 - a.mean()) / 400):.1f}; what is more than that is the policies'. "
    f"{len(a)} seeds say this only roughly, which is one more reason not to lean on it."
))  # fmt: skip

# %% [markdown]
# ### How many seeds?
# The price of honesty is power. Turn the knobs: the true difference, and the scatter of the paired
# differences. The curve is the chance that the interval leaves 0 out.


# %%
def power(effect, scatter, n):
    t, shift = stats.t.ppf(0.975, n - 1), effect / scatter * np.sqrt(n)
    return stats.nct.sf(t, n - 1, shift) + stats.nct.cdf(-t, n - 1, shift)


def draw(effect, scatter):
    use_style()
    figure, axis = plt.subplots(figsize=(6.2, 2.6))
    numbers = np.arange(2, 16)
    axis.plot(numbers, 100 * power(effect, scatter, numbers), color=BLUE, marker="o")
    for n in {arm.seeds for arm in study.arms.values()}:
        axis.axvline(n, color="0.6", ls=":", lw=1)
    axis.set(ylim=(0, 103), xlabel="seeds (dotted: how many our arms have)", ylabel="found, %")
    axis.set_title(f"A true difference of {effect:g} points, scatter {scatter:g}")
    return figure


figures.knobs(draw, effect=(3, 0.5, 10, 0.5), scatter=(2, 0.5, 6, 0.5))
simulated = stats.ttest_1samp(rng.normal(3, 2, (8000, 5)), 0, axis=1).pvalue < 0.05
assert abs(simulated.mean() - power(3, 2, 5)) < 0.02

# %% [markdown]
# So an interval that holds 0 does not say "no effect". It says "no effect beyond my ends". Read the ends.
#
# ## 5. Twenty ways to be lucky
# Compare twenty useless tricks with one reference, five seeds each, and report the best:

# %%
reference = rng.normal(0, 1, (2000, 1, 5))
tricks = rng.normal(0, 1, (2000, 20, 5))
p = stats.ttest_1samp(tricks - reference, 0, axis=2).pvalue
best = (tricks - reference).mean(2).max(1)
raw = (p.min(1) < 0.05).mean()
corrected = np.mean([min(holm(row)) < 0.05 for row in p])
print(f"the best trick seems to gain {best.mean():.1f} standard deviations of a run")
print(f"some p value is below 0.05 in {raw:.0%} of studies; after Holm's correction in {corrected:.1%}")
assert raw > 0.2 and corrected < 0.07

# %% [markdown]
# **Holm's correction**: sort the $m$ p values; the smallest is multiplied by $m$, the next by $m-1$, and so
# on, and none may fall below the one before it. The chance of *any* false claim is then below 5%.
# Our table of claims has many tests, so its correction is severe: a difference must be large or very steady.

# %%
values = [0.04, 0.001, 0.03]
order = np.argsort(values)
by_hand = np.maximum.accumulate(np.array(values)[order] * [3, 2, 1])
print("sorted", np.array(values)[order], "becomes", by_hand)
assert np.allclose(np.array(holm(values))[order], by_hand)
print("tests in our table of claims:", (claims["p_adjusted"] != "").sum())

# %% [markdown]
# ## 6. How to read the tables
# For each table: the paper's figures on the left, one run each; ours on the right, with intervals over seeds;
# and the claims with their verdicts, read from `data/claims.csv`. *Reproduced*: the sign as claimed and the
# corrected p below 0.05. *Opposite*: the same with the other sign. *Not reproduced*: all else, which includes
# "too few seeds to tell". For claims that a difference is *small*, the whole interval must lie within the
# margin. These rules are mechanical, and no verdict was typed by hand.


# %%
def verdicts(artifact):
    """The claims of a table or figure of the paper, as `sailrl-lite study report` judged them."""
    lines = ["| claim | the paper | ours, [95%] | p, Holm | verdict |", "|---|---|---|---|---|"]
    for c in claims[claims["artifact"] == artifact].itertuples():
        ours = f"{c.ours} [{c.ci_low}, {c.ci_high}]" if c.ours else ""
        verdict = f"**{c.verdict}**: {c.why}"
        lines.append(f"| {c.statement} | {c.reported} | {ours} | {c.p_adjusted} | {verdict} |")
    assert len(lines) > 2, f"no claims of {artifact}"
    display(Markdown("\n".join(lines)))


def oddities(artifact):
    """What the account of the paper leaves strange about these figures."""
    table = pd.read_csv(REPORTED)
    notes = table.loc[table["artifact"] == artifact, "note"].dropna().unique()
    display(Markdown("Oddities of the paper's figures: " + "; ".join(notes) + "."))


def says(arm, reference, measure="accuracy", scale=100, unit="points", **where):
    """A difference of two arms in words."""
    one, other = (results.scores(name, measure, **where) for name in (arm, reference))
    c = paired(one.to_dict(), other.to_dict())
    clear = "leaves 0 out" if c.low > 0 or c.high < 0 else "holds 0"
    return (
        f"{ARMS[arm].label} less {ARMS[reference].label}: {scale * c.mean:+.1f} {unit} "
        f"[{scale * c.low:.1f}, {scale * c.high:.1f}], {c.seeds} seeds; the interval {clear}"
    )


# %% [markdown]
# ### Table 3: the thinking reward
# Answer reward alone, against answer and thinking. The paper's second row equals its full system, so we show
# both: with the thinking reward alone, and with the judging reward as well.

# %%
tables.table(results, "table3")
plt.show()
verdicts("table3")
oddities("table3")

# %% [markdown]
# Is the table of claims what it says it is? Derive one of its numbers from the logs, without the package's
# statistics:

# %%
rows = results.evaluations.query("tests == 'plain' and kind == 'reasoning'")
rows = rows.assign(right=rows["accuracy"] * rows["n"])
total = rows.groupby(["arm", "seed"])[["right", "n"]].sum()
share = (total["right"] / total["n"]).unstack("arm")
by_hand = 100 * (share["thinking-answer"] - share["answer-only"]).mean()
claim = claims.set_index("id").loc["t3-thinking"]
print(f"by hand {by_hand:+.2f}, in the table of claims {claim.ours}")
assert abs(by_hand - float(claim.ours)) < 0.01

# %% [markdown]
# Two cautions about our own numbers. A small model reads its answer off its trace, so a sound trace and a
# right answer come together; a large one may have more ways to be right without it. And our judge
# is exact; section 9 has others.
#
# ### Figure 4: does reasoning collapse?
# The paper's most striking picture: under the answer reward alone accuracy rises while consistency *falls*.
# Above, what was read off its curves; below, ours, always by the exact verifier.

# %%
curves.figure4(results)
plt.show()
verdicts("figure4")

# %%
lucky = says("thinking-answer", "answer-only", "lucky", kind="reasoning")
sound = says("thinking-answer", "answer-only", "sound", kind="reasoning")
display(Markdown(f"At the end, on reasoning.\n- Sound traces: {sound}.\n- Lucky successes: {lucky}."))

# %% [markdown]
# ## 7. Where the collapse can be looked for
# A reward for answers cannot make a trace worse unless right answers can be had *without* it. So give the
# policy another way: a mark in the picture that encodes the answer. It was true on 80% of the pictures of a
# further SFT, is on all pictures of RL, and at test either on all or on none. The paper names the mechanism
# (a regularity in the data is exploited); here it has a switch.

# %%
marked = make_problem("add", 3, "test", shortcut=1.0)
figures.gallery([make_problem("add", 3, "test"), marked])
plt.show()

# %%
curves.collapse(results)
plt.show()

# %%
arms = ("shortcut-thinking-answer", "shortcut-answer-only")
lines = [
    f"- {name}: {says(*arms, measure, tests=tests, kind='reasoning')}."
    for name, measure, tests in (
        ("Consistency, with the mark", "consistency", "marked"),
        ("Sound traces, with the mark", "sound", "marked"),
        ("Accuracy, with the mark", "accuracy", "marked"),
        ("Accuracy, once the mark is gone", "accuracy", "plain"),
    )
]
display(Markdown("On reasoning.\n" + "\n".join(lines)))

# %% [markdown]
# The last line is the one that matters outside the laboratory: what is left when the shortcut goes away. And
# the whole section is a *regime*, found by looking for one: it says that the effect can occur, and where, not
# how often.
#
# ## 8. The judging reward: Tables 4 and 5
# **Table 4** compares the full system with one that must think about everything.

# %%
tables.table(results, "table4")
plt.show()
verdicts("table4")

# %% [markdown]
# **Table 5** sets four ways side by side: never think, always think, decide without being paid for it, and
# the full system. Tokens are relative to those of the model that never thinks.

# %%
tables.table5(results)
plt.show()
verdicts("table5")

# %%
base = results.scores("base", "tokens", kind="perception")
full = results.scores("cascade", "tokens", kind="perception")
ratio = (full / base).mean()  # seed by seed
assert np.isclose(ratio, results.scores("cascade", "relative_tokens", kind="perception").mean())
paper = reported("table5", "tokens_relative_to_never").loc["OCRBench", "sail-rl"]
display(Markdown(
    f"Tokens on perception: {full.mean():.1f} a response against {base.mean():.1f}, {ratio:.2f} times as "
    f"many (the paper: {paper} times on OCRBench). Our traces are a few lines and the paper's are pages, and "
    f"our model that never thinks writes a judgment too: compare the order of the ratios, not their size."
))  # fmt: skip

# %% [markdown]
# ## 9. The finer choices: Tables 7 to 10
# **Table 7: binary or continuous scores.** The paper finds 0/1 better than a score anywhere in $[0, 1]$, and
# puts it down to judges that cannot tell 0.7 from 0.8. Here the judge can be exact, so the two can be told
# apart: continuous scores with an exact judge, and both with one that errs in 10% of what it says.

# %%
tables.table(results, "table7")
plt.show()
verdicts("table7")
oddities("table7")

# %% [markdown]
# **Table 8: weights.** A claim that something makes *no* difference needs a margin: here 1 point. "Not
# significant" would be no evidence, since few enough seeds make everything so.

# %%
tables.table8(results)
plt.show()
verdicts("table8")
oddities("table8")

# %% [markdown]
# **Table 9: judges.** The paper's three judges are GPT-5, Gemini-2.5-Pro and an open 32B model. Ours are the
# exact verifier, the verifier with 10% errors, and a small learned judge with real blind spots.

# %%
tables.table(results, "table9")
plt.show()
verdicts("table9")
oddities("table9")

# %% [markdown]
# **Table 10: other models.** A policy with a quarter of the parameters, and one of another architecture
# (Qwen3-VL), through the same code. Their SFT was shorter, so their levels are their own; compare the steps
# from SFT to answer-only to the full system.

# %%
tables.table10(results)
plt.show()
verdicts("table10")

# %% [markdown]
# All verdicts of this notebook in one picture, but for those in tokens. The bars are what a table of single
# runs cannot show.

# %%
from sailrl_lite.study.registered import load_claims

here = ("table3", "figure4", "table4", "table5", "table7", "table8", "table9", "table10")
points = [c.id for c in load_claims()[0] if c.measure != "relative_tokens"]
numbers = claims[claims["artifact"].isin(here) & claims["id"].isin(points) & (claims["ours"] != "")]
numbers = numbers.astype({"ours": float, "ci_low": float, "ci_high": float})
colors = {"reproduced": BLUE, "not reproduced": GREY, "opposite": RED, "untestable here": "0.8"}
use_style()
figure, axis = plt.subplots(figsize=(7.4, 0.19 * len(numbers) + 0.8))
for row, c in enumerate(numbers.itertuples()):
    bars = [[c.ours - c.ci_low], [c.ci_high - c.ours]]
    axis.errorbar(c.ours, row, xerr=bars, fmt="o", color=colors[c.verdict], ms=4, capsize=2)
for verdict, count in numbers["verdict"].value_counts().items():
    axis.plot([], [], "o", color=colors[verdict], label=f"{verdict}: {count}")
axis.axvline(0, color="0.3", lw=0.8)
axis.set_yticks(range(len(numbers)), numbers["id"], fontsize=8)
axis.set(ylim=(len(numbers) - 0.5, -0.5), xlabel="difference, points, 95% interval")
axis.set_title("Claims and verdicts")
axis.legend(loc="best")
plt.show()
assert (numbers["ci_low"] <= numbers["ours"]).all() and (numbers["ours"] <= numbers["ci_high"]).all()

# %% [markdown]
# ## 10. An arm, live
# Now the tiny arms of section 3, by the function behind `sailrl-lite study run`. Each run is a process of its
# own; one that is killed goes on where it was, and one whose log is there is not made again.

# %%
from sailrl_lite.study.logs import curves as metrics_of
from sailrl_lite.study.logs import evaluations, read_logs
from sailrl_lite.study.runner import run_study

runs = tiny.runs(["all"])
outcome = run_study(runs, root=folder / "work", logs=folder / "logs", bar=False)
assert not outcome.failed, outcome.failed
logs = read_logs(folder / "logs")
for log in logs:
    print(f"{log.head['arm']}, seed {log.head['seed']}: {len(log.metrics)} steps")
assert len(logs) == len(runs)
assert len(run_study(runs, root=folder / "work", logs=folder / "logs", bar=False).skipped) == len(runs)

# %%
metrics = metrics_of(logs)
use_style()
figure, axes = plt.subplots(1, 3, figsize=(7.4, 2.6), sharex=True)
for arm, part in metrics.groupby("arm", sort=False):
    for axis, column in zip(axes, ("answer", "judging", "true_thinking"), strict=True):
        axis.plot(part["step"], part[column], marker="o", label=arm)
        axis.set(title=column.replace("_", " "), xlabel="step", ylim=(0, 1.02))
axes[0].legend()
figure.suptitle(f"{tiny.arms['cascade'].steps} steps, one seed")
plt.show()

# %% [markdown]
# See how alike the curves are: both arms meet the same problems, and the same draws of chance as long as
# their policies agree. What they share is what pairing takes out of the difference.

# %%
test = evaluations(logs)
right = test["accuracy"] * test["n"]
accuracy = right.groupby(test["arm"]).sum() / test.groupby("arm")["n"].sum()
seed = tiny.runs(["mine"])[0].seed
c = paired({seed: accuracy["mine"]}, {seed: accuracy["cascade"]})
print(f"mine less cascade: {100 * c.mean:+.1f} points, interval [{c.low}, {c.high}] over {c.seeds} seed")
assert np.isnan(c.low) and np.isnan(c.p)

# %% [markdown]
# One seed gives a difference and no interval: `nan` is the honest answer. For a real one, copy `arms.toml`,
# put your three lines in, and
#
#     sailrl-lite study run mine --arms my-arms.toml --seeds 5
#
# prints the row of a table, with an interval, beside the full system's.
#
# ## 11. Exercises
# **Exercise 1 (easy).** Three seeds gave differences of 1.0, 4.0 and 4.0 points. What is half the width of
# the 95% interval? ($t_{0.975,\,2} = 4.303$.)

# %%
half_width = None


# %%
def check_1(half_width):
    if half_width is None:
        return "Not yet: put a number in the place of None."
    mean, low, high = interval([1.0, 4.0, 4.0])
    due = (high - low) / 2
    if abs(half_width - 1.96 * due / stats.t.ppf(0.975, 2)) < 0.05:
        return "Not yet: 1.96 is for a spread that is known; with three seeds it is not."
    if abs(half_width - due * np.sqrt(2 / 3)) < 0.05:
        return "Not yet: divide the squares by n - 1, not by n."
    if abs(half_width - due) > 0.05:
        return f"Not yet: {half_width:.2f}. The standard deviation is sqrt(3)."
    return f"Right: {mean:.0f} ± {due:.1f}. All three seeds gained, and the interval holds 0."


print(check_1(half_width))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# half_width = 4.303 * np.sqrt(3) / np.sqrt(3)
# ```
# </details>
#
# **Exercise 2 (medium).** How many seeds until half the interval is at most `effect`, if the differences
# scatter with standard deviation `scatter`? Give the least number from 2 on. (Mind that $t$ depends on $n$.)


# %%
def seeds_needed(effect, scatter):
    return 5


# %%
def check_2(seeds_needed):
    def half(n, scatter):
        return stats.t.ppf(0.975, n - 1) * scatter / np.sqrt(n)

    for effect, scatter in ((2, 1), (1, 1), (1, 2), (5, 0.5), (0.5, 2)):
        n = seeds_needed(effect, scatter)
        if n < 2:
            return f"Not yet: {n} seeds have no interval."
        if half(n, scatter) > effect:
            return f"Not yet: {n} seeds give ±{half(n, scatter):.2f}, not ±{effect} (scatter {scatter})."
        if n > 2 and half(n - 1, scatter) <= effect:
            return f"Not yet: {n} are more than ±{effect} needs (scatter {scatter})."
    return f"Right. One point at a scatter of two takes {seeds_needed(1, 2)} seeds."


print(check_2(seeds_needed))

# %% [markdown]
# <details><summary>Hint</summary>
#
# A loop: `stats.t.ppf(0.975, n - 1) * scatter / np.sqrt(n)` falls with `n`.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def seeds_needed(effect, scatter):
#     n = 2
#     while stats.t.ppf(0.975, n - 1) * scatter / np.sqrt(n) > effect:
#         n += 1
#     return n
# ```
# </details>
#
# **Exercise 3 (hard).** t intervals assume normal differences. The *sign-flip test* does not: if the arms are
# equal, each difference could as well have had the other sign. Write its two-sided p value: of all $2^n$
# patterns of signs, the share whose mean lies at least as far from 0 as the one that was seen.


# %%
def my_sign_flip(differences):
    return 0.05


# %%
from sailrl_lite.study.statistics import sign_flip


def check_3(mine):
    for k in range(20):
        differences = np.random.default_rng(k).normal(1, 1, 3 + k % 5)
        said, due = mine(differences), sign_flip(differences)
        if not np.isclose(said, due):
            return f"Not yet: of {np.round(differences, 2)} you say {said:.4f}; the package says {due:.4f}."
    return f"Right. And of five seeds that all agree it is {mine(np.ones(5)):.4f}: it cannot be smaller."


print(check_3(my_sign_flip))

# %% [markdown]
# <details><summary>Hint</summary>
#
# `itertools.product((1, -1), repeat=n)` gives the patterns. Compare with a little room for rounding, so that
# the pattern that was seen counts itself.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# import itertools
#
#
# def my_sign_flip(differences):
#     patterns = np.array(list(itertools.product((1, -1), repeat=len(differences))))
#     means = np.abs(patterns @ np.asarray(differences))
#     return np.mean(means >= means[0] * (1 - 1e-9))
# ```
#
# With five seeds it never falls below 2 in 32, so after a correction for dozens of claims it could prove
# nothing. That is why the study uses $t$, and shows the sign-flip value beside it.
# </details>
#
# ## Where to go next
# - `sailrl-lite study list` names all arms; `sailrl-lite study report` makes the table of claims again.
# - Notebook 06 has Table 6, the cascade against the additive reward; notebook 09 the whole table of claims.
# - Notebook 12 asks what the paper left open.
