"""What a judge of reasoning is: it is given cases and returns, for each, scores with reasons or no verdict.

A judge scores the trace of one response on three dimensions (paper section 3.2):

    logic        d1: the right model of the problem, and no slip in the deduction
    grounding    d2: every claim is supported by image, question or world knowledge
    consistency  d3: the answer follows from the trace, be it true or not

"The judge said 0" and "there is no verdict" are different things, and different types.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from PIL import Image

    from sailrl_lite.world.problems import Problem

Dimension = Literal["logic", "grounding", "consistency"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


@dataclass(frozen=True)
class Scores:
    """The judge's scores of one trace: d1, d2, d3, each in [0, 1]. No verdict is None, not Scores."""

    logic: float
    grounding: float
    consistency: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"score {name} must be a number from 0 to 1, not {value!r}")

    def binary(self, threshold: float = 1.0) -> "Scores":
        """The discrete verdict behind continuous scores (paper table 7): 1 from the threshold on, else 0.

        >>> Scores(1.0, 0.75, 0.5).binary()
        Scores(logic=1, grounding=0, consistency=0)
        """
        return Scores(*(int(value >= threshold) for value in vars(self).values()))


@dataclass(frozen=True)
class Case:
    """What a judge is shown: a question about a picture, and the trace and answer of one response.

    problem: the truth behind a micro-world question, which only the exact judge looks at.
    """

    question: str
    think: str
    answer: str | None
    image: "Image.Image | None" = field(default=None, compare=False, repr=False)
    problem: "Problem | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Verdict:
    """Scores in [0, 1] by dimension, with reasons where the judge gave some. A score is an attribute too.

    >>> verdict = Verdict({"logic": 1, "grounding": 0, "consistency": 1}, {"grounding": "left is 80, not 90"})
    >>> verdict.grounding, verdict.reasons["grounding"]
    (0, 'left is 80, not 90')
    >>> verdict.scores
    Scores(logic=1, grounding=0, consistency=1)
    """

    values: Mapping[str, float]
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> float:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"this verdict has no score {name!r}; it has {', '.join(values)}")

    @property
    def scores(self) -> Scores:
        """The three scores. Raises AttributeError if one was not asked for."""
        return Scores(self.logic, self.grounding, self.consistency)


@dataclass(frozen=True)
class NoVerdict:
    """Why there are no scores: `cause` is one of few words, to be counted; `detail` is for a person."""

    cause: str
    detail: str = ""


class Judge(ABC):
    """Anything that can score cases.

    name: what reports and logs call it.
    paid: whether a verdict costs money, so that none should be asked for in vain.
    needs_truth: whether it can judge only cases that come with their `problem`.
    """

    name: str
    paid: bool = False
    needs_truth: bool = False

    @abstractmethod
    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        """One verdict, or the cause of none, for each case, in their order.

        Args:
            continuous: ask for scores anywhere in [0, 1] instead of 0 and 1.
            sample: which of several independent opinions; a judge that always says the same ignores it.

        Raises:
            SailRLError: the judge cannot work at all, whatever the case (a wrong key, an unknown model).
        """

    @property
    def stopped(self) -> str:
        """Why no further verdicts will come (a budget is spent); "" while they do."""
        return ""

    def usage(self) -> dict[str, float]:
        """What the judge has used so far: calls, tokens, cost, seconds; empty for one that is free."""
        return {}

    def status(self) -> str:
        """The same in a few words, for a progress bar; "" for one that is free."""
        return ""

    def keep(self, folder: Path) -> None:  # noqa: B027 (a free judge has nothing to keep)
        """Keep what is used in judge.json of a run's folder from now on, and go on from what it holds."""
