"""Supervised fine-tuning: TRL's SFTTrainer, of the micro policy from scratch on lessons that never repeat, or
of any policy on curated rows."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig as TrlConfig
from trl import SFTTrainer

from sailrl_lite.config import SHIPPED, Architecture, JudgeConfig, SFTConfig, checkpoint_of
from sailrl_lite.engines import PolicyConfig, device_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import saving, write_text
from sailrl_lite.training.callbacks import StopBetweenBatches, Watch, stop_on_interrupt
from sailrl_lite.training.data import Reader, check_data, curated_dataset, sft_dataset
from sailrl_lite.training.models import (
    MicroProcessor,
    Policy,
    build_policy,
    build_processor,
    save_checkpoint,
)
from sailrl_lite.training.policies import check_policy, load_policy
from sailrl_lite.training.processes import device_settings, first_does, in_all_processes, working_in
from sailrl_lite.training.runs import (
    Interrupted,
    check_finite,
    claim_folder,
    last_checkpoint,
    restore_strictly,
)
from sailrl_lite.training.sharded import is_sharded, whole_weights

BAR = (("loss", "loss"), ("token accuracy", "mean_token_accuracy"))
_LOG_EVERY, _SAVE_EVERY = 20, 500  # the second of a judge
_NAMES: dict[Architecture, str] = {"qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}


class _Trainer(SFTTrainer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The loss is the mean over the tokens of an update, of all its parts and processes. Qwen's models say
        # that they cannot be told that number; TRL, which computes the loss, can.
        self.model_accepts_loss_kwargs = True

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        if is_sharded(self):
            super()._load_from_checkpoint(checkpoint, model)
        else:
            restore_strictly(self.model, checkpoint)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: `_card` describes the policy."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        with saving(Path(self.args.output_dir)):
            super()._save_checkpoint(model, trial)


@in_all_processes
def train_sft(config: SFTConfig, out: Path, resume: bool = False, bar: bool = True) -> Path:
    """Train a policy, from scratch unless the configuration names one; return its folder, `out`/policy.

    The loss is on the completion only: the whole of judgment, trace and answer (paper section 3.4.1).

    Args:
        resume: go on from the last checkpoint in `out`; the configuration must be the same.

    Raises:
        SailRLError: an `out` that holds another run.
        Interrupted: after Ctrl-C.
    """
    config.check()
    check_policy(config.policy, config.engine)
    check_data(config.data)
    if config.checkpoint or config.data:
        policy, processor = load_policy(checkpoint_of(config), config.policy, train=True, seed=config.seed)
    elif config.policy != PolicyConfig():
        raise SailRLError(
            "a policy from scratch has policy.* as they are; name one to start from with --checkpoint"
        )
    else:
        processor = build_processor()
        policy = build_policy(processor, config.seed, config.width, config.layers, config.architecture)
    reader, rows = Reader(processor, "max_tokens", config.max_tokens), config.steps * config.batch
    if config.data:
        lessons = curated_dataset(Path(config.data), rows, config.seed, True, reader=reader, bar=bar)
    else:
        captions = config.captions * config.batch
        lessons = sft_dataset(rows, config.noise, captions, config.shortcut, config.lessons, reader)
    claim_folder(config, out, resume)
    parameters = sum(p.numel() for p in policy.parameters())  # a sharded policy has parts of them
    weights = fit(policy, processor, lessons, config, out, resume, bar)

    def save() -> Path:
        folder = save_checkpoint(policy, processor, out / "policy", weights)
        write_text(folder / "README.md", _card(config, parameters))
        return folder

    return first_does(save)


def fit(
    policy: Policy,
    processor: MicroProcessor,
    lessons: Dataset,
    config: SFTConfig | JudgeConfig,
    out: Path,
    resume: bool,
    bar: bool,
    collate: Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]] | None = None,
) -> dict[str, torch.Tensor] | None:
    """Train a model in place, in a run folder that was claimed; checkpoints go to `out`/trainer.

    Returns the weights of one that was sharded (see `whole_weights`), else None.

    Args:
        lessons: at least as many rows as the run has steps x batch, read in order.
        collate: from rows to model inputs and labels; None is TRL's, for prompts and completions.
    """
    stop = StopBetweenBatches(1)
    # A judge is trained with the usual values of what only a policy's configuration has.
    usual = config if isinstance(config, SFTConfig) else SFTConfig()
    gpu, processes = torch.cuda.is_available(), usual.engine.processes
    at_once = device_rows("batch", config.batch, processes, usual.device_batch)
    trainer = _Trainer(
        model=policy,
        args=TrlConfig(
            output_dir=str(out / "trainer"),
            seed=config.seed,
            max_steps=config.steps,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=config.batch // processes // at_once,
            learning_rate=config.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(100, config.steps // 10),
            weight_decay=usual.weight_decay,
            adam_beta2=usual.adam_beta2,
            max_length=None,  # truncation would cut image tokens
            remove_unused_columns=False,
            train_sampling_strategy="sequential",  # captions first; the lessons are drawn at random anyway
            dataloader_num_workers=int(_forks() and (os.cpu_count() or 1) > 1),
            logging_steps=min(_LOG_EVERY, config.steps),
            save_strategy="steps",
            save_steps=config.save_every if isinstance(config, SFTConfig) else _SAVE_EVERY,
            save_total_limit=2,
            report_to=[],
            disable_tqdm=True,
            bf16=gpu and isinstance(config, SFTConfig),
            gradient_checkpointing=usual.engine.gradient_checkpointing,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            dataloader_pin_memory=gpu,
            **device_settings(usual.engine),
        ),
        data_collator=collate,
        train_dataset=lessons,
        processing_class=processor,
        callbacks=[Watch(out, 1, BAR, bar), stop],
    )
    trainer.remove_callback(PrinterCallback)
    last = last_checkpoint(out / "trainer") if resume else None
    with working_in(out), stop_on_interrupt(stop):
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    if stop.why and trainer.state.global_step < config.steps:
        raise Interrupted(trainer.state.global_step, config.steps, stop.why, out)
    weights = whole_weights(trainer)
    check_finite(policy, weights)
    return weights


def _forks() -> bool:
    """Whether another process can have the data as it is here, which a new interpreter cannot."""
    return multiprocessing.get_start_method() == "fork"


def _card(config: SFTConfig, parameters: int) -> str:
    made = f"`{_command(config)}`"
    if config.data or config.checkpoint:
        start = "the shipped policy" if checkpoint_of(config) == SHIPPED else config.checkpoint
        data = config.data or "the micro-world's lessons"
        return f"""# A policy after SFT

Trained from {start} on {data} by {made}: {config.steps:,} updates of {config.batch} rows, learning rate
{config.learning_rate:g}. Load it with `sailrl_lite.training.policies.load_policy`.
"""
    noise = ", ".join(f"{name.replace('_', ' ')} {rate:g}" for name, rate in asdict(config.noise).items())
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl"))
    if config.lessons == "direct":
        kind = "direct answers"
        learned = "the micro-world's teacher, who here answers every question at once: it never thinks."
    else:
        kind = "LongCoT SFT"
        learned = f"""the micro-world's teacher: judge, think, answer. It is meant to be imperfect in known
ways, for the teacher errs on purpose ({noise})."""
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# SAIL-RL lite: a micro policy after {kind}

A {_NAMES[config.architecture]} of {parameters:,} parameters with its own word-level tokenizer, trained from
scratch on the lessons of {learned}

Made by {made}: {config.steps:,} updates of {config.batch} lessons, of which
the first {config.captions} only describe pictures; each lesson on a fresh picture. AdamW, learning rate
{config.learning_rate:g} with warm-up and cosine decay, loss on the completion only; {versions}.
The handwritten digits are scans of scikit-learn's digits set (train part only); all else is drawn.

Load it with `sailrl_lite.training.models.load_checkpoint`, which brings the image-only processor. It knows
the questions of the micro-world and nothing else.
"""


def _command(config: SFTConfig) -> str:
    """The command that trains this policy again: its seed, and what is not as usual."""
    values, usual = config.flat(), SFTConfig(seed=config.seed).flat()
    changed = [f" --set {name}={value}" for name, value in values.items() if value != usual[name]]
    return f"sailrl-lite sft --seed {config.seed}{''.join(changed)}"
