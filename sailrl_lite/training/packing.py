"""From the groups of a generation batch to the rows of its updates: which, in what order, as what tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, NamedTuple

import torch
from trl.trainer.utils import pad

SMALLEST = 1e-6  # difference of rewards that is no rounding


@dataclass(frozen=True)
class Group:
    """The rollouts of one prompt. G is their number."""

    prompt_ids: list[int]
    picture: dict[str, torch.Tensor]
    ids: list[list[int]]
    logps: list[list[float]] | None
    advantages: torch.Tensor  # (G,), 0 where there is no verdict
    trained: torch.Tensor  # (G,) bool: the row counts in the loss
    informative: bool
    sampled: list[list[float]] | None = None  # log-probabilities under vLLM, where it drew them


class Row(NamedTuple):
    """One rollout of a group in an update. A row that is not `real` only fills up, with no advantage."""

    group: int
    rollout: int
    advantage: float = 0.0
    real: bool = False


def rows_with_gradient(groups: Sequence[Group], all_trained: bool) -> list[Row]:
    """The rows whose advantage is not 0; or all that are trained on, since a KL term has a gradient there."""
    return [
        Row(i, k, float(group.advantages[k]) if group.informative else 0.0, True)
        for i, group in enumerate(groups)
        for k in range(len(group.ids))
        if group.trained[k] and (all_trained or (group.informative and abs(group.advantages[k]) > SMALLEST))
    ]


def in_updates(rows: list[Row], groups: Sequence[Group], updates: int, size: int, pieces: int) -> list[Row]:
    """The rows in order, filled up to `updates` x `size`, and each update to a multiple of its pieces.

    No more than one group is cut between two updates. The pieces of an update are filled up with its own
    rows, so that it stays what it is undivided.
    """
    blank = [Row(i, k) for i, group in enumerate(groups) for k in range(len(group.ids))]
    ordered = sorted(rows + blank[: updates * size - len(rows)])
    parts = [ordered[k : k + size] for k in range(0, len(ordered), size)]
    return [
        row
        for part in parts
        for row in sorted(part + [Row(r.group, r.rollout) for r in islice(cycle(part), -size % pieces)])
    ]


def tensors(
    rows: list[tuple[list[int], dict[str, torch.Tensor], list[int]]], pad_token: int, picture_token: int
) -> dict[str, Any]:
    """Padded tensors of (prompt ids, picture, completion ids), named as TRL names them.

    Rows in a row that hold the same picture share their prompt (see `shared_prompt`).
    """
    brings = [k == 0 or picture is not rows[k - 1][1] for k, (_, picture, _) in enumerate(rows)]
    pictures = [picture for (_, picture, _), first in zip(rows, brings, strict=True) if first]
    prompts = [torch.tensor(prompt) for prompt, _, _ in rows]
    answers = [torch.tensor(answer) for _, _, answer in rows]
    batch: dict[str, Any] = {
        "prompt_ids": pad(prompts, padding_value=pad_token, padding_side="left"),
        "prompt_mask": pad([torch.ones_like(x) for x in prompts], padding_value=0, padding_side="left"),
        "completion_ids": pad(answers, padding_value=pad_token, padding_side="right"),
        "completion_mask": pad([torch.ones_like(x) for x in answers], padding_value=0, padding_side="right"),
        "pixel_values": torch.cat([picture["pixel_values"] for picture in pictures]),
        "image_grid_thw": torch.cat([picture["image_grid_thw"] for picture in pictures]),
        "num_images": list(map(int, brings)),
    }
    both = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    return batch | {"mm_token_type_ids": (both == picture_token).long()}
