"""What the GPU measurement trains: a policy of the true shape of Qwen2.5-VL-3B with random weights, and rows.

Nothing is downloaded. The tokenizer is the micro policy's; the vocabulary of the model is the true one, and
the tokens that the tokenizer does not know decode to nothing.
"""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from sailrl_lite.curation.readers import problem_of, read_micro
from sailrl_lite.curation.schema import Row, write_rows
from sailrl_lite.response import THINK
from sailrl_lite.training.models import CHAT_TEMPLATE, build_tokenizer
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import write_trace

# The values of config.json of Qwen/Qwen2.5-VL-3B-Instruct on the Hugging Face hub (model card of January
# 2025); its 3,754,622,976 parameters, as the hub counts them, are tested.
TRUE_TEXT: dict[str, Any] = dict(
    vocab_size=151936, hidden_size=2048, intermediate_size=11008, num_hidden_layers=36,
    num_attention_heads=16, num_key_value_heads=2, max_position_embeddings=128000, rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
)  # fmt: skip
TRUE_VISION: dict[str, Any] = dict(
    depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, patch_size=14, spatial_merge_size=2,
    temporal_patch_size=2, out_hidden_size=2048, window_size=112, fullatt_block_indexes=[7, 15, 23, 31],
)  # fmt: skip
# The same with every size made small, for the dry run.
_SMALL_TEXT = TRUE_TEXT | dict(
    vocab_size=1024, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]},
)  # fmt: skip
_SMALL_VISION = TRUE_VISION | dict(
    depth=2, hidden_size=128, intermediate_size=256, num_heads=4, out_hidden_size=128,
    fullatt_block_indexes=[1],
)  # fmt: skip


def configuration(tokenizer: PreTrainedTokenizerFast, small: bool) -> Qwen2_5_VLConfig:
    """The 3B configuration, or its small copy, with the ids of this tokenizer's special tokens."""
    token = tokenizer.convert_tokens_to_ids
    text = (_SMALL_TEXT if small else TRUE_TEXT) | dict(
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return Qwen2_5_VLConfig(
        text_config=text, vision_config=_SMALL_VISION if small else TRUE_VISION, tie_word_embeddings=True,
        image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"), vision_end_token_id=token("<|vision_end|>"),
    )  # fmt: skip


def write_policy(folder: Path, small: bool, pixels: int) -> int:
    """Write a checkpoint folder as the hub has it, with random weights in bfloat16; return their number.

    Args:
        pixels: of the largest picture that its processor passes on.
    """
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    size = {"shortest_edge": 28 * 28, "longest_edge": pixels}
    images = Qwen2VLImageProcessorPil(patch_size=14, merge_size=2, temporal_patch_size=2, size=size)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        policy = Qwen2_5_VLForConditionalGeneration._from_config(
            configuration(tokenizer, small), dtype=torch.bfloat16
        )
    policy.generation_config.eos_token_id = tokenizer.eos_token_id
    policy.generation_config.pad_token_id = tokenizer.pad_token_id
    for part in (policy, tokenizer, images):
        part.save_pretrained(folder)
    return sum(weight.numel() for weight in policy.parameters())


def write_lessons(file: Path, rows: int, picture: tuple[int, int], tokens: int) -> None:
    """Write curated rows: problems of the micro-world with a picture of this size and a trace of some length.

    Args:
        picture: width and height in pixels.
        tokens: of a trace at least; it is repeated until it has them.
    """
    tokenizer = build_tokenizer()

    def lessons() -> Iterator[Row]:
        for row in read_micro(rows):
            problem = problem_of(row)
            assert problem is not None
            buffer = io.BytesIO()
            problem.image.resize(picture, Image.Resampling.BILINEAR).save(buffer, "PNG")
            trace = write_trace(solve(problem)) + "\n"
            times = -(-tokens // len(tokenizer(trace)["input_ids"]))
            yield replace(row, image=buffer.getvalue(), judge=THINK, think=trace * times, answer=row.gold)

    write_rows(file, lessons())
