r"""Cleaning of text: a question that holds nothing but the question, and answers as they go into the box.

Public sources carry along what would fight our format or give the answer away: system prompts and role
markers, placeholders of the picture, hints and orders about the form of the answer, the answer itself. Each
rule below takes out one such thing where it stands alone, as a sentence or a line of its own, and leaves
whatever asks something. What cleaning has cleaned it does not change again.
"""

import functools
import html
import re
import unicodedata
from collections.abc import Callable

from sailrl_lite.answers import check_gold
from sailrl_lite.curation.options import letter_of
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row


def clean_text(row: Row) -> Row | Drop:
    """The step "question": without what `rules` take out. Drops a question of which nothing is left, and one
    about several pictures, since a row has one."""
    placed = re.findall(_PLACE, row.question, re.IGNORECASE)
    if any(re.search("[2-9]|[0-9]{2}", place) for place in placed) or placed.count("<image>") > 1:
        return Drop("several pictures", f"the question holds {' '.join(placed)[:100]}")
    text, found = clean_question(row.question)
    if not any(unicodedata.category(char)[0] in "LNS" for char in text):
        return Drop("empty question", f"of {row.question[:100]!r} nothing is left")
    options = tuple(_TOKEN.sub("", _spell(option)).strip() for option in row.options)
    return row.with_change("question", ", ".join(found), question=text, options=options)


def clean_gold(row: Row) -> Row | Drop:
    """The step "gold": the bare answer, as `unwrap` finds it. Drops one that no prediction could equal."""
    gold = unwrap(row.gold)
    if problem := _gold_problem(gold):
        return Drop("unusable gold", problem)
    return row.with_change("gold", "unwrapped", gold=gold)


def box_answer(row: Row, step: str = "box") -> Row | Drop:
    """The step "box": the annotated answer as it goes into the box, in the same form for every row; where
    there are options, the letter alone.

    Drops a response that cannot be written in the format. A row without a response stays as it is.
    """
    if row.answer is not None:
        answer = unwrap(row.answer)
        if row.options:
            answer = letter_of(answer, row.options) or answer
        row = row.with_change(step, "unwrapped", answer=answer)
    try:
        response = row.response
    except ValueError as error:
        return Drop("cannot be written in the format", str(error)[:200])
    if token := _TOKEN.search(response or ""):
        return Drop("cannot be written in the format", f"it holds the token {token.group()}")
    return row


def clean_question(text: str) -> tuple[str, list[str]]:
    r"""A question cleaned, and the names of the rules that found something, "spelling" for odd characters.

    >>> clean_question("<image>\nUSER: How many? Answer the question using a single word or phrase.")
    ('How many?', ['picture placeholder', 'role marker', 'format instruction'])
    >>> clean_question("Is 3 &lt; 5? Answer: yes")
    ('Is 3 < 5?', ['spelling', 'answer marker'])
    """
    found: list[str] = []
    before = None
    while text != before:  # one rule may lay bare what another one takes out; each makes the text shorter
        before = text
        for name, rule in _RULES:
            text, old = rule(text), text
            if text != old and name not in found:
                found.append(name)
        text = _tidy(text)
    return text, found


def unwrap(answer: str) -> str:
    r"""An answer without box, lead-in, dollars and closing full stop.

    >>> [unwrap(a) for a in (r"The answer is \boxed{\frac{1}{2}}.", "### Answer: (B)", "$5$.", r"\(x^2\)")]
    ['\\frac{1}{2}', '(B)', '5', 'x^2']
    """
    text, before = _spell(answer).strip(), None
    while text != before:
        before = text
        text = _inside_box(_TOKEN.sub("", text))
        for pattern, replacement in _WRAPPINGS:
            text = pattern.sub(replacement, text).strip()
    return text


@functools.lru_cache(maxsize=65536)  # many rows of a source share few golds
def _gold_problem(gold: str) -> str:
    try:
        check_gold(gold)
    except ValueError as error:
        return str(error)
    return ""


# ---- spelling

_BLOCK_TAGS = "br|p|div|li|ul|ol|tr|table|tbody|h[1-6]"
_INLINE_TAGS = "span|strong|em|font|td|th|center|small|tt|code|pre|img|html|body"
_ATTRIBUTES = r"(?:\s+[\w-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>\"']+)){0,20}\s*/?"
_HTML = [
    (re.compile(r"<!--.*?-->", re.DOTALL), " "),
    (re.compile(rf"</?(?:{_BLOCK_TAGS}){_ATTRIBUTES}>", re.IGNORECASE), "\n"),
    (re.compile(rf"</?(?:{_INLINE_TAGS}){_ATTRIBUTES}>", re.IGNORECASE), ""),
    (re.compile(r"<([biu])>([^<>]*)</\1>", re.IGNORECASE), r"\2"),  # in pairs: "a<b" is mathematics
    (re.compile(r"<sup>([^<>\s]+)</sup>", re.IGNORECASE), r"^\1"),
    (re.compile(r"<sub>([^<>\s]+)</sub>", re.IGNORECASE), r"_\1"),
]
_ENTITY = re.compile(r"&(?:amp;)*(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)
# Of chat templates: each would be read as the frame that it belongs to, or as a picture.
_TOKENS = r"<\|[a-z0-9_]{1,40}\|>|<(?:unk|pad|bos|eos|/?s)>"
_TOKEN = re.compile(_TOKENS, re.IGNORECASE)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufffe\uffff"
    "\ud800-\udfff]"
)
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile("[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000 ]+")


def _spell(text: str) -> str:
    """HTML as plain text, every white space a blank or a line end, and nothing invisible."""
    for pattern, replacement in _HTML:
        text = pattern.sub(replacement, text)
    text = _ENTITY.sub(lambda match: html.unescape(re.sub("&(?:amp;)+", "&", match[0])), text)
    text = _SPACES.sub(" ", _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text)))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text)).strip()


def _tidy(text: str) -> str:
    """No lonely marks and blanks where something was taken out."""
    text = re.sub(r"(?m)^(?:[.,;]+(?: |$))+|(?<=[?!])\.(?=\s|\Z)|,(?=\.(?:\s|\Z))", "", text)
    return re.sub(r" +", " ", re.sub(r"\n{3,}", "\n\n", re.sub(r" *\n *", "\n", text))).strip()


# ---- rules: what is taken out of a question. A sentence starts at `_AT`, which is not after the bracket of
# an option, "(A) Be brief.", and ends with `_END`.

_AT = r"(?:^|(?<=[.?!:;>]))[ ]*(?:(?:please|kindly|note|hint|instructions?)[:,]?[ ]+){0,3}"
_END = r"(?:[.!:]+(?=\s|$)|(?=\n)|\Z)"
_REST = rf"(?:e\.g\.|i\.e\.|(?<=\d)\.(?=\d)|[^\n.?!])*{_END}"  # of a sentence that does not ask anything
_REST_OF_TAGS = _REST.replace("*", "{0,500}", 1)  # bounded: a text of many tags would take hours


def _taking(*patterns: str, by: str = "") -> Callable[[str], str]:
    compiled = [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns]

    def take(text: str) -> str:
        for pattern in compiled:
            text = pattern.sub(by, text)
        return text

    return take


_USER = r"(?:#+ ?)?\b(?:user|human|question|instruction|q) ?:"
_MODEL = (
    r"(?:ai|artificial intelligence|chatbot|language model|multimodal model"
    r"|helpful (?:[\w,-]+ ){0,4}?assistant)"
)
_SYSTEM_PROMPTS = (
    r"<\|im_start\|>system\b(?s:.*?)(?:<\|im_end\|>|\Z)",
    r"<\|start_header_id\|>system<\|end_header_id\|>(?s:.*?)(?:<\|eot_id\|>|\Z)",
    r"<<sys>>(?s:.*?)<</sys>>",
    rf"\A(?:#+ ?)?system ?:(?s:.*?)(?={_USER})",
    r"^(?:#+ ?)?system ?: ?you are\b[^\n]*",
    rf"\Aa (?:chat|conversation) between (?:a |the )?(?:curious )?(?:user|human)\b(?s:.*?)(?={_USER}|\n|\Z)",
    rf"\Ayou are an? (?:[\w,-]+ ){{0,6}}?{_MODEL}\b[^\n.?!]*(?:[.!]|$)"
    r"(?: you (?:are able to|can|should|must|will)\b[^\n.?!]*[.!])*",
)
_ROLE_MARKERS = (
    r"<\|im_start\|>assistant\b(?s:.*?)(?:<\|im_end\|>|\Z)",
    r"<\|im_start\|>user\b",
    r"<\|start_header_id\|>assistant<\|end_header_id\|>(?s:.*?)(?:<\|eot_id\|>|\Z)",
    r"<\|start_header_id\|>user<\|end_header_id\|>|<start_of_turn>user|<end_of_turn>",
    r"\[/inst\](?s:.*?)(?=\[inst\]|\Z)|\[inst\]",
    r"(?:^|(?<=[.?!] ))(?:#+ ?)?(?:assistant|gpt) ?:[^?]*\Z|^#+ ?response ?:[^?]*\Z",
    rf"(?:^|(?<=[.?!] ))(?:{_USER} *)+",
    _TOKENS,
)
_PLACE = (
    r"<(?:image|img)(?:[ _-]?\d+)?/?>|<imagehere>|<\|image(?:_pad)?\|>|<\|vision_(?:start|end)\|>|\[img\]"
)
_PLACE_NAMED = rf"(?<=\b(?:in|of|on|at|by|to) )(?:{_PLACE})|(?<=\b(?:from|with|this) )(?:{_PLACE})"

_DECIMALS = rf"{_AT}answer the question requiring a floating-point number with (\w+) decimal places?\b{_REST}"
_SHOWN = r"(?:according to the question shown in the image, (?:please )?)?"
_REASON = r"first (?:conduct|perform) reasoning\b"
_SAY = "(?:answer|reply|respond|provide|give|output|state|select|choose|pick|supply|return|indicate)"
_BRIEF = "(?:brief|short|quick|concise|compact|succinct|terse)"
_SHORT = rf"(?:{_BRIEF}|very|single|simple|direct|one-word|few|one|just|an?|or|and|,)"
_BEST = "(?:correct|right|best)"
_BOX = (
    r"(?:put|place|enclose|write|give|present|wrap|return|provide|express|output|state|box|report)\b"
    r"[^.?!\n]{0,100}?\\?\bboxed\b(?:\{[^{}\n]*\})?[^.?!\n]{0,60}"
)
_TAGS = "(?:output|put|write|give|enclose|provide|place|wrap|respond|answer|think|use|return)"
_INSTRUCTIONS = (
    # MathVista, MathVerse, Geo170K, and what was made from them
    rf"{_AT}{_SHOWN}(?:{_REASON},? (?:and )?then (?:finally )?)?(?:directly )?"
    rf"answer the question (?:and provide|requiring)\b{_REST}",
    rf"{_AT}{_SHOWN}{_REASON}{_REST}",
    # the form of the answer: a word, a phrase, something short, a letter, a box
    rf"{_AT}(?:directly )?(?:try to )?(?:answer|reply|respond)(?: to)?(?: (?:the|this) (?:\w+ )?questions?)?"
    rf"(?: directly| briefly| concisely)?,? (?:with|using|in)(?: only)?(?: {_SHORT}){{0,6}} "
    rf"(?:words?|phrases?|sentences?|numbers?|letters?)\b{_REST}",
    rf"{_AT}(?:answer|respond|reply)(?: to)?(?: (?:the|this) (?:\w+ )?question)? "
    rf"(?:directly|briefly|concisely|shortly|in detail)\b{_REST}",
    rf"{_AT}directly answer (?:the|this) (?:\w+ )?question{_END}",
    rf"{_AT}(?:give|provide|write|offer)(?: your| the)?(?: {_SHORT}){{1,6}}(?: phrase)? "
    rf"(?:answer|response|reply)(?: to the question(?: above)?)?{_END}",
    rf"{_AT}(?:give|provide|write) (?:your|the) (?:answer|response) (?:as|in)(?: {_SHORT}){{1,6}} "
    rf"(?:word|phrase)\b{_REST}",
    rf"{_AT}(?:be|keep (?:it|your (?:answer|response))|make (?:the|your) answer(?: very)?) {_BRIEF}{_END}",
    rf"{_AT}your (?:answer|response|reply) (?:should|must) be (?:very )?{_BRIEF}{_END}",
    rf"{_AT}(?:ensure brevity in your answer|quick response, please|(?:short|concise) answer(?: only)?)"
    rf"{_END}",
    rf"{_AT}(?:(?:only|just|directly) )?{_SAY}\b(?=[^.?!\n]*\bletters?\b)"
    rf"(?=[^.?!\n]*\b(?:options?|choices?|answers?)\b){_REST}",
    rf"{_AT}(?:(?:only|just|directly) )?{_SAY}(?: with| using)?(?: only| just)? (?:the|its) letter(?: only)?"
    rf"{_END}",
    rf"{_AT}(?:answer|respond|reply) (?:with|by) (?:only )?the (?:{_BEST} )?(?:option|choice)\b{_REST}",
    rf"{_AT}(?:select|choose|pick) (?:the )?{_BEST} (?:answer|option|choice) from (?:among )?(?:the )?"
    rf"(?:(?:given|following|above|provided) )?(?:options|choices)(?: above| below| given| provided)?{_END}",
    rf"{_AT}(?:do not|don['’]t) (?:explain|include|contain|provide|show|give|output)\b"
    rf"(?:(?=[.!])|(?=[^.?!\n]*\b(?:explanations?|analysis|reasoning|thinking)\b)){_REST}",
    rf"(?:^|(?<=[.?!:;,]))[ ]*(?:(?:and|then|please|finally|also|you (?:must|should))[ ,]+){{0,4}}{_BOX}",
    rf" (?:and|then) {_BOX}",
    # orders to think, or where to write the thoughts: in our format the model decides
    rf"{_AT}(?:(?:let['’]s|let us|please|you should|first|carefully),? ){{0,4}}"
    r"(?:think|reason|work|solve (?:it|this|the (?:problem|question))|answer(?: the question)?)"
    r"(?: about (?:it|this))?(?: carefully)? step[ -]by[ -]step"
    r"(?:,? (?:and|then|before)\b[^.?!:\n]*)?(?:[.!]+(?=\s|$)|(?=\n)|:?\s*\Z)",
    rf"{_AT}answer the question (?:with|and provide) (?:an? )?(?:detailed )?"
    rf"(?:explanation|reasoning|rationale){_END}",
    rf"{_AT}(?:generate a reason first|give reasoning steps)\b{_REST}",
    rf"{_AT}(?:show|explain|include) (?:all )?(?:of )?(?:your|the) "
    rf"(?:work|working|reasoning|steps|thinking|thought process){_END}",
    rf"{_AT}(?:you )?first thinks? about the reasoning process\b{_REST}",
    rf"{_AT}(?:(?:please|first|then|finally|you (?:must|should|first)),? ){{0,4}}{_TAGS}\b[^.?!\n]{{0,300}}"
    rf"</?(?:think|answer|judge)>{_REST_OF_TAGS}",
)
_ANSWER = (
    r"(?:(?:the )?(?:correct |final |right |gold )?answer|(?:the )?(?:correct|right) (?:option|choice)|答案)"
)
_VALUE = r"[*_]{0,2}(?!\s*_{2,})[^\n?]{0,80}"
_ANSWER_MARKERS = (
    r"^hint: ?(?:the )?(?:correct )?answer is\b[^\n?]*$",
    r"<answer>(?s:.*?)</answer>|</?(?:think|answer|judge)>",
    rf"(?:^|(?<=[.?!:;] ))(?:#+ *)?[*_]{{0,2}}{_ANSWER}[*_]{{0,2}} ?(?:[:：=]|is\b:?){_VALUE}\Z",
    rf"^#+ *(?:{_ANSWER}|solution)\b:?[*_]{{0,2}}\s*\n{_VALUE}\Z",
    r"^#{3,} *[^\n? ][^\n?]{0,40}\Z",
    r"\n\s*\$?\\boxed\{[^{}\n]+\}\$?\.?\Z",
    r"^(?:(?:your|short) answer(?: is)?|solution) ?:\s*\Z",
)

_RULES: list[tuple[str, Callable[[str], str]]] = [
    ("spelling", _spell),
    ("system prompt", _taking(*_SYSTEM_PROMPTS)),
    ("picture placeholder", _taking(_PLACE_NAMED, by="the picture")),
    ("picture placeholder", _taking(_PLACE)),
    ("role marker", _taking(*_ROLE_MARKERS)),
    # How exact the answer is to be is part of the question, and of this hint.
    ("hint", _taking(_DECIMALS, by=r" Give the answer with \1 decimal places.")),
    ("format instruction", _taking(*_INSTRUCTIONS)),
    ("answer marker", _taking(*_ANSWER_MARKERS)),
]

# ---- answers

_WRAPPINGS = [
    (re.compile(r"\A<answer>(.*)</answer>\Z", re.DOTALL | re.IGNORECASE), r"\1"),
    (
        re.compile(
            rf"\A(?:#+ *)?[*_]{{0,2}}{_ANSWER}[*_]{{0,2}}\s*(?:[:：=]|is\b:?)(?=.)[*_]{{0,2}}",
            re.I | re.S,
        ),
        "",
    ),
    (re.compile(rf"\A#+ *(?:{_ANSWER}\b)?\s*(?=\S)", re.IGNORECASE), ""),
    (re.compile(r"\A\*\*([^*]+)\*\*\Z"), r"\1"),
    (re.compile(r"\A\$\$?([^$]+)\$\$?\Z"), r"\1"),
    (re.compile(r"\A\\[(\[](.*)\\[)\]]\Z", re.DOTALL), r"\1"),
    (re.compile(r"(?<!\.)\.\Z"), ""),  # "0.33..." keeps its dots
]


def _inside_box(text: str) -> str:
    r"""What stands in the one box of a text; the text itself where there is none, or more than one."""
    start = text.find(r"\boxed{")
    if start < 0 or text.count(r"\boxed{") > 1:
        return text
    depth = 0
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start + len(r"\boxed")):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return text[start + len(r"\boxed{") : match.start()].strip()
    return text
