"""Problems as rows of verl's Parquet: from a file of curated rows, or drawn from the micro-world."""

import io
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sailrl_lite.answers import check_gold
from sailrl_lite.config import RLConfig
from sailrl_lite.curation.images import safe_image
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.readers import MICRO, problem_of
from sailrl_lite.curation.schema import Row, read_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import whole_file
from sailrl_lite.judges.specs import innermost, read_spec
from sailrl_lite.rewards import get_reward
from sailrl_lite.training.data import check_data, rl_dataset
from sailrl_lite.training.models import SPECIAL
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem

VALIDATION = 10  # micro-world problems of each family that verl validates on
# What verl, or the policy, reads in a question as the place of a picture and so on.
PLACES = ("<image>", "<video>", "<audio>", *SPECIAL)
_GROUP = 256  # rows a Parquet row group: what is in memory at once
_PICTURE = [("bytes", pa.binary()), ("max_pixels", pa.int64())]
_PROBLEM = [("family", pa.string()), ("seed", pa.int64()), ("split", pa.string()), ("shortcut", pa.float64())]
_INFO = [
    ("index", pa.int64()), ("id", pa.string()), ("split", pa.string()), ("needs_thinking", pa.bool_()),
    ("question", pa.string()),
]  # fmt: skip


def micro_rows(config: RLConfig) -> tuple[Iterator[dict[str, Any]], Iterator[dict[str, Any]]]:
    """Rows of the micro-world to train and to validate on; the first are those of a run by TRL."""
    families = config.families or tuple(FAMILIES)
    drawn = rl_dataset(config.problems, families, config.shortcut, config.label_noise)

    def train() -> Iterator[dict[str, Any]]:
        for k in range(len(drawn)):
            row = drawn[k]
            yield _micro_row(k, row["problem"], row["needs_thinking"], config)

    def test() -> Iterator[dict[str, Any]]:
        for k in range(VALIDATION * len(families)):
            problem = make_problem(families[k % len(families)], k // len(families), "test", config.shortcut)
            yield _micro_row(k, problem, problem.needs_thinking, config)

    return train(), test()


def curated_rows(config: RLConfig) -> tuple[int, Iterator[dict[str, Any]], Iterator[dict[str, Any]]]:
    """The number of training rows of the curated file `config.data`, these rows, and those to validate on.

    Where there are more than a run needs, some are drawn by `config.seed`. A row without a complexity label
    is left out.

    Raises:
        SailRLError: the file is missing or holds no curated rows, or none to train or to validate on; while
            iterating, a row that verl would misread, or that the judge cannot know.
    """
    file = Path(config.data)
    if config.label_noise:
        raise SailRLError("label_noise turns labels of the micro-world only here: set label_noise=0")
    check_data(config.data)
    table = pq.read_table(file, columns=["split", "needs_thinking"]).to_pydict()
    places: dict[str, list[int]] = {"train": [], "test": []}
    for k, (split, label) in enumerate(zip(table["split"], table["needs_thinking"], strict=True)):
        if label is not None and split in places:
            places[split].append(k)
    for split, option in (("train", "with a smaller --set test"), ("test", "with --set test=0.01")):
        if not places[split]:
            raise SailRLError(f"{file} has no labelled row in its {split} split; curate it {option}")
    if len(places["train"]) > config.problems:
        places["train"] = random.Random(f"verl/{config.seed}").sample(places["train"], config.problems)

    def chosen(split: str) -> Iterator[dict[str, Any]]:
        asked = set(places[split])
        rows = (row for k, row in enumerate(read_rows(file)) if k in asked)
        return (_curated_row(k, row, config) for k, row in enumerate(rows))

    return len(places["train"]), chosen("train"), chosen("test")


def write_verl(path: Path, rows: Iterable[dict[str, Any]], config: RLConfig) -> int:
    """Write rows to a Parquet file in bounded memory; return their number."""
    count = 0
    schema = schema_of(config)
    with whole_file(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        group: list[dict[str, Any]] = []
        for row in rows:
            group.append(row)
            count += 1
            if len(group) == _GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema))
                group = []
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema))
    return count


def schema_of(config: RLConfig) -> pa.Schema:
    """The columns. `extra_info` has what the judge must see: the truth, for the exact one, or the picture."""
    picture = _PICTURE if config.policy.max_pixels else _PICTURE[:1]
    seen = ("problem", pa.struct(_PROBLEM)) if asks_truth(config.judge) else ("image", pa.binary())
    return pa.schema(
        {
            "data_source": pa.string(),
            "prompt": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
            "images": pa.list_(pa.struct(picture)),
            "ability": pa.string(),
            "reward_model": pa.struct([("style", pa.string()), ("ground_truth", pa.string())]),
            "extra_info": pa.struct([*_INFO, seen]),
        }
    )


def asks_truth(judge: str) -> bool:
    """Whether the judge of this text knows the micro-world's problems only, and needs no picture."""
    return read_spec(innermost(judge)).kind == "exact"


def _micro_row(index: int, problem: Problem, label: bool, config: RLConfig) -> dict[str, Any]:
    buffer = io.BytesIO()
    problem.image.save(buffer, "PNG")
    row = Row(
        problem.id, buffer.getvalue(), problem.question, problem.gold, MICRO, problem.kind, label,
        split=problem.split,
    )  # fmt: skip
    return _row(index, row, problem, config)


def _curated_row(index: int, row: Row, config: RLConfig) -> dict[str, Any]:
    if place := next((word for word in PLACES if word in row.question), None):
        raise SailRLError(
            f"row {row.id} of {config.data} holds {place}, which is no text to verl; drop the row"
        )
    picture = safe_image(row.image)
    if isinstance(picture, Drop):
        raise SailRLError(
            f"row {row.id} of {config.data} has no picture that can be shown ({picture.reason}); drop the row"
        )
    try:
        check_gold(row.gold)
    except ValueError as error:
        raise SailRLError(f"row {row.id} of {config.data}: {error}; drop the row") from None
    problem = problem_of(row)
    if problem is None and asks_truth(config.judge) and get_reward(config.reward).needs_scores:
        raise SailRLError(
            f"row {row.id} of {config.data} is not of the micro-world, and the judge {config.judge} knows "
            "nothing else; name another judge, or a reward that needs none, such as judging+answer"
        )
    return _row(index, replace(row, image=picture), problem, config)


def _row(index: int, row: Row, problem: Problem | None, config: RLConfig) -> dict[str, Any]:
    """A row in verl's form; the writer drops what the schema has not."""
    truth = problem and {
        "family": problem.family, "seed": problem.seed, "split": problem.split,
        "shortcut": 0.0 if config.data else config.shortcut,
    }  # fmt: skip
    return {
        "data_source": row.source or "own",
        "prompt": [{"role": "user", "content": f"<image>{row.question}"}],
        "images": [{"bytes": row.image, "max_pixels": config.policy.max_pixels}],
        "ability": row.kind or "own",
        "reward_model": {"style": "rule", "ground_truth": row.gold},
        "extra_info": {
            "index": index, "id": row.id, "split": row.split, "needs_thinking": row.needs_thinking,
            "question": row.question, "image": row.image, "problem": truth,
        },
    }  # fmt: skip
