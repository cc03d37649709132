"""Weights that are sharded over processes, by DeepSpeed ZeRO-3 or FSDP2, and what needs them whole."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel, Trainer


def is_sharded(trainer: Trainer) -> bool:
    return bool(trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled)


def whole_weights(trainer: Trainer) -> dict[str, torch.Tensor] | None:
    """All weights by name, as they are saved, in the first process; None where each has its own anyway.

    All processes must call it at once.
    """
    if not is_sharded(trainer):
        return None
    weights: dict[str, torch.Tensor] = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    return weights


class WholeCopy:
    """A whole policy in every process beside the sharded one, from which rollouts are sampled.

    It needs the memory of all weights once more, but no gather for each token of a response. (vLLM, the
    sampler for large policies, has such a copy too.)
    """

    def __init__(self, policy: PreTrainedModel, device: torch.device) -> None:
        self.policy = copy.deepcopy(policy).requires_grad_(False).to(device)

    def update(self, sharded: torch.nn.Module) -> PreTrainedModel:
        """The copy with the weights of now. All processes must call it at once."""
        theirs = dict(sharded.named_parameters())
        with torch.no_grad():
            for name, weight in self.policy.named_parameters():
                with _gathered(theirs[name]) as whole:
                    weight.copy_(whole)
        return self.policy


@contextmanager
def _gathered(weight: torch.nn.Parameter) -> Iterator[torch.Tensor]:
    if isinstance(weight, DTensor):
        yield weight.full_tensor()
    else:
        import deepspeed

        with deepspeed.zero.GatheredParameters([weight]):
            yield weight.data
