"""A GRPOTrainer that goes on after an interruption as if there had been none: same weights, same prompts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import saving
from sailrl_lite.training.runs import restore_strictly


class EpochSampler(RepeatSampler):
    """TRL's sampler, with an order that depends on seed and epoch alone, so that a resumed run goes on with
    the epoch it was in rather than with the first."""

    epoch = 0

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            self.generator.manual_seed(1_000_003 * (self.seed or 0) + self.epoch)
        return super().__iter__()


class ResumableGRPOTrainer(GRPOTrainer):
    """TRL's trainer with an exact `resume_from_checkpoint`, for any policy that is not sharded.

    Raises:
        SailRLError: checkpoints that would fall between two updates on one batch of rollouts, for these are
            not saved.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        window = self.args.steps_per_generation * self.num_iterations
        window = -(-window // self.args.gradient_accumulation_steps)  # in updates
        if self.args.save_strategy == "steps" and self.args.save_steps % window:
            raise SailRLError(f"save_steps must be a multiple of {window}: rollouts in use are not saved")

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: TRL's card describes a model from its hub."""

    def _get_train_sampler(self, dataset: Any = None) -> EpochSampler:
        args = self.args
        self._sampler = EpochSampler(
            dataset if dataset is not None else self.train_dataset,
            mini_repeat_count=self.num_generations,
            batch_size=args.generation_batch_size // self.num_generations,
            repeat_count=self.num_iterations * args.steps_per_generation,
            shuffle=self.shuffle_dataset,
            seed=args.seed,
        )
        return self._sampler

    def _run_epoch(self, **kwargs: Any) -> Any:
        self._sampler.epoch = kwargs["epoch"]
        return super()._run_epoch(**kwargs)

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        policy = self.accelerator.unwrap_model(model if model is not None else self.model)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            super()._load_from_checkpoint(checkpoint, model)
        else:
            restore_strictly(policy, checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        with saving(Path(self._get_output_dir(trial=trial))):
            super()._save_checkpoint(model, trial)
