"""Other starts for RL: a second architecture through the same code, direct lessons, more noise."""

import json

import pandas as pd
import pytest
import torch

from sailrl_lite.config import SHIPPED, RLConfig, SFTConfig, checkpoint_of
from sailrl_lite.errors import SailRLError
from sailrl_lite.response import parse_response
from sailrl_lite.training.data import sft_dataset
from sailrl_lite.training.models import (
    build_policy,
    build_processor,
    encode_prompts,
    load_checkpoint,
    save_checkpoint,
)
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.rollout import sample
from sailrl_lite.training.sft import train_sft
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import Noise

SMALL = SFTConfig(architecture="qwen3_vl", width=64, steps=2, captions=1, batch=4)


@pytest.fixture(scope="module")
def processor():
    return build_processor()


@pytest.fixture(scope="module")
def policy(processor):
    return build_policy(processor, seed=0, architecture="qwen3_vl").eval()


@pytest.fixture(scope="module")
def inputs(processor):
    problems = [make_problem(family, seed) for seed in range(2) for family in FAMILIES]
    return dict(encode_prompts(processor, [p.question for p in problems], [p.image for p in problems]))


# ---- the second architecture


def test_it_reads_the_same_eight_tokens_a_picture_and_is_of_about_the_same_size(processor, policy, inputs):
    assert set((inputs["input_ids"] == policy.config.image_token_id).sum(1).tolist()) == {8}
    sizes = [sum(p.numel() for p in each.parameters()) for each in (policy, build_policy(processor, 0))]
    assert 0.8 < sizes[0] / sizes[1] < 1.25


def test_the_picture_reaches_it(policy, inputs):
    other = inputs | {"pixel_values": inputs["pixel_values"].flip(0)}
    assert not torch.allclose(policy(**inputs).logits[:, -1], policy(**other).logits[:, -1], atol=1e-3)


def test_it_comes_back_as_it_was_and_must_be_whole(tmp_path, processor, policy, inputs):
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    again, _ = load_checkpoint(folder)
    assert type(again) is type(policy)
    assert torch.equal(again.eval()(**inputs).logits, policy(**inputs).logits)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] = 5
    config["text_config"].pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(SailRLError, match="does not fit the policy"):
        load_checkpoint(folder)


def test_greedy_sampling_is_token_for_token_what_generate_gives(policy, inputs):
    length, never = 20, [policy.config.image_token_id, policy.config.video_token_id]
    ours = sample(policy, inputs, max_new_tokens=length, temperature=0).ids
    options = dict(max_new_tokens=length, do_sample=False, suppress_tokens=never)
    theirs = policy.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :].tolist()
    end = policy.generation_config.eos_token_id
    theirs = [row[: row.index(end) + 1] if end in row else row for row in theirs]
    assert ours == theirs


def test_sft_and_rl_train_it(tmp_path, monkeypatch):
    learned = train_sft(SMALL, tmp_path / "sft", bar=False)
    card = (learned / "README.md").read_text()
    assert "A Qwen3-VL of" in card and "--set architecture=qwen3_vl" in card

    def short(completions, **columns):  # a policy this young earns no reward of the project
        return [-float(len(completion[0]["content"])) for completion in completions]

    monkeypatch.setattr("sailrl_lite.training.rl.for_trl", lambda *args, **options: short)
    config = RLConfig(
        checkpoint=str(learned), steps=1, prompts=4, rollouts=3, max_new_tokens=8, overlong="keep"
    )
    trained = train_rl(config, tmp_path / "rl", bar=False)
    metrics = pd.read_csv(tmp_path / "rl" / "metrics.csv")
    assert len(metrics) == 1 and metrics["rows/trained"].iloc[0] > 0
    assert metrics["kl"].abs().iloc[0] < 1e-4  # the rollouts are those of the start
    first, last = (load_checkpoint(folder)[0] for folder in (learned, trained))
    pairs = list(zip(first.named_parameters(), last.parameters(), strict=True))
    assert last.config.model_type == "qwen3_vl"
    moved = [name for (name, a), b in pairs if not torch.equal(a, b)]
    assert any("visual" in name for name in moved) and any("language_model" in name for name in moved)


def test_an_unknown_architecture_is_named_with_the_known_ones(processor):
    with pytest.raises(SailRLError, match="'llava'; use one of qwen2_5_vl, qwen3_vl"):
        SFTConfig(architecture="llava").check()
    with pytest.raises(SailRLError, match="'llava'; use one of qwen2_5_vl, qwen3_vl"):
        build_policy(processor, 0, architecture="llava")


# ---- other lessons, other noise, other starts


def test_direct_lessons_are_all_direct_and_right():
    data = sft_dataset(8 * len(FAMILIES), Noise(), captions=len(FAMILIES), lessons="direct")
    texts = [row["completion"][0]["content"] for row in data]
    lessons = [parse_response(text) for text in texts[len(FAMILIES) :]]
    assert all(lesson.well_formed and lesson.decision == "direct" for lesson in lessons)
    problems = [make_problem(family, seed, "train") for seed in range(1, 8) for family in FAMILIES]
    assert [lesson.answer for lesson in lessons] == [problem.gold for problem in problems]
    assert not any("<judge>" in text for text in texts[: len(FAMILIES)])  # captions stay captions


def test_noise_can_be_set_from_text_and_stays_within_its_range():
    config = SFTConfig().with_values({"noise.slip": "0.3", "steps": "2"})
    assert config == SFTConfig(steps=2, noise=Noise(slip=0.3))
    assert SFTConfig.from_json(config.to_json()) == config
    with pytest.raises(SailRLError, match=r"did you mean 'noise\.slip'"):
        SFTConfig().with_values({"noise.slpi": "0.3"})
    with pytest.raises(SailRLError, match=r"noise\.misread must lie in \[0, 1\], not -0.1"):
        SFTConfig(noise=Noise(misread=-0.1)).check()
    with pytest.raises(SailRLError, match="lower the rates of noise"):
        SFTConfig(noise=Noise(slip=0.9)).check()


def test_the_shipped_policy_has_a_name_in_every_clone():
    for config in (RLConfig(checkpoint="shipped"), RLConfig(), SFTConfig(checkpoint="shipped")):
        assert checkpoint_of(config) == SHIPPED


def test_an_older_configuration_gets_the_defaults_of_what_it_lacks():
    old = json.loads(SFTConfig(seed=3).to_json())
    del old["architecture"], old["lessons"]
    assert SFTConfig.from_json(json.dumps(old)) == SFTConfig(seed=3)
