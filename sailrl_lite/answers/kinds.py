r"""An answer of one kind, and the kinds that need no look inside: words, clock times, dates, quantities.

Each reader takes a text that `spelling.clean` has been over and returns an `Answer`, or None where the text
is of another kind. The order in which they are tried is in `reading`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

from sailrl_lite.answers.spelling import NUMBER_WORDS, SCALES, Unusable
from sailrl_lite.answers.units import as_unit, conversion


class Answer(NamedTuple):
    """One reading of a text. The kinds and their values:

    word: the normalised words; letter: the letter; clock: (hour, minute, second, has am/pm); date: its parts;
    ratio, list, set: the parts; brackets: (opening, closing, parts); number: a Fraction; math: LaTeX to send;
    relation: LaTeX of an inequality; equation: its sides, in order.
    """

    kind: str
    value: Any
    text: str
    unit: str = ""
    name: str = ""  # the variable the answer was assigned to
    whole: str = ""  # LaTeX with that variable, or of the whole equation


# --------------------------------------------------------------------------------------------------- words
MATHEMATICAL_WORDS = {"infinity": r"\infty", "inf": r"\infty", "pi": r"\pi", "theta": r"\theta"}
_COPULA = re.compile(r".*\b(?:is|are|was|were|equals)\b:?\s+(\S.*)", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:not|no|never|nor|neither|except|if|false|wrong|incorrect|unless)\b|n't\b", re.IGNORECASE
)


def words(text: str) -> str:
    """The words of a text, without case, punctuation and LaTeX marks; empty where nothing is left.

    >>> words("The  light-blue H_2O."), words("C++")
    ('the light blue h2o', 'c++')
    """
    text = re.sub(r"(?<=\w)-(?=[A-Za-z])", " ", text)
    text = re.sub(r"[.,:;!?](?!\d)|[\"'()\[\]{}$\\_]", "", text)
    return " ".join(text.casefold().split())


def read_word(text: str) -> Answer:
    """A text of nothing but ASCII letters: a letter, a number word, a name of mathematics or a word."""
    if len(text) == 1:
        return Answer("letter", text.upper(), text)
    lower = text.lower()
    if lower in NUMBER_WORDS:
        return Answer("number", Fraction(NUMBER_WORDS[lower]), text)
    if lower in MATHEMATICAL_WORDS:
        return Answer("math", MATHEMATICAL_WORDS[lower], text)
    return Answer("word", lower, text)


def end_of_sentence(text: str) -> str:
    """What a sentence says at its end; empty for one that denies something.

    >>> end_of_sentence("area of the square is 12 cm"), end_of_sentence("it is not 5")
    ('12 cm', '')
    """
    match = _COPULA.fullmatch(text)
    return match[1] if match and not _DENIAL.search(text) else ""


# -------------------------------------------------------------------------------------- clock times, dates
_CLOCK = re.compile(
    r"(\d{1,2})(?:\s*([:.])\s*(\d{2}))?(?:\s*:\s*(\d{2}))?\s*(?:([ap])\.?\s?m\.?|(o'?\s?clock))?",
    re.IGNORECASE | re.ASCII,
)


def read_clock(text: str) -> Answer | None:
    """`12:30`, `12:30:15`, `3.05 pm`, `7 o'clock`; in twenty-four hours where am or pm is said."""
    match = _CLOCK.fullmatch(text)
    if not match:
        return None
    hour, separator, minute, second, half, word = match.groups()
    if separator != ":" and not half and not (word and not separator):
        return None
    time = [int(hour), int(minute or 0), int(second or 0)]
    if time[0] > (12 if half else 24) or time[1] > 59 or time[2] > 59:
        return None
    if half:
        time[0] = time[0] % 12 + (12 if half in "pP" else 0)
    return Answer("clock", (*time, bool(half)), text)


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATES = [
    (re.compile(pattern, re.IGNORECASE | re.ASCII), order)
    for pattern, order in [
        (r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})", "y-md"),
        (r"(\d{4})-(0\d|1[0-2])", "ym"),
        (r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})", "?-?y"),
        (rf"{_MONTH} {_DAY}(?:,? ?(\d{{4}}))?", "mdy"),
        (rf"{_DAY}(?: of)?[ -]{_MONTH},?(?:[ -](\d{{4}}))?", "dmy"),
        (rf"{_MONTH},? (\d{{4}})", "my"),
    ]
]
_WEEKDAY = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)day,? ", re.IGNORECASE)


def read_date(text: str) -> Answer | None:
    """A date as (year, month, day); `03/05/2019` may be read in two ways and equals only its own spelling."""
    text = _WEEKDAY.sub("", text, count=1)
    found = ((match, order) for pattern, order in _DATES if (match := pattern.fullmatch(text)))
    match, order = next(found, (None, ""))
    if match is None:
        return None
    parts = dict(zip(order, match.groups(), strict=False))
    if order == "?-?y":
        first, second = int(match[1]), int(match[3])
        if first <= 12 and second <= 12 and first != second:
            return Answer("date", (int(match[4]), first, second, "either way"), text)
        parts = {"y": match[4], "m": str(min(first, second)), "d": str(max(first, second))}
    month = int(parts["m"]) if parts["m"].isdigit() else _MONTHS.index(parts["m"][:3].lower()) + 1
    date = (int(parts.get("y") or 0), month, int(parts.get("d") or 0))
    return Answer("date", date, text) if 1 <= month <= 12 and date[2] <= 31 else None


# ----------------------------------------------------------------------------------------------- quantities
INTEGER = re.compile(r"-?\d{1,300}", re.ASCII)
_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-]?)\s?(?:
      (?P<whole>\d+)\s?\\frac\{{(?P<n1>\d+)\}}\{{(?P<d1>\d+)\}}                           # 1\frac{{1}}{{2}}
    | (?P<whole2>\d+)\s(?P<n2>\d+)\s?/\s?(?P<d2>\d+)                                      # 1 1/2
    | \\frac\{{(?P<n3>[+-]?{_DECIMAL})\}}\{{(?P<d3>[+-]?{_DECIMAL})\}}                    # \frac{{1}}{{2}}
    | (?P<n4>{_DECIMAL})\s?/\s?(?P<d4>[+-]?{_DECIMAL})                                    # 1/2
    | (?P<grouped>\d{{1,3}}(?P<mark>[, '])\d{{3}}(?:(?P=mark)\d{{3}})*(?!\d)(?:\.\d+)?)   # 1,234.5
    | (?P<plain>{_DECIMAL})
    )
    (?:[eE](?P<exp>[+-]?\d{{1,3}})                                                        # 1e3, 1 x 10^{{3}}
    | \s?(?:\\times|\\cdot|\*|x)\s?10\s?\^\s?(?:\{{(?P<exp2>[+-]?\d{{1,3}})\}}|(?P<exp3>[+-]?\d)))?
    (?![\d.,]*\d)""",
    re.VERBOSE | re.ASCII,
)
_SCALE = re.compile(rf"[\s-]?({'|'.join(SCALES)})s?\b", re.IGNORECASE)
_CURRENCY = re.compile(r"([+-]?)\s?(?:U\.?S\.? ?)?(USD|EUR|GBP|JPY|INR|CNY|Rs\.?)(?:\sUSD)?\s?(?=[-+\d.\\])")
_LABEL = re.compile(
    r"(?:number|no\.|page|room|day|step|figure|level|grade|chapter|row|column)\s(?=\d)", re.IGNORECASE
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s?([A-Za-z]+)", re.ASCII)


def read_quantity(text: str) -> Answer | None:
    """A number, alone or with a unit, a currency or a noun; or several that add up, as in "1 h 30 min"."""
    unit, rest = "", text
    if not rest[0].isdigit():
        if currency := _CURRENCY.match(rest):
            unit, rest = currency[2], currency[1] + rest[currency.end() :]
        elif label := _LABEL.match(rest):
            rest = rest[label.end() :]
    match = _NUMBER.match(rest)
    if not match:
        return None
    value = _value(match)
    rest = rest[match.end() :]
    if ordinal := _ORDINAL.match(rest):
        rest = rest[ordinal.end() :]
    while scale := _SCALE.match(rest):
        value *= SCALES[scale[1].lower()]
        rest = rest[scale.end() :]
    if not rest.strip():
        return Answer("number", value, text, unit)
    if after := as_unit(rest):
        return Answer("number", value, text, unit or after)
    return _read_compound(text)


def _value(match: re.Match[str]) -> Fraction:
    group = match.groupdict()
    numerator = group["n1"] or group["n2"] or group["n3"] or group["n4"]
    if numerator:
        denominator = Fraction(group["d1"] or group["d2"] or group["d3"] or group["d4"])
        if not denominator:
            raise Unusable("a division by zero")
        value = Fraction(numerator) / denominator + int(group["whole"] or group["whole2"] or 0)
    else:
        value = Fraction(re.sub("[, ']", "", group["grouped"]) if group["grouped"] else group["plain"])
    exponent = group["exp"] or group["exp2"] or group["exp3"]
    if exponent:
        value *= Fraction(10) ** int(exponent)
    return -value if group["sign"] == "-" else value


def _read_compound(text: str) -> Answer | None:
    """ "2 m 30 cm" and "1 hour and 30 minutes": different units of one dimension, from large to small."""
    pieces = _PART.findall(text)
    if len(pieces) < 2 or not re.fullmatch(r"(?:[\s,]|and\b)*", _PART.sub("", text)):
        return None
    last = pieces[-1][1]
    total, before = Fraction(0), None
    for number, unit in pieces:
        factor = conversion(last, unit) if as_unit(" " + unit) else None
        if factor is None or (before is not None and factor >= before):
            return None
        total, before = total + Fraction(number) * factor, factor
    return Answer("number", total, text, last)
