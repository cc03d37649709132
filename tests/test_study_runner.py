"""The study's runner on tiny arms: what is made, what is not made again, and what a kill leaves."""

import contextlib
import gzip
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from filelock import FileLock

from sailrl_lite.cli import main
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import working_in
from sailrl_lite.study import runner
from sailrl_lite.study.arms import ARMS_FILE, load_study
from sailrl_lite.study.evaluation import MEASURES, QUALITY
from sailrl_lite.study.logs import LOGS, Log, read_log
from sailrl_lite.study.provenance import git_state
from sailrl_lite.study.runner import Outcome, run_study
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.world.dress import dressed_problems

ARMS = """
[budget]
steps = 2
prompts = 4
rollouts = 2
families = ["add", "color_of"]
save_every = 1

[study]
seeds = 2
per_family = 1

[starts.tiny]
lessons = "direct"
steps = 2
batch = 4
captions = 0
width = 64

[arms.one]
about = "the cascade"

[arms.two]
reward = "answer-only"
tests = ["plain", "marked", "dressed"]
seeds = 1

[arms.long]
steps = 5
seeds = 1

[arms.started]
start = "tiny"
rl = false
seeds = 1

[starts.bad]
checkpoint = "nowhere"

[arms.orphan]
start = "bad"
seeds = 1

[arms.broken]
seeds = 1
judge = "learned:nowhere"

[groups]
both = ["one", "two"]
"""


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    """A file of tiny arms."""
    file = tmp_path / "arms.toml"
    file.write_text(ARMS)
    return file


def study(arms: Path, *names: str, seeds: int | None = 1, jobs: int = 2, keep: bool = False) -> Outcome:
    """Run arms in the folder of their file."""
    runs = load_study(arms).runs(names, seeds)
    return run_study(runs, arms.parent / "out", arms.parent / "out" / "logs", jobs, keep, bar=False)


def logs(arms: Path) -> dict[str, Log]:
    return {file.stem: read_log(file) for file in sorted((arms.parent / "out" / "logs").glob("*.json"))}


def same(a: Log, b: Log) -> bool:
    """Whether two logs are of the same training, times and code aside."""
    return a.metrics.equals(b.metrics) and a.evaluation.equals(b.evaluation)


def begun(arms: Path, name: str, steps: int = 2) -> bool:
    """Whether a run has done so many steps, the last ones perhaps after its last checkpoint."""
    file = arms.parent / "out" / "work" / name / "metrics.csv"
    return file.is_file() and len(file.read_text().splitlines()) > steps


def wait_for(what, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@contextlib.contextmanager
def meanwhile(do):
    """Call `do` in a thread; what it raises comes out at the end."""
    raised = []

    def call():
        try:
            do()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    yield
    thread.join()
    assert not raised, raised


def kill(name: str) -> None:
    (child,) = [child for child in multiprocessing.active_children() if child.name == name]
    os.kill(child.pid, signal.SIGKILL)


# ---- runs and their logs


@pytest.mark.slow
def test_runs_leave_logs_are_not_repeated_and_are_made_again_when_their_arm_changes(arms, capfd):
    outcome = study(arms, "all", seeds=None)
    assert outcome.failed.keys() == {"broken-0", "start bad", "orphan-0"} and not outcome.stopped
    assert "no learned judge in nowhere" in outcome.failed["broken-0"]
    assert "start bad failed: no checkpoint in nowhere" in outcome.failed["orphan-0"]
    made = logs(arms)
    assert set(outcome.made) == {*made, "start tiny"}
    assert list(made) == ["long-0", "one-0", "one-1", "started-0", "two-0"]

    out = arms.parent / "out"
    head, two = made["one-0"].head, made["two-0"]
    assert head["hash"] == load_study(arms).runs(["one"])[0].hash and head["settings"]["rl"]["steps"] == 2
    assert head["wall_seconds"] > 0 and head["cpu_seconds"] > 0 and re.match(r"20\d\d-", head["started"])
    assert head["start"] is None and made["started-0"].head["start"]["cpu_seconds"] > 0
    assert str(out) not in (out / "logs" / "started-0.json").read_text()
    assert made["one-0"].metrics["step"].tolist() == [1, 2] and made["started-0"].metrics.empty
    assert two.evaluation.groupby("tests")["n"].sum().to_dict() == {
        "plain": 13,
        "marked": 13,
        "dressed": len(dressed_problems(1)),
    }
    assert {"traces", *MEASURES, *QUALITY} <= set(two.evaluation)
    assert not same(made["one-0"], made["one-1"])  # another seed
    assert sorted(path.name for path in (out / "work").iterdir() if path.is_dir()) == ["broken-0", "orphan-0"]
    assert [path.name for path in (out / "work").glob("*.txt")] == ["broken-0.txt"]
    with gzip.open(out / "logs" / "responses" / "two-0.csv.gz") as file:
        responses = pd.read_csv(file)
    shares = responses.groupby("tests")["accuracy"].mean()
    assert len(responses) == two.evaluation["n"].sum() and responses["response"].str.contains("<judge>").all()
    table = two.evaluation[two.evaluation["tests"] == "marked"]
    assert (table["accuracy"] * table["n"]).sum() / table["n"].sum() == pytest.approx(shares["marked"])
    assert [path.name for path in (out / "logs" / "responses").iterdir() if "-1" in path.name] == []

    again = study(arms, "one", "two", "long", "started", seeds=None)
    assert again.made == [] and sorted(again.skipped) == list(made)
    arms.write_text(ARMS.replace('reward = "answer-only"', 'reward = "additive"'))
    changed = study(arms, "both")
    assert changed.made == ["two-0"] and changed.skipped == ["one-0"]
    assert not same(logs(arms)["two-0"], two)


@pytest.mark.slow
def test_the_same_run_alone_or_beside_others_gives_the_same_log(arms, capfd):
    study(arms, "one", seeds=2)
    first = logs(arms)
    responses = arms.parent / "out" / "logs" / "responses" / "one-0.csv.gz"
    before = responses.read_bytes()
    for file in (arms.parent / "out" / "logs").glob("*.json"):
        file.unlink()
    assert study(arms, "one", jobs=1, keep=True).made == ["one-0"]
    assert same(logs(arms)["one-0"], first["one-0"]) and responses.read_bytes() == before
    folder = arms.parent / "out" / "work" / "one-0"
    load_checkpoint(folder / "policy")
    assert not (folder / "trainer").exists()


# ---- kills


@pytest.mark.slow
def test_a_killed_run_ends_alone_and_goes_on_from_its_checkpoint(arms, capfd):
    whole = study(arms, "long")
    assert whole.made == ["long-0"]
    expected = logs(arms)["long-0"]
    (arms.parent / "out" / "logs" / "long-0.json").unlink()

    def act():
        wait_for(lambda: begun(arms, "long-0"))
        kill("long-0")

    with meanwhile(act):
        outcome = study(arms, "long", "one")
    assert outcome.made == ["one-0"] and "SIGKILL" in outcome.failed["long-0"]
    error = arms.parent / "out" / "work" / "long-0" / "error.txt"
    assert "SIGKILL" in error.read_text() and "long-0 failed" in capfd.readouterr().out
    checkpoints = list((error.parent / "trainer").glob("checkpoint-*"))
    assert checkpoints
    resumed = study(arms, "long")
    assert resumed.made == ["long-0"]
    assert same(logs(arms)["long-0"], expected)


@pytest.mark.slow
def test_ctrl_c_stops_every_run_with_a_checkpoint(arms, capfd):
    def act():
        wait_for(lambda: begun(arms, "long-0", 1))
        os.kill(os.getpid(), signal.SIGINT)

    with meanwhile(act):
        assert main(["study", "run", "long", "--seeds", "1", "--quiet", *places(arms)]) == 130
    assert "the same command goes on" in capfd.readouterr().out
    folder = arms.parent / "out" / "work" / "long-0"
    steps = len((folder / "metrics.csv").read_text().splitlines()) - 1
    states = [json.loads(file.read_text()) for file in folder.glob("trainer/*/trainer_state.json")]
    assert 1 <= steps < 5 and max(state["global_step"] for state in states) == 2 * steps
    assert not (folder / "error.txt").exists()
    assert study(arms, "long").made == ["long-0"]


@pytest.mark.slow
def test_when_the_study_is_killed_its_runs_end_and_leave_checkpoints(arms):
    command = [sys.executable, "-m", "sailrl_lite", "study", "run", "long", "--seeds", "1", *places(arms)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: begun(arms, "long-0", 1))
    process.kill()
    process.wait()
    work = arms.parent / "out" / "work"
    with FileLock(work / ".long-0.lock", timeout=30):  # which the run gives back when it ends
        assert list((work / "long-0" / "trainer").glob("checkpoint-*"))
    assert not logs(arms)


def test_two_at_once_keep_out_of_each_others_way(arms):
    with working_in(arms.parent / "out"), pytest.raises(SailRLError, match="another process is at work"):
        study(arms, "one")


# ---- the command


def places(arms: Path) -> list[str]:
    return ["--arms", str(arms), "--out", str(arms.parent / "out")]


@pytest.mark.slow
def test_the_commands_tell_what_is_there_and_what_an_arm_has_reached(arms, capfd):
    run = ["study", "run", "one", "broken", "--quiet", *places(arms)]
    assert main(run) == 1
    printed = capfd.readouterr().out
    assert "2 made, 0 there already, 1 failed" in printed and "no learned judge in nowhere" in printed
    assert re.search(r"accuracy reasoning +[\d.]+ ± [\d.]+", printed)
    arms.write_text(ARMS.replace('about = "the cascade"', "alpha = 0.5"))
    assert main(["study", "run", "one", "--seeds", "1", "--quiet", *places(arms)]) == 0
    capfd.readouterr()
    assert main(["study", "status", *places(arms)]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    table = {line[0]: line[1:] for line in lines}
    assert table["one"][:5] == ["2", "1", "1", "0", "0"]  # the second seed's log is of the arm as it was
    assert table["broken"] == ["1", "0", "0", "0", "1", "-"]
    assert table["two"] == ["1", "0", "0", "0", "0", "-"] and int(table["one"][5]) >= 1
    assert main(["study", "list", "--arms", str(arms)]) == 0
    printed = capfd.readouterr().out
    assert "alpha" not in printed and "both     one, two" in printed and "started" in printed


def test_own_experiments_leave_the_shipped_logs_alone(arms, capsys):
    assert main(["study", "status", *places(arms)]) == 0
    assert str(arms.parent / "out" / "logs") in capsys.readouterr().out
    assert main(["study", "status", "--out", str(arms.parent)]) == 0
    assert str(LOGS) in capsys.readouterr().out


def test_every_arm_of_the_shipped_file_is_listed(capsys):
    assert main(["study", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in load_study(ARMS_FILE).arms)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "onee"], "unknown arm or group 'onee'; did you mean 'one'?"),
        (["status", "bot"], "did you mean 'both'?"),
        (["run", "one", "--seeds", "0"], "seeds must be at least 1, not 0"),
        (["run", "one", "--jobs", "0"], "jobs must be at least 1, not 0"),
        (["run", "one", "--arms", "none.toml"], "cannot read the arms in none.toml"),
    ],
)
def test_a_bad_command_gets_one_line(arms, capsys, command, words):
    assert main(["study", *command[:1], *places(arms), *command[1:]]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
    assert not (arms.parent / "out" / "work").exists()


@pytest.mark.parametrize("command", ["run", "status", "list", "report"])
def test_help_is_enough(capsys, command):
    with pytest.raises(SystemExit):
        main(["study", command, "--help"])
    text = capsys.readouterr().out
    assert "%%" not in text and "None" not in text
    assert command == "report" or "--arms" in text


# ---- the file of the arms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[arms.a\n", "is no TOML"),
        ("[arm.a]\n", "the file has no entry 'arm'; did you mean 'arms'?"),
        ("[study]\nseed = 3\n", "[study] has no entry 'seed'; did you mean 'seeds'?"),
        ("[arms.a]\nrewards = 'cascade'\n", "[arms.a] has no entry 'rewards'; did you mean 'reward'?"),
        ("[arms.a]\nreward = 'cascad'\n", "[arms.a] unknown reward 'cascad'"),
        ("[arms.a]\nsteps = 0\n", "[arms.a] steps must lie in"),
        ("[arms.a]\nsteps = 'many'\n", "[arms.a] setting 'steps' cannot be 'many'"),
        ("[arms.a]\njudge = 'exat'\n", "[arms.a] unknown judge 'exat'"),
        ("[arms.a]\nfamilies = ['ad']\n", "unknown family 'ad'"),
        ("[arms.a]\nstart = 'none'\n", "[arms.a] there is no start 'none'"),
        ("[arms.a]\ntests = ['plane']\n", "there is no test set 'plane'; did you mean 'plain'?"),
        ("[arms.a]\nseeds = 0\n", "seeds"),
        ("[arms.a]\nrl = false\nreward = 'cascade'\n", "[arms.a] has rl = false, so 'reward' means nothing"),
        ("[budget]\nstep = 3\n[arms.a]\n", "unknown setting 'step'"),
        ("[starts.s]\nwidth = 65\n", "[starts.s] width must be a multiple of 64"),
        ("[arms.a]\n[groups]\ng = ['b']\n", "[groups] g: there is no arm 'b'"),
        ("[arms.a]\n[groups]\na = ['a']\n", "[groups] a: an arm or 'all' has this name"),
    ],
)
def test_a_bad_entry_is_named(tmp_path, text, words):
    file = tmp_path / "arms.toml"
    file.write_text(text)
    with pytest.raises(SailRLError) as raised:
        load_study(file)
    assert words in str(raised.value) and "\n" not in str(raised.value)


# ---- what a log says of the code


def test_the_git_state_is_that_of_the_package_and_none_without_git(tmp_path):
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=tmp_path, check=True)

    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    assert git_state(package) is None
    git("init", "-q")
    assert git_state(package) is None  # in a checkout that does not keep it
    git("add", "package")
    git("commit", "-qm", "first")
    state = git_state(package)
    assert state and not state["dirty"] and re.fullmatch("[0-9a-f]{40}", state["commit"])
    (tmp_path / "log.json").touch()  # beside the code
    assert git_state(package) == state
    (package / "new.py").touch()
    assert git_state(package) == state | {"dirty": True}


def test_a_core_is_used_for_each_run_that_the_process_may_use(monkeypatch):
    assert 1 <= runner.usable_cpus() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert runner.usable_cpus() == os.cpu_count()
