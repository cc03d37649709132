"""Rollouts that share a prompt: in training too, the prompt and its picture are read once for all of them.

In a batch the rows of one prompt lie next to each other, and only the first of them brings the picture:
`num_images` is 1 for that row and 0 for those that share it. All else is named and shaped as TRL does.
"""

from typing import Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache

_PIECE = 32  # rows of about one length that go through the model together: little padding, large products


def log_probs(
    model: Any, prompts: dict[str, torch.Tensor], index: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities and entropies (rows, T) of completions, 0 at padding; both carry gradients.

    Every prompt is read once, up to its last token; its keys and values serve all its rows. The last token is
    read again with each completion, so that all that is scored goes through TRL's fused head together.

    Args:
        model: a policy with TRL's fused head (`add_fused_lm_head`); entropies are None if the head has none.
        prompts: left-padded `input_ids`, `attention_mask`, `mm_token_type_ids` (B, P), `pixel_values` and
            `image_grid_thw` of their pictures.
        index: (rows,) the prompt of each row.
        ids, mask: (rows, T) the completions, right padded.
    """
    texts = {name: prompts[name] for name in ("input_ids", "attention_mask", "mm_token_type_ids")}
    pictures = {name: prompts[name] for name in ("pixel_values", "image_grid_thw")}
    start = {name: value[:, :-1] for name, value in texts.items()}
    read = DynamicCache()
    output = model(**start, **pictures, past_key_values=read, use_cache=True, logits_to_keep=1)
    position = start["attention_mask"].sum(1, keepdim=True) + output.rope_deltas

    lengths = mask.sum(1)
    order = lengths.argsort(stable=True)
    logps, entropies = [], []
    for rows in order.split(_PIECE):
        length, of = max(1, int(lengths[rows].max())), index[rows]
        cache = DynamicCache()
        for k, layer in enumerate(read.layers):
            cache.update(layer.keys.index_select(0, of), layer.values.index_select(0, of), k)
        answer, known = ids[rows, :length], mask[rows, :length]
        scored = model(
            input_ids=torch.cat([texts["input_ids"][of, -1:], answer[:, :-1]], 1),
            attention_mask=torch.cat([texts["attention_mask"][of], known[:, :-1]], 1),
            position_ids=(position[of] + torch.arange(length, device=ids.device)).expand(3, -1, -1),
            past_key_values=cache,
            shift_labels=answer.masked_fill(known == 0, -100),
            fused_lm_head=True,
        )
        room = (0, ids.shape[1] - length)
        logps.append(pad(scored.log_probs, room))
        if scored.entropy is not None:
            entropies.append(pad(scored.entropy, room))
    back = order.argsort()
    return torch.cat(logps)[back], torch.cat(entropies)[back] if entropies else None


def split_batch(batch: dict[str, Any], parts: int) -> list[dict[str, Any]]:
    """A batch in `parts` of equally many rows, in their order, without columns that hold only padding.

    A prompt whose rows fall into two parts has its picture in both.
    """
    rows = len(batch["prompt_ids"]) // parts
    owner = torch.tensor(batch["num_images"]).cumsum(0) - 1
    pixels = batch["pixel_values"].split(batch["image_grid_thw"].prod(1).tolist())
    result = []
    for start in range(0, rows * parts, rows):
        here = slice(start, start + rows)
        part = {
            name: value[here] if isinstance(value, torch.Tensor) and value.ndim else value
            for name, value in batch.items()
        }
        first, last = int(owner[here][0]), int(owner[here][-1])
        part["pixel_values"] = torch.cat(pixels[first : last + 1])
        part["image_grid_thw"] = batch["image_grid_thw"][first : last + 1]
        part["num_images"] = [1, *batch["num_images"][here][1:]]
        prompt, completion = part["prompt_mask"].any(0), part["completion_mask"].any(0)
        completion[0] = True  # of rows that count for nothing one column stays
        for name in ("prompt_ids", "prompt_mask"):
            part[name] = part[name][:, prompt]
        per_token = (
            "completion_ids", "completion_mask", "old_per_token_logps", "ref_per_token_logps",
            "importance_sampling_ratio",
        )  # fmt: skip
        for name in part.keys() & per_token:
            part[name] = part[name][:, completion]
        part["mm_token_type_ids"] = part["mm_token_type_ids"][:, torch.cat([prompt, completion])]
        result.append(part)
    return result


def repeat_pictures(
    pixel_values: torch.Tensor, image_grid_thw: torch.Tensor, num_images: list[int]
) -> dict[str, Any]:
    """The same pictures once for every row, as TRL's own forward pass wants them."""
    owner = torch.tensor(num_images).cumsum(0) - 1
    pixels = pixel_values.split(image_grid_thw.prod(1).tolist())
    return {
        "pixel_values": torch.cat([pixels[k] for k in owner.tolist()]),
        "image_grid_thw": image_grid_thw[owner.to(image_grid_thw.device)],
        "num_images": [1] * len(num_images),
    }
