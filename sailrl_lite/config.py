"""Run configurations: every value of a run in one printable object; the defaults are the preview rung's."""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

from sailrl_lite.engines import EngineConfig as EngineConfig
from sailrl_lite.engines import PolicyConfig as PolicyConfig
from sailrl_lite.engines import check_four_bits, check_sampler, device_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import check_judge
from sailrl_lite.rewards import get_reward
from sailrl_lite.settings import Settings
from sailrl_lite.world.problems import get_family
from sailrl_lite.world.teacher import Noise

# The shipped SFT policy and learned judge of this clone, wherever the command is called from.
_DATA = Path(__file__).resolve().parent.parent / "data"
SHIPPED, SHIPPED_JUDGE = _DATA / "micro-sft", _DATA / "micro-judge"
Clip = Literal["asymmetric", "adaptive"]
CLIP_LOW, CLIP_HIGH = 0.20, 0.28  # the paper's range (appendix A.2)
KL_ROWS = 32  # rollouts of a batch and process on which KL is measured where it is not in the loss
FilterOn = Literal["total", "content"]
Overlong = Literal["mask", "keep"]
Scale = Literal["none", "group"]
Architecture = Literal["qwen2_5_vl", "qwen3_vl"]
Lessons = Literal["full", "direct"]
_SEEDS, _COUNT, _RATE = (0, 2**32 - 1), (1, 10**6), (1e-9, 0.1)


def check_seed(seed: int) -> None:
    """Raise SailRLError unless `seed` is one that every generator takes."""
    if not _SEEDS[0] <= seed <= _SEEDS[1]:
        raise SailRLError(f"seed must lie in [0, {_SEEDS[1]}], not {seed}")


@dataclass(frozen=True)
class SFTConfig(Settings):
    """Supervised fine-tuning (paper section 3.4.1); the defaults train the micro policy from scratch.

    Attributes:
        data: a file of curated rows to learn from; "" is the micro-world's teacher.
        checkpoint: folder of the policy to start from, its name on the hub, or "shipped"; "" is none, or with
            `data` the shipped one.
        architecture, width, layers: of a policy that starts from nothing.
        lessons: "direct" has the teacher answer every question directly, whatever its label, so that the
            policy never thinks; "full" is judgment, trace and answer.
        steps, batch: updates, and fresh lessons in each, of all processes together.
        device_batch: lessons that go through a device at once; 0 is all that fall to it.
        max_tokens: longer lessons are left out, for a cut would take image tokens or the answer; 0 is no
            limit.
        weight_decay, adam_beta2: of AdamW.
        save_every: steps between checkpoints.
        captions: the first so many updates only describe pictures, as VLMs are first taught to see.
        noise: the teacher's error rates.
        shortcut: share of pictures that carry the answer mark.
    """

    seed: int = 0
    data: str = ""
    checkpoint: str = ""
    steps: int = 3600
    captions: int = 600
    batch: int = 64
    device_batch: int = 0
    max_tokens: int = 0
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    adam_beta2: float = 0.98
    save_every: int = 500
    architecture: Architecture = "qwen2_5_vl"
    lessons: Lessons = "full"
    width: int = 128
    layers: int = 4
    shortcut: float = 0.0
    noise: Noise = field(default_factory=Noise)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)

    ranges: ClassVar = {
        "seed": _SEEDS,
        "steps": _COUNT,
        "captions": (0, 10**6),
        "batch": _COUNT,
        "device_batch": (0, 10**6),
        "max_tokens": (0, 10**7),
        "learning_rate": _RATE,
        "weight_decay": (0, 1),
        "adam_beta2": (0.5, 0.99999),
        "save_every": _COUNT,
        "width": (64, 4096),
        "layers": (1, 100),
        "shortcut": (0, 1),
    }
    choices: ClassVar = {"architecture": get_args(Architecture), "lessons": get_args(Lessons)}

    def check(self) -> None:
        super().check()
        if self.width % 64:
            raise SailRLError(f"width must be a multiple of 64, not {self.width}: heads share it evenly")
        rates = asdict(self.noise)
        for name, rate in rates.items():
            if not 0 <= rate <= 1:
                raise SailRLError(f"noise.{name} must lie in [0, 1], not {rate}")
        errors = sum(rates.values()) - self.noise.wrong_label
        if errors > 1 + 1e-9:
            raise SailRLError(f"a trace holds one error at most: lower the rates of noise, {errors:g} in all")
        device_rows("batch", self.batch, self.engine.processes, self.device_batch)
        check_four_bits(self.policy, self.engine)


@dataclass(frozen=True)
class JudgeConfig(Settings):
    """Supervised fine-tuning of the learned judge, from a policy that can see and calculate.

    Attributes:
        checkpoint: folder of the policy to start from; "" or "shipped" is the shipped one.
        steps, batch: updates, and fresh labelled responses in each.
    """

    seed: int = 0
    checkpoint: str = ""
    steps: int = 1800
    batch: int = 32
    learning_rate: float = 1e-3

    ranges: ClassVar = {"seed": _SEEDS, "steps": _COUNT, "batch": _COUNT, "learning_rate": _RATE}


@dataclass(frozen=True)
class RLConfig(Settings):
    """Reinforcement learning with DAPO (paper section 3.4.5, appendix A.2); the defaults suit two CPU cores.

    Attributes:
        steps: generation batches; each is `prompts` x `rollouts` responses, of all processes together, and
            `updates` optimizer updates.
        checkpoint: folder of the SFT policy, or its name on the hub; "" or "shipped" is the shipped one.
        device_batch: responses that go through a device at once in an update; 0 is all that fall to it.
        max_prompt_tokens: longer prompts, picture included, are left out; 0 is no limit.
        data: a file of curated rows to learn from; "" is the micro-world.
        epochs: how often a run sees each problem (the paper: 3).
        reward: a name of `sailrl_lite.rewards`.
        judge: of the traces, as text (`sailrl_lite.judges.specs`).
        alpha: the weight of the content, where not the reward's own.
        clip, filter_on, refills, overlong: see `sailrl_lite.training.dapo.Dapo`.
        scale: "none" is reward minus group mean; "group" also divides by the group's deviation.
        kl: the weight in the loss of the KL divergence from the SFT policy (the paper: 0).
        label_noise: share of the problems whose complexity label is turned for the reward.
        pass_low, pass_high: train only on problems of the micro-world whose pass@4 under the starting policy
            (the share of four tries that are right) lies strictly between the two; None sets no bound.
        families: of the micro-world; empty means all.
        save_every: steps between checkpoints.
    """

    seed: int = 0
    checkpoint: str = ""
    data: str = ""
    steps: int = 60
    prompts: int = 64
    rollouts: int = 5
    updates: int = 2
    device_batch: int = 0
    epochs: int = 3
    learning_rate: float = 3e-4
    temperature: float = 1.0
    max_prompt_tokens: int = 0
    max_new_tokens: int = 64
    reward: str = "cascade"
    judge: str = "exact"
    alpha: float | None = None
    clip: Clip = "asymmetric"
    filter_on: FilterOn = "total"
    refills: int = 1
    overlong: Overlong = "mask"
    scale: Scale = "none"
    kl: float = 0.0
    shortcut: float = 0.0
    label_noise: float = 0.0
    pass_low: float | None = None
    pass_high: float | None = None
    families: tuple[str, ...] = ()
    save_every: int = 20
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)

    ranges: ClassVar = {
        "seed": _SEEDS,
        "steps": _COUNT,
        "prompts": _COUNT,
        "rollouts": (2, 1000),  # a group of one has no baseline
        "updates": _COUNT,
        "device_batch": (0, 10**6),
        "epochs": _COUNT,
        "learning_rate": _RATE,
        "temperature": (0.01, 100),
        "max_prompt_tokens": (0, 10**7),
        "max_new_tokens": _COUNT,
        "alpha": (0, 1),
        "refills": (0, 100),
        "kl": (0, 100),
        "shortcut": (0, 1),
        "label_noise": (0, 1),
        "pass_low": (0, 1),
        "pass_high": (0, 1),
        "save_every": _COUNT,
    }
    choices: ClassVar = {
        "clip": get_args(Clip),
        "filter_on": get_args(FilterOn),
        "overlong": get_args(Overlong),
        "scale": get_args(Scale),
    }

    def check(self) -> None:
        super().check()
        get_reward(self.reward, self.alpha)
        check_judge(self.judge)
        for family in self.families:
            get_family(family)
        if self.prompts * self.rollouts % self.updates:
            raise SailRLError("prompts x rollouts must be a multiple of updates: all updates are of one size")
        if self.prompts % self.engine.processes:
            raise SailRLError(
                f"prompts must be a multiple of engine.processes, not {self.prompts} of "
                f"{self.engine.processes}: the rollouts of a prompt stay in one process"
            )
        update = self.prompts * self.rollouts // self.updates
        device_rows("prompts x rollouts / updates", update, self.engine.processes, self.device_batch)
        # Of verl, `sailrl_lite.export.verl_values.refuse` says what it lacks.
        if self.engine.trainer == "trl":
            check_four_bits(self.policy, self.engine)
            check_sampler(self.policy, self.engine)
        if self.filtered and self.data:
            raise SailRLError(
                "pass_low and pass_high choose among problems of the micro-world; "
                "`sailrl-lite curate` filters a file by pass rate"
            )
        low, high = self.pass_low, self.pass_high
        if low is not None and high is not None and low >= high:
            raise SailRLError(f"pass_low must be less than pass_high, not {low} and {high}")

    @property
    def problems(self) -> int:
        """How many problems a run sees, each `epochs` times."""
        return -(-self.steps // self.epochs) * self.prompts

    @property
    def filtered(self) -> bool:
        """Whether problems are chosen by their pass@4."""
        return self.pass_low is not None or self.pass_high is not None


@dataclass(frozen=True)
class EvaluateConfig(Settings):
    """Measuring a policy on unseen problems of the micro-world.

    Attributes:
        checkpoint: folder of the policy, or its name on the hub; "" or "shipped" is the shipped one.
        problems: of each family.
        temperature: of sampling; 0 is greedy.
        families: names; empty means all.
        shortcut: share of pictures with the answer mark.
        never_think: force a direct answer by prefill.
    """

    seed: int = 0
    checkpoint: str = ""
    problems: int = 100
    temperature: float = 1.0
    max_new_tokens: int = 64
    families: tuple[str, ...] = ()
    shortcut: float = 0.0
    never_think: bool = False
    policy: PolicyConfig = field(default_factory=PolicyConfig)

    ranges: ClassVar = {
        "seed": _SEEDS,
        "problems": _COUNT,
        "temperature": (0, 100),
        "max_new_tokens": _COUNT,
        "shortcut": (0, 1),
    }

    def check(self) -> None:
        super().check()
        for family in self.families:
            get_family(family)


@dataclass(frozen=True)
class PlanConfig(Settings):
    """What `sailrl-lite plan` has to assume of a run; time and tokens rest on it, and the price of the judge.

    Attributes:
        gpu: the type, a name of `sailrl_lite/plan/hardware.toml`; "" is a core of a CPU.
        gpu_price: dollars for an hour of one; None is not known.
        prompt_tokens, completion_tokens: the mean number of tokens, of the picture too.
        picture_tokens: of those of the prompt, the picture's.
        redrawn: prompts that are drawn again since their group taught nothing, as a share.
        trigger_rate: share of responses with a written trace; only those are judged.
        reply_tokens: of the judge for a trace, its own hidden reasoning too where that is paid.
        row_bytes: of a row of data with its picture, on disk.
    """

    gpu: str = ""
    gpu_price: float | None = None
    prompt_tokens: int = 25
    completion_tokens: int = 24
    picture_tokens: int = 8
    redrawn: float = 0.11
    trigger_rate: float = 0.48
    reply_tokens: int = 150
    row_bytes: int = 100_000

    ranges: ClassVar = {
        "gpu_price": (0, 10**4),
        "prompt_tokens": _COUNT,
        "completion_tokens": _COUNT,
        "picture_tokens": (0, 10**6),
        "redrawn": (0, 10),
        "trigger_rate": (0, 1),
        "reply_tokens": (0, 10**6),
        "row_bytes": (0, 10**9),
    }

    def check(self) -> None:
        super().check()
        if self.picture_tokens > self.prompt_tokens:
            raise SailRLError(
                f"picture_tokens must be at most prompt_tokens, not {self.picture_tokens} of "
                f"{self.prompt_tokens}: the prompt's tokens hold the picture's"
            )


def is_hub_name(checkpoint: str | Path) -> bool:
    """Whether a checkpoint has the form of a name on the hub, OWNER/NAME, and no folder stands there.

    >>> is_hub_name("Qwen/Qwen2.5-VL-3B-Instruct"), is_hub_name("runs/sft/policy"), is_hub_name("../policy")
    (True, False, False)
    """
    return bool(re.fullmatch(r"\w[\w.-]*/[\w.-]+", str(checkpoint))) and not Path(checkpoint).exists()


def checkpoint_of(config: RLConfig | JudgeConfig | SFTConfig | EvaluateConfig) -> Path:
    """The folder of the policy that a run starts from; "shipped" means the same in every clone."""
    return SHIPPED if config.checkpoint in ("", "shipped") else Path(config.checkpoint)
