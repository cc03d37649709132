"""The SFT pipeline (paper section 3.4.1): which steps turn raw rows into LongCoT examples, in which order."""

import functools

from sailrl_lite.curation.annotate import Teacher, annotate
from sailrl_lite.curation.clean import box_answer, clean_gold, clean_text
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates
from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.pipeline import Batch, Choose, Map, Step
from sailrl_lite.curation.quality import (
    DirectAccuracy,
    agrees,
    balance_lengths,
    label_by_accuracy,
    label_by_form,
    label_by_kind,
    length_key,
    split_key,
    split_rows,
    substantial,
)
from sailrl_lite.curation.settings import SFTOptions
from sailrl_lite.errors import SailRLError


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
    if options.label == "accuracy" and accuracy is None:
        raise SailRLError(
            "the label rule 'accuracy' needs a policy to ask; name one, or use 'kind' or 'form'"
        )
    return [
        Map("images", clean_image),
        Map("question", clean_text),
        Map("gold", clean_gold),
        Map("given", functools.partial(box_answer, step="given")),
        Choose("duplicates", duplicate_key, find_duplicates),
        _label(options, accuracy),
        Batch("annotate", functools.partial(annotate, teacher=teacher), options.batch),
        Map("box", box_answer),
        Map("agreement", agrees),
        Map("redundancy", functools.partial(substantial, threshold=options.redundancy)),
        Choose(
            "length balance",
            length_key,
            functools.partial(balance_lengths, factor=options.balance, seed=options.seed),
        ),
        Choose("split", split_key, functools.partial(split_rows, test=options.test, seed=options.seed)),
    ]


def _label(options: SFTOptions, accuracy: DirectAccuracy | None) -> Step:
    if options.label == "accuracy" and accuracy is not None:
        rule = functools.partial(label_by_accuracy, accuracy=accuracy, threshold=options.direct)
        return Batch("label", rule, options.batch)
    return Map("label", label_by_form if options.label == "form" else label_by_kind)
