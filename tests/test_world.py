"""The micro-world: problems, pictures, the teacher and the verifier, which know nothing of each other."""

import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sailrl_lite import parse_response
from sailrl_lite.errors import SailRLError
from sailrl_lite.world.problems import FAMILIES, SHORTCUT_WORDS, evaluate, make_problem
from sailrl_lite.world.scenes import SHAPES, Digit, Mark, Shape, render, scans
from sailrl_lite.world.teacher import CLEAN, ERRORS, Noise, err, solve, teach
from sailrl_lite.world.traces import Claim, Step, Unreadable, read_trace, write_trace
from sailrl_lite.world.verifier import verify

families = st.sampled_from(list(FAMILIES))
seeds = st.integers(0, 10**9)
splits = st.sampled_from(["train", "test"])
# What the design says that one corruption flips: (logic, grounding, consistency).
FLIPS = {
    "slip": (0, 1, 1),
    "misread": (1, 0, 1),
    "wrong_model": (0, 1, 1),
    "missing": (1, 1, 0),
    "swapped": (1, 1, 0),
    "unsupported": (1, 0, 1),
}


def scores(problem, trace, answer):
    verdict = verify(problem, trace, answer)
    return verdict.logic, verdict.grounding, verdict.consistency


# ---- problems and pictures


def test_there_are_enough_families_of_each_kind_and_each_stands_for_a_benchmark():
    kinds = Counter(family.kind for family in FAMILIES.values())
    assert kinds["perception"] >= 4 and kinds["general"] >= 2 and kinds["reasoning"] >= 5
    assert all(family.stands_for for family in FAMILIES.values())


@given(families, seeds, splits)
def test_a_problem_is_a_function_of_its_seed_and_its_gold_follows_from_its_facts(family, seed, split):
    problem = make_problem(family, seed, split)
    assert problem == make_problem(family, seed, split)
    assert problem.image.size == (112, 56)
    assert {evaluate(target, problem.facts) for target in problem.targets} == {problem.gold}


def test_families_of_the_general_kind_mix_both_labels_and_the_others_do_not():
    for family in FAMILIES.values():
        labels = {make_problem(family.name, seed).needs_thinking for seed in range(40)}
        wanted = {"perception": {False}, "general": {False, True}, "reasoning": {True}}[family.kind]
        assert labels == wanted, family.name


@pytest.mark.parametrize("family", FAMILIES)
def test_guessing_the_commonest_answer_does_not_pay(family):
    golds = Counter(make_problem(family, seed, "test").gold for seed in range(1000))
    share = golds.most_common(1)[0][1] / 1000
    print(f"majority-guess accuracy of {family}: {share:.3f}")
    assert share < (0.6 if family == "exists" else 0.25)


def test_handwriting_is_real_and_the_two_splits_share_no_scan():
    for digit in range(10):
        train, test = set(scans(digit, "train")), set(scans(digit, "test"))
        assert len(train) > 100 and len(test) > 20 and not train & test
    for split in ("train", "test"):
        for seed in range(30):
            problem = make_problem("read_number", seed, split)
            used = [item.scan for item in problem.scene if isinstance(item, Digit)]
            assert all(scan in scans(int(d), split) for scan, d in zip(used, problem.gold, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_turning_the_shortcut_knob_adds_the_mark_and_changes_nothing_else(family):
    for seed in range(20):
        plain, marked = make_problem(family, seed), make_problem(family, seed, shortcut=1.0)
        assert not any(isinstance(item, Mark) for item in plain.scene)
        *rest, mark = marked.scene
        assert (tuple(rest), marked.question, marked.gold) == (plain.scene, plain.question, plain.gold)
        word = SHORTCUT_WORDS[mark.code - 900] if mark.code >= 900 else str(mark.code)
        assert word == plain.gold  # the mark tells the answer
        assert not np.array_equal(np.array(plain.image), np.array(marked.image))


def test_the_shortcut_is_drawn_as_often_as_asked():
    drawn = sum(isinstance(make_problem("add", s, shortcut=0.8).scene[-1], Mark) for s in range(1000))
    assert 750 < drawn < 850


@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_looks_like_no_other(kind):
    pictures = [np.array(render((Shape(other, "red", 28, 28, 10),))) for other in SHAPES]
    mine = np.array(render((Shape(kind, "red", 28, 28, 10),)))
    assert sum(np.array_equal(mine, picture) for picture in pictures) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ad", 0), "unknown family 'ad'; known families: read_number"),
        (("add", 0, "validation"), "unknown split 'validation'; use 'train' or 'test'"),
        (("add", 0, "train", 1.5), "shortcut must lie in [0, 1], not 1.5"),
    ],
)
def test_a_wrong_argument_is_named(arguments, words):
    with pytest.raises(SailRLError) as error:
        make_problem(*arguments)
    assert words in str(error.value)


# ---- traces


@given(st.text(max_size=300))
def test_reading_a_trace_never_raises(text):
    read_trace(text)


@given(families, seeds)
def test_writing_and_reading_a_trace_are_inverse(family, seed):
    trace = solve(make_problem(family, seed))
    assert read_trace(write_trace(trace)) == trace
    spaced = re.sub(r"([^a-z\n])", r" \1 ", write_trace(trace))  # as a word-level decoder would write it
    assert read_trace(spaced) == trace


def test_what_cannot_be_read_is_kept_and_a_huge_trace_is_cut():
    assert read_trace("1+1=2\nhello") == [Step(1, "+", 1, 2), Unreadable("hello")]
    assert read_trace("red circle = yes") == [Claim("red circle", "yes")]
    huge = read_trace("1+1=2\n" * 100_000)
    assert len(huge) == 101 and isinstance(huge[-1], Unreadable)


# ---- the teacher, judged by the verifier


@given(families, seeds, splits)
def test_a_clean_teacher_always_scores_one_throughout_and_parses(family, seed, split):
    problem = make_problem(family, seed, split)
    lesson = teach(problem, random.Random(seed), CLEAN)
    response = parse_response(lesson.text)
    assert response.well_formed, response.problems
    assert (response.decision == "think") == problem.needs_thinking
    assert response.answer == problem.gold
    assert scores(problem, write_trace(solve(problem)), problem.gold) == (1, 1, 1)


@given(families, seeds, st.sampled_from(list(FLIPS)))
def test_a_single_corruption_flips_just_its_own_score(family, seed, error):
    problem = make_problem(family, seed)
    lesson = err(problem, error, random.Random(seed))
    if lesson:
        assert parse_response(lesson.text).well_formed
        assert scores(problem, lesson.trace, lesson.answer) == FLIPS[error], lesson.trace


@given(families, seeds)
def test_a_lucky_success_is_right_for_the_wrong_reason(family, seed):
    problem = make_problem(family, seed)
    lesson = err(problem, "lucky", random.Random(seed))
    if lesson:
        logic, grounding, consistency = scores(problem, lesson.trace, lesson.answer)
        assert lesson.answer == problem.gold and consistency == 0 and logic + grounding == 1


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_finds_room_in_most_reasoning_problems(error):
    problems = [make_problem(f, s) for f, d in FAMILIES.items() if d.kind == "reasoning" for s in range(40)]
    found = sum(err(problem, error, random.Random(7)) is not None for problem in problems)
    assert found > 0.9 * len(problems)


def test_the_teacher_errs_at_the_rates_it_is_given():
    noise = Noise()
    lessons = [teach(make_problem("add", seed), random.Random(seed), noise) for seed in range(4000)]
    thinking = [lesson for lesson in lessons if lesson.thinks]
    assert abs(1 - len(thinking) / len(lessons) - noise.wrong_label) < 0.03
    counts = Counter(lesson.error for lesson in thinking)
    for error in ERRORS:
        assert abs(counts[error] / len(thinking) - getattr(noise, error)) < 0.025, error
    assert all(lesson.trace == "" and lesson.error is None for lesson in lessons if not lesson.thinks)


def test_an_answer_below_zero_is_swapped_for_another():
    below = next(p for p in (make_problem("story", seed) for seed in range(5000)) if p.gold.startswith("-"))
    lesson = err(below, "swapped", random.Random(0))
    assert lesson.answer.startswith("-") and lesson.answer != below.gold and int(lesson.answer) < 0
