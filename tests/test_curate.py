"""Curation as a user starts it: a folder of pictures and a CSV become data that training takes."""

import csv
import json
import subprocess
import sys

import pytest

from sailrl_lite.cli import main
from sailrl_lite.curation.schema import Row, read_rows, write_rows
from sailrl_lite.response import DIRECT
from sailrl_lite.world.problems import FAMILIES, make_problem

NAMES = list(FAMILIES)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def table(tmp_path):
    """Twenty pictures of 224 x 112 pixels and a CSV, as a person would have them; one row has no answer."""
    (tmp_path / "pictures").mkdir()
    with (tmp_path / "data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "question", "answer", "needs_thinking"])
        for k in range(20):
            problem = make_problem(NAMES[k % len(NAMES)], 500 + k)
            problem.image.resize((224, 112)).save(tmp_path / "pictures" / f"{k}.png")
            label = str(problem.needs_thinking) if k % 3 else ""
            writer.writerow([f"pictures/{k}.png", problem.question, problem.gold if k else "", label])
    return tmp_path / "data.csv"


def run(*command):
    return main([*map(str, command), "--quiet"])


def report(out):
    return json.loads((out / "report.json").read_text())


@pytest.mark.slow
def test_a_csv_and_a_folder_go_all_the_way_to_a_trained_policy(table, tmp_path, capsys):
    for kind in ("sft", "rl"):
        assert run("curate", kind, "--input", table, "--out", tmp_path / kind, "--workers", 1) == 0
        assert list((tmp_path / kind).glob("*.png")) and not (tmp_path / kind / ".work").exists()
    dropped = {row["id"]: row for row in report(tmp_path / "sft")["dropped"]}
    assert dropped["data.csv:line 2"]["reason"] == "empty gold"
    reasons = {row["reason"] for row in dropped.values()}
    assert reasons == {"empty gold", "no teacher"}
    assert "report: " in capsys.readouterr().out
    rows = list(read_rows(tmp_path / "rl" / "data.parquet"))
    assert rows and all(row.needs_thinking is not None for row in rows)
    assert all(0 < row.pass_rate < 1 for row in rows if row.needs_thinking)

    small = ["--set", "batch=4", "--set", "learning_rate=1e-4", "--steps", 2]
    assert run("sft", "--data", tmp_path / "sft" / "data.parquet", "--out", tmp_path / "s", *small) == 0
    more = [
        "--steps",
        1,
        "--set",
        "prompts=4",
        "--out",
        tmp_path / "r",
        "--data",
        tmp_path / "rl" / "data.parquet",
    ]
    assert run("rl", *more) == 2
    assert "the exact judge knows nothing else" in capsys.readouterr().err
    assert run("rl", "--reward", "judging+answer", *more) == 0
    assert (tmp_path / "r" / "policy" / "model.safetensors").exists()


@pytest.mark.slow
def test_the_same_command_again_makes_the_same_and_another_one_is_refused(tmp_path, capsys):
    command = [
        "curate",
        "sft",
        "--micro",
        130,
        "--teacher",
        "micro",
        "--out",
        tmp_path / "out",
        "--workers",
        1,
    ]
    assert run(*command) == 0
    before = (tmp_path / "out" / "data.parquet").read_bytes()
    assert report(tmp_path / "out")["rows"]["left"] > 50
    assert run(*command) == 0
    assert (tmp_path / "out" / "data.parquet").read_bytes() == before
    assert run(*command, "--set", "test=0.5") == 2
    assert "made with other settings; give another --out" in capsys.readouterr().err
    rows = list(read_rows(tmp_path / "out" / "data.parquet"))
    assert {row.split for row in rows} == {"train", "test"} and all(row.response for row in rows)


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_training_on_nothing_and_on_a_token_of_the_frame_is_one_line(tmp_path, capsys, kind):
    file = tmp_path / "data.parquet"
    write_rows(file, [])
    command = [kind, "--data", file, "--out", tmp_path / "out", "--steps", 1]
    assert run(*command) == 2
    assert "holds no rows" in capsys.readouterr().err
    answered = {"judge": DIRECT, "think": "", "answer": "<|image_pad|>"}
    write_rows(file, [Row("a", b"", "Is it <unk>?", "5", needs_thinking=False, **answered)])
    assert run(*command) == 2
    assert "row a of" in (said := capsys.readouterr().err) and "curate the file again" in said


def test_data_that_is_not_ours_is_never_written_over(table, tmp_path, capsys):
    (tmp_path / "data.parquet").write_bytes(b"mine")
    assert run("curate", "sft", "--input", table, "--out", tmp_path) == 2
    assert "was not made here; give another --out" in capsys.readouterr().err
    assert (tmp_path / "data.parquet").read_bytes() == b"mine"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("curate", "sft", "--micro", 3, "--out", tmp_path / "file" / "out") == 2
    assert "cannot write to" in (said := capsys.readouterr().err) and said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--input", "none.csv"], "none.csv"),
        (["--micro", "0"], "from 1"),
        (["--source", "mathvers"], "known sources: visualwebinstruct"),
        (["--micro", "5", "--limit", "0"], "--limit must be at least 1"),
        (["--micro", "5", "--workers", "0"], "--workers must be at least 1"),
        (["--micro", "5", "--set", "test=2"], "test must lie in"),
        (["--micro", "5", "--teacher", "gpt"], "unknown teacher 'gpt'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, options, complaint):
    assert run("curate", "sft", "--out", tmp_path / "out", *options) == 2
    said = capsys.readouterr().err
    assert complaint in said and said.count("\n") == 1
    assert not (tmp_path / "out" / "data.parquet").exists()


def test_help_needs_no_heavy_library():
    code = (
        "import sys; from sailrl_lite.cli import build_parser; build_parser(); "
        "heavy = ('torch', 'pandas', 'datasets', 'pyarrow', 'openai'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_first_try_that_failed_does_not_keep_the_folder_from_the_second(tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    assert run("curate", "sft", "--input", tmp_path / "empty.csv", "--out", tmp_path / "out") == 2
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "config.json").write_text("{}")  # as a run leaves it that was killed early
    capsys.readouterr()
    assert run("curate", "sft", "--micro", 5, "--workers", 1, "--out", tmp_path / "out") == 0
