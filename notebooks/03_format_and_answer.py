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
# # Format and answer: the two rewards that look easy
#
# Before anyone can ask whether a model thought well, two plain questions must be settled: *can its response
# be read*, and *is its answer right*? Both look like one regular expression each. Here you write these
# expressions, watch them pay for the wrong things, and see what such a mistake costs in reinforcement
# learning.
#
# **At the end you will know**
# - the rules of the format reward, and why each of them is there;
# - where string equality and a bare mathematics checker misjudge an answer;
# - how a wrong answer reward distorts advantages, in one formula and on real rollouts;
# - how a policy that never looks at the picture can still be paid;
# - what the term $(1-\alpha) \, R_{format}$ is for, and when it does nothing.
#
# **Time:** about a minute on two CPU cores to run, half an hour to read.
#
# **Rung:** the same on each: these rewards do not ask what wrote a response. The rollouts are the micro
# policy's.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import random
import re

import numpy as np
import pandas as pd
from IPython.display import display
from matplotlib import pyplot as plt

from sailrl_lite import figures, parse_response
from sailrl_lite.rewards import REWARDS, answer_reward, format_reward, get_reward
from sailrl_lite.rungs import read_rung
from sailrl_lite.training.reward import grade
from sailrl_lite.world.problems import make_problem

read_rung(RUNG)

# %% [markdown]
# ## 1. One question, four responses
# The same right number four times. Only the first response is paid for it: the second says "directly" and
# thinks all the same, the third has its box in the wrong block, the fourth goes on talking. Here
# $R = 0.9 \, R_{answer} + 0.1 \, R_{format}$, the reward that knows nothing but format and answer, and a
# malformed response gets nothing at all. (It is the paper's *answer-only* arm; its table 3 has it at 47.3% on
# MathVision, against 49.4% for the whole reward system.)

# %%
THINK = "<judge>This question needs step-by-step reasoning.</judge>"
DIRECT = "<judge>This question can be answered directly.</judge>"
problem = make_problem("angle", seed=0)
trace, box = "<think>left=80\nright=55\n180-80=100\n100-55=45</think>", r"<answer>\boxed{45}</answer>"
four = [
    THINK + trace + box,
    DIRECT + trace + box,
    THINK + trace.replace("</think>", "\n\\boxed{45}</think>") + "<answer>45</answer>",
    THINK + trace + box + " I hope this helps!",
]
simple = REWARDS["answer-only"]
figures.rollouts(problem, four, [grade(problem, text)[1] for text in four], simple)
plt.show()
for text in four:
    print(parse_response(text).problems or "well formed")

# %% [markdown]
# ## 2. The format reward, in one line
# A response has three blocks: a judgment, a trace, an answer with a box. Most first attempts at a format
# reward look like this, and most first attempts at reading the answer like the line after it:


# %%
def naive_format(text):
    pattern = r"<judge>.*</judge>\s*<think>.*</think>\s*<answer>.*\\boxed{.*}.*</answer>"
    return int(re.search(pattern, text, re.DOTALL) is not None)


def naive_answer(text):
    found = re.search(r"\\boxed{(.*?)}", text)
    return found.group(1) if found else None


print([naive_format(text) for text in four], [naive_answer(text) for text in four])
assert naive_format(four[0]) == format_reward(parse_response(four[0])) == 1

# %% [markdown]
# It pays three of the four, two of them wrongly. What should it pay? The format reward of this project has
# six rules:
#
# 1. What is read is the *prefill* (what was put into the model's mouth) plus the completion, without
#    end-of-turn tokens and outer white space.
# 2. Each tag stands exactly once, in order, and nothing but white space between and around the blocks.
# 3. In a malformed response each block that can be told is still read, to be logged. It is not paid.
# 4. The judgment says that thinking is needed, or that it is not; neither, or both, is an error.
# 5. The think block is blank exactly when the judgment says "direct".
# 6. The answer is the content of the **last** box of the **answer block**, braces balanced, not blank.
#
# Rules 1, 2, 4 and 5 make a function of a dozen lines, with rule 6 in a second one:

# %%
import unicodedata

from sailrl_lite.decision import read_decision
from sailrl_lite.response import END_OF_TURN

TAG = re.compile(r"</?(?:judge|think|answer)>")
ORDER = ["<judge>", "</judge>", "<think>", "</think>", "<answer>", "</answer>"]


def visible(text):
    """What leaves a mark on paper: no spaces, no control and no zero-width characters."""
    return "".join(c for c in text if unicodedata.category(c)[0] not in "CZ")


# %%
def last_box(block):
    start = block.rfind(r"\boxed{") + len(r"\boxed{")
    depth = 1
    for end in range(start, len(block)):
        depth += {"{": 1, "}": -1}.get(block[end], 0)
        if depth == 0:
            return block[start:end].strip() or None
    return None


# %%
def format_by_hand(text, prefill=""):
    text = (prefill + text).strip()
    while text.endswith(END_OF_TURN):
        text = text.removesuffix(END_OF_TURN[0]).removesuffix(END_OF_TURN[1]).strip()
    if TAG.findall(text) != ORDER:
        return 0
    before, judge, gap, think, gap_2, answer, after = TAG.split(text)
    if visible(before + gap + gap_2 + after) or r"\boxed{" not in answer:
        return 0
    decision = read_decision(judge)
    if decision is None or (decision == "direct") != (visible(think) == ""):
        return 0
    return int(last_box(answer) is not None)


for text in four:
    assert format_by_hand(text) == format_reward(parse_response(text)), text

# %% [markdown]
# ## 3. A gallery of hard responses
# Each is of a kind to expect once a model has been sampled a million times. The question is $7+5$, the gold
# answer 12. Beside each stands what is due by the rules: format, and answer. (The answer of a malformed
# response is logged even though it is not paid, so a 0 and a 1 may stand together.)

# %%
T, A = "<think>7+5=12</think>", r"<answer>\boxed{12}</answer>"


def boxed(content):
    return rf"<answer>\boxed{{{content}}}</answer>"


GALLERY = {  # name: (response, format due, answer due)
    "plain, thinking": (THINK + T + A, 1, 1),
    "plain, direct": (DIRECT + "<think>\n\n</think>" + A, 1, 1),
    "braces in the box": (THINK + T + boxed(r"\frac{24}{2}"), 1, 1),
    "end-of-turn token": (THINK + T + A + "<|im_end|>", 1, 1),
    "a first guess in the trace": (THINK + r"<think>\boxed{11}? no</think>" + A, 1, 1),
    "mind changed to right": (THINK + T + r"<answer>\boxed{11}, rather \boxed{12}</answer>", 1, 1),
    "mind changed to wrong": (THINK + T + r"<answer>\boxed{12}, rather \boxed{13}</answer>", 1, 0),
    "right trace, wrong answer": (THINK + r"<think>\boxed{12}</think>" + boxed("13"), 1, 0),
    "a false equation": (THINK + T + boxed("8=12"), 1, 0),
}

# %%
GALLERY |= {
    "box in the trace only": (THINK + r"<think>so \boxed{12}</think><answer>12</answer>", 0, 0),
    "last box not closed": (THINK + T + r"<answer>\boxed{12}, or \boxed{1</answer>", 0, 0),
    "empty box": (THINK + T + boxed(""), 0, 0),
    "two answer blocks": (THINK + T + A + boxed("13"), 0, 0),
    "two think blocks": (THINK + T + T + A, 0, 1),
    "blocks out of order": (T + THINK + A, 0, 1),
    "talk after the answer": (THINK + T + A + " I hope this helps!", 0, 1),
    "a judgment that says nothing": ("<judge>Hmm.</judge>" + T + A, 0, 1),
    "says direct, thinks": (DIRECT + T + A, 0, 1),
    "says think, zero-width trace": (THINK + "<think>\u200b\u2060</think>" + A, 0, 1),
}

# %% [markdown]
# Beside the naive pair and ours stand the two example rewards that come with TRL, a widely used trainer.
# Mind what they are for: `think_format_reward` checks a simpler format, `<think>...</think>` and then
# anything, so it is given the text from `<think>` on; `accuracy_reward` reads the whole completion with
# math-verify. The figure does not say that they are wrong. It says what you would pay for if you borrowed
# them for this format.

# %%
from trl.rewards import accuracy_reward, think_format_reward


def trl_format(text):
    return think_format_reward([[{"content": text[max(text.find("<think>"), 0) :]}]])[0]


def trl_answer(text, gold):
    return accuracy_reward([[{"content": text}]], [gold])[0]


# %%
rows = []
for text, _, _ in GALLERY.values():
    ours = parse_response(text)
    formats = naive_format(text), trl_format(text), format_reward(ours)
    answers = int(naive_answer(text) == "12"), trl_answer(text, "12"), answer_reward(ours, "12")
    rows.append([*formats, *answers])
paid = pd.DataFrame(rows, list(GALLERY), ["naive", "TRL", "ours"] * 2)
format_due = pd.Series({name: due for name, (_, due, _) in GALLERY.items()})
answer_due = pd.Series({name: due for name, (_, _, due) in GALLERY.items()})
panels = {
    "Format reward": (paid.iloc[:, :3], format_due),
    "Answer reward (gold 12)": (paid.iloc[:, 3:], answer_due),
}
figures.paid_and_due(panels)
plt.show()

# %% [markdown]
# Read it by colour. **Grey** is a right response that is not paid: the model is told to stop doing
# something right. **Orange** is paid though it is not due, and that is the more dangerous of the two:
# whatever is paid by mistake will be found and repeated. The naive reader takes the first box it finds,
# wherever that is. TRL's takes boxes that stand close together as one answer with several parts, so a model
# that changes its mind is never paid; and an equation counts by its right side.
#
# Three lines that can fail: ours pays what is due everywhere, the function by hand agrees with it, and the
# others differ.

# %%
assert (paid.iloc[:, 2] == format_due).all() and (paid.iloc[:, 5] == answer_due).all()
assert all(format_by_hand(text) == due for text, due, _ in GALLERY.values())
for column, due in ((0, format_due), (1, format_due), (3, answer_due), (4, answer_due)):
    wrong = paid.iloc[:, column] != due
    reward = f"{paid.columns[column]} {'format' if column < 3 else 'answer'}"
    print(f"{reward:13} wrong on {wrong.sum()} of {len(due)}")
    assert wrong.any()

# %% [markdown]
# One more kind does not fit the figure. With a prefill, the completion lacks its first tag, and a parser
# that looks at the completion alone calls every response malformed. Whoever switches prefill on during
# training then sees all rewards drop to 0.

# %%
completion = "This question needs step-by-step reasoning.</judge>" + T + A
prefilled = parse_response(completion, prefill="<judge>")
print("naive:", naive_format(completion), "  ours:", format_reward(prefilled))
assert naive_format(completion) == 0
assert format_reward(prefilled) == format_by_hand(completion, prefill="<judge>") == 1

# %% [markdown]
# ## 4. The answer reward
# The box has been found; now, is `12 cm` the same as `0.12 m`? Three readers:
# *string equality*, bare *math-verify* (a good library for what it is made for, mathematics written in
# LaTeX), and ours, `equivalent`, which first asks of what kind an answer is (a word, an option letter, a
# number, a date, a clock time, a ratio, a measure, a set) and hands only what is mathematics to math-verify.

# %%
import math_verify

from sailrl_lite.answers import equivalent


def bare_math_verify(gold, predicted):
    read_gold, read_predicted = (math_verify.parse(f"${text}$") for text in (gold, predicted))
    return int(math_verify.verify(read_gold, read_predicted, timeout_seconds=2))


READERS = {
    "string": lambda gold, predicted: int(gold == predicted),
    "math-verify": bare_math_verify,
    "ours": lambda gold, predicted: int(equivalent(gold, predicted)),
}

# %% [markdown]
# Pairs of gold and prediction, first those that are the same answer, then those that are not:

# %%
SAME = [
    ("47", "4 7"), ("5", "5."), ("30", "30°"), ("-5", "–5"), ("1/3", r"\frac{1}{3}"),
    (r"\sqrt{2}", "√2"), ("12 cm", "0.12 m"), ("12", "12 apples"), ("5", "x=5"), ("yes", "Yes."),
    ("C", "C. 12 cm"),
]  # fmt: skip
DIFFERENT = [
    ("blue", "lbue"), ("AC", "CA"), ("7", "8=7"), ("12 cm", "12 m"), ("12:30", "24:60"),
    ("2019-05-03", "2019-03-05"), ("0.0000001", "0.0000002"), (r"\{1,2\}", "(1,2)"), ("5", "5 or 6"),
]  # fmt: skip

# %%
pairs = SAME + DIFFERENT
names = [f"{gold}   vs   {predicted}" for gold, predicted in pairs]
equal = pd.DataFrame([[read(*pair) for read in READERS.values()] for pair in pairs], names, list(READERS))
due = pd.Series([1] * len(SAME) + [0] * len(DIFFERENT), names)
figures.paid_and_due({"Gold answer vs prediction: the same?": (equal, due)})
plt.show()
assert (equal["ours"] == due).all()
assert (equal["string"][due == 0] == 0).all()  # string equality never pays what is not due ...
assert (equal["math-verify"] > due).sum() >= 5  # ... and mathematics alone does

# %% [markdown]
# Why does mathematics find `blue` equal to `lbue`? It reads a product of four letters, and products
# commute. `8=7` is an equation whose right side is 7. And 12:30 is a division. None of this is a fault of
# a library that was asked about mathematics; it is a fault of asking about mathematics first.
#
# The last kind is not wrong but *slow*: a tower of powers that no computer can work out. A reward must come
# back in time, from any thread, or the whole training stands still. Ours asks math-verify in a process of
# its own and stops it after two seconds. math-verify's own time limit works in the main thread only:

# %%
import threading
import time

equivalent("2", r"\sqrt{4}")  # start the process that does the mathematics
start = time.perf_counter()
result = equivalent("2", "9^{9^{9^{9}}}")
seconds = time.perf_counter() - start
print(f"ours: {result} after {'less than 5' if seconds < 5 else round(seconds)} seconds")
assert result is False and seconds < 5

# %%
outcome = {}


def in_a_thread(name, read):
    try:
        outcome[name] = read("1/2", r"\frac{1}{2}")
    except Exception as error:
        outcome[name] = f"{type(error).__name__}"


for name in ("math-verify", "ours"):
    thread = threading.Thread(target=in_a_thread, args=(name, READERS[name]))
    thread.start()
    thread.join()
print("in a thread:", outcome)
assert outcome["ours"] == 1 and outcome["math-verify"] != 1

# %% [markdown]
# A reward function that catches this exception and returns 0 trains on nothing but zeros, without a word.

# %% [markdown]
# ## 5. What a wrong answer reward costs
# Let a reader miss a right answer with probability $e_-$ and pay a wrong one with probability $e_+$. Then
#
# $$E[r \mid right] - E[r \mid wrong] = (1 - e_-) - e_+$$
#
# So errors *at random* shrink the signal by the factor $1 - e_- - e_+$. With 10% of each it is 0.8: a slower
# training, not a wrong one. But they do a second thing. Training looks at a group of $n$ rollouts of one
# prompt; the *advantage* of each is its reward minus the mean of the group, and a group without any spread is
# dropped (notebook 00). If all $n$ are right, nothing is to be learnt; yet some are missed, and now the group
# has a spread:
#
# $$P(\text{false spread}) = 1 - (1-e_-)^n - e_-^n$$


# %%
def signal(miss, pay):
    return 1 - miss - pay


def false_spread(miss, n=5):
    return 1 - (1 - miss) ** n - miss**n


print(
    f"10% missed: signal x {signal(0.1, 0):.2f}, false spread in {false_spread(0.1):.0%} of all-right groups"
)

# %% [markdown]
# A simulation with the package's own advantages, to see that both formulas hold:

# %%
import torch

from sailrl_lite.training.dapo import group_advantages, has_spread


def simulate(accuracy, miss, pay, groups=20_000, n=5):
    """(groups, n) true correctness and the reward that a reader with these errors pays."""
    rng = np.random.default_rng(SEED)
    right = rng.random((groups, n)) < accuracy
    flipped = rng.random((groups, n)) < np.where(right, miss, pay)
    return torch.tensor(right), torch.tensor((right ^ flipped).astype(np.float32))


# %%
right, paid_clean = simulate(0.6, 0, 0)
_, paid_noisy = simulate(0.6, 0.2, 0.1)
gaps = [float(a[right].mean() - a[~right].mean()) for a in map(group_advantages, (paid_clean, paid_noisy))]
print(f"gap of the mean advantages: {gaps[0]:.3f} without errors, {gaps[1]:.3f} with them", end="; ")
print(f"ratio {gaps[1] / gaps[0]:.2f}")
assert abs(gaps[1] / gaps[0] - signal(0.2, 0.1)) < 0.02
_, all_right = simulate(1.0, 0.1, 0)
assert abs(float(has_spread(all_right).float().mean()) - false_spread(0.1)) < 0.02

# %% [markdown]
# Real misses are not at random: they depend on *how an answer is written*. So take real rollouts, five
# responses of the shipped policy to each of 260 test problems. It was taught one spelling, which larger
# models were not; so every second answer is rewritten in one of the ways in which they do it. Nothing
# becomes right or wrong by this.

# %%
from sailrl_lite.config import SHIPPED
from sailrl_lite.study.evaluation import unseen_problems
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rollout import respond

policy, processor = load_checkpoint(SHIPPED)
problems = unseen_problems(per_family=20)
questions, images = [p.question for p in problems], [p.image for p in problems]
fives = respond(policy, processor, questions, images, n=5, temperature=1.0, seed=SEED)
texts = [text for five in fives for text in five]
print(len(texts), "rollouts, the first:", texts[0], sep="\n")
assert all(format_by_hand(text) == format_reward(parse_response(text)) for text in texts)

# %%
STYLES = ["{}.", r"\text{{{}}}", "The answer is {}", "{} ", "x = {}"]
NUMBER_STYLES = [*STYLES, "{}.0", r"{}^\circ"]
WORD_STYLES = ["{}.", r"\text{{{}}}", "The answer is {}", "It is {}."]
dice = random.Random(SEED)


def respell(answer):
    """The same answer, every second time in another spelling."""
    if answer is None or dice.random() < 0.5:
        return answer
    return dice.choice(NUMBER_STYLES if answer.isdigit() else WORD_STYLES).format(answer)


# %%
said = [[parse_response(text).answer for text in five] for five in fives]
truth = torch.tensor([[float(a == p.gold) for a in five] for p, five in zip(problems, said, strict=True)])
written = [[respell(answer) for answer in five] for five in said]
measured = {}
for name, read in READERS.items():
    rewards = [[read(p.gold, a) if a else 0 for a in five] for p, five in zip(problems, written, strict=True)]
    measured[name] = torch.tensor(rewards, dtype=torch.float32)
assert torch.equal(measured["ours"], truth)

# %% [markdown]
# `truth` is string equality *before* the rewriting, which is safe here: a micro-world gold has one spelling,
# and the policy knows it. Now the consequences, for each reader.


# %%
def harm(rewards):
    true_advantage, advantage = group_advantages(truth), group_advantages(rewards)
    kept = has_spread(rewards)
    wrong_way = (advantage[kept] * true_advantage[kept] < 0) | (true_advantage[kept] == 0)
    return {
        "right answers that are not paid": float((rewards[truth == 1] == 0).float().mean()),
        "wrong answers that are paid": float((rewards[truth == 0] == 1).float().mean()),
        "kept groups in which nothing differs": float((~has_spread(truth))[kept].float().mean()),
        "rollouts pushed without or against reason": float(wrong_way.float().mean()),
    }


damage = pd.DataFrame({name: harm(rewards) for name, rewards in measured.items()})
display(damage.round(3))
assert (damage["ours"] == 0).all() and (damage.loc["right answers that are not paid", "string"] > 0.3)

# %%
figures.use_style()
figure, axis = plt.subplots(figsize=(7, 2.6))
damage.plot.barh(ax=axis, width=0.75, xlim=(0, 1), color=["0.6", figures.BEFORE, figures.AFTER])
for bars in axis.containers:
    axis.bar_label(bars, fmt=lambda share: f" {share:.0%}", fontsize=9)
axis.invert_yaxis()
axis.set(title="What a reader of answers does to training", xlabel="share")
axis.legend(loc="lower right")
axis.grid(axis="y", visible=False)
plt.show()

# %% [markdown]
# The figure depends on our choice to rewrite every second answer, so do not carry its numbers away. What
# carries over is the last bar: a reader that misses a spelling does not only miss it. It *teaches* the model
# to write as the reader likes, and spends most of the batch on that.
#
# ## 6. Paid without looking
# Misses slow training down; payments that are not due are worse, since a policy climbs towards them. Here
# are three ways of reading an answer: any box may be right, the gold may stand anywhere in the answer
# block, or only the last box counts (ours). And a "policy" that never sees the
# picture: it writes down everything that might be the answer.

# %%
from sailrl_lite.world.problems import SHORTCUT_WORDS

everything = [*map(str, range(200)), *SHORTCUT_WORDS]  # all numbers up to 199, all words of the world
blind = {
    "one guess": boxed("7"),
    "every answer in a box of its own": boxed(r"} \boxed{".join(everything)),
    "every answer in one box": boxed(", ".join(everything)),
}
payers = {
    "any box": lambda text, gold: gold in re.findall(r"\\boxed{(.*?)}", text),
    "gold anywhere": lambda text, gold: gold in text.split("<answer>")[1],
    "the last box (ours)": lambda text, gold: answer_reward(parse_response(text), gold),
}

# %%
table = pd.DataFrame(
    {
        payer: [np.mean([pays(THINK + T + block, p.gold) for p in problems]) for block in blind.values()]
        for payer, pays in payers.items()
    },
    list(blind),
)
display(table.round(2))
assert table["any box"].max() == table["gold anywhere"].max() == 1
assert table["the last box (ours)"].max() < 0.1

# %% [markdown]
# A perfect score without eyes. (The 4% are luck: the last word of the list is "yes".)
#
# Would a policy find this? Take one with three habits: it answers plainly, or in another spelling (each with
# the accuracy 0.5 that its eyes allow), or, in two of a hundred responses, it lists everything. Habit $k$ has
# probability $p_k$, a softmax of logits, and earns $r_k$ on average. The gradient of the mean reward
# $\bar r = \sum_k p_k r_k$ by logit $k$ is
#
# $$\partial \bar r / \partial l_k = p_k \, (r_k - \bar r)$$
#
# which is the advantage of the habit, weighted by how often it is tried. Follow it for each payer:


# %%
def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


def gradient(logits, earns):
    p = softmax(logits)
    return p * (earns - p @ earns)


start, habits = np.log([0.49, 0.49, 0.02]), ["plain", "another spelling", "list everything"]
EARNS = {"string equality": [0.5, 0, 0], "any box": [0.5, 0.5, 1], "ours": [0.5, 0.5, 0]}
earns, step = np.array(EARNS["any box"]), 1e-6 * np.eye(3)
numeric = [(softmax(start + d) @ earns - softmax(start - d) @ earns) / 2e-6 for d in step]
assert np.allclose(numeric, gradient(start, earns))

# %%
figures.use_style()
figure, axes = plt.subplots(1, 3, figsize=(8, 2.6), sharey=True)
end = {}
for axis, (payer, earns) in zip(axes, EARNS.items(), strict=True):
    logits, path = start.copy(), []
    for _ in range(150):
        path.append(softmax(logits))
        logits += gradient(logits, np.array(earns))
    for habit, line in zip(habits, np.transpose(path), strict=True):
        axis.plot(line, "--" if habit == "another spelling" else "-", lw=2, label=habit)
    axis.set(title=f"Paid by {payer}", xlabel="update", ylim=(0, 1.02))
    end[payer] = path[-1]
axes[0].set_ylabel("probability of the habit")
axes[0].legend(loc="center right", fontsize=8)
plt.show()
assert end["any box"][2] > 0.9 and end["string equality"][0] > 0.9 and end["ours"][2] < 0.02

# %% [markdown]
# String equality unteaches a spelling. Any box teaches the list, from 2% to nearly always. With ours the
# list fades, and the two spellings stay as they were: they are the same answer.
#
# Rule 5 closes another door. Without it a response may *say* "directly", be paid for a right judgment where
# no thinking is needed, and think all the same, so that the judgment means nothing:

# %%
glance = make_problem("read_number", seed=3)
two_faced = DIRECT + f"<think>number={glance.gold}</think>" + boxed(glance.gold)
_, c = grade(glance, two_faced)
print(f"judging {c.judging}, answer {c.answer}, thinking {c.thinking:g}, but format {c.format}")
unruled = 0.9 * c.judging * c.thinking * c.answer + 0.1
print(f"paid: {REWARDS['cascade'](c):g}; without rule 5 it would be {unruled:g}")
assert REWARDS["cascade"](c) == 0 and c.judging == c.answer == 1

# %% [markdown]
# ## 7. What the format term is for
# The total reward of the paper (section 3.4.4) is $R = \alpha \cdot content + (1-\alpha) \, R_{format}$ with
# $\alpha = 0.9$, and here a malformed response has no content. So a rollout earns one of three sums: 0 if it
# is malformed, $1-\alpha$ if it is only well formed, and 1 if the content is right as well (take content as 0
# or 1 for now). Early in training the content is nearly always 0. This is the **cold start**: a group where
# all rewards are equal is dropped, and the batch runs dry.
#
# Let $f$ be the share of well-formed responses and $c$ the share of those with content. A group of $n$ is
# useful unless all its rollouts fall on the same sum:
#
# $$P_{kept} = 1 - (1-f)^n - (f(1-c))^n - (fc)^n$$
#
# and without the format term, where the first two sums are both 0, $1 - (1-fc)^n - (fc)^n$.


# %%
def kept(f, c, n=5, format_term=True):
    without_content = (1 - f) ** n + (f * (1 - c)) ** n if format_term else (1 - f * c) ** n
    return 1 - without_content - (f * c) ** n


def simulate_kept(f, c, alpha, n=5, groups=20_000):
    rng = np.random.default_rng(SEED)
    well_formed = rng.random((groups, n)) < f
    content = well_formed & (rng.random((groups, n)) < c)
    rewards = alpha * content + (1 - alpha) * well_formed
    return has_spread(torch.tensor(rewards)).float().mean().item()


for f, c in ((0.5, 0.01), (0.9, 0.1), (1.0, 0.1)):
    assert abs(kept(f, c) - simulate_kept(f, c, alpha=0.9)) < 0.01
    assert abs(kept(f, c, format_term=False) - simulate_kept(f, c, alpha=1.0)) < 0.01
print(f"f = 0.5, c = 0.01, groups kept: {kept(0.5, 0.01):.0%} with the format term", end=", ")
print(f"{kept(0.5, 0.01, format_term=False):.0%} without")

# %% [markdown]
# Turn the knobs: the share $f$, and $\alpha$. Only the right panel knows $\alpha$: it decides how much a
# form is worth beside its content, not whether a group is kept. (Sliders appear in a running notebook; the
# figure below shows their default state.)


# %%
def draw(f, alpha):
    figures.use_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8))
    c = np.geomspace(0.001, 1, 200)
    left.semilogx(c, kept(f, c), label="with the format term", color=figures.AFTER, lw=2)
    left.semilogx(c, kept(f, c, format_term=False), label="content alone", color=figures.BEFORE, lw=2)
    left.set(title=f"Groups of five that are kept, f = {f:g}", xlabel="c, share with content", ylim=(0, 1.02))
    left.legend()
    sums, names = np.array([0, 1 - alpha, 1]), ["malformed", "well formed", "with content"]
    for offset, share, shade in ((-0.2, 0.01, "0.7"), (0.2, 0.3, figures.AFTER)):
        mean = f * (1 - alpha + alpha * share)
        right.bar(np.arange(3) + offset, sums - mean, 0.38, color=shade, label=f"c = {share:g}")
    right.set_xticks(range(3), names)
    right.set(title=rf"Reward minus its mean, $\alpha$ = {alpha:g}", ylim=(-0.6, 1.05))
    right.legend()
    return figure


figures.knobs(draw, f=(0.5, 0.05, 1.0, 0.05), alpha=(0.9, 0.5, 0.95, 0.05))

# %% [markdown]
# Two limits are worth a thought. If $f = 0$ the term is 0 as well: it cannot teach a format that is never
# written, which is why SFT comes first. And if $f = 1$ it is the same constant for every rollout, which the
# group mean takes away. It only works in between. Where is the policy that we ship?

# %%
graded = [[grade(p, text)[1] for text in five] for p, five in zip(problems, fives, strict=True)]
share = np.mean([c.format for five in graded for c in five])
alone = get_reward("cascade", alpha=1.0)
with_term = has_spread(torch.tensor([[REWARDS["cascade"](c) for c in five] for five in graded]))
content_only = has_spread(torch.tensor([[alone(c) for c in five] for five in graded]))
print(f"well formed: {share:.3f}; groups kept by content alone: {content_only.float().mean():.3f}", end="; ")
print(f"with the format term: {with_term.float().mean():.3f}")
assert share > 0.98 and (with_term | ~content_only).all()

# %% [markdown]
# At its start, RL on this policy has no cold start in the format: SFT has taught it, and the term adds
# next to nothing. It would matter for a model that comes to RL with fewer lessons. No table of the paper
# varies $\alpha$, so how much it matters there is an open question.
#
# ## 8. Your own response
# Edit the text, the gold, or both.

# %%
my_gold = "3/4"
my_text = THINK + "<think>Three of the four circles are red.</think>" + boxed(r"\frac{6}{8}")

mine = parse_response(my_text)
print("problems:", mine.problems or "none", "\nanswer:", mine.answer)
print(
    "paid by string equality:",
    int(naive_answer(my_text) == my_gold),
    " by TRL:",
    trl_answer(my_text, my_gold),
    end="",
)
print("  by ours:", answer_reward(mine, my_gold))

# %% [markdown]
# ## 9. Exercises
# **Exercise 1 (easy).** Under $R = 0.9 \, R_{answer} + 0.1 \, R_{format}$ with the rules above, what is paid
# for a well-formed response with a wrong answer, and for a malformed response with a right one?

# %%
well_formed_but_wrong = None
right_but_malformed = None


# %%
def check_1(wrong, malformed):
    if wrong is None or malformed is None:
        return "Not yet: put a number in the place of each None."
    if abs(wrong - 0.1) > 1e-9:
        return "Not yet: with a wrong answer the first term is 0. What is left of the second?"
    if malformed != 0:
        return "Not yet: a malformed response earns no content reward, and no format reward either."
    return "Right. So a model learns the form first, and cannot buy itself out of it with right answers."


print(check_1(well_formed_but_wrong, right_but_malformed))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# well_formed_but_wrong = 0.9 * 0 + 0.1 * 1
# right_but_malformed = 0
# ```
# </details>
#
# **Exercise 2 (medium).** Mend `naive_answer`: return the answer as rule 6 reads it, for every response of
# the gallery that has one answer block, and None where there is none.


# %%
def my_answer(text):
    found = re.search(r"\\boxed{(.*?)}", text)
    return found.group(1) if found else None


# %%
def check_2(read):
    for name, (text, _, _) in GALLERY.items():
        due = parse_response(text).answer
        if name != "two answer blocks" and (found := read(text)) != due:
            return f"Not yet: {name!r} gives {found!r} instead of {due!r}.\n  {text}"
    return "Right. All of the gallery is read by rule 6."


print(check_2(my_answer))

# %% [markdown]
# <details><summary>Hint</summary>
#
# Cut out the answer block first. Then `last_box` of section 2 does the rest, unless there is no box at all.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def my_answer(text):
#     block = re.search("<answer>(.*?)</answer>", text, re.DOTALL)
#     if block is None or r"\boxed{" not in block.group(1):
#         return None
#     return last_box(block.group(1))
# ```
# </details>
#
# **Exercise 3 (hard).** Think like a policy that is paid by the wrong reader. The gold is 12. Write *one*
# response that is well formed by our rules, whose answer ours calls wrong, and that both the naive pair and
# TRL's `accuracy_reward` pay as right.

# %%
my_exploit = THINK + T + A


# %%
def check_3(text):
    ours = parse_response(text)
    if not ours.well_formed:
        return "Not yet: it is malformed: " + "; ".join(ours.problems)
    if answer_reward(ours, "12"):
        return "Not yet: this answer is right, and ours pays it too."
    if naive_answer(text) != "12":
        return f"Not yet: the naive reader, which takes the first box of all, reads {naive_answer(text)!r}."
    if trl_answer(text, "12") != 1:
        return "Not yet: TRL does not pay it. What does math-verify do with an equation?"
    return "Right. Two readers fooled by one response; a policy needs many tries for this, and it has them."


print(check_3(my_exploit))

# %% [markdown]
# <details><summary>Hint</summary>
#
# The naive reader can be served in the trace. For TRL look at the row "a false equation" of the gallery.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_exploit = THINK + r"<think>7+5=\boxed{12}</think>" + boxed("13=12")
# ```
# </details>
#
# ## Where to go next
# - `sailrl_lite.answers.equivalent` and `parse_response` can be used alone, without torch, in a training of
#   your own; `sailrl-lite score completions.jsonl` does the same for a file.
# - The judgment and its reward are the subject of notebook 05.
