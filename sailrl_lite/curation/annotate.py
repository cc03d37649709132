"""Annotation: judgment, trace and answer for each row, from its label and, where it needs a trace, a teacher.

A row that needs no thinking gets the canonical judgment, a blank trace and its gold. A row that does is given
to a teacher: the micro-world's own, or a model behind an OpenAI-compatible endpoint. What a teacher says is
checked by later steps.
"""

import asyncio
import functools
import io
import itertools
import json
import random
import re
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from PIL import Image

from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.readers import problem_of
from sailrl_lite.curation.schema import Row
from sailrl_lite.decision import read_decision
from sailrl_lite.pictures import data_url
from sailrl_lite.response import DIRECT, THINK
from sailrl_lite.world.teacher import CLEAN, Noise, teach

if TYPE_CHECKING:
    from sailrl_lite.judges.client import Endpoint


_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Annotation:
    """The three blocks of a response, without tags and box. A blank trace is a direct answer."""

    judge: str
    think: str
    answer: str


class Teacher(Protocol):
    """Anything that annotates rows."""

    @property
    def name(self) -> str:
        """What the provenance calls it."""

    @property
    def labels(self) -> bool:
        """Whether it decides for itself if a row needs thinking, and so is given those that need none too."""

    def annotate(self, rows: Sequence[Row]) -> Sequence[Annotation | Drop | None]:
        """For each row, in their order, an annotation, why there is none, or None where it is not known."""


def annotate(rows: Sequence[Row], teacher: Teacher | None = None) -> list[Row | Drop]:
    """The step "annotate" on some rows at once.

    A row with a whole response keeps it, and one that needs thinking and came with a trace keeps that. A row
    without a label counts as one that needs thinking. Reasons to drop: "no teacher", and the teacher's.
    """
    taught: dict[int, Annotation | Drop | None] = {}
    if teacher:
        asked = [k for k, row in enumerate(rows) if _for_teacher(row, teacher)]
        taught = dict(zip(asked, teacher.annotate([rows[k] for k in asked]), strict=True))
    done: list[Row | Drop] = []
    for k, row in enumerate(rows):
        if (found := taught.get(k)) is not None:
            done.append(_written(row, found, teacher.name if teacher else ""))
        elif _is_annotated(row):
            done.append(row)
        else:
            done.append(_written(row, _without_teacher(row), "as the label says"))
    return done


@dataclass(frozen=True)
class MicroTeacher:
    """The micro-world's teacher, who knows the truth and errs at the rates of `noise`.

    What it says about a row depends on the row and `seed` alone. It knows nothing of rows from elsewhere.
    """

    noise: Noise = CLEAN
    seed: int = 0
    name: str = "micro-world teacher"
    labels: bool = True

    def annotate(self, rows: Sequence[Row]) -> list[Annotation | None]:
        return [self._annotate(row) for row in rows]

    def _annotate(self, row: Row) -> Annotation | None:
        problem = problem_of(row)
        if problem is None:
            return None
        lesson = teach(problem, random.Random(f"curate/{self.seed}/{row.id}"), self.noise)
        return Annotation(THINK if lesson.thinks else DIRECT, lesson.trace, lesson.answer)


class LLMTeacher:
    """A model behind an OpenAI-compatible endpoint, asked for all three blocks as JSON.

    It is told that its answer will be checked, and not what the gold is. With `guided` it is shown the gold,
    as the paper's guided prompting is understood here: more traces then pass the check, but a trace may argue
    towards a known end, and the check can no longer tell. A paid reply is kept in the endpoint's cache, so a
    run that was killed does not pay for it again.

    Raises:
        SailRLError: a setting of the endpoint is out of its range, there is no key, or, on annotating, the
            endpoint refuses all calls.
    """

    labels = False

    def __init__(self, endpoint: "Endpoint", guided: bool = False) -> None:
        from sailrl_lite.judges.client import ChatClient  # here: the openai package is an extra

        self.endpoint, self.guided = endpoint, guided
        self.name = f"llm:{endpoint.model}" + (" guided" if guided else "")
        self._client = ChatClient(endpoint)

    def annotate(self, rows: Sequence[Row]) -> list[Annotation | Drop]:
        if not rows:
            return []
        loop = asyncio.new_event_loop()
        with ThreadPoolExecutor(1) as pool:  # a notebook runs an event loop in this thread already
            done = pool.submit(_finish, loop, self._annotate(rows))
            try:
                return done.result()
            except KeyboardInterrupt:
                if not done.done():  # what is under way is given up, and nothing more is asked
                    loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
                raise

    async def _annotate(self, rows: Sequence[Row]) -> list[Annotation | Drop]:
        from sailrl_lite.judges.client import together

        async with self._client.open():
            found = await together(self._ask(row) for row in rows)
        self._client.check_answered()
        return found

    async def _ask(self, row: Row) -> Annotation | Drop:
        """The annotation of a row; asked for again where a reply holds none."""
        from sailrl_lite.judges.outcome import Message

        asked = teacher_messages(row, self.guided, self.endpoint.longest_side)
        found: Annotation | Drop = Drop("no annotation", "never asked")
        for attempt in range(self.endpoint.reasks + 1):
            reply = await self._client.ask(asked, SCHEMA, 0, attempt)
            if isinstance(reply, Message):
                found = read_annotation(reply.message)
            else:
                why = "budget spent" if reply.cause == "budget" else "no annotation"
                found = Drop(why, f"{reply.cause}: {reply.detail}")
                if reply.cause != "bad reply":
                    break
            if isinstance(found, Annotation):
                break
        return found


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("judge", "think", "answer")},
    "required": ["judge", "think", "answer"],
    "additionalProperties": False,
}


def teacher_messages(row: Row, guided: bool = False, longest_side: int = 1024) -> list[dict[str, Any]]:
    """The chat messages that ask a teacher about a row: a system message, then picture and question."""
    system = _prompt("teacher").replace("{{guidance}}", _prompt("guided" if guided else "checked"))
    question = f"Question:\n{row.question}" + (f"\n\nThe right answer: {row.gold}" if guided else "")
    with Image.open(io.BytesIO(row.image)) as picture:
        url = data_url(picture, longest_side)
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
    return [{"role": "system", "content": system}, {"role": "user", "content": parts}]


def read_annotation(message: dict[str, Any]) -> Annotation | Drop:
    r"""The annotation in one chat-completion message. Never raises.

    Its JSON object may stand in a fence or in prose, and its backslashes may be single, as models write
    LaTeX. A judgment that does not say that thinking is needed gives way to the canonical sentence.

    >>> read_annotation({"content": r'{"judge": "think", "think": "\frac{4}{8}=\frac12", "answer": 0.5}'})
    Annotation(judge='think', think='\\frac{4}{8}=\\frac12', answer='0.5')
    """
    text = message.get("content") if isinstance(message, dict) else None
    value = _json_object(text) if isinstance(text, str) else None
    if value is None:
        return Drop("no annotation", f"a reply without the JSON asked for: {text!r}"[:200])
    parts = [value.get(name) for name in ("judge", "think", "answer")]
    judge, think, answer = (
        str(part).strip() if isinstance(part, str | int | float) and not isinstance(part, bool) else ""
        for part in parts
    )
    if not think or not answer:
        return Drop("no annotation", "the reply has no trace" if answer else "the reply has no answer")
    return Annotation(judge if read_decision(judge) == "think" else THINK, think, answer)


def _json_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text that has a trace."""
    text = _BACKSLASH.sub(r"\\\\", text)
    for opening in itertools.islice(re.finditer(r'\{\s*"', text), 100):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        if "think" in value:
            return value
    return None


# A pair of backslashes, or one that JSON would not understand, or would take for a control character though
# LaTeX is meant: \frac, \times, \nu, \right, \underline, ...
_BACKSLASH = re.compile(
    r"""\\\\|\\(?:(?=[^"\\/nrtu])
    |(?=n(?:abla|e|earrow|eg|eq|exists|i|ot|otin|u)(?![a-z]))
    |(?=r(?:angle|ceil|floor|ho|ight|ightarrow)(?![a-z]))
    |(?=t(?:an|anh|au|ext|extbf|extit|extrm|frac|heta|herefore|ilde|imes|o|op|riangle)(?![a-z]))
    |(?=u(?![0-9a-fA-F]{4})))""",
    re.VERBOSE,
)


def _finish(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _Found]) -> _Found:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


def _for_teacher(row: Row, teacher: Teacher) -> bool:
    if _is_annotated(row) or (row.think or "").strip():
        return False
    return teacher.labels or row.needs_thinking is not False


def _is_annotated(row: Row) -> bool:
    return None not in (row.judge, row.think, row.answer)


def _without_teacher(row: Row) -> Annotation | Drop:
    if row.needs_thinking is False:
        return Annotation(DIRECT, "", row.gold)
    if row.think and row.think.strip():
        return Annotation(THINK, row.think, row.answer or row.gold)
    return Drop("no teacher", "it needs a trace, and there is nobody to write one")


def _written(row: Row, found: Annotation | Drop, note: str) -> Row | Drop:
    if isinstance(found, Drop):
        return found
    return row.with_change("annotate", note, judge=found.judge, think=found.think, answer=found.answer)


@functools.cache
def _prompt(name: str) -> str:
    return files("sailrl_lite.curation").joinpath("prompts", f"{name}.md").read_text("utf-8").strip()
