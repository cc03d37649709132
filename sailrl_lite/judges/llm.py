"""An LLM as the judge: what it is sent, how it is called, and how its replies become one verdict."""

import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.judges.client import ChatClient, Endpoint, together
from sailrl_lite.judges.outcome import Message
from sailrl_lite.judges.prompt import messages, schema, screen
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Dimension, Judge, NoVerdict, Verdict
from sailrl_lite.judges.reply import read_reply
from sailrl_lite.pictures import data_url

_KEPT = 64  # pictures, encoded
_PAUSE = 1.0  # seconds between two writings of judge.json


class LLMJudge(Judge):
    """Asks a model behind an OpenAI-compatible endpoint, once for each dimension or once for all.

    A case has a verdict when all its parts have one; else no verdict, with the cause of the first that has
    none. `ledger` has the counts, and a line for a progress bar.

    Raises:
        SailRLError: a setting of the endpoint is out of its range, or there is no key.
    """

    paid = True

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = f"llm:{endpoint.model}"
        self._client = ChatClient(endpoint)
        self.ledger = self._client.ledger
        self._file: Path | None = None
        self._written = 0.0

    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        found: dict[int, Verdict | NoVerdict] = {}
        rows = iter(range(len(cases)))
        pictures = _Pictures(self.endpoint.longest_side)

        async def work() -> None:
            for row in rows:  # shared by all that work, so that few prompts exist at a time
                found[row] = await self._judge(cases[row], pictures, continuous, sample)
                self.ledger.count(found[row])
                self._write_usage(_PAUSE)

        try:
            async with self._client.open():
                await together(work() for _ in range(min(len(cases), self.endpoint.concurrency)))
        finally:
            self._write_usage()
        return [found[row] for row in range(len(cases))]

    @property
    def stopped(self) -> str:
        return self.ledger.stopped

    def usage(self) -> dict[str, float]:
        return self.ledger.as_dict()

    def status(self) -> str:
        return str(self.ledger)

    def keep(self, folder: Path) -> None:
        """As all judges; a run that is killed has counted all but its last second.

        Raises:
            SailRLError: judge.json is there and cannot be read.
        """
        self._file = folder / "judge.json"
        if self._file.is_file():
            try:
                self.ledger.add(json.loads(self._file.read_text(encoding="utf-8")))
            except (ValueError, TypeError, AttributeError):
                raise SailRLError(f"{self._file} holds no counts; remove it to count anew") from None

    def _write_usage(self, pause: float = 0.0) -> None:
        """Write judge.json, unless that was done less than `pause` seconds ago."""
        if self._file and time.monotonic() - self._written >= pause:
            write_text(self._file, json.dumps(self.usage(), indent=1) + "\n")
            self._written = time.monotonic()

    async def _judge(
        self, case: Case, pictures: "_Pictures", continuous: bool, sample: int
    ) -> Verdict | NoVerdict:
        if (known := screen(case)) is not None:
            return known
        picture = None if case.image is None else pictures.url(case.image)
        groups = [DIMENSIONS] if self.endpoint.calls == "combined" else [(key,) for key in DIMENSIONS]
        parts = await together(self._ask(case, picture, keys, continuous, sample) for keys in groups)
        values: dict[str, float] = {}
        reasons: dict[str, str] = {}
        for part in parts:
            if isinstance(part, NoVerdict):
                return part
            values |= part.values
            reasons |= part.reasons
        return Verdict(values, reasons)

    async def _ask(
        self, case: Case, picture: str | None, keys: tuple[Dimension, ...], continuous: bool, sample: int
    ) -> Verdict | NoVerdict:
        """The scores `keys`; asked for again where a reply came that holds no verdict."""
        asked, form = messages(case, keys, continuous, picture=picture), schema(keys, continuous)
        for attempt in range(self.endpoint.reasks + 1):
            reply = await self._client.ask(asked, form, sample, attempt)
            if isinstance(reply, Message):
                found = read_reply(reply.message, reply.finish_reason, keys, continuous)
            else:
                found = reply
            if isinstance(found, Verdict) or (found is reply and found.cause != "bad reply"):
                break
        return found


class _Pictures:
    """The data URLs of one batch: the rollouts of a problem share a picture, which is encoded once."""

    def __init__(self, longest_side: int) -> None:
        self._longest_side = longest_side
        self._urls: OrderedDict[int, str] = OrderedDict()  # by identity, which holds while the batch does

    def url(self, image: Image.Image) -> str:
        found = self._urls.get(id(image)) or data_url(image, self._longest_side)
        self._urls[id(image)] = found
        if len(self._urls) > _KEPT:
            self._urls.popitem(last=False)
        return found
