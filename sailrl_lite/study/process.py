"""The far side of the runner: a process that makes one run, or one start, and says how far it is."""

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sailrl_lite.config import SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.study.arms import Run
from sailrl_lite.study.provenance import head_of
from sailrl_lite.study.starts import start_is_made

START = "start "  # before the name of a start, where runs have theirs


@dataclass(frozen=True)
class Job:
    """What one process does: the run, or where that is None the start.

    Attributes:
        head: what the log of a run says of it and the code, as they were when the study began.
        needs: the name of the job that must be done first; "" is none.
    """

    name: str
    root: Path
    run: Run | None = None
    head: dict[str, Any] | None = None
    start: SFTConfig | None = None
    needs: str = ""

    @property
    def folder(self) -> Path:
        """Where its work lies until it is done."""
        if self.run is None:
            return starts_of(self.root) / self.name.removeprefix(START)
        return work_of(self.root) / self.name

    @property
    def output(self) -> Path:
        """Where what it prints goes, and stays unless it ends well."""
        return self.folder.with_name(f"{self.folder.name}.txt")

    @property
    def steps(self) -> int:
        """Steps of RL."""
        return self.run.arm.steps if self.run else 0


def work_of(root: Path) -> Path:
    """The folder of the runs that are begun."""
    return root / "work"


def starts_of(root: Path) -> Path:
    """The folder of the policies that RL starts from."""
    return root / "starts"


def jobs_of(runs: Sequence[Run], root: Path) -> list[Job]:
    """A job for each run, in their order, and before the first run that needs it one for a start."""
    jobs: list[Job] = []
    known: set[str] = set()
    for run in runs:
        name, sft = run.arm.start, run.arm.sft
        needs = ""
        if sft and not start_is_made(name, sft, starts_of(root)):
            needs = START + name
            if needs not in known:
                known.add(needs)
                jobs.append(Job(needs, root, start=sft))
        jobs.append(Job(run.name, root, run, head_of(run), needs=needs))
    return jobs


def serve(job: Job, logs: Path, keep: bool, connection: Connection) -> None:
    """Do a job. Sends ("step", steps done) and in the end ("done" | "failed" | "stopped", why).

    When the parent is gone it stops as by Ctrl-C: after the step that it is in, with a checkpoint.
    """
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C goes to the parent alone, which passes it on
    threading.Thread(target=_watch, args=(connection,), daemon=True).start()
    try:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        with job.output.open("w") as output:
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
        _do(job, logs, keep, connection)
        job.output.unlink(missing_ok=True)
        end = ("done", "")
    except KeyboardInterrupt:
        end = ("stopped", "interrupted")
    except SailRLError as error:
        end = ("failed", str(error))
    except BaseException as error:
        first = f"{type(error).__name__}: {error}".split("\n")[0]
        end = ("failed", f"{first}\n\n{traceback.format_exc()}")
    _send(connection, *end)


def _do(job: Job, logs: Path, keep: bool, connection: Connection) -> None:
    import torch

    from sailrl_lite.study.starts import do_start
    from sailrl_lite.study.worker import do_run

    torch.set_num_threads(1)  # the study has a run for each core
    starts = starts_of(job.root)
    if job.run:
        work = work_of(job.root)
        do_run(job.run, work, logs, starts, lambda done: _send(connection, "step", done), keep, job.head)
    elif job.start:
        do_start(job.name.removeprefix(START), job.start, starts)


def _send(connection: Connection, word: str, what: Any) -> None:
    with contextlib.suppress(OSError):  # the parent is gone, and `_watch` sees to it
        connection.send((word, what))


def _watch(connection: Connection) -> None:
    """Wait for the parent, which never says a word, to go away."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGINT)
