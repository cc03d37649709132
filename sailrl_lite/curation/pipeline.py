"""Runs the steps of a curation over a stream of rows, in bounded memory, and counts what each did.

A step is one of three kinds. `Map` looks at one row at a time and is spread over processes. `Batch` takes
some rows at once, for a model or an endpoint. `Choose` must have seen every row before it can decide about
any (duplicates, balance): the stream is put down in a file, small keys of all rows are compared, and the
stream goes on.
"""

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from tqdm.auto import tqdm

from sailrl_lite.curation.schema import Row, read_rows, write_rows

_CHUNK = 32  # rows that go to a process at once
_FEW = 64  # chunks that are done before other processes would have started
_Made = TypeVar("_Made")
_PAIRS = 6  # of a step and a reason


@dataclass(frozen=True)
class Drop:
    """Why a row is left out: `reason` is one of few, to be counted; `detail` is for a person; `other` is the
    id of the row because of which it goes, as of a duplicate."""

    reason: str
    detail: str = ""
    other: str = ""


@dataclass(frozen=True, slots=True)  # there may be hundreds of thousands
class Dropped:
    """A row that a step left out; `step` "read" is the reader."""

    id: str
    step: str
    reason: str
    detail: str = ""
    other: str = ""


@dataclass(frozen=True)
class Map:
    """A step on single rows. The function is pure, and a module's own or a partial of one."""

    name: str
    function: Callable[[Row], Row | Drop]


@dataclass(frozen=True)
class Batch:
    """A step on up to `size` rows at once, in this process; it returns one result a row, in their order."""

    name: str
    function: Callable[[list[Row]], Sequence[Row | Drop]]
    size: int = 256


@dataclass(frozen=True)
class Choose:
    """A step that needs all rows.

    key: small values of one row, the same names for every row: the columns of a table. A function as a `Map`
        has, without side effects.
    choose: from that table, indexed by id in the order of the stream, to a Drop or an Edit for each id that
        is not to stay as it is.
    watch: a column of numbers (None: not counted) to be shown before and after the choice, as of lengths.
    """

    name: str
    key: Callable[[Row], Mapping[str, Any]]
    choose: Callable[[pd.DataFrame], Mapping[str, "Drop | Edit"]]
    watch: str = ""


@dataclass(frozen=True)
class Edit:
    """New values for fields of a row."""

    values: Mapping[str, Any]
    note: str = ""


Step = Map | Batch | Choose


@dataclass
class Count:
    """What one step did: rows in, rows changed, rows dropped by reason, and the seconds of work it took."""

    rows: int = 0
    changed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(frozen=True)
class Spread:
    """How many rows had which value of a watched column before a choice and after it."""

    column: str
    before: Counter[float]
    after: Counter[float]


@dataclass
class Tally:
    """What happened in a run.

    counts: of every step, in their order.
    dropped: each row that was left out.
    spreads: by step, of those that watch a column.
    pairs: by id, the first rows that a choice dropped for the sake of another, and these others: to look at.
    """

    counts: dict[str, Count]
    dropped: list[Dropped] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    pairs: dict[str, Row] = field(default_factory=dict)

    def drop(self, row: str, step: str, why: Drop) -> None:
        self.counts[step].dropped[why.reason] += 1
        self.dropped.append(Dropped(row, step, why.reason, why.detail, why.other))


def run(
    rows: Iterable[Row | Dropped],
    steps: Sequence[Step],
    out: Path,
    work: Path,
    workers: int = 1,
    bar: bool = True,
    total: int | None = None,
) -> Tally:
    """Run the steps over the rows and write what is left to `out`, a Parquet file.

    Args:
        rows: from a reader, which says for itself what it could not read.
        steps: their names must differ.
        work: a folder for the rows between steps; its files are removed as soon as they were read.
        workers: processes for the `Map` steps and the keys; 1 is this one.
        bar: whether to draw progress bars.
        total: number of rows, where it is known.
    """
    tally = Tally({name: Count() for name in ["read", *(step.name for step in steps)]})
    with ExitStack() as stack:
        pool = stack.enter_context(_Pool(workers))
        stream = _read(_with_bar(rows, "read", total, bar), tally)
        stages = [list(group) for _, group in itertools.groupby(steps, type)]
        spool: Path | None = None
        for number, group in enumerate(stages):
            for step in group:
                if isinstance(step, Batch):
                    stream = _batch(stream, step, tally)
            if maps := [step for step in group if isinstance(step, Map)]:
                stream = _map(stream, maps, tally, pool)
            if chooses := [step for step in group if isinstance(step, Choose)]:
                before, spool = spool, work / f"{number}.parquet"
                stream, total = _choose(stream, chooses, tally, spool, pool)
                stream = _with_bar(stream, f"after {chooses[-1].name}", total, bar)
                if before:
                    before.unlink()
        write_rows(out, stream)
        if spool:
            spool.unlink()
    return tally


def _with_bar(rows: Iterable[Any], name: str, total: int | None, bar: bool) -> Iterator[Any]:
    yield from tqdm(rows, desc=name, total=total, unit="row", disable=not bar, dynamic_ncols=True)


def _read(rows: Iterable[Row | Dropped], tally: Tally) -> Iterator[Row]:
    count = tally.counts["read"]
    for row in rows:
        count.rows += 1
        if isinstance(row, Dropped):
            tally.drop(row.id, "read", Drop(row.reason, row.detail, row.other))
        else:
            yield row


# ---- rows one at a time


@dataclass
class _Outcome:
    """What became of a row: the row or the Drop, the step that dropped it, the steps that changed it."""

    row: Row | Drop
    id: str
    last: int
    changed: tuple[int, ...]


def _apply(functions: Sequence[Callable[[Row], Row | Drop]], rows: Sequence[Row]) -> tuple[Any, list[float]]:
    """Run some rows through all functions; the outcomes, and the seconds spent in each function."""
    outcomes, seconds = [], [0.0] * len(functions)
    for row in rows:
        changed: list[int] = []
        now: Row | Drop = row
        for number, function in enumerate(functions):
            started = time.perf_counter()
            result = function(now)  # type: ignore[arg-type]  # a Drop ends the loop
            seconds[number] += time.perf_counter() - started
            if isinstance(result, Row) and result is not now:
                changed.append(number)
            now = result
            if isinstance(now, Drop):
                break
        outcomes.append(_Outcome(now, row.id, number, tuple(changed)))
    return outcomes, seconds


def _map(stream: Iterable[Row], steps: list[Map], tally: Tally, pool: "_Pool") -> Iterator[Row]:
    apply = partial(_apply, [step.function for step in steps])
    for _, (outcomes, seconds) in pool.in_order(apply, _chunks(stream, _CHUNK)):
        for number, step in enumerate(steps):
            count = tally.counts[step.name]
            count.seconds += seconds[number]
            count.rows += sum(outcome.last >= number for outcome in outcomes)
            count.changed += sum(number in outcome.changed for outcome in outcomes)
        for outcome in outcomes:
            if isinstance(outcome.row, Drop):
                tally.drop(outcome.id, steps[outcome.last].name, outcome.row)
            else:
                yield outcome.row


class _Pool:
    """Worker processes for functions of chunks. They start once so many chunks have come that it pays."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor: ProcessPoolExecutor | None = None
        self._chunks = 0

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def in_order(
        self, function: Callable[[list[Row]], _Made], chunks: Iterator[list[Row]]
    ) -> Iterator[tuple[list[Row], _Made]]:
        """Each chunk with what the function makes of it, in their order, only a few of them under way."""
        waiting: deque[tuple[list[Row], Future[_Made]]] = deque()
        for chunk in chunks:
            self._chunks += 1
            if self._workers == 1 or self._chunks <= _FEW:
                yield chunk, function(chunk)
                continue
            if self._executor is None:
                spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
                self._executor = ProcessPoolExecutor(self._workers, spawn, _end_with_parent)
                with _deaf_to_ctrl_c():
                    self._executor.submit(int)  # all processes are started for the first task
            waiting.append((chunk, self._executor.submit(function, chunk)))
            if len(waiting) > 2 * self._workers:
                chunk, future = waiting.popleft()
                yield chunk, future.result()
        for chunk, future in waiting:
            yield chunk, future.result()


def _end_with_parent() -> None:
    """In a worker process: end when the one that started it was killed and cannot say so."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C: their parent does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _chunks(stream: Iterable[Row], size: int) -> Iterator[list[Row]]:
    rows = iter(stream)
    while chunk := list(itertools.islice(rows, size)):
        yield chunk


# ---- some rows, and all rows, at once


def _batch(stream: Iterable[Row], step: Batch, tally: Tally) -> Iterator[Row]:
    count = tally.counts[step.name]
    for rows in _chunks(stream, step.size):
        started = time.perf_counter()
        results = step.function(rows)
        count.seconds += time.perf_counter() - started
        count.rows += len(rows)
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, Drop):
                tally.drop(row.id, step.name, result)
            else:
                count.changed += result is not row
                yield result


def _keys(
    functions: Sequence[Callable[[Row], Mapping[str, Any]]], rows: Sequence[Row]
) -> tuple[list[list[Mapping[str, Any]]], list[float]]:
    """The keys of some rows, a list for each function, and the seconds spent in each."""
    keys, seconds = [], []
    for function in functions:
        started = time.perf_counter()
        keys.append([function(row) for row in rows])
        seconds.append(time.perf_counter() - started)
    return keys, seconds


def _choose(
    stream: Iterable[Row], steps: list[Choose], tally: Tally, spool: Path, pool: _Pool
) -> tuple[Iterator[Row], int]:
    """Put the stream down, decide, and return the stream of what stays, with its length."""
    keys: dict[str, dict[str, list[Any]]] = {step.name: {} for step in steps}  # by column: half the memory
    ids: list[str] = []

    def keyed() -> Iterator[Row]:
        make = partial(_keys, [step.key for step in steps])
        for rows, (made, seconds) in pool.in_order(make, _chunks(stream, _CHUNK)):
            ids.extend(row.id for row in rows)
            for step, of_rows, spent in zip(steps, made, seconds, strict=True):
                tally.counts[step.name].seconds += spent
                for key in of_rows:
                    for column, value in key.items():
                        keys[step.name].setdefault(column, []).append(value)
            yield from rows

    write_rows(spool, keyed())
    edits: dict[str, list[tuple[str, Edit]]] = {}
    gone: set[str] = set()
    shown: set[str] = set()
    for step in steps:
        count = tally.counts[step.name]
        started = time.perf_counter()
        table = pd.DataFrame(keys.pop(step.name), index=pd.Index(ids, name="id"))
        table = table[~table.index.isin(gone)]
        decided = step.choose(table) if len(table) else {}
        count.rows += len(table)
        for row, decision in decided.items():
            if isinstance(decision, Drop):
                gone.add(row)
                tally.drop(row, step.name, decision)
                if decision.other and count.dropped[decision.reason] <= _PAIRS:
                    shown |= {row, decision.other}
            else:
                count.changed += 1
                edits.setdefault(row, []).append((step.name, decision))
        if step.watch and len(table):
            values = table[step.watch].dropna()
            stays = values[~values.index.isin(gone)]
            tally.spreads[step.name] = Spread(step.watch, Counter(values.tolist()), Counter(stays.tolist()))
        count.seconds += time.perf_counter() - started

    def left() -> Iterator[Row]:
        for row in read_rows(spool):
            if row.id in shown:
                tally.pairs[row.id] = row
            if row.id in gone:
                continue
            for name, edit in edits.get(row.id, ()):
                row = row.with_change(name, edit.note, **edit.values)
            yield row

    return left(), len(ids) - len(gone)
