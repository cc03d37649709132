"""What memory and time depend on, whether from a run configuration or from a published run."""

from dataclasses import dataclass

from sailrl_lite.config import KL_ROWS, PlanConfig, RLConfig, SFTConfig
from sailrl_lite.engines import Attention, Dtype, Sampler, Sharding, Weights
from sailrl_lite.plan.shapes import Shape

Stage = str  # "sft" or "rl"


@dataclass(frozen=True)
class Setup:
    """A way to train a model.

    Attributes:
        gpus: that train together.
        batch: rows of a step, of all GPUs; in RL the rollouts of a generation batch.
        group: rollouts of a prompt; 1 in SFT.
        device_batch: rows that go through a GPU at once in an update.
        score_batch: the same where only log-probabilities are computed.
        longest_prompt, longest_completion, longest_picture: tokens of the largest row; memory must do for it.
        prompt, completion, picture: mean tokens; time is counted in them. The picture's are of the prompt.
        draws: generation batches that are sampled for one that is trained on (dynamic sampling).
        old_pass: the log-probabilities under the sampling policy take a pass of their own.
        reference: a frozen copy is held.
        reference_pass: share of the rows over which it takes a pass; with LoRA the policy without adapters.
        shared: a prompt is read once for all its rollouts in training too.
        fused: the head's logits are never whole in memory (TRL's fused head).
        sleep: a colocated vLLM gives its memory back during the update.
        pure: weights, gradients and moments are all in two bytes, also where sharded.
        vllm_share: of a GPU's memory for a colocated vLLM; 0 where there is none.
        vllm_gpus: GPUs that share a copy of the policy in vLLM.
    """

    shape: Shape
    stage: Stage = "rl"
    weights: Weights = "full"
    lora_rank: int = 64
    dtype: Dtype = "float32"
    attention: Attention = "sdpa"
    gpus: int = 1
    sharding: Sharding = "none"
    checkpointing: bool = False
    batch: int = 1
    group: int = 1
    device_batch: int = 1
    score_batch: int = 1
    longest_prompt: int = 0
    longest_completion: int = 0
    longest_picture: int = 0
    prompt: int = 0
    completion: int = 0
    picture: int = 0
    draws: float = 1.0
    sampler: Sampler = "transformers"
    old_pass: bool = False
    reference: bool = False
    reference_pass: float = 1.0
    shared: bool = False
    fused: bool = True
    sleep: bool = True
    pure: bool = False
    vllm_share: float = 0.0
    vllm_gpus: int = 1

    @property
    def rows(self) -> int:
        """Of a step on one GPU."""
        return max(1, self.batch // self.gpus)

    @property
    def trained(self) -> int:
        """Parameters that get a gradient: all, or the adapters of the linear maps of the text layers.

        A LoRA adapter of rank r beside a map from n to m numbers has r (n + m) (Hu et al., arXiv 2106.09685).
        """
        if self.weights == "full":
            return self.shape.parameters
        text = self.shape.text
        return text.layers * sum(self.lora_rank * (n + m) for n, m in text.linears)


def rl_setup(config: RLConfig, plan: PlanConfig, shape: Shape) -> Setup:
    """What a run of RL is. A limit that is not set is taken to be the mean of PlanConfig."""
    engine, policy = config.engine, config.policy
    batch = config.prompts * config.rollouts
    device_batch = config.device_batch or batch // config.updates // engine.processes
    vllm, verl = engine.sampler == "vllm", engine.trainer == "verl"
    prompt = config.max_prompt_tokens or plan.prompt_tokens
    limit = shape.picture_tokens(policy.max_pixels) if policy.max_pixels else plan.picture_tokens
    return Setup(
        shape, "rl", policy.weights, policy.lora_rank, policy.dtype, policy.attention, engine.processes,
        engine.sharding, engine.gradient_checkpointing, batch, config.rollouts, device_batch, device_batch,
        longest_prompt=prompt,
        longest_completion=config.max_new_tokens,
        longest_picture=min(prompt, limit),
        prompt=plan.prompt_tokens,
        completion=plan.completion_tokens,
        picture=plan.picture_tokens,
        draws=1 + min(config.refills, 1) * plan.redrawn,
        sampler=engine.sampler,
        old_pass=vllm,
        reference=policy.weights == "full" and not (verl and not config.kl),
        reference_pass=_reference_pass(config),
        shared=engine.processes == 1 and not engine.gradient_checkpointing and not verl,
        fused=not verl,
        vllm_share=engine.vllm_memory if vllm and engine.vllm == "colocate" else 0.0,
        vllm_gpus=engine.vllm_gpus,
    )  # fmt: skip


def _reference_pass(config: RLConfig) -> float:
    """All rows where KL is in the loss; else verl asks for none, and here it is measured on some."""
    if config.kl:
        return 1.0
    if config.engine.trainer == "verl":
        return 0.0
    rows = config.prompts * config.rollouts // config.engine.processes
    return len(range(0, rows, max(1, rows // KL_ROWS))) / rows


def sft_setup(config: SFTConfig, plan: PlanConfig, shape: Shape) -> Setup:
    """What a run of supervised fine-tuning is."""
    engine, policy = config.engine, config.policy
    longest = config.max_tokens or plan.prompt_tokens + plan.completion_tokens
    limit = shape.picture_tokens(policy.max_pixels) if policy.max_pixels else plan.picture_tokens
    device_batch = config.device_batch or config.batch // engine.processes
    return Setup(
        shape, "sft", policy.weights, policy.lora_rank, policy.dtype, policy.attention, engine.processes,
        engine.sharding, engine.gradient_checkpointing, config.batch, 1, device_batch, device_batch,
        longest_prompt=max(0, longest - plan.completion_tokens),
        longest_completion=plan.completion_tokens,
        longest_picture=min(longest, limit),
        prompt=plan.prompt_tokens,
        completion=plan.completion_tokens,
        picture=plan.picture_tokens,
    )  # fmt: skip
