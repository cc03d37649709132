"""The reward system of SAIL-RL (paper sections 3.2 to 3.4): seven rewards and the ways to combine them.

`measure` turns a parsed response, its gold answer, its complexity label and the judge's scores into one
`Components` record. A `Combination` is a small object that turns the record into the number that is trained
on; print it to read its formula. Everything is pure and needs no torch.

    >>> from sailrl_lite.response import parse_response
    >>> r = parse_response(r"<judge>think</judge><think>2+3=5</think><answer>\\boxed{5}</answer>")
    >>> c = measure(r, gold="5", needs_thinking=True, scores=Scores(logic=1, grounding=1, consistency=0))
    >>> REWARDS["cascade"]
    <cascade: 0.9 * (judging * thinking * answer) + 0.1 * format>
    >>> round(REWARDS["cascade"](c), 4)     # one failed sub-reward of three still pays 2/3 of the product
    0.7
    >>> REWARDS["strict-product"](c)
    0.1

A new combination is one line, and a new term one entry of `TERMS`:

    >>> Combination("mine", ("judging", "grounding", "answer"), alpha=0.8)
    <mine: 0.8 * (judging * grounding * answer) + 0.2 * format>

Two rules hold everywhere. A response with a format error is paid nothing at all, so declaring "direct" and
thinking all the same does not pay. And no verdict is not a verdict of 0: where the total needs scores that
were not given, it is None, whatever the other components are. (With a wrong answer the product would be 0
anyway, but keeping just these rollouts would drag down the baseline of their group.)
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from sailrl_lite.answers import equivalent
from sailrl_lite.decision import Decision
from sailrl_lite.errors import SailRLError
from sailrl_lite.response import Response

ALPHA = 0.9


@dataclass(frozen=True)
class Scores:
    """The judge's verdict on one trace: d1, d2, d3, each in [0, 1]. No verdict is None, not Scores."""

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


# -------------------- the seven rewards


def format_reward(response: Response) -> int:
    """1 if the response parses by the rules of the format, else 0."""
    return int(response.well_formed)


def answer_reward(response: Response, gold: str) -> int:
    """1 if the boxed answer is equivalent to the gold answer, else 0; no answer is 0."""
    return int(response.answer is not None and equivalent(gold, response.answer))


def judging_reward(response: Response, needs_thinking: bool) -> int:
    """1 if the decision equals the complexity label, else 0; no decision is 0."""
    return int(response.decision == ("think" if needs_thinking else "direct"))


def logic_reward(response: Response, needs_thinking: bool, scores: Scores | None) -> float | None:
    """d1: the right model of the problem and no slip in the deduction. None without a verdict."""
    return _sub_reward(response, needs_thinking, scores, "logic")


def grounding_reward(response: Response, needs_thinking: bool, scores: Scores | None) -> float | None:
    """d2: every claim is supported by image, question or world knowledge. None without a verdict."""
    return _sub_reward(response, needs_thinking, scores, "grounding")


def consistency_reward(response: Response, needs_thinking: bool, scores: Scores | None) -> float | None:
    """d3: the answer follows from the trace, be it true or not. None without a verdict."""
    return _sub_reward(response, needs_thinking, scores, "consistency")


def thinking_reward(response: Response, needs_thinking: bool, scores: Scores | None) -> float | None:
    """The mean of d1, d2 and d3. None without a verdict."""
    rules = (logic_reward, grounding_reward, consistency_reward)
    return _mean([rule(response, needs_thinking, scores) for rule in rules])


def _sub_reward(response: Response, needs_thinking: bool, scores: Scores | None, name: str) -> float | None:
    if response.think is None:
        return 0  # nothing to judge, and a format error anyway
    if not response.think:
        return int(not needs_thinking)  # a blank trace needs no judge: the label decides
    return None if scores is None else float(getattr(scores, name))


def _mean(parts: list[float | None], weights: tuple[int, int, int] = (1, 1, 1)) -> float | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return sum(weight * part for weight, part in zip(weights, known, strict=True)) / sum(weights)


@dataclass(frozen=True)
class Components:
    """What a combination looks at: the rewards of one response, its decision and its trace.

    logic, grounding and consistency are None where a written trace got no verdict. The trace is "unreadable"
    where the think block could not be told, which is a format error.
    """

    format: int
    answer: int
    judging: int
    logic: float | None
    grounding: float | None
    consistency: float | None
    decision: Decision | None
    trace: Literal["written", "blank", "unreadable"]

    @property
    def thinking(self) -> float | None:
        return self.weighted(1, 1, 1)

    def weighted(self, logic: int, grounding: int, consistency: int) -> float | None:
        """The thinking reward with other weights (paper table 8); they are divided by their sum."""
        return _mean([self.logic, self.grounding, self.consistency], (logic, grounding, consistency))


def measure(response: Response, gold: str, needs_thinking: bool, scores: Scores | None = None) -> Components:
    """Compute every reward of a response, those of a malformed one too: they are logged, not paid."""
    return Components(
        format=format_reward(response),
        answer=answer_reward(response, gold),
        judging=judging_reward(response, needs_thinking),
        logic=logic_reward(response, needs_thinking, scores),
        grounding=grounding_reward(response, needs_thinking, scores),
        consistency=consistency_reward(response, needs_thinking, scores),
        decision=response.decision,
        trace="unreadable" if response.think is None else "written" if response.think else "blank",
    )


# -------------------- the combinations

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
    reward = REWARDS[name]
    if alpha is None:
        return reward
    if isinstance(reward, Anneal):
        return replace(
            reward, first=replace(reward.first, alpha=alpha), last=replace(reward.last, alpha=alpha)
        )
    return replace(reward, alpha=alpha)
