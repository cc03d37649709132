"""The teacher: writes judgment, trace and answer for a problem and, like an LLM teacher, errs at set rates.

A lesson holds at most one error, and says which, so that tests and notebooks can ask whether the verifier,
which never looks in here, finds just that one.
"""

import random
from dataclasses import dataclass, fields
from typing import Literal, get_args

from sailrl_lite.errors import SailRLError
from sailrl_lite.response import render_response
from sailrl_lite.world.problems import Problem, Quantity, evaluate
from sailrl_lite.world.scenes import COLORS, SHAPES, Shape, cell_of
from sailrl_lite.world.traces import Claim, Statement, Step, calculate, write_trace

Error = Literal["slip", "misread", "wrong_model", "missing", "swapped", "unsupported", "lucky"]
ERRORS: tuple[Error, ...] = get_args(Error)


@dataclass(frozen=True)
class Noise:
    """How often the teacher errs, each a probability in [0, 1]; those of a trace exclude one another.

    `wrong_label` is the share of lessons that think where no thinking is needed, or the reverse. A direct
    answer is always right: the teacher knows it, and that is how a model learns to guess. The rates leave
    room for reinforcement learning in every reward; they decide where its curves start, not where they go.
    """

    wrong_label: float = 0.25
    slip: float = 0.12
    misread: float = 0.07
    wrong_model: float = 0.06
    missing: float = 0.12
    swapped: float = 0.04
    unsupported: float = 0.10
    lucky: float = 0.08


CLEAN = Noise(*(0.0 for _ in fields(Noise)))


@dataclass(frozen=True)
class Lesson:
    thinks: bool
    trace: str
    answer: str
    error: Error | None

    @property
    def text(self) -> str:
        return render_response(self.trace, self.answer)


def teach(problem: Problem, rng: random.Random, noise: Noise = CLEAN) -> Lesson:
    """One lesson about a problem, with errors at the rates of `noise`."""
    thinks = problem.needs_thinking != (rng.random() < noise.wrong_label)
    if not thinks:
        return Lesson(False, "", problem.gold, None)
    dice = rng.random()
    for error in ERRORS:
        dice -= getattr(noise, error)
        if dice < 0:
            return err(problem, error, rng) or _lesson(solve(problem), problem.gold)
    return _lesson(solve(problem), problem.gold)


def describe(problem: Problem) -> str:
    """A caption: the shapes in reading order, or else every fact that the picture shows.

    >>> from sailrl_lite.world.problems import make_problem
    >>> print(describe(make_problem("angle", 0)))
    left=80
    right=55
    """
    shapes = sorted(
        (item for item in problem.scene if isinstance(item, Shape)), key=lambda s: cell_of(s.x, s.y)
    )
    if shapes:
        return "\n".join(f"{shape.color} {shape.kind}" for shape in shapes)
    return "\n".join(f"{name}={fact.value}" for name, fact in problem.facts.items() if fact.source == "image")


def solve(problem: Problem) -> list[Statement]:
    """The clean trace: claim what is needed, then work out the first target step by step."""
    return _work(problem, problem.targets[0])


def err(problem: Problem, error: Error, rng: random.Random) -> Lesson | None:
    """A lesson with exactly this error, or None where the problem offers no room for it."""
    trace = solve(problem)
    match error:
        case "slip":
            slipped = _slip(problem, rng)
            return _lesson(slipped, _conclusion(slipped), error) if slipped else None
        case "misread":
            wrong = _misread(problem, rng)
            return _lesson(wrong, _conclusion(wrong), error)
        case "wrong_model":
            if not problem.distractor or evaluate(problem.distractor, problem.facts) == problem.gold:
                return None
            wrong = _work(problem, problem.distractor)
            return _lesson(wrong, _conclusion(wrong), error)
        case "missing":
            for k in rng.sample(range(len(trace)), len(trace)):
                left_out = trace[:k] + trace[k + 1 :]
                if left_out and _has_gap(problem, left_out):
                    return _lesson(left_out, problem.gold, error)
            return None
        case "swapped":
            return _lesson(trace, _another(problem.gold, rng), error)
        case "unsupported":
            foreign = [c for c in _FOREIGN if c.name not in problem.facts]
            at = rng.randrange(len(trace))  # never last: it must not look like the conclusion
            return _lesson([*trace[:at], rng.choice(foreign), *trace[at:]], problem.gold, error)
        case "lucky":
            wrong = (rng.random() < 0.5 and _slip(problem, rng)) or _misread(problem, rng)
            return None if _conclusion(wrong) == problem.gold else _lesson(wrong, problem.gold, error)


_FOREIGN = [Claim(name, value) for name in ("number", "bottom", "third") for value in ("4", "17", "30")]
_FOREIGN += [Claim(kind, color) for kind in SHAPES for color in COLORS]


def _lesson(trace: list[Statement], answer: str, error: Error | None = None) -> Lesson:
    return Lesson(True, write_trace(trace), answer, error)


def _conclusion(trace: list[Statement]) -> str:
    last = trace[-1]
    return str(last.result) if isinstance(last, Step) else last.value if isinstance(last, Claim) else ""


def _work(
    problem: Problem, quantity: Quantity, misread: Claim | None = None, slip: tuple[int, int] | None = None
) -> list[Statement]:
    """Claim every fact of the quantity, then combine its terms in order; two-digit facts by place value.

    `misread` replaces one fact. `slip` is (number of the step, amount by which its result is off); all that
    follows goes on with the wrong result, as a person would.
    """
    claims: list[Claim] = []
    steps: list[Step] = []

    def step(left: int, op: str, right: int) -> int:
        result = calculate(left, op, right)
        if slip and slip[0] == len(steps):
            result += slip[1]
        steps.append(Step(left, op, right, result))
        return result

    needed = {term.name for term in quantity}
    for name, fact in problem.facts.items():
        if name in needed or (fact.source == "question" and len(quantity) > 1):
            value = misread.value if misread and misread.name == name else fact.value
            claims.append(Claim(name, value))
    if len(quantity) == 1:
        return list(claims)
    value_of = {c.name: int(c.value) for c in claims}
    total: int | None = None
    plain = True  # is the total still a fact as it stands in the picture?
    for term in quantity:
        factor = abs(term.factor)
        amount = value_of[term.name] if term.name else factor
        if term.name and factor != 1:
            amount = step(amount, "*", factor)
        if total is None:
            total, plain = amount, factor == 1
        elif plain and term.name and term.factor == 1 and min(total, amount) > 9:
            tens, units = (total - total % 10, amount - amount % 10), (total % 10, amount % 10)
            tens_sum, units_sum = step(tens[0], "+", tens[1]), step(units[0], "+", units[1])
            total, plain = step(tens_sum, "+", units_sum), False
        else:
            total, plain = step(total, "+" if term.factor > 0 else "-", amount), False
    return [*claims, *steps]


def _slip(problem: Problem, rng: random.Random) -> list[Statement] | None:
    steps = [s for s in solve(problem) if isinstance(s, Step)]
    if not steps:
        return None
    at = rng.randrange(len(steps))
    off = rng.choice([d for d in (-10, -2, -1, 1, 2, 10) if steps[at].result + d >= 0])
    return _work(problem, problem.targets[0], slip=(at, off))


def _misread(problem: Problem, rng: random.Random) -> list[Statement]:
    claims = [s for s in solve(problem) if isinstance(s, Claim)]
    chosen = rng.choice(claims)
    return _work(problem, problem.targets[0], misread=Claim(chosen.name, _another(chosen.value, rng)))


def _another(value: str, rng: random.Random) -> str:
    """Another value of the same kind, as near as a misreading would be."""
    for kind in (tuple(COLORS), SHAPES, ("yes", "no")):
        if value in kind:
            return rng.choice([other for other in kind if other != value])
    if value.startswith("-"):
        return "-" + _another(value[1:], rng)
    if not value.isdigit():
        raise SailRLError(
            f"the teacher cannot misread {value!r}: it knows colors, shapes, yes, no and numbers"
        )
    at = rng.randrange(len(value))
    digits = "123456789" if at == 0 else "0123456789"
    return value[:at] + rng.choice([d for d in digits if d != value[at]]) + value[at + 1 :]


def _has_gap(problem: Problem, trace: list[Statement]) -> bool:
    """Does a step use a number that nothing gave, or does the answer not follow from the last statement?"""
    words = problem.question.replace(".", " ").replace("?", " ").split()
    known = {int(w) for w in words if w.isdigit()} | {abs(t.factor) for q in problem.targets for t in q}
    known |= {int(f.value) for f in problem.facts.values() if f.source != "image"}
    for statement in trace:
        if isinstance(statement, Step):
            if not {statement.left, statement.right} <= known:
                return True
            known.add(statement.result)
        elif isinstance(statement, Claim) and statement.value.isdigit():
            value = int(statement.value)
            known |= {value, value % 10, value - value % 10} if value > 9 else {value}
    return _conclusion(trace) != problem.gold
