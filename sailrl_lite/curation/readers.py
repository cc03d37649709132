"""Rows to curate: from a file of one's own, from the micro-world, from a public source.

Nothing in the data stops a reader: what cannot be a row is a `Dropped` that says why. A picture is only
fetched here, not decoded; that is the step "images".
"""

import difflib
import io
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets

from sailrl_lite.answers import check_gold
from sailrl_lite.curation.images import fetch_image
from sailrl_lite.curation.options import LETTERS, multiple_choice
from sailrl_lite.curation.pipeline import Drop, Dropped
from sailrl_lite.curation.schema import FEATURES, KINDS, Row, read_rows
from sailrl_lite.curation.sources import Source, get_source
from sailrl_lite.curation.tables import Record, read_table
from sailrl_lite.errors import SailRLError
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem

MICRO = "micro-world"
_REQUIRED = ("image", "question", "answer")
_LONGEST = 20_000  # characters of a question; the paper's inputs end at 16,000 tokens
_LONGEST_NAME = 200
_YES_NO = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0", "think"), True),  # "1.0": pandas, if there are gaps
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0", "direct"), False),
}
_NOTHING = ("", "nan", "none", "null", "<na>")


def read_file(path: str | Path, images: str | Path | None = None) -> Iterator[Row | Dropped]:
    """The rows of a CSV, JSONL or Parquet file, in bounded memory.

    Columns: `image`, `question`, `answer`; and if you like `needs_thinking` (true, false or nothing), `kind`,
    `source`, `id`, and `options` (a JSON list) or the columns A, B, C ... A picture is a path in the folder
    `images` (None: the file's own) that does not lead out of it; in JSONL also base64 or a data URL; in
    Parquet also bytes, or `bytes` and `path` as `datasets` writes them. What was curated before is read too.

    Reasons to drop: those of `tables` ("not UTF-8", "stray quote", "wrong number of columns", "not JSON",
    "too long"), "not text", "empty question", "empty gold", "unusable gold", "answer is no option", "bad
    options", "bad needs_thinking", "bad kind", "no picture", "missing picture", "path leaves the folder",
    "too large", "bad base64". The id of a dropped row is FILE:line N, for Parquet FILE:row N.

    Raises:
        SailRLError: as `read_table`, or a column is missing.
    """
    path = Path(path)
    names, records = read_table(path)
    if set(FEATURES) <= set(names):
        return _curated_rows(path)
    if missing := [name for name in _REQUIRED if name not in names]:
        near = difflib.get_close_matches(missing[0], names, 1)
        remedy = f"rename {near[0]!r}" if near else f"it has {', '.join(names)}"
        raise SailRLError(f"{path} has no column {missing[0]!r}; {remedy}")
    return _file_rows(path, Path(images) if images else path.parent, records)


def read_micro(
    count: int, families: Sequence[str] | None = None, split: str = "train", seed_offset: int = 0
) -> Iterator[Row]:
    """`count` problems of the micro-world, the families (None: all) in turn; the id is the problem's own.

    Args:
        seed_offset: the number of the first problem of each family, from 0.

    Raises:
        SailRLError: unknown family or split.
    """
    names = tuple(families or FAMILIES)
    for index in range(count):
        problem = make_problem(names[index % len(names)], seed_offset + index // len(names), split)
        buffer = io.BytesIO()
        problem.image.save(buffer, "PNG")
        yield Row(
            id=problem.id,
            image=buffer.getvalue(),
            question=problem.question,
            gold=problem.gold,
            source=MICRO,
            kind=problem.kind,
            needs_thinking=problem.needs_thinking,
            split=split,
        )


def problem_of(row: Row) -> Problem | None:
    """The micro-world's problem behind a row, with its whole truth; None for a row from elsewhere."""
    named = re.fullmatch(r"(\w+)-(train|test)-([0-9]+)", row.id)
    if row.source != MICRO or not named or named[1] not in FAMILIES:
        return None
    return make_problem(named[1], int(named[3]), named[2])


def read_source(
    name: str, limit: int | None = None, streaming: bool = True, images: str | Path | None = None
) -> Iterator[Row | Dropped]:
    """The rows of a source of the registry, through `datasets`; the id is NAME-N, N counted from 0.

    Args:
        limit: the number of records to read; None is all.
        streaming: read over the net as needed, instead of downloading the whole first.
        images: the folder of the unpacked archive, for a source whose pictures lie apart.

    Raises:
        SailRLError: unknown source, no `images` where they are needed, or the hub does not give the data.
    """
    source = get_source(name)
    if source.archive and images is None:
        raise SailRLError(
            f"the pictures of {name} lie apart; unpack {source.archive} of {source.hub} and name the folder"
        )
    return _source_rows(source, limit, streaming, Path(images) if images else None)


# ---- a file of one's own


def _file_rows(path: Path, folder: Path, records: Iterator[Record]) -> Iterator[Row | Dropped]:
    unit = "row" if path.suffix.lower() == ".parquet" else "line"
    seen: set[str] = set()
    for number, record in records:
        place = f"{path.name}:{unit} {number}"
        row = record if isinstance(record, Drop) else _file_row(record, path.stem, number, folder)
        if isinstance(row, Drop):
            yield _dropped(place, row)
            continue
        yield _named(row, f"{unit} {number}", seen)


def _curated_rows(path: Path) -> Iterator[Row | Dropped]:
    seen: set[str] = set()
    for number, row in enumerate(read_rows(path), start=1):
        if why := _problem(row):
            yield _dropped(row.id or f"{path.name}:row {number}", why)
        else:
            yield _named(row if row.id else replace(row, id=f"{path.stem}-{number}"), f"row {number}", seen)


def _named(row: Row, place: str, seen: set[str]) -> Row:
    """The row under an id that is not in `seen`, where it is then added."""
    name = row.id
    while name in seen:
        name = f"{name} ({place})"
    seen.add(name)
    return row.with_change("read", "the id stood in an earlier row", id=name)


def _file_row(record: Mapping[str, Any], stem: str, number: int, folder: Path) -> Row | Drop:
    needs_thinking, options = _flag(record.get("needs_thinking")), _options(record)
    if isinstance(needs_thinking, Drop):
        return needs_thinking
    if isinstance(options, Drop):
        return options
    for name in ("question", "answer"):
        if isinstance(value := record.get(name), bool | list | dict):
            return Drop("not text", f"the {name} is a {type(value).__name__}; write it as text")
    row = Row(
        id=_text(record.get("id")) or f"{stem}-{number}",
        image=b"",
        question=_text(record.get("question")),
        gold=_text(record.get("answer")),
        source=_text(record.get("source")) or stem,
        kind=_text(record.get("kind")).lower(),
        needs_thinking=needs_thinking,
        options=options,
    )
    if why := _problem(row):
        return why
    if found := multiple_choice(row.question, row.gold, options):
        row = replace(row, question=found[0], gold=found[1], options=found[2])
    elif options:
        return Drop("answer is no option", f"{row.gold!r} is none of {options}"[:200])
    image = fetch_image(record.get("image"), folder)
    return image if isinstance(image, Drop) else replace(row, image=image)


def _problem(row: Row) -> Drop | None:
    """What is wrong with the texts of a row."""
    if not row.question.strip():
        return Drop("empty question")
    if not row.gold.strip():
        return Drop("empty gold")
    texts = (row.question, *row.options)
    if (length := sum(map(len, texts))) > _LONGEST:
        return Drop("too long", f"the question has {length:,} characters, at most {_LONGEST:,} are taken")
    if max(len(row.id), len(row.source)) > _LONGEST_NAME:
        return Drop("too long", f"id and source may have {_LONGEST_NAME} characters at most")
    try:
        "".join((row.id, row.source, row.gold, *texts)).encode()
    except UnicodeEncodeError as error:  # JSON can write halves of characters, and no file can hold them
        return Drop("not UTF-8", error.reason)
    if row.kind and row.kind not in KINDS:
        return Drop("bad kind", f"{row.kind[:50]!r}; give {', '.join(KINDS)} or nothing")
    try:
        check_gold(row.gold)
    except ValueError as error:
        return Drop("unusable gold", str(error))
    return None


def _text(value: Any) -> str:
    """A cell as text; empty for nothing and for what is neither text nor number."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    whole = isinstance(value, float) and value.is_integer()  # whole numbers with gaps make a column of floats
    return str(int(value) if whole else value)


def _flag(value: Any) -> bool | Drop | None:
    if value is None or isinstance(value, bool):
        return value
    text = _text(value).lower() or str(value).strip()
    if text in _NOTHING:
        return None
    return _YES_NO.get(text, Drop("bad needs_thinking", f"{str(value)[:50]!r}; give true, false or nothing"))


def _options(record: Mapping[str, Any]) -> tuple[str, ...] | Drop:
    """The options of a record: its column `options`, or its columns a, b, c ...; none if these are empty."""
    given = record.get("options")
    if isinstance(given, str) and given.strip():
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return Drop("bad options", f"{given[:100]!r}; give a JSON list of texts")
    if not given:
        given = [record.get(letter.lower()) for letter in LETTERS] if "b" in record else []
        while given and not _text(given[-1]):
            given.pop()
    if not isinstance(given, list):
        return Drop("bad options", f"{str(given)[:100]!r}; give a JSON list of texts")
    return tuple(_text(option) for option in given)


# ---- a public source


def _source_rows(
    source: Source, limit: int | None, streaming: bool, folder: Path | None
) -> Iterator[Row | Dropped]:
    for number, record in enumerate(itertools.islice(_source_records(source, streaming), limit)):
        identity = f"{source.name}-{number}"
        try:
            row = source.row(record)
            image = fetch_image(record[source.image], folder)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            row = image = Drop(
                "unexpected record", f"{type(error).__name__}: {error}; it has {[*record]}"[:300]
            )
        if isinstance(row, Drop):
            yield _dropped(identity, row)
        elif isinstance(image, Drop):
            yield _dropped(identity, image)
        else:
            yield replace(row, id=identity, image=image, source=source.name, kind=source.kind)


def _source_records(source: Source, streaming: bool) -> Iterator[Mapping[str, Any]]:
    """The records of all subsets in turn, with pictures as files and not decoded."""
    files = {"data_files": list(source.files)} if source.files else {}
    try:
        subsets = []
        for config in source.configs or (None,):
            subset = datasets.load_dataset(
                source.hub,
                config,
                split=source.split,
                revision=source.revision,
                streaming=streaming,
                **files,
            )
            if not source.archive:
                subset = subset.cast_column(source.image, datasets.Image(decode=False))
            subsets.append(subset)
        for together in itertools.zip_longest(*subsets):
            yield from (record for record in together if record is not None)
    except Exception as error:  # from the net, the hub and the format of files, of many kinds
        first = str(error).split("\n")[0][:200]
        raise SailRLError(
            f"{source.hub} cannot be read ({type(error).__name__}: {first}); check the network; "
            f"a gated set needs `hf auth login`"
        ) from error


def _dropped(identity: str, why: Drop) -> Dropped:
    return Dropped(identity, "read", why.reason, why.detail)
