"""Checkpoints that bring Python code of their own, as SAIL-VL2-2B and -8B do. UNTESTED with SAIL-VL2 itself.

Their weights and code could not be had here. What is public of them (the model card, and how others load
them) says: the class `SAILVLModel` by `auto_map`, made for transformers up to 4.51, attention "eager" alone;
pictures in tiles of 448 x 448, and `<IMG_CONTEXT>` tokens in whose place `extract_feature(pixel_values)` is
put before `language_model` reads the text. Rollouts and losses here need the interface of Qwen-VL instead: a
`model` that reads text and pictures, an `lm_head`, and the ids of its tokens for pictures. Code that has it
goes through like any policy; code that lacks it is refused in SFT and RL alike. For RL verl, which the
paper used, is the way (`sailrl-lite export verl`), where it knows the model.
"""

from pathlib import Path
from typing import Any

from transformers.dynamic_module_utils import get_class_from_dynamic_module

from sailrl_lite.errors import SailRLError

_KINDS = ("AutoModelForImageTextToText", "AutoModelForCausalLM", "AutoModel")


def code_of(folder: Path, auto_map: dict[str, str], allowed: bool) -> Any:
    """The class of the model, from the code in a folder; nothing of it runs unless it is `allowed`.

    Raises:
        SailRLError: it is not allowed, names no model, or cannot be imported.
    """
    if not allowed:
        raise SailRLError(
            f"{folder} comes with Python code of its own, as SAIL-VL2 does; read it, then allow it with "
            "--set policy.remote_code=true"
        )
    name = next((auto_map[kind] for kind in _KINDS if kind in auto_map), None)
    if name is None:
        raise SailRLError(f"the code that comes with {folder} names no model (auto_map: {sorted(auto_map)})")
    try:
        return get_class_from_dynamic_module(name, folder)
    except Exception as error:  # whatever foreign code raises
        first = str(error).strip().split("\n")[0]
        raise SailRLError(
            f"the code that comes with {folder} cannot be imported ({first}); it may be made for another "
            "version of transformers"
        ) from error


def check_interface(folder: Path, policy: Any) -> None:
    """Raise SailRLError unless responses can be sampled from the policy and scored."""
    lacks = [name for name in ("model", "lm_head") if not hasattr(policy, name)]
    lacks += [f"config.{n}" for n in ("image_token_id", "video_token_id") if not hasattr(policy.config, n)]
    if lacks:
        raise SailRLError(
            f"the code that comes with {folder} has no {', '.join(lacks)}, which training here needs; "
            "fine-tune it by a trainer that knows it, and go on by verl, with `sailrl-lite export verl`"
        )
