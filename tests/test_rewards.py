"""The seven rewards and their combinations: the design's table by hand, and the rules that hold for all."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sailrl_lite.errors import SailRLError
from sailrl_lite.response import parse_response
from sailrl_lite.rewards import REWARDS, Anneal, Combination, Components, Scores, get_reward, measure

THOUGHT = r"<judge>think</judge><think>2+3=5</think><answer>\boxed{5}</answer>"
DIRECT = r"<judge>direct</judge><think></think><answer>\boxed{5}</answer>"
CHEAT = r"<judge>direct</judge><think>2+3=5</think><answer>\boxed{5}</answer>"
UNCLOSED = r"<judge>think</judge><think>2+3=5<answer>\boxed{5}</answer>"
GOOD, FLAWED = Scores(1, 1, 1), Scores(1, 0, 1)


def components(text, needs_thinking, scores=None, gold="5"):
    return measure(parse_response(text), gold, needs_thinking, scores)


@pytest.mark.parametrize(
    ("text", "needs_thinking", "scores", "expected"),
    [  # format, answer, judging, thinking
        (THOUGHT, True, GOOD, (1, 1, 1, 1)),
        (THOUGHT, True, FLAWED, (1, 1, 1, 2 / 3)),
        (THOUGHT, True, Scores(0, 0, 1), (1, 1, 1, 1 / 3)),
        (THOUGHT, True, Scores(0.5, 0.25, 0), (1, 1, 1, 0.25)),
        (THOUGHT, False, GOOD, (1, 1, 0, 1)),
        (THOUGHT, True, None, (1, 1, 1, None)),  # no verdict is not 0
        (DIRECT, False, None, (1, 1, 1, 1)),  # a blank trace needs no verdict: the label decides
        (DIRECT, True, None, (1, 1, 0, 0)),
        (DIRECT, True, GOOD, (1, 1, 0, 0)),  # and scores for it are ignored
        (CHEAT, False, GOOD, (0, 1, 1, 1)),
        (UNCLOSED, True, GOOD, (0, 0, 1, 0)),
        ("", True, None, (0, 0, 0, 0)),
        ("", False, None, (0, 0, 0, 0)),
    ],
)
def test_components(text, needs_thinking, scores, expected):
    c = components(text, needs_thinking, scores)
    assert (c.format, c.answer, c.judging, c.thinking) == expected


FORMULAS = [  # judging, d1, d2, d3, answer, what is paid
    ("cascade", (1, 1, 1, 1, 1), 1.0),
    ("cascade", (1, 1, 0, 1, 1), 0.9 * 2 / 3 + 0.1),  # one failed sub-reward still pays two thirds
    ("cascade", (0, 1, 1, 1, 1), 0.1),
    ("cascade", (1, 1, 1, 1, 0), 0.1),
    ("cascade", (1, 0, 0, 0, 1), 0.1),
    ("cascade-continuous", (1, 0.5, 0.5, 0.5, 1), 0.55),
    ("strict-product", (1, 1, 0, 1, 1), 0.1),
    ("strict-product", (1, 1, 1, 1, 1), 1.0),
    ("additive", (0, 1, 1, 1, 1), 0.7),
    ("additive", (1, 0, 0, 1, 0), 0.9 * (1 + 1 / 3) / 3 + 0.1),
    ("additive-bare", (0, 0, 0, 0, 1), 1 / 3),
    ("answer-only", (0, 0, 0, 0, 1), 1.0),
    ("thinking+answer", (0, 1, 0, 1, 1), 0.9 * 2 / 3 + 0.1),
    ("judging+answer", (1, 0, 0, 0, 1), 1.0),
    ("judging+answer", (0, 1, 1, 1, 1), 0.1),
    ("logic-only", (1, 1, 0, 0, 1), 1.0),
    ("grounding-only", (1, 1, 0, 0, 1), 0.1),
    ("consistency-only", (1, 0, 0, 1, 1), 1.0),
    ("biased-logic", (1, 1, 0, 0, 1), 0.55),
    ("biased-grounding", (1, 1, 0, 0, 1), 0.9 / 4 + 0.1),
    ("biased-consistency", (1, 0, 0, 1, 1), 0.55),
    ("always-think", (0, 1, 1, 1, 1), 1.0),  # whatever the label says
    ("never-think", (1, 1, 1, 1, 1), 0.1),
]


@pytest.mark.parametrize(("name", "values", "paid"), FORMULAS)
def test_formula(name, values, paid):
    judging, d1, d2, d3, answer = values
    c = Components(1, answer, judging, d1, d2, d3, decision="think", trace="written")
    assert REWARDS[name](c) == pytest.approx(paid)


@pytest.mark.parametrize(
    ("name", "needs_thinking", "paid"),
    [
        ("cascade", False, 1.0),
        ("cascade", True, 0.1),
        ("never-think", True, 1.0),
        ("always-think", False, 0.1),
        ("thinking+answer", True, 1.0),  # without the judging reward, labels must not leak in
        ("thinking+answer-labelled", True, 0.1),
        ("thinking+answer-labelled", False, 1.0),
    ],
)
def test_a_direct_answer(name, needs_thinking, paid):
    assert REWARDS[name](components(DIRECT, needs_thinking)) == paid


def test_without_a_verdict_there_is_no_total_where_scores_are_needed():
    unjudged = components(THOUGHT, True)
    wrong = components(THOUGHT, True, gold="6")  # a wrong answer does not make the verdict superfluous
    for reward in REWARDS.values():
        assert (reward(unjudged) is None) == (reward(wrong) is None) == reward.needs_scores
    free = {name for name, reward in REWARDS.items() if not reward.needs_scores}
    assert free == {"answer-only", "judging+answer", "never-think"}


scores = st.none() | st.builds(Scores, *[st.floats(0, 1)] * 3)
texts = st.one_of(
    st.text(),
    st.sampled_from([THOUGHT, DIRECT, CHEAT, UNCLOSED]).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda i: text[:i] + "x" + text[i:])
    ),
)


@given(texts, st.booleans(), scores, st.sampled_from(list(REWARDS.values())), st.floats(0, 1))
def test_every_reward_is_in_range_and_pays_no_malformed_response(
    text, needs_thinking, verdict, reward, progress
):
    c = components(text, needs_thinking, verdict)
    total = reward(c, progress)
    if not c.format:
        assert total == 0  # known without any verdict
    elif total is None:
        assert reward.needs_scores and verdict is None and c.trace == "written"
    else:
        assert 0 <= total <= 1 + 1e-12


def test_declaring_direct_and_thinking_all_the_same_pays_nothing_but_is_logged():
    c = components(CHEAT, False, GOOD)
    assert (c.answer, c.judging, c.thinking) == (1, 1, 1)
    assert {reward(c) for reward in REWARDS.values()} == {0}


@pytest.mark.parametrize(
    ("progress", "share"), [(-1, 0), (0, 0), (0.2, 0), (0.5, 0.5), (0.8, 1), (1, 1), (2, 1)]
)
def test_anneal_moves_from_additive_to_cascade(progress, share):
    additive, cascade = (
        Combination("a", ("judging", "answer"), "mean"),
        Combination("b", ("judging", "answer")),
    )
    c = Components(1, 1, 0, 1, 1, 1, "think", "written")
    expected = (1 - share) * 0.55 + share * 0.1
    assert Anneal("x", additive, cascade, begin=0.2, end=0.8)(c, progress) == pytest.approx(expected)


def test_any_alpha():
    c = Components(1, 0, 1, 1, 1, 1, "think", "written")
    assert [get_reward("cascade", alpha)(c) for alpha in (0, 0.5, 0.9, 1)] == [1, 0.5, 0.1, 0]
    assert get_reward("anneal", 0.5)(c, progress=1.0) == 0.5


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("cascade", "0.9 * (judging * thinking * answer) + 0.1 * format"),
        ("additive", "0.9 * (judging + thinking + answer) / 3 + 0.1 * format"),
        ("additive-bare", "(judging + thinking + answer) / 3"),
        ("never-think", "0.9 * (mode=direct * answer) + 0.1 * format"),
    ],
)
def test_rewards_print_their_formula(name, formula):
    assert REWARDS[name].formula == formula and repr(REWARDS[name]) == f"<{name}: {formula}>"


def test_names_and_alpha_are_printed():
    assert repr(replace(REWARDS["answer-only"], alpha=0.5)) == "<answer-only: 0.5 * answer + 0.5 * format>"
    assert all(name == reward.name for name, reward in REWARDS.items())


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: get_reward("additiv"), "unknown reward 'additiv'; did you mean additive?"),
        (lambda: get_reward("zzz"), "unknown reward 'zzz'; choose one of cascade, additive, "),
        (
            lambda: Combination("mine", ("juding",)),
            "reward mine: unknown term 'juding'; known: judging, answer",
        ),
        (lambda: Combination("mine", ()), "reward mine: needs terms"),
        (
            lambda: get_reward("cascade", 1.5),
            "reward cascade: needs terms, a product or mean, and alpha from 0",
        ),
        (lambda: replace(REWARDS["anneal"], begin=1.0), "reward anneal: needs 0 <= begin < end <= 1"),
    ],
)
def test_mistakes_get_one_clear_line(action, message):
    with pytest.raises(SailRLError) as error:
        action()
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [1.5, -0.1, float("nan"), float("inf"), True, "1", None])
def test_scores_must_be_numbers_from_0_to_1(bad):
    with pytest.raises(ValueError, match="score grounding must be a number from 0 to 1"):
        Scores(1, bad, 1)


def test_rewards_need_no_torch():
    code = "import sys, sailrl_lite.rewards; print('torch' in sys.modules, 'sympy' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["False", "False"]
