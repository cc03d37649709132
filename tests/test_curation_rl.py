"""The steps of RL curation: open-ended questions, pass rates, overlaps with evaluation sets, the mix."""

import io
import os
import pickle
import signal
import subprocess
import sys
import time
import types
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sailrl_lite.config import SHIPPED
from sailrl_lite.curation.choices import to_open
from sailrl_lite.curation.curate import Source, curate_rl
from sailrl_lite.curation.mix import Decontaminate, References, mix_step, part_of, read_references
from sailrl_lite.curation.options import list_options
from sailrl_lite.curation.passrate import MicroSampler, PassRate, VLLMSampler
from sailrl_lite.curation.pipeline import Drop, Map, run
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.rl import rl_steps
from sailrl_lite.curation.schema import Change, Row, read_rows, write_rows
from sailrl_lite.curation.settings import RLOptions
from sailrl_lite.errors import SailRLError


def choice(question, options, gold):
    return Row("q", b"", list_options(question, options), gold, options=tuple(options))


NUMBERS = ("3 cm", "4 cm", "5 cm", "6 cm")
COLOURS = ("red", "blue", "green")


@pytest.mark.parametrize(
    "question, options, gold, open_question, open_gold",
    [
        ("How long is AB?", NUMBERS, "B", "How long is AB?", "4 cm"),
        ("How long is AB?", NUMBERS, "(b)", "How long is AB?", "4 cm"),
        ("How long is AB?", NUMBERS, "D. 6 cm", "How long is AB?", "6 cm"),
        ("How long is AB?", NUMBERS, "5 cm", "How long is AB?", "5 cm"),
        ("How many degrees has ∠A?", ("60°", "70°"), "70", "How many degrees has ∠A?", "70°"),
        ("What colour is the ball?", COLOURS, "Blue.", "What colour is the ball?", "blue"),
        ("Which colour has the ball?", COLOURS, "C", "Which colour has the ball?", "green"),
        ("Choose the correct answer. How long is AB?", NUMBERS, "A", "How long is AB?", "3 cm"),
        ("How long is AB? Please select the correct option, e.g. A, B, C or D.", NUMBERS, "A",
         "How long is AB?", "3 cm"),
        ("How long is AB?\nAnswer with the option's letter from the given choices directly.", NUMBERS, "A",
         "How long is AB?", "3 cm"),
        ("What is x in the following figure?", ("7", "8"), "B", "What is x in the following figure?", "8"),
        ("How high is the third bar in the chart below?", ("7", "8"), "B",
         "How high is the third bar in the chart below?", "8"),
        ("Which of the two lines is longer?", ("line m", "line n"), "A",
         "Which of the two lines is longer?", "line m"),
        ("What is the solution of the equation for the right triangle?", ("x = 2", "x = 3"), "A",
         "What is the solution of the equation for the right triangle?", "x = 2"),
        ("Which sign belongs into the gap: 3 _ 5?", ("<", ">", "="), "A",
         "Which sign belongs into the gap: 3 _ 5?", "<"),
        ("How long is AB?", ("3 cm", "4 cm", "No correct answer"), "A", "How long is AB?", "3 cm"),
        ("How long is AB?", ("3 cm", "4 cm", "none of the above"), "B", "How long is AB?", "4 cm"),
        ("How long is AB?", ("3 cm", "cannot be determined"), "A", "How long is AB?", "3 cm"),
        ("Is the triangle isosceles?", ("yes", "no"), "A", "Is the triangle isosceles?", "yes"),
        ("The triangle is isosceles.", ("True", "False"), "B",
         "The triangle is isosceles. True or false?", "False"),
        ("Is the following statement true? All sides are equal.", ("yes", "no"), "B",
         "Is the following statement true? All sides are equal.", "no"),
        ("What is $x$?", (r"$\frac{1}{2}$", r"$\frac{1}{3}$"), "A", "What is $x$?", r"$\frac{1}{2}$"),
        ("如图，AB∥CD，则∠A的度数为", ("30°", "45°"), "B", "如图，AB∥CD，则∠A的度数为", "45°"),
        ("圆的面积是多少？请直接回答选项字母。", ("π", "2π"), "A", "圆的面积是多少？", "π"),
    ],
)  # fmt: skip
def test_a_choice_becomes_open(question, options, gold, open_question, open_gold):
    row = to_open(choice(question, options, gold))
    assert isinstance(row, Row), row
    assert (row.question, row.gold, row.options) == (open_question, open_gold, ())
    assert {change.step for change in row.provenance} == {"open"}


@pytest.mark.parametrize(
    "question, options, gold, reason",
    [
        ("Which of the following is a prime?", ("4", "7"), "B", "asks for an option"),
        ("Which one of these states is farthest north?", ("Ohio", "Utah"), "A", "asks for an option"),
        ("Of the following, what is largest?", ("4", "7"), "B", "asks for an option"),
        ("Select the figure below that completes the row.", ("a cone", "a cube"), "B", "asks for an option"),
        ("Choose the colour that matches.", COLOURS, "B", "asks for an option"),
        ("Which option is right?", ("4", "7"), "B", "asks for an option"),
        ("What belongs into the gap? Pick from the listed words.", COLOURS, "B", "asks for an option"),
        ("下列图形中，是轴对称图形的是", ("圆柱", "圆锥"), "A", "asks for an option"),
        ("The statement that is true is", ("AB = CD", "AB > CD"), "A", "needs its options"),
        ("Which statement is supported by the chart?", ("It rises.", "It falls."), "A", "needs its options"),
        ("Which is not a prime?", ("4", "7"), "A", "needs its options"),
        ("What best describes the weather?", ("sunny", "rainy"), "A", "needs its options"),
        ("What could be the length of the third side?", NUMBERS, "A", "needs its options"),
        ("Which animal is also adapted to swim?", ("penguin", "lion"), "A", "needs its options"),
        ("All are mammals except", ("cat", "frog"), "B", "needs its options"),
        ("The value is closest to", ("4", "7"), "B", "needs its options"),
        ("Which value is closest to the mean of all?", ("4", "7"), "B", "needs its options"),
        ("Find a possible length of AB.", NUMBERS, "A", "needs its options"),
        ("The number x can be", ("4", "7"), "B", "needs its options"),
        ("What is the best title of the chart?", ("Rain", "Sun"), "A", "needs its options"),
        ("则结论正确的是", ("AB=CD", "AB>CD"), "A", "needs its options"),
        ("How long is AB?", ("3 cm", "4 cm", "all of the above"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "both A and B"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "A and B"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "both of these"), "A", "options refer to each other"),
        ("How long is AB?", ("3 cm", "4 cm", "none of these"), "C", "options refer to each other"),
        ("How long is AB?", ("3 cm", "4 cm", "No correct answer"), "C", "options refer to each other"),
        ("How long is AB?", ("3 cm", "Cannot be determined"), "B", "options refer to each other"),
        ("角A是多少度？", ("30°", "45°", "以上都不对"), "C", "options refer to each other"),
        ("What comes next?", ("Figure A", "Figure B"), "A", "picture options"),
        ("What comes next?", ("", "", ""), "A", "picture options"),
        ("What comes next?", ("A", "B", "C", "D"), "C", "picture options"),
        ("What comes next?", ("<image 2>", "<image 3>"), "A", "picture options"),
        ("俯视图是什么？", ("图①", "图②"), "A", "picture options"),
        ("How long is AB?", NUMBERS, "E", "gold not among the options"),
        ("How long is AB?", NUMBERS, "9 cm", "gold not among the options"),
        ("Which letter is shown?", ("B", "A", "K"), "A", "gold not among the options"),
        ("Which shapes are red?", ("circle", "star", "cross"), "A, C", "several right options"),
        ("Which shapes are red?", ("circle", "star", "cross"), "AC", "several right options"),
        ("How long is AB?", ("3 cm", "3 cm", "4 cm"), "C", "duplicate options"),
        ("How long is AB?", ("3 cm", "3 cm", "4 cm"), "3 cm", "duplicate options"),
        ("What is the ratio?", ("1/2", r"\frac{1}{2}", "1/3"), "A", "duplicate options"),
        ("How long is AB?", ("3 cm",), "A", "too few options"),
        ("What does he do?", ("he runs very fast along the long road", "he sits"), "A", "gold too long"),
        ("这个人在做什么？", ("他沿着一条很长很长的路跑得非常快", "坐着"), "A", "gold too long"),
        ("How long is AB?", ("5 or 6", "7"), "A", "unusable gold"),
        ("Choose the correct answer.", ("4", "7"), "A", "nothing is asked"),
    ],
)  # fmt: skip
def test_what_cannot_be_open_is_dropped_with_its_reason(question, options, gold, reason):
    dropped = to_open(choice(question, options, gold))
    assert isinstance(dropped, Drop) and dropped.reason == reason, dropped


def test_options_in_the_text_alone_are_found():
    row = Row("q", b"", "How long is AB?\nChoices:\nA:3 cm\nB:4 cm", "B")
    assert (to_open(row).question, to_open(row).gold) == ("How long is AB?", "4 cm")
    no_list = Row("q", b"", "How long is AB?\n(A) 3 cm\n(B) 4 cm", "9 cm")
    assert to_open(no_list) is no_list
    other = Row("q", b"", "How long is AB?\n(A) 3 cm\n(B) 4 cm", "B", options=("7 cm", "8 cm"))
    assert to_open(other).reason == "options stay in the question"
    lettered = Row("q", b"", "What is the capital of Wyoming?", "A", options=("A. Cheyenne", "B. Phoenix"))
    assert to_open(lettered).gold == "Cheyenne"
    hidden = Row("q", b"", "Which option comes next?", "B")
    assert to_open(hidden).reason == "picture options"


@pytest.mark.parametrize(
    "question, gold", [("How many?", "5"), ("Which letter is shown?", "B"), ("Is it red?", "no")]
)
def test_open_questions_stay_as_they_are(question, gold):
    row = Row("q", b"", question, gold)
    assert to_open(row) is row


def test_an_annotation_for_letters_is_not_kept():
    row = choice("How long is AB?", NUMBERS, "B").with_change("x", judge="Think.", think="so B", answer="B")
    assert to_open(row).response is None


# ---- pass rates


def picture(seed, size=(96, 72), kind="PNG", **options):
    """Smooth noise, another one for each seed; the same at any size."""
    noise = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(buffer, kind, **options)
    return buffer.getvalue()


def stem(k, **values):
    made = {"image": picture(k), "question": f"How much is {k}?", "gold": str(k), "kind": "reasoning"}
    return Row(id=f"r{k}", **made | values)


@dataclass
class Scripted:
    """Answers the row with gold k right in k % 5 of the tries, and writes down whom it was asked."""

    log: Path
    fingerprint: str = "scripted"

    def __call__(self, rows, tries, seed):
        with self.log.open("a") as log:
            log.write("".join(f"{row.id}\n" for row in rows))
        self.work(rows)
        return [[self.text(row, attempt) for attempt in range(tries)] for row in rows]

    def work(self, rows):
        pass

    def text(self, row, attempt):
        answer = row.gold if attempt < int(row.gold) % 5 else "wrong"
        return rf"<judge>direct</judge><think></think><answer>\boxed{{{answer}}}</answer>"

    @property
    def asked(self):
        return self.log.read_text().split()


def test_what_is_never_or_always_right_goes_and_scores_stay_in_the_data(tmp_path):
    rows = [stem(k) for k in range(5)] + [Row("g", picture(9), "What?", "9", kind="general")]
    never, *some, always, general = PassRate(Scripted(tmp_path / "log"), tmp_path / "scores.db")(rows)
    assert (never.reason, never.detail) == ("never right", "0 of 4 tries are right")
    assert (always.reason, always.detail) == ("always right", "4 of 4 tries are right")
    assert [row.pass_rate for row in some] == [0.25, 0.5, 0.75]
    assert some[0].provenance == (Change("pass rate", "pass_rate", "1 of 4 tries are right"),)
    assert general is rows[-1] and "g" not in Scripted(tmp_path / "log").asked


def test_only_the_box_counts():
    class Sloppy(Scripted):
        def text(self, row, attempt):
            return ["7", r"<answer>7</answer>", r"<think>\boxed{7}</think>", r"<answer>\boxed{7.0}</answer>"][
                attempt
            ]

    (row,) = PassRate(Sloppy(Path(os.devnull)))([stem(7)])
    assert row.pass_rate == 0.25


def test_thresholds_are_exclusive(tmp_path):
    kept = PassRate(Scripted(tmp_path / "log"), low=0.25, high=0.75)([stem(k) for k in range(5)])
    assert [row.id for row in kept if isinstance(row, Row)] == ["r2"]
    kept = PassRate(Scripted(tmp_path / "log"), low=-1, high=2)([stem(k) for k in range(5)])
    assert all(isinstance(row, Row) for row in kept) and kept[0].pass_rate == 0


def test_scores_are_asked_for_again_only_if_something_they_depend_on_changed(tmp_path):
    sampler, scores = Scripted(tmp_path / "log"), tmp_path / "sub" / "scores.db"

    def newly(rows, sampler=sampler, **options):
        before = len(sampler.asked) if sampler.log.exists() else 0
        PassRate(sampler, scores, **options)(rows)
        return sampler.asked[before:]

    row = stem(2)
    assert newly([row]) == ["r2"]
    assert newly([replace(row, id="other", source="x"), stem(3)]) == ["r3"]
    assert newly([row], low=-1.0) == []
    for change in ({"gold": "4"}, {"question": "What?"}, {"image": picture(5)}):
        assert newly([replace(row, **change)]) == ["r2"], change
    for options in ({"tries": 8}, {"seed": 1}, {"sampler": Scripted(tmp_path / "log", "another")}):
        assert newly([row], **options) == ["r2"], options


KILLED = """
import sys, time
from pathlib import Path
from tests.test_curation_rl import Scripted, PassRate, stem

class Stuck(Scripted):
    def work(self, rows):
        if rows[0].id == "r8":
            time.sleep(600)

rate = PassRate(Stuck(Path(sys.argv[1])), Path(sys.argv[2]))
for start in range(0, 20, 4):
    rate([stem(k) for k in range(start, start + 4)])
"""


def test_a_killed_run_goes_on_without_repeating_itself(tmp_path):
    log, scores = tmp_path / "log", tmp_path / "scores.db"
    child = subprocess.Popen([sys.executable, "-c", KILLED, log, scores], cwd=Path(__file__).parents[1])
    try:
        deadline = time.monotonic() + 60
        while not log.exists() or "r11" not in log.read_text().split():
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    chunks = [[stem(k) for k in range(start, start + 4)] for start in range(0, 20, 4)]
    sampler = Scripted(log)
    resumed = [row for chunk in chunks for row in PassRate(sampler, scores)(chunk)]
    assert resumed == [row for chunk in chunks for row in PassRate(Scripted(Path(os.devnull)))(chunk)]
    ids = [f"r{k}" for k in range(20)]
    assert sampler.asked == ids[:12] + ids[8:]  # only the chunk that it died in is asked twice


def test_a_broken_score_file_is_named(tmp_path):
    (tmp_path / "scores.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(SailRLError, match=r"scores\.db cannot keep the pass rates"):
        PassRate(Scripted(tmp_path / "log"), tmp_path / "scores.db")([stem(1)])


def test_the_micro_policy_is_asked_and_its_tries_can_be_had_again(tmp_path):
    rows = [row for row in read_micro(26) if part_of(row) == "stem"]
    odd = [
        stem(1, question="What is <|image_pad|>?"),
        stem(2, question="why " * 500),
        stem(3, image=picture(3)),
    ]
    sampler = MicroSampler(SHIPPED)
    texts = sampler([*rows, *odd], 4, seed=0)
    assert [len(tries) for tries in texts] == [4] * len(texts)
    assert texts[-3:-1] == [[""] * 4, [""] * 4] and all(texts[-1])
    assert texts == sampler([*rows, *odd], 4, seed=0) != sampler([*rows, *odd], 4, seed=1)
    rates = [row.pass_rate for row in PassRate(sampler, low=-1, high=2)(rows)]
    assert 0.2 < np.mean(rates) < 1  # the shipped policy is right half of the time
    from sailrl_lite.study.evaluation import NEVER_THINK  # here, since the killed child needs no torch

    direct = MicroSampler(SHIPPED, prefill=NEVER_THINK)
    assert all(text.startswith(NEVER_THINK) for tries in direct(rows, 2, 0) for text in tries)
    assert 0 < np.mean(PassRate(direct).rates(rows)) < 1
    assert sampler.fingerprint != direct.fingerprint
    assert sampler.fingerprint == MicroSampler(SHIPPED).fingerprint != MicroSampler(SHIPPED, 0.5).fingerprint
    with pytest.raises(SailRLError, match="no checkpoint in"):
        PassRate(MicroSampler(tmp_path))(rows)


def test_vllm_is_asked_with_a_seed_for_each_row(monkeypatch):
    calls = []

    class LLM:
        def __init__(self, model):
            self.model = model

        def chat(self, messages, params, use_tqdm):
            calls.append((messages, params))
            outputs = [types.SimpleNamespace(outputs=[types.SimpleNamespace(text="a")] * p.n) for p in params]
            return outputs

    fake = types.SimpleNamespace(LLM=LLM, SamplingParams=types.SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    sampler = VLLMSampler("some/model")
    assert sampler([stem(1), stem(2)], 4, 0) == [["a"] * 4] * 2
    sampler([stem(2)], 4, 0)
    (messages, both), (_, alone) = calls
    image, text = messages[0][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,") and text["text"] == "How much is 1?"
    assert both[1].seed == alone[0].seed != both[0].seed and both[0].n == 4


def test_a_curation_takes_vllm_for_the_tries_and_tells_what_it_cannot_load(tmp_path, monkeypatch):
    def load(model):
        raise RuntimeError("no device\nand more")

    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(LLM=load))
    options, source = RLOptions(sampler="vllm"), Source(micro=26)
    with pytest.raises(SailRLError, match=r"vLLM cannot load some/model \(no device\); take sampler="):
        curate_rl(source, tmp_path / "out", options, checkpoint="some/model", bar=False)


def test_without_vllm_one_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(SailRLError, match="needs vLLM: pip install"):
        VLLMSampler("some/model")([stem(1)], 4, 0)


# ---- the mix


@pytest.mark.parametrize(
    "values, part",
    [
        ({"source": "mathverse"}, "stem"),
        ({"source": "llava-onevision", "kind": "reasoning"}, "general"),
        ({"source": "ocr-textvqa", "kind": "perception"}, "stem"),
        ({"source": "mine", "kind": "reasoning"}, "stem"),
        ({"source": "mine", "kind": "perception", "needs_thinking": True}, "general"),
        ({"needs_thinking": True}, "stem"),
        ({"needs_thinking": False}, "general"),
        ({}, "general"),
    ],
)
def test_the_part_of_a_row(values, part):
    assert part_of(Row("a", b"", "Q", "1", **values)) == part


def mixed(tmp_path, n_stem, n_general, **options):
    rows = [stem(k, image=b"") for k in range(n_stem)]
    rows += [stem(100 + k, image=b"", kind="general") for k in range(n_general)]
    tally = run(rows, [mix_step(**options)], tmp_path / "o.parquet", tmp_path / "work", bar=False)
    parts = [part_of(row) for row in read_rows(tmp_path / "o.parquet")]
    return (parts.count("stem"), parts.count("general")), tally


@pytest.mark.parametrize(
    "have, options, left",
    [
        ((50, 50), {}, (50, 20)),
        ((50, 10), {}, (25, 10)),
        ((50, 20), {}, (50, 20)),
        ((7, 90), {"stem": 1, "general": 1}, (7, 7)),
        ((30, 30), {"general": 0}, (30, 0)),
        ((1, 90), {}, (1, 1)),
        ((30, 0), {}, (30, 0)),
        ((30, 0), {"stem": 0}, (0, 0)),
        ((0, 3), {}, (0, 3)),
        ((0, 0), {}, (0, 0)),
    ],
)
def test_the_scarcer_part_decides_the_mix(tmp_path, have, options, left):
    found, tally = mixed(tmp_path, *have, **options)
    assert found == left
    assert sum(tally.counts["mix"].dropped.values()) == sum(have) - sum(left)


def test_the_mix_is_drawn_by_its_seed(tmp_path):
    def dropped(seed):
        return [row.id for row in mixed(tmp_path, 50, 50, seed=seed)[1].dropped]

    assert dropped(1) == dropped(1) != dropped(2)


# ---- overlaps with evaluation sets

LONG = (
    "Tom has 12 apples and 7 pears in a basket, gives 5 of the apples to his sister and then buys twice as "
    "many pears as he had. How many fruits are in the basket?"
)
EVALUATION = [
    Row("e1", picture(1), "What is the answer?", "5"),
    Row("e2", picture(2), list_options("Find x in the figure.", ["4", "6"]), "B", options=("4", "6")),
    Row("e3", picture(3), LONG, "28"),
    Row("e4", picture(4), "In triangle ABC angle A is 40° and angle B is 60°. How large is C?", "80"),
    Row("e5", picture(5), "If every star counts as 3 and 2 are red, how many are there?", "6"),
    Row("e6", picture(6), "If every star counts as 3 and 2 are red, how many are there?", "9"),
    Row("e7", b"broken", "What do you see?", "a cat"),
    Row(
        "e8",
        picture(8).replace(b"x", b"x"),
        "<image> Read the number. Answer the question using a single word.",
        "7",
    ),
]


@pytest.mark.parametrize(
    "row, overlap",
    [
        (Row("a", picture(1), " what is the ANSWER ? ", "6"), ("e1", "same picture and question")),
        (Row("a", picture(1, kind="JPEG"), "What is the answer?", "5"), ("e1", "near picture and question")),
        (Row("a", picture(1, (80, 60)), "What is the answer?", "5"), ("e1", "near picture and question")),
        (Row("a", picture(2), "Find x in the figure.", "6"), ("e2", "same picture and question")),
        (Row("a", picture(20), EVALUATION[3].question, "80°"), ("e4", "same question")),
        (Row("a", picture(20), "Look: " + LONG, "28"), ("e3", "near question")),
        (Row("a", picture(3), "How many pears?", "5"), ("e3", "same picture")),
        (Row("a", picture(3, kind="JPEG", quality=85), "How many pears?", "5"), ("e3", "near picture")),
        (Row("a", picture(8), "Read the number.", "7"), ("e8", "same picture and question")),
        # near misses
        (Row("a", picture(20), "What is the answer?", "5"), None),
        (Row("a", picture(20), "Find x in the figure.", "6"), None),
        (Row("a", picture(20), LONG.replace("12", "13"), "29"), None),
        (Row("a", picture(20), "Look: " + LONG.replace("12", "13"), "28"), None),
        (Row("a", picture(20), "Look: " + LONG, "30"), None),
        (Row("a", picture(20), EVALUATION[3].question, "90"), None),
        (Row("a", picture(20), EVALUATION[4].question, "6"), None),
        (Row("a", picture(20), "What do you see?", "a cat"), None),
    ],
)  # fmt: skip
def test_overlaps_and_near_misses(row, overlap):
    found = References(EVALUATION).find(row)
    assert (found and (found.reference, found.how)) == overlap


def test_an_empty_picture_is_no_overlap_by_itself():
    buffer = io.BytesIO()
    Image.new("RGB", (50, 40), "white").save(buffer, "PNG")
    references = References([Row("e", buffer.getvalue(), "How much is 2+3?", "5")])
    assert references.find(Row("a", buffer.getvalue(), "How much is 2+4?", "6")) is None
    assert (
        references.find(Row("a", buffer.getvalue(), "How much is 2+3?", "5")).how
        == "same picture and question"
    )
    assert References([]).find(stem(1)) is None


def test_overlaps_are_reported_or_dropped(tmp_path):
    references = References(EVALUATION)
    rows = [stem(1), stem(20)]
    remarked, untouched = Decontaminate(references)(rows)
    assert remarked.provenance == (Change("decontaminate", "", "same picture as e1"),)
    assert untouched is rows[1]
    dropped, untouched = Decontaminate(references, "drop")(rows)
    assert dropped == Drop("in an evaluation set", "same picture as e1", "e1") and untouched is rows[1]
    write_rows(tmp_path / "x.parquet", [remarked])
    assert list(read_rows(tmp_path / "x.parquet")) == [remarked]


def test_references_come_from_files(tmp_path, caplog):
    write_rows(tmp_path / "bench.parquet", EVALUATION[:2])
    (tmp_path / "x.png").write_bytes(picture(1))
    (tmp_path / "own.csv").write_text("image,question,answer\nx.png,How many?,5\nmissing.png,How many?,5\n")
    found = list(read_references([str(tmp_path / "bench.parquet"), str(tmp_path / "own.csv")]))
    assert [row.question for row in found] == [*(row.question for row in EVALUATION[:2]), "How many?"]
    assert "1 rows of" in caplog.text


def test_training_pictures_of_the_micro_world_are_not_taken_for_test_ones():
    references = References(read_micro(390, split="test"))
    found = [references.find(row) for row in read_micro(390)]
    assert sum(overlap is not None for overlap in found) <= 1  # two triangles may be a pixel apart
    assert all(references.find(row) for row in read_micro(39, split="test"))


# ---- the whole


def test_the_whole_pipeline_on_micro_rows(tmp_path):
    test = list(read_micro(26, split="test"))
    choices = [
        choice("How long is AB?", NUMBERS, "B"),
        choice("Which of the following is a prime?", ("4", "7"), "B"),
    ]
    dirty = [
        replace(row, id=f"c{k}", image=picture(50 + k), kind="reasoning") for k, row in enumerate(choices)
    ]
    rows = [*read_micro(52), *dirty, replace(test[0], id="leak"), Row("bad", b"x", "Q", "5")]
    steps = rl_steps(
        RLOptions(low=-1, high=2, overlaps="drop", general=40, test=0.2, batch=32),
        MicroSampler(SHIPPED),
        tmp_path / "scores.db",
        References(test),
    )
    names = [
        "images",
        "question",
        "gold",
        "label",
        "open",
        "duplicates",
        "decontaminate",
        "pass rate",
        "mix",
        "split",
    ]
    assert [step.name for step in steps] == names
    tally = run(rows, steps, tmp_path / "rl.parquet", tmp_path / "work", bar=False)
    left = list(read_rows(tmp_path / "rl.parquet"))
    assert {row.id: row.reason for row in tally.dropped if row.step != "mix"} == {
        "bad": "not a picture",
        "c1": "asks for an option",
        "leak": "in an evaluation set",
    }
    parts = [part_of(row) for row in left]
    assert parts.count("stem") == 21 and parts.count("general") == round(21 * 40 / 50)
    assert all((row.pass_rate is not None) == (part_of(row) == "stem") for row in left)
    assert next(row for row in left if row.id == "c0").gold == "4 cm"
    assert {row.split for row in left} == {"train", "test"}


def test_options_are_checked():
    with pytest.raises(SailRLError, match="no share of 4 tries lies between"):
        rl_steps(RLOptions(low=0.5, high=0.75))
    with pytest.raises(SailRLError, match="cannot both be 0"):
        rl_steps(RLOptions(stem=0, general=0))
    with pytest.raises(SailRLError, match="needs a policy to ask"):
        rl_steps(RLOptions(label="accuracy"))
    names = [step.name for step in rl_steps()]
    assert "pass rate" not in names and "decontaminate" not in names and "split" not in names


def test_steps_on_single_rows_go_to_other_processes_without_torch():
    assert all(pickle.dumps(step.function) for step in rl_steps() if isinstance(step, Map))
    code = "import sys, sailrl_lite.curation.rl; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)
