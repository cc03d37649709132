"""How fast the curation pipelines are, how much memory they take, and what 400,000 rows would need.

Rows of the micro-world with some dirt among them go through the SFT and the RL pipeline, each run in a
process of its own, in two sizes: memory should not grow with the rows. No model takes part: the micro-world's
teacher writes the traces, and pass rates are made up. Timings are of one run of one machine.
"""

import contextlib
import io
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image

from sailrl_lite.curation.annotate import MicroTeacher
from sailrl_lite.curation.duplicates import duplicate_key
from sailrl_lite.curation.images import safe_image
from sailrl_lite.curation.mix import References
from sailrl_lite.curation.pipeline import Count, Step, run
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.rl import rl_steps
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.sft import sft_steps
from sailrl_lite.world.teacher import Noise

FULL = 400_000  # rows
_BALLAST = 10_000  # bytes after the end of a picture's file: what held whole files in memory would show


def dirty_rows(count: int) -> Iterator[Row]:
    """`count` rows of the micro-world; of 20 two need mending and one must go.

    Mending: clutter about the question, no label. What must go takes turns: a copy, the same picture as JPEG,
    the same with another gold, a picture that is cut short, a row without a gold.
    """
    before, rng = None, np.random.default_rng(0)
    for number, row in enumerate(read_micro(count)):
        row = replace(row, image=row.image + rng.bytes(_BALLAST))
        place, turn = number % 20, number // 20 % len(_DIRT)
        if place == 5:
            row = replace(row, question=f"<image>\nUSER: {row.question}  Answer with a single word.")
        elif place == 10:
            row = replace(row, needs_thinking=None)
        elif place == 15 and before:
            row = replace(_DIRT[turn](before), id=f"dirt-{number}")
        before = row
        yield row


def _as_jpeg(row: Row) -> Row:
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(row.image)) as image:
        image.save(buffer, "JPEG", quality=90)
    return replace(row, image=buffer.getvalue())


_DIRT: tuple[Callable[[Row], Row], ...] = (
    lambda row: row,
    _as_jpeg,
    lambda row: replace(row, gold=f"not {row.gold}"),
    lambda row: replace(row, image=row.image[:100]),
    lambda row: replace(row, gold=" "),
)


class _Coin:
    """Stands for a policy: of four tries one to three are right, or now and then none or all."""

    fingerprint = "coin"

    def __call__(self, rows: Sequence[Row], tries: int, seed: int) -> list[list[str]]:
        answer = "<judge>Think.</judge><think>...</think><answer>\\boxed{%s}</answer>"
        return [
            [
                answer % (row.gold if k < (len(row.id) + number) % (tries + 1) else "none")
                for k in range(tries)
            ]
            for number, row in enumerate(rows)
        ]


def _sft(folder: Path) -> list[Step]:
    return sft_steps(teacher=MicroTeacher(Noise()))


def _rl(folder: Path) -> list[Step]:
    references = References(read_micro(1000, split="test"))
    return rl_steps(sampler=_Coin(), scores=folder / "scores.sqlite", references=references)


PIPELINES: dict[str, Callable[[Path], list[Step]]] = {"sft": _sft, "rl": _rl}


# ---- one run


@dataclass(frozen=True)
class Result:
    """What a run took.

    wall: seconds.
    main, worker: peak memory of the process that runs the pipeline and of its largest worker, bytes.
    folder, out: the most that lay on disk at once, and the result, bytes.
    """

    counts: dict[str, Count]
    wall: float
    main: int
    worker: int
    folder: int
    out: int


def measure(pipeline: str, rows: int, workers: int) -> Result:
    """Run a pipeline over so many rows in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_child, args=(sender, pipeline, rows, workers))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()


def _child(sender: Connection, pipeline: str, rows: int, workers: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps, seen, ended = PIPELINES[pipeline](folder), [0], threading.Event()
        watcher = threading.Thread(target=_watch, args=(folder, seen, ended))
        watcher.start()
        reading = [0.0]
        started = time.perf_counter()
        given = _timed(dirty_rows(rows), reading)
        tally = run(given, steps, folder / "out.parquet", folder, workers, bar=False)
        wall = time.perf_counter() - started
        ended.set()
        watcher.join()
        tally.counts["read"].seconds = reading[0]
        worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT
        out = (folder / "out.parquet").stat().st_size
        sender.send(Result(tally.counts, wall, _peak(), worker, max(seen[0], out), out))


def _timed(rows: Iterable[Row], seconds: list[float]) -> Iterator[Row]:
    iterator = iter(rows)
    while True:
        started = time.perf_counter()
        row = next(iterator, None)
        seconds[0] += time.perf_counter() - started
        if row is None:
            return
        yield row


def _watch(folder: Path, seen: list[int], ended: threading.Event) -> None:
    while not ended.wait(0.1):
        size = 0
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):  # it was removed in between
                size += path.stat().st_size
        seen[0] = max(seen[0], size)


_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, bytes


def _peak() -> int:
    """Bytes. On Linux a new process counts in its ru_maxrss what its parent had, so the kernel's own mark."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


# ---- a photograph instead of a small picture


def photograph() -> bytes:
    """A JPEG of 1024 x 768 pixels with as much in it as a photograph has."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 255, (48, 64, 3), np.uint8)).resize((1024, 768))
    buffer = io.BytesIO()
    noisy = np.asarray(coarse, float) + rng.normal(0, 6, (768, 1024, 3))
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def _milliseconds(work: Callable[[], object], times: int = 20) -> float:
    """Of processor time."""
    started = time.process_time()
    for _ in range(times):
        work()
    return 1000 * (time.process_time() - started) / times


# ---- all of it


def main(rows: int = 20_000) -> None:
    """Both pipelines over a tenth of the rows and over all of them, with a worker a core."""
    workers = os.cpu_count() or 1
    for pipeline in PIPELINES:
        few = rows // 10
        small, large = measure(pipeline, few, workers), measure(pipeline, rows, workers)
        print(f"\n{pipeline}: {rows:,} rows, {workers} workers; work is summed over processes\n")
        print(f"{'step':18}{'rows in':>10}{'dropped':>10}{'work, s':>10}{'rows a second':>16}")
        for name, count in large.counts.items():
            rate = f"{count.rows / count.seconds:,.0f}" if count.seconds > 0.001 else "-"
            print(f"{name:18}{count.rows:>10,}{count.dropped.total():>10,}{count.seconds:>10.2f}{rate:>16}")
        print(f"\n{'':24}{f'{few:,} rows':>14}{f'{rows:,} rows':>14}{f'{FULL:,} rows':>16}")
        for name, column, unit, digits in (
            ("wall, minutes", "wall", 60, 1),
            ("peak memory, MB", "main", 1e6, 0),
            ("a worker's, MB", "worker", 1e6, 0),
            ("most on disk, MB", "folder", 1e6, 1),
            ("the result, MB", "out", 1e6, 1),
        ):
            one, other = getattr(small, column) / unit, getattr(large, column) / unit
            full = other + (other - one) / (rows - few) * (FULL - rows)  # on the line through both
            print(f"{name:24}{one:>14,.{digits}f}{other:>14,.{digits}f}{full:>16,.{digits}f}")
    data = photograph()
    row = Row("photograph", data, "", "")
    images, keys = _milliseconds(lambda: safe_image(data)), _milliseconds(lambda: duplicate_key(row))
    print(
        f"\na photograph of 1024 x 768 pixels, {len(data) / 1e3:.0f} kB, takes {images:.0f} ms of work in "
        f"“images” and {keys:.0f} ms each time that it is hashed: {images * FULL / 3.6e6:.1f} h and "
        f"{keys * FULL / 3.6e6:.1f} h for {FULL:,}, and {len(data) * FULL / 1e9:.0f} GB for each copy on disk"
    )
