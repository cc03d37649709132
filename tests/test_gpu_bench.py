"""The GPU measurement without a GPU: its dry run goes through the same code, and its arithmetic is right."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from sailrl_lite.bench import gpu, gpu_part
from sailrl_lite.bench.gpu_part import Measured
from sailrl_lite.bench.gpu_policy import configuration, write_lessons
from sailrl_lite.plan.hardware import GIB
from sailrl_lite.training.data import curated_dataset
from sailrl_lite.training.models import build_processor
from sailrl_lite.training.policies import HubProcessor, load_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small policy and rows."""
    folder = tmp_path_factory.mktemp("gpu")
    gpu_part.measure("policy", folder, small=True)
    return folder


def test_the_shape_is_that_of_the_3b_model() -> None:
    config = configuration(build_processor().tokenizer, small=False)
    with torch.device("meta"):
        policy = Qwen2_5_VLForConditionalGeneration(config)
    assert sum(weight.numel() for weight in policy.parameters()) == 3_754_622_976  # as the hub counts them


def test_the_small_policy_loads_as_one_of_the_hub(folder: Path) -> None:
    policy, processor = load_policy(folder / "policy")
    assert isinstance(processor, HubProcessor)
    assert policy.generation_config.eos_token_id == processor.tokenizer.eos_token_id


def test_rows_serve_both_stages_with_traces_of_some_length(tmp_path: Path) -> None:
    write_lessons(tmp_path / "rows.parquet", 8, (112, 84), tokens=300)
    processor = build_processor()
    lesson = curated_dataset(tmp_path / "rows.parquet", 8, 0, responses=True)[0]
    tokens = len(processor.tokenizer(lesson["completion"][0]["content"])["input_ids"])
    assert 300 <= tokens <= 400


def test_values_are_those_of_the_rung_but_for_size(tmp_path: Path) -> None:
    sft, rl = gpu_part.sft_config(tmp_path, False), gpu_part.rl_config(tmp_path, "vllm", False)
    sft.check()
    rl.check()
    assert (sft.policy.weights, sft.policy.dtype, sft.batch) == ("lora", "bfloat16", 32)
    assert (rl.engine.sampler, rl.prompts * rl.rollouts, rl.updates) == ("vllm", 80, 5)
    assert sum(gpu.LIMITS.values()) < 600


def test_an_earlier_failure_is_a_line_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"policy": (Measured(), "passed in 1 s"), "sft": (None, "failed: out of memory")}
    monkeypatch.setattr(
        gpu, "run_part", lambda part, *_: outcomes.get(part, (None, "failed: not done after 9 s"))
    )
    table = gpu.measure_all(dry_run=True)
    said = table[table.measure == "outcome"].set_index("part").value
    assert said["sft"] == "failed: out of memory"
    assert said["rl-transformers"] == "failed: not done after 9 s"


def test_a_part_is_ended_at_its_limit_and_its_error_is_told(tmp_path: Path) -> None:
    assert gpu.run_part("sft", tmp_path, True, 0.01) == (None, "failed: not done after 0.01 s")


def test_speeds_and_utilisation_are_of_the_right_times(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(
        "NVIDIA H200", step_seconds=10.0, batch_seconds=6.0, rollout_seconds=5.0, rollout_tokens=1000,
        train_tokens=2000.0, prompt_tokens=20.0, completion_tokens=8.0, memory=3 * GIB,
    )  # fmt: skip
    values, plan = gpu.compared("rl-transformers", folder, measured)
    assert values["seconds a step"] == "10.0"
    assert values["rollout speed"] == "200"
    assert values["training speed"] == "500"
    assert values["peak memory"] == "3.0"
    assert plan.keys() == values.keys() - {"utilisation"}
    twice, _ = gpu.compared("rl-transformers", folder, Measured(**vars(measured) | {"step_seconds": 8.0}))
    assert float(twice["utilisation"]) == pytest.approx(2 * float(values["utilisation"]), abs=0.2)


def test_an_unknown_gpu_is_measured_without_a_plan(folder: Path) -> None:
    measured = Measured("Voodoo 2", step_seconds=2.0, train_tokens=100.0)
    values, plan = gpu.compared("sft", folder, measured)
    assert values["training speed"] == "50" and not plan and "utilisation" not in values


@pytest.mark.slow
def test_the_dry_run_passes_by_command(tmp_path: Path) -> None:
    out = tmp_path / "gpu.csv"
    command = [sys.executable, "-m", "sailrl_lite.bench", "gpu", "--dry-run", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out)
    outcomes = table[table.measure == "outcome"].set_index("part").value
    for part in ("policy", "sft", "rl-transformers"):
        assert outcomes[part].startswith("passed"), outcomes[part]
    measures = table[~table.measure.isin(["outcome", "device", "parameters"])]
    assert set(measures.value) == {gpu.NOT_MEASURED}
    assert "not measured" in out.with_suffix(".md").read_text()
