r"""Multiple choice made open-ended, so that a policy must produce the answer and cannot guess a letter.

`to_open` lets the options leave the question and makes the right one's text the gold. Many questions do not
survive that: they ask about the options, or have no single answer without them. Those are dropped, each with
its reason, and the rules are cautious: a good row lost costs less than a question that nobody can answer.
"""

import re
from collections.abc import Sequence
from itertools import combinations

from sailrl_lite.answers import check_gold, equivalent
from sailrl_lite.curation.options import LETTERS, letter_of, split_options
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row

LONGEST_GOLD = 6  # words; nobody hits the wording of a longer one
STEP = "open"


def to_open(row: Row) -> Row | Drop:
    """A multiple-choice row as an open-ended one; any other row as it is. An annotation is not kept.

    A row is multiple choice if it has options, or if its question lists some and its gold is a letter or the
    text of one. Decisions where one could differ:

    - "None of these", "no correct answer" and "cannot be determined" leave with the other wrong options, but
      a row whose gold they are is dropped. "All of the above" and "A and C" drop the row in any case: where
      they stand, several options may be right.
    - Yes or no and true or false stay: they are answers in their own words. Where the question does not say
      so itself, "True or false?" is added to it.

    Reasons: "asks for an option", "needs its options", "options refer to each other", "picture options",
    "too few options", "duplicate options", "gold not among the options", "several right options",
    "gold too long", "unusable gold", "options stay in the question", "nothing is asked".
    """
    stem, listed = split_options(row.question)
    lettered = _LETTER.fullmatch(row.gold.strip())
    if not row.options and not (listed and (lettered or letter_of(row.gold, listed))):
        if lettered and _ASKS.search(_without_pictures(row.question)):
            return Drop("picture options", "the gold is a letter and the options are not in the text")
        return row
    options = _bare(row.options or listed)
    gold = _right_option(row.gold, options)
    if isinstance(gold, Drop):
        return gold
    if listed and not _all_same(_bare(listed), options):
        return Drop("options stay in the question", "it lists others than the row has")
    question = without_instructions(stem)
    closed = next((pair for pair in _TRUTHS if {text.casefold() for text in options} == set(pair)), None)
    if unfit := _unfit_options(options, gold) or _unfit_question(question, closed is not None):
        return unfit
    if closed == ("true", "false") and not set(closed) & set(re.findall(r"\w+", question.casefold())):
        question += " True or false?"
    return row.with_change(
        STEP,
        f"option {LETTERS[gold]} of {len(options)}",
        question=question,
        gold=options[gold],
        options=(),
        judge=None,
        think=None,
        answer=None,
    )


def without_instructions(question: str) -> str:
    """The question without sentences that only say how to choose, or to give the letter of, an option.

    >>> without_instructions("How long is AB? Please select the correct option, e.g. A, B, C or D.")
    'How long is AB?'
    >>> without_instructions("Select the option that completes the pattern.")
    'Select the option that completes the pattern.'
    """
    units = _SENTENCE_END.split(question.strip())  # every second one is white space between two sentences
    kept = ["" if k % 2 == 0 and _is_instruction(unit) else unit for k, unit in enumerate(units)]
    return re.sub(r"\n{2,}", "\n", "".join(kept)).strip()


# ---- the gold and the options


def _right_option(gold: str, options: Sequence[str]) -> int | Drop:
    """The index of the right option."""
    gold = gold.strip()
    same_text = [k for k, text in enumerate(options) if _same(text, gold)]
    if letter := letter_of(gold, options):
        index = LETTERS.index(letter)
        if same_text and same_text != [index]:
            return Drop("gold not among the options", f"{gold!r} is a letter and the text of another option")
        return index
    if len(same_text) > 1:
        return Drop("duplicate options", f"{gold!r} stands there {len(same_text)} times")
    if _SEVERAL.fullmatch(gold):
        return Drop("several right options", gold)
    equal = [] if _LETTER.fullmatch(gold) else [k for k, text in enumerate(options) if equivalent(text, gold)]
    return equal[0] if len(equal) == 1 else _not_among(gold, options)


def _not_among(gold: str, options: Sequence[str]) -> Drop:
    return Drop("gold not among the options", f"{gold[:60]!r} and {len(options)} options")


def _unfit_options(options: Sequence[str], gold: int) -> Drop | None:
    if len(options) < 2:
        return Drop("too few options", f"{len(options)}")
    letters = all(map(_same, options, LETTERS))
    if letters or any(_PICTURE.fullmatch(text) for text in options):
        return Drop("picture options", _shown(options))
    for text in options:
        if _EVERY.search(text):
            return Drop("options refer to each other", text[:80])
    right = options[gold]
    if _NONE.search(right):
        return Drop("options refer to each other", f"the gold is {right[:60]!r}")
    if any(_same(one, other) for one, other in combinations(options, 2)):
        return Drop("duplicate options", _shown(options))
    words = re.sub(r"\\[A-Za-z]+", " ", right)
    if len(_WORD.findall(words)) + len(_HAN.findall(words)) / 2 > LONGEST_GOLD:
        return Drop("gold too long", right[:80])
    try:
        check_gold(right)
    except ValueError as error:
        return Drop("unusable gold", str(error))
    for k, other in enumerate(options):
        if k != gold and equivalent(right, other):  # a wrong option would be graded as right
            return Drop("duplicate options", f"{right!r} equals {other!r}")
    return None


def _bare(options: Sequence[str]) -> list[str]:
    """Options without letters of their own."""
    return [
        re.sub(rf"^\s*(?:\({letter}\)|{letter}[.:)．、：])(?!\w)", "", option).strip()
        for letter, option in zip(LETTERS, options, strict=False)  # nobody lists more
    ]


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold().rstrip(".。") == " ".join(other.split()).casefold().rstrip(".。")


def _all_same(some: Sequence[str], others: Sequence[str]) -> bool:
    return len(some) == len(others) and all(map(_same, some, others))


def _shown(options: Sequence[str]) -> str:
    return " | ".join(options)[:80]


# ---- the question


def _unfit_question(question: str, closed: bool) -> Drop | None:
    """Why a question cannot be asked without its options; a closed one is answered by yes or no."""
    if not re.search(r"\w{2}", question):
        return Drop("nothing is asked", question[:80])
    if closed:
        return None
    text = _without_pictures(question)
    if found := _ASKS.search(text):
        return Drop("asks for an option", found.group().strip()[:80])
    if found := _NEEDS.search(text):
        return Drop("needs its options", found.group().strip()[:80])
    return None


def _without_pictures(question: str) -> str:
    """Without "the following figure" and "the table below": these do not speak of the options."""
    return _FIGURE_BELOW.sub(" ", question)


def _is_instruction(unit: str) -> bool:
    if _HAN_INSTRUCTION.fullmatch(unit.strip()):
        return True
    words = re.findall(r"[a-z']+(?:\.[a-z]\.)?", unit.lower().replace("’", "'"))
    return (
        bool(words)
        and _INSTRUCTING_WORDS.issuperset(words)
        and not _CHOOSING_WORDS.isdisjoint(words)
        and "?" not in unit
    )


# ---- words


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in alternatives), re.IGNORECASE)


_LETTER = re.compile(r"[(\[（]?[A-J][)\]）]?[.．:：]?", re.IGNORECASE)
_SEVERAL = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|;|、|&|/|and|\s)?\s*\(?[A-J]\)?)+", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(\n+|(?<=[.?!。？！])(?<!e\.g\.)(?<!i\.e\.)\s+|(?<=[。？！])(?=\S))")
_WORD = re.compile(r"[^\W\d_\u3400-\u9fff]{2,}")
_HAN = re.compile(r"[\u3400-\u9fff]")
_TRUTHS = (
    ("yes", "no"),
    ("true", "false"),
    ("correct", "incorrect"),
    ("对", "错"),
    ("是", "否"),
    ("正确", "错误"),
)

_SEEN = r"(?:figure|fig\.?|diagram|picture|image|graph|photo|drawing|chart|table|map|plot|circuit|scene)s?"
_FIGURE_BELOW = _pattern(
    rf"\b(?:following|above|below) (?:\w+ )?{_SEEN}",
    rf"\b{_SEEN} (?:is |are |as )?(?:shown |given |drawn )?(?:above|below)",
    r"\b(?:shown|drawn|pictured|depicted) (?:above|below)",
    r"\bfollowing (?:information|data|equations?|rules?|expression|system|conditions?|problem|question)\b",
    r"如?下图",
)
_ASKS = _pattern(
    r"\bfollowing\b",
    r"\bwhich (?:one |ones |two )?(?:of|among|amongst|from) (?:these|those|them)\b",
    r"\bwhich (?:one |ones |two )?(?:of|among|amongst|from) the (?:above|statements|items|sentences|words)\b",
    r"\b(?:options?|alternatives|choices?)\b",
    r"\b(?:select|choose|pick|identify|mark|tick|circle|click)\b[^.?!]*\b(?:above|below)\b",
    r"\b(?:select|choose|pick)\b[^.?!]*\bfrom (?:these|those|the)\b",
    r"\b(?:select|choose|pick) (?:the|a|an|one|all|two)\b",
    r"\b(?:listed|given|stated) (?:above|below)\b",
    r"下列|以下[^是]|选项|上述|选择|选出",
)
_CLAIM = (
    r"(?:statement|sentence|conclusion|claim|inference|description|assertion|explanation|interpretation|"
    r"hypothesis|answer|argument|equation|inequality|expression|phrase|reason)s?"
)
_TRUE = (
    r"(?:true|false|correct|incorrect|right|wrong|valid|invalid|possible|impossible|accurate)\b"
    r"(?! (?:angle|triangle|side|hand|prism|cone|circular))"
)
_NEEDS = _pattern(
    rf"\b{_CLAIM}\b[^.?!]*\b(?:is|are|be|was|were) (?:\w+ )?{_TRUE}",
    rf"\b(?:in)?(?:correct|accurate|true|false|valid) {_CLAIM}\b",
    rf"\bwhich (?:\w+ )?{_CLAIM}\b",
    rf"\bwhich\b[^.?!]*\b(?:is|are|was|were|must be|will be) (?:\w+ )?{_TRUE}",
    r"\b(?:best|better|most accurately|most likely|correctly) "
    r"(?:describe|explain|represent|complete|summari[sz]e|match|answer|illustrate|show|express|support|define)",
    r"\bwhich\b[^.?!]*(?:\b(?:not|cannot|never|least likely)\b|n't\b)",
    r"\bexcept\b",
    r"\b(?:which|what)\b[^.?!]*\b(?:could|might|may|can) (?:be|also|have|not|we|you)\b",
    r"\bwhich\b[^.?!]*\b(?:is|are) (?:also|similar|most similar|equivalent|another)\b",
    r"\b(?:which|what) (?:number|value|answer|estimate|measurement)\b[^.?!]*\b(?:closest|nearest)\b",
    r"\b(?:closest|nearest) to\W*$",
    r"\b(?:number|value|answer|estimate|measurement)\b[^.?!]*\b(?:closest|nearest) to\b",
    r"\b(?:a|an|one) possible\b",
    r"\b(?:could|might|may|can) (?:be|equal)\W*$",
    r"\bbest (?:title|heading|caption|summary)\b",
    r"\b(?:an|one|another) example of\b",
    r"(?:正确|错误|成立|不符|合理|可能|符合)的?(?:是|有|为|个数)|说法|不是[^，。]*的是|不属于|可能[是为]",
)
_PICTURE = re.compile(
    r"\s*|(?:the )?(?:figure|fig\.?|picture|image|img|diagram|graph|photo|drawing|图形?|图片)\s*"
    r"[(（#]?(?:[A-J]|\d{1,2}|[IVX]{1,4}|[①-⑨一二三四甲乙丙丁])[)）]?|\S*\.(?:png|jpe?g|gif|svg|webp|bmp)|"
    r"<(?:image|img)\b.*>|!\[.*|\[image.*\]|\(?(?:see|shown in) (?:the )?(?:figure|picture|image).*",
    re.IGNORECASE,
)
_ONE = r"[(（]?\b[A-J]\b[)）]?"
_JOINT = r"\s*(?:,|、|and|or|nor|&|和|或|与)\s*"
_EVERY = re.compile(
    r"(?i:\b(?:all|both|any|each|either|two|three|some|one) of (?:the )?"
    r"(?:above|these|them|those|following|options|choices|others?)\b|"
    r"^(?:all|both)(?: of them| are (?:correct|true|right))?\W*$|\ball the above\b|"
    r"\babove (?:options|choices|answers)\b|以上(?:都|均|全)(?!不)|全对|都对|都正确)|"
    rf"\b(?i:both|neither|either|only|options?|choices?|answers?)\s+{_ONE}(?:{_JOINT}{_ONE}|\W*$)|"
    rf"^{_ONE}(?:{_JOINT}{_ONE})+(?: only| are correct)?\W*$"
)
_NONE = _pattern(
    r"\bnone\b",
    r"\bneither\b",
    r"\bno (?:correct|right|suitable|valid) (?:answer|option|choice)\b",
    r"\b(?:cannot|can't|can not|impossible to|unable to) (?:be )?(?:determine|tell|know|say|calculate)",
    r"\b(?:not enough|insufficient) (?:information|data)\b",
    r"\b(?:undetermined|indeterminate|unknown|uncertain|not sure|not given|something else)\b|^others?$",
    r"以上都不|都不(?:对|是|正确)|无法|不能确定|无正确|没有正确|不确定",
)
_CHOOSING = """
    option option's options choice choice's choices letter letters select selecting choose choosing pick"""
_INSTRUCTING = f"""{_CHOOSING}
    a b c d e f g h an the this that's your its is be should must to of in on at for from with by as
    and or please hint note only just directly simply then first finally final question questions
    problem following above below given provided available listed correct right best appropriate
    most answer answers answering answered one single capital uppercase provide give giving write
    output respond reply return indicate end e.g. i.e. such like format multiple corresponding
    respective among out based image picture figure using"""
_HAN_INSTRUCTION = re.compile(
    r"请?(?:直接)?(?:回答|给出|选择|选出|写出|输出|从|在)[^。，\n的]{0,10}(?:选项|字母|答案|选择)"
    r"[^。\n是]{0,14}[。.]?"
)
_CHOOSING_WORDS, _INSTRUCTING_WORDS = frozenset(_CHOOSING.split()), frozenset(_INSTRUCTING.split())
