"""Supervised fine-tuning of the micro policy from scratch: TRL's SFTTrainer on lessons that never repeat."""

import os
from pathlib import Path

from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig as TrlConfig
from trl import SFTTrainer

from sailrl_lite.config import SFTConfig
from sailrl_lite.training.callbacks import StopBetweenBatches, Watch, stop_on_interrupt
from sailrl_lite.training.data import sft_dataset
from sailrl_lite.training.models import build_policy, build_processor, save_checkpoint
from sailrl_lite.training.runs import Interrupted, claim_folder, last_checkpoint, restore_strictly

BAR = (("loss", "loss"), ("token accuracy", "mean_token_accuracy"))
_LOG_EVERY = 20


class _Trainer(SFTTrainer):
    def _load_from_checkpoint(self, checkpoint: str, model: object = None) -> None:
        restore_strictly(self.model, checkpoint)


def train_sft(config: SFTConfig, out: Path, resume: bool = False, bar: bool = True) -> Path:
    """Train a policy from scratch; return its folder, `out`/policy.

    The loss is on the completion only: the whole of judgment, trace and answer (paper section 3.4.1).

    Args:
        resume: go on from the last checkpoint in `out`; the configuration must be the same.

    Raises:
        SailRLError: an `out` that holds another run.
        Interrupted: after Ctrl-C.
    """
    claim_folder(config, out, resume)
    processor = build_processor()
    policy = build_policy(processor, config.seed, config.width, config.layers)
    stop = StopBetweenBatches(1)
    trainer = _Trainer(
        model=policy,
        args=TrlConfig(
            output_dir=str(out / "trainer"),
            seed=config.seed,
            max_steps=config.steps,
            per_device_train_batch_size=config.batch,
            learning_rate=config.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=min(100, config.steps // 10),
            weight_decay=0.01,
            adam_beta2=0.98,
            max_length=None,  # truncation would cut image tokens
            remove_unused_columns=False,
            dataloader_num_workers=min(1, (os.cpu_count() or 1) - 1),
            logging_steps=_LOG_EVERY,
            save_strategy="steps",
            save_steps=500,
            save_total_limit=2,
            report_to=[],
            disable_tqdm=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
        train_dataset=sft_dataset(config.steps * config.batch, config.noise, shortcut=config.shortcut),
        processing_class=processor,
        callbacks=[Watch(out, 1, BAR, bar), stop],
    )
    trainer.remove_callback(PrinterCallback)
    last = last_checkpoint(out / "trainer") if resume else None
    with stop_on_interrupt(stop):
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    if stop.why:
        raise Interrupted(trainer.state.global_step, config.steps, stop.why, out)
    return save_checkpoint(policy, processor, out / "policy")
