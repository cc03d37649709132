"""The language of the micro-world's thinking traces: one statement a line, either a claim or a step.

    top=47          a claim: what something is (read from the picture, the question, or world knowledge)
    40+30=70        a step: one operation (+, - or *) on two whole numbers
    anything else   is kept as `Unreadable`: it says nothing that can be checked

White space means nothing, since word-level decoders put it anywhere.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Step:
    left: int
    op: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"{self.left}{self.op}{self.right}={self.result}"


@dataclass(frozen=True)
class Unreadable:
    text: str

    def __str__(self) -> str:
        return self.text


Statement = Claim | Step | Unreadable

_STEP = re.compile(r"(-?[0-9]{1,6})([+*-])(-?[0-9]{1,6})=(-?[0-9]{1,6})")
_CLAIM = re.compile(r"([a-z]{1,20}(?: [a-z]{1,20}){0,3})=(-?[0-9]{1,6}|[a-z]{1,20})")
_MAX_LINES = 100


def calculate(left: int, op: str, right: int) -> int:
    """The right result of one operation.

    >>> calculate(180, "-", 105)
    75
    """
    return {"+": left + right, "-": left - right, "*": left * right}[op]


def read_trace(text: str) -> list[Statement]:
    """Read a trace line by line; blank lines say nothing. Never raises, whatever the text.

    Of a trace of more than 100 lines the rest is one unreadable statement.

    >>> read_trace("top = 4 7\\n40+30=70\\nwell then")
    [Claim(name='top', value='47'), Step(left=40, op='+', right=30, result=70), Unreadable(text='well then')]
    """
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    rest: list[Statement] = (
        [Unreadable(f"and {len(lines) - _MAX_LINES} lines more")] if lines[_MAX_LINES:] else []
    )
    return [_read_line(line) for line in lines[:_MAX_LINES]] + rest


def write_trace(statements: list[Statement]) -> str:
    """The text of a trace; `read_trace` is its inverse."""
    return "\n".join(str(s) for s in statements)


def _read_line(line: str) -> Statement:
    tight = re.sub(r"(?<![a-z]) | (?![a-z])", "", " ".join(line.split()))  # only a blank between words counts
    if step := _STEP.fullmatch(tight):
        left, op, right, result = step.groups()
        return Step(int(left), op, int(right), int(result))
    if claim := _CLAIM.fullmatch(tight):
        return Claim(*claim.groups())
    return Unreadable(line[:200])
