"""Quality: labels of complexity, and the filters that decide which annotated rows are worth learning from."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sailrl_lite.answers import equivalent
from sailrl_lite.curation.duplicates import look_of, near_groups, normalise, short_hash
from sailrl_lite.curation.options import letter_of
from sailrl_lite.curation.pipeline import Batch, Drop, Edit, Map, Step
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.settings import RLOptions, SFTOptions
from sailrl_lite.errors import SailRLError

DirectAccuracy = Callable[[Sequence[Row]], Sequence[float]]  # share of direct answers that are right, a row
WORDS = "words of the trace"
GENERIC = 20  # rows; a question that more of them ask says nothing about which problem it is


# ---- complexity labels; a row that has one keeps it


def label_by_kind(row: Row) -> Row:
    """The step "label": reasoning needs thinking, perception does not; any other kind goes by its form."""
    if row.needs_thinking is not None:
        return row
    if row.kind not in ("reasoning", "perception"):
        return label_by_form(row)
    return row.with_change("label", f"kind {row.kind}", needs_thinking=row.kind == "reasoning")


def label_by_form(row: Row) -> Row:
    """The step "label" from the words of the question, as `asks_for_thought` reads them."""
    if row.needs_thinking is not None:
        return row
    return row.with_change("label", "form of the question", needs_thinking=asks_for_thought(row.question))


def label_by_accuracy(rows: Sequence[Row], accuracy: DirectAccuracy, threshold: float = 0.5) -> list[Row]:
    """The step "label" on some rows at once: thinking is needed where direct answers are right too rarely.

    Args:
        accuracy: the policy's share of right direct answers to each row, in [0, 1].
        threshold: the share from which on a direct answer will do.
    """
    asked = [row for row in rows if row.needs_thinking is None]
    found = dict(zip((row.id for row in asked), accuracy(asked) if asked else (), strict=True))
    return [
        row.with_change(
            "label", f"direct accuracy {found[row.id]:.2f}", needs_thinking=found[row.id] < threshold
        )
        if row.id in found
        else row
        for row in rows
    ]


def label_step(options: SFTOptions | RLOptions, accuracy: DirectAccuracy | None) -> Step:
    """The step "label" by the rule that the options name.

    Raises:
        SailRLError: the rule "accuracy" has nobody to ask.
    """
    if options.label == "accuracy":
        if accuracy is None:
            raise SailRLError(
                "the label rule 'accuracy' needs a policy to ask; name one, or use 'kind' or 'form'"
            )
        rule = functools.partial(label_by_accuracy, accuracy=accuracy, threshold=options.direct)
        return Batch("label", rule, options.batch)
    return Map("label", label_by_form if options.label == "form" else label_by_kind)


def asks_for_thought(question: str) -> bool:
    """Whether the words of a question ask for more than a look at the picture.

    True if it names work to be done (calculate, prove, how many more, altogether, why, comes next, angle,
    area, probability, ...), supposes something, holds an equation or two numbers, or has more than 25 words
    before its options. Else False: what colour, which, is there, read, where, how many.

    >>> asks_for_thought("What color is the star?"), asks_for_thought("How many more stars than circles?")
    (False, True)
    """
    stem = re.split(r"\n *\(?A[).:]", question)[0]
    if _WORK.search(stem) or _EQUATION.search(stem):
        return True
    return len(_NUMBER.findall(stem)) > 1 or len(stem.split()) > 25


_WORK = re.compile(
    r"""\b(?:calculat\w*|comput\w*|solv\w*|prov\w+|deriv\w*|deduc\w*|infer\w*|determine|evaluat\w*|simplif\w*
    | estimat\w*|convert\w*|explain|why|because|suppose\w*|assum\w+|imagine|if|given\ that|such\ that
    | how\ (?:many|much)\ (?:more|fewer|less|times|longer|larger|greater)|are\ left
    | outnumber\w*|altogether|together|total|sum|difference|product|quotient|ratio|average|mean|median
    | add|subtract|multipl\w+|divid\w+|double|twice|half\ of|percent\w*|probabilit\w+|left\ over
    | comes?\ (?:next|out)|continue|missing|pattern|sequence|series|rule
    | angle|area|perimeter|volume|circumference|radius|diameter|length\ of|slope|equation|function|graph\ of
    | find|compare\w*|rank|order|step)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_EQUATION = re.compile(r"[\w)}]\s*(?:=|<=|>=|≤|≥|\\le\b|\\ge\b)\s*[\w({\\-]|\\(?:frac|sqrt|int|sum|lim)\b")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")


# ---- filters of one row


def agrees(row: Row) -> Row | Drop:
    """The step "agreement": drops a row whose annotated answer is not equivalent to its gold."""
    answer = row.answer or ""
    named = letter_of(answer, row.options) if row.options else None
    if equivalent(row.gold, answer) or (named is not None and named == letter_of(row.gold, row.options)):
        return row
    return Drop("disagrees with gold", f"the answer is {answer!r}, the gold {row.gold!r}"[:200])


def substantial(row: Row, threshold: float = 0.9) -> Row | Drop:
    """The step "redundancy": drops a row whose trace has an `overlap` above `threshold`, a number in [0, 1].

    With 1 nothing is dropped. A direct answer has no trace and stays.
    """
    if not row.think or not row.think.strip():
        return row
    share = overlap(row.think, row.question, row.answer or "")
    if share <= threshold:
        return row
    return Drop("trivial trace", f"{share:.0%} of it stands in question or answer: {row.think[:100]!r}")


def overlap(trace: str, question: str, answer: str) -> float:
    """The share of a trace's different words that stand in the question or the answer, in [0, 1].

    Numbers and the signs + - * / count as words; words that every trace has ("so", "the answer is") do not.
    A trace without any other word only restates, too: 1.

    >>> overlap("The answer is 5.", "How many?", "5"), overlap("3 red and 2: 3+2=5", "How many?", "5")
    (1.0, 0.2)
    """
    words = set(_words(trace)) - _FILLERS
    return len(words & {*_words(question), *_words(answer)}) / len(words) if words else 1.0


def trace_length(trace: str | None) -> int:
    """The number of words of a trace, numbers and signs among them; 0 for a direct answer."""
    return len(_words(trace or ""))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|[-+*/×÷]")
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        """a an and answer are as at be by can final for from get has have hence i image in is it let look me
        my of on picture question see shown shows so that the then there therefore this thus to us we what
        which with would""",
    )
)


# ---- choices among all rows


def length_key(row: Row) -> dict[str, int | None]:
    """What `balance_lengths` compares; a row without a trace has no length."""
    return {WORDS: trace_length(row.think) or None}


def balance_lengths(table: pd.DataFrame, factor: float = 2.0, seed: int = 0) -> Mapping[str, Drop]:
    """The step "length balance": no bin of trace lengths holds more than `factor` times the median bin.

    The bins are 1, 2 to 3, 4 to 7, 8 to 15, ... words. The median is that of the bins that hold at least one
    trace in twenty: a few odd ones must not decide about all. Which rows of a full bin stay is drawn with
    `seed`. Direct answers are left alone.

    Args:
        table: of `length_key`s.
        factor: from 1 on.
    """
    lengths = table[WORDS].dropna()
    bins = np.floor(np.log2(lengths)).astype(int)
    sizes = bins.value_counts()
    if sizes.empty:
        return {}
    most = int(factor * sizes[sizes >= len(lengths) / 20].median())
    drops: dict[str, Drop] = {}
    for number, rows in bins.groupby(bins):
        low, high = 2 ** int(number), 2 ** (int(number) + 1) - 1
        why = Drop("length balance", f"{len(rows)} traces have {low} to {high} words, {most} of them stay")
        drops |= dict.fromkeys(_shuffled(list(rows.index), seed)[most:], why)
    return drops


def split_key(row: Row) -> dict[str, object]:
    return {"question": short_hash(normalise(row.question)), "look": look_of(row.image), "split": row.split}


def split_rows(table: pd.DataFrame, test: float = 0.05, seed: int = 0) -> Mapping[str, Edit]:
    """The step "split": marks a share `test` of the rows, drawn with `seed`, as held out.

    Rows that share a picture, the same or nearly the same, or a question that at most `GENERIC` rows ask,
    stay together. What the reader marked as held out stays so, with all that belongs to it; the share is of
    the rest, and is not exceeded.

    Args:
        table: of `split_key`s.
        test: in [0, 1].
    """
    rows = np.arange(len(table))
    asked = table.groupby("question")["question"].transform("size").to_numpy()
    alike = np.where(asked <= GENERIC, _first_with(table["question"].to_numpy()), rows)
    links = np.concatenate([near_groups(list(table["look"])), alike])
    edges = coo_array((np.ones(2 * len(rows)), (np.tile(rows, 2), links)), (len(rows),) * 2)
    group = connected_components(edges, directed=False)[1]
    sizes = np.bincount(group)
    given = np.bincount(group, table["split"].to_numpy() == "test") > 0
    chosen = given.copy()
    room = round(test * sizes[~given].sum())
    _, leader = np.unique(group, return_index=True)  # the first row of a group
    for row in _shuffled([str(table.index[place]) for place in leader[~given]], seed):
        number = group[table.index.get_loc(row)]
        if sizes[number] <= room:
            room -= sizes[number]
            chosen[number] = True
    held_out = table.index[chosen[group] & (table["split"].to_numpy() != "test")]
    return dict.fromkeys(held_out, Edit({"split": "test"}, "held out, with all that shares its picture"))


def _first_with(values: np.ndarray) -> np.ndarray:
    """For each of N values the place of the first that equals it."""
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    return first[which]


def _shuffled(ids: Sequence[str], seed: int) -> list[str]:
    """The ids in an order that two of them have whatever others there are."""
    return sorted(ids, key=lambda name: short_hash(f"{seed}/{name}"))
