"""The response format: the six rules of `sailrl_lite.response`, case by case, and its properties."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sailrl_lite.decision import read_decision
from sailrl_lite.response import DIRECT, END_OF_TURN, THINK, parse_response, render_response

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases/responses.jsonl").open(encoding="utf-8")
]
JUDGE = f"<judge>{THINK}</judge>"


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_shared_cases(case):
    response = parse_response(case["response"], case["prefill"])
    found = {"format": response.well_formed, "decision": response.decision, "answer": response.answer}
    assert found == case["expect"], response.problems


# -------------------- rules 1 and 2: structure


def build(judge=THINK, think="a", answer=r"\boxed{1}", gap=""):
    return f"<judge>{judge}</judge>{gap}<think>{think}</think>{gap}<answer>{answer}</answer>"


@pytest.mark.parametrize(
    "text",
    [
        build() + END_OF_TURN[0] + END_OF_TURN[1] + "\n" + END_OF_TURN[0] + " ",
        "\ufeff\u200b" + build(gap="\u200b\u00a0") + "\u3000",
        build(gap="\r\n\t"),
        build(judge=DIRECT, think="\u00ad\u200e\u2800\x00\U000e0041", gap="\u2060"),
        build(think="a < b, <b>bold</b>, < think >, <Answer>"),  # literal tags only
    ],
)
def test_well_formed(text):
    assert parse_response(text).problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the response is empty"),
        (" \n\u200b<|im_end|>", "the response is empty"),
        ("just words", "<judge> is missing"),
        (build() + build(), "<judge> occurs 2 times"),
        (build(think="<think>"), "<think> occurs 2 times"),
        (END_OF_TURN[0] + build(), "text before <judge>"),
        (build(gap="."), "text between </judge> and <think>"),
        (build() + END_OF_TURN[0] + "\nuser", "text after </answer>"),
        (build().replace("<think>", "< think>"), "<think> is missing"),
        (f"<think>a</think>{JUDGE}<answer>\\boxed{{1}}</answer>", "the blocks are not in the order"),
        (f"{JUDGE}<think>a<answer>\\boxed{{1}}</think></answer>", "the blocks are not in the order"),
        (build(judge="Hmm."), "the judgment does not say"),
        (build(judge=""), "the judgment does not say"),
        (build(judge=DIRECT), "says direct, but the think block is not blank"),
        (
            build(think=" \n\u200b\u2060\u00ad\u200e\u2800\u3164\x00"),
            "says think, but the think block is blank",
        ),
        (build(answer="1"), r"no \boxed{...}"),
        (build(answer=r"\boxed{ \n }".replace(r"\n", "\n\u200b")), "the last box is blank"),
        (build(answer="\\boxed{\u200e\x00\u2800}"), "the last box is blank"),
        (build(answer=r"\boxed{1} \boxed{2"), r"the last \boxed{ is not closed"),
    ],
)
def test_problems_are_named(text, problem):
    response = parse_response(text)
    assert not response.well_formed
    assert any(problem in line for line in response.problems), response.problems


@pytest.mark.parametrize("cut", [0, 3, 7, 30, 60])
def test_prefill_is_read_with_the_completion(cut):
    text = build()
    assert parse_response(text[cut:], prefill=text[:cut]) == parse_response(text)


# -------------------- rule 3: the blocks of malformed responses


@pytest.mark.parametrize(
    ("text", "judge", "think", "answer"),
    [
        ("<judge>think</judge><think>a<answer>\\boxed{1}</answer>", "think", None, None),  # think left open
        ("<think>a<answer>\\boxed{1}</answer></think>", None, "a<answer>\\boxed{1}</answer>", None),  # nested
        ("<think>a<answer>\\boxed{1}</think>b</answer>", None, "a<answer>\\boxed{1}", None),  # overlapping
        ("<judge>think<think>a</think><answer>\\boxed{1}</answer>", None, None, None),  # judge left open
        ("<think>a</think><think>b</think><answer>\\boxed{1}</answer>", None, None, "1"),  # twice, but closed
        ("<think>a<think>b</think><answer>\\boxed{1}</answer>", None, None, "1"),
        ("</think>a<think><answer>\\boxed{1}</answer>", None, None, None),  # closing tag first
        ("</think>a<answer>\\boxed{1}</answer>", None, None, "1"),  # a stray closing tag opens nothing
        ("<answer>\\boxed{1}</answer><think>a</think><judge>think</judge>", "think", "a", "1"),
    ],
)
def test_blocks_of_malformed_responses(text, judge, think, answer):
    response = parse_response(text)
    assert not response.well_formed
    assert (response.judge, response.think, response.answer) == (judge, think, answer)


def test_a_tag_is_not_a_word_of_the_judgment():
    response = parse_response(f"<judge>{DIRECT}<think>7</think></judge><answer>\\boxed{{7}}</answer>")
    assert response.decision == "direct" and not response.well_formed


# -------------------- rule 6: the boxed answer


@pytest.mark.parametrize(
    ("answer_block", "answer"),
    [
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"so \boxed{ 4 7 } it is", "4 7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{x\right.}", r"\left\{x\right."),  # an escaped brace needs no partner
        (r"\boxed{a\\}", r"a\\"),  # an escaped backslash does not escape the brace
        (r"\boxed{1\}", None),
        (r"\\boxed{5}", "5"),  # escaped twice on its way here
        (r"\boxed {5}", None),  # literal, as the tags
        (r"\fbox{5}", None),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{}", None),
        (r"\boxed{5} \boxed{}", None),
        ("\\boxed{\u200b5\u200b}", "5"),
        ("\\boxed{\u200e5\u00ad6\u2800\x00}", "5\u00ad6"),
        (r"\boxed{5}}", "5"),
        (r"\boxed{{5}", None),
    ],
)
def test_boxed_answer(answer_block, answer):
    response = parse_response(build(answer=answer_block))
    assert response.answer == answer
    assert response.well_formed == (answer is not None)


# -------------------- rule 4: judgments in free wording

THINKING_IS_NEEDED = """
think | THINK. | **think** | decision: think | thinking mode | Let’s think step by step. | I need to think.
Step‑by‑step reasoning is needed | multi-step calculation required | It has to be worked out step by step.
cannot be answered directly | can’t be answered directly | cant be answered directly
not directly answerable | A glance is not enough. | needs more than a glance
This goes beyond simple perception. | not visible at a glance | This is not a simple question
This is not so simple. | far from simple | non-trivial | no simple question
There's no way to answer this directly. | A direct answer is not possible.
It is impossible to answer directly. | too hard to answer directly | hard to answer directly
It's not simple enough to answer directly. | can't be solved without reasoning
Without reasoning, this cannot be solved. | impossible without reasoning | Reasoning is not optional.
Thinking cannot be skipped. | It is not unnecessary to think. | Don't skip thinking.
cannot be answered directly without thinking | It isn't simple enough to skip thinking.
It looks simple, but it is tricky. | Although it looks simple, it requires several steps.
This simple question requires reasoning. | Reasoning rather than a direct answer.
not a glance but reasoning | No doubt this needs reasoning. | For that reason, thinking is needed
I don't think it's simple. | thinking: yes | needs_thinking=true | {"think": true} | Is this simple? No.
direct: no | Unless we think, we cannot answer. | Unless one reasons, this cannot be solved.
Nobody can answer this directly. | Answering directly is error-prone. | There is no avoiding reasoning.
There is no way around thinking. | There is no substitute for thinking. | needs_thinking: 1 | thinking=1
The numbers must be added. | We need to add the two numbers. | We have to count and compare.
Read the numbers and add them. | The two angles are shown; the third must be computed. | Count the dots.
The answer is not given in the image. | We cannot see the answer. | It's hard to see the answer.
Reflection is needed. | math is required | Wouldn't it need thinking? Yes. | Isn't this simple? No.
Thinking not needed: false | Direct answer: impossible | {"think": 1, "direct": 0} | direct? No: thinking.
We not only need to read the number but also add. | All you need to do is think. | Recall is not enough.
Is thinking unnecessary? No. | Thinking can't be left out. | Unless I am mistaken, this needs thinking.
"""

THINKING_IS_NOT_NEEDED = """
direct | DIRECT! | mode: direct | directly | no_think | non-thinking mode | A direct answer will do.
Just answer. | Thinking is not needed here. | no need to think
There is no need for step-by-step reasoning. | needs no thinking | This doesn’t require any calculation.
dont think | Step-by-step reasoning is unnecessary. | without thinking
does not require thinking; it can be answered directly | does not require thinking to answer directly
This isn't hard. | not a difficult problem | No. It can be answered directly. | nothing difficult here
a quick glance is enough | needs no more than a quick look | The number can be read directly from the image.
hardly any thinking is needed | little to no reasoning required | Thinking would be overkill.
Skip the reasoning. | No calculation, reasoning or thinking is needed.
needs neither thinking nor calculation | Thinking is neither needed nor helpful.
Reasoning does not help here. | too simple to need reasoning | This simple question does not need thinking.
The question is hard but can be answered directly. | not hard to answer directly
Without thinking, it can be answered. | Answer directly instead of thinking.
I think this can be answered directly. | I don't think reasoning is needed.
can be answered without hesitation | thinking: no | needs_thinking: false | Thinking needed? No.
Thinking: not required | Can I answer directly? Yes.
Nobody needs to think about this. | Thinking is optional and not needed. | needs_thinking: 0 | thinking=0
Thinking is optional. It is not needed. | Thinking: optional | Thinking is optional: not needed.
The answer is right there in the picture. | I only need to read the number. | All you need to do is look.
All it takes is a glance. | Anyone can see the answer. | Recall is enough. | Not needed: thinking.
Not needed: thinking would be overkill. | Not needed: the answer is visible. | im­mediately
Is thinking needed? Not needed: a glance is enough. | Isn't this simple? Yes. | Multiple choice, but simple.
Unless the question is hard, answer directly. | No counting or comparing is needed. | Nothing has to be added.
The count is printed in the picture. | Reasoning would not add anything. | Thinking can be left out.
"""

NEITHER_OR_BOTH = """
think or direct | think/direct | direct, think | either think or direct | neither think nor direct | Hmm.
yes | no | not | The picture shows a cat. | Does this need thinking?
I am not sure whether thinking is needed. | ... | I must decide whether to think or to answer directly.
It needs thinking and can be answered directly. | It needs thinking or not. | Thinking or not?
It can and cannot be answered directly. | Thinking is needed and not needed. | It is and is not simple.
Thinking may or may not be needed.
"""


def spell(table):
    return [text.strip() for line in table.strip().splitlines() for text in line.split(" | ")]


@pytest.mark.parametrize("judgment", spell(THINKING_IS_NEEDED))
def test_judgment_says_think(judgment):
    assert read_decision(judgment) == "think"


@pytest.mark.parametrize("judgment", spell(THINKING_IS_NOT_NEEDED))
def test_judgment_says_direct(judgment):
    assert read_decision(judgment) == "direct"


@pytest.mark.parametrize("judgment", ["", *spell(NEITHER_OR_BOTH)])
def test_judgment_says_neither_or_both(judgment):
    assert read_decision(judgment) is None


# -------------------- properties

PIECES = [
    "<judge>",
    "</judge>",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    r"\boxed{",
    "{",
    "}",
    "\\",
    " ",
]
PIECES += [
    *END_OF_TURN,
    "think",
    "direct",
    "not ",
    "no, ",
    "without ",
    "?",
    ":",
    "'",
    "5",
    "\u200b",
    "\ud800",
]
plain = st.text(st.characters(exclude_characters="<{}\\"))


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)), st.sampled_from(["", *PIECES]))
def test_any_text_is_parsed(text, prefill):
    response = parse_response(text, prefill)
    assert response.well_formed == (not response.problems)
    if response.well_formed:
        assert response.decision == ("think" if response.think else "direct") and response.answer
        assert parse_response(render_response(response)) == response


@given(think=plain, answer=plain, gap=st.sampled_from(["", "\n", " \u200b"]))
def test_what_is_rendered_is_read_back(think, answer, gap):
    try:
        text = render_response(think, answer)
    except ValueError:
        assert parse_response(build(answer=f"\\boxed{{{answer}}}")).answer is None  # blank
        return
    response = parse_response(gap + text + gap + END_OF_TURN[0])
    assert response.well_formed
    assert parse_response(render_response(response)) == response


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"think": "now </think>", "answer": "5"}, "the think text holds the tag </think>"),
        ({"think": "a", "answer": "<answer>"}, "the answer text holds the tag <answer>"),
        ({"think": "a", "answer": "5", "judge": "<judge>"}, "the judge text holds the tag <judge>"),
        ({"think": "a", "answer": "5", "judge": DIRECT}, "says direct, but the think block is not blank"),
        ({"think": "a", "answer": "5", "judge": "Hmm."}, "does not say whether thinking is needed"),
        ({"think": "a", "answer": " "}, "the last box is blank"),
        ({"think": "a", "answer": "{5"}, "is not closed"),
        ({"think": "a", "answer": "5} or {6"}, "would be read back as '5'"),
    ],
)
def test_what_cannot_be_rendered_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        render_response(**arguments)


@pytest.mark.parametrize(
    "unit",
    [
        "<judge>",
        "<think></think>",
        r"\boxed{",
        "{",
        "<|im_end|>",
        " ",
        "not ",
        "without ",
        "thinking unneeded ",
        "unless ",
        "can not it ",
        "only need to ",
        "\u00ad",
        ", ",
    ],
)
def test_a_megabyte_is_read_in_linear_time(unit):
    started = time.perf_counter()
    filling = unit * (1_000_000 // len(unit))
    for text in (
        filling,
        build(judge=filling),
        build(think=filling),
        build(answer=filling),
        build() + filling,
    ):
        parse_response(text)
    assert time.perf_counter() - started < 30  # quadratic would take many minutes
