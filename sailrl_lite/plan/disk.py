"""What a run writes and what it reads, in bytes of disk."""

from dataclasses import dataclass

from sailrl_lite.config import PlanConfig, RLConfig, SFTConfig
from sailrl_lite.plan.memory import states
from sailrl_lite.plan.setup import Setup

KEPT = 2  # checkpoints of the trainer, `save_total_limit`; one more while it is written


@dataclass(frozen=True)
class Disk:
    """Bytes.

    checkpoints: of the trainer, with the optimizer's moments, the one being written too.
    policy: the trained policy at the end.
    model: the downloaded one in the hub's cache, in two bytes a weight.
    data: rows with their pictures.
    """

    checkpoints: float
    policy: float
    model: float
    data: float

    @property
    def total(self) -> float:
        return self.checkpoints + self.policy + self.model + self.data


def disk(config: RLConfig | SFTConfig, plan: PlanConfig, setup: Setup) -> Disk:
    """The disk that a run takes; the micro-world draws its pictures anew and keeps none."""
    weights, _, moments = states(setup)
    if setup.weights != "full":
        weights = 4.0 * setup.trained
    rows = 0.0
    if config.data:
        seen = config.prompts if isinstance(config, RLConfig) else config.batch
        rows = config.steps * seen / (config.epochs if isinstance(config, RLConfig) else 1)
    whole = 2.0 * setup.shape.parameters
    return Disk((KEPT + 1) * (weights + moments), weights, whole, rows * plan.row_bytes)
