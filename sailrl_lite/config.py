"""Run configurations: every value of a run in one printable object, with defaults for the preview rung."""

import difflib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import essence, read_spec
from sailrl_lite.rewards import get_reward
from sailrl_lite.world.problems import get_family
from sailrl_lite.world.teacher import Noise

# The shipped SFT policy and learned judge of this clone, wherever the command is called from.
_DATA = Path(__file__).resolve().parent.parent / "data"
SHIPPED, SHIPPED_JUDGE = _DATA / "micro-sft", _DATA / "micro-judge"
Clip = Literal["asymmetric", "adaptive"]
FilterOn = Literal["total", "content"]
Overlong = Literal["mask", "keep"]
Scale = Literal["none", "group"]
Architecture = Literal["qwen2_5_vl", "qwen3_vl"]
Lessons = Literal["full", "direct"]
RUNGS = ("preview", "single-gpu", "node", "paper")


def check_rung(name: str) -> None:
    """Raise SailRLError unless `name` is a rung of the ladder that is there."""
    if name not in RUNGS:
        raise SailRLError(f"unknown rung {name!r}; the ladder is {', '.join(RUNGS)}")
    if name != "preview":
        raise SailRLError(f"the rung {name!r} is not there yet; use 'preview'")


_RATES = "noise."  # the teacher's error rates are named `noise.slip` and so on where they are text


class Settings:
    """What all configurations can do. `ranges` are the least and the greatest value of a setting."""

    ranges: ClassVar[dict[str, tuple[float, float]]]
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    def check(self) -> None:
        """Raise SailRLError where a value is out of its range or not among the choices."""
        for name, (least, greatest) in self.ranges.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= greatest:  # NaN is in no range
                raise SailRLError(f"{name} must lie in [{least:g}, {greatest:g}], not {value}")
        for name, known in self.choices.items():
            if getattr(self, name) not in known:
                raise SailRLError(f"{name} cannot be {getattr(self, name)!r}; use one of {', '.join(known)}")

    def fixed(self) -> dict[str, Any]:
        """The settings that a resumed run must share with what it goes on with: all but a judge's limits."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return values | ({"judge": essence(values["judge"])} if "judge" in values else {})

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The configuration that `to_json` wrote.

        Raises:
            SailRLError: the text is no configuration of this kind.
        """
        try:
            values = json.loads(text)
            values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            if "noise" in values:
                values["noise"] = Noise(**values["noise"])
            return cls(**values)
        except (TypeError, ValueError, AttributeError):
            raise SailRLError(f"this is no configuration of a run: {text[:60]!r}") from None

    def with_values(self, values: dict[str, str]) -> Self:
        """A copy with some values set from text, as in `--set learning_rate=1e-4` or `--set noise.slip=0.3`.

        Raises:
            SailRLError: an unknown name (the message suggests the nearest), or a text of the wrong type.
        """
        known = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        if "noise" in known:
            known |= {_RATES + name: rate for name, rate in asdict(known["noise"]).items()}
        read: dict[str, Any] = {}
        for name, text in values.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known names: {', '.join(known)}"
                raise SailRLError(f"unknown setting {name!r}; {hint}")
            read[name] = _read(name, text, known[name])
        rates = {name.removeprefix(_RATES): read.pop(name) for name in list(read) if name.startswith(_RATES)}
        if rates:
            read["noise"] = replace(known["noise"], **rates)
        return replace(self, **read)  # type: ignore[type-var]


def _read(name: str, text: str, like: Any) -> Any:
    """The value of a text, of the type of the default it replaces."""
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(like, int | float):
            return type(like)(text)
        if like is None:
            return float(text)
        if isinstance(like, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if isinstance(like, str):
            return text
    except (KeyError, ValueError):
        pass
    raise SailRLError(f"setting {name!r} cannot be {text!r}; the default is {like!r}")


_SEEDS, _COUNT, _RATE = (0, 2**32 - 1), (1, 10**6), (1e-9, 0.1)


def check_seed(seed: int) -> None:
    """Raise SailRLError unless `seed` is one that every generator takes."""
    if not _SEEDS[0] <= seed <= _SEEDS[1]:
        raise SailRLError(f"seed must lie in [0, {_SEEDS[1]}], not {seed}")


@dataclass(frozen=True)
class SFTConfig(Settings):
    """Supervised fine-tuning of the micro policy from scratch (paper section 3.4.1).

    Attributes:
        data: a file of curated rows to learn from; "" is the micro-world's teacher.
        checkpoint: folder of the policy to start from, or "shipped"; "" is none, or with `data` the shipped
            one.
        architecture, width, layers: of a policy that starts from nothing.
        lessons: "direct" has the teacher answer every question directly, whatever its label, so that the
            policy never thinks; "full" is judgment, trace and answer.
        steps, batch: updates, and fresh lessons in each.
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
    learning_rate: float = 2e-3
    architecture: Architecture = "qwen2_5_vl"
    lessons: Lessons = "full"
    width: int = 128
    layers: int = 4
    shortcut: float = 0.0
    noise: Noise = field(default_factory=Noise)

    ranges: ClassVar = {
        "seed": _SEEDS,
        "steps": _COUNT,
        "captions": (0, 10**6),
        "batch": _COUNT,
        "learning_rate": _RATE,
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
                raise SailRLError(f"{_RATES}{name} must lie in [0, 1], not {rate}")
        errors = sum(rates.values()) - self.noise.wrong_label
        if errors > 1 + 1e-9:
            raise SailRLError(f"a trace holds one error at most: lower the rates of noise, {errors:g} in all")


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
    """Reinforcement learning with DAPO (paper section 3.4.5, appendix A.2), sized for two CPU cores.

    Attributes:
        steps: generation batches; each is `prompts` x `rollouts` responses and `updates` optimizer updates.
        checkpoint: folder of the SFT policy; "" or "shipped" is the shipped one.
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
    epochs: int = 3
    learning_rate: float = 3e-4
    temperature: float = 1.0
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

    ranges: ClassVar = {
        "seed": _SEEDS,
        "steps": _COUNT,
        "prompts": _COUNT,
        "rollouts": (2, 1000),  # a group of one has no baseline
        "updates": _COUNT,
        "epochs": _COUNT,
        "learning_rate": _RATE,
        "temperature": (0.01, 100),
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
        read_spec(self.judge)
        for family in self.families:
            get_family(family)
        if self.prompts * self.rollouts % self.updates:
            raise SailRLError("prompts x rollouts must be a multiple of updates: all updates are of one size")
        if self.filtered and self.data:
            raise SailRLError(
                "pass_low and pass_high choose among problems of the micro-world; "
                "`sailrl-lite curate` filters a file by pass rate"
            )
        low, high = self.pass_low, self.pass_high
        if low is not None and high is not None and low >= high:
            raise SailRLError(f"pass_low must be less than pass_high, not {low} and {high}")

    @property
    def filtered(self) -> bool:
        """Whether problems are chosen by their pass@4."""
        return self.pass_low is not None or self.pass_high is not None


def checkpoint_of(config: RLConfig | JudgeConfig | SFTConfig) -> Path:
    """The folder of the policy that a run starts from; "shipped" means the same in every clone."""
    return SHIPPED if config.checkpoint in ("", "shipped") else Path(config.checkpoint)
