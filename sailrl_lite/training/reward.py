"""From a response to a micro-world problem to its rewards; the exact verifier is the judge."""

from sailrl_lite.response import Response, parse_response
from sailrl_lite.rewards import Components, measure
from sailrl_lite.world.problems import Problem
from sailrl_lite.world.verifier import verify


def grade(
    problem: Problem, text: str, prefill: str = "", continuous: bool = False
) -> tuple[Response, Components]:
    """Read a response to a micro-world problem and measure all rewards; the exact verifier is the judge."""
    response = parse_response(text, prefill)
    scores = None
    if response.think:
        scores = verify(problem, response.think, response.answer).scores(continuous)
    return response, measure(response, problem.gold, problem.needs_thinking, scores)
