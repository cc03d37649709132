"""A folder in which a run or a start is made: what has begun there, and what it has cost so far."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.settings import Settings

_PATIENCE = 120.0  # seconds that a process whose study was killed has to end its step


class Meter:
    """Wall and CPU seconds, summed over the parts of a run in a file that a kill leaves behind."""

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


def begin(folder: Path, config: Settings | None, hash: str = "") -> Meter:
    """Go on in a folder that holds what was begun with this configuration and hash, or in an empty one."""
    file = folder / "begun.json"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    new = {"hash": hash, "started": started, "wall_seconds": 0.0, "cpu_seconds": 0.0}
    try:
        before = new | json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = new
    if before["hash"] != hash or (config and not holds(folder, config)):
        shutil.rmtree(folder, ignore_errors=True)
        before = new
    meter = Meter(file, before)
    meter.save()
    return meter


def holds(folder: Path, config: Settings) -> bool:
    """Whether a run folder was begun with this configuration."""
    try:
        text = (folder / "config.json").read_text(encoding="utf-8", errors="replace")
        return type(config).from_json(text) == config
    except (OSError, SailRLError):
        return False


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait for a process that a killed study has left behind in the folder, and keep others out."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=_PATIENCE)
    try:
        lock.acquire()
    except Timeout:
        raise SailRLError(f"another process is at work in {folder}; wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


def _cpu_seconds() -> float:
    return sum(os.times()[:4])  # of this process and of those it has waited for
