"""How many comparisons of answers a second, on distinct pairs, so that no cache helps.

The mathematical ones are compared by ours and by bare math-verify in turns, on the same pairs.
"""

import logging
import time
from collections.abc import Callable

from math_verify import parse, verify

from sailrl_lite.answers import equivalent

Pair = tuple[str, str]
_WORDS = ["blue", "red", "green", "circle", "square", "triangle", "cat", "dog", "house", "table"]


def simple_pairs(count: int) -> list[Pair]:
    """`count` distinct pairs of a gold and a predicted answer, of every kind that is no algebra in turn."""
    kinds: list[Callable[[int], Pair]] = [
        lambda i: (str(i), str(i + i % 2)),
        lambda i: (str(i), " ".join(str(i))),
        lambda i: (str(i), f"x = {i}"),
        lambda i: (f"{i}.5", f"{i}.50"),
        lambda i: (f"{i}/7", rf"\frac{{{i}}}{{7}}"),
        lambda i: (f"{_word(i)} {i}", f"The answer is {_word(i)} {i}."),
        lambda i: (f"{chr(65 + i % 8)}", f"({chr(65 + i % 5)}) option {i}"),
        lambda i: (f"{i} cm", rf"{i}\text{{ cm}}"),
        lambda i: (f"{i} cm", f"{i / 100} m"),
        lambda i: (f"{i}%", rf"{i}\%"),
        lambda i: (f"{i}°", rf"{i}^\circ"),
        lambda i: (f"{i % 12}:{i // 12 % 60:02}", f"{i % 12}:{i // 13 % 60:02}"),
        lambda i: (f"{i}:7", f"{2 * i}:14"),
        lambda i: (f"{1000 + i}-05-03", f"May 3, {1000 + i}"),
        lambda i: (f"({i},2)", f"({i}, 2)"),
        lambda i: (rf"\{{{i},2\}}", rf"\{{2,{i}\}}"),
        lambda i: (f"[{i},{i + 1})", f"[{i}, {i + 1})"),
    ]
    pairs = (kinds[k % len(kinds)](k // len(kinds) + 1) for k in range(3 * count))
    return list(dict.fromkeys(pairs))[:count]


def mathematical_pairs(first: int, count: int) -> list[Pair]:
    """Distinct pairs that only mathematics can decide; every third is not equal."""
    kinds: list[Callable[[int], Pair]] = [
        lambda i: (rf"\sqrt{{{i}}}", rf"\frac{{{i}}}{{\sqrt{{{i}}}}}"),
        lambda i: (rf"x^2+{2 * i}x+{i * i}", rf"(x+{i})^2"),
        lambda i: (rf"{i}\sqrt{{2}}", rf"{i + 1}\sqrt{{2}}"),
        lambda i: (rf"\frac{{{i}\pi}}{{7}}", rf"\frac{{{i}}}{{7}}\pi"),
        lambda i: (rf"\frac{{x}}{{{i}}}+1", rf"\frac{{x+{i}}}{{{i}}}"),
        lambda i: (rf"2\pi+{i}", rf"2\pi-{i}"),
        lambda i: (rf"\log_{{2}}{i}", rf"\frac{{\ln {i}}}{{\ln 2}}"),
        lambda i: (rf"{i}x+y", rf"y+{i}x"),
        lambda i: (rf"{i}^{{3}}+x", rf"x+{i**3 + 1}"),
    ]
    return [kinds[k % len(kinds)](first + k // len(kinds)) for k in range(count)]


def _word(i: int) -> str:
    return _WORDS[i % len(_WORDS)]


def _seconds(compare: Callable[[str, str], bool], pairs: list[Pair]) -> float:
    started = time.perf_counter()
    for gold, predicted in pairs:
        compare(gold, predicted)
    return time.perf_counter() - started


def _bare(gold: str, predicted: str) -> bool:
    return verify(parse(f"${gold}$"), parse(f"${predicted}$"))


def main(simple: int = 40_000, mathematical: int = 90, turns: int = 4) -> None:
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    pairs = simple_pairs(simple)
    print(f"\nanswers: {simple / _seconds(equivalent, pairs):,.0f} simple comparisons a second, one core")
    equivalent("x+y", "y+x"), _bare("x+y", "y+x")  # starts the worker; loads the parser
    spent = {"ours": 0.0, "bare": 0.0}
    for turn in range(turns):
        chunk = mathematical_pairs(10 + 10 * turn, mathematical)
        order = [("ours", equivalent), ("bare", _bare)]
        for name, compare in order if turn % 2 else reversed(order):
            spent[name] += _seconds(compare, chunk)
    rates = {name: turns * mathematical / seconds for name, seconds in spent.items()}
    print(
        f"answers: {rates['ours']:,.1f} mathematical ones a second, bare math-verify {rates['bare']:,.1f}, "
        f"ours / bare {rates['ours'] / rates['bare']:.2f}"
    )
