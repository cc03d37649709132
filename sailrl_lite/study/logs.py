"""The log of a run: one small JSON file, data/runs/study/NAME.json, written when the run has ended well."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text

LOGS = Path(__file__).resolve().parent.parent.parent / "data" / "runs" / "study"
_DIGITS = 5  # of a logged number


@dataclass(frozen=True)
class Log:
    """What a run leaves.

    Attributes:
        head: arm, seed, hash, settings, frozen, versions, python, platform, git, start (None, or which policy
            RL started from), started, wall_seconds, cpu_seconds; see `sailrl_lite.study.provenance`.
        metrics: a row a step of RL: `step` from 1 on, `reward`, `answer`, ... as in metrics.csv; empty
            where the arm has no RL.
        evaluation: a row for each `tests` set, `kind`, `family` and `needs_thinking`: `n` responses,
            `traces` of them with a written trace, and the means of the measures of
            `sailrl_lite.study.evaluation`; logic, grounding, consistency and sound are means over traces.
    """

    head: dict[str, Any]
    metrics: pd.DataFrame
    evaluation: pd.DataFrame


def write_log(log: Log, file: Path) -> None:
    """Write a log whole or not at all; numbers keep five significant digits."""
    whole = log.head | {"metrics": _columns(log.metrics), "evaluation": _columns(log.evaluation)}
    write_text(file, _printed(whole))


def read_log(file: Path) -> Log:
    """Read a log.

    Raises:
        SailRLError: the file is missing or is no log.
    """
    try:
        whole = json.loads(file.read_text(encoding="utf-8"))
        metrics, evaluation = pd.DataFrame(whole.pop("metrics")), pd.DataFrame(whole.pop("evaluation"))
    except OSError as error:
        raise SailRLError(f"cannot read the log {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SailRLError(f"{file} is no log of a run; delete it, and run the study again") from None
    return Log(whole, metrics, evaluation)


def read_logs(folder: Path = LOGS) -> list[Log]:
    """All logs of a folder, in the order of their names."""
    return [read_log(file) for file in sorted(folder.glob("*.json"))]


def evaluations(logs: Iterable[Log]) -> pd.DataFrame:
    """The evaluations of all logs in one table, with the columns `arm` and `seed` in front."""
    return _joined([(log, log.evaluation) for log in logs])


def curves(logs: Iterable[Log]) -> pd.DataFrame:
    """The metrics of all logs in one table, with the columns `arm` and `seed` in front."""
    return _joined([(log, log.metrics) for log in logs])


def _joined(parts: Sequence[tuple[Log, pd.DataFrame]]) -> pd.DataFrame:
    tables = []
    for log, table in parts:
        if len(table):
            front = pd.DataFrame({"arm": log.head["arm"], "seed": log.head["seed"]}, index=table.index)
            tables.append(pd.concat([front, table], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["arm", "seed"])


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): [_short(value) for value in table[name].tolist()] for name in table}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def _printed(whole: dict[str, Any]) -> str:
    """JSON with a line for each entry, and for each column of a table."""
    lines = []
    for key, value in whole.items():
        if key in ("metrics", "evaluation"):
            columns = ",\n".join(
                f"  {json.dumps(name)}: {json.dumps(cells)}" for name, cells in value.items()
            )
            lines.append(f"{json.dumps(key)}: {{\n{columns}\n }}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"
