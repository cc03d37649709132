"""The seven rewards of one response, and the record that holds them (paper sections 3.2 and 3.3)."""

from dataclasses import dataclass
from typing import Any, Literal

from sailrl_lite.answers import equivalent
from sailrl_lite.decision import Decision
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.protocol import Scores
from sailrl_lite.response import Response


def read_label(value: Any) -> bool:
    """A complexity label as data hold it: true or false, or the number 1 or 0, of any type of number.

    Raises:
        SailRLError: anything else: as a condition, "false" would be true, and a missing label false.
    """
    if value not in (0, 1):
        raise SailRLError(f"needs_thinking must be true or false, not {value!r}; mend the data")
    return bool(value)


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
