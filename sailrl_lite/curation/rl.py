"""The RL pipeline (paper section 3.4.5): which steps turn raw rows into RL data, in which order."""

import functools
from pathlib import Path

from sailrl_lite.curation.choices import STEP as OPEN
from sailrl_lite.curation.choices import to_open
from sailrl_lite.curation.clean import clean_gold, clean_text
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates
from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.mix import Decontaminate, References, mix_step, part_of
from sailrl_lite.curation.passrate import PassRate, Sampler
from sailrl_lite.curation.pipeline import Batch, Choose, Drop, Map, Step
from sailrl_lite.curation.quality import (
    DirectAccuracy,
    label_step,
    split_key,
    split_rows,
)
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.settings import RLOptions


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
        label_step(options, accuracy),
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
