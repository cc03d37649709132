"""The SFT pipeline (paper section 3.4.1): which steps turn raw rows into LongCoT examples, in which order."""

import functools
from dataclasses import dataclass
from typing import ClassVar, get_args

from sailrl_lite.config import _Config
from sailrl_lite.curation.annotate import Teacher, annotate
from sailrl_lite.curation.clean import box_answer, clean_gold, clean_text
from sailrl_lite.curation.duplicates import duplicate_key, find_duplicates
from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.pipeline import Batch, Choose, Map, Step
from sailrl_lite.curation.quality import (
    DirectAccuracy,
    LabelRule,
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
from sailrl_lite.errors import SailRLError


@dataclass(frozen=True)
class SFTOptions(_Config):
    """What can be chosen about the SFT pipeline; `check` says whether it can be.

    Attributes:
        label: how rows without a complexity label get one: by "kind", by the "form" of the question, or by
            the policy's own "accuracy" when it answers directly.
        direct: with "accuracy", the share of right direct answers from which on thinking is not needed.
        redundancy: the highest overlap of a trace with question and answer; 1 drops none.
        balance: the most that a bin of trace lengths may hold, in median bins.
        test: the share of rows that are held out.
        batch: rows that go to a teacher or the policy at once.
        seed: of all that is drawn.
    """

    label: LabelRule = "kind"
    direct: float = 0.5
    redundancy: float = 0.9
    balance: float = 2.0
    test: float = 0.05
    batch: int = 256
    seed: int = 0

    ranges: ClassVar = {
        "direct": (0, 1),
        "redundancy": (0, 1),
        "balance": (1, float("inf")),
        "test": (0, 1),
        "batch": (1, 10**6),
        "seed": (0, 2**32 - 1),
    }
    choices: ClassVar = {"label": get_args(LabelRule)}


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
