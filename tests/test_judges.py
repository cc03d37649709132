"""The noisy judge: wrong at the rates that were set, and always about the same responses."""

import asyncio
import math
import random
from dataclasses import replace

import pytest

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.judges.noisy import NoisyJudge
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Verdict
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import ERRORS, err, solve
from sailrl_lite.world.traces import write_trace


def cases(per_family, split="train", first=0):
    """Clean and erring traces of every family, half and half."""
    made = []
    for family in FAMILIES:
        for seed in range(first, first + per_family):
            problem, rng = make_problem(family, seed, split), random.Random(seed)
            lesson = err(problem, rng.choice(ERRORS), rng) if seed % 2 else None
            think = lesson.trace if lesson else write_trace(solve(problem))
            answer = lesson.answer if lesson else problem.gold
            made.append(Case(problem.question, think, answer, problem.image, problem))
    return made


def ask(judge, shown, **options):
    return asyncio.run(judge.judge(shown, **options))


@pytest.fixture(scope="module")
def many():
    return cases(300)


@pytest.fixture(scope="module")
def truth(many):
    return ask(ExactJudge(), many)


def turned(before, after, dimension, score):
    """How many scores of a dimension that were `score` have changed, of how many."""
    pairs = [(b.values[dimension], a.values[dimension]) for b, a in zip(before, after, strict=True)]
    return sum(b == score != a for b, a in pairs), sum(b == score for b, a in pairs)


def assert_near(count, total, rate):
    assert total > 300
    assert abs(count - total * rate) <= 4 * math.sqrt(total * rate * (1 - rate)), (count, total, rate)


def test_scores_turn_at_the_rates_of_their_dimension(many, truth):
    passes, fails = {"logic": 0.3, "grounding": 0.1}, {"logic": 0.05, "consistency": 0.5}
    found = ask(NoisyJudge(ExactJudge(), passes, fails, seed=1), many)
    for dimension in DIMENSIONS:
        assert_near(*turned(truth, found, dimension, 0), passes.get(dimension, 0))
        assert_near(*turned(truth, found, dimension, 1), fails.get(dimension, 0))


def test_dimensions_turn_independently_and_each_seed_turns_others(many, truth):
    one, two = (ask(NoisyJudge(ExactJudge(), 0.5, 0.5, seed=seed), many) for seed in (1, 2))
    flips = [[a.values[d] != t.values[d] for d in DIMENSIONS] for a, t in zip(one, truth, strict=True)]
    assert_near(sum(f[0] and f[1] for f in flips), len(flips), 0.25)
    assert_near(sum(f[0] and f[1] and f[2] for f in flips), len(flips), 0.125)
    assert_near(sum(a.logic == b.logic for a, b in zip(one, two, strict=True)), len(one), 0.5)


def test_the_same_response_gets_the_same_verdict_in_any_order_batch_and_call(many):
    judge, some = NoisyJudge(ExactJudge(), 0.4, 0.4), many[:300]
    found = ask(judge, some)
    assert ask(NoisyJudge(ExactJudge(), 0.4, 0.4), some[::-1], sample=3)[::-1] == found
    assert [ask(judge, [case])[0] for case in some[:40]] == found[:40]


class Passes(Judge):
    """Knows no problems and lets everything pass."""

    name = "passes"
    paid = True
    stopped = "the budget is spent"

    async def judge(self, cases, continuous=False, sample=0):
        return [Verdict(dict.fromkeys(DIMENSIONS, 0.5 if continuous else 1), {"logic": "why"}) for _ in cases]

    def usage(self):
        return {"calls": 7.0}


@pytest.mark.parametrize("part", ["question", "think", "answer", "image", "problem"])
def test_every_part_of_a_response_matters(many, part):
    other = {"question": "?", "think": "1+1=2", "answer": None, "problem": many[-1].problem}
    shown = many[:200] if part == "problem" else [replace(case, problem=None) for case in many[:200]]
    other["image"] = many[-1].image
    judge = NoisyJudge(Passes(), 0.0, 0.5)
    first, second = ask(judge, shown), ask(judge, [replace(case, **{part: other[part]}) for case in shown])
    assert 60 < sum(a.logic != b.logic for a, b in zip(first, second, strict=True)) < 140


def test_rates_of_zero_and_one_are_exact(many, truth):
    assert ask(NoisyJudge(ExactJudge()), many) == truth
    found = ask(NoisyJudge(ExactJudge(), 1, 1.0), many)
    assert all(a.values[d] == 1 - t.values[d] for a, t in zip(found, truth, strict=True) for d in DIMENSIONS)


def test_continuous_scores_turn_into_one_and_zero_and_no_other(many):
    plain = ask(ExactJudge(), many, continuous=True)
    judge = NoisyJudge(ExactJudge(), 0.3, 0.2)
    found = ask(judge, many, continuous=True)
    pairs = [(p.values[d], f.values[d]) for p, f in zip(plain, found, strict=True) for d in DIMENSIONS]
    between = [(p, f) for p, f in pairs if 0 < p < 1]
    assert_near(sum(f == 1 for _, f in between), len(between), 0.3)
    assert_near(sum(f == 0 for _, f in between), len(between), 0.2)
    assert all(f in (0, 1, p) for p, f in between)
    # What passes is the same whichever way it is asked.
    assert [v.scores.binary() for v in found] == [v.scores for v in ask(judge, many)]


def test_a_turned_score_loses_its_reason_and_the_others_keep_theirs(many, truth):
    for case_truth, found in zip(truth, ask(NoisyJudge(ExactJudge(), {"logic": 0.5}), many), strict=True):
        kept = {d: r for d, r in case_truth.reasons.items() if found.values[d] == 0}
        assert found.reasons == kept
    assert any("logic" in t.reasons for t in truth)


class Silent(Passes):
    async def judge(self, cases, continuous=False, sample=0):
        return [NoVerdict("timeout", "30 s") for _ in cases]


def test_no_verdict_and_the_books_of_the_inner_judge_pass_through(many):
    assert ask(NoisyJudge(Silent(), 1, 1), many[:3]) == [NoVerdict("timeout", "30 s")] * 3
    noisy = NoisyJudge(Passes(), 0.1)
    assert (noisy.paid, noisy.stopped, noisy.usage()) == (True, "the budget is spent", {"calls": 7.0})
    assert not NoisyJudge(ExactJudge()).paid and "exact" in NoisyJudge(ExactJudge()).name


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((1.5, 0), "false_pass must be a rate"),
        ((0, -0.1), "false_fail must be a rate"),
        ((float("nan"), 0), "false_pass must be a rate"),
        (("0.1", 0), "false_pass must be a rate"),
        (({"logic": 2}, 0), "not 2"),
        ((0, {"logik": 0.1}), "unknown dimension 'logik'"),
    ],
)
def test_a_bad_rate_is_named_in_one_line(rates, words):
    with pytest.raises(SailRLError) as error:
        NoisyJudge(ExactJudge(), *rates)
    assert words in str(error.value) and "\n" not in str(error.value)
