"""Rung files and `config show`: what is wrong is named, whether a file or --set says it."""

from pathlib import Path

import pytest

from sailrl_lite.cli import main
from sailrl_lite.config import PolicyConfig, RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.rungs import config_of, read_rung


def rung_of(folder: Path, text: str) -> str:
    file = folder / "own.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[rll]\nsteps = 1", "no section 'rll'; did you mean 'rl'?"),
        ("[rl]\nstep = 1", "'rl.step' that is none; did you mean 'rl.steps'?"),
        ("[rl.steps.more]\nx = 1", "'rl.steps.more.x' that is none"),
        ("[rl.bogus]", "'rl.bogus' that is none"),
        ("[rl.steps]", "rl.steps must be a whole number, not {}"),
        ("[rl]\njudge = {}", "rl.judge must be a text, not {}"),
        ("[rl]\njudge = ['exact']", "rl.judge must be a text, not ['exact']"),
        ("[rl]\nfamilies = 'add'", "rl.families must be a list of texts"),
        ("[rl]\nsteps = true", "rl.steps must be a whole number, not True"),
        ("[rl]\nsteps = 3.0", "rl.steps must be a whole number"),
        ("[rl]\nsteps = '3'", "rl.steps must be a whole number, not '3'"),
        ("[rl]\nalpha = true", 'rl.alpha must be a number, or "none", not True'),
        ("[rl]\nalpha = nan", "alpha must lie in [0, 1], not nan"),
        ("[rl]\nkl = inf", "kl must lie in [0, 100], not inf"),
        ("[policy]\nremote_code = 1", "policy.remote_code must be true or false, not 1"),
        ("rl = 'x'", "rl is a section, so write [rl]"),
        ("[[rl]]\nsteps = 1", "rl is a section, so write [rl]"),
        ("about = 3", "about must be a text, not 3"),
        ("why = 'x'", "why is a section, so write [why]"),
        ("[why]\n'rl.step' = 'x'", "did you mean 'rl.steps'?"),
        ("[why]\n'rl.steps' = 4", "why.rl.steps must be a text, not 4"),
        ("[policy]\nweights = '4bit'\n[engine]\nsampler = 'vllm'", "cannot be pushed to vLLM"),
    ],
)
def test_a_wrong_entry_of_a_file_is_named_with_the_file(text, words, tmp_path, capsys):
    file = rung_of(tmp_path, text)
    assert main(["config", "show", "--rung", file]) == 2
    said = capsys.readouterr().err
    assert words in said and file in said and said.count("\n") == 1


def test_a_file_of_a_windows_editor_is_read(tmp_path):
    assert config_of(rung_of(tmp_path, "\ufeff[rl]\r\nsteps = 2\r\n"), RLConfig).steps == 2


def test_a_file_says_a_value_of_every_type(tmp_path):
    text = """
    [rl]
    steps = 2
    kl = 1
    families = ['add', 'angle']
    pass_low = 'none'
    [rl.policy]
    weights = 'lora'
    """
    config = config_of(rung_of(tmp_path, text), RLConfig)
    assert config == RLConfig(steps=2, kl=1.0, families=("add", "angle"), policy=PolicyConfig(weights="lora"))
    rung = read_rung(rung_of(tmp_path, "about = 'mine'\n[why]\n'rl.steps' = 'short'"))
    assert rung.about == "mine" and rung.why == {"rl.steps": "short"} and not rung.values


def test_what_is_none_by_default_can_be_so_again():
    paper = config_of("paper", RLConfig)
    assert paper.alpha == 0.9 and paper.with_values({"alpha": "None"}).alpha is None
    with pytest.raises(SailRLError, match="'alpha' cannot be 'null'; the default is None"):
        paper.with_values({"alpha": "null"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("alpha=nan", "alpha must lie in [0, 1], not nan"),
        ("rollouts=1", "rollouts must lie in [2, 1000], not 1"),
        ("reward=Cascade", "did you mean cascade?"),
        ("engine.processes=3", "prompts must be a multiple of engine.processes"),
        ("policy.weights=8bit", "policy.weights cannot be '8bit'"),
        ("policy.dtype=bfloat16", "lost by rounding in bfloat16"),
        ("policy.weights=4bit engine.sharding=zero3", "cannot be sharded by zero3"),
        ("policy.weights=4bit engine.sampler=vllm", "cannot be pushed to vLLM"),
        ("engine.sampler=vllm engine.vllm_gpus=2", "must divide engine.processes, not be 2 of 1"),
        ("engine.sampler=vllm engine.vllm=server engine.vllm_gpus=2", "--tensor-parallel-size"),
    ],
)
def test_what_could_not_run_is_not_shown(values, words, capsys):
    given = [word for value in values.split() for word in ("--set", value)]
    assert main(["config", "show", "rl", *given]) == 2
    said = capsys.readouterr()
    assert words in said.err and said.err.count("\n") == 1 and not said.out


@pytest.mark.parametrize(
    "text",
    [
        "[]", "3", "null", "{", '{"steps": "x"}', '{"steps": null}', '{"steps": true}', '{"steps": 1e999}',
        '{"policy": 3}', '{"policy": {"x": 1}}', '{"judge": 5}', '{"families": [1]}',
        '{"engine": {"processes": "2"}}',
    ],
)  # fmt: skip
def test_a_damaged_configuration_of_a_run_is_told_when_it_is_resumed(text, tmp_path, capsys):
    (tmp_path / "config.json").write_text(text)
    assert main(["rl", "--out", str(tmp_path), "--resume"]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'config.json'}: this is no configuration of a run" in said and said.count("\n") == 1
