"""Reading a judge's reply: one chat message becomes scores, or no verdict with its cause.

What a judge says is data. It is read strictly, since a score that had to be guessed is worse than none: one
JSON object that holds the asked keys, alone, in a fence or in prose, perhaps inside one wrapper object.
`read_reply` does no I/O, never raises, and takes time linear in the text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from sailrl_lite.judges.protocol import DIMENSIONS, NoVerdict, Verdict

Cause = Literal[
    "refusal",  # the judge declined
    "filtered",  # the endpoint withheld the reply
    "empty",  # no text at all
    "too long",  # more text than any judge needs
    "cut off",  # the length ran out before an object was complete
    "no JSON",  # text without a JSON object
    "broken JSON",
    "misplaced",  # the scores lie in a list, or deeper than in one wrapper object
    "several objects",  # more than one object with scores: which one is meant?
    "missing key",
    "repeated key",
    "bad score",  # a value that is no score
]
CAUSES: tuple[Cause, ...] = get_args(Cause)

LONGEST = 200_000  # characters of a reply; the longest reasoning of today's models fits
_LONGEST_REASON = 500  # characters kept
_MOST_STARTS = 1000  # braces and brackets tried as the start of JSON

_BINARY = re.compile(r"([01])(?:\.0+)?")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,99})?")
_WORDS = {"true": 1, "false": 0}
# What may be the start of a JSON object or list.
_OPENING = re.compile(r'\{\s*["}]|\[\s*(?:["\[\]{0-9-]|(?:true|false|null)\b)')
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]+|\\.)*"?|[{}]', re.DOTALL)


def read_reply(
    message: dict[str, Any],
    finish_reason: str | None,
    keys: Sequence[str] = DIMENSIONS,
    continuous: bool = False,
) -> Verdict | NoVerdict:
    """The scores in one chat-completion message, or why there are none. Never raises.

    A binary score is 0 or 1, 0.0 or 1.0, true or false, or one of these as a string; a continuous one also
    any other number from 0 to 1. All else is no verdict, and so is an object where an asked key is missing
    or repeated, a list, and a second object that holds an asked key. The reasoning is read only where the
    content is blank. A complete object counts even if the length cut off what followed.

    Args:
        message: as the endpoint sent it: `content` (a text, or a list of parts), `refusal`, and
            `reasoning_content` or `reasoning`.
        finish_reason: "stop", "length", "content_filter", ...
        keys: the names of the scores that were asked for.
        continuous: whether scores between 0 and 1 were asked for.

    Returns:
        A verdict with one value for each key, an int (binary) or a float (continuous), and with the texts
        under "<key>_reason" (or "reason", where one key was asked for) as its reasons; or no verdict, with
        one of `CAUSES`.

    >>> read_reply({"content": 'Well: {"logic": 1, "logic_reason": "sound"}.'}, "stop", ["logic"])
    Verdict(values={'logic': 1}, reasons={'logic': 'sound'})
    >>> read_reply({"content": '{"logic": 0.5}'}, "stop", ["logic"])
    NoVerdict(cause='bad score', detail='logic is 0.5, not 0 or 1')
    """
    message = message if isinstance(message, dict) else {}
    if refusal := _refusal(message):
        return NoVerdict("refusal", _short(refusal))
    if isinstance(finish_reason, str) and finish_reason.startswith("content_filter"):  # Gemini adds why
        return NoVerdict("filtered", "the endpoint's filter withheld the reply")
    was_cut = finish_reason == "length"
    text = _text(message)
    if not text:
        return NoVerdict("cut off" if was_cut else "empty", "there is no text in the reply")
    if len(text) > LONGEST:
        return NoVerdict("too long", f"{len(text)} characters of at most {LONGEST}")
    found, broken = _json_values(text)
    scoring = [place for value in found for place in _scoring(value, keys, continuous)]
    if len(scoring) > 1:
        return NoVerdict("several objects", f"{len(scoring)} objects hold scores")
    if scoring:
        holder, readable = scoring[0]
        if not readable:
            return NoVerdict("misplaced", "the scores lie in a list or too deep inside other objects")
        return _read(holder, keys, continuous)
    if broken or was_cut:
        return NoVerdict("cut off" if was_cut else "broken JSON", _short(text))
    if any(isinstance(value, _Object) for value in found):
        return NoVerdict("missing key", "no object holds " + " or ".join(keys))
    return NoVerdict("no JSON", _short(text))


class _Object:
    """A JSON object as it is written: no key is lost where one stands twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def get(self, key: str) -> list[Any]:
        return [value for name, value in self.pairs if name == key]


class _Number(str):
    """A JSON number as it is written, so that one of a million digits costs nothing."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)


def _refusal(message: dict[str, Any]) -> str:
    """The words of a refusal, be it a field of its own or a part of the content; "" if there is none."""
    parts = message.get("content")
    refusals = [message.get("refusal")]
    if isinstance(parts, list):
        refusals += [part.get("refusal") for part in parts if isinstance(part, dict)]
    said = (r if isinstance(r, str) else "the judge declined" for r in refusals if r)
    return next((text for text in said if text.strip()), "")


def _text(message: dict[str, Any]) -> str:
    """The content, or the reasoning where the content is blank."""
    for name in ("content", "reasoning_content", "reasoning"):
        said = message.get(name)
        if isinstance(said, list):
            texts = [p.get("text") for p in said if isinstance(p, dict) and p.get("type") == "text"]
            said = "".join(t for t in texts if isinstance(t, str))
        if isinstance(said, str) and said.strip():
            return said
    return ""


def _json_values(text: str) -> tuple[list[Any], bool]:
    """All JSON objects and lists in a text, outermost only, and whether one began that is broken.

    What lies inside a broken one is not read: its outer part may have said the opposite.
    """
    values: list[Any] = []
    broken, at = False, 0
    for _ in range(_MOST_STARTS):
        opening = _OPENING.search(text, at)
        if not opening:
            return values, broken
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
            values.append(value)
        except json.JSONDecodeError as error:
            broken, at = True, max(error.pos, opening.start() + 1)
            if text[opening.start()] == "{":
                at = max(at, _closing(text, opening.start()))
        except RecursionError:  # nested deeper than any reply that means something
            break
    return [], True


def _closing(text: str, start: int) -> int:
    """Where the broken object that begins at `start` ends: behind its closing brace, or with the text."""
    depth = 0
    for match in _STRING_OR_BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if not depth:
            return match.end()
    return len(text)


def _scoring(value: Any, keys: Sequence[str], continuous: bool) -> Iterator[tuple[_Object, bool]]:
    """Every object that holds an asked key, with whether it lies where it may be read.

    An object inside a scoring one that holds texts under the asked keys is taken for its reasons.
    """
    rest: list[tuple[Any, int, bool]] = [(value, 0, False)]
    while rest:
        value, depth, inside = rest.pop()
        if isinstance(value, list):
            rest += [(item, depth + 2, inside) for item in value]
        elif isinstance(value, _Object):
            held = [item for name, item in value.pairs if name in keys]
            if any(not (inside and _is_prose(item, continuous)) for item in held):
                yield value, depth < 2
                inside = True
            rest += [(item, depth + 1, inside) for _, item in value.pairs]


def _is_prose(value: Any, continuous: bool) -> bool:
    return type(value) is str and _score(value, continuous) is None


def _read(scoring: _Object, keys: Sequence[str], continuous: bool) -> Verdict | NoVerdict:
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for key in keys:
        held = scoring.get(key)
        if len(held) != 1:
            cause: Cause = "repeated key" if held else "missing key"
            return NoVerdict(cause, f"{key} stands {len(held)} times in the object")
        score = _score(held[0], continuous)
        if score is None:
            wanted = "a number from 0 to 1" if continuous else "0 or 1"
            return NoVerdict("bad score", f"{key} is {_show(held[0])}, not {wanted}")
        values[key] = score
        said = scoring.get(f"{key}_reason") or (scoring.get("reason") if len(keys) == 1 else [])
        if said and type(said[-1]) is str:
            reasons[key] = _short(said[-1])
    return Verdict(values, reasons)


def _score(value: Any, continuous: bool) -> float | None:
    """What a JSON value says as a score: an int, in continuous mode a float; None if it is no score."""
    if isinstance(value, bool):
        score: float = int(value)
    elif not isinstance(value, str):
        return None
    elif value.lower() in _WORDS:
        score = _WORDS[value.lower()]
    elif match := _BINARY.fullmatch(value):
        score = int(match[1])
    elif continuous and (isinstance(value, _Number) or _DECIMAL.fullmatch(value)):
        score = float(value) + 0.0  # -0.0 becomes 0.0
    else:
        return None
    return (float(score) if continuous else score) if 0 <= score <= 1 else None


def _show(value: Any) -> str:
    if isinstance(value, str):
        return str(value)[:50] if isinstance(value, _Number) else repr(value[:50])
    return "null" if value is None else {list: "a list", _Object: "an object"}.get(type(value), str(value))


def _short(text: str) -> str:
    """The start of a text, fit to be written to any log."""
    return text[:_LONGEST_REASON].encode("utf-8", "replace").decode()
