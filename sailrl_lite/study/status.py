"""How far the study is: what of each arm is made, begun, out of date or failed, and what it has cost."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sailrl_lite.errors import SailRLError
from sailrl_lite.study.arms import Run
from sailrl_lite.study.logs import Log, read_log
from sailrl_lite.study.process import START, starts_of, work_of


def status(runs: Sequence[Run], root: Path, logs: Path) -> pd.DataFrame:
    """A row an arm: `runs` wanted; of them `done`, `stale` (with a log of another arm or frozen code),
    `begun` and `failed`; and `cpu_seconds`, the mean of the done ones.

    A run can count twice: stale, and begun or failed since.
    """
    rows = []
    for run in runs:
        log, folder = _log(run, logs), work_of(root) / run.name
        done = log is not None and log.head.get("hash") == run.hash
        failed = not done and (folder / "error.txt").is_file()
        rows.append({
            "arm": run.arm.name,
            "runs": 1,
            "done": done,
            "stale": log is not None and not done,
            "begun": not done and not failed and (folder / "begun.json").is_file(),
            "failed": failed,
            "cpu_seconds": log.head["cpu_seconds"] if log and done else None,
        })  # fmt: skip
    columns = ["arm", "runs", "done", "stale", "begun", "failed", "cpu_seconds"]
    arms = pd.DataFrame(rows, columns=columns).groupby("arm", sort=False)
    return arms[columns[1:-1]].sum().join(arms["cpu_seconds"].mean()).reset_index()


def failures(runs: Sequence[Run], root: Path) -> dict[str, str]:
    """The first line of what went wrong, by the name of the run, or of a start that these runs need."""
    folders = {run.name: work_of(root) / run.name for run in runs}
    starts = {run.arm.start for run in runs if run.arm.start}
    folders |= {START + name: starts_of(root) / name for name in sorted(starts)}
    errors = {name: folder / "error.txt" for name, folder in folders.items()}
    return {name: file.read_text().split("\n")[0] for name, file in errors.items() if file.is_file()}


def _log(run: Run, logs: Path) -> Log | None:
    try:
        return read_log(logs / f"{run.name}.json")
    except SailRLError:  # none, or one that a later `study run` replaces
        return None
