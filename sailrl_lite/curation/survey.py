"""What is in the Parquet file of a finished curation, in bounded memory."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sailrl_lite.curation.schema import Row

LABELS = {True: "needs thinking", False: "no thinking needed", None: "no label"}
SAMPLE = 10  # rows to look at


@dataclass(frozen=True)
class Survey:
    """What the file of a finished run holds.

    rows: how many.
    labels: how many of each kind, source and label (of `LABELS`); a table with these columns and rows.
    splits, pass_rates: how many rows have which; rows without a pass rate are left out.
    remarks: what the provenance says that is no change of a field: id, step and note.
    sample: some rows drawn at random, in their order.
    """

    rows: int
    labels: pd.DataFrame
    splits: Counter[str]
    pass_rates: Counter[float]
    remarks: list[dict[str, str]]
    sample: list[Row]


def survey(file: Path, seed: int = 0) -> Survey:
    """Read all of a file but its pictures, and whole only the rows that are drawn."""
    labels: Counter[tuple[str, str, bool | None]] = Counter()
    splits: Counter[str] = Counter()
    rates: Counter[float] = Counter()
    remarks: list[dict[str, str]] = []
    columns = ["id", "kind", "source", "needs_thinking", "split", "pass_rate", "provenance"]
    with pq.ParquetFile(file, pre_buffer=False) as parquet:  # or all that was read is kept to the end
        for batch in parquet.iter_batches(columns=columns):
            remarks += _remarks(batch)
            values = batch.drop_columns(["id", "provenance"]).to_pydict()
            labels.update(zip(values["kind"], values["source"], values["needs_thinking"], strict=True))
            splits.update(values["split"])
            rates.update(rate for rate in values["pass_rate"] if rate is not None)
        rows = parquet.metadata.num_rows
        chosen = random.Random(seed).sample(range(rows), min(SAMPLE, rows))
        sample = _rows_at(parquet, sorted(chosen))
    records = [(kind, source, LABELS[need], n) for (kind, source, need), n in labels.items()]
    table = pd.DataFrame(records, columns=["kind", "source", "label", "rows"])
    return Survey(rows, table.sort_values(["kind", "source", "label"]), splits, rates, remarks, sample)


def _remarks(batch: pa.RecordBatch) -> list[dict[str, str]]:
    """What the provenance of some rows holds that is no change of a field."""
    changes = pa.table(
        {"id": batch["id"].take(pc.list_parent_indices(batch["provenance"])),
         **dict(zip(("step", "field", "note"), batch["provenance"].flatten().flatten(), strict=True))}
    )  # fmt: skip
    return changes.filter(pc.equal(changes["field"], "")).drop_columns("field").to_pylist()


def _rows_at(parquet: pq.ParquetFile, places: Sequence[int]) -> list[Row]:
    """The rows at some places, in order, without what a picture of them does not need."""
    columns = ["id", "image", "question", "gold", "source", "kind", "needs_thinking"]
    rows, start = [], 0
    for group in range(parquet.num_row_groups):
        end = start + parquet.metadata.row_group(group).num_rows
        if here := [place - start for place in places if start <= place < end]:
            for record in parquet.read_row_group(group, columns).take(here).to_pylist():
                rows.append(Row(**record | {"image": (record["image"] or {}).get("bytes") or b""}))
        start = end
    return rows
