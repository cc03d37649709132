"""Files are written whole or not at all: into a neighbour first, which then takes the name."""

import os
import tempfile
from pathlib import Path

from sailrl_lite.errors import SailRLError


def write_text(path: str | Path, text: str) -> None:
    """Write a text file; a full disk or a kill leaves the old file, or none, in its place."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Like `write_text`, for bytes. Raises SailRLError naming the file that cannot be written."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
