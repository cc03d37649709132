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
# # Open questions: what the paper left untested
#
# A paper fixes a dozen numbers and moves on: $\alpha = 0.9$, no KL term, five rollouts, a filter on pass@4.
# Was any of them needed? With 8 billion parameters and 64 GPUs nobody asks twice. In the micro-world a run
# takes minutes, and the truth about every trace is known. Ten questions, with what was run, what came
# out, and what it does *not* say.
#
# **At the end you will know**
# - what $\alpha$ does to an advantage, and what the share for the format is good for;
# - what a KL term costs, and what it keeps of problems that RL never sees;
# - which prompts teach something, by their pass rate and by the number of rollouts;
# - how wrong labels and wrong judges push, and when a judge that errs can be *learnt*;
# - whether the policy thinks because of the question or because of its words;
# - how much of what RL gains is teaching, and how much only makes likelier what SFT knew;
# - in which regime an effect appears, and what a shortcut does to reasoning here;
# - what is still open, and how to run it.
#
# **Time:** about a minute on two CPU cores to run, forty minutes to read.
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

from sailrl_lite import figures, parse_response
from sailrl_lite.config import SHIPPED
from sailrl_lite.figures import curves, questions
from sailrl_lite.figures.results import read_results
from sailrl_lite.figures.style import ARMS, BLUE, GREEN, ORANGE, use_style
from sailrl_lite.rungs import read_rung
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.statistics import interval, paired

read_rung(RUNG)
results = read_results()
study = load_study()

# %% [markdown]
# ## 1. All at a glance
# One picture for the impatient: accuracy on reasoning of the arms of sections 2 to 8, less that of the full
# system (`cascade`), paired by seed, with 95% intervals. The `kl` arms train on fewer families, and section 4
# compares them.

# %%
groups = ("alpha", "cold-start", "pass4", "rollouts", "labels", "judge-error")
arms = [arm for group in groups for arm in study.groups[group] if arm != "cascade"]
arms = list(dict.fromkeys(arms))  # each once
full = results.scores("cascade", "accuracy", kind="reasoning").to_dict()
found = {arm: paired(results.scores(arm, "accuracy", kind="reasoning").to_dict(), full) for arm in arms}

use_style()
figure, axis = plt.subplots(figsize=(7, 0.26 * len(arms) + 0.9))
for row, c in enumerate(found.values()):
    bars = [[100 * (c.mean - c.low)], [100 * (c.high - c.mean)]]
    axis.errorbar(100 * c.mean, row, xerr=bars, fmt="o", color=BLUE, capsize=3)
axis.axvline(0, color="0.3", lw=1)
axis.set_yticks(range(len(arms)), [ARMS[arm].label for arm in arms])
axis.set(ylim=(len(arms) - 0.5, -0.5), xlabel="points more than the full system, 95% interval")
axis.set_title("Accuracy on reasoning")
plt.show()
assert all(c.low <= c.mean <= c.high for c in found.values())

# %%
wide = np.median([100 * (c.high - c.low) / 2 for c in found.values()])
clear = [ARMS[arm].label for arm, c in found.items() if c.low > 0 or c.high < 0]
display(Markdown(
    f"Half an interval is {wide:.1f} points in the median. Intervals that leave 0 out: "
    f"{', '.join(clear) or 'none'}. Of {len(found)} intervals about {0.05 * len(found):.1f} would do so by "
    f"luck, and nothing here is corrected for that: these are explorations, no claims."
))  # fmt: skip

# %%
fewest = min(c.seeds for c in found.values())
errors = stats.t.isf(0.025, fewest - 1)
display(Markdown(
    f"With {fewest} seeds an interval is {errors:.1f} standard errors to each side. So read the *ends*: "
    "effects beyond them are unlikely, and everything between them is possible."
))  # fmt: skip

# %% [markdown]
# This is the helper that makes the tables below:


# %%
def against(reference, arms, **shown):
    """Each arm less the reference. `shown` gives for each column a measure and where to look, as a dict."""
    lines = [
        f"| less *{ARMS[reference].label}* | seeds | {' | '.join(shown)} |",
        "|---" * (len(shown) + 2) + "|",
    ]
    for arm in (arm for arm in arms if arm != reference):
        cells = []
        for where in shown.values():
            where = dict(where)
            measure = where.pop("of")
            one, other = (results.scores(name, measure, **where).to_dict() for name in (arm, reference))
            c, unit = paired(one, other), 1 if measure == "tokens" else 100
            mark = "**" if c.low > 0 or c.high < 0 else ""
            cells.append(f"{mark}{unit * c.mean:+.1f}{mark} [{unit * c.low:.1f}, {unit * c.high:.1f}]")
        lines.append(f"| {ARMS[arm].label} | {c.seeds} | {' | '.join(cells)} |")
    assert len(lines) > 2
    display(Markdown("\n".join([*lines, "", "Points; bold where the 95% interval leaves 0 out."])))


REASONING = {"of": "accuracy", "kind": "reasoning"}
PERCEPTION = {"of": "accuracy", "kind": "perception"}
SOUND = {"of": "sound", "kind": "reasoning"}

# %% [markdown]
# ## 2. How much for the format?
# $R = \alpha \, C + (1-\alpha) \, F$, content and format, with $\alpha = 0.9$ in the paper. What does the
# knob turn? Take a group of four responses: sound and right, partly sound and right, wrong, malformed.

# %%
from sailrl_lite.rewards import Components, answer_reward, get_reward

group = [
    Components(1, 1, 1, 1, 1, 1, "think", "written"),
    Components(1, 1, 1, 1, 1, 0, "think", "written"),
    Components(1, 0, 1, 0, 1, 1, "think", "written"),
    Components(0, 1, 1, 1, 1, 1, "think", "written"),
]
table = pd.DataFrame(
    {alpha: [get_reward("cascade", alpha)(c) for c in group] for alpha in (0.5, 0.7, 0.9, 1.0)}
)
table.index = ["sound, right", "one flaw, right", "wrong", "malformed"]
advantages = table - table.mean()
display(table.round(2), advantages.round(2))

# %% [markdown]
# Among *well-formed* responses a difference of contents is worth $\alpha$ times itself: half of $\alpha$ is
# like half a learning rate for the content. And at $\alpha = 1$ a malformed response earns what a wrong one
# does.

# %%
content = np.array([1, 2 / 3])
for alpha in table:
    assert np.isclose(table.loc["sound, right", alpha] - table.loc["one flaw, right", alpha], alpha / 3)
assert table.loc["wrong", 1.0] == table.loc["malformed", 1.0] and (
    table.loc["wrong", 0.5] > table.loc["malformed", 0.5]
)

questions.knob(results, "open-alpha")
plt.show()
against("cascade", study.groups["alpha"], accuracy=REASONING, sound=SOUND, format={"of": "format_rate"})

# %%
formats = {arm: interval(results.scores(arm, "format_rate"))[0] for arm in ("sft", *study.groups["alpha"])}
said = ", ".join(f"{ARMS[arm].label} {share:.1%}" for arm, share in formats.items())
display(Markdown(
    f"Well-formed responses: {said}. What SFT has taught of the format, this term cannot teach again. A "
    f"policy that starts without it (a base model, no SFT) is another question, and was not run."
))  # fmt: skip

# %% [markdown]
# ## 3. The cold start: from a sum to a product
# A product pays nothing until all its factors are there. The additive reward pays each part. Why not begin
# with the sum and end with the product? `anneal` does so, evenly over the run.

# %%
curves.cold_start(results)
plt.show()
questions.knob(results, "open-anneal")
plt.show()
against("cascade", study.groups["cold-start"], accuracy=REASONING, sound=SOUND, judging={"of": "judging"})

# %%
table = results.curves
first = table[table["step"] <= 5].groupby("arm")["content/nonzero"].mean()
display(Markdown(
    f"In the first five steps {first['cascade']:.0%} of the rollouts under the cascade earn some content "
    f"reward, {first['additive']:.0%} under the additive one. A cold start worth the name would be near "
    f"zero; here SFT has taught the policy all parts before RL begins."
))  # fmt: skip
assert first["additive"] > first["cascade"] > 0

# %% [markdown]
# ## 4. A leash: the KL term
# DAPO drops the term $-\beta \, \mathrm{KL}(\pi \,\|\, \pi_{SFT})$, and so does the paper. A leash costs
# reward; what it may save is what RL does not train. So three families (`shape_of`, `suppose`, `compare`,
# one of each kind) were kept out of RL in these arms, and are asked at the end.

# %%
curves.kl_over_training(results)
plt.show()
questions.kl_weight(results)
plt.show()

# %%
HELD_OUT = {"families": list(questions.HELD_OUT)}
TRAINED = {"families": list(study.arms["kl-0"].rl.families)}
assert not set(HELD_OUT["families"]) & set(TRAINED["families"])
columns = {"trained": {"of": "accuracy", **TRAINED}, "held out": {"of": "accuracy", **HELD_OUT}}
columns["held out, decision"] = {"of": "judging", **HELD_OUT}
against("kl-0", study.groups["kl"], **columns)
against("sft", ["kl-0"], **columns)

# %% [markdown]
# The second table is the question behind the question: without any leash, is something *lost* on the families
# that RL did not see, or does what was learnt carry over? A positive difference is a gain over SFT.
#
# What this does not say: thirteen families share one picture style and one vocabulary. Held out here is near
# by; a chat model has much farther to fall.
#
# ## 5. Which problems to train on
# The paper keeps STEM problems with $0 <$ pass@4 $< 1$, where **pass@4 is the share of four tries that are
# right** (not the usual pass@k). The idea: a group whose rollouts all do the same has no advantage. Let the
# shipped policy try 130 problems: four tries to choose by, and then a fresh group of five, as RL would draw
# it.

# %%
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.reward import grade
from sailrl_lite.training.rollout import respond
from sailrl_lite.world.problems import FAMILIES, make_problem

policy, processor = load_checkpoint(SHIPPED)
asked = [make_problem(family, k, "test") for family in FAMILIES for k in range(10)]
texts = respond(policy, processor, [p.question for p in asked], [p.image for p in asked], n=9, seed=SEED)
graded = [[grade(p, text)[1] for text in nine] for p, nine in zip(asked, texts, strict=True)]
tries = np.array([[c.answer for c in nine] for nine in graded])
pass4 = tries[:, :4].mean(1)

# %%
cascade = get_reward("cascade")
paid = np.array([[cascade(c) for c in nine[4:]] for nine in graded])
spread_of = {"answers": np.ptp(tries[:, 4:], axis=1) > 0, "cascade": np.ptp(paid, axis=1) > 0}
kept = {
    "all": pass4 >= 0,
    "account (0 to 1)": (pass4 > 0) & (pass4 < 1),
    "hard (0 to 0.6)": (pass4 > 0) & (pass4 < 0.6),
}
rows = {
    name: {
        "problems": part.mean(),
        **{f"groups with spread, {what}": s[part].mean() for what, s in spread_of.items()},
    }
    for name, part in kept.items()
}
display((100 * pd.DataFrame(rows).T).round(0).astype(int).add_suffix(", %"))
helped = {what: s[kept["account (0 to 1)"]].mean() - s.mean() for what, s in spread_of.items()}
assert helped["answers"] > 2 * abs(helped["cascade"])

# %% [markdown]
# By *answers* the filter helps. By the *cascade* much less: a problem that is always right may still be
# thought about needlessly in one rollout and not in the next, and that is spread the filter throws away. It
# was made for a reward that sees answers only.

# %%
questions.knob(results, "open-pass4")
plt.show()
trigger = {"of": "trigger_rate", "kind": "perception"}
against(
    "cascade",
    study.groups["pass4"],
    reasoning=REASONING,
    perception=PERCEPTION,
    trigger_on_perception=trigger,
)

# %% [markdown]
# ## 6. Many prompts or many rollouts?
# 240 responses a step: 24 prompts with 10 rollouts, 48 with 5, or 120 with 2. If a rollout is right with
# probability $p$, a group of $G$ has spread with probability $1 - p^G - (1-p)^G$.


# %%
def informative(p, G):
    return 1 - p**G - (1 - p) ** G


rng = np.random.default_rng(SEED)
for p, G in ((0.5, 2), (0.9, 5), (0.98, 10)):
    drawn = rng.random((20_000, G)) < p
    assert abs((drawn.any(1) & ~drawn.all(1)).mean() - informative(p, G)) < 0.02
p = np.linspace(0.01, 0.99, 99)
assert (informative(p, 2) / 2 > informative(p, 5) / 5).all()  # groups with spread a response: small ones win


def draw(rollouts):
    use_style()
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 2.8))
    p = np.linspace(0, 1, 101)
    for G, color in ((2, ORANGE), (5, BLUE), (10, GREEN)):
        axes[0].plot(p, informative(p, G), color=color, label=f"G = {G}")
        axes[1].plot(p, rollouts / G * informative(p, G), color=color)
    axes[0].set(title="groups with spread, share", xlabel="p, chance to be right")
    axes[1].set(title=f"their number, {rollouts:g} responses in all", xlabel="p")
    axes[0].legend(loc="lower center")
    return figure


figures.knobs(draw, rollouts=(240, 60, 1280, 60))

# %% [markdown]
# A large group finds the rare right answer to a hard problem; small groups ask more problems. By the number
# of groups with spread, small ones win for every $p$; but a baseline from two rollouts is noisy, and a
# *product* with many levels has spread more often than a right or wrong answer has.

# %%
questions.knob(results, "open-rollouts")
plt.show()
against("cascade", study.groups["rollouts"], accuracy=REASONING, sound=SOUND, judging={"of": "judging"})

# %% [markdown]
# ## 7. Wrong labels
# Notebook 05 found that labels may be wrong with any probability below one half before the *average* push
# turns. That is a statement on one step. Here is the end of training with 10% and 30% of the labels turned,
# measured with the true ones. Is the noise what it says it is?

# %%
from sailrl_lite.training.data import rl_dataset

rows = {noise: rl_dataset(400, label_noise=noise) for noise in (0.1, 0.3)}
turned = {
    noise: np.array([row["needs_thinking"] != row["truly_needs_thinking"] for row in data])
    for noise, data in rows.items()
}
print({noise: f"{share.mean():.1%} turned" for noise, share in turned.items()})
assert all(abs(share.mean() - noise) < 0.07 for noise, share in turned.items())
assert turned[0.3][turned[0.1]].all()  # more noise turns the same labels, and further ones

# %%
questions.knob(results, "open-labels")
plt.show()
judged = {"of": "judging"}
thinks = {"of": "trigger_rate", "kind": "reasoning"}
against("cascade", study.groups["labels"], accuracy=REASONING, right_mode=judged, thinks_on_reasoning=thinks)

# %%
right = {arm: interval(results.scores(arm, "judging"))[0] for arm in ("sft", *study.groups["labels"])}
display(Markdown(
    "Decisions that are right by the true label: "
    + ", ".join(f"{ARMS[arm].label} {share:.1%}" for arm, share in right.items())
    + ". A policy that copied its labels would end at 90% and 70%; one that averages over the noise, higher. "
    "The errors here are coins. Labels that err by a *pattern* would teach the pattern, and that was not run."
))  # fmt: skip

# %% [markdown]
# ## 8. Wrong judges
# A judge passes what is wrong with probability $\varphi$ and fails what is right with probability $\psi$.
# Then a sub-score that should differ by 1 between two traces differs, in the mean, by
#
# $$E[\hat d \mid d = 1] - E[\hat d \mid d = 0] = 1 - \psi - \varphi$$
#
# and the group mean takes the rest away. Check it on lessons of the erring teacher:

# %%
import random

from sailrl_lite.judges.protocol import DIMENSIONS, Case
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.world.teacher import Noise, teach

hard = [make_problem(family, k) for family in ("add", "angle", "story", "compare") for k in range(150)]
rng = random.Random(SEED)
made = [(p, teach(p, rng, Noise(wrong_label=0))) for p in hard]
cases = [Case(p.question, lesson.trace, lesson.answer, p.image, p) for p, lesson in made]


async def scores_of(spec):
    found = await get_judge(spec).judge(cases)
    return np.array([[getattr(v, dimension) for dimension in DIMENSIONS] for v in found])


# %%
truth = await scores_of("exact")
for false_pass, false_fail in ((0.3, 0.0), (0.0, 0.3), (0.1, 0.1)):
    said = await scores_of(f"noisy:exact,false_pass={false_pass},false_fail={false_fail}")
    left = said[truth == 1].mean() - said[truth == 0].mean()
    print(f"passes {false_pass:.0%} of the wrong, fails {false_fail:.0%} of the right: {left:.2f} left")
    assert abs(left - (1 - false_pass - false_fail)) < 0.06

# %% [markdown]
# So by this sum a *lenient* and a *harsh* judge of 30% push alike, and weaken the push like a smaller
# learning rate. The learned judge is another matter: what it overlooks it overlooks always, and that can be
# learnt. Watch what the judge says (what is paid) against what is true.

# %%
curves.judge_and_truth(results)
plt.show()

# %%
lines = ["| judge | gap at the start | gap at the end | it grows by |", "|---|---|---|---|"]
for arm in ("noisy", "false-pass-0.3", "false-fail-0.3", "learned"):
    c = results.curves.query("arm == @arm")
    gap = (c["thinking"] - c["true_thinking"]).groupby(
        [c["seed"], pd.cut(c["step"], [0, 5, c["step"].max() - 5, 999])]
    )
    gap = 100 * gap.mean().unstack().iloc[:, [0, -1]].set_axis(["start", "end"], axis=1)
    mean, low, high = interval((gap["end"] - gap["start"]).to_numpy())
    cells = f"{gap['start'].mean():+.1f} | {gap['end'].mean():+.1f} | {mean:+.1f} [{low:.1f}, {high:.1f}]"
    lines.append(f"| {ARMS[arm].label} | {cells} |")
display(
    Markdown(
        "\n".join(
            [*lines, "", "Thinking reward as judged less the exact one, points, first and last 5 steps."]
        )
    )
)

# %% [markdown]
# A gap that *shrinks towards what the noise alone gives* is what coins do: the policy gets better, so there
# is less to pass wrongly and more to fail wrongly. A gap that *grows* while the exact thinking reward
# stands still or falls would be a policy that learns to please its judge.

# %%
questions.knob(results, "open-judge-error")
plt.show()
against(
    "cascade",
    study.groups["judge-error"],
    accuracy=REASONING,
    sound=SOUND,
    lucky={"of": "lucky", "kind": "reasoning"},
)

# %% [markdown]
# ### Your own trace, before four judges
# Can you write a trace that pleases the learned judge and is wrong? Edit and run.

# %%
mine = make_problem("add", 5, "test")
my_trace = "top=32\nbottom=62\n30+60=90\n2+2=4\n90+4=94"
my_answer = "54"

figures.scored_trace(mine, my_trace, my_answer)
plt.show()
for spec in ("exact", "noisy:exact,false_pass=0.3", "noisy:exact,false_fail=0.3", "learned"):
    (verdict,) = await get_judge(spec).judge([Case(mine.question, my_trace, my_answer, mine.image, mine)])
    print(f"{spec:28}", {dimension: getattr(verdict, dimension, None) for dimension in DIMENSIONS})

# %% [markdown]
# ## 9. In another dress
# Does the policy think because the question needs it, or because of how it sounds? Perception questions get a
# premise that changes nothing; reasoning questions are put in the words of reading.

# %%
from sailrl_lite.world.dress import dressed_problems

dressed = dressed_problems(12)
plain = [make_problem(p.family, k % 12, "test") for k, p in enumerate(dressed)]
assert all(one.image.tobytes() == other.image.tobytes() for one, other in zip(plain, dressed, strict=True))
pairs = [problem for k in (0, 60) for problem in (plain[k], dressed[k])]
figures.gallery(pairs)
plt.show()

# %% [markdown]
# First live, asking the shipped policy, which no RL has touched:


# %%
def thinks_about(problems, questions=None, n=2):
    """(problems, n) of True where the response has a written trace."""
    asked = questions or [p.question for p in problems]
    texts = respond(policy, processor, asked, [p.image for p in problems], n=n, seed=SEED)
    return np.array([[bool((parse_response(text).think or "").strip()) for text in some] for some in texts])


live = {"plain": thinks_about(plain), "dressed": thinks_about(dressed)}
kind = np.array([p.kind for p in plain])
live = {
    name: {k: share[kind == k].mean() for k in ("perception", "reasoning")} for name, share in live.items()
}
display((100 * pd.DataFrame(live)).round(0).rename_axis("thinks, %"))

# %% [markdown]
# And from the logs, with seeds: before RL, after RL on answers alone, after the full system.

# %%
questions.disguise(results)
plt.show()
lines = ["| dressed less plain, points | perception | reasoning |", "|---|---|---|"]
for arm in study.groups["disguise"]:
    cells = []
    for kind_of in ("perception", "reasoning"):
        here = {"measure": "trigger_rate", "kind": kind_of}
        c = paired(
            results.scores(arm, tests="dressed", **here).to_dict(), results.scores(arm, **here).to_dict()
        )
        cells.append(f"{100 * c.mean:+.1f} [{100 * c.low:.1f}, {100 * c.high:.1f}]")
    lines.append(f"| {ARMS[arm].label} | {' | '.join(cells)} |")
display(Markdown("\n".join([*lines, "", "Trigger rate; 0 is a policy that does not look at the words."])))

# %% [markdown]
# Mind what the dress is made of: words that the policy knows, in combinations that it never saw. A change may
# be a judgment by the surface, or a small model at a loss. The accuracy panels help to tell the two apart:
# where accuracy stays and the mode moves, it was the surface.
#
# ### Your own question
# Any picture, any words (those it does not know become `<unk>`).

# %%
my_picture = make_problem("bars", 1, "test")
my_question = "How high are the yellow and purple bars together?"

texts = respond(policy, processor, [my_question], [my_picture.image], n=6, seed=SEED)[0]
figures.gallery([my_picture])
plt.show()
for text in texts:
    response = parse_response(text)
    trace = (response.think or "").strip().replace("\n", ", ") or "(blank)"
    print(f"{response.decision!s:7} {trace:44.44} -> {response.answer}")

# %% [markdown]
# ## 10. Teaching or sharpening?
# Our teacher errs at random, so the SFT policy has learned to err at random: its *likeliest* response may be
# better than a *sampled* one. Then a reward can raise the sampled accuracy without teaching anything new, by
# making likelier what was likeliest already. Ask the shipped policy, no RL, both ways:

# %%
asked = [make_problem(family, k, "test") for family in ("add", "story", "pattern") for k in range(20)]
questions_, images = [p.question for p in asked], [p.image for p in asked]
share = {}
for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
    answers = respond(policy, processor, questions_, images, temperature=temperature, seed=SEED)
    right = [answer_reward(parse_response(a), p.gold) for (a,), p in zip(answers, asked, strict=True)]
    share[name] = float(np.mean(right))
print({name: f"{value:.0%}" for name, value in share.items()})
assert share["greedy"] > share["sampled"]

# %% [markdown]
# So a gain of RL that is measured on samples has two parts. The arms `*-greedy` are the same training, with
# greedy answers to the same problems at the end:

# %%
questions.sharpening(results)
plt.show()
lines = ["| reasoning, RL less SFT, points | sampled | greedy |", "|---|---|---|"]
for arm in ("answer-only", "cascade"):
    cells = []
    for how in ("", "-greedy"):
        after, before = (
            results.scores(f"{name}{how}", "accuracy", kind="reasoning").to_dict() for name in (arm, "sft")
        )
        c = paired(after, before)
        cells.append(f"{100 * c.mean:+.1f} [{100 * c.low:.1f}, {100 * c.high:.1f}]")
    lines.append(f"| {ARMS[arm].label} | {' | '.join(cells)} |")
display(Markdown("\n".join(lines)))

# %% [markdown]
# Where the greedy column is at or below zero, RL here did not teach the policy to solve what it could not
# solve: it made a noisy policy sure of itself. Read every gain over SFT in this course with that in mind; a
# comparison of two arms with RL is not touched by it. Whether the same holds for a large model after SFT on
# good traces is another question, and the account of the paper does not answer it: it does not say at which
# temperature its models were evaluated.
#
# ## 11. When does an effect appear?
# The study has one regime: one teacher, one size, one learning rate. The paper's Figure 4 says that reasoning
# *collapses* when answers alone are paid, and with this teacher it did not. So turn a knob at a time, with
# seeds that no claim was judged by (`sailrl_lite/study/regimes.toml`). The first is the one the paper's
# mechanism hangs on: a **shortcut**, a mark in the picture that tells the answer. The policy has learned to
# read it; in RL it is there in half of the pictures, or in all of them; runs are five times as long.

# %%
from sailrl_lite.figures.regimes import regimes
from sailrl_lite.study.logs import LOGS, evaluations, read_logs
from sailrl_lite.study.measured import measured
from sailrl_lite.study.regimes import read_regimes

maps = read_regimes()
shortcut = maps[maps["map"] == "collapse"]
shortcut[["measure", "point", "a", "b", "effect", "ci_low", "ci_high", "seeds"]].round(1)

# %% [markdown]
# `a` is answer-only, `b` thinking+answer, in percent. Read the trigger rate first. With the mark in half of
# the pictures the policies of both arms think about nearly everything, and their traces get better all the
# time. With the mark in all of them both stop thinking: the answer can be read off, answer-only asks for no
# trace, and thinking+answer takes a blank one as good (the label-free rule). Hardly a trace is left whose
# consistency could sink, so its interval says nothing. Without the mark the bill comes: accuracy on plain
# pictures. So here a shortcut does not corrupt reasoning, it makes reasoning *go away*, whichever of the two
# rewards is paid.
#
# Is that what the numbers say? One row by hand, and the sentence as an assertion:

# %%
own = evaluations(read_logs(LOGS.with_name("regimes")))
thinks = {}
for share in ("half", "all"):
    for arm in ("answer-only", "thinking-answer"):
        thinks[share, arm] = measured(own, f"mark-{share}-{arm}", "trigger_rate", ["reasoning"], (), "marked")
        print(f"mark in {share:4} of the pictures, {arm:16} thinks in", thinks[share, arm])

by_hand = 100 * np.mean(list(thinks["half", "answer-only"].values()))
row = shortcut[(shortcut["point"] == "0.5") & shortcut["measure"].str.startswith("trigger")].iloc[0]
assert np.isclose(row["a"], by_hand)
assert (
    min(thinks["half", "answer-only"].values()) > 0.9 > 0.1 > max(thinks["all", "thinking-answer"].values())
)

# %% [markdown]
# The other knobs: the teacher's slips, the learning rate, the size. In which panels do the two arms part?

# %%
regimes(results)
plt.show()

# %% [markdown]
# ## 12. What is still open
# The ten questions above had runs. These had none, and each is an arm or two away:
#
# - the mix of STEM and general questions in RL (`families` in an arm);
# - labels from the model's own direct answers (notebook 05, exercise 3), in training;
# - labels and judges that err by a pattern, not by coins;
# - *thinking* first and *judging* later, against both rewards at once;
# - pass@4 as a weight, or as a curriculum that widens, in the place of a filter;
# - a budget of tokens for thinking; several answers and a vote at test time, against one long trace;
# - why overthinking errs: misled by its own trace, out of tokens, or a right first reading changed;
# - seconds beside tokens;
# - and the one that this world cannot answer: which of all this holds at thousands of times the size.
#
# ## 13. Exercises
# **Exercise 1 (easy).** $\alpha = 0.5$, the right decision, the right answer, one of the three sub-rewards
# failed, well formed. What does the cascade pay? And what if the same response is malformed?

# %%
well_formed = None
malformed = None


# %%
def check_1(well_formed, malformed):
    if well_formed is None or malformed is None:
        return "Not yet: put a number in the place of each None."
    pay = get_reward("cascade", 0.5)
    if abs(well_formed - pay(group[1])) > 0.005:
        return f"Not yet: {well_formed} for the well-formed one. R_think is 2/3; do not forget the format."
    broken = Components(0, 1, 1, 1, 1, 0, "think", "written")
    if abs(malformed - pay(broken)) > 0.005:
        return f"Not yet: {malformed} for the malformed one. Does its content still count?"
    return "Right. A malformed response earns nothing at any alpha."


print(check_1(well_formed, malformed))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# well_formed = 0.5 * (1 * 2 / 3 * 1) + 0.5 * 1
# malformed = 0
# ```
# </details>
#
# **Exercise 2 (medium).** A *right* answer to a hard problem ($p$ small) must be seen at least once before it
# can be reinforced. How many rollouts until a group holds one with probability `wanted`? Give the least whole
# number.


# %%
def rollouts_needed(p, wanted):
    return 5


# %%
def check_2(rollouts_needed):
    for p, wanted in ((0.5, 0.9), (0.1, 0.5), (0.1, 0.95), (0.02, 0.9), (0.3, 0.3)):
        G = rollouts_needed(p, wanted)
        if 1 - (1 - p) ** G < wanted:
            return (
                f"Not yet: for p = {p} {G} rollouts hold one with {1 - (1 - p) ** G:.0%}, not {wanted:.0%}."
            )
        if G > 1 and 1 - (1 - p) ** (G - 1) >= wanted:
            return f"Not yet: for p = {p} {G} rollouts are more than {wanted:.0%} needs."
    return f"Right. Even odds of one right answer at p = 0.02 take {rollouts_needed(0.02, 0.5)} rollouts."


print(check_2(rollouts_needed))

# %% [markdown]
# <details><summary>Hint</summary>
#
# No right one in $G$ rollouts has probability $(1-p)^G$. Solve for $G$, and round up.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# import math
#
#
# def rollouts_needed(p, wanted):
#     return math.ceil(math.log(1 - wanted) / math.log(1 - p))
# ```
# </details>
#
# **Exercise 3 (hard).** Mislead the policy. Put words *before* "Read the number." that change nothing about
# the picture and make the shipped policy think in at least 60% of its responses. It answers such questions
# directly most of the time.

# %%
my_words = "Suppose every star counts as 3."


# %%
readings = [make_problem("read_number", k, "test") for k in range(10)]


def check_3(words):
    asked = [f"{words}\n{p.question}" for p in readings]
    share = thinks_about(readings, asked, n=4).mean()
    before = thinks_about(readings, n=4).mean()
    if share < 0.6:
        return f"Not yet: it thinks in {share:.0%} of its responses; without your words in {before:.0%}."
    return f"Right: from {before:.0%} to {share:.0%}. The decision follows the words, at least these."


print(check_3(my_words))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Whole questions of the reasoning families are strong. Look at some: `make_problem("add", 0).question`.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_words = "What is the sum of the two numbers?"
# ```
#
# Does it work on a policy after RL? `sailrl-lite rl` makes one in minutes.
# </details>
#
# ## Where to go next
# - `sailrl-lite study run alpha` makes a group of arms again; copy `sailrl_lite/study/arms.toml`, change it,
#   and name it with `--arms`. `data/open.csv` has these tables as data.
# - Notebook 08 says how far an interval over three seeds can be trusted.
# - Notebook 10 looks for the blind spots of judges, the ones a policy would find.
