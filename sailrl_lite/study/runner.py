"""Runs of the study side by side, a process each: what fails ends alone, and nothing is done twice."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import working_in, write_text
from sailrl_lite.study.arms import Run
from sailrl_lite.study.logs import LOGS, read_log
from sailrl_lite.study.process import Job, jobs_of, serve

ROOT = Path("runs/study")
_REFRESH = 10.0  # seconds after which the bar's times are drawn anew, though nothing has happened


@dataclass
class Outcome:
    """What `run_study` did: the names of the runs and starts by what became of them.

    Attributes:
        skipped: runs whose log was there.
        failed: with one line that says why.
        stopped: whether Ctrl-C ended it early.
    """

    made: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


def run_study(
    runs: Sequence[Run],
    root: Path = ROOT,
    logs: Path = LOGS,
    jobs: int | None = None,
    keep: bool = False,
    bar: bool = True,
) -> Outcome:
    """Make the runs whose log is missing or of another hash, in their order, and the starts that they need.

    What is begun stands in `root`: runs in work/NAME, starts in starts/NAME, why one failed in its error.txt.
    Called again after a kill it goes on from the last checkpoints. A script that calls it needs the usual
    `if __name__ == "__main__"`, for it starts processes.

    Args:
        jobs: how many at a time, with one thread each; None is one for each usable CPU.
        keep: leave the trained policy in work/NAME/policy.

    Raises:
        SailRLError: another process is at work in `root`, or it cannot be written to.
    """
    if jobs is not None and jobs < 1:
        raise SailRLError(f"jobs must be at least 1, not {jobs}")
    with working_in(root):
        return _Runner(runs, root, logs, jobs or usable_cpus(), keep, bar).run()


def is_done(run: Run, logs: Path) -> bool:
    """Whether the log of a run is there and of the run as it is now."""
    try:
        return bool(read_log(logs / f"{run.name}.json").head.get("hash") == run.hash)
    except SailRLError:
        return False


def usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Child:
    job: Job
    process: Any
    connection: multiprocessing.connection.Connection
    steps: int = 0
    end: tuple[str, str] | None = None  # "done", "failed" or "stopped", and why


class _Runner:
    def __init__(self, runs: Sequence[Run], root: Path, logs: Path, jobs: int, keep: bool, bar: bool) -> None:
        self.logs, self.jobs, self.keep = logs, jobs, keep
        self.outcome = Outcome(skipped=[run.name for run in runs if is_done(run, logs)])
        self.waiting = jobs_of([run for run in runs if run.name not in self.outcome.skipped], root)
        self.children: list[_Child] = []
        self.asked = 0  # how often Ctrl-C was pressed
        done = sum(run.arm.steps for run in runs if run.name in self.outcome.skipped)
        self.bar = tqdm(
            total=sum(run.arm.steps for run in runs), initial=done, unit="step", disable=not bar,
            dynamic_ncols=True, smoothing=0,
        )  # fmt: skip
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self.context: Any = multiprocessing.get_context(method)
        # Read once, so that all runs are of the code as it was when the study began.
        self.context.set_forkserver_preload(["sailrl_lite.study.process", "sailrl_lite.study.worker"])

    def run(self) -> Outcome:
        try:
            with self._interruptible():
                self._fill()
                while self.children:
                    self._wait()
                    self._fill()
        finally:
            self.bar.close()
            for child in self.children:  # only where something went wrong here
                child.process.kill()
        self.outcome.stopped = bool(self.asked)
        return self.outcome

    # -------------------- children

    def _fill(self) -> None:
        """Start what can be started: not a run whose start is still being made."""
        while len(self.children) < self.jobs and not self.asked:
            unmade = {job.name for job in self.waiting} | {child.job.name for child in self.children}
            ready = next((job for job in self.waiting if job.needs not in unmade), None)
            if ready is None:
                break
            self.waiting.remove(ready)
            self._start(ready)
        self._show()

    def _start(self, job: Job) -> None:
        if (why := self.outcome.failed.get(job.needs)) is not None:
            self._failed(job, f"{job.needs} failed: {why}")
            return
        (job.folder / "error.txt").unlink(missing_ok=True)
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=serve, args=(job, self.logs, self.keep, theirs), name=job.name)
        process.start()
        theirs.close()
        self.children.append(_Child(job, process, ours))
        if self.asked:  # while it was being started
            os.kill(process.pid, signal.SIGINT)

    def _wait(self) -> None:
        """Wait until a child says something or ends."""
        connections = [child.connection for child in self.children if not child.end]
        sentinels = [child.process.sentinel for child in self.children]
        if not multiprocessing.connection.wait([*connections, *sentinels], _REFRESH):
            self.bar.refresh()
        for child in list(self.children):
            ended = child.process.exitcode is not None  # asked first: all that it has said is there then
            self._listen(child)
            if ended:
                self.children.remove(child)
                child.process.join()
                child.connection.close()
                self._ended(child)

    def _listen(self, child: _Child) -> None:
        with contextlib.suppress(EOFError, OSError):
            while child.end is None and child.connection.poll():
                word, what = child.connection.recv()
                if word == "step":
                    self._stepped(child, what)
                else:
                    child.end = (word, what)

    def _stepped(self, child: _Child, steps: int) -> None:
        new, child.steps = steps - child.steps, steps
        if new and not self.bar.disable:
            self.bar.initial += new - 1  # what an earlier call has done says nothing of the speed of this one
            self.bar.update(new)

    def _ended(self, child: _Child) -> None:
        code = child.process.exitcode
        word, why = child.end or ("failed", f"its process ended with status {code}")
        if child.end is None and code < 0:
            hint = " (out of memory, perhaps)" if -code == signal.SIGKILL else ""
            why = f"its process was ended by {signal.Signals(-code).name}{hint}; see {child.job.output}"
        if word == "done":
            self.outcome.made.append(child.job.name)
            self._stepped(child, child.job.steps)
        elif not self.asked:
            self._failed(child.job, why)

    def _failed(self, job: Job, why: str) -> None:
        first = why.split("\n")[0]
        self.outcome.failed[job.name] = first
        with contextlib.suppress(SailRLError):  # a full disk must not end the other runs as well
            write_text(job.folder / "error.txt", why.rstrip() + "\n")
        tqdm.write(f"{job.name} failed: {first}")

    def _show(self) -> None:
        names = [child.job.name for child in self.children]
        self.bar.set_postfix_str(", ".join(names), refresh=False)

    # -------------------- Ctrl-C

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Pass Ctrl-C on: the first ends each run after its step, with a checkpoint, the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals reach the main thread only
            return

        def ask(signum: int, frame: Any) -> None:
            self.asked += 1
            for child in self.children:
                with contextlib.suppress(OSError):
                    os.kill(child.process.pid, signal.SIGINT)
            if self.asked == 1:
                tqdm.write("Stopping after this step, with checkpoints; press Ctrl-C again to stop at once.")

        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
