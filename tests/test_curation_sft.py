"""The SFT pipeline: cleaning, duplicates, labels, annotation, filters, balance, split; then all of it."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_server import JudgeServer, chat, pictured, refuse, written
from PIL import Image, ImageDraw

from sailrl_lite.curation.annotate import (
    Annotation,
    LLMTeacher,
    MicroTeacher,
    annotate,
    read_annotation,
    teacher_messages,
)
from sailrl_lite.curation.clean import box_answer, clean_gold, clean_question, clean_text, unwrap
from sailrl_lite.curation.duplicates import NEAR, duplicate_key, find_duplicates, near_groups
from sailrl_lite.curation.pipeline import Drop, Dropped, run
from sailrl_lite.curation.quality import (
    GENERIC,
    WORDS,
    agrees,
    asks_for_thought,
    balance_lengths,
    label_by_accuracy,
    label_by_form,
    label_by_kind,
    overlap,
    split_key,
    split_rows,
    substantial,
)
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.schema import Row, read_rows
from sailrl_lite.curation.settings import SFTOptions
from sailrl_lite.curation.sft import sft_steps
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.client import Endpoint
from sailrl_lite.response import DIRECT, THINK, parse_response
from sailrl_lite.training.models import SPECIAL
from sailrl_lite.world.problems import FAMILIES
from sailrl_lite.world.teacher import Noise


def saved(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def drawing(seed=0, size=(160, 120)):
    """A picture of five random rectangles."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size, "white")
    for _ in range(5):
        x, y = rng.integers(0, size[0] - 40), rng.integers(0, size[1] - 40)
        color = tuple(int(c) for c in rng.integers(0, 200, 3))
        ImageDraw.Draw(image).rectangle((x, y, x + rng.integers(10, 40), y + rng.integers(10, 40)), color)
    return image


def row(**values):
    made = {"id": "a", "image": saved(drawing()), "question": "How many?", "gold": "3"} | values
    return Row(**made)


# ---- cleaning of questions

QUESTION = "How many red cubes are there?"
DIRT = {
    "<image>\n{}": "picture placeholder",
    "{}\n<image>": "picture placeholder",
    "<|vision_start|><|image_pad|><|vision_end|>{}": "picture placeholder",
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\nThree.<|im_end|>": "system prompt",
    "System: You count things. Be brief.\nUser: {}": "system prompt",
    "SYSTEM: you are a counting model.\n{}": "system prompt",
    "[INST] <<SYS>>\nBe safe.\n<</SYS>>\n\n{} [/INST] Three.": "system prompt",
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
    "detailed, and polite answers to the user's questions. USER: {} ASSISTANT:": "system prompt",
    "You are a helpful language and vision assistant. You are able to see the picture. {}": "system prompt",
    "A conversation between User and Assistant. The Assistant thinks.\nUser: {}\nAssistant:": "system prompt",
    "USER: {}": "role marker",
    "### Human: {}\n### Assistant: There are three.": "role marker",
    "Question: {}": "role marker",
    "Hint: Please answer the question and provide the correct option letter, e.g., A, B, C, D, at the end.\n"
    "Question: {}": "format instruction",
    "Hint: Please answer the question requiring an integer answer and provide the final value, e.g., 1, 2, "
    "3, at the end.\n{}": "format instruction",
    "{}\nAnswer with the option's letter from the given choices directly.": "format instruction",
    "{} Answer the question using a single word or phrase.": "format instruction",
    "{}\nPlease try to answer the question with short words or phrases if possible.": "format instruction",
    "{} Please provide a short and direct response.": "format instruction",
    "{}\nGive a very brief answer.": "format instruction",
    "{}\nYour answer should be compact.": "format instruction",
    "{} Answer the question with a single word (or phrase).": "format instruction",
    "{} Provide your answer in a brief word or phrase.": "format instruction",
    "{}\nReply with the letter only": "format instruction",
    "{} Do not contain the analysis progress.": "format instruction",
    "{} Answer the question with detailed explanation.": "format instruction",
    "{} Let's think step by step:": "format instruction",
    "{}\nYour answer is:": "answer marker",
    "{} Please respond with only the letter of the correct answer.": "format instruction",
    "{}\nSelect the correct answer from the given options.": "format instruction",
    "{} Put your answer in \\boxed{{}}.": "format instruction",
    "{} Please reason step by step, and put your final answer within \\boxed{{}}.": "format instruction",
    "{} Let's think step by step.": "format instruction",
    "{} Output the thinking process in <think> </think> and final answer in <answer> </answer> tags.":
    "format instruction",
    "{} You FIRST think about the reasoning process as a monologue and then provide the final answer.":
    "format instruction",
    "According to the question shown in the image, please first perform reasoning, then finally select the "
    "right answer from the choices, e.g., Answer: xxx.\n{}": "format instruction",
    "{}\nAnswer: 3": "answer marker",
    "{}\n**Answer:** 3": "answer marker",
    "{}\n### Answer\n3": "answer marker",
    "{} The answer is 3.": "answer marker",
    "{}\nCorrect answer: (C)": "answer marker",
    "{}\n#### 3": "answer marker",
    "{}\n\\boxed{{3}}": "answer marker",
    "{} <answer>3</answer>": "answer marker",
    "Hint: The answer is 3.\n{}": "answer marker",
    "{}\nAnswer:": "answer marker",
    "<p>{}</p>": "spelling",
    "  {} \r\n\u00a0": "",
    "\u200b{}\x00": "spelling",
}  # fmt: skip


@pytest.mark.parametrize("dirty", DIRT)
def test_dirt_is_taken_off_a_question(dirty):
    text, found = clean_question(dirty.format(QUESTION))
    assert text == QUESTION
    assert DIRT[dirty] in found or not DIRT[dirty]


ORDINARY = [
    "How many more circles than squares are there?",
    "Which option's letter is printed in red?",
    "Solve the system: 2x+y=3 and x-y=0. What is x?",
    "System: x+y=3, x-y=1. What is x?",
    "You are a teacher with 24 pupils. How many groups of four can you make?",
    "You are given a triangle with angles 30° and 60°. Find the third.",
    "Is a < b and c > d?",
    "If a<b and b<c, which is largest?",
    "What is 3 < 5 & 7 > 6 as a truth value?",
    "3 + 5 = \\boxed{}",
    "Fill in the blank: the answer is ___ apples.",
    "Answer the riddle in the picture.",
    "Answer with the number of apples on the table.",
    "What does the sign say?\nA. Stop\nB. Go\nC. Wait",
    "What is written in the answer box?",
    "Find the answer to 2+2.",
    "Give your answer in cm, rounded to 2 decimal places.",
    "Please answer yes or no: is it raining?",
    "Is the answer 5 or 6?",
    "Solve step by step: 3x + 4 = 10. What is x?",
    "Which step comes after step 2?",
    "Continue the row: 3, 6, 9, ...",
    "Q1 and Q3 are quartiles. What is the median?",
    "Explain the steps of mitosis shown here.",
    "The user presses the button. What happens?",
    "What is x² + \\frac{1}{2} if x = 3?",
    "Which hint does the detective find?",
    "Was steht auf dem Schild?",
    "图中有多少个圆?",
    "क्‍या यह लाल है?",
    "What does <key> mean in this XML?",
    "Give the letter of the vertex with the right angle.",
    "Write the missing letter of the word.",
    "Give one word that describes the picture.",
    "Do not count the roof. How many windows are there?",
    "Describe the picture in one sentence.",
    "Answer the questions about the chart: which bar is highest?",
    "State the law that the figure illustrates.",
    "Provide the next number in the series.",
    "Respond to the claim that all birds fly.",
    "What is the shortest answer that fits the crossword?",
    "Short: 5 cm, long: 9 cm. What is the difference?",
    "Keep the ratio. How long is the other side?",
    "Solution A is mixed with solution B. What is the pH?",
    "Solution: 5 g of salt in 95 g of water.\nWhat is its concentration?",
    "Please answer the question shown in the image.",
    "What does the teacher say?\n(A) Be brief.\n(B) Answer briefly.\n(C) The answer is 5",
    "Put the boxes in order of weight.",
    "Return to the start. How many steps is that?",
    "Choose two numbers whose sum is 10.",
    "The scale reads 3.5 kg. What is the answer in grams?",
    "5! = ?",
    "Suppose every circle counts as 3. What do the circles and squares count together?",
]


@pytest.mark.parametrize("question", ORDINARY)
def test_nothing_that_asks_is_eaten(question):
    assert clean_question(question) == (question, [])


def test_every_question_of_the_micro_world_is_left_alone():
    for made in read_micro(130):
        assert clean_text(made) is made and clean_gold(made) is made


_pieces = st.sampled_from(
    [d.format("Is it red?") for d in DIRT] + ORDINARY + ["&amp;lt;", "<b>x</b>", ".", "\n", ","]
)


@given(st.lists(_pieces | st.text(max_size=20), max_size=6).map(" ".join))
def test_what_is_clean_stays_as_it_is(text):
    once, _ = clean_question(text)
    assert clean_question(once) == (once, [])
    assert unwrap(unwrap(text)) == unwrap(text)


def test_a_text_of_many_tags_takes_no_time():
    started = time.perf_counter()
    clean_text(row(question="output </think> " * 1200 + "?"))
    assert time.perf_counter() - started < 5


def test_a_placeholder_in_a_sentence_becomes_a_word():
    assert clean_question("Look at <image 1>. What is shown in <image 1>?")[0] == (
        "Look at the picture. What is shown in the picture?"
    )


def test_how_exact_the_answer_must_be_is_kept():
    hint = (
        "Hint: Please answer the question requiring a floating-point number with two decimal places and "
        "provide the final value, e.g., 1.23, 1.34, 1.45, at the end.\nQuestion: How long is it?"
    )
    assert clean_question(hint) == (
        "Give the answer with two decimal places.\nHow long is it?",
        ["role marker", "hint"],
    )


def test_entities_and_tags():
    assert clean_question("Is 10<sup>2</sup> &amp;lt; 5?<br/>Or H<sub>2</sub>O &le; 3")[0] == (
        "Is 10^2 < 5?\nOr H_2O ≤ 3"
    )
    assert (
        clean_question("<b>Bold</b>, <span style='x'>styled</span>: &#39;ok&#39;?")[0]
        == "Bold, styled: 'ok'?"
    )


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("<image>\nAnswer: B", "empty question"),
        ("???", "empty question"),
        ("Compare <image 1> with <image 2>.", "several pictures"),
        ("<image><image> Which is larger?", "several pictures"),
    ],
)
def test_a_question_that_cannot_be_asked_is_dropped(question, reason):
    assert clean_text(row(question=question)).reason == reason


def test_options_are_spelt_as_they_are_in_the_question():
    cleaned = clean_text(
        row(question="Which?\n(A) 10<sup>2</sup>\n(B) &lt; 5", options=("10<sup>2</sup>", "&lt; 5"))
    )
    assert cleaned.question == "Which?\n(A) 10^2\n(B) < 5" and cleaned.options == ("10^2", "< 5")


@pytest.mark.parametrize("token", [*SPECIAL, "<|eot_id|>", "</s>", "<|im_<|im_end|>end|>"])
def test_tokens_of_chat_templates_go(token):
    assert clean_text(row(question=f"How {token}many cats?")).question == "How many cats?"
    assert clean_gold(row(gold=f"3{token}")).gold == "3"
    assert clean_text(row(question="Which?", options=(f"3 {token}", "4"))).options[1] == "4"


def test_cleaning_is_put_down_in_the_provenance():
    cleaned = clean_text(row(question="<image>\nHow many?\nAnswer: 3"))
    (change,) = cleaned.provenance
    assert (change.step, change.field) == ("question", "question")
    assert change.note == "picture placeholder, answer marker"


# ---- golds and answers


@pytest.mark.parametrize(
    ("gold", "bare"),
    [
        (r"\boxed{5}", "5"),
        (r"The answer is \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("Answer: B", "B"),
        ("**Answer:** 12 cm.", "12 cm"),
        ("$x^2$", "x^2"),
        ("$5", "$5"),
        ("5.", "5"),
        ("0.33...", "0.33..."),
        ("<answer>red</answer>", "red"),
        ("#### 18", "18"),
        ("### Answer\n(C)", "(C)"),
        (" blue\u200b ", "blue"),
        ("3 &lt; x", "3 < x"),
    ],
)
def test_a_gold_is_unwrapped(gold, bare):
    assert clean_gold(row(gold=gold)).gold == bare


@pytest.mark.parametrize("gold", ["", " . ", "5 or 6", r"\boxed{}", "x" * 600])
def test_an_unusable_gold_is_dropped(gold):
    assert clean_gold(row(gold=gold)).reason == "unusable gold"


def test_answers_are_boxed_in_one_form():
    boxed = box_answer(row(judge=THINK, think="2+1=3", answer=r"The answer is $\boxed{3}$."))
    assert boxed.answer == "3" and boxed.response.endswith(r"<answer>\boxed{3}</answer>")
    chosen = row(options=("3", "4"), gold="A", judge=THINK, think="2+1=3", answer="(A) 3")
    assert box_answer(chosen).answer == "A"
    assert box_answer(row()).answer is None


@pytest.mark.parametrize(
    "broken",
    [
        {"judge": THINK, "think": "so </think> 3", "answer": "3"},
        {"judge": DIRECT, "think": "2+1=3", "answer": "3"},
        {"judge": "Hm.", "think": "2+1=3", "answer": "3"},
        {"judge": THINK, "think": "2+1=3", "answer": "{3"},
        {"judge": THINK, "think": "2+1=3", "answer": " "},
        {"judge": THINK, "think": "2+1=3 <|image_pad|>", "answer": "3"},
    ],
)
def test_what_cannot_be_written_in_the_format_is_dropped(broken):
    assert box_answer(row(**broken)).reason == "cannot be written in the format"


# ---- duplicates


def dropped(rows):
    keys = [duplicate_key(made) for made in rows]
    table = pd.DataFrame(keys, index=pd.Index([made.id for made in rows], name="id"))
    found = find_duplicates(table)
    assert all(drop.other in drop.detail and drop.other in table.index for drop in found.values())
    return {name: (drop.reason, drop.detail) for name, drop in found.items()}


def test_duplicates_conflicts_and_what_is_neither():
    image = drawing(1)
    rows = [
        row(id="first", image=saved(image)),
        row(id="other file", image=saved(image, compress_level=1), question=" how many ", gold="three"),
        row(id="jpeg", image=saved(image, "JPEG", quality=75), gold="3.0"),
        row(id="smaller", image=saved(image.resize((150, 112)))),
        row(id="small change, another answer", image=saved(image, "JPEG", quality=80), gold="4"),
        row(id="another question", image=saved(image), question="How high?"),
        row(id="another picture", image=saved(drawing(2))),
        row(id="with options", image=saved(image), options=("3", "4"), gold="A"),
    ]
    found = dropped(rows)
    assert found.pop("other file") == ("duplicate", "duplicate of first")
    for name in ("jpeg", "smaller"):
        reason, detail = found.pop(name)
        assert reason == "near duplicate" and detail.startswith("near duplicate of first (distance ")
    assert not found


def test_all_sides_of_a_conflict_are_dropped():
    rows = [
        row(id="a", gold="3"),
        row(id="b", gold="three"),
        row(id="c", gold="4"),
        row(id="d", question="Why?"),
    ]
    found = dropped(rows)
    assert {name: reason for name, (reason, _) in found.items()} == dict.fromkeys("abc", "conflicting golds")
    assert found["a"][1] == "'3' in a, '4' in c"


_hashes = st.lists(
    st.tuples(st.integers(0, 2), st.sets(st.integers(0, 40), max_size=8)), min_size=1, max_size=25
)


@given(_hashes, st.integers(0, 12))
def test_near_groups_are_those_of_all_pairs(drawn, distance):
    numbers = [sum(1 << (6 * bit) for bit in bits) for _, bits in drawn]
    groups = [group for group, _ in drawn]
    expected = list(range(len(drawn)))
    for _ in drawn:  # spread the smallest number through all pairs that are near
        for i, j in itertools.combinations(range(len(drawn)), 2):
            if groups[i] == groups[j] and (numbers[i] ^ numbers[j]).bit_count() <= distance:
                expected[i] = expected[j] = min(expected[i], expected[j])
    looks = [number.to_bytes(32) for number in numbers]
    assert near_groups(looks, np.array(groups), distance).tolist() == expected


def false_near(per_family):
    """Of each family the rows that are near duplicates of one with another picture."""
    return {
        family: sum(
            reason == "near duplicate"
            for reason, _ in dropped(list(read_micro(per_family, [family]))).values()
        )
        for family in FAMILIES
    }


def test_different_pictures_of_one_question_are_no_near_duplicates():
    assert set(false_near(150).values()) == {0}


@pytest.mark.slow
def test_nor_are_they_among_two_thousand_of_each_family():
    found = false_near(2000)
    assert found.pop("angle") <= 10  # triangles with the same two numbers, drawn a pixel apart
    assert set(found.values()) == {0}


def test_a_compressed_or_smaller_picture_is_a_near_duplicate():
    for change in (
        lambda image: saved(image, "JPEG", quality=80),
        lambda image: saved(image.resize((104, 52), Image.Resampling.LANCZOS)),
    ):
        originals = list(read_micro(130))
        copies = [
            row(
                id=f"copy-{o.id}",
                image=change(Image.open(io.BytesIO(o.image))),
                question=o.question,
                gold=o.gold,
            )
            for o in originals
        ]
        found = sum(reason == "near duplicate" for reason, _ in dropped(originals + copies).values())
        assert found >= 0.93 * len(copies)


def test_twenty_thousand_rows_with_one_question(tmp_path):
    rng = np.random.default_rng(0)
    looks = rng.integers(0, 256, (20_000, 32), dtype=np.uint8)
    looks[-100:] = looks[:100] ^ 1  # 32 bits of 256 differ: not near
    looks[-200:-100] = looks[:100]
    looks[-200:-100, :NEAR] ^= 1  # as many as may
    table = pd.DataFrame(
        {"question": 7, "content": range(20_000), "look": [bytes(look) for look in looks], "gold": "3"},
        index=pd.Index(map(str, range(20_000)), name="id"),
    )
    started = time.perf_counter()
    found = find_duplicates(table)
    assert set(found) == {str(k) for k in range(19_800, 19_900)}
    assert time.perf_counter() - started < 20  # it takes a tenth of a second; all pairs would take minutes


# ---- labels


def test_a_row_with_a_label_keeps_it():
    labelled = row(needs_thinking=False, kind="reasoning", question="Calculate the sum.")
    assert label_by_kind(labelled) is labelled and label_by_form(labelled) is labelled
    assert label_by_accuracy([labelled], lambda rows: 1 / 0) == [labelled]


@pytest.mark.parametrize(
    ("kind", "question", "thinks"),
    [
        ("reasoning", "What color is it?", True),
        ("perception", "What is the sum?", False),
        ("general", "What color is it?", False),
        ("", "What is the sum?", True),
    ],
)
def test_labels_by_kind(kind, question, thinks):
    assert label_by_kind(row(kind=kind, question=question)).needs_thinking is thinks


@pytest.mark.parametrize(
    "question",
    [
        "What color is the star?",
        "Read the number.",
        "Which shape is red?",
        "Is there a blue circle?",
        "How many dogs are there?",
        "Where is the cat?\n(A) left of 3 and 4\n(B) under 5",
        "What does the left box hold?",
    ],
)
def test_questions_that_a_look_answers(question):
    assert not asks_for_thought(question)


@pytest.mark.parametrize(
    "question",
    [
        "Calculate the area of the triangle.",
        "Prove that the lines meet.",
        "How many more stars than circles are there?",
        "Why is the sky dark in this picture?",
        "Suppose every circle counts as 3. What color is it?",
        "If x = 3, what is y?",
        "A train goes 30 km in 2 hours. How fast is it?",
        "Which number comes next?",
    ],
)
def test_questions_that_need_work(question):
    assert asks_for_thought(question)


def test_the_form_of_micro_questions_tells_their_label():
    rows = list(read_micro(1300))
    right = sum(asks_for_thought(made.question) == made.needs_thinking for made in rows)
    assert right > 0.9 * len(rows)


def test_labels_by_the_direct_accuracy():
    rows = [row(id="a"), row(id="b", needs_thinking=True), row(id="c")]
    seen = []

    def accuracy(asked):
        seen.extend(asked)
        return [0.25, 0.75]

    labelled = label_by_accuracy(rows, accuracy, threshold=0.5)
    assert [made.needs_thinking for made in labelled] == [True, True, False]
    assert [made.id for made in seen] == ["a", "c"] and labelled[1] is rows[1]
    assert labelled[0].provenance[0].note == "direct accuracy 0.25"


# ---- annotation


class Fixed:
    """A teacher that says the same about every row."""

    name, labels = "fixed", False

    def __init__(self, *said):
        self.said, self.asked = said, []

    def annotate(self, rows):
        self.asked += [made.id for made in rows]
        return list(self.said)


def test_only_rows_that_need_a_trace_go_to_a_teacher():
    rows = [
        row(id="simple", needs_thinking=False),
        row(id="hard", needs_thinking=True),
        row(id="with trace", needs_thinking=True, think="2+1=3"),
        row(id="simple with trace", needs_thinking=False, think="I see three."),
        row(id="whole", needs_thinking=False, judge=THINK, think="2+1=3", answer="3"),
        row(id="refused", needs_thinking=True),
    ]
    teacher = Fixed(Annotation(THINK, "1+2=3", "3"), Drop("no annotation", "refusal"))
    simple, hard, traced, stripped, whole, refused = annotate(rows, teacher)
    assert teacher.asked == ["hard", "refused"]
    assert (simple.judge, simple.think, simple.answer) == (DIRECT, "", "3")
    assert (hard.think, {change.note for change in hard.provenance}) == ("1+2=3", {"fixed"})
    assert (traced.judge, traced.think, traced.answer) == (THINK, "2+1=3", "3")
    assert (stripped.judge, stripped.think) == (DIRECT, "")
    assert whole is rows[4] and refused == Drop("no annotation", "refusal")


def test_without_a_teacher_rows_that_need_a_trace_are_dropped():
    simple, hard = annotate([row(needs_thinking=False), row(needs_thinking=True)])
    assert simple.response and hard.reason == "no teacher"


def test_the_micro_teacher_is_the_same_for_the_same_row_and_errs_as_told():
    rows = list(read_micro(300))
    once = annotate(rows, MicroTeacher(Noise()))
    again = annotate(rows[::-1], MicroTeacher(Noise()))[::-1]
    assert once == again != annotate(rows, MicroTeacher(Noise(), seed=1))
    wrong = sum(bool(made.think) != made.needs_thinking for made in once)
    assert 0.15 < wrong / 300 < 0.35
    clean = annotate(rows, MicroTeacher())
    assert all(bool(made.think) == made.needs_thinking and agrees(made) is made for made in clean)
    foreign = annotate([row(needs_thinking=False), row(needs_thinking=True)], MicroTeacher())
    assert foreign[0].judge == DIRECT and foreign[1].reason == "no teacher"


# ---- a teacher behind an endpoint

LESSON = {"judge": "This calls for step-by-step reasoning.", "think": r"\frac{6}{2}=3", "answer": "3"}


def endpoint(server, folder, **settings):
    return Endpoint("m", server.url, cache=str(folder), patience=5.0, **settings)


def test_a_teacher_behind_an_endpoint_is_paid_once(tmp_path):
    with JudgeServer(lambda number, request: chat(json.dumps(LESSON))) as server:
        rows = [row(id=str(k), question=f"How many, {k}?", needs_thinking=True) for k in range(5)]
        first = annotate(rows, LLMTeacher(endpoint(server, tmp_path)))
        assert len(server.requests) == 5
        assert annotate(rows, LLMTeacher(endpoint(server, tmp_path))) == first
        assert len(server.requests) == 5
    assert {made.think for made in first} == {LESSON["think"]} and first[0].judge == LESSON["judge"]
    body = server.requests[0].body
    assert len(pictured(body)) == 1 and "How many, " in written(body)


def test_rows_that_the_budget_has_no_call_for_say_so(tmp_path):
    rows = [row(id=str(k), question=f"How many, {k}?", needs_thinking=True) for k in range(5)]
    with JudgeServer(lambda number, request: chat(json.dumps(LESSON))) as server:
        made = annotate(rows, LLMTeacher(endpoint(server, tmp_path, max_calls=2, concurrency=1)))
        again = annotate(rows, LLMTeacher(endpoint(server, tmp_path)))
        assert len(server.requests) == 5
    assert [getattr(found, "reason", "") for found in made] == ["", ""] + ["budget spent"] * 3
    assert all(found.think == LESSON["think"] for found in again)


def test_a_teacher_that_never_answers_is_no_success(tmp_path):
    rows = [row(id=str(k), question=f"How many, {k}?", needs_thinking=True) for k in range(2)]
    with JudgeServer(lambda number, request: chat(json.dumps(LESSON))) as server:
        pass
    with pytest.raises(SailRLError, match="has answered none of 2 calls"):
        annotate(rows, LLMTeacher(Endpoint("m", server.url, cache=str(tmp_path), patience=0.5)))


def test_ctrl_c_stops_the_teacher_within_its_rows(tmp_path):
    rows = [row(id=str(k), question=f"How many, {k}?", needs_thinking=True) for k in range(40)]

    def reply(number, request):
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return chat(json.dumps(LESSON))

    with JudgeServer(reply, latency=0.1) as server:
        with pytest.raises(KeyboardInterrupt):
            annotate(rows, LLMTeacher(endpoint(server, tmp_path, concurrency=2)))
        assert len(server.requests) < 12


def test_replies_without_an_annotation_are_asked_for_again(tmp_path):
    blank = json.dumps({"judge": "think", "think": "", "answer": "3"})
    replies = iter(["I would say three.", blank, json.dumps(LESSON)])
    with JudgeServer(lambda number, request: chat(next(replies))) as server:
        (found,) = annotate([row(needs_thinking=True)], LLMTeacher(endpoint(server, tmp_path, reasks=2)))
        assert found.think == LESSON["think"] and len(server.requests) == 3


def test_a_row_without_a_usable_reply_is_dropped_and_a_wrong_key_ends_the_run(tmp_path):
    with JudgeServer(lambda number, request: chat("no")) as server:
        (found,) = annotate([row(needs_thinking=True)], LLMTeacher(endpoint(server, tmp_path, reasks=0)))
        assert found.reason == "no annotation"
    with JudgeServer(lambda number, request: refuse(401)) as server, pytest.raises(SailRLError, match="401"):
        annotate([row(needs_thinking=True)], LLMTeacher(endpoint(server, tmp_path / "b")))


def test_the_gold_is_shown_only_to_a_guided_teacher():
    asked = row(question="How many?", gold="4711")
    assert "4711" not in written({"messages": teacher_messages(asked)})
    guided = written({"messages": teacher_messages(asked, guided=True)})
    assert "The right answer: 4711" in guided and "{{" not in guided


@pytest.mark.parametrize(
    ("content", "think"),
    [
        (r'{"judge": "think", "think": "\frac12 \times 4 \neq \theta\nThen \sqrt{4}=2 \(x\)", "answer": "2"}',
         "\\frac12 \\times 4 \\neq \\theta\nThen \\sqrt{4}=2 \\(x\\)"),
        (r'{"judge": "think", "think": "\\frac12 \\nu", "answer": 2}', r"\frac12 \nu"),
        ('Here:\n```json\n{"judge": "think", "think": "a \\"b\\" {c}", "answer": "2"}\n```', 'a "b" {c}'),
        ('{"x": 1} {"think": "1+1=2", "answer": "2"}', "1+1=2"),
    ],
)  # fmt: skip
def test_replies_that_can_be_read(content, think):
    assert read_annotation({"content": content}) == Annotation(
        "think" if '"judge"' in content else THINK, think, "2"
    )


def test_a_judgment_that_says_otherwise_gives_way():
    said = json.dumps(LESSON | {"judge": "No thinking is needed."})
    assert read_annotation({"content": said}).judge == THINK


@given(st.text() | st.none() | st.lists(st.text()) | st.just('{"think": {}}') | st.just('[{"think": true}]'))
def test_no_reply_makes_the_reader_raise(content):
    assert isinstance(read_annotation({"content": content}), Annotation | Drop)


CHILD = """
import sys
from sailrl_lite.curation.annotate import LLMTeacher, annotate
from sailrl_lite.curation.schema import read_rows
from sailrl_lite.judges.client import Endpoint
teacher = LLMTeacher(Endpoint("m", sys.argv[1], cache=sys.argv[2], concurrency=2))
print(sum(row.think is not None for row in annotate(list(read_rows(sys.argv[3])), teacher)))
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_without_paying_twice(tmp_path):
    from sailrl_lite.curation.schema import write_rows

    rows = [row(id=str(k), question=f"How many, {k}?", needs_thinking=True) for k in range(20)]
    write_rows(tmp_path / "rows.parquet", rows)
    with JudgeServer(lambda number, request: chat(json.dumps(LESSON)), latency=0.1) as server:
        command = [
            sys.executable,
            "-c",
            textwrap.dedent(CHILD),
            server.url,
            tmp_path / "c",
            tmp_path / "rows.parquet",
        ]
        child = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while sum(request.delivered is not None for request in server.requests) < 6:
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["20"]
        assert 20 <= len(server.requests) <= 20 + 4  # what was under way, and answered but not yet stored


# ---- filters


@pytest.mark.parametrize(
    ("values", "stays"),
    [
        ({"gold": "3", "answer": "three"}, True),
        ({"gold": "3", "answer": "4"}, False),
        ({"gold": "3", "answer": None}, False),
        ({"gold": "B", "answer": "4 cm", "options": ("3 cm", "4 cm")}, True),
        ({"gold": "4 cm", "answer": "B", "options": ("3 cm", "4 cm")}, True),
        ({"gold": "B", "answer": "A", "options": ("3 cm", "4 cm")}, False),
        ({"gold": "B", "answer": "neither", "options": ("3 cm", "4 cm")}, False),
    ],
)
def test_annotations_that_disagree_with_gold_are_dropped(values, stays):
    found = agrees(row(judge=THINK, think="so", **values))
    assert isinstance(found, Row) if stays else found.reason == "disagrees with gold"


@pytest.mark.parametrize(
    ("think", "trivial"),
    [
        ("The answer is red.", True),
        ("red", True),
        ("The picture shows a red ball, so the color of the ball is red.", True),
        ("...", True),
        ("The ball lies beside a blue box; its surface reflects the color of tomatoes, hence red.", False),
        ("", False),
    ],
)
def test_traces_that_only_restate_are_dropped(think, trivial):
    traced = row(question="What color is the ball?", gold="red", judge=THINK, think=think, answer="red")
    found = substantial(traced)
    assert (found == traced) != trivial
    if trivial:
        assert found.reason == "trivial trace" and substantial(traced, threshold=1.0) is traced


@given(st.text(), st.text(), st.text())
def test_overlap_is_a_share(trace, question, answer):
    assert 0 <= overlap(trace, question, answer) <= 1


def lengths(*counts):
    """A table of traces: of each length so many; 0 is a row without one."""
    values = [length or None for length, count in counts for _ in range(count)]
    return pd.DataFrame({WORDS: values}, index=pd.Index([f"r{k}" for k in range(len(values))], name="id"))


def test_full_bins_of_lengths_are_cut_and_direct_rows_left_alone():
    table = lengths((0, 500), (5, 100), (12, 20), (20, 10), (300, 1))
    drops = balance_lengths(table, factor=2.0)
    gone = table.loc[list(drops), WORDS].value_counts().to_dict()
    assert gone == {5: 60}  # the median of 100, 20 and 10, twice; one trace of 300 words is no bin
    assert next(iter(drops.values())).detail == "100 traces have 4 to 7 words, 40 of them stay"
    assert balance_lengths(table.iloc[::-1], factor=2.0).keys() == drops.keys()
    assert balance_lengths(table, factor=2.0, seed=1).keys() != drops.keys()
    assert balance_lengths(lengths((0, 9))) == {} == balance_lengths(lengths((5, 1000), (50, 2)))


def split_of(rows, **options):
    table = pd.DataFrame(
        [split_key(made) for made in rows], index=pd.Index([made.id for made in rows], name="id")
    )
    held_out = split_rows(table, **options)
    return {made.id: "test" if made.id in held_out else made.split for made in rows}


def test_rows_that_share_a_picture_or_a_rare_question_stay_together():
    rows = []
    for k in range(60):
        image = drawing(k)
        rows += [
            row(id=f"{k}-a", image=saved(image), question="How many?"),
            row(id=f"{k}-b", image=saved(image), question="How high?"),
            row(id=f"{k}-c", image=saved(image, "JPEG", quality=80), question=f"Story {k}?"),
            row(id=f"{k}-d", image=saved(drawing(1000 + k)), question=f"story {k}"),
        ]
    split = split_of(rows, test=0.3)
    for k in range(60):
        assert len({split[f"{k}-{letter}"] for letter in "abcd"}) == 1
    assert list(split.values()).count("test") == 72
    assert split == split_of(rows, test=0.3) != split_of(rows, test=0.3, seed=1)
    assert set(split_of(rows, test=0.0).values()) == {"train"}
    assert GENERIC < 60  # else "How many?" would tie all of them together


def test_what_the_reader_held_out_stays_so_with_its_company():
    rows = [
        row(id="a", split="test"),
        row(id="b", question="How high?"),
        row(id="c", question="Why?", image=saved(drawing(5))),
    ]
    assert split_of(rows, test=0.0) == {"a": "test", "b": "test", "c": "train"}


# ---- all of it

COUNTS = {
    "question": {"empty question": 1, "several pictures": 1},
    "gold": {"unusable gold": 1},
    "given": {"cannot be written in the format": 1},
    "duplicates": {"conflicting golds": 2, "duplicate": 1, "near duplicate": 1},
    "images": {"not a picture": 1},
}


def dirty_rows(first):
    picture = Image.open(io.BytesIO(first.image))
    own = {"question": "How many legs has it got?", "gold": "4", "needs_thinking": False}
    return [
        Dropped("line 7", "read", "no picture file", "x.png"),
        row(id="broken", image=b"GIF89a nothing"),
        row(id="empty", question="<image>\nAnswer: 3"),
        row(id="two", question="<image 1> or <image 2>?"),
        row(id="no gold", gold="???"),
        row(id="copy", image=first.image, question=f"USER: {first.question}\nAnswer: x", gold=first.gold),
        row(id="jpeg", image=saved(picture, "JPEG", quality=90), question=first.question, gold=first.gold),
        row(id="conflict", image=saved(drawing(3)), **own),
        row(id="conflicting", image=saved(drawing(3)), **(own | {"gold": "5"})),
        row(id="bad response", image=saved(drawing(4)), judge=DIRECT, think="so", answer="4", **own),
        row(id="fine", image=saved(drawing(5)), **(own | {"question": "<image>\nHow many legs has it got?"})),
        row(id="nobody knows", image=saved(drawing(6)), question="Calculate the sum of 3 and 4.", gold="7"),
    ]


def curated(tmp_path, teacher, workers=1, **options):
    micro = list(read_micro(300))
    tally = run(
        [*micro, *dirty_rows(micro[0])],
        sft_steps(SFTOptions(**options), teacher),
        tmp_path / f"{workers}.parquet",
        tmp_path,
        workers,
        bar=False,
    )
    return tally, list(read_rows(tmp_path / f"{workers}.parquet"))


def test_the_whole_pipeline(tmp_path):
    tally, rows = curated(tmp_path, MicroTeacher(Noise()), balance=1.0)
    for step, reasons in COUNTS.items():
        assert dict(tally.counts[step].dropped) == reasons, step
    assert {(d.id, d.reason) for d in tally.dropped if d.step == "annotate"} == {
        ("nobody knows", "no teacher")
    }
    for step in ("agreement", "redundancy", "length balance"):
        assert sum(tally.counts[step].dropped.values()) > 5
    assert len(tally.dropped) + len(rows) == 312
    for made in rows:
        assert parse_response(made.response).well_formed and agrees(made) is made
    by_id = {made.id: made for made in rows}
    assert by_id["fine"].question == "How many legs has it got?" and by_id["fine"].think == ""
    held_out = sum(made.split == "test" for made in rows)
    assert 0.04 <= held_out / len(rows) <= 0.05


@pytest.mark.slow
def test_two_processes_do_what_one_does(tmp_path, monkeypatch):
    monkeypatch.setattr("sailrl_lite.curation.pipeline._FEW", 0)
    teacher = MicroTeacher(Noise())
    (one, rows), (two, others) = (curated(tmp_path, teacher, workers, balance=1.0) for workers in (1, 2))
    assert others == rows
    assert {(d.id, d.step, d.reason) for d in two.dropped} == {(d.id, d.step, d.reason) for d in one.dropped}


def test_without_a_teacher_the_run_succeeds(tmp_path):
    tally, rows = curated(tmp_path, None)
    assert rows and not any(made.think for made in rows)
    assert tally.counts["annotate"].dropped["no teacher"] > 100


def test_options_out_of_range_are_refused():
    with pytest.raises(SailRLError, match=r"redundancy must lie in \[0, 1\], not 2"):
        sft_steps(SFTOptions(redundancy=2))
    with pytest.raises(SailRLError, match="label cannot be 'mood'"):
        sft_steps(SFTOptions(label="mood"))
    with pytest.raises(SailRLError, match="needs a policy to ask"):
        sft_steps(SFTOptions(label="accuracy"))
    named = [
        step.name for step in sft_steps(SFTOptions(label="accuracy"), accuracy=lambda rows: [1.0] * len(rows))
    ]
    assert len(named) == len(set(named)) == 12
