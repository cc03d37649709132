"""Several processes: agreement with one, one that writes, one line for an error, stopping, kills, limits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from judge_server import JudgeServer, asked_keys, chat

from sailrl_lite.cli import main
from sailrl_lite.config import EngineConfig, RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.processes import agreed, check_launch, first_does
from sailrl_lite.training.runs import claim_folder, last_checkpoint
from sailrl_lite.training.shared_judge import add_up, judge_for_run, part_of_limits

ROOT = Path(__file__).resolve().parent.parent
RUNGS = ROOT / "sailrl_lite" / "rungs"
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(RUNGS / "two-cpu.yaml")]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
AGREE = str(ROOT / "tests" / "engines" / "agree.py")
TINY = {"prompts": 4, "rollouts": 3, "save_every": 2, "engine.processes": 2, "families": "add,read_bar"}


def command(kind, out, steps, *more, **settings):
    pairs = [f"--set={name}={value}" for name, value in settings.items()]
    return ["sailrl_lite", kind, "--out", str(out), "--steps", str(steps), "--quiet", *pairs, *more]


def launch(*parts, **options):
    """Two processes by accelerate's launcher; `parts` is a module with its arguments."""
    return subprocess.run(
        [*LAUNCH, "-m", *parts], cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=300, **options
    )


def weights(folder):
    return load_checkpoint(folder)[0].state_dict()


def ours(text):
    """The lines that are this project's and not the launcher's."""
    return [line for line in text.splitlines() if "sailrl-lite:" in line]


# ---- without a launch


def test_a_launch_that_is_not_the_configuration_is_refused_with_the_command(monkeypatch):
    check_launch(EngineConfig(), 1)
    check_launch(EngineConfig(processes=2), 2)
    with pytest.raises(
        SailRLError, match=r"processes=2 .* launch is of processes=1 .*--multi_gpu --num_processes 2"
    ):
        check_launch(EngineConfig(processes=2), 1)
    with pytest.raises(SailRLError, match=r"launch is of processes=2 .* start it with `sailrl-lite"):
        check_launch(EngineConfig(), 2)
    with pytest.raises(SailRLError, match=r"sharding=none; .*--config_file \S*zero3.yaml --num_processes 8"):
        check_launch(EngineConfig(processes=8, sharding="zero3"), 8)
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    check_launch(EngineConfig(processes=8, sharding="zero3"), 8)
    with pytest.raises(SailRLError, match="sharding=zero3"):
        check_launch(EngineConfig(processes=8, sharding="fsdp2"), 8)


@pytest.mark.parametrize("command", ["evaluate", "preview", "spine", "judge-train", "plan"])
def test_a_launcher_does_nothing_twice_that_is_made_for_one_process(command, monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([command]) == 2
    assert f"error: {command} runs in one process" in capsys.readouterr().err
    assert main(["rl", "--set", "promts=8"]) == 2
    assert "did you mean 'prompts'" in capsys.readouterr().err  # that is, it began


def test_alone_a_process_is_the_first_and_agrees_with_itself():
    assert first_does(lambda: 7) == 7 and agreed("stop") == "stop"


@pytest.mark.parametrize(
    ("name", "kind"), [("two-cpu", "MULTI_GPU"), ("zero3", "DEEPSPEED"), ("fsdp2", "FSDP")]
)
def test_the_configurations_are_accelerates(name, kind):
    from accelerate.commands.config.config_args import load_config_from_file

    read = load_config_from_file(str(RUNGS / f"{name}.yaml"))
    assert read.distributed_type.value == kind
    given = yaml.safe_load((RUNGS / f"{name}.yaml").read_text())
    for part in ("deepspeed_config", "fsdp_config"):
        assert set(given.get(part, {})) <= set(getattr(read, part))


def test_the_parts_of_a_limit_come_to_no_more_than_the_whole():
    text, used = "llm:m,rpm=100,max_calls=50,max_tokens=9000,max_cost=1,price_in=1,price_out=1", {}
    used = {"calls": 10.0, "tokens_in": 400.0, "tokens_out": 100.0, "cost": 0.25}
    parts = [part_of_limits(text, used, process, 3) for process in range(3)]
    read = [dict(pair.split("=") for pair in part.split(",")[1:]) for part in parts]
    for name, whole in (
        ("rpm", 100),
        ("max_calls", 50),
        ("max_tokens", 9000),
        ("max_cost", 1),
        ("concurrency", 64),
    ):
        total = sum(float(values[name]) for values in read)
        assert whole - 3 <= total <= whole + 1e-5, name
    assert read[0]["max_calls"] == "23" and read[1]["max_calls"] == "13"
    assert part_of_limits("noisy:exact,seed=1", {}, 0, 3) == "noisy:exact,seed=1"
    with pytest.raises(SailRLError, match="rpm of the judge must be at least 8"):
        part_of_limits("llm:m,rpm=5", {}, 0, 8)


def test_what_processes_have_used_is_added_up_and_a_run_of_one_goes_on_from_it(tmp_path):
    text = "llm:m,base_url=http://localhost:1/v1,cache=,max_calls=100"
    for folder, calls in ((tmp_path, 5), (tmp_path / "judge-1", 7)):
        folder.mkdir(exist_ok=True)
        counts = {"calls": calls, "tokens_in": 10, "no_verdict: refusal": 1}
        (folder / "judge.json").write_text(json.dumps(counts))
    judge = judge_for_run(text, tmp_path)
    assert judge.usage()["calls"] == 12 and judge.usage()["no_verdicts"] == 2
    assert json.loads((tmp_path / "judge.json").read_text())["calls"] == 12
    assert not (tmp_path / "judge-1").exists()
    assert add_up(text, tmp_path)["calls"] == 12  # and not twice
    assert add_up("exact", tmp_path / "free") == {}


def test_another_number_of_processes_may_go_on_but_not_with_sharded_weights(tmp_path):
    def of(processes, sharding):
        values = {"engine.processes": str(processes), "engine.sharding": sharding}
        return RLConfig().with_values(values)

    claim_folder(of(2, "none"), tmp_path / "a", resume=False)
    claim_folder(of(4, "none"), tmp_path / "a", resume=True)
    claim_folder(of(2, "fsdp2"), tmp_path / "b", resume=False)
    claim_folder(of(2, "fsdp2"), tmp_path / "b", resume=True)
    for other in (of(4, "fsdp2"), of(2, "zero3"), of(2, "none")):
        with pytest.raises(SailRLError, match=r"are of engine\.(processes|sharding)="):
            claim_folder(other, tmp_path / "b", resume=True)


# ---- two processes on the CPU


@pytest.mark.slow
@pytest.mark.parametrize(("kl", "refills"), [("0", 0), ("0.1", 0), ("0", 1)])
def test_an_update_of_two_processes_is_that_of_one_for_the_same_rollouts(tmp_path, kl, refills):
    """Tolerance: of each weight's gradient 1e-4 of its largest entry (seen: 2e-6), of metrics 1e-5."""
    given = [f"kl={kl}", f"refills={refills}"]
    subprocess.run(
        [sys.executable, AGREE, str(tmp_path / "one"), "1", *given], env=ENV, check=True, timeout=300
    )
    done = subprocess.run(
        [*LAUNCH, AGREE, str(tmp_path / "two"), "2", *given], cwd=ROOT, env=ENV, timeout=300
    )
    assert done.returncode == 0
    one, two = (pd.read_csv(tmp_path / name / "metrics.csv").iloc[0] for name in ("one", "two"))
    assert one["unscored"] > 0 and one["groups/informative"] > 0
    assert one["groups/drawn"] == 8 + 2 * refills  # a prompt for each process
    assert list(one.index) == list(two.index)
    for name in one.index.drop("entropy"):  # rows that fill up an update count in that
        assert two[name] == pytest.approx(one[name], abs=1e-5, rel=1e-4, nan_ok=True), name
    first, second = (torch.load(tmp_path / name / "gradient.pt") for name in ("one", "two"))
    assert list(first) == list(second) and max(float(g.abs().max()) for g in first.values()) > 1e-3
    for name, gradient in first.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(second[name], gradient, atol=1e-4 * scale + 1e-7, rtol=1e-3, msg=name)


@pytest.mark.slow
def test_sft_by_two_processes_ends_with_the_weights_of_one(tmp_path):
    """Tolerance: 1e-4 of a weight, of learning rate 1e-4 and three updates."""
    settings = {"batch": 8, "captions": 1, "learning_rate": "1e-4", "checkpoint": "shipped"}
    done = launch(*command("sft", tmp_path / "two", 3, **settings, **{"engine.processes": 2}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("policy:") == 1  # one process speaks
    one = [sys.executable, "-m", *command("sft", tmp_path / "one", 3, **settings)]
    subprocess.run(one, cwd=ROOT, env=ENV, check=True, timeout=300)
    start, first, second = (
        weights(folder) for folder in ("data/micro-sft", tmp_path / "one/policy", tmp_path / "two/policy")
    )
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, atol=1e-4, rtol=0, msg=name)
    moved = max(float((first[name] - start[name]).abs().max()) for name in first)
    assert moved > 1e-4
    rows = [pd.read_csv(tmp_path / name / "metrics.csv").iloc[-1] for name in ("one", "two")]
    for name in ("loss", "mean_token_accuracy", "num_tokens"):
        assert rows[1][name] == pytest.approx(rows[0][name], rel=1e-3), name


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("processes") / "whole"
    done = launch(*command("rl", out, 5, **TINY))
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_two_processes_refill_and_count_together(uninterrupted):
    rows = pd.read_csv(uninterrupted / "metrics.csv")
    assert rows["step"].tolist() == [1, 2, 3, 4, 5]
    assert (rows["groups/drawn"] >= 4).all() and (rows["groups/drawn"] % 2 == 0).all()
    assert (rows["groups/drawn"] > 4).any()  # something was refilled
    assert (rows["groups/informative"] <= rows["groups/drawn"]).all()
    # Means of all 12 rollouts, and not of the six of one process.
    shares = rows["answer"] * 12
    assert (shares - shares.round()).abs().max() < 1e-4 and (shares.round() % 2 == 1).any()
    assert rows["loss"].notna().all()
    assert sorted(p.name for p in uninterrupted.iterdir() if p.name[0] != ".") == [
        "config.json", "metrics.csv", "policy", "trainer",
    ]  # fmt: skip


@pytest.mark.slow
def test_two_processes_share_the_budget_of_a_paid_judge_and_add_up_what_they_use(tmp_path):
    out = tmp_path / "run"

    def passing(number, request):
        return chat(json.dumps(dict.fromkeys(asked_keys(request), 1)))

    def run(budget, *more):
        judge = f"llm:m,base_url={server.url},cache={tmp_path / 'cache'},calls=combined,max_calls={budget}"
        done = launch(*command("rl", out, 3, *more, **TINY, judge=judge))
        assert json.loads((out / "judge.json").read_text())["calls"] == len(server.requests) <= budget
        assert not list(out.glob("judge-*"))
        return done

    with JudgeServer(passing) as server:
        (line,) = ours(run(4).stderr)
        assert "the judge's budget of 2 calls is spent by one of 2 processes" in line
        spent = len(server.requests)
        assert run(500, "--resume").returncode == 0 and len(server.requests) > spent >= 2


@pytest.mark.slow
def test_a_killed_launch_is_resumed_to_the_same_end(tmp_path, uninterrupted):
    out = tmp_path / "run"
    process = subprocess.Popen(
        [*LAUNCH, "-m", *command("rl", out, 5, **TINY)], cwd=ROOT, env=ENV, start_new_session=True
    )
    deadline = time.time() + 240
    while last_checkpoint(out / "trainer") is None and time.time() < deadline and process.poll() is None:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    assert not (out / "policy").exists()
    done = launch(*command("rl", out, 5, "--resume", **TINY))
    assert done.returncode == 0, done.stderr
    assert (out / "metrics.csv").read_text() == (uninterrupted / "metrics.csv").read_text()
    first, second = weights(uninterrupted / "policy"), weights(out / "policy")
    assert all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.slow
def test_ctrl_c_stops_all_with_a_checkpoint_and_one_process_goes_on(tmp_path):
    out = tmp_path / "run"
    parts = [*LAUNCH, "-m", *command("rl", out, 40, **TINY)]
    process = subprocess.Popen(parts, cwd=ROOT, env=ENV, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 240
    while not (out / "metrics.csv").exists() and time.time() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=120)[1]
    (line,) = ours(errors)
    assert "(interrupted); go on with --resume" in line
    step = int(line.split("stopped after step ")[1].split()[0])
    assert last_checkpoint(out / "trainer").name == f"checkpoint-{2 * step}"
    one = [sys.executable, "-m", *command("rl", out, 40, "--resume", **TINY | {"engine.processes": 1})]
    going = subprocess.Popen(one, cwd=ROOT, env=ENV, stderr=subprocess.PIPE, text=True)
    while (
        len(pd.read_csv(out / "metrics.csv")) <= step
        and time.time() < deadline + 120
        and going.poll() is None
    ):
        time.sleep(0.1)
    going.kill()
    assert "do not match" not in going.communicate()[1]  # another number of processes is nothing to warn of
    assert pd.read_csv(out / "metrics.csv")["step"].tolist()[: step + 1] == list(range(1, step + 2))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["sailrl_lite", "tests.engines.slow_to_tell"])
def test_an_error_of_one_process_ends_all_in_one_line(tmp_path, program):
    """Here the first process finds the folder taken, while the other waits for it."""
    claim_folder(RLConfig(), tmp_path / "run", resume=False)
    began = time.time()
    done = launch(program, *command("rl", tmp_path / "run", 5, **TINY)[1:])
    assert done.returncode and time.time() - began < 200
    (line,) = ours(done.stderr)
    assert "already holds a run" in line


@pytest.mark.slow
def test_processes_with_different_settings_are_refused(tmp_path):
    done = launch("tests.engines.other_seed", *command("rl", tmp_path / "run", 2, **TINY)[1:])
    assert done.returncode and not (tmp_path / "run").exists()
    (line,) = ours(done.stderr)
    assert "processes 0 and 1 have different settings (seed 0 and 1); start all with the same" in line


@pytest.mark.slow
def test_a_process_that_is_killed_is_told_by_the_one_that_waits_for_it(tmp_path):
    done = launch("tests.engines.one_killed", *command("rl", tmp_path / "run", 5, **TINY)[1:])
    assert done.returncode
    # Unless the launcher has seen it first, and ended the other one before it could speak.
    for line in ours(done.stderr):
        assert "another process of the launch has ended without a word" in line and "--resume" in line
    assert "SIGKILL" in done.stderr and "[rank0]" not in done.stderr and "RuntimeError" not in done.stderr
    assert last_checkpoint(tmp_path / "run" / "trainer").name == "checkpoint-4"
