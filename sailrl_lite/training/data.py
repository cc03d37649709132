"""Endless micro-world data for TRL: a dataset of numbers whose rows are drawn, rendered and taught when read.

Row `i` is always the same problem, so a run that resumes sees the same data; no picture is ever stored.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset

from sailrl_lite.training.models import CAPTION, prompt_of
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.teacher import Noise, describe, teach


def problem_at(index: int, families: Sequence[str], shortcut: float = 0.0) -> Problem:
    """Training problem number `index` of a stream that goes through the families in turn."""
    return make_problem(families[index % len(families)], index // len(families), "train", shortcut)


def sft_dataset(rows: int, noise: Noise, captions: int = 0, shortcut: float = 0.0) -> Dataset:
    """`rows` fresh lessons with TRL's columns `prompt`, `completion`, `image`; the first are `captions`."""

    def lesson(index: int) -> dict[str, Any]:
        problem = problem_at(index, tuple(FAMILIES), shortcut)
        if index < captions:
            question, response = CAPTION, describe(problem)
        else:
            question, response = problem.question, teach(problem, random.Random(f"teach/{index}"), noise).text
        completion = [{"role": "assistant", "content": response}]
        return {"prompt": prompt_of(question), "completion": completion, "image": problem.image}

    return numbered(rows, lesson)


def rl_dataset(rows: int, families: Sequence[str] = tuple(FAMILIES), shortcut: float = 0.0) -> Dataset:
    """`rows` problems: `prompt` and `image` for TRL; `gold`, `needs_thinking`, `problem` for the reward."""

    @functools.lru_cache(maxsize=4096)  # TRL reads each row once a rollout and once an update
    def example(index: int) -> dict[str, Any]:
        problem = problem_at(index, families, shortcut)
        return {
            "prompt": prompt_of(problem.question),
            "image": problem.image,
            "gold": problem.gold,
            "needs_thinking": problem.needs_thinking,
            "problem": problem,
        }

    return numbered(rows, example)


def numbered(rows: int, make: Callable[[int], dict[str, Any]]) -> Dataset:
    def transform(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        made = [make(index) for index in batch["index"]]
        return {key: [row[key] for row in made] for key in made[0]}

    return Dataset.from_dict({"index": list(range(rows))}).with_transform(transform)
