"""What can be chosen about the two curations."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from sailrl_lite.errors import SailRLError
from sailrl_lite.settings import Settings

LabelRule = Literal["kind", "form", "accuracy"]
Mode = Literal["report", "drop"]
Trier = Literal["transformers", "vllm"]


@dataclass(frozen=True)
class SFTOptions(Settings):
    """What can be chosen about the SFT pipeline; `check` says whether it can be.

    Attributes:
        label: how rows without a complexity label get one: by "kind", by the "form" of the question, or by
            the policy's own "accuracy" when it answers directly.
        direct: with "accuracy", the share of right direct answers from which on thinking is not needed.
        redundancy: the highest overlap of a trace with question and answer; 1 drops none.
        balance: the most that a bin of trace lengths may hold, in median bins.
        test: the share of rows that are held out.
        batch: rows that go to a teacher or the policy at once.
        seed: of all that is drawn.
    """

    label: LabelRule = "kind"
    direct: float = 0.5
    redundancy: float = 0.9
    balance: float = 2.0
    test: float = 0.05
    batch: int = 256
    seed: int = 0

    ranges: ClassVar = {
        "direct": (0, 1),
        "redundancy": (0, 1),
        "balance": (1, float("inf")),
        "test": (0, 1),
        "batch": (1, 10**6),
        "seed": (0, 2**32 - 1),
    }
    choices: ClassVar = {"label": get_args(LabelRule)}


@dataclass(frozen=True)
class RLOptions(Settings):
    """What can be chosen about the RL pipeline; `check` says whether it can be.

    Attributes:
        label: how rows without a complexity label get one: by "kind", by the "form" of the question, or by
            the policy's own "accuracy" when it answers directly.
        direct: with "accuracy", the share of right direct answers from which on thinking is not needed.
        tries, low, high: STEM rows stay if the share of right ones among `tries` lies strictly between; a
            `low` under 0 keeps those that are never right, a `high` over 1 those that always are.
        sampler: of the tries: "transformers", in this process, or "vllm", for a large policy on a GPU.
        max_new_tokens: of a try; a large policy needs more than the micro one.
        stem, general: the mix; the account's is 50 to 20. 0 leaves a part out.
        overlaps: what becomes of rows that are in an evaluation set, "report" or "drop".
        test: the share of rows that are held out.
        batch: rows that go to the policy at once; it is part of what decides the tries.
        seed: of all that is drawn.
    """

    label: LabelRule = "kind"
    direct: float = 0.5
    tries: int = 4
    low: float = 0.0
    high: float = 1.0
    sampler: Trier = "transformers"
    max_new_tokens: int = 64
    stem: float = 50.0
    general: float = 20.0
    overlaps: Mode = "report"
    test: float = 0.0
    batch: int = 64
    seed: int = 0

    ranges: ClassVar = {
        "direct": (0, 1),
        "tries": (1, 1000),
        "low": (-1, 1),
        "high": (0, 2),
        "max_new_tokens": (1, 10**6),
        "stem": (0, 10**6),
        "general": (0, 10**6),
        "test": (0, 1),
        "batch": (1, 10**6),
        "seed": (0, 2**32 - 1),
    }
    choices: ClassVar = {
        "label": get_args(LabelRule),
        "sampler": get_args(Trier),
        "overlaps": get_args(Mode),
    }

    def check(self) -> None:
        super().check()
        if not any(self.low < right / self.tries < self.high for right in range(self.tries + 1)):
            between = f"low={self.low:g} and high={self.high:g}"
            raise SailRLError(f"no share of {self.tries} tries lies between {between}; widen them")
        if not self.stem + self.general:
            raise SailRLError("stem and general cannot both be 0: nothing would be left")
