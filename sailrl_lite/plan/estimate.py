"""The plan of a stage: what it needs, and whether that fits."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sailrl_lite.config import SHIPPED, PlanConfig, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.plan.disk import Disk, disk
from sailrl_lite.plan.hardware import GIB, Gpu, get_gpu
from sailrl_lite.plan.judging import Judging, judging
from sailrl_lite.plan.memory import Memory, memory
from sailrl_lite.plan.setup import Setup, rl_setup, sft_setup
from sailrl_lite.plan.shapes import Shape, read_shape, shape_of
from sailrl_lite.plan.work import Work, operations, seconds

Config = RLConfig | SFTConfig


@dataclass(frozen=True)
class Tokens:
    """Of a whole run, all of them together.

    prompt: read, without the picture's; picture: of the pictures in them; completion: written, or learned.
    """

    prompt: float
    picture: float
    completion: float


@dataclass(frozen=True)
class Plan:
    """What a stage needs.

    Attributes:
        memory: of one GPU. operations, seconds: of one step, by part.
        problem: what does not fit, in one line; "" where all does, or the memory is not known.
    """

    setup: Setup
    gpu: Gpu
    assumed: PlanConfig
    steps: int
    memory: Memory
    tokens: Tokens
    operations: Work
    seconds: Work
    judging: Judging | None
    disk: Disk
    problem: str

    @property
    def hours(self) -> float:
        """Of the run, without what a slow judge adds."""
        return self.steps * self.seconds.total / 3600

    @property
    def dollars(self) -> float | None:
        """Of the GPUs; None where their price is not known."""
        price = self.assumed.gpu_price
        return None if price is None else price * self.hours * self.setup.gpus

    def to_json(self) -> dict[str, Any]:
        """The whole plan as JSON can hold it; bytes, seconds, dollars (null: not known)."""
        return {
            "stage": self.setup.stage,
            "model": self.setup.shape.name,
            "parameters": self.setup.shape.parameters,
            "trained_parameters": self.setup.trained,
            "gpu": self.gpu.name,
            "gpus": self.setup.gpus,
            "gpu_memory": self.gpu.memory,
            "memory": self.memory.parts() | {"update": self.memory.update, "rollout": self.memory.rollout},
            "steps": self.steps,
            "tokens": asdict(self.tokens),
            "operations_per_step": asdict(self.operations),
            "seconds_per_step": asdict(self.seconds),
            "hours": self.hours,
            "gpu_dollars": self.dollars,
            "judge": asdict(self.judging) if self.judging else None,
            "disk": asdict(self.disk),
            "assumed": asdict(self.assumed),
            "problem": self.problem,
        }


def make_plan(config: Config, assumed: PlanConfig, shape: Shape) -> Plan:
    """The plan of a stage.

    Args:
        shape: of the model (`shape_for` finds it).

    Raises:
        SailRLError: a value out of its range, a batch that the GPUs cannot share, an unknown gpu, or a mean
            of tokens above the run's own limit.
    """
    config.check()
    assumed.check()
    _check_means(config, assumed, shape)
    gpu = get_gpu(assumed.gpu)
    setup = (
        rl_setup(config, assumed, shape)
        if isinstance(config, RLConfig)
        else sft_setup(config, assumed, shape)
    )
    needed = memory(setup, gpu)
    rows = config.steps * setup.batch * setup.draws
    return Plan(
        setup, gpu, assumed, config.steps, needed,
        Tokens(rows * (setup.prompt - setup.picture), rows * setup.picture, rows * setup.completion),
        operations(setup),
        seconds(setup, gpu),
        judging(config, assumed, setup.draws) if isinstance(config, RLConfig) else None,
        disk(config, assumed, setup),
        _problem(needed, gpu, setup.stage),
    )  # fmt: skip


def shape_for(config: Config, before: SFTConfig | None = None) -> Shape:
    """The shape of the policy of a stage.

    Args:
        before: the SFT of the same rung. RL starts from what it makes, which may not be there yet.

    Raises:
        SailRLError: the shape is not known.
    """
    name = config.checkpoint
    if isinstance(config, SFTConfig) and not name and not config.data:
        return _from_scratch(config)
    if isinstance(config, RLConfig) and before and not (Path(name) / "config.json").is_file():
        if name == "runs/sft/policy" and not before.checkpoint:
            return shape_for(before)
        name = before.checkpoint if name in ("", "shipped", "runs/sft/policy") else name
    return read_shape(SHIPPED if name in ("", "shipped") else name)


def _from_scratch(config: SFTConfig) -> Shape:
    usual = SFTConfig()
    if (config.architecture, config.width, config.layers) == (usual.architecture, usual.width, usual.layers):
        return read_shape(SHIPPED)
    from sailrl_lite.training.models import build_tokenizer, configuration

    made = configuration(build_tokenizer(), config.width, config.layers, config.architecture)
    return shape_of("a micro policy from scratch", made.to_dict())


def _check_means(config: Config, assumed: PlanConfig, shape: Shape) -> None:
    prompt, completion = assumed.prompt_tokens, assumed.completion_tokens
    both = "prompt_tokens + completion_tokens"
    limits = (
        [("prompt_tokens", prompt, "max_prompt_tokens"), ("completion_tokens", completion, "max_new_tokens")]
        if isinstance(config, RLConfig)
        else [(both, prompt + completion, "max_tokens")]
    )
    for name, mean, limit in limits:
        most = config.flat()[limit]
        if most and mean > most:
            raise SailRLError(f"the mean plan.{name} cannot be {mean}, above {limit}={most}; change either")
    most = shape.picture_tokens(config.policy.max_pixels)
    if most and assumed.picture_tokens > most:
        raise SailRLError(
            f"the mean plan.picture_tokens cannot be {assumed.picture_tokens}, above the {most} of "
            f"policy.max_pixels={config.policy.max_pixels}; change either"
        )


def _problem(needed: Memory, gpu: Gpu, stage: str) -> str:
    if not gpu.memory:
        return ""
    update = {"generation", "vllm"} if needed.sleeps else {"generation"}  # not there at the same time
    rollout = {"gradients", "activations", "logits", "gathered"}
    phases = (("an update", needed.update, update), ("sampling", needed.rollout, rollout))
    for phase, total, absent in phases:
        if total > gpu.memory:
            there = {name: size for name, size in needed.parts().items() if name not in absent}
            name = max(there, key=lambda part: there[part])
            return (
                f"{stage}: {phase} needs {total / GIB:.1f} GiB, and one {gpu.name} has "
                f"{gpu.memory / GIB:.1f} GiB, {(total - gpu.memory) / GIB:.1f} GiB too few; "
                f"the largest part is {name}, {there[name] / GIB:.1f} GiB"
            )
    if needed.vllm_needs > needed.vllm > 0:
        return (
            f"{stage}: vLLM's share of a {gpu.name} is {needed.vllm / GIB:.1f} GiB, and it needs "
            f"{needed.vllm_needs / GIB:.1f} GiB, {(needed.vllm_needs - needed.vllm) / GIB:.1f} GiB more"
        )
    return ""


def refuse(problem: str, remedies: list[str]) -> None:
    """Raise SailRLError that says what does not fit and what would."""
    what = " | ".join(remedies) if remedies else "nothing that was tried; take a smaller model"
    raise SailRLError(f"this cannot fit: {problem}; what would: {what}")
