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
# # The judging reward: when to think
#
# "What number is shown?" needs a look. "What is the sum of the two numbers?" needs a calculation. A model
# that treats both alike either wastes words on the first or guesses at the second. SAIL-RL lets the model
# *say*, before it does anything else, whether it will think, and pays it for deciding well. That is the
# smallest of its rewards: one bit. Here you take this bit apart.
#
# **At the end you will know**
# - how a decision is read from free text, and why "not" is the hardest word in it;
# - how often the policy that we ship decides wrongly, and what that costs in answers and in tokens;
# - what the judging reward pushes at, in one formula, with and without the other rewards;
# - how wrong the labels may be before it pushes the wrong way;
# - what reinforcement learning made of it over three seeds, and where accuracy did *not* gain.
#
# **Time:** about a minute on two CPU cores to run, half an hour to read.
#
# **Rung:** the same on each: its formulas hold for any policy, and the measured one is the micro policy.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import re

import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures, parse_response
from sailrl_lite.config import SHIPPED
from sailrl_lite.rewards import REWARDS, judging_reward, measure
from sailrl_lite.rungs import read_rung
from sailrl_lite.world.problems import FAMILIES, make_problem

read_rung(RUNG)

# %% [markdown]
# ## 1. The label
# Each problem of the micro-world carries a **complexity label**: does it need thinking? *Perception* never
# does and *reasoning* always. In the *general* families it depends on the question, so that a model cannot
# decide by the look of the picture alone. In the paper, STEM problems are labelled as needing it and general
# questions by their content; who decided, and how often two of them would agree, is not reported. Section 8
# asks what that could mean.
#
# Two questions of the general family `bars`:

# %%
bars = [make_problem("bars", seed, "test") for seed in range(20)]
easy = next(problem for problem in bars if not problem.needs_thinking)
hard = next(problem for problem in bars if problem.needs_thinking)
figures.gallery([easy, hard])
plt.show()

# %% [markdown]
# ## 2. The decision, read from free text
# The model writes its judgment in words: `<judge>This question can be answered directly.</judge>`. We want
# one of *think*, *direct*, or neither. Searching for words is not enough; and counting negations, clause by
# clause, is a good deal better:

# %%
WORDS = {"think": r"think|reason|step|calculat", "direct": r"direct|glance|simpl|read"}
NEGATION = r"\b(?:not|no|cannot|without|nor)\b|n't"


def by_keyword(judgment):
    return next((side for side, words in WORDS.items() if re.search(words, judgment.lower())), None)


def by_negation(judgment):
    votes = set()
    for clause in re.split(r"[,;:.!?]| but ", judgment.lower()):
        turned = len(re.findall(NEGATION, clause)) % 2  # two negations cancel
        for side, other in (("think", "direct"), ("direct", "think")):
            if re.search(WORDS[side], clause):
                votes.add(other if turned else side)
    return votes.pop() if len(votes) == 1 else None  # the votes must agree


# %%
JUDGMENTS = {
    "This question needs step-by-step reasoning.": "think",
    "This question can be answered directly.": "direct",
    "Thinking is not needed here.": "direct",
    "This cannot be answered directly.": "think",
    "No reasoning is required; a glance is enough.": "direct",
    "It is not possible to solve this without thinking.": "think",
    "There is no need to think; just read the number.": "direct",
    "I would not answer this one directly.": "think",
    "It looks hard, but no step-by-step reasoning is required.": "direct",
    "It looks simple, but it takes careful reasoning.": "think",
    "More than a glance is needed.": "think",
    "Thinking would be a waste of time.": "direct",
    "Is thinking needed? No.": "direct",
    "It can be answered directly, and it needs step-by-step reasoning.": None,
    "Hmm.": None,
}

# %%
from sailrl_lite.decision import read_decision

readers = {"keyword": by_keyword, "negation": by_negation, "the package": read_decision}
said = pd.DataFrame({name: [read(text) for text in JUDGMENTS] for name, read in readers.items()})
said.insert(0, "meant", list(JUDGMENTS.values()))
said.index = list(JUDGMENTS)
said = said.fillna("neither")
shown = said.copy()
for name in readers:
    shown[name] = np.where(said[name] == said["meant"], said[name], "✗ " + said[name])
display(shown)
wrong = {name: int((said[name] != said["meant"]).sum()) for name in readers}
print("wrong, of", len(said), "judgments:", wrong)
assert wrong["the package"] == 0 < wrong["negation"] < wrong["keyword"]

# %% [markdown]
# `read_decision` is the same idea with more words, with ranks ("it looks simple, *but* ..." is a concession)
# and with questions that answer themselves. A judgment that says neither, or both, is a format error, and so
# is one that says *direct* and thinks all the same. Notebook 03 has these rules.
#
# ## 3. The reward
# $$R_{judge} = \begin{cases} 1 & \text{the decision equals the label} \\ 0 & \text{else} \end{cases}$$
#
# (section 3.4.3). Nothing is paid in part: a beautiful trace on a question that needed none has
# $R_{judge} = 0$, and in the cascade $R = \alpha \, R_{judge} R_{think} R_{answer} + (1-\alpha) R_{format}$
# this takes everything but the format term with it.


# %%
def judging_by_hand(decision, needs_thinking):
    return int(decision == ("think" if needs_thinking else "direct"))


for judgment, meant in JUDGMENTS.items():
    response = parse_response(f"<judge>{judgment}</judge>")
    for label in (True, False):
        assert judging_by_hand(meant, label) == judging_reward(response, label)

# %% [markdown]
# ## 4. How well does the SFT policy decide?
# The policy that ships with the project was taught by lessons of which a quarter had a wrong label, and no
# reinforcement learning has touched it. Every unseen problem gets three responses: one as the policy likes,
# one with a *direct* answer forced on it, and one with *thinking* forced on it, by putting the judgment into
# its mouth. The last two are the uniform strategies *never think* and *always think*.

# %%
from sailrl_lite.response import THINK
from sailrl_lite.study.evaluation import (
    NEVER_THINK,
    bootstrap,
    change,
    evaluate,
    unseen_problems,
    with_relative_tokens,
)
from sailrl_lite.training.models import load_checkpoint

policy, processor = load_checkpoint(SHIPPED)
problems = unseen_problems(per_family=80)
forced = {"own choice": "", "never": NEVER_THINK, "always": f"<judge>{THINK}</judge><think>"}
rows = {
    arm: evaluate(policy, processor, problems, prefill, seed=SEED, bar=None)
    for arm, prefill in forced.items()
}
own, never, always = rows.values()
needs = own["needs_thinking"]
print(len(own), "problems,", int(needs.sum()), "of which need thinking")

# %% [markdown]
# The **confusion** of label and decision, and what happens in each of its four cells:

# %%
own["decision"] = [parse_response(text).decision or "none" for text in own["response"]]
named = own.assign(label=np.where(needs, "needs thinking", "no need"))
cell = named.query("decision != 'none'").groupby(["label", "decision"])
share = cell.size() / named.groupby("label").size()
tables = {
    "Share of the label": (share, ".0%"), "Right answers": (cell["accuracy"].mean(), ".0%"),
    "Tokens a response": (cell["tokens"].mean(), ".1f"),
}  # fmt: skip
figures.use_style()
figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.2), sharey=True)
for axis, (title, (values, form)) in zip(axes, tables.items(), strict=True):
    sns.heatmap(values.unstack(), annot=True, fmt=form, cmap="Blues", cbar=False, ax=axis, vmin=0)
    axis.set(title=title, ylabel="", xlabel="the policy decides")
axes[0].tick_params(axis="y", rotation=0)
plt.show()

# %%
for label, part in (("needs thinking", needs), ("no need", ~needs)):
    mean, low, high = bootstrap(own["judging"][part].to_numpy(float), np.random.default_rng(SEED))
    print(f"{label:15} decides rightly in {mean:.1%}, 95% interval {low:.1%} to {high:.1%}")
    assert low > 0.6 and high < 0.9
seeds = [own, *(evaluate(policy, processor, problems, seed=seed, bar=None) for seed in (1, 2))]
right = pd.DataFrame([again["judging"].groupby(needs).mean() for again in seeds]).round(3)
print("sampled with three seeds:", right[True].tolist(), right[False].tolist())

# %% [markdown]
# Three in four, on either side, which is the rate at which its teacher was right. It learnt to tell the two
# kinds of question apart *and* to err as often as its lessons did. Supervised fine-tuning imitates; it has
# no reason to be better than what it imitates.
#
# ## 5. Two ways to fail
# **Overthinking**: no thinking was needed, the policy thought, and its answer is wrong. **Underthinking**:
# thinking was needed, it answered directly, and its answer is wrong. To be fair, an example should show
# that the other mode would have done better. So here are, by a fixed rule, the *first* problems of each
# kind where the forced response in the other mode is right.

# %%
from sailrl_lite.training.reward import grade

cascade = REWARDS["cascade"]


def show_first(failed, other):
    k = int(np.flatnonzero(failed & (own["accuracy"] == 0) & (other["accuracy"] == 1))[0])
    texts = [own["response"][k], other["response"][k]]
    figures.rollouts(problems[k], texts, [grade(problems[k], text)[1] for text in texts], cascade)
    plt.show()


thought = own["trigger_rate"] == 1
show_first(~needs & thought, never)

# %% [markdown]
# *Overthinking*, own choice on the left, forced direct answer on the right. And *underthinking*, where the
# right response is the forced thinking; the rule asks for a sound trace as well:

# %%
show_first(needs & ~thought, always[always["thinking"] == 1].reindex(own.index))

# %% [markdown]
# Two examples are two examples. How often does the mode matter? The same problems, always against never
# thinking, with 95% bootstrap intervals over problems:

# %%
effect = {}
for label, part in (("no need", ~needs), ("needs thinking", needs)):
    effect[label] = change(never, always, "accuracy", part)
    a, b = never["accuracy"][part].mean(), always["accuracy"][part].mean()
    mean, low, high = effect[label]
    print(f"{label:15} never {a:.3f}  always {b:.3f}  change {mean:+.3f}  ({low:+.3f} to {high:+.3f})")
assert effect["no need"][2] < 0 < effect["needs thinking"][1]

# %% [markdown]
# Thinking helps where it is needed and *harms* where it is not. So it is in the paper (table 5: on
# OCRBench, 90.5% without thinking and 88.7% with; on MathVision 27.6% and 48.7%). But mind where ours comes
# from: our teacher errs in its traces and never in a direct answer, so its pupil has learnt to see well and
# to talk badly. The *size* of the harm is our choice. What carries over is the mechanism. Take the questions
# that the policy answers rightly at a glance and wrongly after thinking: what was wrong with the trace?

# %%
lost = ~needs & (never["accuracy"] == 1) & (always["accuracy"] == 0)
false_claim, gap = always["grounding"][lost] == 0, always["consistency"][lost] == 0
print(f"{lost.sum()} questions lost by thinking: {false_claim.mean():.0%} with a false claim,", end=" ")
print(
    f"{gap.mean():.0%} with an answer that does not follow, {(~false_claim & ~gap).mean():.0%} with neither"
)
assert false_claim.mean() > 0.4 and (false_claim | gap).mean() > 0.9

# %% [markdown]
# In over half of them the trace says something false about the picture, in half the answer leaves the trace,
# and almost none has neither. (A false claim may also stand there without doing harm, so this is a hint at
# the cause and no proof.)
#
# ## 6. What it costs in tokens
# Tokens are counted relative to never thinking, as in the paper's table 5.

# %%
PAPER = pd.DataFrame(  # table 5: accuracy in per cent, tokens relative to never thinking
    [
        ("MathVision", "never", 27.6, 1.0), ("MathVision", "always", 48.7, 5.4),
        ("MathVision", "SAIL-RL", 49.4, 5.1), ("OCRBench", "never", 90.5, 1.0),
        ("OCRBench", "judge without reward", 89.8, 2.9), ("OCRBench", "always", 88.7, 4.7),
        ("OCRBench", "SAIL-RL", 91.3, 1.2),
    ],
    columns=["questions", "arm", "accuracy", "tokens"],
)  # fmt: skip
ours = pd.concat([with_relative_tokens(r, never).assign(arm=arm) for arm, r in rows.items()])
ours["questions"] = np.where(ours["needs_thinking"], "needs thinking", "no need")
ours = ours.groupby(["questions", "arm"])[["accuracy", "relative_tokens"]].mean().reset_index()
ours = ours.rename(columns={"relative_tokens": "tokens"}).assign(accuracy=lambda t: 100 * t["accuracy"])
display(ours.round(2))

# %%
figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.9), sharey=True)
titles = "The SFT policy of the micro-world", "The paper, table 5"
colors = dict(zip(["needs thinking", "no need"], (figures.AFTER, figures.BEFORE), strict=True))
colors |= {"MathVision": figures.AFTER, "OCRBench": figures.BEFORE}
places = {"never": (-6, -3, "right"), "own choice": (-3, 6, "right"), "SAIL-RL": (0, 6, "center")}
for axis, table, title in zip(axes, (ours, PAPER), titles, strict=True):
    for questions, part in table.sort_values("tokens").groupby("questions"):
        axis.plot(part["tokens"], part["accuracy"], "o-", color=colors[questions], label=questions)
        for arm, x, y in part[["arm", "tokens", "accuracy"]].itertuples(index=False):
            *shift, side = places.get(arm, (0, -13, "center"))
            axis.annotate(arm, (x, y), shift, textcoords="offset points", fontsize=8, ha=side)
    axis.set(title=title, xlabel="tokens relative to never thinking", ylim=(0, 109), xlim=(-0.4, 6))
    axis.legend(loc="lower right")
axes[0].set_ylabel("right answers, %")
plt.show()

# %% [markdown]
# On the steep line thinking buys accuracy; on the flat one it only costs. A good policy sits at the left
# end of the flat line and at the right end of the steep one. Ours pays little for a needless trace (a third
# more tokens, against 4.7 times in the paper), since a micro-world trace about one number is one line long.
#
# ## 7. What the judging reward pushes at
# Let a policy think with probability $p$ on some group of problems. When it thinks, let the product
# $R_{think} R_{answer}$ be $q_T$ on average; when it answers directly, let $R_{answer}$ be $q_D$. (A blank
# trace has $R_{think} = 1$ if the label says that no thinking is needed.) Forget malformed responses. The
# mean of the cascade is then
#
# $$E[R] = \alpha \, p \, q_T + (1-\alpha) \text{ if thinking is needed}, \qquad
#   E[R] = \alpha \, (1-p) \, q_D + (1-\alpha) \text{ if not,}$$
#
# and without the judging reward (the arm `thinking+answer`, where a blank trace always counts as 1) it is
# $\alpha \, (p \, q_T + (1-p) \, q_D) + (1-\alpha)$ for both. Measure the $q$ from the forced responses:

# %%
graded = {
    arm: [grade(p, text)[1] for p, text in zip(problems, rows[arm]["response"], strict=True)]
    for arm in ("never", "always")
}
by_label = {"needs thinking": needs.to_numpy(), "no need": ~needs.to_numpy()}
q_think = np.array([c.format * c.thinking * c.answer for c in graded["always"]])
q_direct = np.array([c.format * c.answer for c in graded["never"]])
Q = {label: (q_think[part].mean(), q_direct[part].mean()) for label, part in by_label.items()}
for label, (q_t, q_d) in Q.items():
    print(f"{label:15} q_T = {q_t:.3f}   q_D = {q_d:.3f}")


# %%
def expected(label, p, alpha=0.9, judging=True):
    q_t, q_d = Q[label]
    if judging:  # the wrong mode earns no content
        q_t, q_d = (q_t, 0) if label == "needs thinking" else (0, q_d)
    return alpha * (p * q_t + (1 - p) * q_d) + 1 - alpha


rng = np.random.default_rng(SEED)
for name, judging in (("cascade", True), ("thinking+answer", False)):
    pays = {arm: np.array([REWARDS[name](c) for c in cs]) for arm, cs in graded.items()}
    for label, part in by_label.items():
        p = own["trigger_rate"][part].mean()
        coins = rng.random((200, len(problems))) < p  # a policy that tosses a coin for its mode
        simulated = np.where(coins, pays["always"], pays["never"])[:, part].mean()
        formula = expected(label, p, judging=judging)
        print(f"{name:16} {label:15} p = {p:.2f}  formula {formula:.3f}  simulated {simulated:.3f}")
        assert abs(formula - simulated) < 0.01

# %% [markdown]
# What moves $p$ is the slope of these lines. If $p$ is the sigmoid of a logit, as a token's probability
# nearly is, the gradient by that logit is $p(1-p) \, \partial E[R] / \partial p$. With the judging reward
# the slope is $+\alpha \, q_T$ where thinking is needed and $-\alpha \, q_D$ where it is not: **always the
# right sign**. Without it the slope is $\alpha (q_T - q_D)$, right only if the label agrees with what works
# for this policy.
#
# The third line is a policy that *cannot tell the problems apart*: one $p$ for all, with a share $\lambda$
# that need thinking. Turn the knobs. When does it think always? (Sliders appear in a running notebook; the
# figure shows their default state.)


# %%
def draw(share, p, alpha):
    figures.use_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3))
    x, colors = np.linspace(0, 1, 50), (figures.AFTER, figures.BEFORE, "0.4")
    for name, judging, style in (("cascade", True, "-"), ("without judging", False, "--")):
        lines = [expected(label, x, alpha, judging) for label in Q]
        lines.append(share * lines[0] + (1 - share) * lines[1])
        for line, color, label in zip(lines, colors, (*Q, "cannot tell"), strict=True):
            left.plot(x, line, style, color=color, lw=2, label=label if judging else None)
        push = [p * (1 - p) * (line[-1] - line[0]) for line in lines]
        places = np.arange(3) + (-0.2 if judging else 0.2)
        right.bar(places, push, 0.38, label=name, color=colors if judging else "0.75")
    left.axvline(p, color="0.6", ls=":")
    left.set(title="Mean reward (dashed: no judging)", xlabel="p, probability of thinking", ylim=(0, 1.02))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False)
    right.set_xticks(range(3), [*Q, f"cannot tell,\n{share:.0%} need it"])
    right.set(title="Push to think (grey: no judging)", ylim=(-0.26, 0.26))
    return figure


figures.knobs(draw, share=(0.5, 0.0, 1.0, 0.05), p=(0.5, 0.02, 0.98, 0.02), alpha=(0.9, 0.1, 1.0, 0.1))

# %% [markdown]
# Three things to read off. In our world the dashed lines slope the right way too: answer and thinking reward
# alone teach *when* to think, only more slowly, above all where no thinking is needed. The policy of the
# paper seems to be less lucky: trained without the judging reward it still thinks on 47.6% of OCRBench, with
# it on 7.5% (table 5). And the arms *always think* and *never think* have one sign for all. Here is what
# thinking earns over answering directly, by reward, from the forced responses:

# %%
arms = ["cascade", "judging+answer", "thinking+answer", "answer-only", "always-think", "never-think"]
gain = {}
for name in arms:
    pays = {arm: np.array([REWARDS[name](c) for c in cs]) for arm, cs in graded.items()}
    gain[name] = {label: (pays["always"] - pays["never"])[part].mean() for label, part in by_label.items()}
gain = pd.DataFrame(gain).T
display(gain.round(2))
assert (gain.loc["always-think"] > 0).all() and (gain.loc["never-think"] < 0).all()
assert (gain.loc[arms[:4], "needs thinking"] > 0).all() and (gain.loc[arms[:4], "no need"] < 0).all()

# %% [markdown]
# ## 8. When the labels are wrong
# Nobody knows how good complexity labels are. Let each be flipped with probability $\eta$. A flipped label
# pays the other mode, so on a problem that truly needs thinking
#
# $$E[R \mid think] = \alpha (1-\eta) \, q_T + (1-\alpha), \qquad
#   E[R \mid direct] = \alpha \, \eta \, q_D + (1-\alpha)$$
#
# and thinking is still preferred as long as $\eta < \eta^* = q_T / (q_T + q_D)$. Where no thinking is needed
# the two change places. Check it against the package, with labels flipped by a coin:


# %%
from sailrl_lite.world.verifier import verify


def paid_under(label, arm):
    """What the cascade pays each forced response if every problem carries this label."""
    paid = []
    for problem, text in zip(problems, rows[arm]["response"], strict=True):
        response = parse_response(text)
        scores = verify(problem, response.think, response.answer).scores(False) if response.think else None
        paid.append(cascade(measure(response, problem.gold, label, scores)))
    return np.array(paid)


# what thinking earns over answering directly if the label says so (True) or says the opposite (False)
edge = {label: paid_under(label, "always") - paid_under(label, "never") for label in (True, False)}
noise = np.linspace(0, 0.8, 9)
flips = {eta: rng.random((100, len(problems))) < eta for eta in noise}

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(6, 2.6))
for (label, part), color in zip(by_label.items(), (figures.AFTER, figures.BEFORE), strict=True):
    sign = 1 if label == "needs thinking" else -1  # the right mode is the other one
    good, bad = Q[label][::sign]
    line = 0.9 * ((1 - noise) * good - noise * bad)
    labels = {eta: needs.to_numpy() ^ flip for eta, flip in flips.items()}  # the labels with errors
    dots = [sign * np.where(labels[eta], edge[True], edge[False])[:, part].mean() for eta in noise]
    axis.plot(noise, line, color=color, lw=2, label=f"{label}: turns at {good / (good + bad):.2f}")
    axis.plot(noise, dots, "o", color=color)
    assert np.abs(line - dots).max() < 0.02
axis.axhline(0, color="0.3", lw=1)
axis.set(title="What the right mode earns over the wrong one", xlabel=r"$\eta$, share of wrong labels")
axis.set_ylabel("difference of mean R")
axis.legend()
plt.show()

# %% [markdown]
# Lines are the formula, dots the package. Both limits lie above one half: as long as the labels are better
# than a coin, the *average* push is right, only weaker. Two warnings. A wrong label is wrong for the whole
# group of rollouts, so no baseline takes it away; the policy is pushed the wrong way on this prompt, and
# only the other prompts, and its own generalization, pull it back. And labels that err by a *pattern*, say
# every question with a digit in it, teach the pattern.
#
# ## 9. What reinforcement learning made of it
# No training here; `data/runs/spine.csv` holds three runs of RL with the cascade from the shipped policy,
# which differ in their seed (`sailrl-lite spine` makes the file again). Each point is 200 unseen problems.

# %%
spine = pd.read_csv(SHIPPED.parent / "runs" / "spine.csv")
label_share = {f: np.mean([make_problem(f, k, "test").needs_thinking for k in range(200)]) for f in FAMILIES}
figures.use_style()
figure, axis = plt.subplots(figsize=(8.5, 3))
for place, family in enumerate(FAMILIES):
    axis.plot([place - 0.35, place + 0.35], [label_share[family]] * 2, color="0.3", lw=1.5)
    for stage, color, shift in (("sft", figures.BEFORE, -0.15), ("rl", figures.AFTER, 0.15)):
        values = spine.loc[(spine["family"] == family) & (spine["stage"] == stage), "trigger_rate"]
        axis.plot(place + shift + np.array([-0.05, 0, 0.05]), values, "o", color=color, ms=5, clip_on=False)
axis.plot([], [], "o", color=figures.BEFORE, label="SFT")
axis.plot([], [], "o", color=figures.AFTER, label="SFT + RL, three seeds")
axis.plot([], [], color="0.3", label="share that needs thinking")
axis.set_xticks(range(len(FAMILIES)), list(FAMILIES), rotation=30, ha="right")
axis.set(title="Trigger rate, the share of responses that think", ylim=(-0.02, 1.02))
axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %%
measures = ["trigger_rate", "judging", "accuracy", "tokens"]
by_seed = spine.groupby(["kind", "stage", "seed"], sort=False)[measures].mean()
display(by_seed.groupby(["kind", "stage"], sort=False).agg(["min", "mean", "max"]).round(2))
rl = by_seed.xs("rl", level="stage")
assert (rl.loc["perception", "trigger_rate"] < 0.02).all()
assert (rl.loc["reasoning", "trigger_rate"] > 0.97).all()
assert (rl["judging"] > 0.98).all()

# %% [markdown]
# The decision is all but solved in all three runs: 0 where no thinking is needed, 1 where it is, and in the
# general families the share that needs it, with more than 98% of the single decisions right. SFT had three
# in four. It is the first thing that RL learns (notebook 00 shows the curve), since the decision is one
# token and every rollout is paid for it or not.
#
# Did the answers gain? A gain counts here if it is more than two standard errors in *all three* seeds:

# %%
wide = spine.pivot(index=["kind", "family"], columns=["stage", "seed"], values="accuracy")
wide = wide.reindex([(f.kind, name) for name, f in FAMILIES.items()])
gains = wide["rl"] - wide["sft"]
errors = np.sqrt((wide["rl"] * (1 - wide["rl"]) + wide["sft"] * (1 - wide["sft"])) / 200)
table = gains.add_prefix("gain, seed ").assign(shown=(gains > 2 * errors).all(axis=1))
display(table.round(3))
not_shown = table.index[~table["shown"]].get_level_values("family").tolist()
print("no gain shown:", ", ".join(not_shown))
assert table.loc[["reasoning", "general"], "shown"].all() and not table.loc["perception", "shown"].any()

# %% [markdown]
# In no family of perception. Are they all the same, or is each too small a sample? Put the five together,
# 1,000 problems a seed:

# %%
pooled, n = wide.loc["perception"].mean(), 200 * len(wide.loc["perception"])
gain = pooled["rl"] - pooled["sft"]
error = np.sqrt((pooled["rl"] * (1 - pooled["rl"]) + pooled["sft"] * (1 - pooled["sft"])) / n)
table = pd.DataFrame({"SFT": pooled["sft"], "RL": pooled["rl"], "gain": gain, "standard error": error})
display(table.round(3))
direct_sft = never["accuracy"][never["kind"] == "perception"].mean()
print(f"the same SFT policy, forced to answer directly (400 of the problems): {direct_sft:.3f}")
assert (gain > 2 * error).all() and (gain < 0.05).all()

# %% [markdown]
# Three points, in each seed; the paper reports 0.8 on OCRBench, from 90.5% (never thinking) to 91.3%. And
# it does not come from thinking less alone, since the SFT policy gains nothing by being forced to answer
# directly. On reasoning the gain is large, but these runs cannot say how much of it is the *judging*
# reward's: all the rewards were on. For that an arm without it is needed.
#
# Were tokens saved?

# %%
tokens = spine.groupby(["stage", "kind"], sort=False)["tokens"].mean().unstack("stage")
tokens.loc["all 13 families"] = spine.groupby("stage")["tokens"].mean()
tokens["change"] = tokens["rl"] / tokens["sft"] - 1
display(tokens.round(2))
assert tokens.loc["perception", "change"] < 0 < tokens.loc["all 13 families", "change"]

# %% [markdown]
# Where no thinking is needed, yes. In all, **no**: the policy now thinks where it used to guess, and that
# costs more than it saves elsewhere. A judging reward does not make a model cheap. It spends tokens where
# they are due; whether the sum falls depends on the mix of questions and on how long a needless trace is.
#
# ## 10. Your own judgment
# Write a judgment, choose a problem, and see what is paid.

# %%
my_problem = make_problem("read_number", seed=1)
my_judgment = "A glance will do, there is nothing to work out."
my_trace = ""

my_text = (
    f"<judge>{my_judgment}</judge><think>{my_trace}</think><answer>\\boxed{{{my_problem.gold}}}</answer>"
)
response, c = grade(my_problem, my_text)
print("decision:", response.decision, "  problems:", response.problems or "none")
print(f"format {c.format}, judging {c.judging}, thinking {c.thinking}, answer {c.answer}")
print(f"cascade {cascade(c):.2f}")

# %% [markdown]
# ## 11. Exercises
# **Exercise 1 (easy).** Two well-formed responses with right answers. The first thinks, soundly, about a
# question that needs no thinking. The second answers a question directly that needs thinking. What does the
# cascade pay each ($\alpha = 0.9$)?

# %%
needless_thinking = None
lucky_directness = None


# %%
def check_1(needless, lucky):
    if needless is None or lucky is None:
        return "Not yet: put a number in the place of each None."
    for name, value in (("needless thinking", needless), ("lucky directness", lucky)):
        if value == 0:
            return f"Not yet: {name} is well formed. Which term is left?"
        if abs(value - 0.1) > 1e-9:
            return f"Not yet: {name} has the wrong mode, so one factor of the product is 0."
    return "Right. The product does not ask whether the answer was right in spite of the mode."


print(check_1(needless_thinking, lucky_directness))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# needless_thinking = 0.9 * (0 * 1 * 1) + 0.1
# lucky_directness = 0.9 * (0 * 0 * 1) + 0.1
# ```
# </details>
#
# **Exercise 2 (medium).** A policy that cannot tell problems apart thinks with one probability $p$ on all of
# them. A share $\lambda$ needs thinking; there it earns $q_T$ if it thinks, and $q_D$ is what a direct answer
# earns on the others. From which $\lambda$ on does the cascade drive it to think always?


# %%
def turning_share(q_think, q_direct):
    return 0.5


# %%
def check_2(turning_share):
    for q_t, q_d in ((0.4, 0.9), (0.9, 0.9), (0.7, 0.2)):
        share = turning_share(q_t, q_d)
        below, above = ((share + d) * q_t - (1 - share - d) * q_d for d in (-0.01, 0.01))
        if not below < 0 < above:
            wrong = "already" if below >= 0 else "not yet"
            return f"Not yet: for q_T = {q_t}, q_D = {q_d} thinking is {wrong} preferred near {share:.2f}."
    return f"Right. With our q it is {turning_share(Q['needs thinking'][0], Q['no need'][1]):.2f}."


print(check_2(turning_share))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Write down $E[R]$ of the mixture. It is a line in $p$; where is its slope 0?
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def turning_share(q_think, q_direct):
#     return q_direct / (q_think + q_direct)
# ```
# </details>
#
# **Exercise 3 (hard).** Labels cost money. Could the model label its own questions? Below are five forced
# direct answers to each of 260 other problems, right (1) or wrong (0). Write a rule that says from these
# alone which problems need thinking, and that agrees with the true labels on at least 85% of them.

# %%
from sailrl_lite.training.rollout import respond

others = [make_problem(family, seed, "test") for family in FAMILIES for seed in range(1000, 1020)]
questions, images = [p.question for p in others], [p.image for p in others]
answers = respond(policy, processor, questions, images, n=5, prefill=NEVER_THINK, seed=SEED)
tries = np.array([
    [grade(p, text, prefill=NEVER_THINK)[1].answer for text in five]
    for p, five in zip(others, answers, strict=True)
])  # fmt: skip
print(tries.shape, "right:", tries.mean().round(2))


# %%
def my_labels(tries):
    """tries: (problems, 5) of 0 and 1; returns (problems,) of True where thinking is needed."""
    return np.ones(len(tries), bool)


# %%
def check_3(rule):
    labels, true = np.asarray(rule(tries)), np.array([p.needs_thinking for p in others])
    if labels.shape != true.shape:
        return f"Not yet: {len(true)} labels are asked for, not an array of the shape {labels.shape}."
    agree = (labels.astype(bool) == true).mean()
    if agree < 0.85:
        over, under = (labels & ~true).mean(), (~labels.astype(bool) & true).mean()
        return (
            f"Not yet: {agree:.0%} agree; {over:.0%} call for needless thinking, {under:.0%} miss needed one."
        )
    return f"Right: {agree:.0%} agree, without a single label."


print(check_3(my_labels))

# %% [markdown]
# <details><summary>Hint</summary>
#
# A question that the model can answer at a glance is one that it mostly answers rightly at a glance.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_labels(tries):
#     return tries.mean(1) < 0.5
# ```
#
# Such labels belong to *this* policy: as it learns to see better, they must be drawn again. Whether training
# on them does as well is one of the questions that the paper left open.
# </details>
#
# ## Where to go next
# - `sailrl-lite rl --reward thinking+answer` trains without the judging reward, `--reward always-think` and
#   `--reward never-think` with one mode for all; compare their trigger rates with section 9.
# - Notebook 03 has the format and the answer reward, which this one took for granted.
