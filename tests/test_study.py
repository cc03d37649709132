"""Evaluation, the main job and the three-seed result, through the command line, on the shipped policy."""

import json
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from sailrl_lite.cli import main
from sailrl_lite.config import SHIPPED, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.study import evaluation
from sailrl_lite.study.evaluation import (
    MEASURES,
    NEVER_THINK,
    bootstrap,
    evaluate,
    summarize,
    unseen_problems,
)
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.runs import check_finite
from sailrl_lite.training.sft import train_sft
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.scenes import read_picture
from sailrl_lite.world.teacher import CLEAN

TINY = ["--set", "prompts=4", "--set", "rollouts=3", "--quiet"]


@pytest.fixture(scope="module")
def shipped():
    return load_checkpoint(SHIPPED)


# ---- evaluation


def test_an_evaluation_measures_every_response_once(shipped):
    problems = unseen_problems(2)
    rows = evaluate(*shipped, problems, bar=None)
    assert rows["id"].tolist() == [p.id for p in problems] and len(rows) == 2 * len(FAMILIES)
    assert all(p.split == "test" for p in problems)
    thinks = rows["trigger_rate"] == 1
    assert rows.loc[thinks, "logic"].notna().all() and rows.loc[~thinks, "logic"].isna().all()
    assert rows["cascade"].between(0, 1).all()
    assert evaluate(*shipped, problems, bar=None).equals(rows)  # the same seed, the same responses


def test_forcing_a_direct_answer_by_prefill_makes_every_response_direct(shipped):
    problems = unseen_problems(2)
    never = evaluate(*shipped, problems, NEVER_THINK, bar=None)
    assert (never["trigger_rate"] == 0).all() and never["response"].str.startswith(NEVER_THINK).all()
    rows = evaluation.with_relative_tokens(never, never)
    assert rows.groupby("family")["relative_tokens"].mean().to_numpy() == pytest.approx(1)


def test_a_bootstrap_interval_holds_the_mean_and_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    mean, low, high = bootstrap(np.array([0.0, 1.0] * 50), rng)
    assert mean == 0.5 and 0.38 < low < 0.42 and 0.58 < high < 0.62
    inside = [
        low <= 0.3 <= high for _, low, high in (bootstrap(rng.random(80) < 0.3, rng, 300) for _ in range(300))
    ]
    assert 0.90 < np.mean(inside) < 0.98
    assert np.isnan(bootstrap(np.array([]), rng)).all()


def test_a_change_is_paired_by_problem():
    before = pd.DataFrame({"id": ["a", "b", "c"], "accuracy": [0, 1, 0]})
    after = before.assign(accuracy=[1, 1, 1])
    mean, low, high = evaluation.change(before, after, "accuracy")
    assert mean == pytest.approx(2 / 3) and 0 <= low <= mean <= high <= 1
    assert evaluation.change(before, after, "accuracy", before["id"] == "b") == (0, 0, 0)
    with pytest.raises(SailRLError, match="same problems"):
        evaluation.change(before, after.iloc[::-1], "accuracy")


def test_a_summary_leaves_empty_what_has_no_values():
    rows = pd.DataFrame({"kind": ["a", "a"], "accuracy": [1, 0], "logic": [np.nan, np.nan]})
    line = summarize(rows, ("kind",)).iloc[0]
    assert line["n"] == 2 and line["accuracy"] == 0.5 and np.isnan(line["logic"])


def test_the_evaluate_command_writes_every_family_with_intervals(tmp_path, capsys):
    out = tmp_path / "quality.json"
    assert main(["evaluate", "--problems", "2", "--quiet", "--out", str(out)]) == 0
    table = json.loads(out.read_text())["families"]
    assert [line["family"] for line in table] == list(FAMILIES)
    for measure in (*MEASURES, "relative_tokens", "majority_guess"):
        assert {measure, f"{measure}_low", f"{measure}_high"} <= set(table[0])
    assert "read_number" in capsys.readouterr().out


def test_an_untrained_reader_can_tell_a_shortcut_apart(shipped):
    marked = unseen_problems(1, ["add"], shortcut=1.0)[0]
    assert (
        marked.scene != make_problem("add", 0, "test").scene
        and marked.gold == make_problem("add", 0, "test").gold
    )


# ---- the main job


def test_the_main_job_leaves_a_whole_run_folder_and_resumes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sailrl_lite.study.preview.PER_FAMILY", 2)
    out = tmp_path / "run"
    assert main(["preview", "--steps", "2", "--out", str(out), *TINY]) == 0
    printed = capsys.readouterr().out
    assert "# What 2 steps of DAPO did" in printed and str(out / "report.md") in printed
    assert pd.read_csv(out / "metrics.csv")["step"].tolist() == [1, 2]
    assert json.loads((out / "config.json").read_text())["prompts"] == 4
    assert set(json.loads((out / "evaluation.json").read_text())) == {"sft", "rl"}
    assert json.loads((out / "run.json").read_text())["seconds"] > 0
    for name in ("learning.png", "before_after.png"):
        assert min(Image.open(out / name).size) > 400
        assert f"({name})" in (out / "report.md").read_text()
    load_checkpoint(out / "policy")
    with pytest.raises(SailRLError, match="its policy is"):
        load_checkpoint(out)
    capsys.readouterr()
    assert main(["preview", "--steps", "3", "--out", str(out), "--resume", "--quiet"]) == 2
    assert "(steps 2 there, 3 here)" in capsys.readouterr().err
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".csv"}
    assert main(["preview", "--steps", "2", "--out", str(out), "--resume", *TINY]) == 0
    (out / "metrics.csv").unlink()  # what is lost is made again
    assert main(["preview", "--out", str(out), "--resume", "--quiet"]) == 0  # with the settings of the run
    assert before == {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".csv"}


def test_the_three_seed_command_writes_the_table_and_does_not_train_twice(tmp_path, capsys):
    command = ["spine", "--seeds", "2", "--problems", "1", "--out", str(tmp_path / "runs"), *TINY]
    command += ["--file", str(tmp_path / "spine.csv"), "--figure", str(tmp_path / "spine.png")]
    command += ["--set", "steps=1"]
    assert main(command) == 0
    table = pd.read_csv(tmp_path / "spine.csv")
    assert ",".join(table.columns) == (
        "seed,stage,kind,family,n,accuracy,trigger_rate,format_rate,judging,thinking,cascade,logic,grounding,"
        "consistency,tokens"
    )
    assert (tmp_path / "spine.png").is_file() and "| reasoning | RL |" in capsys.readouterr().out
    assert len(table) == 2 * 2 * len(FAMILIES) and set(table["stage"]) == {"sft", "rl"}
    changed = (tmp_path / "runs" / "seed-0" / "policy" / "model.safetensors").stat().st_mtime_ns
    assert main(command) == 0
    assert main([*command, "--set", "reward=answer-only"]) == 2  # never the old policies under a new name
    assert changed == (tmp_path / "runs" / "seed-0" / "policy" / "model.safetensors").stat().st_mtime_ns


def test_sft_starts_from_scratch_learns_and_writes_a_card(tmp_path):
    config = SFTConfig(steps=40, captions=10, batch=8)
    folder = train_sft(config, tmp_path / "run", bar=False)
    losses = pd.read_csv(tmp_path / "run" / "metrics.csv")["loss"]
    assert losses.iloc[-1] < losses.iloc[0]
    card = (folder / "README.md").read_text()
    assert "40 updates of 8 lessons" in card and "wrong label 0.25" in card
    load_checkpoint(folder)


def test_a_question_about_a_picture_of_ones_own(tmp_path, capsys):
    make_problem("read_bar", 0).image.save(tmp_path / "bars.png")
    assert main(["ask", str(tmp_path / "bars.png"), "How high is the red bar?", "-n", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("<judge>") == 2 and not printed.err
    assert main(["ask", str(tmp_path / "bars.png"), "How tall is the red bar?"]) == 0
    assert capsys.readouterr().err == "note: the policy has never seen tall\n"


# ---- bad input: one line that names the thing and the remedy, and nothing half-written


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["evaluate", "--families", "ad"], "unknown family 'ad'"),
        (["evaluate", "--problems", "0"], "problems must lie in [1, 1e+06]"),
        (["evaluate", "--checkpoint", "nowhere"], "no checkpoint in nowhere"),
        (["preview", "--rung", "nodes"], "unknown rung 'nodes'; did you mean 'node'?"),
        (["preview", "--rung", "node"], "no checkpoint in runs/sft/policy"),
        (["rl", "--reward", "cascad"], "did you mean cascade?"),
        (["rl", "--set", "promts=3"], "unknown setting 'promts'; did you mean 'prompts'?"),
        (["rl", "--set", "prompts=many"], "setting 'prompts' cannot be 'many'; the default is 64"),
        (["rl", "--set", "prompts"], "--set takes KEY=VALUE, not 'prompts'"),
        (["preview", "--checkpoint", "nowhere"], "no checkpoint in nowhere"),
        (["preview", "--reward", "x"], "unknown reward 'x'"),
        (["sft", "--set", "noise=1"], "unknown setting 'noise'"),
        (["rl", "--set", "learning_rate=nan"], "learning_rate must lie in [1e-09, 0.1], not nan"),
        (["rl", "--set", "temperature=0"], "temperature must lie in"),
        (["rl", "--seed", "-1"], "seed must lie in"),
        (["rl", "--set", "alpha=2"], "alpha must lie in [0, 1], not 2.0"),
        (["preview", "--set", "shortcut=2"], "shortcut must lie in"),
        (["sft", "--steps", "0"], "steps must lie in"),
        (["sft", "--set", "width=100"], "width must be a multiple of 64"),
        (["spine", "--seeds", "0"], "at least one seed"),
        (["evaluate", "--temperature", "-1", "--problems", "1"], "temperature must lie in"),
        (["evaluate", "--temperature", "nan", "--problems", "1"], "temperature must lie in"),
        (["evaluate", "--seed", "-5"], "seed must lie in"),
        (["ask", "whole.png", "How?", "-n", "0"], "n and max_new_tokens from 1"),
        (["ask", "whole.png", "<|image_pad|>"], "cannot hold the token <|image_pad|>"),
        (["ask", "none.png", "How?"], "there is no picture none.png"),
        (["ask", "empty.png", "How?"], "empty.png cannot be read as a picture"),
        (["ask", "cut.png", "How?"], "cut.png cannot be read as a picture"),
    ],
)
def test_bad_input_gets_one_line_and_exit_status_2(tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").touch()
    make_problem("add", 0).image.save("whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:500])
    before = set(tmp_path.iterdir())
    assert main([*command, *(["--quiet"] if command[0] == "evaluate" else [])]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("sailrl-lite: error: ") and words in error and "\n" not in error
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["preview", "sft", "rl", "evaluate", "ask", "spine", "score"])
def test_help_is_readable_and_names_what_can_be_set(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert "%%" not in text and "None" not in text and "(default: )" not in text
    if command in ("preview", "rl"):
        assert "learning_rate" in text and "strict-" in text


def test_a_configuration_comes_back_from_its_file():
    for config in (RLConfig(families=("add", "angle"), alpha=0.5), SFTConfig(noise=CLEAN)):
        assert type(config).from_json(config.to_json()) == config
    for text in ("", "[]", '{"steps": 1, "stepz": 2}', "null"):
        with pytest.raises(SailRLError, match="no configuration"):
            RLConfig.from_json(text)


def test_an_unknown_option_is_named(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["rl", "--stepz", "3"])
    assert stop.value.code == 2 and "--stepz" in capsys.readouterr().err


def test_a_picture_is_turned_upright_flattened_and_fitted(tmp_path):
    sideways = Image.new("RGBA", (56, 112), (255, 0, 0, 0))
    exif = sideways.getexif()
    exif[0x0112] = 6
    sideways.save(tmp_path / "photo.png", exif=exif)
    read = read_picture(tmp_path / "photo.png")
    assert read.size == (112, 56) and read.mode == "RGB" and read.getpixel((50, 20)) == (255, 255, 255)


def limited(size):
    """Let files grow to `size` bytes only, as a full disk would: a write past it fails."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_full_disk_ends_a_run_with_one_line_and_keeps_the_last_checkpoint(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "sailrl_lite", "rl", "--out", str(out), "--steps", "2", *TINY]
    command += ["--set", "save_every=1"]
    done = subprocess.run(command, preexec_fn=limited(2_000_000), capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "cannot write the checkpoint" in done.stderr and "--resume" in done.stderr
    assert "Traceback" not in done.stderr and not (out / "policy").exists()
    subprocess.run([*command, "--resume"], check=True)
    load_checkpoint(out / "policy")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    write_text(tmp_path / "table.csv", "old")
    code = (
        f"from sailrl_lite.files import write_text; write_text({str(tmp_path / 'table.csv')!r}, 'x' * 10**6)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=limited(1000), capture_output=True, text=True
    )
    assert "SailRLError: cannot write" in done.stderr
    assert (tmp_path / "table.csv").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_pipe_or_a_link_is_written_through_and_not_replaced(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through" and not (tmp_path / "pipe").is_file()
    os.close(reader)


def test_a_diverged_policy_is_not_saved(shipped):
    policy, processor = load_checkpoint(SHIPPED)
    check_finite(policy)
    policy.get_input_embeddings().weight.data[0, 0] = float("nan")
    with pytest.raises(SailRLError, match="diverged"):
        check_finite(policy)
    with pytest.raises(SailRLError, match="diverged"):
        evaluate(policy, processor, unseen_problems(1, ["add"]), bar=None)


def test_a_configuration_says_what_is_wrong_with_a_value():
    assert RLConfig().with_values({"families": "add, angle", "learning_rate": "1e-3"}).families == (
        "add",
        "angle",
    )
    with pytest.raises(SailRLError, match="known: seed"):
        RLConfig().with_values({"qqq": "1"})
