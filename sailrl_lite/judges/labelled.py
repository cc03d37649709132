"""The fixed labelled set of judge-check: traces whose exact scores are known, a third of them built to fool.

    clean        the teacher without error
    noised       the teacher with one of its errors
    adversarial  a trick after one dimension, a harmless oddity, or an attack on the judge itself

Each trace is about a problem of its own, drawn from the test split far from where evaluation draws. The truth
is the verifier's, which knows neither the teacher nor the tricks.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import Literal

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.attacks import ATTACKS, attacks
from sailrl_lite.judges.protocol import Case, Scores
from sailrl_lite.judges.tricks import TRICKS, Trick
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.teacher import ERRORS, Error, err, solve
from sailrl_lite.world.traces import write_trace
from sailrl_lite.world.verifier import verify

Source = Literal["clean", "noised", "adversarial"]
SIZE = 50 * len(FAMILIES)

FIRST_SEED = 1_000_000  # evaluation draws from 0 on
_TRIES = 16  # problems tried for one trick before the next trick has its turn
_PLAN: tuple[Source, ...] = (
    "clean", "noised", "adversarial", "noised", "adversarial",
    "clean", "adversarial", "noised", "adversarial", "adversarial",
)  # fmt: skip
_GROUPS = ("logic", "grounding", "consistency", "harmless", "attack")


@dataclass(frozen=True)
class Labelled:
    """A case with its exact scores; `name` says the error, the trick or the kind of attack."""

    id: str
    family: str
    case: Case
    truth: Scores
    source: Source
    name: str


def labelled_set(size: int = SIZE) -> list[Labelled]:
    """The first `size` traces of an endless fixed list that goes through the families in turn.

    Raises:
        SailRLError: a size below 1.
    """
    if size < 1:
        raise SailRLError(f"the labelled set needs at least 1 trace, not {size}")
    return list(islice(_all(), size))


def _all() -> Iterator[Labelled]:
    for row in count():
        source = _PLAN[row % len(_PLAN)]
        turn = sum(_PLAN[k % len(_PLAN)] == source for k in range(row))
        for place, family in enumerate(FAMILIES):
            yield _labelled(family, row, source, turn, place)


_Written = tuple[str, str, str | None]  # name, trace, answer
_Writer = Callable[[Problem, random.Random], _Written | None]


def _labelled(family: str, row: int, source: Source, turn: int, place: int) -> Labelled:
    """Trace number `row` of a family, its `turn`-th of this source; each family begins at another `place`."""
    rng = random.Random(f"labelled/{family}/{row}")
    for write in _writers(source, turn, place):
        for k in range(_TRIES):
            problem = make_problem(family, FIRST_SEED + _TRIES * row + k, "test")
            if written := write(problem, rng):
                name, think, answer = written
                case = Case(problem.question, think, answer, problem.image, problem)
                truth = verify(problem, think, answer).scores()
                return Labelled(problem.id, family, case, truth, source, name)
    raise AssertionError(f"the family {family} has no room for any {source} trace")


def _writers(source: Source, turn: int, place: int) -> list[_Writer]:
    """What can write such a trace, in the order in which it is to be tried."""
    if source == "clean":
        return [lambda problem, rng: ("clean", write_trace(solve(problem)), problem.gold)]
    if source == "noised":
        return _from([partial(_erring, error) for error in ERRORS], turn + place)
    group, turn = _GROUPS[turn % len(_GROUPS)], turn // len(_GROUPS)
    if group == "attack":
        return [partial(_attacking, turn * len(FAMILIES) + place)]
    return _from([partial(_tricking, trick) for trick in TRICKS if trick.group == group], turn + place)


def _from(writers: Sequence[_Writer], first: int) -> list[_Writer]:
    first %= len(writers)
    return [*writers[first:], *writers[:first]]


def _erring(error: Error, problem: Problem, rng: random.Random) -> _Written | None:
    lesson = err(problem, error, rng)
    return (error, lesson.trace, lesson.answer) if lesson else None


def _tricking(trick: Trick, problem: Problem, rng: random.Random) -> _Written | None:
    made = trick(problem, rng)
    return (f"{trick.group}: {trick.name}", *made) if made else None


def _attacking(number: int, problem: Problem, rng: random.Random) -> _Written:
    kind = ATTACKS[number % len(ATTACKS)]
    suite = [attack for attack in attacks(problem, number) if attack.kind == kind]
    random.Random(kind).shuffle(suite)  # the same for every problem, so that all of a kind have their turn
    attack = suite[number // len(ATTACKS) % len(suite)]
    return f"attack: {attack.kind}", attack.think, attack.answer
