"""One run of the study from beginning to end: train, measure, log. Called again after a kill it goes on."""

import contextlib
import gzip
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from sailrl_lite.config import SHIPPED, RLConfig, Settings, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_bytes, write_text
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.study.arms import Arm, Run, TestSet
from sailrl_lite.study.evaluation import MEASURES, QUALITY, evaluate, unseen_problems
from sailrl_lite.study.logs import Log, write_log
from sailrl_lite.study.provenance import head_of, start_head, start_is_made
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.sft import train_sft
from sailrl_lite.world.dress import dressed_problems
from sailrl_lite.world.problems import Problem

_GROUPS = ("tests", "kind", "family", "needs_thinking")
_RESPONSES = (
    "tests", "id", "family", "response", "accuracy", "trigger_rate", "judging", "logic", "grounding",
    "consistency", "cascade",
)  # fmt: skip
_PATIENCE = 120.0  # seconds that a process whose study was killed has to end its step


def do_run(
    run: Run,
    work: Path,
    logs: Path,
    starts: Path,
    on_step: Callable[[int], None] = lambda done: None,
    keep: bool = False,
    head: dict[str, Any] | None = None,
) -> Path:
    """Make a run in the folder `work`/NAME and return its log, `logs`/NAME.json, which is written last.

    Seed 0 also leaves every response of the evaluation in `logs`/responses/NAME.csv.gz. A folder that holds a
    begun run of the same hash is gone on with, any other is removed first; it goes away once the log is
    there, or with `keep` all of it but the checkpoints.

    Args:
        starts: holds the policies that RL starts from, each in NAME/policy (see `do_start`).
        on_step: called after each step of RL with the number of steps done.
        head: what the log says of run and code; None is `head_of(run)`, of the code as it is now.
    """
    folder, head = work / run.name, head or head_of(run)
    rl = _rl_config(run, starts)
    with _alone_in(folder):
        meter = _begin(folder, head["hash"], rl)

        def stepped(table: pd.DataFrame) -> None:
            meter.save()
            on_step(len(table))

        policy, metrics = start_of(run.arm, starts), pd.DataFrame()
        if rl:
            policy = folder / "policy"
            if not policy.is_dir():
                train_rl(rl, folder, (folder / "config.json").is_file(), bar=False, on_batch=stepped)
            metrics = pd.read_csv(folder / "metrics.csv")
        rows = measured(policy, run)
        if run.seed == 0:
            text = rows[list(_RESPONSES)].to_csv(index=False, float_format="%.4g")
            write_bytes(responses_file(run, logs), gzip.compress(text.encode(), mtime=0))
        log = logs / f"{run.name}.json"
        told = {"start": _start_told(run.arm, starts)}
        write_log(Log(head | told | meter.save(), metrics, aggregate(rows)), log)
        shutil.rmtree(folder / "trainer" if keep else folder, ignore_errors=True)
    return log


def do_start(name: str, config: SFTConfig, starts: Path, head: dict[str, Any] | None = None) -> Path:
    """Make the policy of a start in `starts`/NAME, unless it is there, and return its folder."""
    folder, head = starts / name, head or start_head(name, config)
    with _alone_in(folder):
        if not start_is_made(name, config, starts):
            meter = _begin(folder, head["hash"], config)
            train_sft(config, folder, (folder / "config.json").is_file(), bar=False)
            write_text(folder / "start.json", json.dumps(head | meter.save(), indent=1) + "\n")
            shutil.rmtree(folder / "trainer", ignore_errors=True)
    return folder / "policy"


def start_of(arm: Arm, starts: Path) -> Path:
    """The folder of the policy that an arm starts from."""
    return (starts / arm.start / "policy").resolve() if arm.start else SHIPPED


def _start_told(arm: Arm, starts: Path) -> dict[str, Any] | None:
    """Which start a run had and what that has cost; None for the shipped policy."""
    if not arm.start:
        return None
    made = json.loads((starts / arm.start / "start.json").read_text(encoding="utf-8"))
    return {key: made[key] for key in ("start", "hash", "wall_seconds", "cpu_seconds")}


def responses_file(run: Run, logs: Path) -> Path:
    return logs / "responses" / f"{run.name}.csv.gz"


def measured(policy: Path, run: Run) -> pd.DataFrame:
    """The responses of a policy to all test sets of a run, a row each; `tests` names the set."""
    model, processor = load_checkpoint(policy)
    prefill = NEVER_THINK if run.arm.forced_direct else ""
    tables = []
    for tests in run.arm.tests:
        problems = problems_of(tests, run.arm.per_family)
        rows = evaluate(model, processor, problems, prefill, seed=run.seed, bar=None)
        tables.append(rows.assign(tests=tests))
    return pd.concat(tables, ignore_index=True)


def problems_of(tests: TestSet, per_family: int) -> Sequence[Problem]:
    if tests == "dressed":
        return dressed_problems(per_family)
    return unseen_problems(per_family, shortcut=1.0 if tests == "marked" else 0.0)


def aggregate(rows: pd.DataFrame) -> pd.DataFrame:
    """Responses as a log keeps them: a row for each test set, kind, family and label, with means.

    `n` counts responses, `traces` those with a written trace, over which logic, grounding, consistency and
    sound are means.
    """
    groups = rows.groupby(list(_GROUPS), sort=False)
    counts = pd.DataFrame({"n": groups.size(), "traces": groups["trigger_rate"].sum().astype(int)})
    means = groups[[*MEASURES, *QUALITY]].mean()
    return counts.join(means).reset_index()


def _rl_config(run: Run, starts: Path) -> RLConfig | None:
    if not run.arm.rl:
        return None
    checkpoint = str(start_of(run.arm, starts)) if run.arm.start else ""
    return replace(run.arm.rl, seed=run.seed, checkpoint=checkpoint)


class _Meter:
    """Wall and CPU seconds of a run, summed over its parts in a file that a kill leaves behind."""

    def __init__(self, file: Path, before: dict[str, Any]) -> None:
        self.file, self.before = file, before
        self.wall, self.cpu = time.monotonic(), _cpu_seconds()

    def save(self) -> dict[str, Any]:
        """Write the file, and return what a log says of it: started, wall_seconds, cpu_seconds."""
        now = self.before | {
            "wall_seconds": round(self.before["wall_seconds"] + time.monotonic() - self.wall, 1),
            "cpu_seconds": round(self.before["cpu_seconds"] + _cpu_seconds() - self.cpu, 1),
        }
        write_text(self.file, json.dumps(now) + "\n")
        return {key: value for key, value in now.items() if key != "hash"}


def _cpu_seconds() -> float:
    return sum(os.times()[:4])  # of this process and the ones it has waited for


def _begin(folder: Path, hash: str, config: Settings | None) -> _Meter:
    """Go on in a folder that holds a begun run of this hash and configuration, or begin in an empty one."""
    file = folder / "begun.json"
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    if before.get("hash") != hash or not _configured_alike(folder / "config.json", config):
        shutil.rmtree(folder, ignore_errors=True)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        before = {"hash": hash, "started": started, "wall_seconds": 0.0, "cpu_seconds": 0.0}
    meter = _Meter(file, before)
    meter.save()
    return meter


def _configured_alike(file: Path, config: Settings | None) -> bool:
    """Whether the configuration in a run folder, if there is one, is this one."""
    if config is None or not file.is_file():
        return True
    try:
        return type(config).from_json(file.read_text(encoding="utf-8", errors="replace")) == config
    except SailRLError:
        return False


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for a process that a killed study has left behind in the folder, and keep others out."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock", timeout=_PATIENCE):
        yield
