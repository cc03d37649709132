"""Data for TRL: micro-world problems, drawn, rendered and taught when read, or the rows of a curated file.

Row `i` is always the same, so a run that resumes sees the same data; no micro-world picture is ever stored.
"""

import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, disable_progress_bars

from sailrl_lite.config import Lessons
from sailrl_lite.curation.readers import MICRO, problem_of
from sailrl_lite.curation.schema import Row, check_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.response import render_response
from sailrl_lite.training.models import CAPTION, SPECIAL, prompt_of
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.scenes import fit
from sailrl_lite.world.teacher import Noise, describe, teach

disable_progress_bars()  # of the library: it would draw one for each file that it opens


def problem_at(index: int, families: Sequence[str], shortcut: float = 0.0) -> Problem:
    """Training problem number `index` of a stream that goes through the families in turn."""
    return make_problem(families[index % len(families)], index // len(families), "train", shortcut)


def sft_dataset(
    rows: int, noise: Noise, captions: int = 0, shortcut: float = 0.0, lessons: Lessons = "full"
) -> Dataset:
    """`rows` fresh lessons with TRL's columns `prompt`, `completion`, `image`; the first are `captions`.

    With `lessons` "direct" the teacher answers at once, rightly, and `noise` does nothing.
    """

    def lesson(index: int) -> dict[str, Any]:
        problem = problem_at(index, tuple(FAMILIES), shortcut)
        if index < captions:
            question, response = CAPTION, describe(problem)
        elif lessons == "direct":
            question, response = problem.question, render_response("", problem.gold)
        else:
            question, response = problem.question, teach(problem, random.Random(f"teach/{index}"), noise).text
        completion = [{"role": "assistant", "content": response}]
        return {"prompt": prompt_of(question), "completion": completion, "image": problem.image}

    return numbered(rows, lesson)


def rl_dataset(
    rows: int,
    families: Sequence[str] = tuple(FAMILIES),
    shortcut: float = 0.0,
    label_noise: float = 0.0,
    chosen: Sequence[int] | None = None,
) -> Dataset:
    """`rows` problems: `prompt` and `image` for TRL; for the reward `gold`, `problem`, and the complexity
    label: `needs_thinking` as it is paid, `truly_needs_thinking` as it is.

    Args:
        label_noise: share of the problems whose `needs_thinking` is turned, the same ones in every run.
        chosen: numbers of the problems in the stream of `problem_at`, at least `rows`; None is all in turn.
    """

    @functools.lru_cache(maxsize=4096)  # TRL reads each row once a rollout and once an update
    def example(index: int) -> dict[str, Any]:
        problem = problem_at(index if chosen is None else chosen[index], families, shortcut)
        return {
            "prompt": prompt_of(problem.question),
            "image": problem.image,
            "gold": problem.gold,
            **_labels(problem.id, problem.needs_thinking, label_noise),
            "problem": problem,
        }

    return numbered(rows, example)


def _labels(name: str, label: bool, noise: float) -> dict[str, bool]:
    """The two labels of a row. Which rows are turned hangs on their names alone; more noise adds to them."""
    turned = random.Random(f"label/{name}").random() < noise
    return {"needs_thinking": label != turned, "truly_needs_thinking": label}


def curated_dataset(file: Path, rows: int, seed: int, responses: bool, label_noise: float = 0.0) -> Dataset:
    """`rows` rows of the train split of a curated file, in a new order each time round.

    The pictures are fitted into those of the micro-world. Columns: `prompt`, `image`; for SFT `completion`;
    for the reward `gold`, both labels and, where all rows are the micro-world's, `problem`.

    Args:
        responses: for SFT; rows without an annotated response are left out.
        label_noise: as of `rl_dataset`.

    Raises:
        SailRLError: the file is missing, holds no curated rows or none that can be used, lacks a complexity
            label, or asks with a token of the policy's own.
    """
    if not check_rows(file):
        raise SailRLError(f"{file} holds no rows; the report beside it says why they were dropped")
    table = Dataset.from_parquet(str(file))
    needed = "completion" if responses else "needs_thinking"
    columns = (list(table[name]) for name in ("id", "source", "question", "split", needed))
    usable, sources = [], set()
    for k, (name, source, question, split, value) in enumerate(zip(*columns, strict=True)):
        text = question + (value[0]["content"] if responses and value else "")
        if special := next((token for token in SPECIAL if token in text), None):
            raise SailRLError(f"row {name} of {file} holds the token {special}; curate the file again")
        if split == "train" and value is not None:
            usable.append(k)
            sources.add(source)
    if not usable:
        what = "an annotated response" if responses else "a complexity label"
        raise SailRLError(
            f"{file} has no row with {what} in its train split; make it by `sailrl-lite curate`"
        )

    @functools.lru_cache(maxsize=4)
    def order(time: int) -> list[int]:
        return random.Random(f"order/{seed}/{time}").sample(usable, len(usable))

    @functools.lru_cache(maxsize=4096)
    def example(index: int) -> dict[str, Any]:
        time, place = divmod(index, len(usable))
        row = table[order(time)[place]]
        shown = {"prompt": prompt_of(row["question"]), "image": fit(row["image"])}
        if responses:
            return shown | {"completion": row["completion"]}
        named = Row(row["id"], b"", row["question"], row["gold"], row["source"])
        truth = {"problem": problem_of(named)} if sources == {MICRO} else {}
        labels = _labels(row["id"], row["needs_thinking"], label_noise)
        return shown | {"gold": row["gold"]} | labels | truth

    return numbered(rows, example)


def numbered(rows: int, make: Callable[[int], dict[str, Any]]) -> Dataset:
    def transform(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        made = [make(index) for index in batch["index"]]
        return {key: [row[key] for row in made] for key in made[0]}

    return Dataset.from_dict({"index": list(range(rows))}).with_transform(transform)
