"""The runner of curation steps and the schema: streams, counts, files, and what `datasets` makes of them."""

import functools
import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import datasets
import pytest
from PIL import Image

from sailrl_lite.curation import pipeline
from sailrl_lite.curation.pipeline import Batch, Choose, Drop, Dropped, Edit, Map, Spread, run
from sailrl_lite.curation.schema import Change, Row, read_rows, write_rows
from sailrl_lite.errors import SailRLError


def picture(size=(8, 8), color="red"):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def rows(n, **values):
    made = {"image": picture(), "question": "How many?", "source": "mine"} | values
    return [Row(id=f"mine-{k}", gold=str(k), **made) for k in range(n)]


def shout(row, suffix="!"):
    return row.with_change("shout", "louder", question=row.question + suffix) if int(row.gold) % 2 else row


def no_threes(row):
    return Drop("three", "it is") if int(row.gold) % 3 == 0 else row


def finish(tmp_path, given, steps, **options):
    tally = run(given, steps, tmp_path / "out.parquet", tmp_path / "work", bar=False, **options)
    return tally, list(read_rows(tmp_path / "out.parquet"))


def test_rows_come_back_as_they_went(tmp_path):
    row = Row(
        "a", picture(), "Q?", "5", "mine", "general", True, ("4", "5"), "Think.", "2+3=5", "5", "test", 0.5,
        (Change("x", "gold", "why"),),
    )  # fmt: skip
    bare = Row("b", picture(), "Q?", "5")
    assert write_rows(tmp_path / "x.parquet", [row, bare]) == 2
    assert list(read_rows(tmp_path / "x.parquet")) == [row, bare]


def test_datasets_and_trl_columns_are_there(tmp_path):
    write_rows(
        tmp_path / "x.parquet", [Row("a", picture(), "Q?", "5", judge="Think.", think="2+3=5", answer="5")]
    )
    (row,) = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "x.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert row["image"].size == (8, 8) and row["prompt"] == [{"role": "user", "content": "Q?"}]
    assert row["completion"][0]["content"].endswith(r"<answer>\boxed{5}</answer>")


def test_an_empty_file_and_a_foreign_one(tmp_path):
    assert write_rows(tmp_path / "none.parquet", []) == 0
    assert list(read_rows(tmp_path / "none.parquet")) == []
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(SailRLError, match=r"bad\.parquet cannot be read as curated rows"):
        list(read_rows(tmp_path / "bad.parquet"))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_step_counts_what_it_did(tmp_path, workers, monkeypatch):
    monkeypatch.setattr(pipeline, "_FEW", 0)
    steps = [
        Map("shout", shout),
        Map("threes", no_threes),
        Map("again", functools.partial(shout, suffix="?")),
    ]
    given = [*rows(100), Dropped("bad", "read", "no picture", "x.png")]
    tally, left = finish(tmp_path, given, steps, workers=workers)
    assert [row.id for row in left] == [f"mine-{k}" for k in range(100) if k % 3]
    counts = {name: (c.rows, c.changed, dict(c.dropped)) for name, c in tally.counts.items()}
    assert counts == {
        "read": (101, 0, {"no picture": 1}),
        "shout": (100, 50, {}),
        "threes": (100, 0, {"three": 34}),
        "again": (66, 33, {}),
    }
    assert left[0].question == "How many?!?"
    assert left[0].provenance == (
        Change("shout", "question", "louder"),
        Change("shout", "question", "louder"),
    )
    assert len(tally.dropped) == 35 and Dropped("mine-0", "threes", "three", "it is") in tally.dropped


def test_a_batch_step_gets_rows_together_and_a_choice_sees_all(tmp_path):
    sizes = []

    def doubled(some):
        sizes.append(len(some))
        return [row.with_change("double", gold=str(2 * int(row.gold))) for row in some]

    def top(table):
        low = table.index[table["value"] < 10]
        return {row: Drop("small") for row in low} | {table.index[-1]: Edit({"split": "test"}, "the last")}

    steps = [
        Batch("double", doubled, size=4),
        Choose("top", lambda row: {"value": int(row.gold)}, top),
        Choose("few", lambda row: {}, lambda table: {table.index[0]: Drop("first")}),
    ]
    tally, left = finish(tmp_path, rows(10), steps)
    assert sizes == [4, 4, 2]
    expected = [("12", "train"), ("14", "train"), ("16", "train"), ("18", "test")]
    assert [(row.gold, row.split) for row in left] == expected
    assert tally.counts["few"].rows == 5 and tally.counts["top"].dropped == {"small": 5}
    assert not list((tmp_path / "work").iterdir())


def test_nothing_left_is_no_error(tmp_path):
    steps = [Map("none", lambda row: Drop("no")), Choose("top", lambda row: {}, lambda table: 1 / 0)]
    tally, left = finish(tmp_path, rows(3), steps)
    assert left == [] and tally.counts["none"].dropped == {"no": 3}


def test_what_a_choice_watched_and_the_pairs_it_found_are_kept(tmp_path):
    def key(row):
        return {"length": None if row.gold == "0" else len(row.gold)}

    def twins(table):  # 10 to 19 go because of 0 to 9
        return {f"mine-{k}": Drop("twin", other=f"mine-{k - 10}") for k in range(10, 20)}

    tally, left = finish(tmp_path, rows(20), [Choose("twins", key, twins, watch="length")])
    assert len(left) == 10
    assert tally.spreads["twins"] == Spread("length", Counter({1: 9, 2: 10}), Counter({1: 9}))
    assert list(tally.pairs) == [f"mine-{k}" for k in (*range(6), *range(10, 16))]
    assert tally.pairs["mine-10"].image == picture()
    assert tally.dropped[0] == Dropped("mine-10", "twins", "twin", other="mine-0")


WORKING = """
import os, sys
from sailrl_lite.curation import pipeline
from sailrl_lite.curation.pipeline import Map, run
from tests.test_curation_pipeline import endless, slow

if __name__ == "__main__":
    pipeline._FEW = 0
    run(endless(), [Map("slow", slow)], sys.argv[1] + "/out.parquet", sys.argv[1], workers=2, bar=False)
"""


def endless():
    while True:
        yield from rows(1)


def slow(row):
    time.sleep(0.01)
    Path(os.environ["PIDS"], str(os.getpid())).touch()
    return row


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path, blow):
    (tmp_path / "pids").mkdir()
    (tmp_path / "main.py").write_text(WORKING)
    root = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, tmp_path / "main.py", tmp_path],
        env=os.environ | {"PIDS": str(tmp_path / "pids"), "PYTHONPATH": root},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "pids").iterdir())) < 2:
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    (os.killpg if blow == signal.SIGINT else os.kill)(child.pid, blow)
    said = child.communicate(timeout=30)[1]  # the workers hold the other end, too
    assert child.returncode and said.count("Traceback") == (blow == signal.SIGINT)  # its own
