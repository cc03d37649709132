"""Tiny checkpoints in the form in which the hub has Qwen2.5-VL and Qwen3-VL: random weights, true files.

A byte-level BPE tokenizer with the marks of Qwen, its chat template, the files of its processor, and its
generation_config. Nothing is downloaded.
"""

import json
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen3VLConfig

from sailrl_lite.training.models import CLASSES
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import write_trace

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make(folder: Path, kind: str = "qwen2_5_vl") -> Path:
    """Write a checkpoint of 0.2 million parameters of this architecture."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer(kind)
    tokenizer.save_pretrained(folder)
    _write(folder / "tokenizer_config.json", json.loads((folder / "tokenizer_config.json").read_text()) | {
        "tokenizer_class": "Qwen2Tokenizer", "chat_template": TEMPLATE,
    })  # fmt: skip
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    torch.manual_seed(0)
    policy = CLASSES[kind](_config(tokenizer, kind))
    ends = [tokenizer.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|endoftext|>")]
    policy.generation_config = GenerationConfig(
        eos_token_id=ends, pad_token_id=ends[1], do_sample=True, top_k=1
    )
    policy.save_pretrained(folder)
    if kind == "qwen2_5_vl":
        images = {
            "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2,
            "merge_size": 2, "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        }  # fmt: skip
        _write(folder / "chat_template.json", {"chat_template": TEMPLATE})
    else:
        images = {
            "size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16,
            "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
            "image_processor_type": "Qwen2VLImageProcessorFast", "processor_class": "Qwen3VLProcessor",
        }  # fmt: skip
    _write(folder / "preprocessor_config.json", images)
    _write(
        folder / "video_preprocessor_config.json", images | {"video_processor_type": "Qwen3VLVideoProcessor"}
    )
    return folder


def _tokenizer(kind: str) -> PreTrainedTokenizerFast:
    lines = ["user\nassistant\nsystem\nYou are a helpful assistant."]
    for family in FAMILIES:
        for seed in range(5):
            problem = make_problem(family, seed)
            lines += [problem.question, write_trace(solve(problem)), problem.gold]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL), model_max_length=131072,
    )  # fmt: skip
    plain = ["<tool_call>", "</tool_call>"] + (["<think>", "</think>"] if kind == "qwen3_vl" else [])
    fast.add_tokens([AddedToken(token, normalized=False) for token in plain])
    return fast


def _config(tokenizer: PreTrainedTokenizerFast, kind: str) -> Qwen2_5_VLConfig | Qwen3VLConfig:
    token = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    text = dict(
        vocab_size=len(tokenizer) + 20,  # the hub's are padded, too
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096,
    )  # fmt: skip
    vision = dict(
        depth=2, hidden_size=64, intermediate_size=128, num_heads=4, spatial_merge_size=2,
        temporal_patch_size=2, out_hidden_size=64,
    )  # fmt: skip
    tokens = dict(
        image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"), vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )  # fmt: skip
    if kind == "qwen2_5_vl":
        text["rope_parameters"] = rope | {"mrope_section": [2, 3, 3]}
        vision |= dict(patch_size=14, window_size=112, fullatt_block_indexes=[1])
        return Qwen2_5_VLConfig(text_config=text, vision_config=vision, **tokens)
    text |= {
        "rope_parameters": rope | {"mrope_section": [4, 2, 2], "mrope_interleaved": True},
        "head_dim": 16,
    }
    vision |= dict(patch_size=16, num_position_embeddings=64, deepstack_visual_indexes=[0])
    return Qwen3VLConfig(text_config=text, vision_config=vision, **tokens)


def _write(file: Path, values: dict[str, object]) -> None:
    file.write_text(json.dumps(values))
