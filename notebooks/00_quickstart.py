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
# # Quickstart: teach a small model when and how to think
#
# A model that always thinks aloud wastes words on easy questions, and sometimes talks itself out of a right
# answer. One that never does fails on hard ones. **SAIL-RL** ([arXiv
# 2511.02280](https://arxiv.org/abs/2511.02280)) rewards a vision-language model for two things besides the
# right answer: for *deciding* well whether to think, and for thinking *soundly*. Here you do the whole of it
# in small, on real pixels, without a download.
#
# **At the end you will know**
# - what a response looks like, and which seven rewards it earns;
# - why the paper multiplies three of them, and what this product does not punish;
# - how a reward becomes an advantage, and which prompts teach nothing;
# - what some minutes of reinforcement learning change in a model, and what they leave alone.
#
# **Time:** about three minutes on two CPU cores to run, half an hour to read. Run the cells from top to
# bottom.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import numpy as np
import pandas as pd
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures, parse_response, render_response
from sailrl_lite.config import RLConfig, checkpoint_of
from sailrl_lite.rungs import config_of
from sailrl_lite.world.problems import FAMILIES, make_problem

rung = config_of(RUNG, RLConfig)  # its values of a run; section 6 puts a few shorter ones in their place

# %% [markdown]
# ## 1. The world
# Thirteen families of questions about small pictures: some need only a look (*perception*), some need
# several steps (*reasoning*), and in some it depends on the question (*general*). Handwritten digits are
# scans of real handwriting. Each problem knows its right answer, the **gold**, and carries a **label**: does
# it need thinking?

# %%
figures.gallery([make_problem(family, seed=0, split="test") for family in FAMILIES])
plt.show()

# %% [markdown]
# Code drew these pictures, so the whole truth about each is known. Not only an answer, but every line of a
# model's reasoning can be checked exactly.

# %%
sample_problem = make_problem("add", seed=0, split="test")
for name, fact in sample_problem.facts.items():
    print(f"{name} = {fact.value}   (known from the {fact.source})")

# %% [markdown]
# ## 2. What a response looks like
# Before any reinforcement learning, the model imitated a **teacher** (supervised fine-tuning, SFT). This is
# one of the teacher's lessons. It has three blocks: a *judgment* whether thinking is needed, the *thinking*,
# and the *answer* in a box.

# %%
import random

from sailrl_lite.world.teacher import teach

lesson = teach(sample_problem, random.Random(SEED))
print(lesson.text)

# %% [markdown]
# `parse_response` reads such a text; everything in this project looks at a response through it.
# `render_response` is its inverse, so a round trip must give the text back.

# %%
response = parse_response(lesson.text)
print("decision:", response.decision)
print("thinking:", response.think.split("\n"))
print("answer:  ", response.answer)

assert response.well_formed
assert render_response(response.think, response.answer, response.judge) == lesson.text

# %% [markdown]
# The decision and the think block must agree. A response that says "directly" and thinks all the same is
# malformed, and a malformed response earns nothing:

# %%
two_faced = r"<judge>This question can be answered directly.</judge>"
two_faced += r"<think>50+20=70</think><answer>\boxed{73}</answer>"
print(parse_response(two_faced).problems)
assert not parse_response(two_faced).well_formed

# %% [markdown]
# ## 3. Five tries at one problem
# The policy that ships with the project is a Qwen2.5-VL, only small: about 1.6 million parameters, trained
# by SFT alone. Its teacher made mistakes on purpose, so it is not perfect. Sampled several times, it gives
# different responses to the same question; each is called a **rollout**.

# %%
from sailrl_lite.training.policies import load_policy
from sailrl_lite.training.rollout import respond

sft_policy, processor = load_policy(checkpoint_of(rung), rung.policy)


def roll(policy, problems, n=5):
    """n sampled responses to each problem."""
    questions, images = [p.question for p in problems], [p.image for p in problems]
    return respond(policy, processor, questions, images, n, max_new_tokens=rung.max_new_tokens, seed=SEED)


# %% [markdown]
# Which problem shall we look at? Not the prettiest, but one picked by a rule: the first of the test problems
# of the family `add` whose five rollouts earn at least three different rewards. `grade` parses a response,
# checks its reasoning against the truth, and returns all its rewards; the next section takes them apart. A
# cross marks a line that the check faults, and says what it fails.
#
# Some handwriting is hard to read, even for you; the gold answer stands below the picture. And a trace may
# name things that are not there: the teacher did so now and then, and the policy has learnt that, too.

# %%
from sailrl_lite.rewards import REWARDS
from sailrl_lite.training.reward import grade

cascade = REWARDS["cascade"]
candidates = [make_problem("add", seed, "test") for seed in range(50)]
tries = zip(candidates, roll(sft_policy, candidates), strict=True)
problem, texts = next((p, t) for p, t in tries if len({cascade(grade(p, text)[1]) for text in t}) >= 3)

graded = [grade(problem, text)[1] for text in texts]
figures.rollouts(problem, texts, graded, cascade)
plt.show()

# %% [markdown]
# ## 4. The reward, by hand
# Each rollout above was measured in seven ways. In the symbols of the paper (sections 3.2 to 3.4):
#
# | symbol | here | 1 if |
# |---|---|---|
# | $R_{format}$ | `format` | the response is well formed |
# | $R_{answer}$ | `answer` | the boxed answer is right |
# | $R_{judge}$ | `judging` | the decision to think, or not to, equals the label |
# | $d_1$ | `logic` | the steps model the problem rightly, without a slip |
# | $d_2$ | `grounding` | every claim is true of picture, question and world |
# | $d_3$ | `consistency` | the answer follows from the reasoning, without a gap |
#
# The seventh is the thinking reward, $R_{think} = (d_1 + d_2 + d_3)/3$. A blank think block has no trace to
# check: it gets 1 if the label says that no thinking is needed, else 0.

# %%
columns = ["format", "answer", "judging", "logic", "grounding", "consistency", "thinking"]
names = [f"rollout {k}" for k in range(1, 6)]
display(pd.DataFrame([[getattr(c, x) for x in columns] for c in graded], names, columns).round(2))

# %% [markdown]
# The **cascade** (section 3.4.4) joins them into the one number that is trained on, with $\alpha = 0.9$:
#
# $$R = \alpha \, (R_{judge} \cdot R_{think} \cdot R_{answer}) + (1 - \alpha) \, R_{format}$$
#
# (A malformed response gets 0 whatever else it does.) In Python:


# %%
def cascade_by_hand(c, alpha=0.9):
    thinking = (c.logic + c.grounding + c.consistency) / 3
    content = c.judging * thinking * c.answer
    return alpha * content + (1 - alpha) * c.format if c.format else 0


by_hand = [cascade_by_hand(c) for c in graded]
print("by hand:    ", np.round(by_hand, 2))
print("the package:", np.round([cascade(c) for c in graded], 2), cascade)
assert np.allclose(by_hand, [cascade(c) for c in graded])

# %% [markdown]
# **Why a product?** The paper compares it with the **additive** reward, the mean of the same three (with
# $\alpha$ and the format term around it, as we read it). A sum pays for each part alone: a lucky guess
# without any thinking still earns the answer's third, and perfect thinking before a wrong answer earns two
# thirds. A product pays only where everything works at once.


# %%
def additive_by_hand(c, alpha=0.9):
    thinking = (c.logic + c.grounding + c.consistency) / 3
    return alpha * (c.judging + thinking + c.answer) / 3 + (1 - alpha) * c.format if c.format else 0


additive = REWARDS["additive"]
assert np.allclose([additive_by_hand(c) for c in graded], [additive(c) for c in graded])
figures.reward_bars(graded, [cascade, additive])
plt.show()

# %% [markdown]
# **An honest remark.** The paper calls its product a logical AND. Between the three factors it is one;
# inside $R_{think}$ it is not. If one of $d_1, d_2, d_3$ fails and all else is right, the product still pays
# two thirds. Multiplying the three as well gives a true AND; the package has that too, as `strict-product`.

# %%
from sailrl_lite.rewards import Components

misread = Components(
    format=1, answer=1, judging=1, logic=1, grounding=0, consistency=1, decision="think", trace="written"
)
for reward in (cascade, REWARDS["strict-product"]):
    print(f"{reward(misread):.2f}  {reward}")
assert np.isclose(cascade(misread), 0.9 * 2 / 3 + 0.1)

# %% [markdown]
# ## 5. From reward to advantage
# Is a reward of 0.7 good? That depends on what else the model would have done. The **advantage** of a
# rollout is its reward minus the mean reward of its group, the rollouts of the same prompt:
#
# $$A_i = R_i - \bar R$$
#
# What is better than usual becomes likelier, what is worse becomes rarer.

# %%
import torch

from sailrl_lite.training.dapo import group_advantages, has_spread

rewards = torch.tensor([[cascade(c) for c in graded]])  # one group of five
advantages = rewards - rewards.mean(1, keepdim=True)

assert torch.allclose(advantages, group_advantages(rewards))
display(pd.DataFrame({"reward": rewards[0], "advantage": advantages[0]}, names).round(2))

# %% [markdown]
# Where all five rollouts earn the same, every advantage is 0 and there is nothing to learn. **Dynamic
# sampling**, a part of DAPO (the algorithm that the paper trains with), drops such groups and draws other
# prompts instead. Here is one group for each family:

# %%
problems = [make_problem(family, seed=1, split="test") for family in FAMILIES]
fives = roll(sft_policy, problems)
pairs = zip(problems, fives, strict=True)
rewards = torch.tensor([[cascade(grade(p, text)[1]) for text in five] for p, five in pairs])
groups = pd.DataFrame(rewards.numpy(), list(FAMILIES), names).round(2)
groups["dynamic sampling"] = ["keeps" if spread else "drops" for spread in has_spread(rewards)]
display(groups)
assert (group_advantages(rewards)[~has_spread(rewards)].abs() < 1e-6).all()

# %% [markdown]
# ## 6. Before, training, after
# First the SFT policy on problems that no training sees, one response each, with 95% bootstrap intervals.
# `trigger_rate` is the share of responses that think. It should be near 0 where no thinking is needed and
# near 1 where it is.

# %%
from sailrl_lite.study.evaluation import as_text, change, evaluate, summarize, unseen_problems

SHOWN = ["accuracy", "trigger_rate", "thinking", "cascade", "tokens"]
unseen = unseen_problems(per_family=40)
asked = {"seed": SEED, "max_new_tokens": rung.max_new_tokens, "bar": None}
before = evaluate(sft_policy, processor, unseen, **asked)
print(as_text(summarize(before[["needs_thinking", *SHOWN]], ["needs_thinking"])))

# %% [markdown]
# Now the training: each step draws 48 problems, samples five rollouts for each, and makes those with a
# positive advantage likelier. The figure is redrawn as it goes. Before you run the cell, make a guess: which
# of the six panels will move first?
#
# Only what makes the run short is set here. All else is as the rung says, so with another word for `RUNG` the
# same code trains another policy, from an SFT policy and data of its own (notebook 11).

# %%
import tempfile
from dataclasses import replace
from pathlib import Path

from sailrl_lite.training.rl import train_rl

config = replace(rung, seed=SEED, steps=40, prompts=48, reward="cascade")
run = Path(tempfile.mkdtemp())  # where the run keeps its metrics, checkpoints and, at the end, its policy

# %%
live = display(display_id=True)


def watch(metrics):
    """Called after each step with the metrics of all steps so far."""
    if len(metrics) % 4 == 0:
        live.update(figure := figures.learning_curves(metrics))
        plt.close(figure)


rl_policy, _ = load_policy(train_rl(config, run, bar=False, on_batch=watch), rung.policy)

# %% [markdown]
# Thin lines are the steps, thick ones their moving average. The trigger rate moves first: the decision is a
# single token, and every rollout is paid for it or not. Better traces take many tokens, and follow later. The
# last panel estimates, from a few rollouts of each step, how far the policy is from its start; such an
# estimate jumps, it is measured only, and nothing holds the policy back.
#
# And the same unseen problems as before:

# %%
after = evaluate(rl_policy, processor, unseen, **asked)
print(as_text(summarize(after[["needs_thinking", *SHOWN]], ["needs_thinking"])))
figures.before_after(summarize(before), summarize(after))
plt.show()

# %% [markdown]
# The problem of section 3 again, five rollouts, now of the trained policy:

# %%
texts_after = roll(rl_policy, [problem])[0]
graded_after = [grade(problem, text)[1] for text in texts_after]
figures.rollouts(problem, texts_after, graded_after, cascade)
plt.show()

# %% [markdown]
# ## 7. Does it do what it claims?
# Three claims about unseen problems. Each compares the policy before and after on the *same* problems, and
# counts as shown only if the 95% interval of the change leaves out zero.

# %%
hard = before["needs_thinking"]
claims = [
    ("the reward went up", "cascade", hard | ~hard, +1),
    ("it thinks less where no thinking is needed", "trigger_rate", ~hard, -1),
    ("it thinks more where thinking is needed", "trigger_rate", hard, +1),
]
table = []
for claim, measure, part, sign in claims:
    mean, low, high = change(before, after, measure, part)
    level = before[measure][part].mean(), after[measure][part].mean()
    table.append([claim, *level, mean, low, high, sign * low > 0 and sign * high > 0])
table = pd.DataFrame(table, columns=["claim", "before", "after", "change", "low", "high", "shown"])
display(table.round(3))

# %%
for row in table.itertuples():
    assert row.shown, f"not shown: {row.claim}; the change is between {row.low:.3f} and {row.high:.3f}"
curve = pd.read_csv(run / "metrics.csv")["reward"]
first, last = curve[:5].mean(), curve[-5:].mean()
print(f"reward in training, first five steps: {first:.2f}, last five: {last:.2f}")
assert last > first

# %% [markdown]
# Read such a table with care. These intervals say how sure we are *about this one trained policy*; another
# seed gives another policy, so the README's table has three. Levels depend on how often our teacher errs, so
# only the changes can be compared with the paper's. There, a model trained without the judging reward thinks
# on 90.4% of MathVision and on 47.6% of OCRBench; with the full method it is 99.8% and 7.5% (table 5). The
# direction is what this notebook checks.
#
# And what did *not* get better? Here is every family's accuracy; not shown means that the interval holds
# zero.

# %%
rows = []
for family in FAMILIES:
    part = before["family"] == family
    mean, low, high = change(before, after, "accuracy", part)
    verdict = "up" if low > 0 else "down" if high < 0 else "not shown"
    rows.append([family, before["accuracy"][part].mean(), mean, low, high, verdict])
accuracy = pd.DataFrame(rows, columns=["family", "before", "change", "low", "high", "accuracy went"])
display(accuracy.round(2))

# %% [markdown]
# ## 8. Your own response
# Edit the text and run the cell: all rewards, and what the verifier found line by line. This one is a *lucky
# success*. It misreads an angle and slips in a step, yet its answer is right.

# %%
from sailrl_lite.world.verifier import verify

mine = make_problem("angle", seed=0)
my_text = r"""<judge>This question needs step-by-step reasoning.</judge>
<think>
left=80
right=50
180-80=90
90-50=40
</think>
<answer>\boxed{45}</answer>"""

figures.rollouts(mine, [my_text], [grade(mine, my_text)[1]], cascade)
plt.show()

# %%
response, components = grade(mine, my_text)
print("problems of the format:", response.problems or "none")
if response.think:
    print(verify(mine, response.think, response.answer), end="\n\n")
print(components, end="\n\n")
for name, reward in REWARDS.items():
    print(f"{reward(components):.2f}  {name}")

# %% [markdown]
# ## 9. Exercises
# Each has a cell to edit and a cell that checks it and says what is wrong.
#
# **Exercise 1 (easy).** A response decides rightly to think, and its answer is right. But its trace misreads
# the picture and has a gap: $d_1 = 1$, $d_2 = d_3 = 0$. What does the cascade pay, and what does the
# additive reward?

# %%
cascade_pays = None
additive_pays = None


# %%
def check_1(cascade_pays, additive_pays):
    if cascade_pays is None or additive_pays is None:
        return "Not yet: put a number in the place of each None."
    case = Components(1, 1, 1, logic=1, grounding=0, consistency=0, decision="think", trace="written")
    for reward, pays in ((cascade, cascade_pays), (additive, additive_pays)):
        if abs(reward(case) - pays - 0.1) < 0.01:
            return f"Not yet: in {reward.name} you left out the format term, 0.1 * format."
        if reward is cascade and pays <= 0.1:
            return "Not yet: no factor is 0. The thinking reward is the mean of 1, 0 and 0."
        if abs(reward(case) - pays) > 0.01:
            return f"Not yet: {reward.name} is {reward.formula}; what is thinking here?"
    return "Right. The sum pays twice as much for this flawed trace."


print(check_1(cascade_pays, additive_pays))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# cascade_pays = 0.9 * (1 * 1 / 3 * 1) + 0.1
# additive_pays = 0.9 * (1 + 1 / 3 + 1) / 3 + 0.1
# ```
# </details>
#
# **Exercise 2 (medium).** The response below is perfect. Change its trace so that *only* the consistency
# fails: answer, logic and grounding stay 1.

# %%
my_response = render_response(think="left=80\nright=55\n180-80=100\n100-55=45", answer="45")


# %%
def check_2(text):
    response, c = grade(mine, text)
    wanted = {"format": 1, "answer": 1, "judging": 1, "logic": 1, "grounding": 1, "consistency": 0}
    wrong = [f"{name} is {getattr(c, name)}" for name, value in wanted.items() if getattr(c, name) != value]
    if not wrong:
        return "Right. The verifier says:\n" + str(verify(mine, response.think, response.answer))
    found = [str(f) for f in verify(mine, response.think or "", response.answer).findings if f.failed]
    return "\n".join([f"Not yet: {', '.join(wrong)}.", *response.problems, *found])


print(check_2(my_response))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Consistency asks whether everything that is used has been said. Say less.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_response = render_response(think="left=80\n180-80=100\n100-55=45", answer="45")
# ```
# </details>
#
# **Exercise 3 (hard).** Design a reward that pays 1 for a sound trace and for a rightly direct answer, but
# no more than 0.1 for a right answer after a trace with *any* flaw. A `Combination` has a name, terms, and a
# way to join them (`how="product"` or `how="mean"`). The names of all terms are the keys of `TERMS`.

# %%
from sailrl_lite.rewards import TERMS, Combination

print(", ".join(TERMS))
my_reward = Combination("mine", ("judging", "thinking", "answer"), how="product")


# %%
def check_3(reward):
    sound = Components(1, 1, 1, 1, 1, 1, decision="think", trace="written")
    flaws = {
        "a slip in a step": {"logic": 0},
        "a misreading": {"grounding": 0},
        "a gap": {"consistency": 0},
        "a wrong answer": {"answer": 0},
        "thinking where none is needed": {"judging": 0},
    }
    cases = {"a sound trace": {}, "a rightly direct answer": {"decision": "direct", "trace": "blank"}} | flaws
    for name, flaw in cases.items():
        pays, due = reward(replace(sound, **flaw)), 0.1 if name in flaws else 1
        if abs(pays - due) > 0.001:
            return f"Not yet: {reward} pays {pays:.2f} for {name}, where {due} is due."
    return f"Right: {reward}"


print(check_3(my_reward))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# my_reward = Combination("mine", ("judging", "logic", "grounding", "consistency", "answer"), how="product")
# ```
#
# This is `REWARDS["strict-product"]`. To train with a reward of your own, put it under its name,
# `REWARDS["mine"] = my_reward`, and give `reward="mine"` to `RLConfig`.
# </details>
#
# ## Where to go next
# - `make preview` does what you just did with more steps, and leaves a report with every response and step.
# - `sailrl-lite rl --reward additive` trains with another reward; `sailrl-lite rl --help` lists what can
#   be set.
# - `sailrl-lite score completions.jsonl` gives the rewards of your own model's responses.
# - Notebook 01 makes the data, 02 the SFT policy; 03, 04 and 05 take the rewards one by one; 10 asks how far
#   a judge can be trusted. Notebooks on the cascade against the additive reward over several seeds, on DAPO,
#   and on questions that the paper left open are planned.
