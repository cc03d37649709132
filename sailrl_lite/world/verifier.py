"""The exact judge of the micro-world: reads a thinking trace and decides logic, grounding and consistency.

It starts from the truth of the problem alone and knows nothing of the teacher. A trace is read once, from top
to bottom. Every number that has been said keeps the *forms* it may stand for: linear combinations of what the
problem asks about. A slip leaves the form as it should be; a wrong operation on right numbers does not.
"""

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from sailrl_lite.answers import equivalent
from sailrl_lite.judges.protocol import DIMENSIONS, Dimension, Scores
from sailrl_lite.world.traces import Claim, Statement, Step, calculate, read_trace

if TYPE_CHECKING:
    from sailrl_lite.world.problems import Problem, Quantity


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one statement, or about the answer: what it counts for and where it failed."""

    statement: Statement | str
    counts_for: tuple[Dimension, ...]
    failed: tuple[Dimension, ...] = ()
    reason: str = ""

    @property
    def passed(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        return f"{self.statement}: " + ("ok" if self.passed else f"{', '.join(self.failed)}: {self.reason}")


@dataclass(frozen=True)
class Verdict:
    """All findings, in the order of the trace; the last one is about the answer.

    A score is 1 exactly if nothing that counts for it failed. The continuous score is the share that passed:
    of the steps and the answer for logic and consistency (for logic also claims that contradict an earlier
    one), of the claims and the unreadable lines for grounding; 1.0 where there is nothing to count. A trace
    without a readable statement scores 0 throughout.
    """

    findings: tuple[Finding, ...]

    @property
    def logic(self) -> int:
        return self._all("logic")

    @property
    def grounding(self) -> int:
        return self._all("grounding")

    @property
    def consistency(self) -> int:
        return self._all("consistency")

    @property
    def continuous(self) -> Scores:
        return Scores(*(self._share(dimension) for dimension in DIMENSIONS))

    def scores(self, continuous: bool = False) -> Scores:
        return self.continuous if continuous else Scores(self.logic, self.grounding, self.consistency)

    def _all(self, dimension: Dimension) -> int:
        return int(not any(dimension in finding.failed for finding in self.findings))

    def _share(self, dimension: Dimension) -> float:
        # Each statement once: saying a true thing again does not make a false one smaller.
        passed: dict[str, bool] = {}
        for finding in self.findings:
            if dimension in finding.counts_for:
                said = str(finding.statement)
                passed[said] = passed.get(said, True) and dimension not in finding.failed
        return sum(passed.values()) / len(passed) if passed else 1.0

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


def verify(problem: "Problem", trace: str, answer: str | None) -> Verdict:
    """Judge a trace and the answer that follows it. Never raises, whatever the two hold.

    >>> from sailrl_lite.world.problems import make_problem
    >>> problem = make_problem("angle", 0)
    >>> problem.facts["left"].value, problem.facts["right"].value, problem.gold
    ('80', '55', '45')
    >>> print(verify(problem, "left=80\\nright=50\\n180-80=90\\n90-50=40", "45"))
    left=80: ok
    right=50: grounding: right is 55, not 50
    180-80=90: logic: 180-80 is 100, not 90
    90-50=40: ok
    answer 45: consistency: the reasoning ends on 40
    >>> verify(problem, "left=80\\nright=55\\n180-80=100\\n100+55=155", "155").scores()
    Scores(logic=0, grounding=1, consistency=1)
    """
    statements = read_trace(trace)
    reader = _Reader(problem, statements, answer)
    if reader.misfit and reader.ends_right:
        # Perhaps no wrong model, but a gap: a number was said as one thing and is used as another.
        other = _Reader(problem, statements, answer, reader.unsaid())
        reader = reader if other.misfit else other
    return Verdict(tuple(reader.findings))


# Coefficients of: the constant, the tens and units of each fact in the targets, all else. None is the form of
# a number that came out of a gap; it gets the benefit of the doubt.
_Form = tuple[int, ...]
_Forms = list[_Form | None]
_Value = int | str
_Said = tuple[_Value, _Form]  # a number and what it stands for

_OPERATORS = {"+": operator.add, "-": operator.sub}
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_MOST_FORMS = 16  # of one number; ordinary traces need a handful
_LARGEST = 10**6  # coefficient; a larger one is no part of any target


def _value(text: str) -> _Value:
    return int(text) if _NUMBER.fullmatch(text) else text


def _answer_value(answer: str) -> _Value:
    """The number or word that an answer says: "4 7" is 47, "Red." is red."""
    plain = answer.strip().lower().removesuffix(".")
    return _value(re.sub(r"(?<=[0-9])\s+(?=[0-9])", "", plain) if len(plain) < 100 else plain)


def _dot(form: _Form, worth: list[int]) -> int:
    return sum(map(operator.mul, form, worth))


class _Reader:
    """What a trace has said so far, what it may stand for, and what was found about it.

    What is `assumed` lends the numbers of a trace further forms, but is not stated by it.
    """

    def __init__(
        self,
        problem: "Problem",
        statements: list[Statement],
        answer: str | None,
        assumed: Sequence[_Said] = (),
    ) -> None:
        self.facts = problem.facts
        terms = [term for target in problem.targets for term in target]
        stated = {n: _value(f.value) for n, f in self.facts.items() if f.source != "image"}
        self.constants = {name: value for name, value in stated.items() if isinstance(value, int)}
        names = dict.fromkeys(t.name for t in terms if t.name and t.name not in self.constants)
        self.places = {name: 1 + 2 * k for k, name in enumerate(names)}  # of the tens; the units come next
        self.size = 2 + 2 * len(names)
        self.elsewhere = self._form(self.size - 1)
        self.targets = [self._target(quantity) for quantity in problem.targets]
        self.ways = self.targets + [tuple(-c for c in target) for target in self.targets]

        # A factor of 1 is not said: "top" is no product. One without a name is a number of its own, as 180.
        factors = [abs(t.factor) for t in terms if not t.name or abs(t.factor) != 1]
        written = [int(number) for number in re.findall(r"[0-9]{1,9}", problem.question)]
        numbers = dict.fromkeys((*self.constants.values(), *factors, *written))
        self.known: dict[_Value, _Forms] = {number: [self._form(0, factor=number)] for number in numbers}
        self.stated = set[_Value](self.known)
        self.claimed: dict[str, _Value] = {}
        self.ending: tuple[_Value, _Forms] | None = None  # of the last readable statement
        self.worked_out = False  # whether that one is a step
        self.misfit = False  # whether the trace is no right model of the problem
        self.assumed = assumed
        for number, form in assumed:
            self._learn(number, [form])

        self.findings = [self._read(statement) for statement in statements]
        self.findings.append(self._conclude(answer))

    @property
    def ends_right(self) -> bool:
        """Whether the last statement is a step and comes to what is asked, given the facts as claimed."""
        if not (self.ending and self.worked_out and (worth := self._worth())):
            return False
        return any(_dot(target, worth) == self.ending[0] for target in self.targets)

    def unsaid(self) -> list[_Said]:
        """What the trace could have said: facts that it left out, and parts of the targets worked out."""
        missing = [name for name in self.places if name not in self.claimed]
        said = [part for name in missing for part in self._parts(name, _value(self.facts[name].value))]
        worth = self._worth()
        for whole in product((0, 1), repeat=1 + len(self.places)):
            for digits in ((1, 1), (1, 0), (0, 1)):
                mask = (whole[0], *(w * d for w in whole[1:] for d in digits), 0)
                forms = (tuple(map(operator.mul, way, mask)) for way in self.ways)
                said += [(_dot(form, worth), form) for form in forms]
        return said

    def _worth(self) -> list[int]:
        """What each place of a form counts for, with the facts as claimed or else as true; [] for words."""
        values = [self.claimed.get(name, _value(self.facts[name].value)) for name in self.places]
        if any(isinstance(value, str) for value in values):
            return []
        return [1, *(part for v in map(int, values) for part in (v - v % 10, v % 10)), 0]

    def _read(self, statement: Statement) -> Finding:
        if isinstance(statement, Step):
            return self._step(statement)
        if isinstance(statement, Claim):
            return self._claim(statement)
        return Finding(statement, ("grounding",), ("grounding",), "this cannot be read")

    def _conclude(self, answer: str | None) -> Finding:
        """The answer must be what the last statement says, and that must be what is asked."""
        said = "no answer" if answer is None else f"answer {answer[:50]}"
        if self.ending is None:
            return Finding(said, DIMENSIONS, DIMENSIONS, "there is no reasoning that can be read")
        value, forms = self.ending
        same = answer is not None and (_answer_value(answer) == value or equivalent(str(value), answer))
        if not same:
            return Finding(said, ("consistency",), ("consistency",), f"the reasoning ends on {value}")
        if not any(form is None or form in self.targets for form in forms):
            self.misfit = True
            return Finding(said, ("logic", "consistency"), ("logic",), "this is not what is asked")
        if self.assumed:
            gap = "this uses a number as something that was never said"
            return Finding(said, ("logic", "consistency"), ("consistency",), gap)
        return Finding(said, ("logic", "consistency"))

    def _claim(self, claim: Claim) -> Finding:
        name, value, fact = claim.name, _value(claim.value), self.facts.get(claim.name)
        counts_for: tuple[Dimension, ...] = ("grounding",)
        failed: tuple[Dimension, ...] = ()
        reasons = []
        if fact is None or _value(fact.value) != value:
            failed = ("grounding",)
            reasons = [f"{name} is {fact.value}, not {value}" if fact else f"nothing says what {name} is"]
        if (before := self.claimed.setdefault(name, value)) != value:
            counts_for, failed = ("logic", "grounding"), ("logic", *failed)
            reasons.append(f"{name} was {before} before")
        parts = self._parts(name, value)
        # A name of the trace's own making may still repeat a number that has been worked out.
        self.worked_out = False
        self.ending = value, [parts[0][1], *([] if fact else self.known.get(value, []))]
        for number, form in parts:
            self.stated.add(number)
            self._learn(number, [form])
        return Finding(claim, counts_for, failed, "; ".join(reasons))

    def _step(self, step: Step) -> Finding:
        operands = dict.fromkeys((step.left, step.right))
        said = f"{step.left}{step.op}{step.right}"
        logic: list[str] = []
        if (right := calculate(step.left, step.op, step.right)) != step.result:
            logic.append(f"{said} is {right}, not {step.result}")
        gaps = [f"{n} was never stated" for n in operands if n not in self.stated]
        if len(gaps) == len(operands):  # one gap may be a step left out; this is arithmetic about nothing
            self.misfit = True
            logic.append(f"{said} has nothing to do with the question")
        forms = self._combine(self.known.get(step.left, [None]), step.op, self.known.get(step.right, [None]))
        if fitting := [form for form in forms if form is None or self._is_part(form)]:
            forms = fitting
        else:
            self.misfit = True
            logic.append(f"{said} is no part of what is asked")
        self.stated.add(step.result)
        self._learn(step.result, forms)
        self.worked_out = True
        self.ending = step.result, forms
        failed: tuple[Dimension, ...] = (*(("logic",) if logic else ()), *(("consistency",) if gaps else ()))
        return Finding(step, ("logic", "consistency"), failed, "; ".join(logic + gaps))

    def _learn(self, number: _Value, forms: _Forms) -> None:
        self.known[number] = list(dict.fromkeys((*forms, *self.known.get(number, ()))))[:_MOST_FORMS]

    def _form(self, *places: int, factor: int = 1) -> _Form:
        form = [0] * self.size
        for place in places:
            form[place] = factor
        return tuple(form)

    def _target(self, quantity: "Quantity") -> _Form:
        form = [0] * self.size
        for term in quantity:
            if term.name in self.places:
                form[self.places[term.name]] += term.factor
                form[self.places[term.name] + 1] += term.factor
            else:
                form[0] += term.factor * self.constants.get(term.name or "", 1)
        return tuple(form)

    def _parts(self, name: str, value: _Value) -> list[_Said]:
        """The numbers that a claim makes known, and what they stand for: the whole, its tens, its units."""
        if name in self.constants:  # misquoted or not, it stands for the constant that it is
            return [(value, self._form(0, factor=self.constants[name]))]
        tens = self.places.get(name, self.size - 1)
        units = min(tens + 1, self.size - 1)
        whole = value, self._form(tens, units)
        if isinstance(value, str) or value < 0:
            return [whole]
        return [whole, (value - value % 10, self._form(tens)), (value % 10, self._form(units))]

    def _combine(self, left: _Forms, op: str, right: _Forms) -> _Forms:
        return list(dict.fromkeys(self._apply(a, op, b) for a in left for b in right))

    def _apply(self, a: _Form | None, op: str, b: _Form | None) -> _Form | None:
        if a is None or b is None:
            return None
        if op in _OPERATORS:
            return tuple(map(_OPERATORS[op], a, b))
        if any(b[1:]):
            a, b = b, a
        if any(b[1:]):  # a product of two facts is no linear combination
            return self.elsewhere
        scaled = tuple(c * b[0] for c in a)
        return scaled if max(map(abs, scaled)) <= _LARGEST else self.elsewhere

    def _is_part(self, form: _Form) -> bool:
        """Whether a form is on the way to a target: all of the constant or nothing, the rest up to its share.

        On the way to 2a - b are a - b and b - a, but neither a + b nor 3a.
        """
        return any(form) and any(
            form[0] in (0, way[0]) and all(0 <= c <= w or w <= c <= 0 for c, w in zip(form, way, strict=True))
            for way in self.ways
        )
