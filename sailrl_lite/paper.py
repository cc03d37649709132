"""The figures that the paper's account gives: `data/paper/reported.csv`, one row each."""

from functools import cache
from pathlib import Path

import pandas as pd

from sailrl_lite.errors import SailRLError

REPORTED = Path(__file__).resolve().parent.parent / "data" / "paper" / "reported.csv"


def reported(artifact: str, system: str, benchmark: str, metric: str) -> float:
    """A figure of the paper, in the unit that its metric names ("accuracy_pct": 0 to 100).

    >>> reported("table3", "answer-only", "MathVision", "accuracy_pct")
    47.3

    Raises:
        SailRLError: there is no such figure, or the file of figures is not there.
    """
    try:
        return _figures()[artifact, system, benchmark, metric]
    except KeyError:
        key = f"{artifact}, {system}, {benchmark}, {metric}"
        raise SailRLError(f"the paper's account has no figure for {key}; see {REPORTED}") from None


@cache
def _figures() -> dict[tuple[str, str, str, str], float]:
    try:
        table = pd.read_csv(REPORTED)
    except OSError as error:
        raise SailRLError(f"cannot read the paper's figures in {REPORTED}: {error.strerror}") from error
    keys = zip(table["artifact"], table["system"], table["benchmark"], table["metric"], strict=True)
    return dict(zip(keys, table["value"].astype(float), strict=True))
