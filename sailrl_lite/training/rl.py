"""Reinforcement learning: from a run configuration to a trained policy in a run folder."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig

from sailrl_lite.config import RLConfig, checkpoint_of
from sailrl_lite.engines import device_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.rewards import for_trl, get_reward
from sailrl_lite.training.callbacks import StopBetweenBatches, Watch, stop_on_interrupt
from sailrl_lite.training.dapo import Dapo, DapoTrainer
from sailrl_lite.training.data import Reader, check_data, curated_dataset, rl_dataset
from sailrl_lite.training.models import save_checkpoint
from sailrl_lite.training.passing import passing_problems
from sailrl_lite.training.policies import check_policy, load_policy, reference_of
from sailrl_lite.training.processes import count, device_settings, first_does, in_all_processes, working_in
from sailrl_lite.training.runs import Interrupted, check_finite, claim_folder, last_checkpoint
from sailrl_lite.training.sharded import whole_weights
from sailrl_lite.training.shared_judge import add_up, judge_for_run, why_stopped
from sailrl_lite.training.vllm import check_vllm, vllm_settings
from sailrl_lite.world.problems import FAMILIES

BAR = (
    ("reward", "reward"), ("format", "format"), ("answer", "answer"), ("think", "thinking"),
    ("judge", "judging"), ("trigger", "trigger_rate"), ("kl", "kl"),
)  # fmt: skip


def train_rl(
    config: RLConfig,
    out: Path,
    resume: bool = False,
    bar: bool = True,
    on_batch: Callable[[pd.DataFrame], None] | None = None,
) -> Path:
    """Train the policy in `config.checkpoint` and return the folder of the trained one, `out`/policy.

    `out` also gets config.json, metrics.csv (a row a step), trainer/checkpoint-*, judge.json (what the judge
    has used) where the judge is paid, and pass4.csv where problems are chosen by their pass@4.

    Args:
        resume: go on from the last checkpoint in `out`; the configuration must be the same.
        on_batch: called after each step with the metrics of all steps so far, a row each.

    Raises:
        SailRLError: a value out of its range, an `out` that holds another run, a judge that cannot work, or
            hardly a problem left by the bounds of pass@4.
        Interrupted: after Ctrl-C, when too many rollouts have no verdict, or the judge's budget is spent.
    """
    config.check()
    if config.engine.trainer == "verl":
        raise SailRLError(
            "verl trains this: write its files with `sailrl-lite export verl OUT`, or train here with "
            "--set engine.trainer=trl"
        )
    return _train(config, out, resume, bar, on_batch)


@in_all_processes
def _train(
    config: RLConfig, out: Path, resume: bool, bar: bool, on_batch: Callable[[pd.DataFrame], None] | None
) -> Path:
    check_vllm(config.policy, config.engine)
    check_policy(config.policy, config.engine)
    check_data(config.data)
    judge = get_judge(config.judge)
    policy, processor = load_policy(checkpoint_of(config), config.policy, train=True, seed=config.seed)
    rows = config.problems
    reader = Reader(processor, "max_prompt_tokens", config.max_prompt_tokens)
    if config.data:
        problems = curated_dataset(
            Path(config.data), rows, config.seed, False, config.label_noise, reader, bar
        )
        if judge.needs_truth and get_reward(config.reward).needs_scores and "problem" not in problems[0]:
            raise SailRLError(
                f"{config.data} is not of the micro-world, and the {judge.name} judge knows nothing else; "
                "name another judge, or a reward that needs none, such as judging+answer"
            )
    claim_folder(config, out, resume)
    if not config.data:
        families = config.families or tuple(FAMILIES)
        chosen = None
        if config.filtered:
            with working_in(out):
                chosen = first_does(
                    lambda: passing_problems(config, policy, processor, rows, out / "pass4.csv", bar)
                )
        problems = rl_dataset(rows, families, config.shortcut, config.label_noise, chosen, reader)
    judge = judge_for_run(config.judge, out)
    watch = Watch(out, config.updates, BAR, bar, on_batch, judge)
    stop = StopBetweenBatches(config.updates, judge)
    if why := why_stopped(judge):
        raise SailRLError(f"{why}; go on with --resume and a larger one in --judge")
    trainer = DapoTrainer(
        model=policy,
        reward_funcs=for_trl(config.reward, judge, config.alpha),
        args=grpo_config(config, out),
        train_dataset=problems,
        processing_class=processor,
        callbacks=[watch, stop],
        dapo=Dapo(
            config.clip,
            filter_on=config.filter_on,
            refills=config.refills,
            overlong=config.overlong,
            kl=config.kl,
        ),
        reference=reference_of(policy),
        stop=stop,
    )
    trainer.remove_callback(PrinterCallback)  # the bar and metrics.csv say it better
    last = last_checkpoint(out / "trainer") if resume else None
    with working_in(out), stop_on_interrupt(stop):
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    if judge.paid and count() > 1:
        first_does(lambda: add_up(config.judge, out))  # all have kept their counts before the last update
    if stop.why and trainer.state.global_step < trainer.state.max_steps:
        raise Interrupted(trainer.state.global_step // config.updates, config.steps, stop.why, out)
    weights = whole_weights(trainer)
    check_finite(policy, weights)
    return first_does(lambda: save_checkpoint(policy, processor, out / "policy", weights))


def grpo_config(config: RLConfig, out: Path) -> GRPOConfig:
    """The settings of TRL that a run configuration stands for."""
    update, processes = config.prompts * config.rollouts // config.updates, config.engine.processes
    at_once = device_rows("prompts x rollouts / updates", update, processes, config.device_batch)
    pieces = update // processes // at_once  # that an update is computed in
    gpu = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(out / "trainer"),
        seed=config.seed,
        max_steps=config.steps * config.updates,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=pieces,
        steps_per_generation=config.updates * pieces,
        num_generations=config.rollouts,
        max_completion_length=config.max_new_tokens,
        temperature=config.temperature,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        weight_decay=0.0,
        loss_type="dapo",
        beta=0.0,
        scale_rewards=config.scale,
        remove_unused_columns=False,
        logging_steps=config.updates,
        save_strategy="steps",
        save_steps=config.save_every * config.updates,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        bf16=gpu,
        gradient_checkpointing=config.engine.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        dataloader_pin_memory=gpu,
        **device_settings(config.engine),
        **vllm_settings(config),
    )
