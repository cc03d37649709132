"""What `sailrl-lite plan` says: shapes exactly, memory and time against what was measured and published."""

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

import sailrl_lite.plan
from sailrl_lite.cli import main
from sailrl_lite.config import KL_ROWS, SHIPPED, PlanConfig, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.plan.estimate import Plan, make_plan, shape_for
from sailrl_lite.plan.hardware import GIB, get_gpu, timing
from sailrl_lite.plan.judging import judging
from sailrl_lite.plan.memory import FOUR_BIT, activations, memory, states
from sailrl_lite.plan.published import Compared, compare, comparison_table
from sailrl_lite.plan.remedies import remedies
from sailrl_lite.plan.setup import Setup, rl_setup
from sailrl_lite.plan.shapes import read_shape, shape_of
from sailrl_lite.plan.work import forward_operations, operations, seconds
from sailrl_lite.rungs import config_of
from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.models import build_policy, build_processor, encode_prompts, load_checkpoint

MODELS = tomllib.loads((Path(sailrl_lite.plan.__file__).parent / "models.toml").read_text())
CLASSES: dict[str, tuple[Any, Any]] = {
    "qwen2_vl": (Qwen2VLConfig, Qwen2VLForConditionalGeneration),
    "qwen2_5_vl": (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration),
    "qwen3_vl": (Qwen3VLConfig, Qwen3VLForConditionalGeneration),
}
THREE, SEVEN = "Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct"


# -------------------- shapes


@pytest.mark.parametrize("name", [name for name, c in MODELS.items() if c["model_type"] in CLASSES])
def test_shapes_count_what_transformers_builds(name: str) -> None:
    values = {key: value for key, value in MODELS[name].items() if key not in ("model_type", "parameters")}
    config, kind = CLASSES[MODELS[name]["model_type"]]
    with torch.device("meta"):
        model = kind(config(**values))
        model.tie_weights()
    assert read_shape(name).parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_shapes_have_the_number_of_parameters_that_the_hub_states(name: str) -> None:
    stated, counted = MODELS[name]["parameters"], read_shape(name).parameters
    assert (f"{counted / 1e9:.0f}B" if isinstance(stated, str) else counted) == stated


def test_the_micro_policy_is_counted_from_its_folder() -> None:
    policy, _ = load_checkpoint(SHIPPED)
    shape = read_shape(SHIPPED)
    assert shape.parameters == sum(p.numel() for p in policy.parameters())
    assert shape.text.layers == 4 and shape.tied


def test_bytes_of_a_token_in_the_cache() -> None:
    assert read_shape(SEVEN).cache_bytes == 2 * 2 * 28 * 4 * 128  # keys and values, 2 bytes, 4 heads of 128


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Qwen/Qwen2.5-VL-7B", "did you mean 'Qwen/Qwen2.5-VL-7B-Instruct'"),
        ("/nowhere", "no folder with a config.json"),
    ],
)
def test_unknown_models_are_named(name: str, message: str) -> None:
    with pytest.raises(SailRLError, match=message):
        read_shape(name)


def test_broken_configurations_are_named(tmp_path: Path) -> None:
    with pytest.raises(SailRLError, match="'llama'"):
        shape_of("x", {"model_type": "llama"})
    with pytest.raises(SailRLError, match="no entry 'hidden_size'"):
        shape_of("x", {"model_type": "qwen3"})
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SailRLError, match="is not JSON"):
        read_shape(tmp_path)


# -------------------- memory


def test_states_are_those_of_the_zero_paper() -> None:
    setup = Setup(read_shape(SEVEN), dtype="bfloat16", gpus=8, sharding="zero3")
    n = setup.shape.parameters
    assert states(setup) == (2 * n, 2 * n, 12 * n)
    assert sum(states(dataclasses.replace(setup, sharding="fsdp2"))) == 16 * n
    assert sum(states(dataclasses.replace(setup, sharding="none"))) == 8 * n
    assert memory(setup, get_gpu("H100")).optimizer == 12 * n / 8


def test_lora_trains_adapters_and_four_bits_hold_the_rest() -> None:
    lora = Setup(read_shape(THREE), weights="lora", lora_rank=8, dtype="bfloat16")
    linears = lora.shape.text.linears
    assert lora.trained == 36 * 8 * sum(n + m for n, m in linears)
    weights, gradients, moments = states(lora)
    assert weights == 2 * lora.shape.parameters + 4 * lora.trained
    assert (gradients, moments) == (4 * lora.trained, 8 * lora.trained)
    packed, _, _ = states(dataclasses.replace(lora, weights="4bit"))
    assert 0.5 < FOUR_BIT < 0.52 and packed < 0.5 * weights


def test_activations_against_what_torch_holds() -> None:
    """The bytes of all tensors that autograd saves in a forward pass of the micro policy."""
    policy, processor = load_checkpoint(SHIPPED)
    rows = rl_dataset(16, ("add", "bars"), 0.0, 0.0, None)
    questions = [row["prompt"][-1]["content"] for row in rows]
    inputs = encode_prompts(processor, questions, [row["image"] for row in rows])
    own = {p.untyped_storage().data_ptr() for p in policy.parameters()}
    held: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    policy.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = policy(**inputs, logits_to_keep=1)
    assert output.logits.requires_grad
    length = inputs["input_ids"].shape[1]
    setup = Setup(read_shape(SHIPPED), device_batch=16, longest_prompt=length, longest_picture=8)
    assert activations(setup, size=4) == pytest.approx(sum(held.values()), rel=0.3)  # -22% when written


def test_checkpointing_holds_less_and_eager_attention_more() -> None:
    setup = Setup(read_shape(SEVEN), dtype="bfloat16", longest_prompt=2048, longest_completion=2048)
    assert activations(dataclasses.replace(setup, checkpointing=True)) < 0.2 * activations(setup)
    assert activations(dataclasses.replace(setup, attention="eager")) > 2 * activations(setup)


# -------------------- operations and time


def test_a_token_takes_two_operations_a_parameter() -> None:
    setup = Setup(read_shape("Qwen/Qwen2-7B-Instruct"), stage="sft", batch=1, completion=100)
    body = setup.shape.parameters - setup.shape.vocabulary * setup.shape.text.width  # embeddings only look up
    assert forward_operations(setup, shared=False) == pytest.approx(2 * body * 100, rel=0.01)
    work = operations(setup)
    assert work.backward == 2 * work.forward and work.rollout == work.reference == work.recompute == 0
    assert operations(dataclasses.replace(setup, weights="lora")).backward == work.forward


def test_draws_that_teach_nothing_take_rollouts_and_no_updates() -> None:
    setup = rl_setup(RLConfig(), PlanConfig(redrawn=0.0), read_shape(SHIPPED))
    more = rl_setup(RLConfig(), PlanConfig(redrawn=0.5), read_shape(SHIPPED))
    assert operations(more).rollout == pytest.approx(1.5 * operations(setup).rollout)
    assert operations(more).backward == operations(setup).backward
    assert rl_setup(RLConfig(refills=0), PlanConfig(redrawn=0.5), read_shape(SHIPPED)).draws == 1


def test_the_reference_is_asked_as_often_as_the_engine_asks_it() -> None:
    """With KL in the loss of every row; without it by verl of none, and by TRL of some in each process."""
    assumed = config_of("paper", PlanConfig)

    def plan(trainer: str, kl: str) -> Plan:
        values = {"engine.trainer": trainer, "kl": kl}
        return make_plan(config_of("paper", RLConfig).with_values(values), assumed, read_shape(SEVEN))

    none, with_kl, trl = plan("verl", "0"), plan("verl", "0.01"), plan("trl", "0")
    assert none.memory.reference == none.operations.reference == none.seconds.reference == 0
    assert with_kl.operations.reference == with_kl.operations.forward == trl.operations.reference
    assert with_kl.memory.reference == trl.memory.reference > 0
    places = 16_384 + 4_096  # the fused head is TRL's: verl holds the logits of the whole longest row
    assert none.memory.logits == 2 * 2 * places * none.setup.shape.vocabulary > trl.memory.logits
    preview = rl_setup(RLConfig(), PlanConfig(), read_shape(SHIPPED))
    assert preview.reference_pass * preview.rows == KL_ROWS
    lora = rl_setup(config_of("single-gpu", RLConfig), PlanConfig(), read_shape(THREE))
    assert lora.reference_pass == 0.5  # 80 rows: every second one


# -------------------- published runs


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare()


def test_one_constant_is_fitted_to_one_figure(compared: list[Compared]) -> None:
    fitted = [row for row in compared if row.role == "fitted"]
    assert [row.figure for row in fitted] == ["seconds"]
    assert abs(fitted[0].error) < 0.01
    assert timing()[1] == pytest.approx(0.00079)


@pytest.mark.parametrize(
    ("figure", "each", "mean"), [("GiB", 0.15, 0.1), ("seconds", 0.35, 0.2), ("GPUs", 1.0, 0.25)]
)
def test_what_was_not_fitted_comes_out_too(
    compared: list[Compared], figure: str, each: float, mean: float
) -> None:
    errors = [abs(row.error) for row in compared if row.figure == figure and row.role == "tested"]
    assert len(errors) >= 5
    assert max(errors) <= each and sum(errors) / len(errors) <= mean


def test_what_was_run_is_not_refused(compared: list[Compared]) -> None:
    """The paper's own set-up among them."""
    ran = [row for row in compared if row.figure == "fits"]
    assert any("SAIL-RL" in row.run for row in ran) and all(row.planned == 1 for row in ran)


def test_sources_are_given(compared: list[Compared]) -> None:
    assert all(row.source.startswith("https://") or row.role == "own" for row in compared)
    assert all(row.date[:2] == "20" for row in compared)
    assert len({row.source for row in compared}) >= 6
    assert "+" in comparison_table(compared) and "mean size of the error" in comparison_table(compared)


# -------------------- the preview rung against this project's own runs


def test_the_preview_rung_against_a_measured_run(compared: list[Compared]) -> None:
    own = {row.figure: row for row in compared if row.role == "own"}
    assert set(own) == {"seconds", "GiB"}
    assert abs(own["seconds"].error) < 0.25 and abs(own["GiB"].error) < 0.25
    config = RLConfig()
    plan = make_plan(config, PlanConfig(), shape_for(config))
    assert own["seconds"].planned == pytest.approx(plan.seconds.total)
    assert own["GiB"].planned == pytest.approx(plan.memory.peak / GIB)


def test_the_preview_rung_against_the_runs_of_the_study() -> None:
    """CPU seconds of whole runs, start and evaluation among them, of 48 prompts a step."""
    logs = sorted(Path("data/runs/study").glob("cascade-[0-4].json"))
    runs = [json.loads(log.read_text()) for log in logs]
    config = RLConfig(steps=32, prompts=48)
    said = make_plan(config, PlanConfig(), shape_for(config)).hours * 3600
    for run in runs:
        assert run["settings"]["rl"]["steps"] == 32 and run["settings"]["rl"]["prompts"] == 48
        assert 0.5 * run["cpu_seconds"] < said < 1.1 * run["cpu_seconds"]
    assert len(runs) == 5


# -------------------- judge, disk


def test_the_judge_is_asked_for_written_traces_alone() -> None:
    config = RLConfig(judge="llm:gpt-4o-mini,calls=combined", steps=10)
    cost = judging(config, PlanConfig(trigger_rate=0.5), draws=1.0)
    assert cost.calls == cost.traces == 10 * 320 / 2
    assert cost.dollars == pytest.approx((cost.tokens_in * 0.15 + cost.tokens_out * 0.60) / 1e6)
    three = judging(dataclasses.replace(config, judge="llm:gpt-4o-mini"), PlanConfig(), 1.0)  # as it asks
    assert three.calls == 3 * three.traces and three.tokens_in > cost.tokens_in
    noisy = dataclasses.replace(config, judge="noisy:llm:gpt-4o-mini,false_pass=0.1")
    assert judging(noisy, PlanConfig(), 1.0) == three
    direct = dataclasses.replace(config, reward="judging+answer")
    assert judging(direct, PlanConfig(), 1.0).calls == 0
    assert judging(RLConfig(), PlanConfig(), 1.0).dollars == 0


def test_a_price_that_is_not_known_is_not_nothing() -> None:
    cost = judging(RLConfig(judge="llm:my-model,base_url=http://localhost:8001/v1"), PlanConfig(), 1.0)
    assert cost.calls and cost.dollars is None and "not known" in cost.note
    given = "llm:my-model,price_in=1,price_out=2"
    assert judging(RLConfig(judge=given), PlanConfig(), 1.0).dollars


def test_checkpoints_take_what_the_states_take() -> None:
    config = config_of("node", RLConfig)
    plan = make_plan(config, config_of("node", PlanConfig), read_shape(SEVEN))
    assert plan.disk.policy == 2 * plan.setup.shape.parameters
    assert plan.disk.checkpoints == 3 * 14 * plan.setup.shape.parameters
    assert plan.dollars is None
    priced = make_plan(config, dataclasses.replace(plan.assumed, gpu_price=2.0), read_shape(SEVEN))
    assert priced.dollars == pytest.approx(2.0 * 8 * priced.hours)


# -------------------- the command


@pytest.mark.parametrize("rung", ["preview", "single-gpu", "node", "paper"])
def test_every_rung_fits_as_it_stands(rung: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--rung", rung, "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert set(plans) == {"sft", "rl"}
    assert plans["rl"]["hours"] > 0 and plans["rl"]["memory"]["update"] > 0
    assert main(["plan", "--rung", rung]) == 0
    assert "assumed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--rung", "single-gpu", "--set", "policy.weights=full"],
        ["--rung", "single-gpu", "--gpu", "T4"],
        ["--rung", "node", "--set", "engine.sharding=none"],
        ["--rung", "node", "--gpu", "L4", "--stage", "rl"],
        ["--rung", "node", "--set", "device_batch=8", "--set", "engine.gradient_checkpointing=false"],
    ],
)
def test_what_cannot_fit_is_refused_and_the_remedies_fit(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0 and "cannot fit" in error and "GiB" in error
    stage = error.split("cannot fit: ")[1].split(":")[0]
    named = error.split("what would: ")[1].split(" | ")
    assert named
    for remedy in named:
        base = [*options] if "--stage" in options else [*options, "--stage", stage]
        assert main(["plan", *base, *remedy.split()]) == 0, remedy
        capsys.readouterr()


@pytest.mark.parametrize(
    "options",
    [
        ["--rung", "node", "--gpu", "T4"],
        ["--rung", "node", "--gpu", "L4", "--set", "engine.sharding=none"],
        ["--rung", "paper", "--gpu", "L40S", "--gpus", "1"],
        ["--rung", "paper", "--gpu", "T4", "--gpus", "64", "--set", "engine.gradient_checkpointing=false"],
        ["--rung", "node", "--set", "max_new_tokens=1000000"],
        ["--rung", "preview", "--gpu", "T4", "--set", "sft.width=4096", "--set", "sft.layers=100"],
    ],
)
def test_a_remedy_makes_the_whole_command_fit(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Not only the stage that is named: the other one, and what the engine can do, too."""
    assert main(["plan", *options]) == 2
    named = capsys.readouterr().err.split("what would: ")[1].split(" | ")
    for remedy in named:
        assert main(["plan", *options, *remedy.split()]) == 0, remedy
        capsys.readouterr()


def test_a_policy_from_scratch_is_counted_in_its_own_size() -> None:
    assert shape_for(SFTConfig()).parameters == read_shape(SHIPPED).parameters
    wide = SFTConfig(width=256, layers=2, architecture="qwen3_vl")
    built = build_policy(build_processor(), 0, 256, 2, "qwen3_vl")
    assert shape_for(wide).parameters == sum(p.numel() for p in built.parameters())
    after = RLConfig(checkpoint="runs/sft/policy")
    assert shape_for(after, wide) == shape_for(wide)


def test_a_share_of_vllm_that_is_too_small_is_refused() -> None:
    config = config_of("node", RLConfig).with_values({"engine.vllm_memory": "0.1"})
    assumed = config_of("node", PlanConfig)
    plan = make_plan(config, assumed, read_shape(SEVEN))
    assert "vLLM's share" in plan.problem
    assert "--set engine.vllm_memory=0.3" in remedies(plan, config, assumed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "A100-80"], "did you mean 'A100-80GB'"),
        (["--gpus", "0"], "--gpus must be at least 1"),
        (["--rung", "node", "--gpus", "7"], "must be a multiple of engine.processes"),
        (["--rung", "nodes"], "did you mean 'node'"),
        (["--set", "promts=8"], "did you mean 'prompts'"),
        (["--set", "prompts"], "KEY=VALUE"),
        (["--set", "plan.picture_tokens=99"], "picture_tokens must be at most prompt_tokens"),
        (["--set", "checkpoint=/nowhere"], "no folder with a config.json"),
        (["--gpu", "A100"], "did you mean 'A100-40GB' or 'A100-80GB'?"),
        (["--gpu", "H100-80GB"], "did you mean 'H100'?"),
        (["--rung", "node", "--set", "rl.judge=llm:m,price_in=abc"], "price_in must be a number, not 'abc'"),
        (["--set", "rl.judge=llm:m,rpm=0"], "rpm of the judge must lie in"),
        (["--set", "rl.judge=noisy:exact,false_pass=2"], "false_pass"),
        (["--set", "plan.completion_tokens=65"], "completion_tokens cannot be 65, above max_new_tokens=64"),
        (["--rung", "node", "--set", "plan.prompt_tokens=9000"], "cannot be 9000, above max_prompt_tokens"),
        (["--rung", "node", "--set", "policy.max_pixels=78400"], "above the 100 of policy.max_pixels=78400"),
        (["--rung", "single-gpu", "--set", "policy.weights=4bit"], "cannot be pushed to vLLM"),
        (["--rung", "node", "--set", "policy.weights=4bit"], "cannot be sharded by zero3"),
        (["--rung", "node", "--set", "engine.vllm_gpus=3"], "must divide engine.processes, not be 3 of 8"),
        (
            ["--rung", "single-gpu", "--gpu", "H200", "--set", "policy.weights=full"],
            "lost by rounding in bfloat16",
        ),
        (["--rung", "paper", "--set", "engine.sampler=transformers"], "verl samples with vLLM"),
    ],
)
def test_bad_input_is_named(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_check_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--check"]) == 0
    assert "R1-V" in capsys.readouterr().out
    assert main(["plan", "--check", "--json"]) == 0
    assert all("error" in row for row in json.loads(capsys.readouterr().out))


def test_more_gpus_take_less_time_and_less_memory() -> None:
    config, assumed = config_of("node", RLConfig), config_of("node", PlanConfig)
    few = make_plan(config, assumed, read_shape(SEVEN))
    many = make_plan(config.with_values({"engine.processes": "16"}), assumed, read_shape(SEVEN))
    assert many.hours < few.hours and many.memory.optimizer == few.memory.optimizer / 2
    assert seconds(few.setup, few.gpu).total == few.seconds.total
    assert few.memory.peak < 79.15 * GIB


def test_rl_starts_from_what_sft_makes() -> None:
    sft, rl = config_of("node", SFTConfig), config_of("node", RLConfig)
    assert shape_for(rl, sft).name == SEVEN
    assert shape_for(RLConfig()).parameters == read_shape(SHIPPED).parameters
