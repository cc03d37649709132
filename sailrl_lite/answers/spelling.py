r"""One spelling for the many ways to write the same answer: unicode, LaTeX, Markdown, lead-in phrases.

`clean` is the first step of reading an answer. It returns one line in which numbers, operators and units are
written in a single way (`\frac{1}{2}`, `\sqrt{2}`, `x^2`, `30°`, `USD 5`) and in which nothing is left that
only decorates: `$...$`, `\text{...}`, `**...**`, grouping braces, "the answer is", articles.
"""

# ruff: noqa: SIM905 (lists of names read best as a line of words)
from __future__ import annotations

import re
import unicodedata
from fractions import Fraction


class Unusable(ValueError):
    """The text cannot serve as an answer; the message says why."""


# ------------------------------------------------------------------------------------------------- unicode
_CHARACTERS = {
    **dict.fromkeys("−–—‒―‐‑﹣－", "-"),
    **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", ""),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’′", "'"),
    **dict.fromkeys("º∘˚", "°"),
    **dict.fromkeys("⁄∕", "/"),
    **dict.fromkeys("·⋅∙", r"\cdot "),
    **dict.fromkeys("。｡", "."),
    **dict.fromkeys("、﹐", ","),
    **dict.fromkeys("∅⌀", r"\emptyset "),
    **dict.fromkeys("≤⩽", r"\le "),
    **dict.fromkeys("≥⩾", r"\ge "),
    **{"×": r"\times ", "÷": r"\div ", "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ", "≠": r"\ne "},
    **{"≈": r"\approx ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in "},
    **{"∖": r"\setminus ", "∠": r"\angle ", "∶": ":", "∛": r"\sqrt[3]", "√": r"\sqrt", "⟨": "(", "⟩": ")"},
    **{"ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℕ": r"\mathbb{N}", "ℂ": r"\mathbb{C}"},
    **{"€": " EUR ", "£": " GBP ", "¥": " JPY ", "₹": " INR ", "¢": " cents ", "Ω": "Ω"},
    **{letter: rf"\{name} " for letter, name in zip(
        "αβγδεζηθικλμνξπρσςτυφχψωΓΔΘΛΞΠΣΦΨϕ",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma sigma tau "
        "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi phi".split(), strict=True)},
}  # fmt: skip
_TRANSLATION = str.maketrans(_CHARACTERS)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-n0123456789+-")


def _vulgar_fraction(match: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", match[0]).split("⁄")
    return rf" \frac{{{numerator}}}{{{denominator}}}"


def _from_unicode(text: str) -> str:
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: "^{" + m[0].translate(_RAISED) + "}", text)
    text = re.sub("[₀-₉₊₋]+", lambda m: "_{" + m[0].translate(_RAISED) + "}", text)
    text = re.sub("[¼-¾⅐-⅞]", _vulgar_fraction, text)
    text = re.sub(r"([√∛])\s*(\d+(?:\.\d+)?|[A-Za-z])", r"\1{\2}", text)
    text = re.sub("[µμ](?=[mgs]\\b)", "u", text).translate(_TRANSLATION)
    return unicodedata.normalize("NFKC", text)


# --------------------------------------------------------------------------------------------------- LaTeX
_RESPELLED = {
    **dict.fromkeys("( ) [ ] , ; : > quad qquad thinspace medspace".split(), " "),
    **dict.fromkeys(
        "! left right middle big bigl bigr Big Bigl Bigr bigg biggl biggr Bigg Biggl Biggr".split(), ""
    ),
    **dict.fromkeys("dfrac tfrac cfrac".split(), r"\frac"),
    **dict.fromkeys("leq leqslant".split(), r"\le "),
    **dict.fromkeys("geq geqslant".split(), r"\ge "),
    **dict.fromkeys("approxeq simeq doteq".split(), r"\approx "),
    **dict.fromkeys("lor vee".split(), " or "),
    **dict.fromkeys("vert lvert rvert mid".split(), "|"),
    **dict.fromkeys("ldots dots cdots".split(), "..."),
    **dict.fromkeys("degree textdegree".split(), "°"),
    **{"%": "%", "#": "#", "&": "&", "_": "_", " ": " ", "neq": r"\ne ", "lt": "<", "gt": ">", "colon": ":"},
    **{"varnothing": r"\emptyset ", "lbrace": r"\{", "rbrace": r"\}", "langle": "(", "rangle": ")"},
}
_STYLES = set(
    "text textbf textit textrm texttt textsf textnormal mathrm mathbf mathit mathsf mathtt mathcal mbox "
    "hbox boxed fbox emph underline operatorname operatorname* bm boldsymbol displaystyle textstyle "
    "limits nolimits rm bf it ensuremath mathop".split()
)
_PIECE = re.compile(r"\\[A-Za-z]+\*?|\\.|\\|[{}]|[^\\{}]+", re.DOTALL)
_DEGREES = re.compile(r"\^\s*\{?\s*(?:\\circ|(?<=\d\^)o|(?<=\d\^\{)o)(?![A-Za-z])\s*\}?")
_REPEATING = re.compile(r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|dot|bar)\{(\d+)\}")


def _repeating(match: re.Match[str]) -> str:
    """0.1\\overline{6} is 1/6, exactly."""
    whole, fixed, period = match.groups()
    numerator = int(whole + fixed + period) - int((whole + fixed) or "0")
    return rf"\frac{{{numerator}}}{{{10 ** len(fixed) * (10 ** len(period) - 1)}}}"


def _respell(text: str) -> str:
    r"""Drop style commands and grouping braces, keep the braces that hold an argument, rename synonyms.

    >>> _respell(r"{12}\text{ cm}^{2}, \dfrac{1}{2}").split()
    ['12', 'cm', '^{2},', '\\frac{1}{2}']
    """
    out: list[str] = []
    open_braces: list[bool] = []  # for each open brace: is it kept?
    argument = False  # would a brace here open an argument?
    for piece in _PIECE.findall(text):
        if piece == "{":
            open_braces.append(argument)
            out.append("{" if argument else " ")
            argument = False
        elif piece == "}":
            if not open_braces:
                raise Unusable("a closing brace has no opening one")
            argument = open_braces.pop()
            out.append("}" if argument else " ")
        elif piece[0] == "\\":
            piece = " " if piece[1:] in _STYLES else _RESPELLED.get(piece[1:], piece)
            argument = len(piece) > 1 and piece[0] == "\\" and piece[1].isalpha()
            out.append(piece)
        else:
            out.append(piece)
            if piece.strip():
                argument = piece.rstrip()[-1] in "^_]"
    if open_braces:
        raise Unusable("an opening brace has no closing one")
    return "".join(out)


def _from_latex(text: str) -> str:
    if text.count(r"\boxed") > 1:
        raise Unusable("two candidate answers (two boxes)")
    if r"\\" in text and r"\begin" not in text:  # commands escaped twice
        text = re.sub(r"\\\\(?=[A-Za-z])", r"\\", text)
    if "{,}" in text:  # of thousands, or a decimal comma
        text = re.sub(r"(?<=\d)\{,\}(?=\d{3}(?!\d))", ",", text)
        text = re.sub(r"(?<=\d)\{,\}(?=\d)", ".", text)
    text = re.sub(r"\\\\\s*$", "", text)  # a line break at the end
    text = _respell(text.replace(r"\left.", "").replace(r"\right.", ""))
    if r"\frac" in text:
        text = re.sub(r"\\frac\s*([0-9A-Za-z])", r"\\frac{\1}", text)
        text = re.sub(r"(\\frac\{[^{}]*\})\s*([0-9A-Za-z])", r"\1{\2}", text)
        text = re.sub(r"\\frac\{\s*([+-]?[\w.]+)\s*\}\s*\{\s*([+-]?[\w.]+)\s*\}", r"\\frac{\1}{\2}", text)
    if r"\sqrt" in text:
        text = re.sub(r"\\sqrt\s*([0-9A-Za-z])", r"\\sqrt{\1}", text)
    return _REPEATING.sub(_repeating, text) if "." in text else text


# -------------------------------------------------------------------------------- Markdown and lead-in words
_MARKDOWN = [
    (re.compile(r"`+|^\s*#+\s+|~~"), ""),
    (re.compile(r"\*\*(\S(?:.*?\S)?)\*\*", re.DOTALL), r"\1"),
    (re.compile(r"(?<![\w*)])\*(\S(?:[^*]*\S)?)\*(?![\w*(])"), r"\1"),
    (re.compile(r"(?<!\w)(__?)(\S(?:[^_]*\S)?)\1(?!\w)"), r"\2"),
    (re.compile(r"^\s*[*•]\s+"), ""),
]
_LEAD = re.compile(
    r"""(?:
      (?:so|thus|hence|therefore|then|finally|ok|okay)\b[,:]?\s+
    | (?:i\s(?:think|believe|guess|get|choose|pick)|we\s(?:get|have|find|obtain))\b(?:\sthat)?[,:]?\s+
    | (?:in\sconclusion|as\sa\sresult|in\stotal),?\s+
    | (?:(?:the|my|our|your)\s)?(?:(?:final|correct|right|best)\s)*
      (?:answer|option|choice|result|solution|value|total)(?:\s(?:to|for|of)\s[^:=.,]{1,60}?)?\s*
      (?:\b(?:is|are|was|should\sbe|would\sbe|must\sbe|will\sbe|equals)\b:?|[:=])(?:\sthat\b)?\s*
    | (?:(?:the|my)\s)?(?:(?:final|correct|right|best)\s)*
      (?:option|choice|answer|letter)\s+(?=[(\[]?[a-z](?![a-z']))
    | (?:it|this|that)(?:\s(?:is|was|equals|must\sbe|would\sbe)|'s)\s+
    | there\s(?:is|are|was|were)\s+
    | (?:is|are|equals|equal\sto|a\stotal\sof|both)\s+
    | (?:approximately|approx\.?|about|around|roughly|exactly|precisely|only|just)\s+
    | (?:in|at|on)\s+(?=\d)
    | (?:\\approx|\\therefore|\\implies|\\Rightarrow|=|:)\s*
    | the\s+
    | an?\s+(?=[a-z]{2})(?!(?:or|and|is)\b)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_TRAIL = re.compile(
    r"\s(?:is|are)\s(?:(?:the\s)?(?:final|correct|right|best)(?:\s(?:answer|option|choice|one))?"
    r"|the\s(?:answer|option|choice))",
    re.IGNORECASE,
)

# ----------------------------------------------------------------------------------------- numbers in words
_SPACED_DIGITS = re.compile(r"(?<![\d.])(?<!\d )\d(?: \d)+(?! ?[\d/])", re.ASCII)
_SPACED_OUT = re.compile(r"[-+\d](?: [\d.,:/%+°-])+", re.ASCII)
SCALES: dict[str, Fraction] = {
    **{
        "dozen": Fraction(12),
        "hundred": Fraction(100),
        "thousand": Fraction(1000),
        "million": Fraction(10**6),
    },
    **{
        "billion": Fraction(10**9),
        "trillion": Fraction(10**12),
        "half": Fraction(1, 2),
        "halve": Fraction(1, 2),
    },
    **{"third": Fraction(1, 3), "quarter": Fraction(1, 4), "hundredth": Fraction(1, 100)},
    **{"thousandth": Fraction(1, 1000), "millionth": Fraction(1, 10**6)},
    **{
        name: Fraction(1, number)
        for number, name in enumerate("fourth fifth sixth seventh eighth ninth tenth".split(), start=4)
    },
}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ALONE = "half quarter dozen hundred thousand million billion trillion".split()
NUMBER_WORDS: dict[str, Fraction] = {
    **{word: Fraction(number) for number, word in enumerate(_ONES)},
    **{word: Fraction(10 * number) for number, word in enumerate(_TENS, start=2)},
    **{word: SCALES[word] for word in _ALONE},
}
_UP_TO_NINE = "|".join(_ONES[1:10])
_NUMBER_WORD = re.compile(
    rf"(?:({'|'.join([*_ONES[::-1], *_ALONE])})|({'|'.join(_TENS)})(?:[- ]({_UP_TO_NINE}))?)(?![\w-])",
    re.IGNORECASE,
)
_SIGN_WORD = re.compile(r"(?:minus|negative) (?!.*\bminus\b)", re.IGNORECASE)
_HYPHEN = re.compile(rf"(?<=[a-z])-(?=(?:{'|'.join(SCALES)})s?\b)", re.IGNORECASE)


def _number_words(text: str) -> str:
    """Write the number a text begins with in digits.

    >>> _number_words("twenty-one apples"), _number_words("minus five"), _number_words("two-thirds")
    ('21 apples', '-5', '2 thirds')
    """
    text = _HYPHEN.sub(" ", text) if "-" in text else text
    sign = _SIGN_WORD.match(text)
    rest = text[sign.end() :] if sign else text
    if number := _NUMBER_WORD.match(rest):
        value = sum(NUMBER_WORDS[word.lower()] for word in number.groups() if word)
        rest = f"{value}{rest[number.end() :]}"
    if not sign:
        return rest
    return text if rest[:1].isalpha() else "-" + rest


def trim(text: str) -> str:
    """Drop outer white space, quotes and closing punctuation; `5!` and `0.33...` keep theirs."""
    text = text.strip()
    if text.endswith("...") and len(text) > 3:
        return text
    text = text.rstrip(" .,;:?")
    if text.endswith("!") and re.search(r"[A-Za-z]{2}!+$", text):
        text = text.rstrip("!")
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        text = text[1:-1].strip(" .,;:?")
    return text.strip('" ')


def clean(text: str) -> str:
    r"""Return the text in its one spelling; raise `Unusable` for broken LaTeX or two boxes.

    >>> clean(r"**The answer is** $\frac12$."), clean("4 7"), clean("√2 × 10²")
    ('\\frac{1}{2}', '47', '\\sqrt{2} \\times 10^2')
    """
    if not text.isascii():
        text = _from_unicode(text)
    if "$" in text:
        text = text.replace(r"\$", " USD ")
        text = text.replace("$", " USD " if text.count("$") % 2 else " ")
    if any(mark in text for mark in "*_`#~•"):
        for pattern, replacement in _MARKDOWN:
            text = pattern.sub(replacement, text)
        text = text.replace("~", " ")
    if "\\" in text or "{" in text or "}" in text:
        text = _from_latex(text)
    if "^" in text:  # degrees, also written as a raised letter o; "cm ^{2}"
        text = _DEGREES.sub("°", text)
        text = re.sub(r"(?<=[A-Za-z)]) +(?=\^)", "", text)
        text = re.sub(r"\^\s*\{\s*(-?\w)\s*\}", r"^\1", text)
    if "\n" in text and r"\begin" not in text:  # lines are separate answers, unless one runs on
        text = re.sub(r"(?<![=+\-*/,(:;\s])\s*\n\s*", "; ", text.strip())
    text = trim(" ".join(text.split()))
    for _ in range(6):
        lead = _LEAD.match(text)
        if not lead or lead.end() == len(text):
            break
        text = trim(text[lead.end() :])
    if trail := _TRAIL.search(text):
        text = text[: trail.start()] if trail.end() == len(text) else text
    if " " in text:
        if _SPACED_OUT.fullmatch(text):
            text = text.replace(" ", "")
        text = _SPACED_DIGITS.sub(lambda m: m[0].replace(" ", ""), text)
    if text[:1].isalpha():
        text = _number_words(text)
    return text
