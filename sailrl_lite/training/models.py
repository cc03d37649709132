"""The policy of the preview rung: a small but real Qwen2.5-VL with its own tokenizer, without a download.

The class, the processor calls and the save format are those of the 3B model; only the configuration is small.
A Qwen3-VL of about the same size goes through the same code. `policies` loads the large ones.
"""

import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

import torch
from PIL import Image
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.processing_utils import ProcessorMixin
from transformers.utils import logging

from sailrl_lite.config import Architecture
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import saving
from sailrl_lite.response import DIRECT, THINK
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.scenes import HEIGHT, WIDTH, fit
from sailrl_lite.world.teacher import ERRORS, describe, err, solve
from sailrl_lite.world.traces import write_trace

logging.disable_progress_bar()  # of the library: it would draw one for reading 80 small tensors

Policy: TypeAlias = Qwen2_5_VLForConditionalGeneration | Qwen3VLForConditionalGeneration
# By the name that a checkpoint's config.json gives as its model_type.
CLASSES: dict[Architecture, type[Policy]] = {
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
}
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>", "<unk>",
)  # fmt: skip
# Not special in the sense of the library: TRL drops special tokens before it calls a reward function.
TAGS = ("<judge>", "</judge>", "<think>", "</think>", "<answer>", "</answer>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>{% if m['role'] == 'user' %}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CAPTION = "What does the picture show?"
_REMEDY = "make it with `sailrl-lite sft` or `sailrl-lite rl`, or name another with --checkpoint"
_PIECE = Regex(r" ?[A-Za-z]+|\\[a-z]+\{|[0-9]|\s|.")


class MicroProcessor(Qwen2_5_VLProcessor):
    """Qwen2_5_VLProcessor without the video processor, which needs torchvision.

    Load it by this class: `AutoProcessor` would silently return the bare tokenizer.
    """

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):  # type: ignore[no-untyped-def]
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    def shown(self, picture: Image.Image) -> Image.Image:
        """A picture of any size and mode as this policy is shown it: of the size of the micro-world's."""
        return fit(picture)

    def picture_tokens(self, width: int, height: int) -> int:
        """How many tokens a picture of so many pixels becomes, once `shown`."""
        return self._tokens_of(WIDTH, HEIGHT)

    def _tokens_of(self, width: int, height: int) -> int:
        patches: int = self.image_processor.get_number_of_image_patches(height, width, {})
        return patches // self.image_processor.merge_size**2

    def special_tokens(self) -> tuple[str, ...]:
        """The tokens that mark turns and pictures, which no question can hold."""
        added = self.tokenizer.added_tokens_decoder.values()
        marks = {str(token) for token in added if token.special} | {self.image_token, self.video_token}
        return tuple(sorted(marks))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer of the micro-world's language: one token a digit, one for a canonical judgment.

    A word keeps the blank before it, so decoding gives the very text back. Blanks around tags are dropped.
    """
    splitter = pre_tokenizers.Split(_PIECE, "isolated")
    pieces = {piece for text in _language() for piece, _ in splitter.pre_tokenize_str(text)}
    vocabulary = {token: k for k, token in enumerate([*SPECIAL, *sorted(pieces)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<unk>",
        additional_special_tokens=[t for t in SPECIAL[1:-1] if t != "<|im_end|>"],
        padding_side="left", clean_up_tokenization_spaces=False, model_max_length=4096,
    )  # fmt: skip
    tags = [AddedToken(t, lstrip=True, rstrip=True, normalized=False) for t in TAGS]
    fast.add_tokens([*tags, AddedToken(THINK, normalized=False), AddedToken(DIRECT, normalized=False)])
    return fast


def _language() -> set[str]:
    """What is written in the micro-world: questions, traces and answers of many problems."""
    texts = {CAPTION, "user\nassistant\n", "\\boxed{0123456789}+-*=", "yes no."}
    for family in FAMILIES:
        for seed in range(400):
            problem = make_problem(family, seed)
            texts |= {
                problem.question,
                problem.gold,
                f" {problem.gold}",
                write_trace(solve(problem)),
                describe(problem),
            }
            texts |= {name for fact in problem.facts for name in (fact, f" {fact}")}
            for error in ERRORS:
                lesson = err(problem, error, random.Random(seed))
                texts |= {lesson.trace} if lesson else set()
    return texts


def build_processor() -> MicroProcessor:
    """Tokenizer and image processor of the micro policy; a world picture becomes eight tokens."""
    size = {"shortest_edge": 28 * 28, "longest_edge": WIDTH * HEIGHT}
    images = Qwen2VLImageProcessorPil(patch_size=14, merge_size=2, temporal_patch_size=2, size=size)
    return MicroProcessor(image_processor=images, tokenizer=build_tokenizer(), chat_template=CHAT_TEMPLATE)


def build_policy(
    processor: MicroProcessor,
    seed: int,
    width: int = 128,
    layers: int = 4,
    architecture: Architecture = "qwen2_5_vl",
) -> Policy:
    """An untrained policy of 1.5 to 2 million parameters (width 128, 4 layers, 2 vision layers).

    Raises:
        SailRLError: an unknown architecture.
    """
    if architecture not in CLASSES:
        raise SailRLError(f"architecture cannot be {architecture!r}; use one of {', '.join(CLASSES)}")
    torch.manual_seed(seed)
    policy = CLASSES[architecture](configuration(processor.tokenizer, width, layers, architecture))
    # The library starts every weight at a deviation of 0.02, made for widths of thousands. At this width it
    # leaves the pictures unseen: after 300 updates 7% of caption lines were right, against 97% with this.
    for weight in policy.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=weight[0].numel() ** -0.5)
    torch.nn.init.normal_(policy.get_input_embeddings().weight, std=0.05)
    return with_tokens_of(processor, policy)


def configuration(
    tokenizer: PreTrainedTokenizerFast, width: int, layers: int, architecture: Architecture
) -> Qwen2_5_VLConfig | Qwen3VLConfig:
    """The configuration of a small policy; what differs between the architectures is at the end."""
    token = tokenizer.convert_tokens_to_ids
    text: dict[str, Any] = dict(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=3 * width,
        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    vision: dict[str, Any] = dict(
        depth=2, hidden_size=width, intermediate_size=2 * width, num_heads=4, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=width,
    )  # fmt: skip
    shared: dict[str, Any] = dict(
        image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"), vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )  # fmt: skip
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}
    if architecture == "qwen2_5_vl":
        # Each a block of the frequencies of a head: time, height, width of a position.
        rope["mrope_section"] = [width // 32, 3 * width // 64, 3 * width // 64]
        vision |= dict(window_size=112, fullatt_block_indexes=[1])
        return Qwen2_5_VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **shared)
    # Frequencies are dealt to time, height and width in turn; the first vision layer also feeds the first of
    # the text (DeepStack); patches have learned places, a grid of 8 x 8, resampled to the picture's 4 x 8.
    third = width // 8 // 3
    rope |= {"mrope_section": [width // 8 - 2 * third, third, third], "mrope_interleaved": True}
    text["head_dim"] = width // 4
    vision |= dict(num_position_embeddings=64, deepstack_visual_indexes=[0])
    return Qwen3VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **shared)


def with_tokens_of(processor: MicroProcessor, policy: Policy) -> Policy:
    """Tell the policy which tokens end and pad a response; its configuration forgets them on loading."""
    for config in (policy.config, policy.generation_config):
        config.eos_token_id = processor.tokenizer.eos_token_id
        config.pad_token_id = processor.tokenizer.pad_token_id
    return policy


def load_checkpoint(folder: str | Path) -> tuple[Policy, MicroProcessor]:
    """Micro policy and processor from a folder that `save_pretrained` wrote; every weight must be there and
    fit. Others are loaded by `policies.load_policy`.

    Raises:
        SailRLError: the folder is missing, of no known architecture, truncated or incomplete.
    """
    folder = Path(folder)
    policy = read_policy(folder)
    try:
        processor = check_template(MicroProcessor.from_pretrained(folder))
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise unreadable(folder, error) from error
    return with_tokens_of(processor, policy), processor


def check_template(processor: MicroProcessor) -> MicroProcessor:
    """The processor itself, which raises ValueError if it has no chat template to write prompts by."""
    if not processor.chat_template:
        raise ValueError("it has no chat template")
    return processor


def read_policy(folder: Path, own: type[Policy] | None = None, **options: Any) -> Policy:
    """The weights in a folder, strictly; `options` are those of `from_pretrained`.

    Args:
        own: the class of a checkpoint that brings one.

    Raises:
        SailRLError: as `load_checkpoint`.
    """
    kind: Any = read_config(folder).get("model_type")
    if own is None and kind not in list(CLASSES):  # a list may ask of what cannot be hashed
        known = " or ".join(map(repr, CLASSES))
        raise SailRLError(f"{folder} holds a {kind!r} checkpoint, but a policy is {known}; {_REMEDY}")
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # else the library prints a table of what is told below in a line
    try:
        policy, loading = (own or CLASSES[kind]).from_pretrained(
            folder, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise unreadable(folder, error) from error
    finally:
        logging.set_verbosity(said)
    wrong = [
        f"{what.replace('_', ' ')}: {sorted(key if isinstance(key, str) else str(key[0]) for key in keys)[0]}"
        for what, keys in loading.items()
        if keys
    ]
    if wrong:
        raise SailRLError(
            f"the checkpoint in {folder} does not fit the policy ({'; '.join(wrong)}); {_REMEDY}"
        )
    return policy


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a checkpoint; raises SailRLError where there is none that can be read."""
    if (folder / "policy" / "config.json").is_file() or (folder / "policy" / "adapter_config.json").is_file():
        raise SailRLError(f"{folder} is the folder of a run; its policy is {folder / 'policy'}")
    if not (folder / "config.json").is_file():
        raise SailRLError(f"no checkpoint in {folder} (config.json is missing); {_REMEDY}")
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except ValueError as error:
        raise SailRLError(f"{folder / 'config.json'} is not JSON; {_REMEDY}") from error
    if not isinstance(config, dict):
        raise SailRLError(f"{folder / 'config.json'} is no JSON object; {_REMEDY}")
    return config


def unreadable(folder: Path, error: Exception) -> SailRLError:
    """What to say of a checkpoint on which a library failed."""
    first = str(error).split("\n")[0]
    return SailRLError(f"the checkpoint in {folder} cannot be read ({first}); {_REMEDY}")


def bare(policy: Policy) -> Policy:
    """The model itself where `peft` has wrapped it; the adapters in its layers stay at work."""
    return policy.get_base_model() if hasattr(policy, "get_base_model") else policy


def save_checkpoint(
    policy: Policy,
    processor: MicroProcessor,
    folder: str | Path,
    weights: dict[str, torch.Tensor] | None = None,
) -> Path:
    """Write policy and processor for `load_checkpoint`; a half-written folder never takes the name. `weights`
    are those of a policy whose own are sharded."""
    folder = Path(folder)
    with saving(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            adapters = {"selected_adapters": ["default"]} if bare(policy) is not policy else {}
            policy.save_pretrained(temporary, state_dict=weights, **adapters)
            processor.save_pretrained(temporary)
            os.chmod(temporary, 0o755)
            if folder.exists():
                shutil.rmtree(folder)
            os.rename(temporary, folder)
            os.mkdir(temporary)  # for the context manager to remove
    return folder


def prompt_of(question: str) -> list[dict[str, str]]:
    """The conversation that asks a question; TRL puts the picture in front of the text."""
    return [{"role": "user", "content": question}]


def knows(processor: MicroProcessor, word: str) -> bool:
    """Is every piece of a word of a question, after a blank or at the beginning, in the vocabulary?"""
    unknown = processor.tokenizer.unk_token_id
    return any(unknown not in processor.tokenizer(text)["input_ids"] for text in (word, f" {word}"))


def encode_prompts(
    processor: MicroProcessor, questions: list[str], images: list[Image.Image], prefill: str = ""
) -> dict[str, torch.Tensor]:
    """Model inputs, left padded, of questions with a picture each; `prefill` starts the response."""
    specials = processor.special_tokens()
    for question in questions:
        if special := next((token for token in specials if token in question), None):
            raise SailRLError(f"a question cannot hold the token {special}; leave it out")
    messages = [
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
        for question in questions
    ]
    texts = [processor.apply_chat_template(m, add_generation_prompt=True) + prefill for m in messages]
    return processor(images=images, text=texts, padding=True, padding_side="left", return_tensors="pt")
