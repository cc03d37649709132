"""Files are written whole or not at all, into a neighbour first, which then takes the name."""

import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sailrl_lite.errors import SailRLError


def write_text(path: str | Path, text: str) -> None:
    """Write a text file; a full disk or a kill leaves the old file, or none, in its place."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Like `write_text`, for bytes. Raises SailRLError naming the file that cannot be written."""
    path = Path(path).resolve()  # through a link, not in its place
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or a pipe, which has no other file to put in its place
            return
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise SailRLError(
            f"cannot write {path}: {error.strerror}; free some space or name another folder"
        ) from error


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """The table in a TOML file; `what` it holds is named in the SailRLError if it cannot be read."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SailRLError(f"cannot read {what} in {file}: {error.strerror}") from error
    except ValueError as error:
        raise SailRLError(f"{file} is no TOML: {error}") from error


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its name if the block ends well and goes away if not."""
    path = Path(path).resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / path.name
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        raise SailRLError(
            f"cannot write {path}: {error.strerror}; free some space or name another folder"
        ) from error


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Say in one line what a full disk does to a checkpoint: the libraries raise many things for it."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        first = str(error).split("\n")[0]
        raise SailRLError(
            f"cannot write the checkpoint {folder} ({first}); free some space and go on with --resume"
        ) from error


@contextmanager
def working_in(out: Path) -> Iterator[None]:
    """Keep other processes out of a run folder.

    Raises:
        SailRLError: another process is at work there, or nothing can be written there.
    """
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise SailRLError(
            f"another process is at work in {out}; wait for it, or give another --out"
        ) from None
    except OSError as error:
        raise SailRLError(f"cannot write to {out}: {error.strerror}; name another folder") from error
    try:
        yield
    finally:
        lock.release()
