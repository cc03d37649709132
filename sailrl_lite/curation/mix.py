"""What goes into the RL data and what must not: the mix of STEM and general rows, and evaluation sets.

The account trains on MathVerse and WeMath material and also reports results on both, without a word about
the overlap. `Decontaminate` finds such rows, and says so or drops them.
"""

import functools
import io
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from PIL import Image

from sailrl_lite.curation.choices import without_instructions
from sailrl_lite.curation.clean import clean_question
from sailrl_lite.curation.duplicates import NEAR, normalise, picture_key, same_gold
from sailrl_lite.curation.images import safe_image
from sailrl_lite.curation.options import LETTERS, letter_of, split_options
from sailrl_lite.curation.pipeline import Choose, Drop, Dropped
from sailrl_lite.curation.readers import read_file, read_source
from sailrl_lite.curation.schema import Change, Row
from sailrl_lite.curation.settings import Mode
from sailrl_lite.curation.sources import registry

Part = Literal["stem", "general"]
log = logging.getLogger(__name__)

_LONG = 20  # words from which a question says by itself which problem it is
_SHORT = 8  # words from which it does if it also holds two numbers
_GRAM = 5  # words
_OVERLAP = 0.7  # of the n-grams of the shorter question
_FLAT = 8  # of 255: a picture whose pixels differ by less shows nothing


def part_of(row: Row) -> Part:
    """Which part of the account's RL data a row belongs to.

    A row of a registered source: as the registry says. Any other: "stem" if its kind is reasoning, or if it
    has no kind and is labelled to need thinking; else "general".
    """
    if source := registry().get(row.source):
        return "stem" if source.part == "stem" else "general"
    stem = row.kind == "reasoning" or (not row.kind and bool(row.needs_thinking))
    return "stem" if stem else "general"


# ---- the mix


def mix_step(stem: float = 50, general: float = 20, seed: int = 0) -> Choose:
    """The step "mix": drops rows at random until STEM to general is as `stem` to `general`.

    The scarcer part stays whole. Where one part is missing altogether there is nothing to mix, and all stay,
    unless the other was asked to be 0.
    """
    return Choose(
        "mix",
        _part_key,
        functools.partial(_surplus, shares={"stem": stem, "general": general}, seed=seed),
    )


def _part_key(row: Row) -> dict[str, str]:
    return {"part": part_of(row)}


def _surplus(table: pd.DataFrame, shares: Mapping[str, float], seed: int) -> dict[str, Drop]:
    members = {part: table.index[table["part"] == part] for part in shares}
    if all(shares.values()) and not all(map(len, members.values())):
        log.warning("all %d rows are of one part (STEM or general): there is nothing to mix", len(table))
        return {}
    unit = min(len(ids) / shares[part] for part, ids in members.items() if shares[part])
    rng = np.random.default_rng(seed)
    drops: dict[str, Drop] = {}
    for part, ids in members.items():
        stays = max(round(unit * shares[part]), 1) if shares[part] else 0  # no part goes altogether unasked
        surplus = len(ids) - min(len(ids), stays)
        why = Drop("surplus in the mix", f"{surplus} of {len(ids)} {part} rows are too many")
        drops |= {str(ids[k]): why for k in np.sort(rng.permutation(len(ids))[:surplus])}
    return drops


# ---- evaluation sets


@dataclass(frozen=True)
class Overlap:
    """A reference row that a row repeats: its id, and what of it."""

    reference: str
    how: str


@dataclass(frozen=True)
class Decontaminate:
    """The function of the step "decontaminate": rows that repeat one of the references are remarked on.

    In the mode "report" they stay, with the remark in their provenance (a change of no field); in the mode
    "drop" they go, with the reason "in an evaluation set".
    """

    references: "References"
    mode: Mode = "report"

    def __call__(self, rows: Sequence[Row]) -> list[Row | Drop]:
        return [self._judged(row, self.references.find(row)) for row in rows]

    def _judged(self, row: Row, found: Overlap | None) -> Row | Drop:
        if found is None:
            return row
        note = f"{found.how} as {found.reference}"
        if self.mode == "drop":
            return Drop("in an evaluation set", note, found.reference)
        return replace(row, provenance=(*row.provenance, Change("decontaminate", "", note)))


class References:
    """Rows of evaluation sets, to find again.

    A row repeats a reference if it has, the first that holds being told:

    - "same picture and question", "near picture and question": the same question, without options, about the
      same pixels, or with a perceptual hash that differs in at most `duplicates.NEAR` bits;
    - "same question": with the same gold, about whatever picture, if it says by itself which problem it is,
      that is, has at least 20 words, or 8 and two numbers. Not if the references ask it with different
      golds: then the picture makes the problem;
    - "near question": both of at least 20 words, at least 70% of the 5-grams of the shorter in the other, the
      same numbers in the same order, the same gold;
    - "same picture", "near picture": with another question. Not if the picture shows nothing.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._ids: list[str] = []
        self._golds: list[tuple[str, ...]] = []
        self._contents: list[int | None] = []
        self._numbers: list[tuple[str, ...]] = []
        self._grams: list[int] = []
        self._by_question: dict[str, list[int]] = defaultdict(list)
        self._by_gram: dict[str, list[int]] = defaultdict(list)
        self._by_content: dict[int, int] = {}
        looks = [self._add(row) for row in rows]
        self._looks = np.frombuffer(b"".join(looks), np.uint64).reshape(-1, 4)

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, row: Row) -> Overlap | None:
        """The reference that a row repeats, and how; None if it repeats none. `row` has a safe picture."""
        question, picture = _asked(row.question), picture_key(row.image)
        asked = self._by_question.get(question, [])
        near = self._near(picture["look"])
        for k in asked:
            if self._contents[k] == picture["content"]:
                return Overlap(self._ids[k], "same picture and question")
        if both := [k for k in asked if k in near]:
            return Overlap(self._ids[both[0]], "near picture and question")
        golds, words, numbers = _golds(row), _words(question), _numbers(question)
        own = len(words) >= _LONG or (len(words) >= _SHORT and len(numbers) > 1)
        if own and asked and _agree(golds, self._golds[asked[0]]):
            first, *others = (self._golds[k] for k in asked)
            if all(_agree(first, other) for other in others):
                return Overlap(self._ids[asked[0]], "same question")
        for k in self._alike(_grams(words)):
            if k not in asked and self._numbers[k] == numbers and _agree(golds, self._golds[k]):
                return Overlap(self._ids[k], "near question")
        same = self._by_content.get(picture["content"])
        if (same is None and not near) or _shows_nothing(row.image):
            return None
        how, k = ("near picture", near[0]) if same is None else ("same picture", same)
        return Overlap(self._ids[k], how)

    def _add(self, row: Row) -> bytes:
        k = len(self._ids)
        question = _asked(clean_question(row.question)[0])
        self._ids.append(row.id)
        self._golds.append(_golds(row))
        self._numbers.append(_numbers(question))
        self._by_question[question].append(k)
        grams = _grams(_words(question))
        self._grams.append(len(grams))
        for gram in grams:
            self._by_gram[gram].append(k)
        image = safe_image(row.image)
        if isinstance(image, Drop):
            self._contents.append(None)
            return bytes(32)
        picture = picture_key(image)
        self._contents.append(picture["content"])
        self._by_content.setdefault(picture["content"], k)
        return picture["look"]

    def _near(self, look: bytes) -> list[int]:
        """References with nearly this picture."""
        bits = np.bitwise_count(self._looks ^ np.frombuffer(look, np.uint64)).sum(1)
        return [k for k in np.flatnonzero(bits <= NEAR).tolist() if self._contents[k] is not None]

    def _alike(self, grams: set[str]) -> list[int]:
        """References with nearly these n-grams, the nearest first."""
        shared = Counter(k for gram in grams for k in self._by_gram.get(gram, ()))
        return [k for k, count in shared.most_common() if count >= _OVERLAP * min(len(grams), self._grams[k])]


def read_references(names: Iterable[str]) -> Iterator[Row]:
    """The rows of evaluation sets, each a source of the registry ("mathverse") or a file.

    Raises:
        SailRLError: a file or a source cannot be read.
    """
    for name in names:
        unread = 0
        for row in read_source(name) if name in registry() else read_file(name):
            if isinstance(row, Dropped):
                unread += 1
            else:
                yield row
        if unread:
            log.warning("%d rows of %s cannot be read: overlaps with them are not found", unread, name)


def _asked(question: str) -> str:
    """A question without its options, what is said about choosing one, and differences that mean nothing."""
    return normalise(without_instructions(split_options(question)[0]))


def _golds(row: Row) -> tuple[str, ...]:
    """The gold of a row, and where it is an option's letter, also the option's text."""
    options = row.options or split_options(row.question)[1]
    letter = letter_of(row.gold, options)
    return (row.gold, options[LETTERS.index(letter)]) if letter else (row.gold,)


def _agree(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(same_gold(one, other) for one in some for other in others)


@functools.lru_cache(maxsize=65536)
def _words(question: str) -> list[str]:
    """Words; a Chinese character is one."""
    return re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", question)


def _grams(words: Sequence[str]) -> set[str]:
    """The n-grams of a long question; none of a short one."""
    if len(words) < _LONG:
        return set()
    return {" ".join(words[k : k + _GRAM]) for k in range(len(words) - _GRAM + 1)}


def _numbers(question: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+(?:\.\d+)?", question))


def _shows_nothing(image: bytes) -> bool:
    with Image.open(io.BytesIO(image)) as picture:
        return int(np.ptp(np.asarray(picture.convert("L")))) < _FLAT
