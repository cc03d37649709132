"""What watches a training run: a progress bar, the metrics file, and a stop that loses nothing."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm
from transformers import TrainerCallback

from sailrl_lite.files import write_text
from sailrl_lite.judges.protocol import Judge
from sailrl_lite.training.processes import agreed, index
from sailrl_lite.training.shared_judge import why_stopped

_TIMES = ("runtime", "per_second", "time", "flos", "profiling")  # not a function of the seed


class Watch(TrainerCallback):
    """Writes metrics.csv whole after every generation batch and keeps the progress bar, in the first process.

    Args:
        folder: where metrics.csv goes.
        updates: optimizer updates a generation batch; both file and bar count batches.
        show: (name in the bar, column) pairs.
        bar: whether to draw it.
        judge: one that is paid is shown in it.
        on_batch: called with the table so far, for a live plot.
    """

    def __init__(
        self,
        folder: Path,
        updates: int,
        show: tuple[tuple[str, str], ...],
        bar: bool = True,
        on_batch: Callable[[pd.DataFrame], None] | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.folder, self.updates, self.show, self.bar, self.on_batch = folder, updates, show, bar, on_batch
        self.judge = judge
        self.first = index() == 0
        self.progress: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        done, total = state.global_step // self.updates, state.max_steps // self.updates
        shown = self.bar and self.first
        self.progress = tqdm(total=total, initial=done, unit="step", disable=not shown, dynamic_ncols=True)
        if done and self.first:
            self._write(metric_rows(state.log_history, self.updates))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any
    ) -> None:
        if "loss" not in (logs or {}) or not self.first:
            return
        rows = metric_rows(state.log_history, self.updates)
        table = self._write(rows)
        last = rows[-1]
        shown = {
            name: f"{round(last[key], 2) + 0:.2f}" for name, key in self.show if last.get(key) is not None
        }
        if self.judge and (status := self.judge.status()):
            shown["judge"] = status
        self.progress.set_postfix(shown)
        self.progress.update(last["step"] - self.progress.n)
        if self.on_batch:
            self.on_batch(table)

    def _write(self, rows: list[dict[str, Any]]) -> pd.DataFrame:
        table = pd.DataFrame(rows)
        write_text(self.folder / "metrics.csv", table.to_csv(index=False))
        return table

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.progress.close()


def metric_rows(history: list[dict[str, Any]], updates: int) -> list[dict[str, Any]]:
    """The logged metrics that are a function of the seed, one row a generation batch; `step` counts these."""
    rows = []
    for entry in history:
        if "loss" in entry:
            # Sorted, as they come back from a checkpoint.
            kept = {k: v for k, v in sorted(entry.items()) if not any(word in k for word in _TIMES)}
            rows.append({"step": kept.pop("step") // updates} | kept)
    return rows


class StopBetweenBatches(TrainerCallback):
    """Ends the run with a checkpoint, at a place from which it can go on exactly.

    Rollouts in use are not part of a checkpoint, so a stop waits for the last update of their batch. A judge
    that has stopped (its budget is spent) stops the run. What one process is asked or finds, all do.
    """

    def __init__(self, updates: int, judge: Judge | None = None) -> None:
        self.updates, self.judge = updates, judge
        self.asked = ""

    @property
    def why(self) -> str:
        """Why the run is to stop; "" while it is not."""
        return (why_stopped(self.judge) if self.judge else "") or self.asked

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.updates == 0 and state.global_step < state.max_steps:
            self.asked = agreed(self.why)
            if self.asked:
                control.should_save = control.should_training_stop = True


@contextmanager
def stop_on_interrupt(stop: StopBetweenBatches) -> Iterator[None]:
    """The first Ctrl-C asks for a clean stop, the second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def ask(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop.asked = "interrupted"
        if index() == 0:
            tqdm.write("Stopping after this step, with a checkpoint; press Ctrl-C again to stop at once.")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
