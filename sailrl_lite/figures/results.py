"""What the figures are drawn from: the logs of the study and the paper's figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sailrl_lite.errors import SailRLError
from sailrl_lite.paper import REPORTED
from sailrl_lite.study.arms import TestSet
from sailrl_lite.study.logs import LOGS, curves, evaluations, read_logs
from sailrl_lite.study.measured import measured
from sailrl_lite.study.statistics import interval, paired
from sailrl_lite.world.problems import FAMILIES

ROOT = LOGS.parent.parent.parent
SMOOTH = 5  # steps of a curve that are averaged

Spread = tuple[float, float, float]  # mean and the ends of its 95% interval over seeds; NaN without one


class Missing(SailRLError):
    """A figure needs a run, a column or a file that is not there."""


@dataclass(frozen=True)
class Results:
    """The logs of a folder: `evaluations` and `curves` as in `sailrl_lite.study.logs`, and the folder."""

    evaluations: pd.DataFrame
    curves: pd.DataFrame
    folder: Path = LOGS

    def scores(
        self,
        arm: str,
        measure: str,
        families: Sequence[str] = (),
        kind: str = "",
        tests: TestSet = "plain",
    ) -> pd.Series:
        """The measure by seed, over all responses (or traces) to these problems; no trace, no value.

        Raises:
            Missing: no run of the arm, or none with this test set or measure.
        """
        column = "tokens" if measure == "relative_tokens" else measure
        for needed in (arm, "base") if measure == "relative_tokens" else (arm,):
            rows = _of(self.evaluations, needed)
            _need(rows, needed, column)
            if tests not in rows["tests"].unique():
                raise Missing(f"the runs of {needed} have no {tests} test")
        kinds = [kind] if kind else []
        return pd.Series(measured(self.evaluations, arm, measure, kinds, families, tests), dtype=float)

    def curve(self, arm: str, column: str) -> pd.DataFrame:
        """A column of the metrics by step (rows) and seed (columns), each the mean of `SMOOTH` steps."""
        rows = _of(self.curves, arm)
        _need(rows, arm, column)
        table = rows.pivot(index="step", columns="seed", values=column).astype(float).sort_index()
        return table.rolling(SMOOTH, min_periods=1, center=True).mean()


def read_results(folder: Path = LOGS) -> Results:
    logs = read_logs(folder)
    return Results(evaluations(logs), curves(logs), folder)


def _of(table: pd.DataFrame, arm: str) -> pd.DataFrame:
    rows = table[table["arm"] == arm]
    if rows.empty:
        raise Missing(f"there is no run of {arm}")
    return rows


def _need(rows: pd.DataFrame, arm: str, column: str) -> None:
    if column not in rows or rows[column].isna().all():
        raise Missing(f"the runs of {arm} have no {column}")


def spread(values: pd.Series, scale: float = 1.0) -> Spread:
    """Mean and 95% interval over seeds, both times `scale`."""
    mean, low, high = interval(values.dropna().tolist())
    return scale * mean, scale * low, scale * high


def gain(after: pd.Series, before: pd.Series, scale: float = 1.0) -> Spread:
    """Mean and 95% interval of the difference, paired by seed, both times `scale`."""
    found = paired(_by_seed(after), _by_seed(before))
    return scale * found.mean, scale * found.low, scale * found.high


def _by_seed(values: pd.Series) -> dict[int, float]:
    return dict(zip(map(int, values.index.tolist()), map(float, values.tolist()), strict=True))


def reported(artifact: str, metric: str = "accuracy_pct") -> pd.DataFrame:
    """What the paper reports in a table or figure: a row a benchmark, the average last, a column a system."""
    table = pd.read_csv(REPORTED)
    table = table[(table["artifact"] == artifact) & (table["metric"] == metric)]
    wide = table.pivot(index="benchmark", columns="system", values="value")
    wide.columns = wide.columns.astype(str)
    rows = sorted(table["benchmark"].unique(), key=lambda name: name == "average")
    return wide.loc[rows, table["system"].unique()]


def of_kind(*kinds: str) -> list[str]:
    return [family.name for family in FAMILIES.values() if family.kind in kinds]


def stands_for(family: str) -> str:
    return f"{family.replace('_', ' ')} ({FAMILIES[family].stands_for})"
