"""The ways to combine the rewards of a response into one number (paper section 3.4 and tables 6 to 8)."""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from sailrl_lite.errors import SailRLError
from sailrl_lite.rewards.components import Components

ALPHA = 0.9

TERMS: dict[str, Callable[[Components], float | None]] = {
    "judging": lambda c: c.judging,
    "answer": lambda c: c.answer,
    "thinking": lambda c: c.thinking,
    "thinking[blank=1]": lambda c: 1 if c.trace == "blank" else c.thinking,  # the label-free rule
    "thinking[2:1:1]": lambda c: c.weighted(2, 1, 1),
    "thinking[1:2:1]": lambda c: c.weighted(1, 2, 1),
    "thinking[1:1:2]": lambda c: c.weighted(1, 1, 2),
    "logic": lambda c: c.logic,
    "grounding": lambda c: c.grounding,
    "consistency": lambda c: c.consistency,
    "mode=think": lambda c: int(c.decision == "think"),
    "mode=direct": lambda c: int(c.decision == "direct"),
}


@dataclass(frozen=True, repr=False)
class Combination:
    """R = alpha * (product or mean of the terms) + (1 - alpha) * format; 0 for a format error.

    terms: keys of `TERMS`.
    how: "product" (a cascade) or "mean" (additive).
    alpha: the weight of the content, from 0 to 1.
    continuous: whether the judge is to be asked for scores anywhere in [0, 1]. The arithmetic is the same.

    A call gives the reward in [0, 1], or None where the terms need a verdict and there is none. A format
    error is 0 with or without a verdict, so it need not be sent to the judge. `progress`, the share of
    training done, is there so that every reward is called alike.
    """

    name: str
    terms: tuple[str, ...]
    how: Literal["product", "mean"] = "product"
    alpha: float = ALPHA
    continuous: bool = False

    def __post_init__(self) -> None:
        if unknown := [term for term in self.terms if term not in TERMS]:
            raise SailRLError(f"reward {self.name}: unknown term {unknown[0]!r}; known: {', '.join(TERMS)}")
        if not self.terms or self.how not in ("product", "mean") or not 0 <= self.alpha <= 1:
            raise SailRLError(f"reward {self.name}: needs terms, a product or mean, and alpha from 0 to 1")

    def __call__(self, c: Components, progress: float = 1.0) -> float | None:
        if not c.format:
            return 0.0
        values = [value for term in self.terms if (value := TERMS[term](c)) is not None]
        if len(values) < len(self.terms):
            return None
        content = math.prod(values) if self.how == "product" else sum(values) / len(values)
        return self.alpha * content + _rest(self.alpha)

    @property
    def needs_scores(self) -> bool:
        """Whether a written trace must go to the judge."""
        return self(Components(1, 1, 1, None, None, None, "think", "written")) is None

    @property
    def formula(self) -> str:
        content = (" * " if self.how == "product" else " + ").join(self.terms)
        if len(self.terms) > 1:
            content = f"({content})" + (f" / {len(self.terms)}" if self.how == "mean" else "")
        return content if self.alpha == 1 else f"{self.alpha:g} * {content} + {_rest(self.alpha):g} * format"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.formula}>"


@dataclass(frozen=True, repr=False)
class Anneal:
    """A reward that moves in a straight line from one combination to another as training goes on.

    Meant for the cold start: a cascade pays nothing until all works at once, a mean pays for each part.
    `begin` and `end` are the shares of training between which it moves.

    >>> REWARDS["anneal"]
    <anneal: (1 - p) * [additive] + p * [cascade], p from 0 to 1 over progress 0..1>
    """

    name: str
    first: Combination
    last: Combination
    begin: float = 0.0
    end: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.begin < self.end <= 1:
            raise SailRLError(f"reward {self.name}: needs 0 <= begin < end <= 1")

    def __call__(self, c: Components, progress: float = 1.0) -> float | None:
        p = min(1.0, max(0.0, (progress - self.begin) / (self.end - self.begin)))
        first, last = self.first(c), self.last(c)
        return None if first is None or last is None else (1 - p) * first + p * last

    @property
    def needs_scores(self) -> bool:
        return self.first.needs_scores or self.last.needs_scores

    @property
    def continuous(self) -> bool:
        return self.first.continuous or self.last.continuous

    @property
    def formula(self) -> str:
        blend = f"(1 - p) * [{self.first.name}] + p * [{self.last.name}]"
        return f"{blend}, p from 0 to 1 over progress {self.begin:g}..{self.end:g}"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.formula}>"


def _rest(alpha: float) -> float:
    return round(1 - alpha, 12)  # 0.1 and not 0.09999999999999998


Reward = Combination | Anneal
_ALL = ("judging", "thinking", "answer")
_CASCADE, _ADDITIVE = Combination("cascade", _ALL), Combination("additive", _ALL, "mean")

# Arms without the judging reward take the label-free thinking rule. "Always" and "never" replace "does the
# mode suit the question?" by "is it this mode?"; a direct answer has no trace, hence no thinking term.
_ARMS: tuple[Reward, ...] = (
    _CASCADE,
    _ADDITIVE,
    Combination("additive-bare", _ALL, "mean", alpha=1.0),  # the account's formula, without the format term
    Combination("answer-only", ("answer",)),
    Combination("thinking+answer", ("thinking[blank=1]", "answer")),
    Combination("thinking+answer-labelled", ("thinking", "answer")),
    Combination("judging+answer", ("judging", "answer")),
    Combination("always-think", ("mode=think", "thinking", "answer")),
    Combination("never-think", ("mode=direct", "answer")),
    Combination("strict-product", ("judging", "logic", "grounding", "consistency", "answer")),
    Combination("logic-only", ("judging", "logic", "answer")),
    Combination("grounding-only", ("judging", "grounding", "answer")),
    Combination("consistency-only", ("judging", "consistency", "answer")),
    Combination("biased-logic", ("judging", "thinking[2:1:1]", "answer")),
    Combination("biased-grounding", ("judging", "thinking[1:2:1]", "answer")),
    Combination("biased-consistency", ("judging", "thinking[1:1:2]", "answer")),
    Combination("cascade-continuous", _ALL, continuous=True),
    Anneal("anneal", _ADDITIVE, _CASCADE),
)
REWARDS: dict[str, Reward] = {reward.name: reward for reward in _ARMS}


def get_reward(name: str, alpha: float | None = None) -> Reward:
    """Look a reward up by name, with another alpha if one is given.

    >>> get_reward("cascade", alpha=0.5)
    <cascade: 0.5 * (judging * thinking * answer) + 0.5 * format>
    >>> get_reward("cascad")
    Traceback (most recent call last):
    sailrl_lite.errors.SailRLError: unknown reward 'cascad'; did you mean cascade?
    """
    if name not in REWARDS:
        close = difflib.get_close_matches(name, REWARDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(REWARDS)}"
        raise SailRLError(f"unknown reward {name!r}; {hint}")
    return with_alpha(REWARDS[name], alpha)


def with_alpha(reward: Reward, alpha: float | None) -> Reward:
    """The reward with another weight of the content, or as it is if `alpha` is None."""
    if alpha is None:
        return reward
    if isinstance(reward, Anneal):
        first, last = replace(reward.first, alpha=alpha), replace(reward.last, alpha=alpha)
        return replace(reward, first=first, last=last)
    return replace(reward, alpha=alpha)
