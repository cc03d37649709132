"""The four rungs: one schema, every value of the account, where a value comes from, what is refused."""

import math
from pathlib import Path

import pytest

from sailrl_lite.cli import main
from sailrl_lite.config import CLIP_HIGH, CLIP_LOW, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.rungs import RUNGS, SECTIONS, config_of, origins, read_rung

ACCOUNT = {
    SFTConfig: {
        "checkpoint": "BytedanceDouyinContent/SAIL-VL2-8B", "steps": math.ceil(400_000 / 1024), "batch": 1024,
        "max_tokens": 20_000, "learning_rate": 1e-6, "policy.weights": "full", "engine.processes": 64,
    },
    RLConfig: {
        "steps": math.ceil(3 * 70_000 / 256), "epochs": 3, "prompts": 256, "rollouts": 5, "updates": 5,
        "learning_rate": 1e-6, "max_prompt_tokens": 16 * 1024, "max_new_tokens": 4 * 1024, "kl": 0.0,
        "reward": "cascade", "alpha": 0.9, "clip": "asymmetric", "scale": "none", "policy.weights": "full",
        "engine.processes": 64, "engine.trainer": "verl",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ACCOUNT)
def test_the_paper_rung_has_every_value_of_the_account(kind: type) -> None:
    values = config_of("paper", kind).flat()
    assert {name: values[name] for name in ACCOUNT[kind]} == ACCOUNT[kind]
    assert (CLIP_LOW, CLIP_HIGH) == (0.20, 0.28)


def test_an_update_is_of_256_rollouts() -> None:
    paper = config_of("paper", RLConfig)
    assert paper.prompts * paper.rollouts // paper.updates == 256


@pytest.mark.parametrize("kind", ACCOUNT)
def test_every_value_of_the_paper_rung_says_what_it_rests_on(kind: type) -> None:
    rows = origins(read_rung("paper"), kind, {})
    assert [name for name, _, _, why in rows if not why] == []
    said = {name: why for name, _, _, why in rows}
    silent = {name for name, why in said.items() if why.startswith("the account is silent")}
    assert {"seed", "policy.dtype", "engine.sharding", "device_batch"} <= silent
    assert not silent & set(ACCOUNT[kind])


@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_fills_in_the_one_schema(rung: str) -> None:
    for kind in SECTIONS.values():
        config = config_of(rung, kind)
        config.check()
        assert type(config) is kind and set(config.flat()) == set(kind().flat())


def test_a_value_comes_from_what_is_given_else_the_rung_else_the_default() -> None:
    rows = origins(read_rung("paper"), RLConfig, {"rollouts": "8", "seed": "3"})
    table = {name: (value, source, why) for name, value, source, why in rows}
    assert table["rollouts"] == (8, "given", "") and table["seed"] == (3, "given", "")
    assert table["epochs"] == (3, "rung paper", "the account: 3")
    assert table["policy.weights"][1] == "default"


def test_the_command_prints_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--rung", "paper", "--set", "steps=100"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("# paper: ") and len(printed) == 1 + len(RLConfig().flat())
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in printed[1:]}
    assert lines["steps"].split() == ["100", "given"]
    assert lines["rollouts"].split(maxsplit=3) == ["5", "rung", "paper", "the account: 5"]
    assert main(["config", "show", "sft", "--rung", "node"]) == 0
    assert "Qwen/Qwen2.5-VL-7B-Instruct" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rl]\nlearning_rat = 1e-6\n", "'rl.learning_rat' that is none; did you mean 'rl.learning_rate'"),
        ("[engine]\nproceses = 4\n", "did you mean 'engine.processes'"),
        ("[engin]\nprocesses = 4\n", "no section 'engin'; did you mean 'engine'"),
        ("[why]\nrl.step = 'few'\n", "did you mean 'rl.steps'"),
        ("[rl]\nsteps = 'many'\n", "steps"),
        ("[rl]\nrollouts = 1\n", "rollouts must lie in"),
        ("[engine]\nsampler = 'vlm'\n", "vllm"),
        ("steps = 4\n", "no section 'steps'"),
        ("[rl\n", "TOML"),
    ],
)
def test_a_wrong_entry_of_a_file_of_ones_own_is_named(text: str, words: str, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(text)
    with pytest.raises(SailRLError) as told:
        read_rung(str(own))
    assert words in str(told.value) and str(own) in str(told.value) and "\n" not in str(told.value)


def test_a_file_of_ones_own_is_a_rung(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('about = "half a node"\n[engine]\nprocesses = 4\nsharding = "fsdp2"\n')
    assert config_of(read_rung(str(own)), RLConfig).engine.processes == 4


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["rl", "--rung", "nodes"], "did you mean 'node'"),
        (["sft", "--rung", "paper", "--set", "learning_rat=1e-5"], "did you mean 'learning_rate'"),
        (["evaluate", "--rung", "node", "--set", "max_new_token=5"], "did you mean 'max_new_tokens'"),
    ],
)
def test_a_wrong_name_on_the_command_line_is_named(
    command: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1
