"""Multiple choice as it is written in rows: the options stand at the end of the question, one a line.

`Row.question` is the stem and the listing, since it is all that a model is shown; `Row.options` holds the
texts alone, and the gold answer is a letter.
"""

import re
from collections.abc import Sequence

LETTERS = "ABCDEFGHIJ"


def list_options(stem: str, options: Sequence[str]) -> str:
    r"""A question with its options.

    >>> list_options("How many?", ["3", "4"])
    'How many?\n(A) 3\n(B) 4'
    """
    listed = (f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
    return "\n".join([stem.strip(), *listed])


def split_options(question: str) -> tuple[str, tuple[str, ...]]:
    r"""The stem of a question and the texts of its options; no options if it lists none.

    They are labelled from A on, two at least and all alike, as (A), A., A) or A:, and begin with a line, a
    sentence or a heading such as "Options:". The text of an option may be empty: it is then in the picture.
    What follows the line of the last option goes to the stem.

    >>> split_options("How many?\nChoices:\nA:3\nB:4\nAnswer with the letter.")
    ('How many?\nAnswer with the letter.', ('3', '4'))
    >>> split_options("Points A: (1, 2) and B: (3, 4) are joined. Where is the middle?")[1]
    ()
    """
    labels = list(_LABEL.finditer(question))
    # A label right after the same one is text: "(A) A. Smith".
    labels = [
        label
        for before, label in zip([None, *labels], labels, strict=False)
        if not (before and before.end() == label.start() and before["letter"] == label["letter"])
    ]
    for first in reversed(range(len(labels))):
        if labels[first]["letter"] != "A" or not _opens(question[: labels[first].start()]):
            continue
        chosen = [labels[first]]
        for label in labels[first + 1 :]:
            wanted = LETTERS[len(chosen)] if len(chosen) < len(LETTERS) else None
            if label["letter"] == wanted and _style(label) == _style(chosen[0]):
                chosen.append(label)
        if len(chosen) > 1:
            return _cut(question, chosen)
    return question, ()


def letter_of(answer: str, options: Sequence[str]) -> str | None:
    """The letter of the option that an answer names, by its letter, its text or both; None if it names none.

    >>> [letter_of(a, ["3 cm", "4 cm"]) for a in ("B", "(b)", "B. 4 cm", "4 cm", "C", "5")]
    ['B', 'B', 'B', 'B', None, None]
    """
    letters = LETTERS[: len(options)]
    labelled = re.fullmatch(r"\(?([A-Ja-j])(?:[).:]+|\Z)\s*(.*)", answer.strip(), re.DOTALL)
    if labelled and labelled[1].upper() in letters:
        letter, text = labelled[1].upper(), labelled[2]
        if not text or _same(text, options[letters.index(letter)]):
            return letter
    named = [
        letter for letter, option in zip(letters, options, strict=False) if option and _same(answer, option)
    ]
    return named[0] if len(named) == 1 else None


def multiple_choice(
    question: str, answer: str, options: Sequence[str] = ()
) -> tuple[str, str, tuple[str, ...]] | None:
    """Question, gold letter and options as they are written in rows; None if the answer names no option.

    There may be ten options at most. Without `options` they are those that the question lists.
    """
    stem, listed = split_options(question)
    chosen = tuple(options) or listed
    letter = letter_of(answer, chosen) if len(chosen) <= len(LETTERS) else None
    return (list_options(stem if listed else question, chosen), letter, chosen) if letter else None


_LABEL = re.compile(
    r"(?<![A-Za-z0-9\\$])(?P<open>[(（]?)(?P<letter>[A-J])\s*(?P<close>[)）.:．：、])(?!\d*\])\s*"
)
_HEADING = re.compile(r"\b(?:answer )?(?:choices|options)(?: are)?[ \t]?[:：]?\Z", re.IGNORECASE)


def _opens(before: str) -> bool:
    """Whether options may begin after this text: it ends a line, a sentence or a heading."""
    text = before.rstrip()
    return (
        not text
        or "\n" in before[len(text) :]
        or text[-1] in "?:.。？：)）"
        or bool(_HEADING.search(text[-40:]))
    )


def _style(label: re.Match[str]) -> tuple[str, str]:
    return label["open"], label["close"]


def _cut(question: str, labels: Sequence[re.Match[str]]) -> tuple[str, tuple[str, ...]]:
    ends = [label.start() for label in labels[1:]]
    last, _, rest = question[labels[-1].end() :].partition("\n")
    if question[labels[-1].end() - 1 : labels[-1].end()] == "\n":  # an empty one: the label took the line end
        last, rest = "", question[labels[-1].end() :]
    texts = [question[label.end() : end] for label, end in zip(labels, ends, strict=False)] + [last]
    stem = question[: labels[0].start()].rstrip()
    if heading := _HEADING.search(stem[-40:]):
        stem = stem.removesuffix(heading.group()).rstrip()
    return "\n".join(filter(None, [stem.strip(), rest.strip()])), tuple(
        text.strip(" \t\r\n,;，；") for text in texts
    )


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold().rstrip(".") == " ".join(other.split()).casefold().rstrip(".")
