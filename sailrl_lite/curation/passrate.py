"""pass@4 as the account means it: the share of four tries whose boxed answer equals the gold one.

It is NOT the usual pass@k, the chance that at least one of k tries is right. Problems that the policy at hand
never gets right, or always, teach nothing in RL: each try earns what the others earn.
"""

import functools
import hashlib
import io
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from sailrl_lite.answers import equivalent
from sailrl_lite.curation.images import content_hash
from sailrl_lite.curation.mix import part_of
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row
from sailrl_lite.errors import SailRLError
from sailrl_lite.pictures import data_url
from sailrl_lite.response import parse_response


class Sampler(Protocol):
    """A policy that answers."""

    @property
    def fingerprint(self) -> str:
        """A text that is another one if the weights are, or a setting on which the responses depend."""
        ...

    def __call__(self, rows: Sequence[Row], tries: int, seed: int) -> list[list[str]]:
        """`tries` sampled responses to each row; the same ones whenever the same rows are asked together."""
        ...


@dataclass(frozen=True)
class PassRate:
    """The function of the step "pass rate": scores STEM rows, and keeps those strictly between low and high.

    Reasons: "never right" (a share of at most `low`), "always right" (of at least `high`). A general row is
    let through untried: the account filters the STEM part only.

    Attributes:
        scores: a file that keeps what was found, by what it depends on; None keeps nothing. A chunk is
            written whole or not at all, so a run that was killed repeats at most the chunk it was in, and
            ends as if it had not been.
        tries: responses a row, at least 1.
        low, high: the account's are 0 and 1.
        seed: of the sampling.
    """

    sampler: Sampler
    scores: Path | None = None
    tries: int = 4
    low: float = 0.0
    high: float = 1.0
    seed: int = 0

    def __call__(self, rows: list[Row]) -> list[Row | Drop]:
        tried = [row for row in rows if part_of(row) == "stem"]
        rates = dict(zip([row.id for row in tried], self.rates(tried), strict=True))
        return [self._kept(row, rates[row.id]) if row.id in rates else row for row in rows]

    def rates(self, rows: Sequence[Row]) -> list[float]:
        """The share of right tries for each row, of whatever part, in [0, 1]."""
        keys = [self._key(row) for row in rows]
        with _opened(self.scores) as store:
            rates = dict(found for key in keys if (found := store.execute(_FIND, (key,)).fetchone()))
            new = {key: row for key, row in zip(keys, rows, strict=True) if key not in rates}
            if new:
                texts = self.sampler(list(new.values()), self.tries, self.seed)
                found = {key: _share_right(new[key], some) for key, some in zip(new, texts, strict=True)}
                with store:  # one transaction
                    store.executemany(_KEEP, found.items())
                rates |= found
        return [rates[key] for key in keys]

    def _kept(self, row: Row, rate: float) -> Row | Drop:
        note = f"{round(rate * self.tries)} of {self.tries} tries are right"
        if rate <= self.low:
            return Drop("never right", note)
        if rate >= self.high:
            return Drop("always right", note)
        return row.with_change("pass rate", note, pass_rate=rate)

    def _key(self, row: Row) -> str:
        what = (
            row.question,
            row.gold,
            content_hash(row.image),
            self.sampler.fingerprint,
            self.tries,
            self.seed,
        )
        return hashlib.sha256(repr(what).encode()).hexdigest()


@dataclass(frozen=True)
class MicroSampler:
    """The policy of a checkpoint's folder, in this process; it is loaded when it is first asked.

    What cannot be asked (a question of more than 1,000 characters, or with a token of the chat template in
    it) gets empty responses. The tries of a row depend on the rows that are asked with it.

    Attributes:
        prefill: how each response starts. With `study.evaluation.NEVER_THINK`, `PassRate.rates` is the
            accuracy of direct answers.

    Raises:
        SailRLError: when asked, if there is no such checkpoint.
    """

    folder: Path
    temperature: float = 1.0
    max_new_tokens: int = 64
    prefill: str = ""

    @functools.cached_property
    def fingerprint(self) -> str:
        return f"{_hash_of_files(self.folder)} {self.temperature:g} {self.max_new_tokens} {self.prefill}"

    @functools.cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from sailrl_lite.training.policies import load_policy

        return load_policy(self.folder)

    def __call__(self, rows: Sequence[Row], tries: int, seed: int) -> list[list[str]]:
        from sailrl_lite.training.rollout import respond

        policy, processor = self._loaded
        special = processor.special_tokens()
        asked = [
            row
            for row in rows
            if len(row.question) <= 1000 and not any(token in row.question for token in special)
        ]
        if not asked:
            return [[""] * tries for _ in rows]
        questions, pictures = [row.question for row in asked], [_picture(row, processor) for row in asked]
        options: dict[str, Any] = dict(max_new_tokens=self.max_new_tokens, temperature=self.temperature)
        texts = respond(
            policy, processor, questions, pictures, tries, self.prefill, seed=_seed(seed, asked), **options
        )
        found = {
            row.id: [self.prefill + text for text in some] for row, some in zip(asked, texts, strict=True)
        }
        return [found.get(row.id, [""] * tries) for row in rows]


@dataclass(frozen=True)
class VLLMSampler:
    """A vision-language model on a GPU, through vLLM. `make check-vllm` has run it, but on a CPU.

    Attributes:
        model: a folder, or a hub's name; then the name stands for the weights.
    """

    model: str
    temperature: float = 1.0
    max_new_tokens: int = 4000

    @functools.cached_property
    def fingerprint(self) -> str:
        weights = _hash_of_files(Path(self.model)) if Path(self.model).is_dir() else self.model
        return f"{weights} {self.temperature:g} {self.max_new_tokens}"

    @functools.cached_property
    def _engine(self) -> Any:
        try:
            from vllm import LLM
        except ImportError as error:
            raise SailRLError(f"{self.model} needs vLLM: pip install 'sailrl-lite[gpu]'") from error
        try:
            return LLM(self.model)
        except Exception as error:  # whatever the library raises of a model, or of a machine without a GPU
            first = str(error).strip().partition("\n")[0]
            raise SailRLError(
                f"vLLM cannot load {self.model} ({first}); take sampler=transformers, or another --checkpoint"
            ) from error

    def __call__(self, rows: Sequence[Row], tries: int, seed: int) -> list[list[str]]:
        engine = self._engine
        from vllm import SamplingParams

        params = [
            SamplingParams(
                n=tries, temperature=self.temperature, max_tokens=self.max_new_tokens, seed=_seed(seed, [row])
            )
            for row in rows
        ]
        outputs = engine.chat([_message(row) for row in rows], params, use_tqdm=False)
        return [[response.text for response in output.outputs] for output in outputs]


_FIND = "SELECT key, rate FROM rates WHERE key = ?"
_KEEP = "INSERT OR REPLACE INTO rates VALUES (?, ?)"


@contextmanager
def _opened(file: Path | None) -> Iterator[sqlite3.Connection]:
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(file or ":memory:", timeout=60)) as store:
            store.execute("CREATE TABLE IF NOT EXISTS rates (key TEXT PRIMARY KEY, rate REAL)")
            yield store
    except sqlite3.Error as error:
        raise SailRLError(f"{file} cannot keep the pass rates ({error}); move it away") from error


def _share_right(row: Row, texts: Sequence[str]) -> float:
    return sum(equivalent(row.gold, parse_response(text).answer) for text in texts) / len(texts)


def _seed(seed: int, rows: Sequence[Row]) -> int:
    """A seed of 31 bits that depends on the rows and on nothing that was asked before."""
    what = [seed, *((row.question, content_hash(row.image)) for row in rows)]
    return int(hashlib.sha256(repr(what).encode()).hexdigest()[:8], 16) >> 1


def _hash_of_files(folder: Path) -> str:
    """16 hexadecimal digits of what a checkpoint's policy depends on."""
    total = hashlib.sha256()
    for file in sorted(folder.glob("*")):
        if file.suffix in (".safetensors", ".json", ".jinja"):
            with file.open("rb") as data:
                total.update(f"{file.name} {hashlib.file_digest(data, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _picture(row: Row, processor: Any) -> Image.Image:
    """The picture of a row as the policy of this processor takes it."""
    with Image.open(io.BytesIO(row.image)) as image:
        shown: Image.Image = processor.shown(image)
        return shown


def _message(row: Row) -> list[dict[str, Any]]:
    with Image.open(io.BytesIO(row.image)) as image:
        picture = {"type": "image_url", "image_url": {"url": data_url(image)}}
    return [{"role": "user", "content": [picture, {"type": "text", "text": row.question}]}]
