r"""Two answers, each of some kind: are they the same? One function per kind, and a few for mixed pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from sailrl_lite.answers.kinds import Answer, end_of_sentence, words
from sailrl_lite.answers.mathematics import Budget
from sailrl_lite.answers.reading import read
from sailrl_lite.answers.units import conversion


def same(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """Compare as what both are; where the kinds differ, only where one kind can stand for the other."""
    if (
        gold.name and predicted.name and gold.name != predicted.name
    ):  # x = 5 is not y = 5; two lines may be one
        lines = gold.kind == predicted.kind == "math" and bool(gold.whole and predicted.whole)
        return lines and budget.equal(gold.whole, predicted.whole)
    if gold.text == predicted.text:
        return True
    kinds = {gold.kind, predicted.kind}
    if "equation" in kinds:
        return _same_equation(gold, predicted, budget)
    if kinds <= {"number", "math"} or kinds == {"letter", "math"}:
        return _same_quantity(gold, predicted, budget)
    if len(kinds) == 1:
        return _SAME[gold.kind](gold, predicted, budget)
    if "word" in kinds:
        return words(gold.text) == words(predicted.text) or _same_sentence(gold, predicted, budget)
    if kinds in ({"list", "set"}, {"list", "brackets"}) or (
        kinds & {"list", "set"} and kinds & {"number", "math"}
    ):
        return _same_parts(gold, predicted, budget)
    if kinds & {"relation", "math"} and kinds <= {
        "relation",
        "math",
        "brackets",
        "set",
    }:  # x > 5 is (5, \infty)
        return _same_as_latex(gold, predicted, budget)
    return False


def _same_value(gold: Answer, predicted: Answer, _: Budget) -> bool:
    return bool(gold.value == predicted.value)


def _same_words(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    return gold.value == predicted.value or _same_sentence(gold, predicted, budget)


def _same_sentence(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """A sentence against something shorter: does it end in that, as "The ball is blue" ends in "blue"?"""
    endings = [end_of_sentence(answer.text) if answer.kind == "word" else "" for answer in (gold, predicted)]
    if bool(endings[0]) == bool(endings[1]):
        return False
    ending = read(endings[0] or endings[1])
    if ending.kind == "word" and end_of_sentence(ending.text):
        return False
    return same(ending, predicted, budget) if endings[0] else same(gold, ending, budget)


def _same_clock(gold: Answer, predicted: Answer, _: Budget) -> bool:
    """ "3:05 pm" is "15:05", and also "3:05", since only one of the two says which half of the day."""
    (*gold_time, gold_half), (*time, half) = gold.value, predicted.value
    if gold_half == half or gold_time == time:
        return gold_time == time
    bare, full = (time, gold_time) if gold_half else (gold_time, time)
    return bare[0] <= 12 and bare[0] % 12 == full[0] % 12 and bare[1:] == full[1:]


def _same_quantity(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """Numbers and expressions, with their units."""
    factor = conversion(gold.unit, predicted.unit)
    if factor is None:
        return False
    if gold.kind == predicted.kind == "number":
        return bool(gold.value == predicted.value * factor)
    latex = _latex(predicted)
    return budget.equal(_latex(gold), latex if factor == 1 else rf"{_fraction(factor)}\cdot({latex})")


def _same_equation(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """Two equations by math-verify; against a value, one must be true and end in it: `3+4=7`, not `8=7`."""
    if gold.whole and predicted.whole:
        return budget.equal(gold.whole, predicted.whole)
    if gold.kind == predicted.kind:
        return False
    equation, value = (gold, predicted) if gold.kind == "equation" else (predicted, gold)
    chain = [value, *reversed(equation.value)]
    return all(same(one, next_one, budget) for one, next_one in pairwise(chain))


def _same_ratio(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """a:b is c:d where ad = bc, and none of the ratios is 0:0."""
    pairs = list(zip(gold.value, predicted.value, strict=False))
    if len(gold.value) != len(predicted.value):
        return False
    if any(part.kind == "math" for pair in pairs for part in pair):
        first, other = map(_latex, pairs[0])
        return all(
            budget.equal(rf"({_latex(a)})\cdot({other})", rf"({_latex(b)})\cdot({first})")
            for a, b in pairs[1:]
        )
    numbers = [(a.value, b.value) for a, b in pairs]
    pivot = next((pair for pair in numbers if pair[0]), (0, 0))
    return bool(pivot[0] and pivot[1]) and all(a * pivot[1] == b * pivot[0] for a, b in numbers)


def _same_parts(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """Brackets keep their order; sets and bare lists have none, and a set does not count repeats."""
    first, other = list(_parts(gold)), list(_parts(predicted))
    brackets = [answer.value[:2] for answer in (gold, predicted) if answer.kind == "brackets"]
    if brackets:  # a bare list may stand for a tuple, but not for an interval
        if brackets[0] != (brackets[1] if len(brackets) == 2 else ("(", ")")):
            return False
        return len(first) == len(other) and all(same(a, b, budget) for a, b in zip(first, other, strict=True))
    if "set" in (gold.kind, predicted.kind):
        first, other = _without_repeats(first, budget), _without_repeats(other, budget)
    for part in first:
        twin = next((place for place, candidate in enumerate(other) if same(part, candidate, budget)), None)
        if twin is None:
            return False
        del other[twin]
    return not other


def _without_repeats(parts: Sequence[Answer], budget: Budget) -> list[Answer]:
    distinct: list[Answer] = []
    for part in parts:
        if not any(same(part, before, budget) for before in distinct):
            distinct.append(part)
    return distinct


def _same_as_latex(gold: Answer, predicted: Answer, budget: Budget) -> bool:
    """Inequalities, intervals and unions: math-verify knows them as sets."""
    if gold.text.replace(" ", "") == predicted.text.replace(" ", ""):
        return True
    first, other = _latex(gold), _latex(predicted)
    return bool(first and other) and budget.equal(first, other)


def _parts(answer: Answer) -> Sequence[Answer]:
    if answer.kind == "brackets":
        return answer.value[2]
    return answer.value if answer.kind in ("list", "set") else [answer]


def _fraction(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _latex(answer: Answer) -> str:
    """LaTeX of a number, a variable, mathematics, an interval or a set; empty where there is none."""
    if answer.kind == "number":
        return _fraction(answer.value)
    if answer.kind in ("math", "relation"):
        return str(answer.value)
    if answer.kind == "letter":  # a variable, then
        return str(answer.value).lower()
    parts = [_latex(part) for part in _parts(answer)] if answer.kind in ("brackets", "set") else []
    if not all(parts) or (answer.kind == "brackets" and len(parts) != 2):
        return ""
    opening, closing = answer.value[:2] if answer.kind == "brackets" else (r"\{", r"\}")
    return opening + ",".join(parts) + closing


_SAME: dict[str, Callable[[Answer, Answer, Budget], bool]] = {
    "word": _same_words,
    "letter": _same_value,
    "date": _same_value,
    "clock": _same_clock,
    "ratio": _same_ratio,
    "list": _same_parts,
    "set": _same_parts,
    "brackets": _same_parts,
    "relation": _same_as_latex,
}
