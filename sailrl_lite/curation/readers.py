"""Rows to curate, from the micro-world."""

import io
import re
from collections.abc import Iterator, Sequence

from sailrl_lite.curation.schema import Row
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem

MICRO = "micro-world"


def read_micro(
    count: int, families: Sequence[str] | None = None, split: str = "train", seed_offset: int = 0
) -> Iterator[Row]:
    """`count` problems of the micro-world, the families (None: all) in turn; the id is the problem's own.

    Args:
        seed_offset: the number of the first problem of each family, from 0.

    Raises:
        SailRLError: unknown family or split.
    """
    names = tuple(families or FAMILIES)
    for index in range(count):
        problem = make_problem(names[index % len(names)], seed_offset + index // len(names), split)
        buffer = io.BytesIO()
        problem.image.save(buffer, "PNG")
        yield Row(
            id=problem.id,
            image=buffer.getvalue(),
            question=problem.question,
            gold=problem.gold,
            source=MICRO,
            kind=problem.kind,
            needs_thinking=problem.needs_thinking,
            split=split,
        )


def problem_of(row: Row) -> Problem | None:
    """The micro-world's problem behind a row, with its whole truth; None for a row from elsewhere."""
    named = re.fullmatch(r"(\w+)-(train|test)-([0-9]+)", row.id)
    if row.source != MICRO or not named or named[1] not in FAMILIES:
        return None
    return make_problem(named[1], int(named[3]), named[2])
