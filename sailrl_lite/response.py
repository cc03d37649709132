r"""The response format: judge, think, answer. Everything else reads a model's text through this module.

    <judge> free text that says whether thinking is needed </judge>
    <think> reasoning, or only blank lines </think>
    <answer> ... \boxed{final} </answer>

`parse_response` never raises and is linear in the text; `render_response` is its inverse. The format reward
(paper section 3.3) is nothing but `Response.well_formed`.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import chain, pairwise

from sailrl_lite.decision import Decision, read_decision

END_OF_TURN = ("<|im_end|>", "<|endoftext|>")
THINK = "This question needs step-by-step reasoning."
DIRECT = "This question can be answered directly."
NEVER_THINK = f"<judge>{DIRECT}</judge><think></think><answer>"  # as prefill it forces a direct answer
BLOCKS = ("judge", "think", "answer")

_TAG = re.compile(r"<(/?)(judge|think|answer)>")
_BOX = r"\boxed{"
# White space here is whatever leaves no mark: a trace of it is blank. That is the separators, controls and
# format characters of Unicode (all of them lie in these ranges: 10 ms), and letters that look like a space.
_BLANK = "\u115f\u1160\u2800\u3164\uffa0" + "".join(
    char
    for char in map(chr, chain(range(0x20000), range(0xE0000, 0xE0080)))
    if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Zs")
)


@dataclass(frozen=True)
class Response:
    """A parsed response. Texts are without outer white space; None marks what could not be read.

    decision: what the judgment says, "think" or "direct"; None where it says neither or both.
    judge, think: the text of the block; a blank think block is "".
    answer: what stands in the last box of the answer block, never "".
    problems: why the response is malformed, one short text each; empty if it is well formed.
    """

    decision: Decision | None
    judge: str | None
    think: str | None
    answer: str | None
    problems: tuple[str, ...] = ()

    @property
    def well_formed(self) -> bool:
        return not self.problems


def parse_response(text: str, prefill: str = "") -> Response:
    r"""Read a completion, together with the part of it that was put into the model's mouth (`prefill`).

    >>> parse_response(r"Think.</judge> <think>2+3=5</think> <answer>\boxed{5}</answer>", prefill="<judge>")
    Response(decision='think', judge='Think.', think='2+3=5', answer='5', problems=())

    A malformed response is still read block by block, so that its parts can be logged:

    >>> r = parse_response(r"Sure! <judge>direct</judge><think>4+7=11</think><answer>\boxed{11}</answer>")
    >>> r.well_formed, r.decision, r.answer
    (False, 'direct', '11')
    >>> r.problems
    ('text before <judge>', 'the judgment says direct, but the think block is not blank')
    """
    text = _strip_end(prefill + text)
    tags = [(match.group(), match.start()) for match in _TAG.finditer(text)]
    problems = _structure_problems(text, tags)
    judge, think, answer_block = (_read_block(text, tags, name) for name in BLOCKS)

    # A block nested in the judgment makes the response malformed; its tag is not a word of the judgment.
    decision = None if judge is None else read_decision(_TAG.sub(" ", judge))
    if judge is not None and decision is None:
        problems.append("the judgment does not say whether thinking is needed")
    if think is not None and decision == "direct" and think:
        problems.append("the judgment says direct, but the think block is not blank")
    if think is not None and decision == "think" and not think:
        problems.append("the judgment says think, but the think block is blank")

    answer = None
    if answer_block is not None:
        answer, problem = _last_box(answer_block)
        if problem:
            problems.append(problem)
    return Response(decision, judge, think, answer, tuple(problems))


def render_response(think: str | Response, answer: str | None = None, judge: str | None = None) -> str:
    r"""Write a response, from its texts or from a parsed one; the inverse of `parse_response`.

    For every well-formed response r, parsing `render_response(r)` gives r again. A blank `think` makes it a
    direct answer. Without `judge` the canonical sentence, THINK or DIRECT, is written. Raises ValueError for
    what could not be read back: a tag inside a text, a judgment that contradicts the think block, no or a
    blank answer, or unbalanced braces.

    >>> print(render_response("2+3=5", "5"))
    <judge>This question needs step-by-step reasoning.</judge>
    <think>
    2+3=5
    </think>
    <answer>\boxed{5}</answer>
    >>> render_response("so </think>", "5")
    Traceback (most recent call last):
    ValueError: cannot render: the think text holds the tag </think>
    """
    if isinstance(think, Response):
        read = think
        think, answer, judge = read.think or "", read.answer, read.judge
    think, answer = think.strip(_BLANK), (answer or "").strip(_BLANK)
    judge = (THINK if think else DIRECT) if judge is None else judge.strip(_BLANK)
    for name, content in zip(BLOCKS, (judge, think, answer), strict=True):
        if tag := _TAG.search(content):
            raise ValueError(f"cannot render: the {name} text holds the tag {tag.group()}")
    text = f"<judge>{judge}</judge>\n<think>\n{think}\n</think>\n<answer>{_BOX}{answer}}}</answer>"
    again = parse_response(text)  # the parser is the judge of what can be rendered
    if again.problems:
        raise ValueError("cannot render: " + "; ".join(again.problems))
    if again.answer != answer:
        raise ValueError(f"cannot render: the answer {answer!r} would be read back as {again.answer!r}")
    return text


def _strip_end(text: str) -> str:
    """Drop outer white space and any number of trailing end-of-turn tokens (rule 1)."""
    end = len(text)
    while True:  # by index, not by slicing: a megabyte of repeated tokens stays linear
        while end and text[end - 1] in _BLANK:
            end -= 1
        token = next((token for token in END_OF_TURN if text.endswith(token, 0, end)), None)
        if token is None:
            return text[:end].strip(_BLANK)
        end -= len(token)


def _structure_problems(text: str, tags: list[tuple[str, int]]) -> list[str]:
    """What is wrong with the tags and with the text outside the blocks (rule 2)."""
    if not text:
        return ["the response is empty"]
    problems = []
    expected = [tag for name in BLOCKS for tag in (f"<{name}>", f"</{name}>")]
    found = [tag for tag, _ in tags]
    for tag in expected:
        if (count := found.count(tag)) != 1:
            problems.append(f"{tag} occurs {count} times" if count else f"{tag} is missing")
    if not problems and found != expected:
        problems.append("the blocks are not in the order judge, think, answer, each closed before the next")
    if not tags:
        return problems

    before, after = text[: tags[0][1]], text[tags[-1][1] + len(found[-1]) :]
    if before.strip(_BLANK):
        problems.append(f"text before {found[0]}")
    for (tag, start), (following, end) in pairwise(tags):
        if tag.startswith("</") and text[start + len(tag) : end].strip(_BLANK):
            problems.append(f"text between {tag} and {following}")
            break  # one such line is enough: a degenerate text may have thousands
    if after.strip(_BLANK):
        problems.append(f"text after {found[-1]}")
    return problems


def _read_block(text: str, tags: list[tuple[str, int]], name: str) -> str | None:
    """The text of a block where it can be told (rule 3), else None.

    Its two tags occur once each, the opening one first, at a place where no other block stands open. A block
    is open from its opening tag up to its next closing tag.
    """
    opening, closing = f"<{name}>", f"</{name}>"
    starts = [at for tag, at in tags if tag == opening]
    ends = [at for tag, at in tags if tag == closing]
    if len(starts) != 1 or len(ends) != 1 or ends[0] < starts[0]:
        return None
    standing_open = set()
    for tag, at in tags:
        if at == starts[0]:
            break
        if tag.startswith("</"):
            standing_open.discard(tag[2:-1])
        else:
            standing_open.add(tag[1:-1])
    return None if standing_open else text[starts[0] + len(opening) : ends[0]].strip(_BLANK)


def _last_box(block: str) -> tuple[str | None, str | None]:
    r"""The content of the last box and no problem, or no answer and the problem (rule 6).

    An escaped brace is a printed character and does not count for the balance.

    >>> _last_box(r"\boxed{2}, rather \boxed{\frac{1}{3}}")
    ('\\frac{1}{3}', None)
    >>> _last_box(r"\boxed{\{1,2\}}")
    ('\\{1,2\\}', None)
    >>> _last_box(r"\boxed{2} or \boxed{3")
    (None, 'the last \\boxed{ is not closed')
    """
    start = block.rfind(_BOX)
    if start < 0:
        return None, r"no \boxed{...} in the answer block"
    start += len(_BOX)
    depth = 1
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(block, start):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            answer = block[start : match.start()].strip(_BLANK)
            return (answer, None) if answer else (None, "the last box is blank")
    return None, r"the last \boxed{ is not closed"
