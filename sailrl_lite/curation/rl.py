"""The RL pipeline (paper section 3.4.5): which steps turn raw rows into RL data, in which order."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

from sailrl_lite.config import _Config
from sailrl_lite.curation.choices import STEP as OPEN
from sailrl_lite.curation.choices import to_open
from sailrl_lite.curation.clean import clean_gold, clean_text
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates
from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.mix import Decontaminate, Mode, References, mix_step, part_of
from sailrl_lite.curation.passrate import PassRate, Sampler
from sailrl_lite.curation.pipeline import Batch, Choose, Drop, Map, Step
from sailrl_lite.curation.quality import (
    DirectAccuracy,
    LabelRule,
    label_by_accuracy,
    label_by_form,
    label_by_kind,
    split_key,
    split_rows,
)
from sailrl_lite.curation.schema import Row
from sailrl_lite.errors import SailRLError


@dataclass(frozen=True)
class RLOptions(_Config):
    """What can be chosen about the RL pipeline; `check` says whether it can be.

    Attributes:
        label: how rows without a complexity label get one: by "kind", by the "form" of the question, or by
            the policy's own "accuracy" when it answers directly.
        direct: with "accuracy", the share of right direct answers from which on thinking is not needed.
        tries, low, high: STEM rows stay if the share of right ones among `tries` lies strictly between; a
            `low` under 0 keeps those that are never right, a `high` over 1 those that always are.
        stem, general: the mix; the account's is 50 to 20. 0 leaves a part out.
        overlaps: what becomes of rows that are in an evaluation set, "report" or "drop".
        test: the share of rows that are held out.
        batch: rows that go to the policy at once; it is part of what decides the tries.
        seed: of all that is drawn.
    """

    label: LabelRule = "kind"
    direct: float = 0.5
    tries: int = 4
    low: float = 0.0
    high: float = 1.0
    stem: float = 50.0
    general: float = 20.0
    overlaps: Mode = "report"
    test: float = 0.0
    batch: int = 64
    seed: int = 0

    ranges: ClassVar = {
        "direct": (0, 1),
        "tries": (1, 1000),
        "low": (-1, 1),
        "high": (0, 2),
        "stem": (0, 10**6),
        "general": (0, 10**6),
        "test": (0, 1),
        "batch": (1, 10**6),
        "seed": (0, 2**32 - 1),
    }
    choices: ClassVar = {"label": get_args(LabelRule), "overlaps": get_args(Mode)}

    def check(self) -> None:
        super().check()
        if not any(self.low < right / self.tries < self.high for right in range(self.tries + 1)):
            between = f"low={self.low:g} and high={self.high:g}"
            raise SailRLError(f"no share of {self.tries} tries lies between {between}; widen them")
        if not self.stem + self.general:
            raise SailRLError("stem and general cannot both be 0: nothing would be left")


def rl_steps(
    options: RLOptions | None = None,
    sampler: Sampler | None = None,
    scores: Path | None = None,
    references: References | None = None,
    accuracy: DirectAccuracy | None = None,
) -> list[Step]:
    """The steps: clean, label, open, remove duplicates and overlaps, filter by pass rate, mix, split.

    Args:
        options: None is the defaults.
        sampler: the policy at hand; without one no row is filtered by its pass rate.
        scores: the file that keeps the pass rates (`PassRate`).
        references: the evaluation sets; without them there is nothing to look for.
        accuracy: the policy's direct accuracy, for the label rule of that name.

    Raises:
        SailRLError: an option is out of its range, or the rule "accuracy" has nobody to ask.
    """
    options = options or RLOptions()
    options.check()
    steps: list[Step] = [
        Map("images", clean_image),
        Map("question", clean_text),
        Map("gold", clean_gold),
        _label(options, accuracy),
        Map(OPEN, open_stem),
        Choose("duplicates", duplicate_key, find_duplicates),
    ]
    if references is not None:
        steps.append(Batch("decontaminate", Decontaminate(references, options.overlaps)))
    if sampler is not None:
        rate = PassRate(sampler, scores, options.tries, options.low, options.high, options.seed)
        steps.append(Batch("pass rate", rate, options.batch))
    steps.append(mix_step(options.stem, options.general, options.seed))
    if options.test:
        split = functools.partial(split_rows, test=options.test, seed=options.seed)
        steps.append(Choose("split", split_key, split))
    return steps


def open_stem(row: Row) -> Row | Drop:
    """The step "open": `to_open` for STEM rows; the account converts no others."""
    return to_open(row) if part_of(row) == "stem" else row


def _label(options: RLOptions, accuracy: DirectAccuracy | None) -> Step:
    if options.label == "accuracy":
        if accuracy is None:
            raise SailRLError(
                "the label rule 'accuracy' needs a policy to ask; name one, or use 'kind' or 'form'"
            )
        rule = functools.partial(label_by_accuracy, accuracy=accuracy, threshold=options.direct)
        return Batch("label", rule, options.batch)
    return Map("label", label_by_form if options.label == "form" else label_by_kind)
