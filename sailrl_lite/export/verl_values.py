"""The values of an RL run in verl's own names, and what verl cannot do, said in a line each."""

import math
from dataclasses import dataclass
from typing import Any

from sailrl_lite.config import CLIP_HIGH, CLIP_LOW, RLConfig, checkpoint_of, is_hub_name
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import read_spec
from sailrl_lite.rewards import get_reward
from sailrl_lite.rewards.combinations import Anneal

NODE = 8  # GPUs of one machine
_ACTOR, _ROLLOUT, _REF = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref"))
_MODEL, _REWARD = "actor_rollout_ref.model", "reward.custom_reward_function"


@dataclass(frozen=True)
class Plan:
    """values: verl's settings by their full names; one that verl's configuration has not yet begins with +.
    notes: what differs from a run by TRL, a line each.
    nodes, gpus: machines, and GPUs of each.
    """

    values: dict[str, Any]
    notes: tuple[str, ...]
    nodes: int
    gpus: int


def plan_verl(config: RLConfig, rows: int) -> Plan:
    """What verl is told of a run on `rows` training rows.

    Raises:
        SailRLError: a setting that verl cannot follow; the message says what to set instead.
    """
    config.check()
    refuse(config)
    engine, policy = config.engine, config.policy
    nodes, gpus = max(1, engine.processes // NODE), min(NODE, engine.processes)
    if rows < config.prompts:
        raise SailRLError(f"verl needs a whole batch of {config.prompts} training rows; there are {rows}")
    # verl's unit is the prompt: it multiplies this by the rollouts of each.
    update = update_prompts(config)
    each = update * config.rollouts // engine.processes
    device = config.device_batch or each
    if each % device:
        raise SailRLError(f"device_batch must divide an update's {each} rollouts on a GPU, not be {device}")
    epochs = math.ceil(config.steps / (rows // config.prompts))
    values = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": config.scale == "group",
        "algorithm.use_kl_in_reward": False,
        "algorithm.filter_groups.enable": config.refills > 0,
        "algorithm.filter_groups.metric": "reward" if config.filter_on == "total" else "content",
        "data.train_batch_size": config.prompts,
        "data.max_prompt_length": config.max_prompt_tokens,
        "data.max_response_length": config.max_new_tokens,
        "data.filter_overlong_prompts": True,
        "data.filter_overlong_prompts_workers": 16,
        "data.image_patch_size": None,  # the processor's own, 14 or 16; verl would take 14 for all
        "data.truncation": "error",
        "data.seed": config.seed,
        "data.trust_remote_code": policy.remote_code,
        f"{_MODEL}.path": _policy_path(config),
        f"{_MODEL}.trust_remote_code": policy.remote_code,
        f"{_MODEL}.enable_gradient_checkpointing": engine.gradient_checkpointing,
        f"+{_MODEL}.override_config.attn_implementation": policy.attention,
        # Rows without padding between them are a thing of FlashAttention; others would attend to all.
        f"{_MODEL}.use_remove_padding": policy.attention == "flash_attention_2",
        f"{_ACTOR}.strategy": "fsdp2",
        f"{_ACTOR}.ppo_mini_batch_size": update,
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu": device,
        f"{_ACTOR}.ppo_epochs": 1,
        f"{_ACTOR}.clip_ratio_low": CLIP_LOW,
        f"{_ACTOR}.clip_ratio_high": CLIP_HIGH,
        f"{_ACTOR}.loss_agg_mode": "token-mean",
        f"{_ACTOR}.entropy_coeff": 0,
        f"{_ACTOR}.use_kl_loss": config.kl > 0,
        f"{_ACTOR}.kl_loss_coef": config.kl,
        f"{_ACTOR}.kl_loss_type": "low_var_kl",
        f"{_ACTOR}.data_loader_seed": config.seed,
        f"{_ACTOR}.optim.lr": config.learning_rate,
        f"{_ACTOR}.optim.lr_scheduler_type": "cosine",
        f"{_ACTOR}.optim.lr_warmup_steps": 0,
        f"{_ACTOR}.optim.min_lr_ratio": 0.0,
        f"{_ACTOR}.optim.weight_decay": 0.0,
        f"{_ACTOR}.fsdp_config.dtype": policy.dtype,
        # An update of 1e-6 is lost in bfloat16, so the optimizer's own copy is never in it.
        f"{_ACTOR}.fsdp_config.model_dtype": "fp32",
        f"{_ACTOR}.fsdp_config.seed": config.seed,
        f"{_REF}.log_prob_micro_batch_size_per_gpu": device,
        f"{_ROLLOUT}.name": "vllm",
        f"{_ROLLOUT}.n": config.rollouts,
        f"{_ROLLOUT}.temperature": config.temperature,
        f"{_ROLLOUT}.top_p": 1.0,
        f"{_ROLLOUT}.top_k": -1,
        f"{_ROLLOUT}.seed": config.seed,
        f"{_ROLLOUT}.dtype": policy.dtype,
        f"{_ROLLOUT}.gpu_memory_utilization": engine.vllm_memory,
        f"{_ROLLOUT}.tensor_model_parallel_size": engine.vllm_gpus,
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": device,
        "reward.num_workers": 1,  # each has a judge of its own, with limits and a budget of its own
        "reward.reward_manager.name": "naive",
        f"{_REWARD}.name": "compute_score",
        f"+{_REWARD}.reward_kwargs.reward": config.reward,
        f"+{_REWARD}.reward_kwargs.alpha": config.alpha,
        f"+{_REWARD}.reward_kwargs.judge": config.judge,
        "trainer.use_v1": True,
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus,
        "trainer.total_training_steps": config.steps,
        "trainer.total_epochs": epochs,
        "trainer.save_freq": config.save_every,
        "trainer.test_freq": config.save_every,
        "trainer.max_actor_ckpt_to_keep": 2,
        "trainer.project_name": "sailrl-lite",
        "trainer.experiment_name": config.reward,
        "trainer.logger": ["console", "tensorboard"],
    }
    if policy.weights == "lora":
        values |= {
            f"{_MODEL}.lora_rank": policy.lora_rank,
            f"{_MODEL}.lora_alpha": policy.lora_alpha,
            f"{_MODEL}.target_modules": "all-linear",
            f"{_MODEL}.exclude_modules": ".*visual.*",  # vLLM takes no adapters there
            f"{_ROLLOUT}.load_format": "safetensors",  # the frozen weights are not sent along
        }
    return Plan(values, tuple(_notes(config, update, epochs)), nodes, gpus)


def refuse(config: RLConfig) -> None:
    """Raise SailRLError for what verl cannot do, before any data are read."""
    engine, policy = config.engine, config.policy
    several = engine.processes > 1
    wrongs = {
        "verl's clip range stands still: set clip=asymmetric": config.clip == "adaptive",
        f"verl does not tell a reward how far training is, and {config.reward} moves: name another reward": (
            isinstance(get_reward(config.reward), Anneal)
        ),
        "pass_low and pass_high need a policy at hand: export a file that `sailrl-lite curate` filtered": (
            config.filtered
        ),
        "verl needs the length of the longest prompt: set max_prompt_tokens": not config.max_prompt_tokens,
        "verl trains no four-bit weights: set policy.weights=lora or full": policy.weights == "4bit",
        "verl takes no revision: download it and set checkpoint to its folder": bool(policy.revision),
        "verl samples with vLLM: set engine.sampler=vllm": engine.sampler != "vllm",
        "verl starts vLLM itself, on the training GPUs: set engine.vllm=colocate": engine.vllm != "colocate",
        "verl trains with FSDP here: set engine.sharding=fsdp2": (
            engine.sharding == "zero3" or (several and engine.sharding == "none")
        ),
        f"engine.processes must be a multiple of {NODE}, or less, not {engine.processes}: they are GPUs": (
            engine.processes > NODE and engine.processes % NODE != 0
        ),
        f"engine.vllm_gpus must divide the GPUs of a machine, not be {engine.vllm_gpus}": (
            min(NODE, engine.processes) % engine.vllm_gpus != 0
        ),
    }
    for what, wrong in wrongs.items():
        if wrong:
            raise SailRLError(what)


def update_prompts(config: RLConfig) -> int:
    """The prompts whose rollouts make one update in verl, which takes whole groups.

    It is the divisor of `prompts` that comes nearest to prompts / updates and whose rollouts the GPUs share
    evenly. Of 256 prompts and five updates, that is of 51.2, it is 64: 320 rollouts, four updates a batch.
    """
    wanted = config.prompts / config.updates
    whole = [
        size
        for size in range(1, config.prompts + 1)
        if config.prompts % size == 0 and size * config.rollouts % config.engine.processes == 0
    ]  # never empty: RLConfig.check sees to it that the processes share all prompts
    return min(whole, key=lambda size: (abs(size - wanted), -size))


def _policy_path(config: RLConfig) -> str:
    """The absolute path of a folder, also of one that is still to be made; a name of the hub as it is."""
    folder = checkpoint_of(config)
    return str(folder) if is_hub_name(folder) else str(folder.resolve())


def _notes(config: RLConfig, update: int, epochs: int) -> list[str]:
    made = config.prompts // update
    notes = [
        "no verdict: verl has no such thing. The response scores 0, also in the mean of its group, and is "
        "counted as `unscored` in rewards.csv; more than half of the last 256 that were judged stop the run.",
        "dtype: the policy computes and answers in policy.dtype; the optimizer's weights are float32.",
        "dual clip: verl also bounds the ratio at 3 where the advantage is negative (clip_ratio_c).",
    ]
    if made != config.updates:
        notes.append(
            f"updates={config.updates}: verl takes whole groups, so an update is of "
            f"{update * config.rollouts} rollouts and not of "
            f"{config.prompts * config.rollouts // config.updates}; updates a batch: {made}."
        )
    if config.overlong == "mask":
        notes.append(
            "overlong=mask: verl has no such mask. A response that is cut off is scored as it stands, "
            "that is 0 for its format, and it is trained on."
        )
    if config.refills:
        notes.append(
            f"refills={config.refills}: verl draws until the batch is full, twice what is missing each time; "
            "its newest trainer knows no limit."
        )
    if not config.kl:
        notes.append("kl=0: verl then loads no reference, so the KL to the SFT policy is not measured.")
    if read_spec(config.judge).kind == "llm":
        notes.append(
            f"validation: before the run and every {config.save_every} steps val.parquet is answered and "
            "judged, which costs; trainer.test_freq=-1 trainer.val_before_train=false leaves it out."
        )
    if epochs != config.epochs:
        notes.append(
            f"epochs={config.epochs}: verl counts whole batches only, and is given {epochs} so that all "
            f"{config.steps} steps are made."
        )
    if not config.policy.remote_code:
        notes.append(
            "remote code is not allowed, and the policy is loaded without; but verl's reward worker always "
            "allows it for the tokenizer, so look at the checkpoint's .py files, if it has any."
        )
    return notes
