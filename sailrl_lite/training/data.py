"""Data for TRL: micro-world problems, drawn, rendered and taught when read, or the rows of a curated file.

Row `i` is always the same, so a run that resumes sees the same data; no micro-world picture is ever stored.
"""

import functools
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from datasets import Dataset, disable_progress_bars
from PIL import Image
from tqdm.auto import tqdm

from sailrl_lite.config import Lessons
from sailrl_lite.curation.readers import MICRO, problem_of
from sailrl_lite.curation.schema import Row, check_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.response import render_response
from sailrl_lite.training.models import CAPTION, SPECIAL, MicroProcessor, prompt_of
from sailrl_lite.training.policies import note
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.scenes import fit
from sailrl_lite.world.teacher import Noise, describe, teach

disable_progress_bars()  # of the library: it would draw one for each file that it opens
_CHUNK = 256  # rows whose tokens are counted together


@dataclass(frozen=True)
class Reader:
    """What a policy can be shown. Rows are never cut, for a cut would take image tokens or the answer.

    setting, longest: the name of the limit of tokens, picture included, that a row can have, and its value; 0
        is no limit.
    """

    processor: MicroProcessor
    setting: str = ""
    longest: int = 0

    def tokens(self, conversations: list[list[dict[str, str]]], sizes: list[tuple[int, int]]) -> list[int]:
        """The tokens of prompts, or prompts with completions, about a picture (width, height) each."""
        texts = [
            self.processor.apply_chat_template(
                [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": turn["content"]}]}]
                + [{"role": t["role"], "content": [{"type": "text", "text": t["content"]}]} for t in more],
                add_generation_prompt=not more,
            )
            for turn, *more in conversations
        ]
        read = self.processor.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return [
            len(ids) - 1 + self.processor.picture_tokens(*size) for ids, size in zip(read, sizes, strict=True)
        ]

    def check(self, row: dict[str, Any], name: str) -> dict[str, Any]:
        """The row itself; raises SailRLError if it is too long."""
        if self.longest:
            (tokens,) = self.tokens([row["prompt"] + row.get("completion", [])], [row["image"].size])
            if tokens > self.longest:
                raise SailRLError(f"{name} has {tokens} tokens; set {self.setting} to at least that")
        return row


def problem_at(index: int, families: Sequence[str], shortcut: float = 0.0) -> Problem:
    """Training problem number `index` of a stream that goes through the families in turn."""
    return make_problem(families[index % len(families)], index // len(families), "train", shortcut)


def sft_dataset(
    rows: int,
    noise: Noise,
    captions: int = 0,
    shortcut: float = 0.0,
    lessons: Lessons = "full",
    reader: Reader | None = None,
) -> Dataset:
    """`rows` fresh lessons with TRL's columns `prompt`, `completion`, `image`; the first are `captions`.

    With `lessons` "direct" the teacher answers at once, rightly, and `noise` does nothing. A lesson that is
    longer than the limit of `reader` is an error when it is read.
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
        row = {"prompt": prompt_of(question), "completion": completion, "image": problem.image}
        return reader.check(row, f"lesson {index} of the micro-world") if reader else row

    return numbered(rows, lesson)


def rl_dataset(
    rows: int,
    families: Sequence[str] = tuple(FAMILIES),
    shortcut: float = 0.0,
    label_noise: float = 0.0,
    chosen: Sequence[int] | None = None,
    reader: Reader | None = None,
) -> Dataset:
    """`rows` problems: `prompt` and `image` for TRL; for the reward `gold`, `problem`, and the complexity
    label: `needs_thinking` as it is paid, `truly_needs_thinking` as it is.

    Args:
        label_noise: share of the problems whose `needs_thinking` is turned, the same ones in every run.
        chosen: numbers of the problems in the stream of `problem_at`, at least `rows`; None is all in turn.
        reader: a problem longer than its limit is an error when it is read.
    """

    @functools.lru_cache(maxsize=4096)  # TRL reads each row once a rollout and once an update
    def example(index: int) -> dict[str, Any]:
        problem = problem_at(index if chosen is None else chosen[index], families, shortcut)
        row = {
            "prompt": prompt_of(problem.question),
            "image": problem.image,
            "gold": problem.gold,
            **_labels(problem.id, problem.needs_thinking, label_noise),
            "problem": problem,
        }
        return reader.check(row, f"problem {problem.id}") if reader else row

    return numbered(rows, example)


def _labels(name: str, label: bool, noise: float) -> dict[str, bool]:
    """The two labels of a row. Which rows are turned hangs on their names alone; more noise adds to them."""
    turned = random.Random(f"label/{name}").random() < noise
    return {"needs_thinking": label != turned, "truly_needs_thinking": label}


def check_data(file: str) -> None:
    """Raise SailRLError if a file of curated rows is named and is none."""
    if file and not Path(file).is_file():
        raise SailRLError(
            f"there is no file {file}; make it with `sailrl-lite curate`, or name another with --data"
        )
    if file and not check_rows(file):
        raise SailRLError(f"{file} holds no rows; the report beside it says why they were dropped")


def curated_dataset(
    file: Path,
    rows: int,
    seed: int,
    responses: bool,
    label_noise: float = 0.0,
    reader: Reader | None = None,
    bar: bool = False,
) -> Dataset:
    """`rows` rows of the train split of a curated file, in a new order each time round.

    Columns: `prompt`, `image`; for SFT `completion`; for the reward `gold`, both labels and, where all rows
    are the micro-world's, `problem`.

    Args:
        responses: for SFT; rows without an annotated response are left out.
        label_noise: as of `rl_dataset`.
        reader: pictures are as its policy is shown them, and rows longer than its limit are left out, with a
            word on standard error. None is the micro policy, without a limit.
        bar: shows the count of tokens.

    Raises:
        SailRLError: the file is missing, holds no curated rows or none that can be used, lacks a complexity
            label, asks with a token of the policy's own, or holds a picture that cannot be shown.
    """
    check_data(str(file))
    table = Dataset.from_parquet(str(file))
    shown_as = reader.processor.shown if reader else fit
    specials = reader.processor.special_tokens() if reader else SPECIAL
    needed = "completion" if responses else "needs_thinking"
    columns = (list(table[name]) for name in ("id", "source", "question", "split", needed))
    usable, sources = [], set()
    for k, (name, source, question, split, value) in enumerate(zip(*columns, strict=True)):
        text = question + (value[0]["content"] if responses and value else "")
        if special := next((token for token in specials if token in text), None):
            raise SailRLError(f"row {name} of {file} holds the token {special}; curate the file again")
        if split == "train" and value is not None:
            usable.append(k)
            sources.add(source)
    if not usable:
        what = "an annotated response" if responses else "a complexity label"
        raise SailRLError(
            f"{file} has no row with {what} in its train split; make it by `sailrl-lite curate`"
        )
    if reader and reader.longest:
        usable = _short(table, usable, reader, file, responses, bar)

    @functools.lru_cache(maxsize=4)
    def order(time: int) -> list[int]:
        return random.Random(f"order/{seed}/{time}").sample(usable, len(usable))

    @functools.lru_cache(maxsize=4096)
    def example(index: int) -> dict[str, Any]:
        time, place = divmod(index, len(usable))
        row = table[order(time)[place]]
        picture = _named(functools.partial(shown_as, row["image"]), row["id"], file)
        shown = {"prompt": prompt_of(row["question"]), "image": picture}
        if responses:
            return shown | {"completion": row["completion"]}
        named = Row(row["id"], b"", row["question"], row["gold"], row["source"])
        truth = {"problem": problem_of(named)} if sources == {MICRO} else {}
        labels = _labels(row["id"], row["needs_thinking"], label_noise)
        return shown | {"gold": row["gold"]} | labels | truth

    return numbered(rows, example)


def _short(
    table: Dataset, usable: list[int], reader: Reader, file: Path, responses: bool, bar: bool
) -> list[int]:
    """Of the rows `usable` those that are not too long; of pictures only the size is read."""
    raw = table.cast_column("image", datasets.Image(decode=False))
    short: list[int] = []
    starts = range(0, len(usable), _CHUNK)
    for start in tqdm(starts, desc="counting tokens", unit="chunk", disable=not bar, leave=False):
        numbers = usable[start : start + _CHUNK]
        rows = [raw[number] for number in numbers]
        talks = [prompt_of(row["question"]) + (row["completion"] if responses else []) for row in rows]
        sizes = [_size_of(row, file) for row in rows]
        try:
            counts = reader.tokens(talks, sizes)
        except SailRLError:  # a picture that is too thin: say in which row
            for row, talk, size in zip(rows, talks, sizes, strict=True):
                _named(functools.partial(reader.tokens, [talk], [size]), row["id"], file)
            raise
        short += [number for number, count in zip(numbers, counts, strict=True) if count <= reader.longest]
    limit = f"{reader.setting}={reader.longest}"
    if not short:
        raise SailRLError(f"every row of {file} has more than {limit} tokens; raise it, or curate other rows")
    if left_out := len(usable) - len(short):
        note(f"{left_out:,} of {len(usable):,} rows of {file} are left out: more than {limit} tokens")
    return short


def _named(do: Callable[[], Any], name: str, file: Path) -> Any:
    """What `do` gives; an error of the user's also says of which row it is."""
    try:
        return do()
    except SailRLError as error:
        raise SailRLError(f"row {name} of {file}: {error}") from error


def _size_of(row: dict[str, Any], file: Path) -> tuple[int, int]:
    """Width and height; how a picture is turned changes nothing in the number of its tokens."""
    try:
        with Image.open(io.BytesIO(row["image"]["bytes"])) as picture:
            return picture.size
    except (OSError, ValueError, TypeError, SyntaxError, Image.DecompressionBombError) as error:
        raise SailRLError(
            f"row {row['id']} of {file}: its picture cannot be read; curate it again"
        ) from error


def numbered(rows: int, make: Callable[[int], dict[str, Any]]) -> Dataset:
    def transform(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        made = [make(index) for index in batch["index"]]
        return {key: [row[key] for row in made] for key in made[0]}

    return Dataset.from_dict({"index": list(range(rows))}).with_transform(transform)
