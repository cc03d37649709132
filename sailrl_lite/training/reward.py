"""From a response to its reward: parse, judge the trace exactly, measure, combine, and log every part."""

from collections.abc import Callable
from typing import Any

from sailrl_lite.response import Response, parse_response
from sailrl_lite.rewards import Components, get_reward, measure
from sailrl_lite.world.problems import Problem
from sailrl_lite.world.verifier import DIMENSIONS, verify


def grade(
    problem: Problem, text: str, prefill: str = "", continuous: bool = False
) -> tuple[Response, Components]:
    """Read a response to a micro-world problem and measure all rewards; the exact verifier is the judge."""
    response = parse_response(text, prefill)
    scores = None
    if response.think:
        scores = verify(problem, response.think, response.answer).scores(continuous)
    return response, measure(response, problem.gold, problem.needs_thinking, scores)


def reward_function(name: str, alpha: float | None = None) -> Callable[..., list[float | None]]:
    """What TRL's GRPOTrainer takes: one function, so that a product stays one, which logs all its parts.

    The dataset has a `problem` column. Logged columns: the seven rewards, `content` (the total without the
    format term), `trigger_rate` (1 where the think block is not blank), and the same on the problems labelled
    "no thinking needed" (`trigger_direct`) and "thinking needed" (`trigger_think`).
    """
    total, content = get_reward(name, alpha), get_reward(name, 1.0)

    def reward(
        completions: list[Any],
        problem: list[Problem],
        trainer_state: Any = None,
        log_extra: Any = None,
        **_: Any,
    ) -> list[float | None]:
        progress = trainer_state.global_step / trainer_state.max_steps if trainer_state else 1.0
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        pairs = zip(problem, texts, strict=True)
        graded = [grade(p, text, continuous=total.continuous)[1] for p, text in pairs]
        if log_extra:
            for column, values in _columns(problem, graded).items():
                log_extra(column, values)
            log_extra("content", [content(c, progress) for c in graded])
        return [total(c, progress) for c in graded]

    reward.__name__ = name
    return reward


def _columns(problems: list[Problem], graded: list[Components]) -> dict[str, list[float | None]]:
    thinks = [int(c.trace == "written") for c in graded]
    columns: dict[str, list[float | None]] = {
        name: [getattr(c, name) for c in graded] for name in ("format", "answer", "judging", "thinking")
    }
    for name in DIMENSIONS:
        columns[name] = [getattr(c, name) if t else None for c, t in zip(graded, thinks, strict=True)]
    columns["trigger_rate"] = list(thinks)
    columns["trigger_direct"] = [
        None if p.needs_thinking else t for p, t in zip(problems, thinks, strict=True)
    ]
    columns["trigger_think"] = [
        t if p.needs_thinking else None for p, t in zip(problems, thinks, strict=True)
    ]
    return columns
