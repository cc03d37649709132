"""The policy of any rung: the micro one, Qwen2.5-VL and Qwen3-VL as the hub has them, and what a run left.

A checkpoint is a folder or a name of the hub. The code is the same for all of them; a rung changes the values
of `PolicyConfig`: all weights are trained, or adapters (LoRA) beside frozen ones, which may be in four bits.
"""

import copy
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from peft import (
    LoraConfig,
    PeftConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer, BitsAndBytesConfig
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from sailrl_lite.config import is_hub_name
from sailrl_lite.engines import EngineConfig, PolicyConfig, check_four_bits, check_rounding
from sailrl_lite.errors import SailRLError
from sailrl_lite.pictures import upright
from sailrl_lite.training import custom
from sailrl_lite.training.models import (
    MicroProcessor,
    Policy,
    bare,
    check_template,
    read_config,
    read_policy,
    unreadable,
    with_tokens_of,
)

REFERENCE = "ref"  # the adapters as they were before RL; TRL's name for them
_ADAPTERS, _ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# The linear layers of the language model, and no others: the vision tower has layers of the same names, vLLM
# serves no adapters in it, and what a policy is to learn here is when and how to think, not to see.
_ADAPTED = r".*\blanguage_model\..*\.[qkvo]_proj|.*\blanguage_model\..*\.(gate|up|down)_proj"
_THINNEST = 200  # longest to shortest side, at which the image processor refuses a picture
_PROCESSOR_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
    "special_tokens_map.json", "chat_template.json", "chat_template.jinja", "processor_config.json",
    "preprocessor_config.json", "video_preprocessor_config.json",
)  # fmt: skip
_NOT_WEIGHTS = ["*.pth", "*.bin", "*.gguf", "*.onnx", "original/*"]  # other forms of what safetensors hold


class HubProcessor(MicroProcessor):
    """The processor of a Qwen2.5-VL or Qwen3-VL as the hub has it, without its part for videos.

    It is saved by copying the files it came from, so that they serve vLLM and others as before.
    """

    folder: Path

    def shown(self, picture: Image.Image) -> Image.Image:
        """A picture of any mode as this policy is shown it: upright, opaque, as large as it is.

        Raises:
            SailRLError: it is too thin, or cannot be read.
        """
        self._check(*picture.size)
        return upright(picture)

    def picture_tokens(self, width: int, height: int) -> int:
        self._check(width, height)
        return self._tokens_of(width, height)

    @staticmethod
    def _check(width: int, height: int) -> None:
        if max(width, height) >= _THINNEST * max(1, min(width, height)):
            raise SailRLError(
                f"a picture of {width} x {height} pixels is too thin: the sides must differ by less than a "
                f"factor of {_THINNEST}; cut it, or leave the row out"
            )

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> None:
        for name in _PROCESSOR_FILES:
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, Path(save_directory) / name)


def check_policy(settings: PolicyConfig, engine: EngineConfig) -> None:
    """Raise SailRLError where these weights cannot be trained on this engine."""
    check_four_bits(settings, engine)
    check_rounding(settings, engine)
    _check_packages(settings)


def load_policy(
    checkpoint: str | Path, settings: PolicyConfig | None = None, train: bool = False, seed: int = 0
) -> tuple[Policy, MicroProcessor]:
    """Policy and processor of a checkpoint: a folder, with weights or with adapters, or a name of the hub.

    Saved adapters are put beside the weights they belong to, which are found by their name; with
    `weights="full"` they are added into them.

    Args:
        settings: None is all weights, as they were saved.
        train: False puts the policy on the GPU, if there is one; True leaves that to the trainer, and gives a
            policy that is to be trained by adapters and has none new ones, which change nothing yet.
        seed: of new adapters.

    Raises:
        SailRLError: there is no such checkpoint, it is damaged or of another kind, it comes with code of its
            own that is not allowed, or a package that the settings need is missing.
    """
    settings = settings or PolicyConfig()
    _check_packages(settings)
    folder = find_checkpoint(checkpoint, settings.revision)
    saved = _saved_adapters(folder)
    name, revision = str(checkpoint if folder != Path(checkpoint) else folder.resolve()), settings.revision
    if saved:
        name, revision = saved.base_model_name_or_path, saved.revision or ""
        folder = find_checkpoint(name, revision)
    policy, processor = _read(folder, settings, train)
    if saved or (train and settings.weights != "full"):
        if saved and train and settings.weights != "full" and saved.r != settings.lora_rank:
            raise SailRLError(
                f"the adapters in {checkpoint} are of rank {saved.r}; set policy.lora_rank={saved.r}"
            )
        torch.manual_seed(seed)
        policy = get_peft_model(policy, saved or _new_adapters(settings))
        own = policy.peft_config["default"]
        own.base_model_name_or_path, own.revision = name, revision or None
        if saved:
            restore_adapters(policy, find_checkpoint(checkpoint, settings.revision))
        if settings.weights == "full":
            policy = policy.merge_and_unload()
    if not train and settings.weights != "4bit" and torch.cuda.is_available():
        policy.to("cuda")
    return policy, processor


def find_checkpoint(checkpoint: str | Path, revision: str = "") -> Path:
    """The folder of a checkpoint; a name of the hub is downloaded once, into the hub's own cache.

    Raises:
        SailRLError: the hub does not give it.
    """
    name, folder = str(checkpoint), Path(checkpoint)
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long, a null byte, or not to be entered
        raise SailRLError(f"no checkpoint can be in {name[:60]!r} ({error}); name another") from error
    if not is_hub_name(name):
        return folder
    try:
        return Path(snapshot_download(name, revision=revision or None, ignore_patterns=_NOT_WEIGHTS))
    except RevisionNotFoundError:
        why = f"it has no revision {revision!r}"
    except RepositoryNotFoundError:
        why = "it knows none of that name, or not for you"
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        why = "it cannot be reached, and nothing was downloaded before"
    except (HfHubHTTPError, OSError, ValueError) as error:
        why = str(error).strip().split("\n")[0]
    raise SailRLError(
        f"there is no folder {name}, and the hub gives no such checkpoint ({why}); "
        "name a folder with --checkpoint, or check name and network"
    )


def reference_of(policy: Policy) -> Policy:
    """What KL is measured from: the policy as it is now.

    Of a policy with adapters it is that policy itself, with these switched off; where they have been trained
    before, with a frozen copy of them in their place (`REFERENCE`). All weights are copied.
    """
    if bare(policy) is policy:
        return copy.deepcopy(policy)
    adapters = {name: weight for name, weight in policy.named_parameters() if ".default." in name}
    if any(bool(weight.any()) for name, weight in adapters.items() if "lora_B" in name):
        policy.add_adapter(REFERENCE, policy.peft_config["default"])
        for name, weight in adapters.items():
            frozen = policy.get_parameter(name.replace(".default.", f".{REFERENCE}."))
            frozen.data.copy_(weight.data)
            frozen.requires_grad_(False)
    return policy


def restore_adapters(policy: Policy, folder: Path) -> None:
    """Load the adapters in a folder into those of the policy; each must be there and fit.

    Raises:
        SailRLError: they do not.
    """
    try:
        weights = load_file(folder / _ADAPTER_WEIGHTS)
    except Exception as error:  # whatever a damaged file makes the library raise
        raise unreadable(folder, error) from error
    own = get_peft_model_state_dict(policy, save_embedding_layers=False)
    wrong = sorted(own.keys() ^ weights.keys()) or [n for n in own if own[n].shape != weights[n].shape]
    if wrong:
        raise SailRLError(f"the adapters in {folder} do not fit the policy (first: {wrong[0]})")
    set_peft_model_state_dict(policy, weights)


def note(text: str) -> None:
    """Tell the user something in one line, once, however many processes train."""
    if os.environ.get("RANK", "0") == "0":
        print(f"note: {text}", file=sys.stderr)


def _read(folder: Path, settings: PolicyConfig, train: bool) -> tuple[Policy, MicroProcessor]:
    """The weights and the processor in a folder, without adapters."""
    dtype = getattr(torch, settings.dtype)
    options = {"dtype": dtype, "attn_implementation": settings.attention}
    own = None
    if auto_map := read_config(folder).get("auto_map"):
        own = custom.code_of(folder, auto_map, settings.remote_code)
        note(
            "code that came with the checkpoint runs; SAIL-VL2 is untested here, its weights were not at hand"
        )
        options["trust_remote_code"] = True
    if settings.weights == "4bit":
        options |= _four_bits(dtype)
    policy = read_policy(folder, own, **options)
    custom.check_interface(folder, policy)
    if settings.weights == "4bit" and train:
        for module in policy.modules():
            # Where a processor has AVX512-BF16, bitsandbytes packs weights anew when they are used without
            # gradient, as in rollouts, and then fails in training.
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False
    processor = read_processor(folder, settings.max_pixels)
    if not isinstance(processor, HubProcessor):
        with_tokens_of(processor, policy)
    return policy, processor


def read_processor(folder: Path, max_pixels: int = 0) -> MicroProcessor:
    """The processor in a folder: the micro-world's where the folder says so, else a real one.

    Args:
        max_pixels: larger pictures are made smaller; 0 leaves the processor's own limit.

    Raises:
        SailRLError: it cannot be read, or `max_pixels` is less than the least that it makes of a picture.
    """
    file = folder / "processor_config.json"
    try:
        said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        if said.get("processor_class") == MicroProcessor.__name__:
            processor = MicroProcessor.from_pretrained(folder)
        else:
            processor = _hub_processor(folder)
        check_template(processor)
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise unreadable(folder, error) from error
    if max_pixels:
        size = dict(processor.image_processor.size)
        if max_pixels < size["shortest_edge"]:
            raise SailRLError(
                f"policy.max_pixels must be at least {size['shortest_edge']}, the fewest pixels that the "
                f"processor makes of a picture, not {max_pixels}"
            )
        size["longest_edge"] = min(max_pixels, size["longest_edge"])
        processor.image_processor.size = type(processor.image_processor.size)(**size)
    return processor


def _hub_processor(folder: Path) -> HubProcessor:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = folder / "chat_template.json"  # of the processor; the tokenizer has it, too, in newer folders
    own = json.loads(template.read_text(encoding="utf-8")) if template.is_file() else {}
    processor = HubProcessor(
        image_processor=Qwen2VLImageProcessorPil.from_pretrained(folder),
        tokenizer=tokenizer,
        chat_template=own.get("chat_template") or tokenizer.chat_template,
    )
    processor.folder = folder
    return processor


def _four_bits(dtype: torch.dtype) -> dict[str, Any]:
    """How bitsandbytes is to hold the language model; the vision tower and the head stay as they are."""
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=[r".*\bvisual", "lm_head"],
    )
    device: int | str = int(os.environ.get("LOCAL_RANK", 0)) if torch.cuda.is_available() else "cpu"
    return {"quantization_config": quantized, "device_map": {"": device}}


def _new_adapters(settings: PolicyConfig) -> LoraConfig:
    return LoraConfig(
        r=settings.lora_rank, lora_alpha=settings.lora_alpha, lora_dropout=0.0, target_modules=_ADAPTED
    )


def _saved_adapters(folder: Path) -> LoraConfig | None:
    """The configuration of the adapters in a folder; None where it holds weights."""
    if not (folder / _ADAPTERS).is_file():
        return None
    try:
        saved = PeftConfig.from_pretrained(folder)
    except Exception as error:  # whatever a damaged file makes the library raise
        raise unreadable(folder, error) from error
    if not isinstance(saved, LoraConfig):
        kind = type(saved).__name__.removesuffix("Config")
        raise SailRLError(
            f"the adapters in {folder} are of the kind {kind}, and only LoRA's are known here; "
            "add them into their weights, or name another with --checkpoint"
        )
    if not saved.base_model_name_or_path:
        raise SailRLError(
            f"the adapters in {folder} do not say of which weights they are; set base_model_name_or_path in "
            f"their {_ADAPTERS}"
        )
    saved.inference_mode = False
    saved.lora_dropout = 0.0  # those of others may have some; rollouts and training must be of one policy
    return saved


def _check_packages(settings: PolicyConfig) -> None:
    needed = [("policy.weights=4bit", "bitsandbytes", "policy.weights=lora")] * (settings.weights == "4bit")
    if settings.attention == "flash_attention_2":
        needed.append(("policy.attention=flash_attention_2", "flash_attn", "policy.attention=sdpa"))
    for setting, package, other in needed:
        if importlib.util.find_spec(package) is None:
            raise SailRLError(f"{setting} needs the package {package}; install it, or set {other}")
