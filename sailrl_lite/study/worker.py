"""One run of the study from beginning to end: train, measure, log. Called again after a kill it goes on."""

import gzip
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from sailrl_lite.config import RLConfig
from sailrl_lite.files import write_bytes
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.study.arms import Run, TestSet
from sailrl_lite.study.begun import alone_in, begin
from sailrl_lite.study.evaluation import MEASURES, QUALITY, evaluate, unseen_problems
from sailrl_lite.study.logs import Log, write_log
from sailrl_lite.study.provenance import head_of
from sailrl_lite.study.starts import start_of, start_told
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rl import train_rl
from sailrl_lite.world.dress import dressed_problems
from sailrl_lite.world.problems import Problem

_GROUPS = ("tests", "kind", "family", "needs_thinking")
_RESPONSES = (
    "tests", "id", "family", "response", "accuracy", "trigger_rate", "judging", "logic", "grounding",
    "consistency", "cascade",
)  # fmt: skip


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
        starts: holds the policies that RL starts from, each in NAME/policy (see `sailrl_lite.study.starts`).
        on_step: called after each step of RL with the number of steps done.
        head: what the log says of run and code; None is `head_of(run)`, of the code as it is now.
    """
    folder, head = work / run.name, head or head_of(run)
    rl = _rl_config(run, starts)
    with alone_in(folder):
        meter = begin(folder, rl, head["hash"])

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
        told = {"start": start_told(run.arm, starts)}
        write_log(Log(head | told | meter.save(), metrics, aggregate(rows)), log)
        shutil.rmtree(folder / "trainer" if keep else folder, ignore_errors=True)
    return log


def responses_file(run: Run, logs: Path) -> Path:
    return logs / "responses" / f"{run.name}.csv.gz"


def measured(policy: Path, run: Run) -> pd.DataFrame:
    """The responses of a policy to all test sets of a run, a row each; `tests` names the set."""
    model, processor = load_checkpoint(policy)
    prefill = NEVER_THINK if run.arm.forced_direct else ""
    tables = []
    for tests in run.arm.tests:
        problems = problems_of(tests, run.arm.per_family)
        temperature = 0.0 if run.arm.greedy else 1.0
        rows = evaluate(model, processor, problems, prefill, temperature, run.seed, bar=None)
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
