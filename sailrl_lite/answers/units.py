"""Units of measurement: what `12 cm`, `0.12 m` and `12 apples` have in common, and what sets them apart.

A unit is read as a factor and its dimensions, so that metric lengths, masses and times (and areas, speeds and
litres, which follow from them) convert exactly. A word that is no known unit is a dimension of its own.
"""

# ruff: noqa: SIM905 (lists of names read best as a line of words)
from __future__ import annotations

import re
from fractions import Fraction

Unit = tuple[Fraction, str, int]  # factor, dimension, exponent


def _metric(symbol: str, names: tuple[str, ...], dimension: str, prefixes: str) -> dict[str, Unit]:
    powers = {"": 0, "n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "k": 3}
    words = {"": "", "n": "nano", "u": "micro", "m": "milli", "c": "centi", "d": "deci", "k": "kilo"}
    table = {}
    for prefix in ["", *prefixes]:
        factor = Fraction(10) ** powers[prefix]
        for name in (prefix + symbol, *(words[prefix] + name for name in names)):
            table[name] = (factor, dimension, 1)
    return table


# looked up as written first, then in lower case
UNITS: dict[str, Unit] = {
    **_metric("m", ("meter", "metre"), "length", "numcdk"),
    **_metric("g", ("gram", "gramme"), "mass", "umk"),
    **_metric("s", ("second", "sec"), "time", "num"),
    **{name: (Fraction(1, 1000), "length", 3) for name in ("l", "L", "liter", "litre")},
    **{name: (Fraction(1, 10**6), "length", 3) for name in ("ml", "mL", "milliliter", "millilitre", "cc")},
    **{name: (Fraction(10**6), "mass", 1) for name in ("tonne", "t")},
    **{name: (Fraction(60), "time", 1) for name in ("min", "minute")},
    **{name: (Fraction(3600), "time", 1) for name in ("h", "hr", "hour")},
    **{name: (Fraction(86400), "time", 1) for name in ("day",)},
    **{name: (Fraction(7 * 86400), "time", 1) for name in ("week", "wk")},
    **{name: (Fraction(10**4), "length", 2) for name in ("ha", "hectare")},
}
_ALIASES = {
    "degree": "°", "deg": "°", "percent": "%", "pct": "%", "percentage": "%",
    "dollar": "USD", "usd": "USD", "buck": "USD", "euro": "EUR", "eur": "EUR", "gbp": "pound", "lb": "pound",
    "yen": "JPY", "jpy": "JPY", "rupee": "INR", "inr": "INR", "rs": "INR", "yuan": "CNY",
    "rmb": "CNY", "cny": "CNY",
    "in": "inch", "inch": "inch", "feet": "ft", "foot": "ft", "ft": "ft", "yard": "yd", "yd": "yd",
    "mile": "mi", "mi": "mi", "ounce": "oz", "oz": "oz", "gallon": "gal", "gal": "gal",
    "year": "yr", "yr": "yr", "mo": "month", "mth": "month",
    "newton": "N", "joule": "J", "watt": "W", "volt": "V", "ampere": "A", "amp": "A", "ohm": "Ω",
    "kelvin": "K",
    "hertz": "Hz", "hz": "Hz", "pascal": "Pa", "pa": "Pa", "mole": "mol", "mol": "mol", "celsius": "C",
    "fahrenheit": "F", "radian": "rad", "rad": "rad",
    "kj": "kJ", "kw": "kW", "kpa": "kPa", "kwh": "kWh", "kn": "kN", "mph": "mph", "kph": "kph", "kmh": "kph",
}  # fmt: skip
_MORE = "kB KB MB GB TB dB eV mA mV kV kHz MHz GHz N J W V A K ° % Ω".split()
_SYMBOLS = {*_MORE, *_ALIASES.values()} - {"C", "F"}
_PLURALS = {"people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse"}
_CONNECTORS = {"of", "in", "a", "an", "the", "on", "at", "by", "up", "per"}
_WITH_UNITS = {"C", "F", "per", "square", "sq", "cubic", "squared", "cubed"}
_NOT_A_NOUN = set(
    "or and to than not no but if is are was were minus plus over nor except without isn't mod o'clock "
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec squared cubed".split()
)
_WORD = re.compile(r"[A-Za-zΩ']+|[°%]")
_LOOKS_LIKE = re.compile(r"[A-Za-zΩ°%][A-Za-zΩ°%\s/^\d.*'{}-]*")
_POWER_WORDS = [
    (re.compile(r"\b(?:square|sq\.?) ([A-Za-z]+)", re.I), r"\1^2"),
    (re.compile(r"\b(?:cubic|cu\.?) ([A-Za-z]+)", re.I), r"\1^3"),
    (re.compile(r"\b([A-Za-z]+) squared\b", re.I), r"\1^2"),
    (re.compile(r"\b([A-Za-z]+) cubed\b", re.I), r"\1^3"),
    (re.compile(r"\bper cent(?:age)?\b|\bpercentage points?\b", re.I), "%"),
    (re.compile(r"\b(?:degrees?|deg)\b\.?|°", re.I), " ° "),
]
_FACTOR = re.compile(r"([A-Za-zΩ']+|[°%])(?:\^?\{?(-?\d)\}?)?")


def _singular(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def _known(word: str) -> str:
    """The table's name for a word, or an empty string."""
    if word in UNITS or word in _SYMBOLS:
        return word
    if len(word) == 1:
        return ""
    for form in (word.lower(), _singular(word.lower())):
        if form in UNITS:
            return form
        if form in _ALIASES:
            return _ALIASES[form]
    return ""


def as_unit(rest: str) -> str:
    """Return what follows a number if it can be a unit or a noun phrase, else an empty string.

    >>> as_unit(" cm"), as_unit(" red apples"), as_unit("m/s^2"), as_unit(" or 6"), as_unit("x")
    ('cm', 'red apples', 'm/s^2', '', '')
    """
    text = rest.replace(r"\cdot", " ").strip()
    if len(text) > 2 and (text[0], text[-1]) in {("(", ")"), ("[", "]")}:
        text = text[1:-1].strip()
    if not _LOOKS_LIKE.fullmatch(text) or re.search(r"\s\d|\d\d", text) or rest == "t":  # "2t" is a product
        return ""
    words = _WORD.findall(text)
    known = [word for word in words if _known(word)]
    if known and all(word in known or word in _WITH_UNITS for word in words):
        return "" if words[0] in ("C", "F") else text
    noun = not re.search(r"[\d^]", text) and (rest[:1] in " (" or len(words[0]) > 3)
    if noun and all(len(word) > 2 or word.lower() in _CONNECTORS or _known(word) for word in words):
        return "" if _NOT_A_NOUN & {word.lower() for word in words} else text
    return ""


def _measure(unit: str) -> tuple[Fraction, dict[str, int], frozenset[str]]:
    """A unit's factor, its dimensions, and the words in it that are no known unit."""
    text = unit
    for pattern, replacement in _POWER_WORDS:
        text = pattern.sub(replacement, text)
    factor, dimensions, nouns = Fraction(1), dict[str, int](), set[str]()
    for place, part in enumerate(re.split(r"/|\bper\b", text)):
        side = -1 if place else 1
        for word, power in _FACTOR.findall(part):
            if word.lower() in _CONNECTORS and word != unit:
                continue
            exponent = side * int(power or 1)
            known = _known(word)
            if known in UNITS:
                scale, dimension, dimension_power = UNITS[known]
                factor *= scale**exponent
                exponent *= dimension_power
            else:
                dimension = word if word in ("C", "F") else known or _singular(word.lower())
                if not known and len(word) > 1:
                    nouns.add(dimension)
            dimensions[dimension] = dimensions.get(dimension, 0) + exponent
    return factor, {name: power for name, power in dimensions.items() if power}, frozenset(nouns)


def conversion(gold: str, predicted: str) -> Fraction | None:
    """How many of the gold's unit one predicted unit is; None where the two do not agree.

    >>> pairs = [("cm", "m"), ("km/h", "m/s"), ("apples", "red apples"), ("cm", "kg")]
    >>> [str(conversion(*pair)) for pair in pairs]
    ['100', '18/5', '1', 'None']
    """
    if not gold or not predicted or gold == predicted:
        return Fraction(1)
    gold_factor, gold_dimensions, gold_nouns = _measure(gold)
    factor, dimensions, nouns = _measure(predicted)
    if gold_dimensions == dimensions:
        return factor / gold_factor
    only_nouns = set(gold_dimensions) == gold_nouns and set(dimensions) == nouns
    return Fraction(1) if only_nouns and (gold_nouns <= nouns or nouns <= gold_nouns) else None
