"""Tables as text: for a terminal, and as Markdown."""

from collections.abc import Iterable, Sequence


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, each column as wide as it must be.

    >>> print(columns([("rung", "GPUs"), ("single-gpu", "1")]))
    rung        GPUs
    single-gpu  1
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown, without a line break at the end.

    >>> print(markdown(("a", "b"), [("1", "2")]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    head = list(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])
