"""The one schema of curated data: a question about a picture, its gold answer, and what was done to it.

Rows live in Parquet files with the pictures inside. `datasets` reads them as they are, and so does TRL, for
the columns `prompt`, `completion` (where a response was annotated) and `image` are written along.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, Image, List, Value

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import whole_file
from sailrl_lite.response import render_response

KINDS = ("perception", "general", "reasoning")
_TEXTS = {"id": "", "question": "", "gold": "", "source": "", "kind": "", "split": "train"}  # usual values
_GROUP = 256  # rows a Parquet row group: what is in memory at once


@dataclass(frozen=True)
class Change:
    """What a step did to a field of a row; without a field, its remark. `note` is for a person."""

    step: str
    field: str
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One example.

    id: unique in its file; names the row in every report.
    image: the encoded picture (PNG or JPEG); b"" before it was read.
    gold: the right answer, without a box.
    source: where it comes from, a name of the registry or the reader's own.
    kind: one of `KINDS`, or "" where nobody said.
    needs_thinking: the complexity label; None where nobody said.
    options: the texts of a multiple-choice question, the one after "A" first; empty for an open one.
    judge, think, answer: the annotated response, each block without its tags; None before annotation.
    split: "train", or "test" for what is held out.
    pass_rate: share of tries that the policy got right (the account's pass@4), in [0, 1]; None if not tried.
    provenance: every change of a field, in order.
    """

    id: str
    image: bytes
    question: str
    gold: str
    source: str = ""
    kind: str = ""
    needs_thinking: bool | None = None
    options: tuple[str, ...] = ()
    judge: str | None = None
    think: str | None = None
    answer: str | None = None
    split: str = "train"
    pass_rate: float | None = None
    provenance: tuple[Change, ...] = ()

    @property
    def response(self) -> str | None:
        """The whole annotated response, in the format; None before annotation."""
        if self.judge is None or self.think is None or self.answer is None:
            return None
        return render_response(self.think, self.answer, judge=self.judge)

    def with_change(self, step: str, note: str = "", **values: Any) -> "Row":
        """A copy with new values; each that differs is put down in the provenance."""
        changed = [name for name, value in values.items() if getattr(self, name) != value]
        if not changed:
            return self
        added = tuple(Change(step, name, note) for name in changed)
        return replace(self, **values, provenance=self.provenance + added)


FEATURES = Features(
    {
        "id": Value("string"),
        "image": Image(),
        "question": Value("string"),
        "gold": Value("string"),
        "source": Value("string"),
        "kind": Value("string"),
        "needs_thinking": Value("bool"),
        "options": List(Value("string")),
        "judge": Value("string"),
        "think": Value("string"),
        "answer": Value("string"),
        "split": Value("string"),
        "pass_rate": Value("float64"),
        "provenance": List({name: Value("string") for name in ("step", "field", "note")}),
        "prompt": List({"role": Value("string"), "content": Value("string")}),
        "completion": List({"role": Value("string"), "content": Value("string")}),
    }
)


def write_rows(path: str | Path, rows: Iterable[Row]) -> int:
    """Write a Parquet file whole, in bounded memory; return the number of rows."""
    count = 0
    schema = FEATURES.arrow_schema
    with whole_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        group: list[dict[str, Any]] = []
        for row in rows:
            group.append(_record(row))
            count += 1
            if len(group) == _GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema))
                group = []
        if group or not count:
            writer.write_table(pa.Table.from_pylist(group, schema))
    return count


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of a file that `write_rows` wrote, one after the other, in bounded memory.

    Raises:
        SailRLError: as `check_rows`.
    """
    with _opened(path) as file:
        for batch in file.iter_batches(_GROUP):
            try:
                rows = [_row(record) for record in batch.to_pylist()]
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise SailRLError(
                    f"{path} cannot be read as curated rows ({error}); name another file"
                ) from error
            yield from rows


def check_rows(path: str | Path) -> int:
    """The number of rows of a file; raises SailRLError unless it is one of curated rows."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def _opened(path: str | Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path, pre_buffer=False)  # or all that was read is kept to the end
    except (OSError, pa.ArrowException) as error:
        first = str(error).split("\n")[0]
        raise SailRLError(f"{path} cannot be read as curated rows ({first}); name another file") from error
    if missing := set(FEATURES) - set(file.schema_arrow.names):
        file.close()
        raise SailRLError(f"{path} holds no curated rows: the column {sorted(missing)[0]!r} is missing")
    return file


def _record(row: Row) -> dict[str, Any]:
    record = asdict(row)
    record["image"] = {"bytes": row.image, "path": None}
    record["prompt"] = [{"role": "user", "content": row.question}]
    response = row.response
    record["completion"] = None if response is None else [{"role": "assistant", "content": response}]
    return record


def _row(record: dict[str, Any]) -> Row:
    values = {name: record[name] for name in Row.__dataclass_fields__}
    for name, usual in _TEXTS.items():
        if not isinstance(text := usual if values[name] is None else values[name], str):
            raise TypeError(f"{name} is a {type(text).__name__} and no text")
        values[name] = text
    values["image"] = (record["image"] or {}).get("bytes") or b""
    values["options"] = tuple(record["options"] or ())
    values["provenance"] = tuple(Change(**change) for change in record["provenance"] or ())
    return Row(**values)
