r"""From a text to an answer of one kind: what is tried, and in which order.

What comes first wins, so a date is never arithmetic and `AC` is never a product. A text is taken as a whole
first and split afterwards: an equation into its sides, a tuple, an interval, a set or a list into its parts,
each of which is read in the same way.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sailrl_lite.answers import kinds
from sailrl_lite.answers.kinds import Answer
from sailrl_lite.answers.latex import FUNCTIONS, to_latex
from sailrl_lite.answers.spelling import Unusable, clean, trim
from sailrl_lite.answers.units import as_unit

LIMIT = 512  # characters
DEPTH = 8  # brackets in brackets


def read(text: str) -> Answer:
    """Read a gold or a predicted answer; raise `Unusable` where there is none, or more than one."""
    text = text.strip()
    if not text:
        raise Unusable("empty")
    if len(text) > LIMIT:
        raise Unusable(f"longer than {LIMIT} characters")
    return _simplest(text) or _read(clean(text), 0)


def _simplest(text: str) -> Answer | None:
    """Whole numbers and single words, which need no cleaning: most answers."""
    if kinds.INTEGER.fullmatch(text):
        return Answer("number", Fraction(int(text)), text)
    return kinds.read_word(text) if text.isalpha() and text.isascii() else None


def _read(text: str, depth: int) -> Answer:
    text = trim(text)
    if not text:
        raise Unusable("nothing but punctuation" if depth == 0 else "an empty part")
    if depth > DEPTH:
        raise Unusable("nested too deeply")
    return (
        _simplest(text)
        or kinds.read_quantity(text)
        or _read_option(text)
        or _read_assignment(text, depth)
        or kinds.read_clock(text)
        or kinds.read_date(text)
        or _read_ratio(text, depth)
        or _read_brackets(text, depth)
        or _read_list(text, depth)
        or _read_equation(text, depth)
        or _read_mathematics(text)
        or _read_words(text)
    )


def _read_words(text: str) -> Answer:
    if key := kinds.words(text):
        return Answer("word", key, text)
    raise Unusable("nothing but punctuation")


# ------------------------------------------------------------------------------------------ option letters
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\]]?")
_OPTION = re.compile(
    r"(?:\(([A-J])\)|([A-J])[.):])\s+(\S.*)|(?:\(([a-j])\)|([a-j])\))\s+(\S.*)"
    r"|([A-J])\s+[-(]\s*(?=.*[A-Za-z]{2})(\S.*)"
)
_OTHER_OPTION = re.compile(r"(?:^|\bor\b|\band\b|[,/&;])\s*\(?[A-J](?:[.):]|$|\s+(?:or|and)\b)")
_YES_OR_NO = re.compile(r"(yes|no)\s*[,;:.-]\s+(?!.*\b(?:yes|no)\b)\S.*", re.IGNORECASE)
_OR = re.compile(
    r"\bor\b(?!\s(?:more|less|fewer|greater|higher|lower|so|above|below|over|under|older|younger|equal)\b)",
    re.IGNORECASE,
)


def _read_option(text: str) -> Answer | None:
    """The letter of an option, or yes or no, whatever text follows it. Two candidates are an error."""
    if letter := _LETTER.fullmatch(text):
        return Answer("letter", letter[1].upper(), text)
    if option := _OPTION.fullmatch(text):
        chosen, rest = filter(None, option.groups())
        if _OTHER_OPTION.search(rest):
            raise Unusable("two candidate answers")
        return Answer("letter", chosen.upper(), text)
    if _OR.search(text):
        raise Unusable("two candidate answers (an 'or')")
    if verdict := _YES_OR_NO.fullmatch(text):
        return Answer("word", verdict[1].lower(), text)
    return None


# --------------------------------------------------------------------- assignments, equations, inequalities
_NAME = re.compile(
    r"""(?:\\?[A-Za-z]+(?:_(?:\{\s*\w+\s*\}|\w+))?'*(?:\^\{-1\}|\^-1)?(?:\s?\([^()]*\))?  # x_1, \theta, f(x)
      | \([A-Za-z](?:\s?,\s?[A-Za-z])+\)                                                   # (x, y)
      | m?\s?\\angle\s?[A-Z]{1,3} | \|[A-Z]{1,2}\|
      | \\(?:overline|bar|hat|vec|triangle)\s?\{?\s?[A-Za-z]+\s?\}?
      | \\frac\{d[a-z]?\}\{d[a-z]\}(?:[a-z]\([a-z]\))? | dy/dx
      | [A-Za-z][A-Za-z' ]{2,60})\s?  # area of the square""",
    re.VERBOSE,
)
_SYMBOL = re.compile(r"(?:[A-Za-z]|\\[A-Za-z]+)(?:_\{?\s*\w+\s*\}?)?\s?")
_EQUALS = re.compile(r"\s*(?::=|==|(?<![<>!:=])=(?!=)|\\approx(?![A-Za-z]))\s*")
_RELATION = re.compile(r"\s*(<=|>=|!=|<|>|\\(?:le|ge|ne)(?![A-Za-z]))\s*")
_RELATIONS = {"<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", r"\le": r"\le ", r"\ge": r"\ge ", r"\ne": r"\ne "}
_FLIPPED = {">": "<", ">=": r"\le", r"\ge": r"\le"}


def _is_name(side: str) -> bool:
    word = re.match(r"\\?([A-Za-z]+)", side)
    constant = side.strip() == r"\pi" or (word is not None and word[1] in FUNCTIONS and "(" in side)
    return bool(_NAME.fullmatch(side)) and not constant


def _sides(text: str) -> list[str]:
    """The sides of an equation; what stands in brackets, as in `P(X=3)`, is none."""
    sides: list[str] = []
    for part in _EQUALS.split(text):
        if sides and any(
            sides[-1].count(opening) > sides[-1].count(closing) for opening, closing in ("()", "{}")
        ):
            sides[-1] += "=" + part
        else:
            sides.append(part)
    return sides


def _has_relation(text: str) -> bool:
    return bool(_RELATION.search(text)) and bool(_RELATION.search(re.sub(r"\([^()]*\)|\{[^{}]*\}", "", text)))


def _read_assignment(text: str, depth: int) -> Answer | None:
    r"""The right side of `x = 5`, `f(x) = 5`, `area of a square = 5`, `x \in [0, 1)`; the variable noted."""
    sides = _sides(text)
    if len(sides) == 2 and _SYMBOL.fullmatch(sides[1]) and not _is_name(sides[0]):  # 5 = x
        sides.reverse()
    if len(sides) != 2:
        sides = re.split(r"\s*\\in(?![A-Za-z])\s*", text)
    if len(sides) != 2 or not sides[1] or not _is_name(sides[0]) or _has_relation(text):
        return None
    answer = _read(sides[1], depth + 1)
    if not _SYMBOL.fullmatch(sides[0]):
        return answer
    name = re.sub(r"[\s{}\\]", "", sides[0]).lower()
    return answer._replace(name=name, whole=to_latex(f"{sides[0]}={sides[1]}") or "")


def _read_equation(text: str, depth: int) -> Answer | None:
    if _has_relation(text):
        return _read_relation(text)
    sides = _sides(text)
    if len(sides) < 2 or not all(sides):
        return None
    if len(sides) > 2 and _is_name(sides[0]):
        sides = sides[1:]
    answers = [_read(side, depth + 1) for side in sides]
    if any(answer.kind == "word" for answer in answers):
        return None
    return Answer("equation", answers, text, whole=to_latex(text) or "")


def _read_relation(text: str) -> Answer | None:
    """An inequality, written from small to large."""
    parts = _RELATION.split(text)
    if all(operator in _FLIPPED for operator in parts[1::2]):
        parts = [_FLIPPED.get(part, part) for part in reversed(parts)]
    latex = to_latex("".join(_RELATIONS.get(part, part) for part in parts))
    return Answer("relation", latex, text) if latex else None


# ------------------------------------------------------------------------------------- brackets, lists, sets
_PAIRS = {"(": ")]", "[": ")]", "]": "[", r"\{": (r"\}",)}
_BRACKET = re.compile(r"\\[{}]|[()\[\]{}]")


def _split(text: str) -> list[str]:
    """Split at commas, semicolons and "and"s outside all brackets; "1,234, 5" keeps its thousands."""
    if " and " in text or " & " in text:
        text = re.sub(r",? (?:and|&) ", ", ", text)
    places, level = [], 0
    for match in re.finditer(r"\\[{}]|[()\[\]{},;]", text):
        if match[0] not in ",;":
            level += 1 if match[0][-1] in "([{" else -1
        elif level == 0:
            places.append(match.start())
    wide = [place for place in places if text[place] == ";" or text.startswith(" ", place + 1)]
    tight = [place for place in places if place not in wide]
    if wide and all(re.match(r"\d,\d{3}(?!\d)", text[max(place - 1, 0) :]) for place in tight):
        places = wide
    starts = [0, *(place + 1 for place in places)]
    return [text[start:end] for start, end in zip(starts, [*places, len(text)], strict=True)]


def _read_ratio(text: str, depth: int) -> Answer | None:
    if ":" not in text:
        return None
    parts = []
    for part in text.split(":"):
        answer = _read(part, depth + 1) if part.strip() else None
        if not answer or answer.kind not in ("number", "math") or answer.unit:
            return None
        parts.append(answer)
    return Answer("ratio", parts, text)


def _read_brackets(text: str, depth: int) -> Answer | None:
    """A tuple, an interval, a set; round or square brackets around a single answer are only grouping."""
    if text == r"\emptyset":
        return Answer("set", [], text)
    opening = r"\{" if text.startswith(r"\{") else text[0]
    closing = r"\}" if text.endswith(r"\}") else text[-1]
    if opening not in _PAIRS or closing not in _PAIRS[opening] or len(text) <= len(opening):
        return None
    inner, level = text[len(opening) : -len(closing)], 0
    for match in _BRACKET.finditer(inner if opening != "]" else ""):
        level += 1 if match[0][-1] in "([{" else -1
        if level < 0:  # "(1,2),(3,4)"
            return None
    if opening == r"\{":
        if "|" in inner:  # the set of all x such that
            latex = to_latex(text)
            return Answer("relation", latex, text) if latex else None
        return Answer(
            "set", [_read(part, depth + 1) for part in _split(inner)] if inner.strip() else [], text
        )
    parts = _split(inner)
    if len(parts) == 1:
        return _read(inner, depth + 1) if opening + closing in ("()", "[]") else None
    if opening == "]":  # ]0, 1[
        opening, closing = "(", ")"
    return Answer("brackets", (opening, closing, [_read(part, depth + 1) for part in parts]), text)


def _read_list(text: str, depth: int) -> Answer | None:
    """Several answers side by side, in any order; a list with words in it is a sentence."""
    if text.count(r"\pm") == 1:
        return Answer("list", [_read(text.replace(r"\pm", sign), depth + 1) for sign in "+-"], text)
    if not re.search(r"[,;&]|\band\b", text) or r"\begin" in text:
        return None
    parts = _split(text)
    if len(parts) == 1 or not all(part.strip() for part in parts):
        return None
    answers = [_read(part, depth + 1) for part in parts]
    if any(answer.kind in ("word", "relation") for answer in answers):
        return None
    return Answer("list", answers, text)


# --------------------------------------------------------------------------------------------- mathematics
_TAIL = re.compile(r"(.*(?:[)}\]|]|\\[A-Za-z]+|(?<!\^)(?<!\^-)\d))(\D.*)")


def _read_mathematics(text: str) -> Answer | None:
    """An expression for math-verify, without its unit; a letter after other variables is one more of them."""
    if (tail := _TAIL.fullmatch(text)) and (unit := as_unit(tail[2])):
        variables = re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", tail[1]))
        if not (len(unit) == 1 and unit.isalpha() and variables) and (latex := to_latex(tail[1])):
            return Answer("math", latex, text, unit)
    latex = to_latex(text)
    return Answer("math", latex, text) if latex else None
