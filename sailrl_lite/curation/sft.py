"""The SFT pipeline (paper section 3.4.1): which steps turn raw rows into LongCoT examples, in which order."""

import functools

from sailrl_lite.curation.annotate import Teacher, annotate
from sailrl_lite.curation.clean import box_answer, clean_gold, clean_text
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates
from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.pipeline import Batch, Choose, Map, Step
from sailrl_lite.curation.quality import (
    WORDS,
    DirectAccuracy,
    agrees,
    balance_lengths,
    label_step,
    length_key,
    split_key,
    split_rows,
    substantial,
)
from sailrl_lite.curation.settings import SFTOptions


def sft_steps(
    options: SFTOptions | None = None,
    teacher: Teacher | None = None,
    accuracy: DirectAccuracy | None = None,
) -> list[Step]:
    """The steps in the order of the account: clean, label, annotate, filter, balance, split.

    A response that came with a row is checked early ("given"), since rows are written down between steps.

    Args:
        options: None is the defaults.
        teacher: who writes traces; without one, rows that need a trace and have none are dropped.
        accuracy: the policy's direct accuracy, for the label rule of that name.

    Raises:
        SailRLError: an option is out of its range, or the rule "accuracy" has nobody to ask.
    """
    options = options or SFTOptions()
    options.check()
    return [
        Map("images", clean_image),
        Map("question", clean_text),
        Map("gold", clean_gold),
        Map("given", functools.partial(box_answer, step="given")),
        Choose("duplicates", duplicate_key, find_duplicates),
        label_step(options, accuracy),
        Batch("annotate", functools.partial(annotate, teacher=teacher), options.batch),
        Map("box", box_answer),
        Map("agreement", agrees),
        Map("redundancy", functools.partial(substantial, threshold=options.redundancy)),
        Choose(
            "length balance",
            length_key,
            functools.partial(balance_lengths, factor=options.balance, seed=options.seed),
            watch=WORDS,
        ),
        Choose("split", split_key, functools.partial(split_rows, test=options.test, seed=options.seed)),
    ]
