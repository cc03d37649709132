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
# # Data curation: from a pile of questions to data that teaches
#
# Before any training there is a pile of picture questions from many sources, and the pile is dirty. Pictures
# lie on their side, questions carry orders from somebody else's prompt, golds contradict each other. The
# paper makes two sets from such piles: **400,000** annotated responses for SFT (section 3.4.1) and **70,000**
# problems for RL, 50,000 of STEM and 20,000 general (section 3.4.5). It names the steps and few of their
# settings, so the thresholds below are ours, and said to be.
#
# **At the end you will know**
# - what each step takes out or mends, and how to ask a row what was done to it;
# - which multiple-choice questions can be asked without their options, and which cannot;
# - what "pass@4" means in the paper, why it is not the usual pass@k, and how rough a measure it is;
# - how to look for test questions in training data, and which likenesses are none;
# - how to run all of it on a file of your own.
#
# **Time:** about a minute on two CPU cores to run, half an hour to read.
#
# **Rung:** the same on each: curation needs no GPU, and the tries of its pass rates are the micro policy's.

# %%
RUNG = "preview"  # the rung of the ladder: preview, single-gpu, node or paper
SEED = 0

import io
import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from matplotlib import pyplot as plt
from PIL import Image

from sailrl_lite import figures, parse_response
from sailrl_lite.config import SHIPPED
from sailrl_lite.curation import figures as curation_figures
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.schema import Row
from sailrl_lite.rungs import read_rung

read_rung(RUNG)
WORK = Path(tempfile.mkdtemp())  # all files of this notebook

# %% [markdown]
# ## 1. Clean rows, to begin with
# A **row** is one question about one picture, with its gold answer. Here are ten as the micro-world makes
# them. Nothing is wrong with them, and that is the trouble: to see curation work, we shall have to make some
# dirty ourselves.

# %%
clean = list(read_micro(13))  # one of each family
curation_figures.sample(clean[:10])
plt.show()

# %% [markdown]
# Each step is a small function from a row to a row, or to a `Drop` that says why the row goes. A row never
# changes in place: `with_change` makes a new one and writes down who changed which field. This list is its
# **provenance**.

# %%
row = clean[0]
changed = row.with_change("my step", "to try it out", question="Read it!")
print(row.question, "->", changed.question)
print(changed.provenance)
assert row.provenance == () and len(changed.provenance) == 1
assert row.with_change("my step", question=row.question) is row  # nothing changed, nothing written down


# %%
def show(step, *rows):
    """What a step does to some rows: the change of each field, or the reason why the row goes."""
    for row in rows:
        result = step(row)
        if isinstance(result, Drop):
            print(f"{row.id:14} DROPPED  {result.reason}: {result.detail.split(' <')[0]}")
            continue
        new = result.provenance[len(row.provenance) :]
        print(f"{row.id:14} " + ("; ".join(f"{c.field}: {c.note}" for c in new) or "as it was"))


# %% [markdown]
# ## 2. Pictures
# A photo taken with a phone on its side is stored on its side, with a note in its header (EXIF) that says how
# to turn it. A drawing may be transparent. Files are cut short, or a pixel high. What does a model get to see
# if nobody looks? We spoil some pictures in ways that real sets have:


# %%
def saved(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


photo, drawing = (Image.open(io.BytesIO(clean[k].image)) for k in (0, 9))
exif = Image.Exif()
exif[0x0112] = 6  # "turn me a quarter to the right"
alpha = np.asarray(drawing.convert("L")) < 250  # white becomes see-through, with black beneath it
see_through = np.dstack([np.asarray(drawing) * alpha[..., None], alpha * 255]).astype(np.uint8)
noise = np.random.default_rng(SEED).integers(0, 256, (300, 600, 3), dtype=np.uint8)

# %%
files = {
    "rotated": saved(photo.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif, quality=95),
    "transparent": saved(Image.fromarray(see_through)),
    "5,000 wide": saved(photo.resize((5000, 2500))),
    "cut short": saved(Image.fromarray(noise), "JPEG")[:9000],
    "1 x 3000": saved(Image.new("RGB", (1, 3000), "red")),
    "a web page": b"<html>404 Not Found</html>",
}

# %%
from sailrl_lite.curation.images import clean_image, safe_image

dirty_pictures = [replace(clean[0], id=name, image=data) for name, data in files.items()]
show(clean_image, *dirty_pictures)
assert isinstance(safe_image(files["1 x 3000"]), Drop) and isinstance(safe_image(files["a web page"]), Drop)
assert safe_image(clean[0].image) is clean[0].image  # a good file comes back as it is, byte for byte

# %% [markdown]
# `before` is what `Image.open(...).convert("RGB")` gives, which is what most training code does.

# %%
figures.use_style()
figure, axes = plt.subplots(2, 3, figsize=(9, 4.6))
for name, (above, below) in zip(("rotated", "transparent", "5,000 wide"), axes.T, strict=True):
    before, after = (Image.open(io.BytesIO(x)).convert("RGB") for x in (files[name], safe_image(files[name])))
    for axis, picture, when in ((above, before, "before"), (below, after, "after")):
        axis.imshow(picture.resize((160, 160 * picture.height // picture.width)))
        axis.set_title(f"{name}, {when}: {picture.width} x {picture.height}", fontsize=10)
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
plt.show()

# %% [markdown]
# The rotated number could hardly be read, and of the transparent drawing, black lines on what became black,
# next to nothing is left. Worse than losing such rows is keeping them: they teach a model to answer without
# looking.
#
# ## 3. Questions
# Here are questions as public sources have them. The first six carry something that fights our response
# format or gives the answer away; in the last four it only *looks* so.

# %%
DIRTY = [
    "<image>\nUSER: How many stars are there? Answer the question using a single word or phrase.",
    "You are a helpful assistant. What is the sum of the two numbers?",
    "Hint: Please answer the question requiring an integer answer and provide the final value, e.g., 1, 2, "
    "3, at the end.\nQuestion: What is the sum of the two numbers?",
    "What is the sum of the two numbers? Answer: 73",
    "What is the missing angle?\n### Solution\n45",
    "Let's think step by step. What is the missing angle? Put your answer in \\boxed{}.",
]
HARMLESS = [
    "Which number is the answer to the riddle in the picture?",
    "Which hint is written in red?",
    "What does the user of the left computer see?",
    "Is 3 < 5 the system shown?",
]

# %% [markdown]
# Three regular expressions go a long way, and then too far:


# %%
def clean_naively(text):
    text = re.sub(r"<image>|USER:|Question:|You are [^.]*\.", "", text)
    text = re.sub(r"(?i)hint.*?\n|answer.*|### solution.*", "", text, flags=re.DOTALL)
    return re.sub(r"(?i)let's think step by step\.|put your answer.*", "", text).strip()


from sailrl_lite.curation.clean import clean_question

table = [[q, clean_naively(q), *clean_question(q)] for q in DIRTY + HARMLESS]
table = pd.DataFrame(table, columns=["question", "three expressions", "the package", "what it found"])
with pd.option_context("display.max_colwidth", 130):
    display(table)
assert [clean_question(q)[0] for q in HARMLESS] == HARMLESS
assert clean_naively(HARMLESS[0]) != HARMLESS[0]  # it cut a question in two

# %% [markdown]
# The package takes a thing out only where it stands alone, as a sentence or a line of its own, and leaves
# whatever asks something. Two properties can be tested on any text. Cleaning twice is cleaning once; and
# what is clean stays as it is.

# %%
from sailrl_lite.curation.clean import clean_gold, clean_text

for question in DIRTY + HARMLESS:
    once = clean_question(question)[0]
    assert clean_question(once) == (once, [])
micro = list(read_micro(13 * 20))
assert all(clean_text(row) is row for row in micro)
show(clean_text, *(replace(clean[0], id=f"question {k}", question=q) for k, q in enumerate(DIRTY[:3], 1)))

# %% [markdown]
# **Golds** come wrapped, too, and some are no answers at all: no prediction could equal them, so every
# rollout would fail for ever.

# %%
golds = [r"\boxed{73}", "The answer is $73$.", "**73**", "3 or 4", "???", "1/0", "see solution"]
show(clean_gold, *(replace(clean[0], id=gold, gold=gold) for gold in golds))
unwrapped = [clean_gold(replace(clean[0], gold=gold)) for gold in golds]
assert [row.gold for row in unwrapped[:3]] == ["73"] * 3
assert all(isinstance(row, Drop) for row in unwrapped[3:6])

# %% [markdown]
# Mind the last line. "see solution" is a gold that no model will ever write, and the step lets it pass: to
# a program it is a phrase like any other. The pass rate of section 7 catches it, since nobody ever gets it
# right.
#
# ## 4. Multiple choice, opened
# For RL the paper turns multiple choice into open questions, so that a model must produce the answer and
# cannot guess a letter. For some questions that is easy. Others fall apart without their options:

# %%
from sailrl_lite.curation.choices import to_open
from sailrl_lite.curation.options import list_options


def choice(question, options, gold):
    whole = list_options(question, options)
    return replace(clean[8], id=question[:40], question=whole, options=tuple(options), gold=gold)


CHOICES = [
    choice("What is the missing angle?", ["40", "45", "50"], "B"),
    choice("Is there a red star?", ["yes", "no"], "B"),
    choice("What color is the star?", ["red", "blue", "none of these"], "A"),
    choice("Which of the following is in the picture?", ["star", "circle"], "A"),
    choice("Which statement is true?", ["AB = BC", "AB > BC"], "B"),
    choice("Which colors are there?", ["red", "blue", "A and B"], "C"),
    choice("What color is the star now?", ["red", "blue", "none of these"], "C"),
    choice("How many stars are there?", ["3", "three", "4"], "A"),
    choice("Which figure comes next?", ["Figure A", "Figure B"], "A"),
]

# %%
table = []
for row in CHOICES:
    opened = to_open(row)
    now = f"{opened.question}  [{opened.gold}]" if isinstance(opened, Row) else "dropped"
    why = "" if isinstance(opened, Row) else f"{opened.reason}: {opened.detail}"
    table.append([row.question.replace("\n", "  "), row.gold, now, why])
with pd.option_context("display.max_colwidth", 100):
    display(pd.DataFrame(table, columns=["question", "gold", "opened", "why not"]))
assert [isinstance(to_open(row), Row) for row in CHOICES] == [True] * 3 + [False] * 6

# %% [markdown]
# The rules are cautious. A good row lost costs a row; a question that nobody can answer costs five rollouts
# each time it is drawn.
#
# ## 5. Duplicates
# The same picture comes back as another file, compressed, or a little smaller, and then no two bytes agree.
# A **perceptual hash** keeps what survives this: shrink the picture to 64 x 64 grey pixels, take the cosine
# transform, and note which of the 256 lowest frequencies are stronger than their median.

# %%
from scipy.fft import dctn

from sailrl_lite.curation.images import hamming, perceptual_hash


def hash_by_hand(image):
    grey = Image.open(io.BytesIO(image)).convert("L").resize((64, 64), Image.Resampling.LANCZOS)
    low = dctn(np.asarray(grey, float), norm="ortho")[:16, :16].ravel()
    bits = low > np.median(low[1:])  # the first is the mean brightness
    return int("".join("1" if bit else "0" for bit in bits), 2)


differs = [hamming(hash_by_hand(row.image), perceptual_hash(row.image)) for row in micro]
print("bits of 256 in which the two differ, over", len(micro), "pictures: at most", max(differs))
assert max(differs) <= 2  # frequencies right at the median may fall on either side

# %% [markdown]
# How far do copies move, and how far apart are pictures that only look alike? Distances in bits, with the
# threshold of the package:

# %%
from sailrl_lite.curation.duplicates import NEAR

angles = list(read_micro(60, ["angle"]))
pictures = [Image.open(io.BytesIO(row.image)) for row in angles]
hashes = [perceptual_hash(row.image) for row in angles]
moved = {
    "JPEG, quality 75": [saved(picture, "JPEG", quality=75) for picture in pictures],
    "JPEG, quality 50": [saved(picture, "JPEG", quality=50) for picture in pictures],
    "a tenth smaller": [saved(p.resize((p.width * 9 // 10, p.height * 9 // 10))) for p in pictures],
}
distance = {
    name: [hamming(h, perceptual_hash(d)) for h, d in zip(hashes, data, strict=True)]
    for name, data in moved.items()
}
distance["another triangle"] = [min(hamming(h, o) for o in hashes if o != h) for h in hashes]

# %%
figure, axis = plt.subplots(figsize=(8, 2.8))
jitter = np.random.default_rng(SEED).uniform(-0.25, 0.25, len(angles))
for place, (name, values) in enumerate(distance.items()):
    color = figures.AFTER if name == "another triangle" else figures.BEFORE
    axis.scatter(values, place + jitter, s=14, alpha=0.6, color=color)
axis.axvline(NEAR + 0.5, color="0.3", ls="--")
axis.text(NEAR + 1.2, -0.45, f"threshold: {NEAR} bits", fontsize=9, va="center")
axis.set(xlabel="bits of 256 that differ", ylim=(len(distance) - 0.5, -0.7))
axis.set_yticks(range(len(distance)), list(distance))
axis.grid(axis="y", visible=False)
axis.set_title("Copies of 60 triangles, and for each the nearest other triangle", loc="left")
plt.show()
print({name: f"{np.mean(np.array(values) <= NEAR):.0%} within" for name, values in distance.items()})
assert np.mean(np.array(distance["a tenth smaller"]) <= NEAR) > 0.8
assert np.mean(np.array(distance["another triangle"]) <= NEAR) < 0.1

# %% [markdown]
# No threshold is free of error; this one is on the side of keeping rows, and after a hard compression it
# misses nearly half of the copies. Being near is not enough, either:
# the question must be the same, and the golds must be *equivalent*. So:
#
# | question | picture | golds | what happens |
# |---|---|---|---|
# | same | same pixels | equivalent | the later row goes |
# | same | same pixels | different | **both** go: one is wrong, and we cannot know which |
# | same | nearly the same | equivalent | the later row goes |
# | same | nearly the same | different | both stay: what differs may be what is asked |

# %%
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates

angle, other = angles[0], angles[1]
smaller, compressed = moved["a tenth smaller"][0], moved["JPEG, quality 75"][0]
copies = [
    angle, replace(angle, id="same again", question=angle.question.upper(), gold=f"{angle.gold}.0"),
    replace(angle, id="smaller", image=smaller),
    replace(angle, id="compressed, gold 1", image=compressed, gold="1"),
    other, replace(other, id="other gold", gold="7"),
]  # fmt: skip
table = pd.DataFrame([duplicate_key(row) for row in copies], [row.id for row in copies])
found = find_duplicates(table)
for name in table.index:
    print(f"{name:20}", found[name].detail if name in found else "stays")
assert set(found) == {"same again", "smaller", other.id, "other gold"}

# %% [markdown]
# ## 6. Labels, traces, filters: the SFT set
# A row needs a **label**: must one think? Where its source does not say, `label_by_kind` goes by the kind of
# the question and `label_by_form` by its words ("how many more", "missing", two numbers ...). How good is
# the second? The micro-world knows the truth:

# %%
from sailrl_lite.curation.quality import label_by_form

unlabelled = [replace(row, needs_thinking=None) for row in micro]
guess = pd.DataFrame(
    {"kind": row.kind, "true": row.needs_thinking, "form": label_by_form(bare).needs_thinking}
    for row, bare in zip(micro, unlabelled, strict=True)
)
right = guess["true"] == guess["form"]
print(right.groupby(guess["kind"]).mean().round(2).to_dict())
assert right.mean() > 0.8

# %% [markdown]
# (Our questions come from a few templates, so this flatters the rule. It says that the rule reads words, not
# that it would do as well on yours.)
#
# Then a **teacher** annotates. A row that needs no thinking gets the canonical judgment and a *blank* trace;
# one that does gets a trace from the teacher. The micro-world's teacher errs at known rates, like a language
# model that is used as one.

# %%
from sailrl_lite.curation.annotate import MicroTeacher, annotate
from sailrl_lite.world.teacher import Noise

teacher = MicroTeacher(Noise(), seed=SEED)
annotated = annotate(micro, teacher)
for k in (0, 8):
    print(annotated[k].response, "\n")
assert all(parse_response(row.response).well_formed for row in annotated)

# %% [markdown]
# Two filters look at each trace. **Agreement**: the teacher's answer must be equivalent to the gold.
# **Redundancy**: of the different words of a trace, which share stands in question or answer already? A
# trace that only restates has nothing to teach. (The paper compares thought and answer; we count the words of
# the question, too.) By hand, numbers and signs are words, and words that every trace has do not count:

# %%
from sailrl_lite.curation.quality import agrees, overlap, substantial

FILLERS = {"the", "of", "and", "answer", "is", "so", "therefore", "question"}


def overlap_by_hand(trace, question, answer):
    words, known = (
        set(re.findall(r"[a-z]+|\d+|[-+*/]", text.lower())) for text in (trace, f"{question} {answer}")
    )
    words -= FILLERS
    return len(words & known) / len(words) if words else 1.0


# %%
asked = "What is the sum of the two numbers?"
TRACES = [
    "The answer is 73.",
    "The sum of the two numbers is 73, so 73.",
    "48 and 25: 40+20=60, 8+5=13, 60+13=73",
]
for trace in TRACES:
    assert np.isclose(overlap_by_hand(trace, asked, "73"), overlap(trace, asked, "73"))
    trivial = replace(
        clean[8], id=f"{overlap(trace, asked, '73'):.2f}", question=asked, think=trace, answer="73"
    )
    show(substantial, trivial)

# %%
kept = [row for row in annotated if isinstance(agrees(row), Row)]
lost = Counter(row.kind for row in annotated if isinstance(agrees(row), Drop))
print(f"{len(annotated) - len(kept)} of {len(annotated)} lessons disagree with the gold:", dict(lost))

# %% [markdown]
# What neither filter can see: a trace that is wrong and ends on the right answer all the same. We have the
# exact verifier, so we can count what is left of this kind among the traces that passed.

# %%
from sailrl_lite.curation.readers import problem_of
from sailrl_lite.world.verifier import verify

traces = [row for row in kept if row.think.strip()]
scores = [verify(problem_of(row), row.think, row.answer).scores() for row in traces]
flawed = np.mean([(s.logic, s.grounding, s.consistency) != (1, 1, 1) for s in scores])
print(f"{len(traces)} traces end on the gold; {flawed:.0%} of them have a flaw all the same")
assert 0.1 < flawed < 0.6

# %% [markdown]
# That is the paper's case for a *thinking* reward in one number: data filtered by answers still teach bad
# reasoning. (How large the number is, is the doing of our teacher, whose error rates we set.)
#
# ### The whole pipeline
# `sft_steps` lists the steps in the order of the paper, ending with **length balancing** (no bin of trace
# lengths may hold more than twice the median bin) and a train/test split. We give it 780 micro-world rows
# with all the dirty ones of above among them.

# %%
from sailrl_lite.curation.pipeline import run
from sailrl_lite.curation.settings import SFTOptions
from sailrl_lite.curation.sft import sft_steps

dirty = dirty_pictures + copies[1:4] + copies[5:]
dirty += [replace(clean[k], id=f"question {k}", question=q) for k, q in enumerate(DIRTY)]
dirty += [replace(clean[0], id=f"gold {gold}", gold=gold, question=f"What is {gold}?") for gold in golds]
dirty += [
    replace(angles[k], id=f"trivial {k}", think=f"The answer is {angles[k].gold}.", answer=angles[k].gold)
    for k in range(20, 24)
]
pile = dirty + list(read_micro(780))
file = WORK / "sft.parquet"
tally = run(pile, sft_steps(SFTOptions(), teacher), file, WORK, bar=False)
curation_figures.funnel(tally.counts)
plt.show()
assert tally.counts["read"].rows == len(pile) and tally.counts["annotate"].changed > 500

# %% [markdown]
# Agreement takes the most: the teacher's slips, misreadings and swapped answers. Redundancy takes traces like
# `purple` about "Which color has the triangle?", which a wrong label made the teacher write. And three dirty
# rows need a trace that nobody can write: the micro-world's teacher knows its own problems by their names
# only.

# %% [markdown]
# **Length balancing** by itself, on the lessons of 780 rows: bins of 1, 2 to 3, 4 to 7, ... words. Direct
# answers are left alone. The median is that of the bins that hold at least one trace in twenty.

# %%
from sailrl_lite.curation.quality import balance_lengths, length_key

lessons = annotate(list(read_micro(780)), teacher)
table = pd.DataFrame([length_key(row) for row in lessons], [row.id for row in lessons])
goes = balance_lengths(table, factor=2)
lengths = table.iloc[:, 0]  # its only column, the number of words
words = lengths[lengths > 0]
bins = np.floor(np.log2(words)).astype(int)
before, after = bins.value_counts().sort_index(), bins.drop(list(goes)).value_counts().sort_index()
most = int(2 * before[before >= len(words) / 20].median())
assert (after == np.minimum(before, most)).all()

# %%
figure, axis = plt.subplots(figsize=(7.5, 2.7))
axis.bar(range(len(before)), before, color=figures.BEFORE, label=f"before: {before.sum()} traces")
axis.bar(range(len(after)), after, color=figures.AFTER, label=f"after: {after.sum()}")
axis.axhline(most, color="0.3", ls="--")
axis.text(len(before) - 0.6, most + 5, f"at most {most}", ha="right", fontsize=9)
axis.set_xticks(range(len(before)), [f"{2**b} to {2 ** (b + 1) - 1}" for b in before.index])
axis.set(xlabel="words of the trace", ylabel="rows", title="Length balancing")
axis.grid(axis="x", visible=False)
axis.legend(loc="upper left")
plt.show()

# %% [markdown]
# And the labels of the rows that came through the whole pipeline:

# %%
from sailrl_lite.curation.survey import survey

curation_figures.label_balance(survey(file).labels)
plt.show()

# %% [markdown]
# Every row that went for the sake of another can be looked at beside it:

# %%
pairs = {}  # one of each reason
for dropped in tally.dropped:
    if dropped.id in tally.pairs and dropped.other in tally.pairs:
        pairs.setdefault(dropped.reason, (dropped, tally.pairs[dropped.id], tally.pairs[dropped.other]))
curation_figures.pairs(list(pairs.values()))
plt.show()
assert set(pairs) == {"conflicting golds", "duplicate", "near duplicate"}

# %% [markdown]
# ## 7. How hard is a problem? The paper's pass@4
# For RL a problem should be neither too easy nor too hard: where all tries earn the same, every advantage is
# zero. So the paper lets the SFT policy try each STEM problem four times and keeps it if
#
# $$0 < \text{pass@4} < 1, \qquad \text{pass@4} = \frac{c}{4}, \quad c = \text{right tries}.$$
#
# Elsewhere pass@$k$ is something else, the chance that *at least one* of $k$ tries is right. From $n$ tries
# with $c$ right ones it is estimated by $1 - \binom{n-c}{k} / \binom{n}{k}$; for $n = k = 4$ it is 1 as soon
# as $c > 0$. The paper's number is an estimate of what is usually called pass@**1**. Both on the same four
# tries:

# %%
from math import comb

from sailrl_lite.answers import equivalent
from sailrl_lite.curation.passrate import MicroSampler, PassRate

sampler = MicroSampler(SHIPPED)  # the policy that ships with the project, after SFT
tried = list(read_micro(13 * 20, seed_offset=10_000))
texts = sampler(tried, tries=4, seed=SEED)
hits = np.array([
    [equivalent(row.gold, parse_response(text).answer) for text in four]
    for row, four in zip(tried, texts, strict=True)
])  # fmt: skip
share = hits.mean(1)
usual = np.array([1 - comb(4 - c, 4) / comb(4, 4) for c in hits.sum(1)])
assert (usual == hits.any(1)).all() and (usual >= share).all()

# %%
family = pd.Series([row.id.split("-")[0] for row in tried], name="family")
order = family.unique()
both = pd.DataFrame({"share right": share, "at least one": usual}).groupby(family).mean().loc[order]
figures.use_style()
axis = both.plot.bar(figsize=(9.5, 3), color=[figures.AFTER, figures.BEFORE], width=0.75, rot=30)
axis.set(xlabel="", ylabel="mean over problems", ylim=(0, 1.05))
axis.set_title("The same four tries: the paper's pass@4, and the usual one", loc="left")
axis.legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
axis.grid(axis="x", visible=False)
plt.show()

# %% [markdown]
# Under the usual meaning most problems would count as solved, in every family. Under the paper's, this is
# what the filter sees, and keeps:

# %%
counts = pd.crosstab(family, hits.sum(1)).loc[order]
shades = ["0.82", "#9ecae1", "#4292c6", "#08519c", "0.6"]
axis = counts.plot.barh(stacked=True, figsize=(9.5, 4), color=shades, width=0.8)
axis.invert_yaxis()
axis.set(xlabel="problems", ylabel="", xticks=range(0, 21, 5))
axis.set_title("Right tries of four; the blue ones stay", loc="left")
axis.legend(title="right", ncols=5, loc="upper left", bbox_to_anchor=(0, -0.13), frameon=False)
axis.grid(axis="y", visible=False)
plt.show()

stays = (share > 0) & (share < 1)
kind = pd.Series([row.kind for row in tried], name="kind")
print("kept of each kind:", pd.Series(stays).groupby(kind).mean().round(2).to_dict())
assert stays[kind == "reasoning"].mean() > stays[kind == "perception"].mean()

# %% [markdown]
# What would other thresholds keep? The share of each family's problems that stays:

# %%
thresholds = {"0 < share < 1 (paper)": (0, 1), "0.25 < share < 1": (0.25, 1), "0 < share < 0.75": (0, 0.75)}
kept = pd.DataFrame({name: (low < share) & (share < high) for name, (low, high) in thresholds.items()})
display(kept.groupby(family).mean().loc[order].T.round(2))

# %% [markdown]
# The package's `PassRate` does the same as a step, for STEM rows; a general row passes untried, since the
# paper filters the STEM part alone. And "see solution" of section 3 is caught here.

# %%
rate = PassRate(sampler, WORK / "rates.sqlite", seed=SEED)
assert np.allclose(rate.rates(tried), share)

hopeless = replace(clean[8], id="see solution", gold="see solution")
show(lambda row: rate([row])[0], hopeless, *tried[8:13])

# %% [markdown]
# **How rough is it?** Suppose a problem's true chance is $p$. Four tries keep it with probability
# $1 - p^4 - (1-p)^4$. Turn the knobs: more tries, or tighter thresholds.

# %%
from scipy.stats import binom


def chance_to_stay(p, tries=4, low=0.0, high=1.0):
    right = np.arange(tries + 1)
    inside = right[(low < right / tries) & (right / tries < high)]
    return binom.pmf(inside[:, None], tries, p).sum(0)


p = np.linspace(0, 1, 201)
assert np.allclose(chance_to_stay(p), 1 - p**4 - (1 - p) ** 4)


# %%
def draw(tries, low, high):
    figures.use_style()
    figure, axis = plt.subplots(figsize=(7.5, 2.8))
    axis.plot(p, chance_to_stay(p), color=figures.BEFORE, lw=2, label="paper: 4 tries, 0 < share < 1")
    label = f"{tries:.0f} tries, {low:.2f} < share < {high:.2f}"
    axis.plot(p, chance_to_stay(p, round(tries), low, high), color=figures.AFTER, lw=2, label=label)
    axis.set(xlabel="true chance of a right answer", ylabel="chance to stay", ylim=(-0.02, 1.02))
    axis.set_title("Which problems a pass-rate filter keeps", loc="left")
    axis.legend(loc="lower center")
    return figure


figures.knobs(draw, tries=(16, 1, 64, 1), low=(0.1, 0, 0.5, 0.01), high=(0.9, 0.5, 1, 0.01))
print(f"p = 0.95 stays with chance {chance_to_stay(np.array([0.95]))[0]:.2f}")

# %% [markdown]
# A problem that is solved 19 times of 20 still stays in one case of five, and one of a true chance of 5% goes
# in four cases of five. More tries sharpen the edges, and cost in proportion. And the filter belongs to the
# policy that was asked: as training makes it better, the problems in the middle move.
#
# ## 8. The mix, 50 to 20
# The scarcer part stays whole, the other is thinned at random:

# %%
from sailrl_lite.curation.mix import mix_step, part_of

parts = Counter(part_of(row) for row in tried)
unit = min(parts["stem"] / 50, parts["general"] / 20)
by_hand = {"stem": round(50 * unit), "general": round(20 * unit)}

mixed = run(tried, [mix_step(50, 20, SEED)], WORK / "mixed.parquet", WORK, bar=False)
from sailrl_lite.curation.schema import read_rows

left = Counter(part_of(row) for row in read_rows(WORK / "mixed.parquet"))
print("before:", dict(parts), " after:", dict(left))
assert dict(left) == by_hand

# %% [markdown]
# ## 9. Is the test in the training set?
# The paper trains on problems from MathVerse and WeMath and reports results on both; of the overlap it says
# nothing. `References` holds an evaluation set and finds rows that repeat it. We plant four test problems
# among training rows, each in disguise, and add three rows that look alike and are *not* the same problem.

# %%
from sailrl_lite.curation.mix import References

test_set = list(read_micro(13 * 20, split="test"))
references = References(test_set)
number, triangle, story = (
    next(row for row in test_set if row.id.startswith(family)) for family in ("read_number", "angle", "story")
)
as_jpeg = saved(Image.open(io.BytesIO(triangle.image)), "JPEG", quality=85)
planted = [
    replace(number, id="exact"),
    replace(triangle, id="compressed", image=as_jpeg),
    replace(
        triangle, id="as choice", question=list_options(triangle.question, ["30", triangle.gold]), gold="B"
    ),
    replace(story, id="new question", question="Which number is the larger one?", gold="1"),
]

# %%
blank = saved(Image.new("RGB", (112, 56), "white"))
innocent = [
    replace(clean[0], id="same short question", question=number.question),
    replace(angles[0], id="same words, other numbers"),
    replace(clean[1], id="an empty picture", image=blank),
]
for row in planted + innocent:
    overlap_found = references.find(row)
    print(f"{row.id:26}", f"{overlap_found.how}: {overlap_found.reference}" if overlap_found else "-")
assert all(references.find(row) for row in planted)
assert not any(references.find(row) for row in innocent)

# %% [markdown]
# "What number is written?" stands in many rows and is no secret; only with the picture is it a problem. So a
# short question alone never counts as a hit, a long one with the same numbers and gold does. And do our own
# two splits overlap? The package finds nothing in 1,300 training rows. But look at the triangles by their
# numbers:

# %%
train_set = list(read_micro(13 * 100))
print("overlaps found:", sum(references.find(row) is not None for row in train_set))


def corners(row):
    facts = problem_of(row).facts
    return facts["left"].value, facts["right"].value


known = {corners(row) for row in train_set if row.id.startswith("angle")}
again = [corners(row) in known for row in test_set if row.id.startswith("angle")]
print(f"test triangles whose two numbers stand in a training triangle: {sum(again)} of {len(again)}")
assert not any(references.find(row) for row in train_set) and sum(again) > 0

# %% [markdown]
# A triangle of 80 and 55 degrees, drawn anew in another font, is another picture, and the same problem. A
# model may know its answer by heart. Hashes find *copies*; whether two problems are the same in substance
# they cannot tell, in our data or in any other. A search that finds nothing is no proof of cleanliness.
#
# ## 10. The RL pipeline as a whole
# Clean, label, open, remove duplicates, look for overlaps (and drop them), filter by pass rate, mix. The rows
# are 520 of the micro-world with planted ones and choices among them.

# %%
from sailrl_lite.curation.rl import rl_steps
from sailrl_lite.curation.settings import RLOptions

pile = planted + CHOICES[:5] + dirty_pictures[:5] + copies[1:4] + list(read_micro(520, seed_offset=20_000))
options = RLOptions(overlaps="drop", seed=SEED)
steps = rl_steps(options, sampler, WORK / "rates.sqlite", references)
rl_file = WORK / "rl.parquet"
rl_tally = run(pile, steps, rl_file, WORK, bar=False)
curation_figures.funnel(rl_tally.counts)
plt.show()

# %%
result = survey(rl_file)
parts = Counter(part_of(row) for row in read_rows(rl_file))
print("rows:", dict(parts), " pass rates of STEM rows:", dict(sorted(result.pass_rates.items())))
assert abs(parts["stem"] / parts["general"] - 50 / 20) < 0.2
assert all(0 < rate < 1 for rate in result.pass_rates)
one = next(row for row in read_rows(rl_file) if row.pass_rate)
print(one.id, "|", *(f"{c.step}: {c.field} ({c.note})" for c in one.provenance))

# %% [markdown]
# Most of the general rows went for the sake of the mix: perception and general questions are eight of our
# thirteen families, and some of the STEM rows do not pass their filter. With a real pile one would rather
# collect more STEM problems.
#
# **The report.** `write_report` puts all this into a folder: `report.md` to read, `report.json` with every
# dropped row, and the figures. Its list of reasons:

# %%
from sailrl_lite.curation.report import write_report

report = write_report(WORK / "report", rl_tally, rl_file, {"seed": SEED}).read_text("utf-8")
reasons = report.split("## Why rows were dropped")[1].split("![")[0]
display(Markdown(reasons))
assert sum(count.dropped.total() for count in rl_tally.counts.values()) == len(rl_tally.dropped)

# %% [markdown]
# ## 11. Your own file
# Put the path of a CSV, JSONL or Parquet file with the columns `image`, `question`, `answer` in place of
# `None`. (A picture is a path beside the file.) Until then the cell writes a small folder of its own, with a
# broken picture, a doubled row and an empty answer in it.

# %%
MY_FILE = None

if MY_FILE is None:
    folder = WORK / "mine"
    folder.mkdir(exist_ok=True)
    lines = ["image,question,answer,kind"]
    for k, row in enumerate(clean):
        (folder / f"{k}.png").write_bytes(row.image if k != 3 else row.image[:200])
        lines.append(f'{k}.png,"{row.question}",{row.gold if k != 4 else ""},{row.kind}')
    (folder / "mine.csv").write_text("\n".join([*lines, lines[1]]) + "\n", encoding="utf-8")

# %%
from sailrl_lite.curation.curate import Source, curate_sft

out = Path(tempfile.mkdtemp())
done = curate_sft(Source(Path(MY_FILE or folder / "mine.csv")), out, SFTOptions(), bar=False)
text = done.read_text("utf-8")
print(text.split("\n")[0])
display(Markdown(text.split("## Why rows were dropped")[1].split("![")[0]))

# %% [markdown]
# No teacher was named, so the rows that need a trace go, with that reason. On the command line
# `sailrl-lite curate sft --input mine.csv --teacher llm:MODEL` has a language model write them.
#
# ## 12. Exercises
# **Exercise 1 (easy).** A problem was tried eight times and solved three times. What is the share that the
# paper's filter looks at, and what is the usual pass@4, estimated from these eight tries?

# %%
share_right = None
pass_at_4 = None


# %%
def check_1(share_right, pass_at_4):
    if share_right is None or pass_at_4 is None:
        return "Not yet: put a number in the place of each None."
    if abs(share_right - 3 / 8) > 1e-6:
        return "Not yet: the share of the tries that are right is a plain fraction."
    if abs(pass_at_4 - (1 - (5 / 8) ** 4)) < 1e-6:
        return "Not yet: that would be right if tries were put back. Four of the eight are drawn without."
    if abs(pass_at_4 - (1 - comb(5, 4) / comb(8, 4))) > 1e-6:
        return "Not yet: in how many of the ways to draw four of the eight are all four wrong?"
    return "Right. 0.375 of the tries, and yet 0.93 under the usual name: mind what a paper means."


print(check_1(share_right, pass_at_4))

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# share_right = 3 / 8
# pass_at_4 = 1 - comb(5, 4) / comb(8, 4)
# ```
# </details>
#
# **Exercise 2 (medium).** Write a trace about the triangle of section 5 that is worthless and passes
# *both* filters, agreement and redundancy: it works nothing out. What does this say about the filters?

# %%
print(angle.question, "gold:", angle.gold)
my_trace = "The missing angle is 45."


# %%
def check_2(trace):
    mine = replace(angle, think=trace, answer=angle.gold)
    if isinstance(why := substantial(mine), Drop):
        return f"Not yet: {why.reason}, {why.detail}"
    if verify(problem_of(angle), trace, angle.gold).scores().consistency:
        return "Not yet: this trace does work the answer out."
    return "Right. The filters count words; whether they reason takes a judge to see (notebook 04)."


print(check_2(my_trace))

# %% [markdown]
# <details><summary>Hint</summary>
#
# What is measured is the share of words that question and answer have, too. Other words cost nothing.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# my_trace = "Looking carefully we can clearly find this number by some well known rule, 45."
# ```
# </details>
#
# **Exercise 3 (hard).** Write your own search for leaks. `my_leak(row, test_set)` says whether a row repeats
# a test problem. It must find the four planted rows of section 9, clear the three innocent ones, and clear
# at least 95% of 260 other training rows. (`perceptual_hash`, `hamming` and `clean_text` are at hand.)


# %%
def my_leak(row, test_set):
    return any(row.question == test.question for test in test_set)


# %%
def check_3(my_leak):
    for row in planted:
        if not my_leak(row, test_set):
            return f"Not yet: the planted row {row.id!r} is missed."
    for row in innocent:
        if my_leak(row, test_set):
            return f"Not yet: {row.id!r} is accused, and is innocent."
    accused = np.mean([bool(my_leak(row, test_set)) for row in micro])
    if accused > 0.05:
        return f"Not yet: {accused:.0%} of the training rows are accused."
    return f"Right. {accused:.1%} of the training rows are accused."


print(check_3(my_leak))

# %% [markdown]
# <details><summary>Hint</summary>
#
# All four have the picture of a test problem, or nearly. But a picture that shows nothing is nobody's.
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# LOOKS = [perceptual_hash(test.image) for test in test_set]
#
#
# def my_leak(row, test_set):
#     if np.ptp(np.asarray(Image.open(io.BytesIO(row.image)).convert("L")).astype(int)) < 8:
#         return False
#     look = perceptual_hash(row.image)
#     return min(hamming(look, other) for other in LOOKS) <= NEAR
# ```
# </details>
#
# ## Where to go next
# - `sailrl-lite curate sft --micro 2000 --teacher micro` and `sailrl-lite curate rl --micro 2000` do all this
#   from the command line, on as many processes as you have cores.
# - Notebook 02 trains on such lessons; notebook 05 asks how wrong labels may be before they do harm.
