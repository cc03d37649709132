"""Sampling responses from a transformers policy in one large batch: the engine of the CPU rung.

It does what `generate` does, token for token, and saves what a batch of rollouts lets one save: a prompt is
read once for all its rollouts, and a row leaves the batch when its response ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import DynamicCache

from sailrl_lite.errors import SailRLError
from sailrl_lite.training.models import MicroProcessor, Policy, bare, encode_prompts

_COMPACT = 0.9  # drop the finished rows from the cache once fewer than this share are alive


@dataclass(frozen=True)
class Rollouts:
    """Completions of `n` rollouts of each prompt, those of one prompt next to each other.

    ids: token ids of each completion, with its end-of-turn token unless the length cut it off.
    logps: log-probability of each of those tokens under the policy at the sampling temperature.
    """

    ids: list[list[int]]
    logps: list[list[float]]


def respond(
    policy: Policy,
    processor: MicroProcessor,
    questions: Sequence[str],
    images: Sequence[Image.Image],
    n: int = 1,
    prefill: str = "",
    **options: Any,
) -> list[list[str]]:
    """The texts of `n` sampled responses to each question about its picture, without the prefill.

    `options` are those of `sample`: max_new_tokens, temperature, seed.
    """
    inputs = dict(encode_prompts(processor, list(questions), list(images), prefill))
    ids = sample(policy, inputs, n, **options).ids
    texts = processor.batch_decode(ids, skip_special_tokens=True)
    return [texts[k : k + n] for k in range(0, len(texts), n)]


@torch.no_grad()
def sample(
    policy: Policy,
    inputs: dict[str, torch.Tensor],
    n: int = 1,
    max_new_tokens: int = 64,
    temperature: float = 1.0,
    seed: int = 0,
) -> Rollouts:
    """Sample `n` rollouts of each prompt.

    Args:
        policy: put into evaluation mode for the call.
        inputs: left-padded `input_ids` (B, P), `attention_mask` (B, P), `mm_token_type_ids` (B, P), the
            pictures' `pixel_values` and `image_grid_thw`, as the processor returns them.
        n: rollouts a prompt; the result has B * n rows.
        max_new_tokens: a response that has not ended by then is cut off.
        temperature: 0 is greedy.
        seed: of this call's own generator, so that a resumed run draws the same rollouts.
    """
    if n < 1 or max_new_tokens < 1 or not 0 <= temperature < math.inf:
        asked = f"n={n}, max_new_tokens={max_new_tokens}, temperature={temperature}"
        raise SailRLError(f"sampling needs n and max_new_tokens from 1 and temperature from 0, not {asked}")
    policy = bare(policy)
    was_training = policy.training
    policy.eval()
    device = policy.device
    inputs = {name: value.to(device) for name, value in inputs.items()}
    generator = torch.Generator(device).manual_seed(seed)
    ends = torch.tensor(policy.generation_config.eos_token_id, device=device).flatten()
    # A picture token in a response would ask the next forward pass for a picture that is not there.
    pictures = torch.tensor([policy.config.image_token_id, policy.config.video_token_id], device=device)
    cache = DynamicCache(config=policy.config.get_text_config())
    hidden = policy.model(**inputs, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
    mask = inputs["attention_mask"].repeat_interleave(n, 0)
    position = (inputs["attention_mask"].sum(1, keepdim=True) + policy.model.rope_deltas).repeat_interleave(
        n, 0
    )
    hidden = hidden.repeat_interleave(n, 0)
    if n > 1:
        cache.batch_repeat_interleave(n)

    total = len(mask)
    ids = torch.zeros(total, max_new_tokens, dtype=torch.long, device=device)
    logps = torch.zeros(total, max_new_tokens, device=device)
    lengths = torch.full((total,), max_new_tokens, device=device)
    rows = torch.arange(total, device=device)  # which response each row of the batch is
    alive = torch.ones(total, dtype=torch.bool, device=device)
    for t in range(max_new_tokens):
        log_probs = (policy.lm_head(hidden).float() / (temperature or 1.0)).log_softmax(-1)
        allowed = log_probs.index_fill(1, pictures, -torch.inf)
        if not log_probs.isfinite().all():
            raise SailRLError("the policy diverged: its probabilities are not finite; lower learning_rate")
        if temperature == 0:
            token = allowed.argmax(-1)
        else:
            token = torch.multinomial(allowed.exp(), 1, generator=generator)[:, 0]
        live = rows[alive]
        ids[live, t] = token[alive]
        logps[live, t] = log_probs.gather(1, token[:, None])[alive, 0]
        ended = alive & torch.isin(token, ends)
        lengths[rows[ended]] = t + 1
        alive &= ~ended
        if t + 1 == max_new_tokens or not alive.any():
            break
        if alive.float().mean() < _COMPACT:
            keep = alive.nonzero()[:, 0]
            cache.batch_select_indices(keep)
            rows, mask, position, token, alive = (
                rows[keep],
                mask[keep],
                position[keep],
                token[keep],
                alive[keep],
            )
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        step = dict(input_ids=token[:, None], attention_mask=mask, position_ids=position.expand(3, -1, -1))
        hidden = policy.model(**step, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
        position = position + 1
    policy.train(was_training)
    cut = lengths.tolist()
    return Rollouts(
        [row[:k] for row, k in zip(ids.tolist(), cut, strict=True)],
        [row[:k] for row, k in zip(logps.tolist(), cut, strict=True)],
    )
