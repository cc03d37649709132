"""The records of a CSV, JSONL or Parquet file, one after the other, and what is wrong with those it lacks.

Text is UTF-8. A line in another encoding is left out and named, for a guess would put wrong letters into
questions; a file in UTF-16 is refused as a whole.
"""

import csv
import io
import itertools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.errors import SailRLError

Record = tuple[int, dict[str, Any] | Drop]  # the number of its line (CSV, JSONL) or row (Parquet), from 1

LONGEST_LINE = 32 * 2**20  # bytes; a picture in base64 fits
_LONGEST = 100_000  # characters of a CSV record, which has paths and no pictures
_MOST_LINES = 200  # that one quoted cell may span
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def read_table(path: Path) -> tuple[list[str], Iterator[Record]]:
    """The names of a file's columns and its records.

    Of a CSV file the columns are its first line, separated by comma, semicolon or tab; of a JSONL file, what
    its first 20 lines name.

    Raises:
        SailRLError: no such file, an unknown kind of file, an empty one, or none of the kind it should be;
            while reading, a Parquet file that is damaged.
    """
    readers = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
    if path.suffix.lower() not in readers:
        raise SailRLError(f"{path} is no table that can be read; give a file *.csv, *.jsonl or *.parquet")
    if not path.is_file():
        raise SailRLError(f"there is no file {path}; check the name")
    return readers[path.suffix.lower()](path)


# ---- lines


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, str | Drop]]:
    """The numbered lines of a text file, each with its end; an over-long one is never held in memory."""
    for number in itertools.count(1):
        line = file.readline(LONGEST_LINE)
        if not line:
            return
        if number == 1:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise SailRLError(f"{path} is in UTF-16; save it as UTF-8")
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (more := file.readline(LONGEST_LINE)) and not more.endswith(b"\n"):
                pass
            yield number, Drop("too long", f"a line may have at most {LONGEST_LINE:,} bytes")
            continue
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            odd = line[error.start]
            yield number, Drop("not UTF-8", f"byte {odd:#x} at {error.start}; save the file as UTF-8")


# ---- CSV


def _csv(path: Path) -> tuple[list[str], Iterator[Record]]:
    file = path.open("rb")
    lines = _lines(file, path)
    header = next(((n, line) for n, line in lines if isinstance(line, Drop) or line.strip()), None)
    if header is None:
        raise SailRLError(f"{path} is empty; its first line must name the columns")
    if isinstance(header[1], Drop):
        raise SailRLError(f"the first line of {path} cannot be read ({header[1].detail})")
    if "\r" in header[1].rstrip("\r\n"):
        raise SailRLError(f"{path} ends its lines as old Macintosh files did; save it with usual line ends")
    delimiter = max(",;\t", key=header[1].count)
    columns = _cells(header[1], delimiter)
    if columns is None:
        raise SailRLError(f"the first line of {path} has a stray quote; it must name the columns")
    columns = [name.strip().lower() for name in columns]
    if repeated := next((name for name in columns if name and columns.count(name) > 1), None):
        raise SailRLError(f"{path} has two columns {repeated!r}; name one of them otherwise")
    return columns, _csv_records(file, lines, columns, delimiter)


def _csv_records(
    file: BinaryIO, lines: Iterator[tuple[int, str | Drop]], columns: Sequence[str], delimiter: str
) -> Iterator[Record]:
    """The records of the lines after the first.

    A quoted cell may span lines. If it is never closed, or only after a line that is a record of its own, its
    quote was a stray one: the line that opened it is left out, and reading goes on with the next.
    """
    again: deque[tuple[int, str | Drop]] = deque()  # lines read ahead
    with file:
        while (start := again.popleft() if again else next(lines, None)) is not None:
            number, text = start
            if isinstance(text, Drop):
                yield number, text
                continue
            if not text.strip():
                continue
            opened = text
            ahead: list[tuple[int, str | Drop]] = []
            cells = _cells(text, delimiter)
            # Only an open quote can be mended by more lines, and then the number of quotes is odd.
            while (
                cells is None and text.count('"') % 2 and len(text) <= _LONGEST and len(ahead) < _MOST_LINES
            ):
                following = again.popleft() if again else next(lines, None)
                if following is None:
                    break
                ahead.append(following)
                line = following[1]
                if isinstance(line, Drop) or _is_record(line, columns, delimiter):
                    break
                text += line
                if '"' in line:
                    cells = _cells(text, delimiter)
            if cells is None:
                again.extendleft(reversed(ahead))
                yield number, _unreadable(opened)
            elif len(cells) != len(columns):
                yield number, Drop("wrong number of columns", f"{len(cells)} instead of {len(columns)}")
            else:
                yield number, dict(zip(columns, cells, strict=True))


def _unreadable(line: str) -> Drop:
    if len(line) > _LONGEST:
        return Drop("too long", f"a record may have at most {_LONGEST:,} characters")
    return Drop(
        "stray quote",
        "a quote is never closed, or not followed by the end of its cell; double the quotes inside a cell",
    )


def _cells(text: str, delimiter: str) -> list[str] | None:
    """The cells of one record; None if it is too long, or a quote is open or stands where it must not."""
    if len(text) > _LONGEST:
        return None
    text = text.replace("\r\n", "\n").replace("\r", " ")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _is_record(line: str, columns: Sequence[str], delimiter: str) -> bool:
    """Whether a line that a quoted cell would swallow has the right number of cells and names a picture."""
    if len(line) > _LONGEST:
        return False
    rows = list(csv.reader([line.replace("\r", " ")], delimiter=delimiter))
    if "image" not in columns or not rows or len(rows[0]) != len(columns):
        return False
    return rows[0][columns.index("image")].strip().lower().endswith(_PICTURES)


# ---- JSON lines


def _jsonl(path: Path) -> tuple[list[str], Iterator[Record]]:
    file = path.open("rb")
    records = _json_records(file, path)
    first = list(itertools.islice(records, 20))
    columns = list(dict.fromkeys(name for _, record in first if isinstance(record, dict) for name in record))
    if not first:
        raise SailRLError(f"{path} is empty; each line must be a JSON object")
    if not columns:
        raise SailRLError(f"the first lines of {path} hold no JSON object; give one a line, as {{...}}")
    return columns, itertools.chain(first, records)


def _json_records(file: BinaryIO, path: Path) -> Iterator[Record]:
    with file:
        for number, line in _lines(file, path):
            if isinstance(line, Drop):
                yield number, line
            elif line.strip():
                yield number, _json_object(line)


def _json_object(line: str) -> dict[str, Any] | Drop:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Drop("not JSON", str(error)[:200])
    if not isinstance(value, dict):
        return Drop("not JSON", f"an object in braces is needed, not a {type(value).__name__}")
    return {name.strip().lower(): cell for name, cell in value.items()}


# ---- Parquet


def _parquet(path: Path) -> tuple[list[str], Iterator[Record]]:
    try:
        file = pq.ParquetFile(path, pre_buffer=False)  # or all that was read is kept to the end
    except (OSError, pa.ArrowException) as error:
        first = str(error).split("\n")[0]
        raise SailRLError(f"{path} cannot be read as Parquet ({first}); name another file") from error
    names = [name.lower() for name in file.schema_arrow.names]
    return names, _parquet_records(file, names, path)


def _parquet_records(file: pq.ParquetFile, names: Sequence[str], path: Path) -> Iterator[Record]:
    number = 0
    with file:
        try:
            for batch in file.iter_batches(64):
                for cells in zip(*map(_values, batch.columns), strict=True):
                    number += 1
                    bad = next((cell for cell in cells if isinstance(cell, Drop)), None)
                    yield number, bad or dict(zip(names, cells, strict=True))
        except (OSError, pa.ArrowException) as error:
            first = str(error).split("\n")[0]
            raise SailRLError(f"{path} is damaged after row {number} ({first}); write it again") from error


def _values(column: pa.Array) -> list[Any]:
    """The cells of a column; in place of one that Python cannot hold, a Drop that says why."""
    try:
        return column.to_pylist()
    except Exception:  # bytes that are no text, a date beyond the calendar, ...
        return [_value(cell) for cell in column]


def _value(cell: pa.Scalar) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        return Drop("not UTF-8", f"byte {error.object[error.start]:#x} at {error.start} of a text")
    except Exception:  # none of the columns that are read holds such a value
        return None
