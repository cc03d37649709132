r"""What may go to the worker: LaTeX made of known commands, numbers, brackets, operators and short products.

Everything else is text. This is the gate that keeps code, file names and long words away from a parser.
"""

# ruff: noqa: SIM905 (lists of names read best as a line of words)
from __future__ import annotations

import re

FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp det gcd lcm min max".split()
)
_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho "
    "sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
).split()
_SYMBOLS = (
    "frac sqrt infty cdot times div pm mp le ge ne cup cap setminus emptyset in notin mathbb binom begin end "
    "int sum prod lim to partial overline bar hat vec angle lfloor rfloor lceil rceil prime circ"
).split()
_ENGLISH = set("an and are as at be but by for if in is it no not of on per so the to we".split())
_COMMANDS = {*FUNCTIONS, *_GREEK, *_SYMBOLS}
_PLAIN_NAMES = sorted((*FUNCTIONS, *_GREEK, "sqrt"), key=len, reverse=True)
_TOKEN = re.compile(r"\\([A-Za-z]+)|\\[{}\\]|[A-Za-z]+|[0-9\s+*/^_=<>().,;|!{}\[\]&'°-]")
_REFUSED = re.compile(
    r"(?<![A-Za-z\\])[A-Za-z]\d"  # H2O
    r"|[-+*/^=_]\s*$"  # C++
    r"|\d\s+\d"  # two numbers side by side are no product
    r"|\d\.\d*\.|\.\d+\.|(?<!\d)\.(?!\d)"  # version numbers, ellipses, full stops
    r"|\d{4}-\d\d-|^\s*(?:\d+\s*-\s*){2,}\d+\s*$"  # what looks like a date, a telephone number
)
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")


def to_latex(text: str) -> str | None:
    r"""Return LaTeX that is safe to send to the worker, or None where the text is not mathematics.

    Decimals become fractions, since nothing is compared by rounding; `2^10` is read as it is meant.

    >>> to_latex("2sqrt(x)^10")
    '2\\sqrt{x}^{10}'
    >>> to_latex("0.5x"), to_latex("not mathematics"), to_latex('f"x"'), to_latex("H2O"), to_latex("3-5")
    ('{\\frac{5}{10}}x', None, None, None, None)
    """
    if "_" in text:
        text = re.sub(r"_\s?(\w)", r"_{\1}", text)
    if _REFUSED.search(text) or not (
        re.search(r"[0-9A-Za-z]", text) and re.search(r"[0-9\\+*/^_=<>|!-]|[A-Za-z]\(", text)
    ):
        return None
    if (span := _RANGE.fullmatch(text)) and int(span[1]) < int(span[2]):  # pages 3-5, a score of 2-3
        return None
    out, end = [], 0
    for match in _TOKEN.finditer(text):
        token: str | None = match[0]
        if match.start() != end or (match[1] and match[1] not in _COMMANDS):
            return None
        end = match.end()
        if match[0].isalpha():
            token = (
                _environment(match)
                if text.endswith((r"\begin{", r"\end{"), 0, match.start())
                else _letters(match[0])
            )
            if token is None:
                return None
        elif match[1] and text[end : end + 1].isalpha():
            token = match[0] + " "
        out.append(r"^{\circ}" if token == "°" else token or "")
    if end != len(text):
        return None
    latex = _braced(_braced("".join(out).replace("**", "^"), r"\sqrt"), "^")
    latex = re.sub(r"(?<=[0-9)])\s*\(", r"\\cdot(", latex)  # "2(3)" is no mixed number
    latex = re.sub(r"\^\s*(-\d+|\d\d+)", r"^{\1}", latex)
    return re.sub(r"(\d*)\.(\d+)", lambda m: rf"{{\frac{{{int(m[1] + m[2])}}}{{1{'0' * len(m[2])}}}}}", latex)


def _environment(match: re.Match[str]) -> str | None:
    return match[0] if match[0].endswith("matrix") else None


def _letters(run: str) -> str | None:
    """Function names get their backslash; up to three letters are a product; more are a word, and None."""
    for name in _PLAIN_NAMES:
        if name in run and (run == name or (len(name) > 2 and len(run) <= len(name) + 2)):
            before, _, after = run.partition(name)
            return rf"{before}\{name}" + (f" {after}" if after else "" if name == "sqrt" else " ")
    return run if len(run) <= 3 and run.lower() not in _ENGLISH else None


def _braced(latex: str, before: str) -> str:
    """`sqrt(...)` and `^(...)` take what their parentheses hold: give it braces."""
    place = -1
    while (place := latex.find(before + "(", place + 1)) >= 0:
        opening, level = place + len(before), 0
        for end in range(opening, len(latex)):
            level += {"(": 1, ")": -1}.get(latex[end], 0)
            if level == 0:
                latex = f"{latex[:opening]}{{{latex[opening + 1 : end]}}}{latex[end + 1 :]}"
                break
    return latex
