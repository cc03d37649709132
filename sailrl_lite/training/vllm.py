"""Rollouts by vLLM, through TRL: its settings, what must hold before a run, and what vLLM is handed.

vLLM reads the checkpoint by itself; before each batch TRL pushes the policy's weights to it, adapters merged.
"""

import importlib.util
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from PIL import Image

from sailrl_lite.config import RLConfig
from sailrl_lite.engines import EngineConfig, PolicyConfig, check_sampler
from sailrl_lite.errors import SailRLError

_INSTALL = "install it with `pip install 'sailrl-lite[gpu]'`, or set engine.sampler=transformers"


def check_vllm(policy: PolicyConfig, engine: EngineConfig) -> None:
    """Raise SailRLError where rollouts by vLLM are asked for and cannot be had.

    A server is asked once and not waited for: a run of many hours begins with all its parts up.
    """
    if engine.sampler != "vllm":
        return
    check_sampler(policy, engine)
    if importlib.util.find_spec("vllm") is None:
        raise SailRLError(f"engine.sampler=vllm needs vLLM; {_INSTALL}")
    if engine.vllm == "server":
        _ask(engine.vllm_server)


def _ask(server: str) -> None:
    try:
        with urllib.request.urlopen(f"{server.rstrip('/')}/health", timeout=10):
            return
    except (OSError, ValueError) as error:  # no connection, an answer that is an error, no address
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise SailRLError(
            f"no vLLM server answers at engine.vllm_server={server} ({reason}); start it with "
            "`trl vllm-serve --model` and the checkpoint of the run, or set engine.vllm=colocate"
        ) from None


def vllm_settings(config: RLConfig) -> dict[str, Any]:
    """The part of TRL's GRPOConfig that is about vLLM; nothing where another engine samples."""
    engine = config.engine
    if engine.sampler != "vllm":
        return {}
    shared: dict[str, Any] = {
        "use_vllm": True,
        "vllm_mode": engine.vllm,
        # vLLM's kernels and number format give a token another probability than the policy that is trained,
        # so each token of the loss is weighted by policy over vLLM, cut at 3. TRL's own default drops a whole
        # response instead once the product over its tokens passes 3, which long responses do by rounding.
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 3.0,
        "trust_remote_code": config.policy.remote_code,
    }
    if engine.vllm == "server":
        return shared | {"vllm_server_base_url": engine.vllm_server}
    longest = config.max_prompt_tokens + config.max_new_tokens if config.max_prompt_tokens else None
    return shared | {
        "vllm_gpu_memory_utilization": engine.vllm_memory,
        "vllm_tensor_parallel_size": engine.vllm_gpus,
        "vllm_max_model_length": longest,  # None: what the checkpoint says
        # Between batches vLLM gives its memory back to the updates. It sleeps on a GPU only.
        "vllm_enable_sleep_mode": torch.cuda.is_available(),
    }


def response_limits(tokenizer: Any, pictures: Iterable[int], ends: Iterable[int]) -> dict[str, Any]:
    """vLLM's sampling parameters that `rollout.sample` has by itself: what ends a response, and that no
    picture token (of the ids `pictures`) comes up in it."""
    return {
        "bad_words": [tokenizer.convert_ids_to_tokens(token) for token in pictures],
        "stop_token_ids": list(ends),
    }


def one_token_a_picture(ids: Sequence[int], picture: int) -> list[int]:
    """A prompt as a colocated vLLM wants it: it puts in as many picture tokens as a picture has by itself.

    TRL 1.16 hands it prompts in which they already are; the first is then replaced by all once more, without
    an error, and the policy answers a prompt that it never sees in training (TRL's issue 6294).

    >>> one_token_a_picture([1, 5, 5, 5, 2], picture=5)
    [1, 5, 2]
    """
    return [token for k, token in enumerate(ids) if token != picture or k == 0 or ids[k - 1] != picture]


def as_read(
    images: Sequence[Image.Image], grids: torch.Tensor, patch: int, resample: int
) -> list[Image.Image]:
    """Pictures in the size at which the policy reads them, so that vLLM's processor leaves them as they are.

    It takes its limits from the checkpoint and knows nothing of `policy.max_pixels`; a picture of another
    size would be of another number of tokens than its prompt has room for.

    Args:
        grids: (pictures, 3) the patches of each in time, height and width (`image_grid_thw`).
        patch: pixels along the side of a patch.
        resample: PIL's number of the filter of the policy's processor.
    """
    sizes = [(width * patch, height * patch) for _, height, width in grids.tolist()]
    return [
        image if image.size == size else image.convert("RGB").resize(size, Image.Resampling(resample))
        for image, size in zip(images, sizes, strict=True)
    ]


def forget_pictures(generation: Any, main: bool) -> None:
    """Have vLLM read pictures anew, for new weights: it keeps what it read of each, and TRL 1.16 lets it go
    on with what other weights read where a picture comes again (TRL's issue 7198).

    Args:
        generation: TRL's VLLMGeneration.
        main: this process speaks to the server, if there is one.
    """
    if generation.mode == "colocate":
        generation.llm.llm_engine.reset_encoder_cache()
    elif main:
        client = generation.vllm_client
        client.session.post(f"{client.base_url}/reset_encoder_cache").raise_for_status()


def correction(
    policy: torch.Tensor, vllm: torch.Tensor, mask: torch.Tensor, most: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """The weight of each token in the loss, policy over vLLM but `most` at most, and what it does as metrics.

    Args:
        policy, vllm: (rows, T) log-probabilities of the tokens under each.
        mask: (rows, T) which positions hold a token.
    """
    difference = (policy - vllm) * mask
    ratio = difference.exp()
    tokens = mask.sum().clamp(min=1)
    return ratio.clamp(max=most), {
        "vllm/difference": float(difference.abs().sum() / tokens),
        "vllm/cut": float(((ratio > most) * mask).sum() / tokens),
    }
