"""Traces built to fool a judge: each fails some of the three dimensions while it looks right, or the reverse.

A trick starts from the clean trace of a problem and the right answer. It says which dimensions it must flip;
the verifier, written apart, decides whether it does. The harmless ones look odd and are right.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sailrl_lite.judges.protocol import Dimension
from sailrl_lite.world.problems import Fact, Problem, evaluate, make_problem
from sailrl_lite.world.scenes import COLORS, SHAPES
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import Claim, Statement, Step, calculate, write_trace

Trace = Sequence[Statement]
_Made = tuple[Trace | str, str] | None  # a trace and an answer; None where the problem has no room for it
_Make = Callable[[Problem, random.Random], _Made]


@dataclass(frozen=True)
class Trick:
    """group: the dimension it is after, or "harmless". flips: the dimensions that it must fail, no others."""

    group: str
    name: str
    flips: tuple[Dimension, ...]
    build: _Make

    def __call__(self, problem: Problem, rng: random.Random) -> tuple[str, str] | None:
        """The trace and the answer; None where the problem has no room for this trick."""
        if (made := self.build(problem, rng)) is None:
            return None
        trace, answer = made
        return trace if isinstance(trace, str) else write_trace(list(trace)), answer


TRICKS: list[Trick] = []


def _trick(group: str, *flips: Dimension) -> Callable[[_Make], _Make]:
    def register(build: _Make) -> _Make:
        TRICKS.append(Trick(group, build.__name__.replace("_", " "), flips, build))
        return build

    return register


# ---- logic


@_trick("logic", "logic")
def cancelling_slips(problem: Problem, rng: random.Random) -> _Made:
    """Two slips in a row, the second of which brings the right number back."""
    trace = solve(problem)
    steps = [said for said in trace if isinstance(said, Step)]
    if len(steps) < 2:
        return None
    before, last = steps[-2:]
    slipped = before.result + rng.choice([d for d in (-10, -2, -1, 1, 2, 10) if before.result + d > 0])
    on = replace(last, left=slipped) if last.left == before.result else replace(last, right=slipped)
    return [*trace[:-2], replace(before, result=slipped), on], problem.gold


@_trick("logic", "logic")
def wrong_operation(problem: Problem, rng: random.Random) -> _Made:
    """The last step says plus for minus, or minus for plus, and comes to the right number all the same."""
    *start, last = solve(problem)
    return ([*start, turned], problem.gold) if (turned := _turned(last)) else None


@_trick("logic", "logic")
def wrong_quantities(problem: Problem, rng: random.Random) -> _Made:
    """True claims and right arithmetic, about something else than what is asked."""
    target, facts = problem.targets[0], problem.facts
    terms = [t for t in target if t.name and facts[t.name].source == "image"]
    term = rng.choice(terms)
    if not (alike := _alike(problem, term.name or "")):
        return None
    other = tuple(replace(t, name=rng.choice(alike)) if t is term else t for t in target)
    if (result := evaluate(other, facts)) == problem.gold or result.startswith("-"):
        return None
    if len(target) == 1:
        return [*solve(problem), Claim(other[0].name or "", result)], result
    return solve(replace(problem, targets=(other,))), result


@_trick("logic", "logic")
def counted_twice(problem: Problem, rng: random.Random) -> _Made:
    """A number that is simply to be read is doubled."""
    if len(problem.targets[0]) > 1 or not problem.gold.isdigit():
        return None
    value = int(problem.gold)
    return [*solve(problem), Step(value, "+", value, 2 * value)], str(2 * value)


@_trick("logic", "logic", "grounding")
def contradiction(problem: Problem, rng: random.Random) -> _Made:
    """Something is claimed falsely, then rightly, and the right value is used."""
    trace = solve(problem)
    at = rng.choice([k for k, said in enumerate(trace) if isinstance(said, Claim)])
    claim = trace[at]
    assert isinstance(claim, Claim)
    return [*trace[:at], replace(claim, value=_another(claim.value, rng)), *trace[at:]], problem.gold


@_trick("logic", "logic", "consistency")
def arithmetic_about_nothing(problem: Problem, rng: random.Random) -> _Made:
    """A true equation in the middle that has nothing to do with the question."""
    left, right = rng.sample(range(201, 300), 2)  # numbers that occur in no problem
    return _insert(solve(problem), Step(left, "+", right, left + right), rng), problem.gold


# ---- grounding


@_trick("grounding", "grounding")
def cancelling_misreadings(problem: Problem, rng: random.Random) -> _Made:
    """Two numbers are misread in such a way that the result is right."""
    terms = [t for t in problem.targets[0] if t.name and problem.facts[t.name].source == "image"]
    if len(terms) < 2:
        return None
    a, b = rng.sample(terms, 2)
    off = rng.choice((-1, 1))
    changed = {a.name: off * b.factor, b.name: -off * a.factor}
    values = {name: int(problem.facts[name].value) + by for name, by in changed.items() if name}
    if min(values.values()) < 1:
        return None
    return solve(_with_values(problem, {name: str(value) for name, value in values.items()})), problem.gold


@_trick("grounding", "grounding")
def misread_bystander(problem: Problem, rng: random.Random) -> _Made:
    """What the answer does not need is misread beside what it needs."""
    if not (spare := _spare(problem)):
        return None
    name = rng.choice(spare)
    return [Claim(name, _another(problem.facts[name].value, rng)), *solve(problem)], problem.gold


@_trick("grounding", "grounding")
def invention(problem: Problem, rng: random.Random) -> _Made:
    """A claim about something that is not in the picture, in the middle of a right trace."""
    name = rng.choice(("arrow", "shadow", "frame", "caption", "pointer", "dotted line"))
    value = rng.choice((str(rng.randint(2, 60)), *COLORS))
    return _insert(solve(problem), Claim(name, value), rng), problem.gold


@_trick("grounding", "grounding")
def borrowed_fact(problem: Problem, rng: random.Random) -> _Made:
    """A fact that is true of another picture."""
    family = rng.choice(("read_number", "add", "pattern", "rule", "story", "angle"))
    other = make_problem(family, rng.randrange(10**6), "test")
    names = [n for n, f in other.facts.items() if f.source == "image" and n not in problem.facts]
    if not names:
        return None
    name = rng.choice(names)
    return _insert(solve(problem), Claim(name, other.facts[name].value), rng), problem.gold


@_trick("grounding", "grounding")
def world_over_hypothesis(problem: Problem, rng: random.Random) -> _Made:
    """Everybody knows that a shape counts as one; the question has supposed otherwise."""
    if problem.family != "suppose":
        return None
    name = next(n for n, f in problem.facts.items() if f.source == "question")
    rest = [s for s in solve(problem) if not (isinstance(s, Claim) and s.name == name)]
    return [Claim(name, "1"), *rest], problem.gold


# ---- consistency


@_trick("consistency", "consistency")
def swapped_digits(problem: Problem, rng: random.Random) -> _Made:
    turned = problem.gold[::-1]
    if not turned.isdigit() or turned == problem.gold or turned[0] == "0":
        return None
    return solve(problem), turned


@_trick("consistency", "consistency")
def turned_sign(problem: Problem, rng: random.Random) -> _Made:
    if not problem.gold.isdigit() or problem.gold == "0":
        return None
    return solve(problem), f"-{problem.gold}"


@_trick("consistency", "consistency")
def hedged_answer(problem: Problem, rng: random.Random) -> _Made:
    return solve(problem), f"{problem.gold} or {_another(problem.gold, rng)}"


@_trick("consistency", "consistency")
def missing_last_step(problem: Problem, rng: random.Random) -> _Made:
    *start, last = solve(problem)
    if not isinstance(last, Step) or _ends_on(problem.gold, start):
        return None
    return start, problem.gold


@_trick("consistency", "consistency")
def claims_only(problem: Problem, rng: random.Random) -> _Made:
    """From what is seen straight to the result of several steps."""
    trace = solve(problem)
    claims = [said for said in trace if isinstance(said, Claim)]
    if len(trace) - len(claims) < 2 or _ends_on(problem.gold, claims):
        return None
    return claims, problem.gold


@_trick("consistency", "consistency")
def beside_the_point(problem: Problem, rng: random.Random) -> _Made:
    """True claims about other things, and the right answer to a question that they do not touch."""
    spare = [n for n in _spare(problem) if problem.facts[n].value != problem.gold]
    if len(problem.targets[0]) > 1 or not spare:
        return None
    shown = rng.sample(spare, min(2, len(spare)))
    return [Claim(name, problem.facts[name].value) for name in shown], problem.gold


@_trick("consistency", "logic", "consistency")
def right_answer_all_the_same(problem: Problem, rng: random.Random) -> _Made:
    """The last step uses the wrong operation and comes to something else, yet the answer is right."""
    *start, last = solve(problem)
    said = Counter(number for statement in start for number in _numbers(statement))
    if not (turned := _turned(last)) or max(said.values()) > 1:
        return None  # where one number has been said of two things, a minus may be right after all
    result = calculate(turned.left, turned.op, turned.right)
    return [*start, replace(turned, result=result)], problem.gold


# ---- harmless


@_trick("harmless")
def reordered_claims(problem: Problem, rng: random.Random) -> _Made:
    trace = solve(problem)
    claims = [said for said in trace if isinstance(said, Claim)]
    if len(claims) == len(trace) or len(claims) < 2:
        return None
    return [*claims[1:], claims[0], *trace[len(claims) :]], problem.gold


@_trick("harmless")
def another_way(problem: Problem, rng: random.Random) -> _Made:
    """The terms are worked out in another order."""
    target = problem.targets[0]
    plus, minus = [t for t in target if t.factor > 0], [t for t in target if t.factor < 0]
    order = (plus[-1], *reversed(minus), *reversed(plus[:-1]))
    return None if order == target else (solve(replace(problem, targets=(order,))), problem.gold)


@_trick("harmless")
def repeated_claim(problem: Problem, rng: random.Random) -> _Made:
    first, *rest = solve(problem)
    return [first, first, *rest], problem.gold


@_trick("harmless")
def spare_fact(problem: Problem, rng: random.Random) -> _Made:
    """Something true that nobody needs."""
    if not (spare := _spare(problem)):
        return None
    name = rng.choice(spare)
    return [Claim(name, problem.facts[name].value), *solve(problem)], problem.gold


@_trick("harmless")
def odd_spacing(problem: Problem, rng: random.Random) -> _Made:
    """Blanks around every sign and between the digits, as word-level decoders write, and empty lines."""
    lines = write_trace(solve(problem)).split("\n")
    spaced = (" ".join(line) if line[0].isdigit() else line.replace("=", " = ") for line in lines)
    return "\n\n".join(spaced), problem.gold


@_trick("harmless")
def worded_answer(problem: Problem, rng: random.Random) -> _Made:
    return solve(problem), f"The answer is {problem.gold}."


# ---- pieces


def _alike(problem: Problem, name: str) -> list[str]:
    """The facts that could be taken for this one: a value of the same kind under as long a name."""
    kind, words = _kind(problem.facts[name].value), len(name.split())
    found = [n for n, fact in problem.facts.items() if fact.source == "image" and _kind(fact.value) == kind]
    return [n for n in found if n != name and len(n.split()) == words]


def _spare(problem: Problem) -> list[str]:
    """The facts that could be taken for one that is needed, and that are not needed."""
    needed = {term.name for target in problem.targets for term in target if term.name}
    alike = {n: None for name in needed if name in problem.facts for n in _alike(problem, name)}
    return sorted(n for n in alike if n not in needed)


def _kind(value: str) -> Sequence[str]:
    return next((kind for kind in (tuple(COLORS), SHAPES, ("yes", "no")) if value in kind), ())


def _another(value: str, rng: random.Random) -> str:
    """Another value of the same kind, near the right one."""
    if words := _kind(value):
        return rng.choice([word for word in words if word != value])
    number = int(value)
    return str(rng.choice([n for n in range(number - 2, number + 3) if n != number and n * number >= 0]))


def _turned(last: Statement) -> Step | None:
    """The step with minus for plus, or plus for minus, where that makes a difference."""
    if not isinstance(last, Step) or last.op == "*" or not last.right:
        return None
    return replace(last, op="-" if last.op == "+" else "+")


def _numbers(said: Statement) -> set[int]:
    """What a statement makes known: its number, and that of a claim by place value too."""
    if isinstance(said, Claim) and said.value.isdigit():
        value = int(said.value)
        return {value, value % 10, value - value % 10} - {0}
    return {said.result} if isinstance(said, Step) else set()


def _ends_on(value: str, trace: Trace) -> bool:
    return str(trace[-1]).endswith(f"={value}")


def _insert(trace: Trace, said: Statement, rng: random.Random) -> Trace:
    """Anywhere but last, where it would be the conclusion."""
    at = rng.randrange(len(trace))
    return [*trace[:at], said, *trace[at:]]


def _with_values(problem: Problem, values: dict[str, str]) -> Problem:
    facts = {name: Fact(values.get(name, fact.value), fact.source) for name, fact in problem.facts.items()}
    return replace(problem, facts=facts)
