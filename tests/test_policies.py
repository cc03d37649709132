"""Policies of any rung: hub-format folders, adapters, four bits, limits of tokens, parts of an update."""

import io
import json
import subprocess
import sys
import time
from dataclasses import replace

import hub_checkpoint
import pandas as pd
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from sailrl_lite.cli import main
from sailrl_lite.config import SHIPPED, EngineConfig, PolicyConfig, RLConfig, SFTConfig
from sailrl_lite.curation.passrate import MicroSampler, _picture
from sailrl_lite.curation.schema import Row, write_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.training import policies
from sailrl_lite.training.dapo import Dapo, DapoTrainer
from sailrl_lite.training.data import Reader, curated_dataset, rl_dataset, sft_dataset
from sailrl_lite.training.models import (
    MicroProcessor,
    bare,
    encode_prompts,
    load_checkpoint,
    save_checkpoint,
)
from sailrl_lite.training.policies import HubProcessor, check_policy, load_policy, reference_of
from sailrl_lite.training.rl import grpo_config, train_rl
from sailrl_lite.training.rollout import sample
from sailrl_lite.training.runs import last_checkpoint
from sailrl_lite.training.sft import train_sft
from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import Noise

KINDS = ("qwen2_5_vl", "qwen3_vl")
LORA = PolicyConfig(weights="lora", lora_rank=4, lora_alpha=8)


@pytest.fixture(scope="module", params=KINDS)
def hub(request, tmp_path_factory):
    return hub_checkpoint.make(tmp_path_factory.mktemp("hub") / request.param, request.param)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    return hub_checkpoint.make(tmp_path_factory.mktemp("hub") / "qwen2_5_vl")


@pytest.fixture(scope="module")
def inputs_of():
    def encode(processor):
        problems = [make_problem(family, 3) for family in ("add", "angle", "compare")]
        return dict(encode_prompts(processor, [p.question for p in problems], [p.image for p in problems]))

    return encode


# ---- what the hub has


def test_a_hub_folder_loads_without_torchvision_and_samples_as_generate_does(hub, inputs_of):
    policy, processor = load_policy(hub)
    assert type(processor) is HubProcessor and processor.tokenizer.eos_token == "<|im_end|>"
    inputs = inputs_of(processor)
    tokens = (inputs["input_ids"] == policy.config.image_token_id).sum(1).tolist()
    assert tokens == [processor.picture_tokens(112, 56)] * 3
    ours = sample(policy, inputs, max_new_tokens=12, temperature=0).ids
    never = [policy.config.image_token_id, policy.config.video_token_id]
    theirs = policy.eval().generate(**inputs, max_new_tokens=12, do_sample=False, suppress_tokens=never)
    theirs = theirs[:, inputs["input_ids"].shape[1] :].tolist()
    ends = policy.generation_config.eos_token_id
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other[: len(mine)] and (len(mine) == 12 or mine[-1] in ends)


def test_the_micro_policy_is_the_one_that_load_checkpoint_gives(inputs_of):
    (policy, processor), (same, _) = load_policy(SHIPPED), load_checkpoint(SHIPPED)
    assert type(processor) is MicroProcessor
    inputs = inputs_of(processor)
    assert torch.equal(policy.eval()(**inputs).logits, same.eval()(**inputs).logits)


def test_a_question_cannot_hold_a_mark_of_its_tokenizer_and_can_hold_one_of_another(qwen):
    processor = load_policy(qwen)[1]
    picture = Image.new("RGB", (112, 56))
    with pytest.raises(SailRLError, match="object_ref_start"):
        encode_prompts(processor, ["What is <|object_ref_start|>?"], [picture])
    encode_prompts(processor, ["What is <unk>?"], [picture])


def test_it_is_saved_with_the_files_of_its_processor_and_comes_back(hub, tmp_path, inputs_of):
    policy, processor = load_policy(hub)
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", "tokenizer_config.json"):
        assert (folder / name).read_bytes() == (hub / name).read_bytes()
    again, its_processor = load_policy(folder)
    inputs = inputs_of(its_processor)
    assert torch.equal(again.eval()(**inputs).logits, policy.eval()(**inputs).logits)


def test_large_pictures_are_made_smaller_and_turned_upright(qwen):
    wide, narrow = load_policy(qwen)[1], load_policy(qwen, PolicyConfig(max_pixels=50_000))[1]
    picture = Image.new("RGB", (400, 300), "red")
    assert wide.picture_tokens(400, 300) == 14 * 11
    grid = narrow.image_processor(images=[picture])["image_grid_thw"][0]
    assert grid.prod() * 14 * 14 <= 50_000
    assert grid.prod() // 4 == narrow.picture_tokens(400, 300) == narrow.picture_tokens(300, 400)
    with pytest.raises(SailRLError, match="max_pixels must be at least 3136"):
        load_policy(qwen, PolicyConfig(max_pixels=1000))
    exif = Image.Exif()
    exif[274] = 6  # to be turned by a quarter
    file = io.BytesIO()
    picture.save(file, "JPEG", exif=exif)
    assert wide.shown(Image.open(file)).size == (300, 400)
    with pytest.raises(SailRLError, match="400 x 2 pixels is too thin"):
        wide.shown(Image.new("RGB", (400, 2)))


def test_a_name_of_the_hub_is_a_folder_once_downloaded(qwen, monkeypatch):
    asked = []

    def download(name, revision, **options):
        asked.append((name, revision))
        return str(qwen)

    monkeypatch.setattr(policies, "snapshot_download", download)
    policy, _ = load_policy("Qwen/Qwen2.5-VL-3B-Instruct", replace(LORA, revision="v1"), train=True)
    assert asked == [("Qwen/Qwen2.5-VL-3B-Instruct", "v1")]
    own = policy.peft_config["default"]
    assert (own.base_model_name_or_path, own.revision) == ("Qwen/Qwen2.5-VL-3B-Instruct", "v1")


def test_a_name_that_is_nowhere_is_an_error_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a user's clone may hold such a run
    with pytest.raises(SailRLError) as error:
        load_policy("nobody/no-such-policy")
    message = str(error.value)
    assert "no folder nobody/no-such-policy" in message and "cannot be reached" in message
    assert "--checkpoint" in message and "\n" not in message
    with pytest.raises(SailRLError, match=r"no checkpoint in runs/sft/policy \(config.json is missing\)"):
        load_policy("runs/sft/policy")


def test_what_a_hub_says_no_with_is_said(monkeypatch):
    def fail(*args, **options):
        raise LocalEntryNotFoundError("a long\nstory")

    monkeypatch.setattr(policies, "snapshot_download", fail)
    with pytest.raises(SailRLError, match="cannot be reached"):
        load_policy("a/b")


def test_a_damaged_or_foreign_folder_is_an_error_in_one_line(qwen, tmp_path):
    policy, processor = load_policy(qwen)
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(SailRLError, match="cannot be read"):
        load_policy(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "llava"}))
    with pytest.raises(SailRLError, match="holds a 'llava' checkpoint"):
        load_policy(folder)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "sailvl", "auto_map": {"AutoModel": "a.B"}})
    )
    with pytest.raises(SailRLError, match=r"policy\.remote_code=true"):
        load_policy(folder)


def test_a_checkpoint_with_an_odd_part_is_an_error_in_one_line(qwen, tmp_path, capsys):
    policy, processor = load_policy(qwen)

    def changed(name, file, text):
        folder = save_checkpoint(policy, processor, tmp_path / name)
        (folder / file).write_text(text)
        return folder

    template = changed("template", "chat_template.jinja", "")
    for name in ("chat_template.json", "tokenizer_config.json"):
        if (template / name).is_file():
            said = json.loads((template / name).read_text())
            said.pop("chat_template", None)
            (template / name).write_text(json.dumps(said))
    adapters = {"peft_type": "LORA", "base_model_name_or_path": None, "r": 4, "target_modules": ["q_proj"]}
    fewer = save_checkpoint(policy, processor, tmp_path / "fewer")
    weights = load_file(fewer / "model.safetensors")
    name = sorted(weights)[0]
    save_file(weights | {name: torch.zeros(3, 3)}, fewer / "model.safetensors", metadata={"format": "pt"})
    capsys.readouterr()
    for folder, words in (
        (template, "cannot be read (it has no chat template)"),
        (changed("list", "config.json", "[1]"), "config.json is no JSON object"),
        (changed("kind", "config.json", '{"model_type": ["x"]}'), "holds a ['x'] checkpoint"),
        (changed("null", "adapter_config.json", json.dumps(adapters)), "set base_model_name_or_path"),
        (fewer, "does not fit the policy (mismatched keys: model."),
        ("a" * 5000, "File name too long"),
        ("a\0b", "null byte"),
    ):
        with pytest.raises(SailRLError) as told:
            load_policy(folder)
        assert words in str(told.value) and "\n" not in str(told.value)
    assert not capsys.readouterr().err  # nor a table of the library beside it


# ---- code that comes with a checkpoint

OWN = """
from transformers import PreTrainedModel, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
import torch

class OwnConfig(Qwen2_5_VLConfig):
    model_type = "own_vl"

class LikeQwen(Qwen2_5_VLForConditionalGeneration):
    config_class = OwnConfig

class LikeSail(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.language_model = torch.nn.Linear(2, 2)
        self.post_init()
"""


def with_own_code(folder, qwen, name):
    policy, processor = load_policy(qwen)
    save_checkpoint(policy, processor, folder)
    weights = {n: w for n, w in policy.state_dict().items() if name == "LikeQwen" and n != "lm_head.weight"}
    if name == "LikeSail":
        weights = {"language_model.weight": torch.zeros(2, 2), "language_model.bias": torch.zeros(2)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "own.py").write_text(OWN)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "own_vl", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": f"own.{name}"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_code_of_its_own_runs_only_when_allowed(qwen, tmp_path, capsys, inputs_of, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = with_own_code(tmp_path / "like_qwen", qwen, "LikeQwen")
    with pytest.raises(SailRLError, match=r"Python code of its own.*policy\.remote_code=true"):
        load_policy(folder)
    assert not capsys.readouterr().err
    policy, processor = load_policy(folder, replace(LORA, remote_code=True), train=True)
    told = capsys.readouterr().err
    assert type(bare(policy)).__name__ == "LikeQwen" and "untested" in told and told.count("\n") == 1
    same = load_policy(qwen)[0]
    inputs = inputs_of(processor)
    assert torch.equal(policy.eval()(**inputs).logits, same.eval()(**inputs).logits)
    assert len(sample(policy, inputs, max_new_tokens=3).ids) == 3


def test_code_with_another_interface_is_refused(qwen, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = with_own_code(tmp_path / "like_sail", qwen, "LikeSail")
    settings = PolicyConfig(remote_code=True, attention="eager")
    with pytest.raises(SailRLError, match=r"has no model, lm_head.*export verl"):
        load_policy(folder, settings)
    (folder / "own.py").write_text("import no_such_module")
    with pytest.raises(SailRLError, match="cannot be imported"):
        load_policy(folder, settings)


# ---- adapters


def trained(policy):
    """Give the adapters an effect."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in policy.named_parameters():
            if "lora_B.default" in name:
                weight.normal_(std=0.05)


def test_adapters_are_on_the_linear_layers_of_the_language_model_alone(hub):
    policy, _ = load_policy(hub, LORA, train=True)
    names = {name for name, weight in policy.named_parameters() if weight.requires_grad}
    assert all("language_model.layers" in name and "lora_" in name for name in names)
    assert len(names) == 2 * 7 * 2  # two layers, seven linear ones in each, two matrices
    assert not any(module.p for module in policy.modules() if isinstance(module, torch.nn.Dropout))


def test_new_adapters_change_nothing_and_hang_on_the_seed(qwen, inputs_of):
    (plain, processor), (policy, _), (other, _) = (
        load_policy(qwen),
        load_policy(qwen, LORA, train=True),
        load_policy(qwen, LORA, train=True, seed=1),
    )
    inputs = inputs_of(processor)
    assert torch.equal(plain.eval()(**inputs).logits, policy.eval()(**inputs).logits)
    first = [
        next(weight for name, weight in each.named_parameters() if "lora_A" in name)
        for each in (policy, load_policy(qwen, LORA, train=True)[0], other)
    ]
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])


def test_saved_adapters_load_beside_their_base_or_are_added_into_it(hub, tmp_path, inputs_of):
    policy, processor = load_policy(hub, LORA, train=True)
    trained(policy)
    reference_of(policy)  # a frozen copy, which is not saved
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    assert not (folder / "model.safetensors").exists() and not (folder / "ref").exists()
    inputs = inputs_of(processor)
    expected = policy.eval()(**inputs).logits
    assert not torch.allclose(expected, load_policy(hub)[0].eval()(**inputs).logits, atol=1e-3)
    for settings, train in ((LORA, True), (LORA, False)):
        again, _ = load_policy(folder, settings, train)
        assert torch.equal(again.eval()(**inputs).logits, expected)
    whole, _ = load_policy(folder)
    assert not hasattr(whole, "peft_config")
    assert torch.allclose(whole.eval()(**inputs).logits, expected, atol=1e-4)
    with pytest.raises(SailRLError, match=r"of rank 4; set policy\.lora_rank=4"):
        load_policy(folder, replace(LORA, lora_rank=8), train=True)
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(SailRLError, match="cannot be read"):
        load_policy(folder, LORA)


def test_a_policy_of_adapters_is_asked_and_filters_by_pass_rate(qwen, tmp_path, capsys):
    """Large pictures reach it as they are, not in the micro-world's size."""
    folder = save_checkpoint(*load_policy(qwen, LORA, train=True), tmp_path / "policy")
    stem = replace(row("one", size=(300, 200)), needs_thinking=True)
    sampler = MicroSampler(folder, max_new_tokens=3)
    assert _picture(stem, load_policy(folder)[1]).size == (300, 200)
    assert sampler([stem], 2, seed=0) == sampler([stem], 2, seed=0)
    Image.new("RGB", (300, 200)).save(tmp_path / "one.png")
    asked = ["ask", str(tmp_path / "one.png"), "How many?", "--checkpoint", str(folder)]
    assert main([*asked, "--max-new-tokens", "3", "-n", "2"]) == 0
    assert capsys.readouterr().out.count("\n\n") == 1


def test_adapters_of_others_lose_their_dropout_and_other_kinds_are_refused(qwen, tmp_path):
    folder = save_checkpoint(*load_policy(qwen, LORA, train=True), tmp_path / "policy")
    file = folder / "adapter_config.json"
    own = json.loads(file.read_text())
    file.write_text(json.dumps(own | {"lora_dropout": 0.1}))
    policy, _ = load_policy(folder, LORA, train=True)
    assert not any(module.p for module in policy.modules() if isinstance(module, torch.nn.Dropout))
    other = {"peft_type": "IA3", "target_modules": ["q_proj"], "feedforward_modules": []}
    file.write_text(json.dumps(other | {"base_model_name_or_path": str(qwen)}))
    for train in (False, True):
        with pytest.raises(SailRLError, match=r"of the kind IA3, .*--checkpoint") as told:
            load_policy(folder, LORA, train)
        assert "\n" not in str(told.value)


def test_the_reference_is_the_policy_with_its_adapters_as_they_were(qwen, inputs_of):
    policy, processor = load_policy(qwen, LORA, train=True)
    assert reference_of(policy) is policy and list(policy.peft_config) == ["default"]
    trained(policy)
    start = policy.eval()(**inputs_of(processor)).logits
    assert reference_of(policy) is policy
    frozen = [w for n, w in policy.named_parameters() if ".ref." in n]
    assert frozen and not any(weight.requires_grad for weight in frozen)
    with torch.no_grad():
        for name, weight in policy.named_parameters():
            if "lora_B.default" in name:
                weight.add_(0.05)
    now = policy(**inputs_of(processor)).logits
    policy.set_adapter("ref")
    assert torch.equal(policy(**inputs_of(processor)).logits, start) and not torch.equal(now, start)


# ---- four bits


def test_four_bits_are_refused_where_they_cannot_be(qwen, monkeypatch):
    settings = replace(LORA, weights="4bit")
    with pytest.raises(SailRLError, match="cannot be sharded by zero3"):
        check_policy(settings, EngineConfig(sharding="zero3"))
    monkeypatch.setattr(policies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SailRLError, match="needs the package bitsandbytes"):
        load_policy(qwen, settings)
    with pytest.raises(SailRLError, match="needs the package flash_attn"):
        load_policy(qwen, PolicyConfig(attention="flash_attention_2"))


def test_all_weights_in_bfloat16_are_refused_unless_sharded():
    settings = PolicyConfig(dtype="bfloat16")
    with pytest.raises(SailRLError, match=r"policy\.dtype=float32"):
        check_policy(settings, EngineConfig())
    check_policy(settings, EngineConfig(sharding="zero3"))
    check_policy(replace(settings, weights="lora"), EngineConfig())


@pytest.mark.parametrize("checkpoint", ["micro", "hub"])
def test_a_policy_in_four_bits_trains_between_rollouts(checkpoint, qwen, inputs_of):
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    settings = replace(LORA, weights="4bit")
    start = SHIPPED if checkpoint == "micro" else qwen
    policy, processor = load_policy(start, settings, train=True)
    kinds = {type(m).__name__ for n, m in policy.named_modules() if n.endswith("q_proj.base_layer")}
    assert kinds == {"Linear4bit"}
    assert not any("4bit" in type(m).__name__ for n, m in policy.named_modules() if "visual" in n)
    inputs = inputs_of(processor)
    for _ in range(2):  # rollouts in evaluation mode, then a step
        sample(policy, inputs, n=2, max_new_tokens=4)
        policy.train()
        loss = policy(**inputs, labels=inputs["input_ids"]).loss
        loss.backward()
    grads = [w.grad for n, w in policy.named_parameters() if "lora_B" in n]
    assert loss.isfinite() and all(grad is not None and grad.isfinite().all() for grad in grads)


# ---- limits of tokens


def picture(size=(112, 56)):
    file = io.BytesIO()
    Image.new("RGB", size, "white").save(file, "PNG")
    return file.getvalue()


def row(name, question="Is it?", size=(112, 56)):
    answered = {"judge": "direct", "think": "", "answer": "5"}
    return Row(name, picture(size), question, "5", "own", needs_thinking=False, **answered)


def test_rows_that_are_too_long_are_left_out_and_counted(qwen, tmp_path, capsys):
    processor = load_policy(qwen)[1]
    file = tmp_path / "rows.parquet"
    write_rows(file, [row("short"), row("long", "Is it? " * 100), row("large", size=(1000, 1000))])
    reader = Reader(processor, "max_tokens", 200)
    for responses in (True, False):
        data = curated_dataset(file, 4, 0, responses, reader=reader)
        assert {each["prompt"][0]["content"] for each in data} == {"Is it?"}
        assert {each["image"].size for each in data} == {(112, 56)}
        told = capsys.readouterr().err
        assert "2 of 3 rows" in told and "max_tokens=200" in told and told.count("\n") == 1
    with pytest.raises(SailRLError, match=r"every row .* more than max_tokens=10 tokens"):
        curated_dataset(file, 4, 0, False, reader=Reader(processor, "max_tokens", 10))


def test_the_count_is_that_of_what_the_trainer_reads(qwen, tmp_path):
    processor = load_policy(qwen)[1]
    write_rows(tmp_path / "rows.parquet", [row("one", "How many?", (300, 200))])
    (example,) = curated_dataset(tmp_path / "rows.parquet", 1, 0, True, reader=Reader(processor))
    read = encode_prompts(processor, ["How many?"], [example["image"]])
    reader = Reader(processor)
    assert reader.tokens([example["prompt"]], [(300, 200)]) == [read["input_ids"].shape[1]]
    whole = reader.tokens([example["prompt"] + example["completion"]], [(300, 200)])[0]
    completion = example["completion"][0]["content"] + "<|im_end|>\n"
    assert whole == read["input_ids"].shape[1] + len(processor.tokenizer(completion)["input_ids"])


def test_a_row_of_the_world_that_is_too_long_is_an_error():
    reader = Reader(load_policy(SHIPPED)[1], "max_tokens", 20)
    with pytest.raises(SailRLError, match=r"lesson 0 of the micro-world has \d+ tokens; set max_tokens"):
        sft_dataset(4, Noise(), reader=reader)[0]
    with pytest.raises(SailRLError, match=r"problem .* has \d+ tokens"):
        rl_dataset(4, reader=reader)[0]
    assert sft_dataset(4, Noise(), reader=replace(reader, longest=200))[0]


def test_a_picture_that_cannot_be_shown_is_named_by_its_row(qwen, tmp_path):
    processor = load_policy(qwen)[1]
    file = tmp_path / "rows.parquet"
    write_rows(file, [row("thin", size=(800, 2))])
    for longest in (0, 1000):
        with pytest.raises(SailRLError, match=r"row thin of .* 800 x 2 pixels is too thin"):
            curated_dataset(file, 4, 0, False, reader=Reader(processor, "max_tokens", longest))[0]


def test_data_that_are_missing_name_curate(tmp_path):
    for command in ("sft", "rl"):
        with pytest.raises(SailRLError, match=r"there is no file curated/.*`sailrl-lite curate`"):
            config = (SFTConfig if command == "sft" else RLConfig)(data=f"curated/{command}.parquet")
            (train_sft if command == "sft" else train_rl)(config, tmp_path / command)


# ---- an update in parts


class Grads(TrainerCallback):
    def __init__(self):
        self.of_updates = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        grads = [w.grad.flatten().clone() for w in model.parameters() if w.grad is not None]
        self.of_updates.append(torch.cat(grads))


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_the_gradient_of_an_update_in_parts_is_that_of_the_whole(tmp_path, kl):
    def by_token(completion_ids, **_):
        return [sum(ids) % 5 / 5 for ids in completion_ids]

    found = []
    for device_batch in (0, 2):
        config = RLConfig(
            steps=1, prompts=4, rollouts=4, updates=2, device_batch=device_batch, max_new_tokens=8,
            learning_rate=1e-9, kl=kl, epochs=1,
        )  # fmt: skip
        policy, processor = load_checkpoint(SHIPPED)
        grads = Grads()
        trainer = DapoTrainer(
            model=policy, reward_funcs=by_token, args=grpo_config(config, tmp_path / str(device_batch)),
            train_dataset=rl_dataset(4), processing_class=processor, callbacks=[grads],
            dapo=Dapo(refills=0, overlong="keep", kl=kl), reference=reference_of(policy),
        )  # fmt: skip
        trainer.train()
        assert trainer.state.global_step == 2
        found.append(grads.of_updates)
    assert len(found[0]) == len(found[1]) == 2
    for whole, parts in zip(*found, strict=True):
        assert whole.norm() > 1e-3 and torch.allclose(whole, parts, rtol=1e-3, atol=1e-5)


def test_the_loss_and_gradient_of_sft_in_parts_are_those_of_the_whole(tmp_path):
    """Over tokens, not over parts: a short lesson weighs less than a long one."""
    found = []
    for device_batch in (0, 1):
        config = SFTConfig(steps=1, captions=0, batch=6, device_batch=device_batch, checkpoint="shipped")
        train_sft(config, tmp_path / str(device_batch), bar=False)
        found.append(pd.read_csv(tmp_path / str(device_batch) / "metrics.csv").iloc[0])
    for name in ("loss", "grad_norm", "num_tokens"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-3)


# ---- rungs


def test_verl_is_refused_in_one_line(capsys):
    assert main(["rl", "--rung", "paper", "--out", "/nowhere"]) == 2
    told = capsys.readouterr().err
    assert "sailrl-lite export verl" in told and "engine.trainer=trl" in told and told.count("\n") == 1


SMALL = [
    "--set", "engine.sampler=transformers", "--set", "engine.processes=1", "--set", "engine.sharding=none",
    "--set", "engine.trainer=trl", "--set", "data=", "--quiet",
]  # fmt: skip
# Sharded, they would be kept exactly beside bfloat16.
ALL_WEIGHTS = ["--set", "policy.dtype=float32"]
SMALL_SFT = ["--steps", "2", "--set", "batch=4", "--set", "device_batch=2"]
SMALL_RL = [
    "--steps", "2", "--judge", "exact", "--set", "prompts=2", "--set", "rollouts=2", "--set", "updates=2",
    "--set", "device_batch=1", "--set", "max_new_tokens=6", "--set", "overlong=keep",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["single-gpu", "node", "paper"])
def test_each_rung_runs_dry_on_a_tiny_policy(rung, hub, tmp_path, capsys):
    sft, rl = tmp_path / "sft", tmp_path / "rl"
    common = ["--rung", rung, *SMALL, *(() if rung == "single-gpu" else ALL_WEIGHTS)]
    assert main(["sft", *common, *SMALL_SFT, "--checkpoint", str(hub), "--out", str(sft)]) == 0
    lora = rung == "single-gpu"
    assert (sft / "policy" / "adapter_config.json").exists() == lora
    assert main(["rl", *common, *SMALL_RL, "--checkpoint", str(sft / "policy"), "--out", str(rl)]) == 0
    assert (rl / "policy" / "adapter_config.json").exists() == lora
    asked = ["evaluate", "--rung", rung, "--quiet", "--problems", "1", "--families", "add,angle"]
    asked += ["--set", "max_new_tokens=6"]
    assert main([*asked, "--checkpoint", str(rl / "policy")]) == 0
    assert "accuracy" in capsys.readouterr().out
    config = json.loads((rl / "config.json").read_text())
    assert config["policy"]["max_pixels"] == {"single-gpu": 602112, "node": 1003520, "paper": 0}[rung]
    assert config["engine"]["gradient_checkpointing"] is True


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sft", "rl"])
def test_adapters_go_on_exactly_after_a_kill(command, qwen, tmp_path):
    adapters = ["--set", "policy.weights=lora", "--set", "policy.lora_rank=4", "--set", "save_every=1"]
    if command == "sft":
        start = qwen
        steps = ["--steps", "6", "--set", "batch=4", "--set", "device_batch=2"]
    else:
        policy, processor = load_policy(qwen, LORA, train=True)
        trained(policy)
        start = save_checkpoint(policy, processor, tmp_path / "start")
        steps = [*SMALL_RL, "--steps", "6", "--set", "kl=0.1"]
    common = [command, *steps, *adapters, "--checkpoint", str(start), "--quiet"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*common, "--out", str(whole)]) == 0
    run = subprocess.Popen([sys.executable, "-m", "sailrl_lite", *common, "--out", str(killed)])
    while last_checkpoint(killed / "trainer") is None and run.poll() is None:
        time.sleep(0.01)
    run.kill()
    assert run.wait() == -9  # it was in the middle of its work
    assert main([*common, "--out", str(killed), "--resume"]) == 0
    names = ["policy/adapter_model.safetensors", "policy/adapter_config.json"]
    # A row of SFT is the mean over twenty steps, of which a checkpoint between two rows keeps none.
    for name in names + ["metrics.csv"] * (command == "rl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
