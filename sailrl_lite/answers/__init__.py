r"""Is a predicted answer the same as the gold one? The answer reward and every evaluation ask here.

    >>> equivalent("1/2", r"\frac{1}{2}"), equivalent("12 cm", "0.12 m"), equivalent("50%", "0.5")
    (True, True, False)

The two texts are brought to one spelling (`spelling`), read as an answer of one kind (`reading`, `kinds`) and
compared as that (`compare`), exactly: there is no numeric tolerance. Only what is mathematics in earnest goes
to math-verify, in a worker process with a deadline (`mathematics`), so a comparison returns, in any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from sailrl_lite.answers.compare import same
from sailrl_lite.answers.mathematics import DEADLINE, UNREADABLE, Budget
from sailrl_lite.answers.reading import read
from sailrl_lite.answers.spelling import Unusable
from sailrl_lite.errors import SailRLError

__all__ = ["equivalent", "check_gold", "check_golds"]


def equivalent(gold: str, predicted: str | None, *, deadline: float = DEADLINE) -> bool:
    """Return whether the predicted answer is the gold one.

    No prediction makes this raise: what is empty, over-long, ambiguous or not decided within the deadline (in
    seconds) is not equal. `RuntimeError` means that math-verify cannot be started at all.
    """
    if not isinstance(predicted, str) or not isinstance(gold, str):
        return False
    try:
        return same(read(gold), read(predicted), Budget(deadline))
    except Unusable:
        return False


def check_gold(gold: str) -> None:
    """Raise `ValueError`, with the reason, if no prediction could equal this gold. Call it on loading data.

    >>> check_gold("5 or 6")
    Traceback (most recent call last):
    ValueError: unusable gold answer '5 or 6': two candidate answers (an 'or')
    """
    if not isinstance(gold, str):
        raise ValueError(f"unusable gold answer {gold!r}: not a text")
    _check(gold)


@functools.lru_cache(maxsize=65536)  # the rollouts of a problem, its epochs, and many problems share one gold
def _check(gold: str) -> None:
    shown = repr(gold if len(gold) <= 60 else gold[:57] + "...")
    try:
        answer = read(gold)
    except Unusable as error:
        raise ValueError(f"unusable gold answer {shown}: {error}") from None
    mathematics = answer.kind == "math" and any(mark.isdigit() or mark == "\\" for mark in answer.text)
    if mathematics and Budget().ask(answer.value, answer.value) == UNREADABLE:
        raise ValueError(f"unusable gold answer {shown}: math-verify cannot read it")


def check_golds(golds: Iterable[str]) -> None:
    """Check a whole column of gold answers on loading it; `SailRLError` names the first row that is unusable.

    >>> check_golds(["47", "red", ""])
    Traceback (most recent call last):
    sailrl_lite.errors.SailRLError: row 2: unusable gold answer '': empty
    """
    for row, gold in enumerate(golds):
        try:
            check_gold(gold)
        except ValueError as error:
            raise SailRLError(f"row {row}: {error}") from None
