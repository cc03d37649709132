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
# # Cascade against additive: why a product
#
# Three things are asked of a response: the right *mode*, sound *thinking*, the right *answer*. Each is
# scored. How should three scores become one? Most reward designs add them up. SAIL-RL multiplies them, and
# its ablation (Table 6) says that this is worth 2.3 to 3.3 points. Here you take both apart: on paper, on
# real rollouts, and in the runs of the study.
#
# **At the end you will know**
# - what each of the 16 possible outcomes earns under a sum and under a product, and what one failure costs;
# - how much a sum pays to responses that fail, and what it makes the policy do more of;
# - what a product costs: the *cold start*, and two ways around it;
# - why the "logical AND" is not quite one;
# - what changed in our runs when the product was replaced by a sum, with intervals, be it as the paper says
#   or not.
#
# **Time:** about a minute and a half on two CPU cores to run, forty minutes to read.
#
# **Rung:** the same on each: its runs are the study's, whose settings were fixed with the claims.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import itertools

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display
from matplotlib import pyplot as plt

from sailrl_lite import figures, render_response
from sailrl_lite.config import SHIPPED
from sailrl_lite.rewards import REWARDS, Combination, Components
from sailrl_lite.rungs import read_rung
from sailrl_lite.training.dapo import group_advantages, has_spread
from sailrl_lite.training.reward import grade
from sailrl_lite.world.problems import FAMILIES, make_problem

read_rung(RUNG)

# %% [markdown]
# ## 1. Two surfaces
# The two rewards, with $\alpha = 0.9$ (paper, section 3.4.4; the account gives the ablation as the bare mean
# of the three, and $\alpha$ and the format term around it are our reading):
#
# $$R_{cascade} = \alpha \, (R_{judge} \cdot R_{think} \cdot R_{answer}) + (1-\alpha) R_{format}$$
# $$R_{additive} = \alpha \, \tfrac13 (R_{judge} + R_{think} + R_{answer}) + (1-\alpha) R_{format}$$
#
# Drawn for a well-formed response, over $R_{think}$ and the probability of a right answer:


# %%
def cascade(judging, thinking, answer, alpha=0.9):
    return alpha * judging * thinking * answer + (1 - alpha)


def additive(judging, thinking, answer, alpha=0.9):
    return alpha * (judging + thinking + answer) / 3 + (1 - alpha)


def draw(alpha):
    figures.use_style()
    figure, axes = plt.subplots(2, 2, figsize=(7.4, 5.4), sharex=True, sharey=True)
    x, y = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60))
    for (judging, row), (column, rule) in itertools.product(
        zip((1, 0), axes, strict=True), enumerate((cascade, additive))
    ):
        z = rule(judging, x, y, alpha) + 0 * x
        shown = row[column].contourf(x, y, z, np.linspace(0, 1, 11), cmap="cividis")
        row[column].set_title(f"{rule.__name__}, mode {'right' if judging else 'wrong'}")
        row[column].grid(visible=False)
    figure.supxlabel("$R_{think}$", fontsize=10)
    figure.supylabel("probability of a right answer", fontsize=10)
    figure.colorbar(shown, ax=axes, label="expected R", ticks=np.linspace(0, 1, 6))
    return figure


figures.knobs(draw, alpha=(0.9, 0.1, 1.0, 0.05))

# %% [markdown]
# The product has one summit and is flat along two edges: where the answer is never right, better thinking
# earns nothing, and the other way round. The sum is a tilted plane: every improvement is paid the same,
# wherever it happens. And with the wrong mode (below), the product is flat everywhere, while the sum goes on
# as before, 0.3 lower.
#
# ## 2. All sixteen outcomes
# $R_{judge}$ and $R_{answer}$ are 0 or 1, $R_{think}$ is 0, 1/3, 2/3 or 1. A well-formed response is one of
# 16 things:


# %%
def outcome(judging, thinking, answer):
    """A well-formed response with these rewards, as the package holds it."""
    d = [int(k < round(3 * thinking)) for k in range(3)]
    return Components(1, answer, judging, *d, decision="think", trace="written")


outcomes = list(itertools.product((1, 0), (1, 0), (0, 1 / 3, 2 / 3, 1)))  # judging, answer, thinking
pay = {}
for rule in (cascade, additive):
    for judging, answer, thinking in outcomes:
        by_hand = rule(judging, thinking, answer)
        assert np.isclose(by_hand, REWARDS[rule.__name__](outcome(judging, thinking, answer)))
        pay[rule.__name__, judging, answer, thinking] = by_hand
table = pd.Series(pay).unstack(level=3)

# %%
figures.use_style()
figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.5), sharey=True)
rows = {(1, 1): "mode right, answer right", (1, 0): "mode right, answer wrong",
        (0, 1): "mode wrong, answer right", (0, 0): "mode wrong, answer wrong"}  # fmt: skip
for axis, name in zip(axes, ("cascade", "additive"), strict=True):
    values = table.loc[name].loc[list(rows)].to_numpy()
    axis.imshow(values, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        axis.text(column, row, f"{value:.1f}", ha="center", va="center")
    axis.set_xticks(range(4), ["0", "1/3", "2/3", "1"])
    axis.set_yticks(range(4), list(rows.values()))
    axis.set(title=name, xlabel="$R_{think}$")
    axis.grid(visible=False)
plt.show()

# %% [markdown]
# What does **one failure** cost, if all else is well? And if something else has failed already?

# %%
best = {"judging": 1, "thinking": 1, "answer": 1}
failures = {
    "wrong mode": {"judging": 0},
    "one sub-reward of three": {"thinking": 2 / 3},
    "wrong answer": {"answer": 0},
}
costs = {}
for name, failure in failures.items():
    already = {"judging": 0} if name != "wrong mode" else {"answer": 0}  # the failure that is there before
    costs[name] = [
        rule(**(best | before)) - rule(**(best | before | failure))
        for rule in (cascade, additive)
        for before in ({}, already)
    ]
columns = pd.MultiIndex.from_product([["cascade", "additive"], ["all else well", "another failed"]])
costs = pd.DataFrame(costs, columns).T
display(costs.round(2))
assert np.allclose(costs["cascade", "all else well"], [0.9, 0.3, 0.9])
assert np.allclose(costs["cascade", "another failed"], 0)
assert np.allclose(costs["additive"], [[0.3, 0.3], [0.1, 0.1], [0.3, 0.3]])

# %% [markdown]
# That is the whole difference. The product charges three times as much for a failure when it is the *only*
# one, and nothing when it is not. The sum charges the same always.
#
# **Does the sum turn anything upside down?** Not in one sense. Whatever the product pays at all, the sum pays
# more than whatever the product does not pay:

# %%
paid = [pay["additive", j, a, t] for j, a, t in outcomes if j * a * t > 0]
unpaid = [pay["additive", j, a, t] for j, a, t in outcomes if j * a * t == 0]
print(f"least for a success: {min(paid):.2f}, most for a failure: {max(unpaid):.2f}")
assert min(paid) > max(unpaid)

# %% [markdown]
# So no failure earns *more* than a success. But 0.7 of 1 is a good income for a failure. The next two
# sections ask who gets it.
#
# ## 3. What the sum pays for
# Five responses to two questions. The first needs a look, the second a calculation.

# %%
look = next(p for k in range(50) if (p := make_problem("read_number", k, "test")).gold.isdigit())
angle = make_problem("angle", seed=0)  # angles of 80 and 55 degrees; the third is asked
sound = "left=80\nright=55\n180-80=100\n100-55=45"
stories = {
    "says a number, any number": (look, render_response("", "7")),
    "thinks for nothing": (look, render_response(f"number={look.gold}", look.gold)),
    "guesses right, no thinking": (angle, render_response("", "45")),
    "right, by an unsound trace": (angle, render_response("left=80\nright=50\n180-80=90\n90-50=40", "45")),
    "sound throughout": (angle, render_response(sound, "45")),
}
graded = {name: grade(problem, text)[1] for name, (problem, text) in stories.items()}
assert look.gold != "7"
table = pd.DataFrame({
    name: [c.judging, c.thinking, c.answer, REWARDS["cascade"](c), REWARDS["additive"](c)]
    for name, c in graded.items()
}, ["judging", "thinking", "answer", "cascade", "additive"]).T  # fmt: skip
display(table.round(2))
assert table["additive"].iloc[0] >= table["additive"].iloc[1] > 0.6 and (table["cascade"][:3] < 0.11).all()

# %% [markdown]
# Look at the first row. "Read the number" needs no thinking, so saying *direct* is the right mode, and a
# blank trace has $R_{think} = 1$. Two thirds of the content are earned before anybody has looked at the
# picture. It earns as much as the second row, which reads the number rightly but takes a needless note of it.
# The sum cannot tell these two apart, and with a flaw in the note it *prefers* the wrong answer. Which pairs
# does it turn round in this sense, a wrong answer above a right one?

# %%
turned = [
    ((j, t), (k, u), additive(j, t, 0), additive(k, u, 1))
    for (j, t), (k, u) in itertools.product(itertools.product((0, 1), (0, 1 / 3, 2 / 3, 1)), repeat=2)
    if additive(j, t, 0) > additive(k, u, 1) + 1e-9
]
print(len(turned), "of 64 pairs; in all of them the right answer came in the wrong mode")
assert turned and all(k == 0 for _, (k, u), _, _ in turned)
assert all(cascade(j, t, 0) == cascade(k, u, 1) for (j, t), (k, u), _, _ in turned)

# %% [markdown]
# ## 4. Real rollouts
# Enough of made-up cases. The shipped policy, which has seen no reinforcement learning, answers eight unseen
# problems of every family, five times each.

# %%
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rollout import respond

policy, processor = load_checkpoint(SHIPPED)
problems = [make_problem(family, k, "test") for family in FAMILIES for k in range(8)]


def roll(temperature=1.0):
    """Texts and their components, five a problem."""
    questions, images = [p.question for p in problems], [p.image for p in problems]
    texts = respond(policy, processor, questions, images, 5, temperature=temperature, seed=SEED)
    pairs = zip(problems, texts, strict=True)
    return texts, [[grade(p, text)[1] for text in five] for p, five in pairs]


def rewards_of(groups, reward):
    return torch.tensor([[reward(c) for c in five] for five in groups])


texts, groups = roll()
R = {name: rewards_of(groups, REWARDS[name]) for name in ("cascade", "additive", "strict-product")}
content = rewards_of(groups, Combination("product", ("judging", "thinking", "answer"), alpha=1.0))
above = (content > 0).float().mean()
print(f"{len(texts)} groups, {content.numel()} rollouts; {above:.0%} have a product above 0")

# %% [markdown]
# **Hacking, in its mild form.** Here is the first group in which the sum ranks a wrong answer above a right
# one:

# %%
answers = torch.tensor([[c.answer for c in five] for five in groups])


def ranks_wrong_above_right(rewards, answers):
    """(groups,) bool: some rollout with a wrong answer earns more than one with a right answer."""
    best_wrong = rewards.masked_fill(answers == 1, -1).amax(1)
    worst_right = rewards.masked_fill(answers == 0, 2).amin(1)
    return best_wrong > worst_right + 1e-6


upside_down = {name: ranks_wrong_above_right(R[name], answers) for name in ("additive", "cascade")}
print({name: f"{found.float().mean():.0%} of the groups" for name, found in upside_down.items()})
assert upside_down["additive"].sum() > 0 and upside_down["cascade"].sum() <= upside_down["additive"].sum()
first = int(upside_down["additive"].nonzero()[0])
figures.rollouts(problems[first], texts[first], groups[first], REWARDS["additive"])
plt.show()

# %% [markdown]
# The numbers above the rollouts are the sum's. The wrong answer that it prefers has the right mode and most
# of a sound trace; the right answer below it came in the wrong mode. One can argue for that order: more was
# done right. The product argues otherwise: neither is what we want, so neither is better. The same five under
# the product:

# %%
print("additive:", R["additive"][first].numpy().round(2), "\ncascade: ", R["cascade"][first].numpy().round(2))

# %% [markdown]
# **Who gets the money?** Take a group's advantages, $A_i = R_i - \bar R$ (notebook 07). Only rollouts with
# $A_i > 0$ become likelier. Of all positive advantage, how much goes to what kind of response?

# %%
KINDS = ["sound and right", "right, unsound trace", "right, wrong mode", "wrong answer", "malformed"]


def kind(c):
    if not c.format:
        return "malformed"
    if not c.answer:
        return "wrong answer"
    if not c.judging:
        return "right, wrong mode"
    return "sound and right" if c.thinking == 1 else "right, unsound trace"


kinds = np.array([[kind(c) for c in five] for five in groups])


def positive_shares(rewards, kinds):
    """Share of all positive advantage that goes to each kind of response."""
    push = group_advantages(rewards).clamp(min=0).numpy()
    return pd.Series({name: push[kinds == name].sum() / push.sum() for name in KINDS})


shares = pd.DataFrame({name: positive_shares(R[name], kinds) for name in R}).T
display(shares.round(3))
good = shares["sound and right"]
assert good["additive"] < good["cascade"] <= good["strict-product"] + 1e-9

# %%
figures.use_style()
ax = shares.plot.barh(stacked=True, figsize=(8.5, 2.4), width=0.7,
                      color=[figures.AFTER, "#8ab8dc", "#f2c879", figures.BEFORE, "0.6"])  # fmt: skip
ax.set(title="Where the positive advantage goes", xlim=(0, 1), xlabel="share")
ax.invert_yaxis()
ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.3), frameon=False)
ax.grid(axis="y", visible=False)
plt.show()

# %% [markdown]
# (*Sound and right* counts a right direct answer where no thinking is needed.) The product spends nearly all
# of its push on responses that are right in every way. The sum spends a part on wrong answers: they were the
# least bad of their group. Is that wrong? If the mode was right and the trace nearly so, one may call it a
# step on the way. This is the trade: **the sum teaches from failures, and what it teaches may be the part
# that is easy.**
#
# How large is the signal itself? Both rewards lie between 0 and 1, so their advantages can be compared:

# %%
signal = pd.DataFrame({
    name: [group_advantages(rewards).abs().mean().item(), has_spread(rewards).float().mean().item()]
    for name, rewards in R.items()
}, ["mean |A|", "groups with spread"]).T  # fmt: skip
display(signal.round(3))
assert signal.loc["cascade", "mean |A|"] > signal.loc["additive", "mean |A|"]
assert signal.loc["additive", "groups with spread"] >= signal.loc["cascade", "groups with spread"]

# %% [markdown]
# The product's advantages are larger (a failure costs 0.9 instead of 0.3), and it has fewer groups to learn
# from. Part of any difference between the two arms is therefore a difference in *step size*, and not in what
# is rewarded. Dividing by the group's deviation (notebook 07) would cancel it; the paper's algorithm does not
# divide, and neither do we.
#
# ## 5. The cold start
# A product is positive only if all its factors are. If mode, trace and answer are right with probabilities
# $q_J, q_T, q_A$ and independent of each other, that is $q_J \, q_T \, q_A$. With 0.5 each, a rollout in
# eight earns something; with 0.1 each, one in a thousand. Are they independent?

# %%
flat = [c for five in groups for c in five]
q = {"mode": np.mean([c.judging for c in flat]), "thinking > 0": np.mean([c.thinking > 0 for c in flat]),
     "answer": np.mean([c.answer for c in flat])}  # fmt: skip
together = np.mean([c.judging * c.thinking * c.answer > 0 for c in flat])
print({name: round(float(value), 2) for name, value in q.items()})
print(f"if independent {np.prod(list(q.values())):.2f}, in truth {together:.2f}")
assert together > np.prod(list(q.values()))

# %% [markdown]
# They go together, so the start is warmer than the formula says. How cold can it get? A worse policy is
# easily had: sample the same one at a higher temperature.

# %%
temperatures = [1.0, 1.4, 1.8, 2.2]
by_temperature = {1.0: groups} | {t: roll(t)[1] for t in temperatures[1:]}
terms = ("judging", "thinking", "answer")
content_of = {
    "cascade": Combination("product", terms, alpha=1.0),
    "additive": Combination("mean", terms, "mean", alpha=1.0),
}
paid = {
    name: {t: rewards_of(some, reward) for t, some in by_temperature.items()}
    for name, reward in content_of.items()
}
nonzero = pd.Series({t: (x > 0).float().mean().item() for t, x in paid["cascade"].items()})
spreads = pd.DataFrame({
    name: {t: has_spread(x).float().mean().item() for t, x in by_t.items()} for name, by_t in paid.items()
})  # fmt: skip

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(7, 2.9))
axis.plot(spreads["additive"], "o-", color=figures.BEFORE, lw=2, label="groups that can teach, additive")
axis.plot(spreads["cascade"], "s-", color=figures.AFTER, lw=2, label="groups that can teach, cascade")
axis.plot(nonzero, "^:", color="0.4", label="rollouts with a product above 0")
axis.set(title="The cold start, content reward alone", xlabel="temperature of the policy", ylim=(0, 1.02))
axis.set_xticks(temperatures)
axis.legend(loc="lower left")
plt.show()
gap = spreads["additive"] - spreads["cascade"]
assert (gap >= 0).all() and gap.max() == gap[temperatures[1:]].max()

# %% [markdown]
# (A group can teach if its rewards differ.) As the policy gets worse, the product falls silent first. SAIL-RL
# has three answers to this: SFT before RL, so that the start is warm; the format term, which gives *some*
# signal where the product has none; and a filter that leaves out problems which are never right. A fourth is
# not in the paper: an **anneal**, from the sum to the product as training goes on. $p$ is the share of
# training done:


# %%
def anneal(p, judging, thinking, answer):
    return (1 - p) * additive(judging, thinking, answer) + p * cascade(judging, thinking, answer)


figures.use_style()
figure, axis = plt.subplots(figsize=(6.5, 2.6))
progress = np.linspace(0, 1, 11)
for (judging, thinking, answer), label in {
    (1, 1, 1): "all right", (1, 2 / 3, 1): "one sub-reward fails",
    (1, 1, 0): "wrong answer", (0, 0, 1): "lucky guess",
}.items():  # fmt: skip
    line = [anneal(p, judging, thinking, answer) for p in progress]
    theirs = [REWARDS["anneal"](outcome(judging, thinking, answer), p) for p in progress]
    assert np.allclose(line, theirs)
    axis.plot(progress, line, lw=2, label=label)
axis.set(
    title="The anneal: from sum to product", xlabel="p, share of training done", ylabel="R", ylim=(0, 1.05)
)
axis.legend(bbox_to_anchor=(1, 1), loc="upper left")
plt.show()

# %% [markdown]
# ## 6. The "logical AND"
# The paper calls its product a logical AND gate: if any component fails, nothing is paid. For the three
# factors that holds. But $R_{think}$ is itself a *mean*, of logic, grounding and consistency, so a trace that
# fails one of them still earns two thirds:

# %%
one_fails = outcome(1, 2 / 3, 1)
for name in ("additive", "cascade", "strict-product"):
    print(f"{REWARDS[name](one_fails):.2f}  {REWARDS[name]}")
pays = [REWARDS[name](one_fails) for name in ("additive", "cascade", "strict-product")]
assert np.allclose(pays, [0.9, 0.7, 0.1])
lucky = kinds == "right, unsound trace"
print(f"of the rollouts above, {lucky.mean():.1%} are right by an unsound trace; mean R: ", end="")
print({name: round(float(R[name].numpy()[lucky].mean()), 2) for name in R})

# %% [markdown]
# An AND over all five would be the **strict product**, $R_{judge} \cdot d_1 d_2 d_3 \cdot R_{answer}$. It is
# stricter against lucky successes, and colder at the start. Which is better is a question for an experiment,
# and the study has that arm.
#
# ## 7. The ablation
# Table 6 of the paper has one run a row. The study has several seeds of each arm, all with the same budget
# and none tuned, and beside the paper's two arms also the bare mean, the strict product and each sub-reward
# alone. `sailrl-lite study run table6` makes the logs again.

# %%
from sailrl_lite.figures import curves, tables
from sailrl_lite.figures.results import gain, read_results
from sailrl_lite.study.report import CLAIMS

results = read_results()
tables.table(results, "table6")
plt.show()

# %% [markdown]
# Left the paper, right ours. Levels are not to be compared (our world is another); differences are. Cascade
# minus each other arm, in points, paired by seed, with 95% intervals over seeds:

# %%
arms, rows = ("additive", "additive-bare", "strict-product"), []
for arm, kind_of in itertools.product(arms, ("reasoning", "general", "perception")):
    line = []
    for measure in ("accuracy", "sound"):
        pair = [results.scores(name, measure, kind=kind_of) for name in ("cascade", arm)]
        mean, low, high = gain(*pair, scale=100)
        line.append(f"{mean:+.1f} ({low:+.1f} to {high:+.1f})")
    rows.append([f"cascade - {arm}", kind_of, *line, len(pair[1])])
columns = ["", "kind", "accuracy, points", "sound traces, points", "seeds"]
differences = pd.DataFrame(rows, columns=columns).set_index(["", "kind"])
display(differences)
assert len(differences) == 9 and (differences["seeds"] > 1).all()

# %% [markdown]
# And the verdicts, as the study's rule gives them. The claims and the rule were written before the first run;
# `data/claims.csv` is read here, not typed.

# %%
claims = pd.read_csv(CLAIMS, dtype=str).fillna("")
table6 = claims[claims["artifact"] == "table6"]
assert len(table6) > 0
for claim in table6.itertuples():
    display(Markdown(
        f"- {claim.statement} Paper: {claim.reported}. Ours: {claim.ours} points, 95% interval "
        f"{claim.ci_low} to {claim.ci_high}, {claim.seeds} seeds. **{claim.verdict}**: {claim.why}."
    ))  # fmt: skip

# %% [markdown]
# How to read such a table, whichever way it comes out? Two forces pull in opposite directions. The product
# pushes only what is right in every way, and pushes it harder (section 4): that is for it. The sum learns
# from more groups, and from the parts of a failure that were well done: that is for the sum, the more so the
# colder the start and the shorter the run. And *hacking* needs a cheap way to a good part of the reward that
# is not the way to the rest. A judge that can be pleased is one; the exact judge here leaves few. So a result
# holds for a start, a budget and a judge, the paper's as well as ours. What had each arm to learn from? Means
# over training and seeds:

# %%
logged = results.curves[results.curves["arm"].isin(["cascade", *arms])].copy()
logged["groups with spread, of those drawn"] = logged["groups/informative"] / logged["groups/drawn"]
names = {"content/nonzero": "rollouts with content", "entropy": "entropy a token", "kl": "KL to SFT a token"}
by_arm = logged.rename(columns=names).groupby("arm")
learnt_from = by_arm[["groups with spread, of those drawn", *names.values()]].mean()
display(learnt_from.round(3))
assert learnt_from["groups with spread, of those drawn"].between(0, 1).all()

# %% [markdown]
# How did the runs get there? The cold start over training: the share of rollouts with any content reward, and
# the cascade reward by exact truth, which is one yardstick for all arms, whatever each was paid.

# %%
curves.cold_start(results)
plt.show()

# %% [markdown]
# ## 8. What the two policies do
# The responses of one run of each arm ship with the logs (seed 0). The same unseen problems, one response
# each, sorted as in section 4:

# %%
from sailrl_lite.study.logs import LOGS

seed_0 = {}
for arm in ("sft", "additive", "cascade"):
    responses = pd.read_csv(LOGS / "responses" / f"{arm}-0.csv.gz", keep_default_na=False)
    seed_0[arm] = responses[responses["tests"] == "plain"].reset_index(drop=True)


def components_of(row):
    problem = make_problem(row.family, int(row.id.rsplit("-", 1)[1]), "test")
    return problem, grade(problem, row.response)[1]


sorted_out = pd.DataFrame({
    arm: [kind(components_of(row)[1]) for row in rows.itertuples()] for arm, rows in seed_0.items()
})  # fmt: skip
counted = sorted_out.apply(lambda found: found.value_counts(normalize=True)).reindex(KINDS).fillna(0)
display((100 * counted).round(1).rename_axis("% of the responses"))
assert np.allclose(counted.sum(), 1) and len(seed_0["cascade"]) == len(seed_0["additive"])

# %% [markdown]
# One seed is one seed: the intervals of section 7 say what of this is more than chance. To see some: the
# first problem that the policy of the *sum* (left) answers rightly by an unsound trace, while that of the
# *product* (right) is right in every way.

# %%
lucky, sound_and_right = sorted_out == "right, unsound trace", sorted_out == "sound and right"
found = np.flatnonzero(lucky["additive"] & sound_and_right["cascade"])
other = np.flatnonzero(lucky["cascade"] & sound_and_right["additive"])
print(f"{len(found)} such problems of {len(lucky)}; the other way round {len(other)}")
for k in found[:1]:
    two = [seed_0[arm].iloc[k] for arm in ("additive", "cascade")]
    graded_two = [components_of(row)[1] for row in two]
    figures.rollouts(components_of(two[0])[0], [row.response for row in two], graded_two, REWARDS["cascade"])
    plt.show()

# %% [markdown]
# ## 9. The same arms, live
# The two arms again, seed 0, with the settings of the study, stopped after four steps. The first step is
# taken by the same policy on the same problems, so the two start from the same rollouts, and from those of
# the shipped log.

# %%
import tempfile
from dataclasses import replace
from pathlib import Path

from sailrl_lite.study.arms import load_study
from sailrl_lite.training.rl import train_rl


class Enough(Exception):
    """To stop a run that has shown what it should."""


def first_steps(arm, steps=4):
    def watch(metrics):
        if len(metrics) == steps:
            raise Enough

    folder = Path(tempfile.mkdtemp())
    try:
        train_rl(replace(load_study().arms[arm].rl, seed=0), folder, bar=False, on_batch=watch)
    except Enough:
        return pd.read_csv(folder / "metrics.csv")


live = {arm: first_steps(arm) for arm in ("cascade", "additive")}
columns = ["step", "reward", "answer", "judging", "thinking", "content/nonzero", "true_cascade"]
display(pd.concat({arm: log[columns] for arm, log in live.items()}).droplevel(1).round(3))

# %%
same = ["answer", "judging", "thinking", "true_cascade"]
assert np.allclose(live["cascade"][same].iloc[0], live["additive"][same].iloc[0])  # the same rollouts
assert live["additive"]["reward"][0] > live["cascade"]["reward"][0]  # only paid otherwise
for arm, log in live.items():
    shipped = results.curves[(results.curves["arm"] == arm) & (results.curves["seed"] == 0)]
    shipped = shipped.sort_values("step")["reward"].to_numpy()[: len(log)]
    print(f"{arm}: reward here {log['reward'].round(3).tolist()}, shipped {shipped.round(3).tolist()}")
    assert abs(log["reward"][0] - shipped[0]) < 0.05

# %% [markdown]
# The sum's *reward* is higher from the first step on, with the very same responses. So never compare arms by
# the reward they were trained on; compare them by a yardstick that is none of theirs, or the same for both.
#
# ## 10. Your own combination
# Choose terms, product or mean, and $\alpha$. What would it do with the rollouts of section 4?

# %%
mine = Combination("mine", ("judging", "grounding", "answer"), how="product", alpha=0.9)

print(mine)
my_rewards = rewards_of(groups, mine)
report = pd.DataFrame({name: positive_shares(r, kinds) for name, r in (R | {"mine": my_rewards}).items()})
display(report.round(3))
print(f"groups that can teach: {has_spread(my_rewards).float().mean():.0%}, mean |A| "
      f"{group_advantages(my_rewards).abs().mean():.3f}, wrong above right in "
      f"{ranks_wrong_above_right(my_rewards, answers).float().mean():.0%} of the groups")  # fmt: skip

# %% [markdown]
# ## 11. Exercises
# **Exercise 1 (easy).** A well-formed response thinks where it should, fails one of the three sub-rewards,
# and answers wrongly. What do cascade and additive pay ($\alpha = 0.9$)?

# %%
cascade_pays = None
additive_pays = None


# %%
def check_1(by_cascade, by_additive):
    if by_cascade is None or by_additive is None:
        return "Not yet: put a number in the place of each None."
    if abs(by_cascade - cascade(1, 2 / 3, 0)) > 0.005:
        return "Not yet: cascade. One factor is 0; which term is left?"
    if abs(by_additive - additive(1, 2 / 3, 0)) > 0.005:
        return "Not yet: additive. The mean of 1, 2/3 and 0, times 0.9, and the format term."
    return "Right. A failure with an income of 0.6 is what the product will not have."


print(check_1(cascade_pays, additive_pays))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# cascade_pays = 0.1
# additive_pays = 0.9 * (1 + 2 / 3 + 0) / 3 + 0.1
# ```
# </details>
#
# **Exercise 2 (medium).** A rollout has a product above 0 with probability $q$. How many rollouts $G$ must a
# group have, at least, so that with probability 0.9 there is at least one such rollout in it?


# %%
def rollouts_needed(q):
    return 5


# %%
def check_2(rule):
    for q in (0.5, 0.2, 0.05, 0.01):
        n = rule(q)
        if n != int(n) or n < 1:
            return f"Not yet: for q = {q} you say {n}; a whole number of rollouts is asked for."
        if 1 - (1 - q) ** n < 0.9:
            return (
                f"Not yet: for q = {q}, {n} rollouts hold one with probability {1 - (1 - q) ** n:.2f} only."
            )
        if n > 1 and 1 - (1 - q) ** (n - 1) >= 0.9:
            return f"Not yet: for q = {q}, {n - 1} rollouts would do."
    return f"Right. At one in a hundred it takes {rule(0.01)}; that is the cold start."


print(check_2(rollouts_needed))

# %% [markdown]
# <details><summary>Hint</summary>
#
# None of $G$ rollouts is a success with probability $(1-q)^G$. Take logarithms, and round up.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def rollouts_needed(q):
#     return int(np.ceil(np.log(0.1) / np.log(1 - q)))
# ```
# </details>
#
# **Exercise 3 (hard).** Have both. Write a reward of a response's `Components` that (a) pays 1 if all is
# right and at most 0.3 if the product is 0, (b) pays every success more than any failure, and (c) can teach
# from at least as many of the groups of section 4 as the sum.


# %%
def my_reward(c):
    return REWARDS["cascade"](c)


# %%
def check_3(reward):
    if abs(reward(outcome(1, 1, 1)) - 1) > 1e-6:
        return f"Not yet: a response that is right in every way earns {reward(outcome(1, 1, 1)):.2f}, not 1."
    failed = max(reward(outcome(j, t, a)) for j, a, t in outcomes if j * a * t == 0)
    if failed > 0.3 + 1e-6:
        return f"Not yet: (a) a failure earns {failed:.2f}."
    if failed >= min(reward(outcome(j, t, a)) for j, a, t in outcomes if j * a * t > 0):
        return "Not yet: (b) some failure earns as much as some success."
    ours, theirs = (has_spread(x).float().mean() for x in (rewards_of(groups, reward), R["additive"]))
    if ours < theirs:
        return f"Not yet: (c) {ours:.0%} of the groups can teach; with the sum it is {theirs:.0%}."
    return f"Right: {ours:.0%} of the groups can teach, and a failure earns {failed:.2f} at most."


print(check_3(my_reward))

# %% [markdown]
# <details><summary>Hint</summary>
#
# An anneal that stops halfway is a mixture of the two. How much of the sum may be in it?
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_reward(c):
#     return 0.7 * REWARDS["cascade"](c) + 0.3 * REWARDS["additive"](c)
# ```
# </details>
#
# ## Where to go next
# - Notebook 07 is the algorithm that this reward goes into, notebook 08 the other ablations.
# - `sailrl-lite rl --reward additive`, `--reward strict-product`, `--reward anneal` train with the others.
