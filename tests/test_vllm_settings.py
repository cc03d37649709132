"""What a run says to vLLM, without vLLM: `make check-vllm` is the proof with the engine itself."""

import importlib.util
import math
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from sailrl_lite.cli import main
from sailrl_lite.config import SHIPPED, EngineConfig, PolicyConfig, RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.rungs import config_of
from sailrl_lite.training.models import MicroProcessor
from sailrl_lite.training.rl import grpo_config
from sailrl_lite.training.vllm import (
    as_read,
    check_vllm,
    correction,
    forget_pictures,
    response_limits,
    vllm_settings,
)

COLOCATED = EngineConfig(sampler="vllm", vllm_memory=0.45, vllm_gpus=2, processes=2)
SERVER = EngineConfig(sampler="vllm", vllm="server", vllm_server="http://localhost:1")


@pytest.fixture
def installed(monkeypatch):
    """As if vLLM were installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: SimpleNamespace() if name == "vllm" else found(name)
    )


def test_another_sampler_says_nothing_of_vllm(tmp_path):
    assert vllm_settings(RLConfig()) == {}
    assert not grpo_config(RLConfig(), tmp_path).use_vllm
    check_vllm(PolicyConfig(weights="4bit"), EngineConfig())


def test_settings_of_a_colocated_vllm(tmp_path):
    config = RLConfig(engine=COLOCATED, max_prompt_tokens=2048, max_new_tokens=1024)
    args = grpo_config(config, tmp_path)
    assert (args.use_vllm, args.vllm_mode) == (True, "colocate")
    assert args.vllm_gpu_memory_utilization == 0.45
    assert args.vllm_tensor_parallel_size == 2
    assert args.vllm_max_model_length == 3072
    assert args.vllm_enable_sleep_mode == torch.cuda.is_available()
    assert args.vllm_importance_sampling_correction
    assert args.vllm_importance_sampling_mode == "token_truncate"
    unlimited = replace(config, max_prompt_tokens=0)
    assert grpo_config(unlimited, tmp_path).vllm_max_model_length is None


def test_settings_of_a_server(tmp_path):
    args = grpo_config(RLConfig(engine=SERVER), tmp_path)
    assert (args.vllm_mode, args.vllm_server_base_url) == ("server", "http://localhost:1")


@pytest.mark.parametrize("rung", ["single-gpu", "node"])
def test_the_rungs_with_a_gpu_sample_by_vllm(rung):
    config = config_of(rung, RLConfig)
    values = vllm_settings(config)
    assert values["vllm_mode"] == "colocate"
    assert values["vllm_max_model_length"] == config.max_prompt_tokens + config.max_new_tokens
    assert values["vllm_gpu_memory_utilization"] == config.engine.vllm_memory


@pytest.mark.parametrize(
    ("policy", "engine", "words"),
    [
        (PolicyConfig(weights="4bit"), COLOCATED, "engine.sampler=transformers or policy.weights=lora"),
        (PolicyConfig(), replace(COLOCATED, processes=3), "must divide engine.processes, not be 2 of 3"),
        (PolicyConfig(), replace(SERVER, vllm_gpus=2), "--tensor-parallel-size"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(installed, policy, engine, words):
    with pytest.raises(SailRLError, match=words) as error:
        check_vllm(policy, engine)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_that_is_not_installed_is_told_with_the_remedy(tmp_path, capsys):
    asked = ["rl", "--out", str(tmp_path / "run"), "--set", "engine.sampler=vllm"]
    assert main(asked) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "pip install 'sailrl-lite[gpu]'" in said
    assert not (tmp_path / "run").exists()


def test_a_server_that_does_not_answer_is_told_at_once(installed):
    with pytest.raises(SailRLError, match=r"no vLLM server answers at .*http://localhost:1 .*trl vllm-serve"):
        check_vllm(PolicyConfig(), SERVER)
    with pytest.raises(SailRLError, match="no vLLM server answers"):
        check_vllm(PolicyConfig(), replace(SERVER, vllm_server="not an address"))


@pytest.mark.parametrize("status", [200, 503])
def test_only_a_server_that_is_well_will_do(installed, status):
    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("localhost", 0), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    engine = replace(SERVER, vllm_server=f"http://localhost:{server.server_port}/")
    try:
        if status == 200:
            check_vllm(PolicyConfig(), engine)
        else:
            with pytest.raises(SailRLError, match="Service Unavailable"):
                check_vllm(PolicyConfig(), engine)
    finally:
        server.shutdown()
        server.server_close()


def test_a_response_ends_where_the_policy_ends_it_and_holds_no_picture():
    tokenizer = MicroProcessor.from_pretrained(SHIPPED).tokenizer
    picture = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    limits = response_limits(tokenizer, [picture], [tokenizer.eos_token_id])
    assert limits == {"bad_words": ["<|image_pad|>"], "stop_token_ids": [tokenizer.eos_token_id]}
    # vLLM forbids what the words are in tokens; these are one token each.
    assert tokenizer.encode("<|image_pad|>", add_special_tokens=False) == [picture]


def test_pictures_reach_vllm_in_the_size_that_the_policy_reads():
    reader = MicroProcessor.from_pretrained(SHIPPED).image_processor
    images = [Image.new("RGB", (112, 56), "red"), Image.effect_noise((300, 200), 90).convert("RGB")]
    inputs = reader(images, return_tensors="pt")
    handed = as_read(images, inputs["image_grid_thw"], reader.patch_size, reader.resample)
    assert handed[0] is images[0]
    again = reader(handed, return_tensors="pt")
    assert torch.equal(again["image_grid_thw"], inputs["image_grid_thw"])
    assert torch.equal(again["pixel_values"], inputs["pixel_values"])


def test_tokens_are_weighted_by_policy_over_vllm_and_cut():
    policy, vllm = torch.tensor([[-1.0, -1.0, 0.0]]), torch.tensor([[-1.5, -4.0, -9.0]])
    ratio, measured = correction(policy, vllm, torch.tensor([[1, 1, 0]]), 3.0)
    assert ratio[0].tolist() == pytest.approx([math.exp(0.5), 3.0, 1.0])
    assert measured == {"vllm/difference": pytest.approx(1.75), "vllm/cut": 0.5}


def test_pictures_are_forgotten_where_vllm_is():
    asked: list[str] = []
    engine = SimpleNamespace(reset_encoder_cache=lambda: asked.append("engine"))
    reply = SimpleNamespace(raise_for_status=lambda: None)
    session = SimpleNamespace(post=lambda url: asked.append(url) or reply)
    client = SimpleNamespace(base_url="http://gpu:8000", session=session)
    colocated = SimpleNamespace(mode="colocate", llm=SimpleNamespace(llm_engine=engine))
    forget_pictures(colocated, main=False)
    served = SimpleNamespace(mode="server", vllm_client=client)
    forget_pictures(served, main=False)
    forget_pictures(served, main=True)
    assert asked == ["engine", "http://gpu:8000/reset_encoder_cache"]
