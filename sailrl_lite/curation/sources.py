"""The public sources of the account: where they are (registry.toml), and how a record of each becomes a row.

A function takes one record in the source's published columns and returns the row's texts; the reader adds
picture, id and source. Cleaning is left to the steps.
"""

import functools
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sailrl_lite.curation.clean import unwrap
from sailrl_lite.curation.options import multiple_choice
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row
from sailrl_lite.errors import SailRLError
from sailrl_lite.response import parse_response


@dataclass(frozen=True)
class Source:
    """One table of registry.toml, which says what each entry means."""

    name: str
    hub: str
    revision: str
    split: str
    image: str
    roles: tuple[str, ...]
    part: str
    kind: str
    license: str
    confirmed: bool
    checked: str
    configs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    archive: str = ""

    def row(self, record: Mapping[str, Any]) -> Row | Drop:
        """The texts of a record as a row without id and picture."""
        return _FUNCTIONS[self.name](record)


@functools.cache
def registry() -> dict[str, Source]:
    """All sources by name, in the order of the account."""
    tables = tomllib.loads(Path(__file__).with_name("registry.toml").read_text("utf-8"))
    lists = ("roles", "configs", "files")
    found: dict[str, Source] = {}
    for name, table in tables.items():
        values: dict[str, Any] = {key: tuple(v) if key in lists else v for key, v in table.items()}
        found[name] = Source(name=name, **values)
    return found


def get_source(name: str) -> Source:
    if name not in registry():
        raise SailRLError(f"unknown source {name!r}; known sources: {', '.join(registry())}")
    return registry()[name]


# ---- one function a source


def visualwebinstruct(record: Mapping[str, Any]) -> Row | Drop:
    """The answer is a solution in prose; its box, or what stands after its last "Answer:", is the gold."""
    turn = _first_turn(record)
    if isinstance(turn, Drop):
        return turn
    answer = _final_answer(turn[1])
    return _row(turn[0], answer) if answer else Drop("no final answer", turn[1][-100:])


def mathv360k(record: Mapping[str, Any]) -> Row | Drop:
    """`Hint: ...` and `Question: ...` before the question, `Choices:` after it, a short answer."""
    turn = _first_turn(record)
    if isinstance(turn, Drop):
        return turn
    hinted = re.search(r"\AHint:.*?\n[ \t]*Question:\s*(.*)", turn[0], re.DOTALL)
    return _row(hinted[1] if hinted else turn[0], turn[1])


def llava_cot(record: Mapping[str, Any]) -> Row | Drop:
    """The gold is the conclusion; the source's own trace is not taken over."""
    turn = _first_turn(record)
    if isinstance(turn, Drop):
        return turn
    conclusion = re.search(r"<CONCLUSION>(.*?)</CONCLUSION>", turn[1], re.DOTALL)
    return _row(turn[0], conclusion[1]) if conclusion else Drop("no final answer", "it has no conclusion")


def mm_math(record: Mapping[str, Any]) -> Row | Drop:
    """The gold is the last box of the solution."""
    answer = _last_box(str(record["solution"]))
    return _row(record["question"], answer) if answer else Drop("no final answer", "no box in the solution")


def mathverse(record: Mapping[str, Any]) -> Row | Drop:
    """Choices, where it has some, stand in the question."""
    return _row(record["question"], record["answer"])


def wemath(record: Mapping[str, Any]) -> Row | Drop:
    """The choices are one text, as "A. 3; B. 4"."""
    parts = re.split(r"[;；]\s*(?=[A-J]\s*[.．:：)])", str(record["option"]).strip(" ;；"))
    return _choice(
        record["question"], [re.sub(r"\A[A-J]\s*[.．:：)]\s*", "", part) for part in parts], record
    )


def puzzlevqa(record: Mapping[str, Any]) -> Row | Drop:
    """The answer is the text of one of the options."""
    return _choice(record["question"], record["options"], record)


def scienceqa(record: Mapping[str, Any]) -> Row | Drop:
    """The answer is the number of a choice; the hint, where there is one, is context that belongs to it."""
    question = "\n".join(filter(None, [record.get("hint"), record["question"]]))
    number = int(record["answer"])
    if not 0 <= number < len(record["choices"]):
        return Drop("answer is no option", f"number {number} of {len(record['choices'])} choices")
    return _choice(question, record["choices"], {"answer": "ABCDEFGHIJ"[number]})


def clevr_counting(record: Mapping[str, Any]) -> Row | Drop:
    """The answer stands in tags."""
    return _row(record["problem"], record["solution"])


def ocr_textvqa(record: Mapping[str, Any]) -> Row | Drop:
    """Ten people answered; the gold is what most of them said, three at least (VQA counts three as right)."""
    said = Counter(answer.strip().lower() for answer in record["answers"] if answer.strip())
    answer, votes = said.most_common(1)[0] if said else ("", 0)
    if votes < 3:
        return Drop("people disagree", f"at most {votes} of {len(record['answers'])} gave one answer")
    return _row(record["question"], answer)


def llava_onevision(record: Mapping[str, Any]) -> Row | Drop:
    """Of a conversation of several turns the first question is taken."""
    turn = _first_turn(record)
    return turn if isinstance(turn, Drop) else _row(*turn)


_FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Row | Drop]] = {
    "visualwebinstruct": visualwebinstruct,
    "mathv360k": mathv360k,
    "llava-cot": llava_cot,
    "mm-math": mm_math,
    "mathverse": mathverse,
    "wemath": wemath,
    "puzzlevqa": puzzlevqa,
    "scienceqa": scienceqa,
    "clevr-counting": clevr_counting,
    "ocr-textvqa": ocr_textvqa,
    "llava-onevision": llava_onevision,
}


# ---- what they share


def _row(question: Any, answer: Any) -> Row | Drop:
    """A row; multiple choice where the question lists options and the answer names one of them."""
    question, gold = str(question or "").strip(), unwrap(str(answer))
    if not question:
        return Drop("empty question", "there is none in the text")
    if found := multiple_choice(question, gold):
        question, gold, options = found
        return Row("", b"", question, gold, options=options)
    return Row("", b"", question, gold)


def _choice(question: str, options: list[str], record: Mapping[str, Any]) -> Row | Drop:
    answer = str(record["answer"])
    found = multiple_choice(question, unwrap(answer), [str(option) for option in options])
    if found is None:
        return Drop("answer is no option", f"{answer!r} is none of {options}"[:200])
    question, letter, chosen = found
    return Row("", b"", question, letter, options=chosen)


def _first_turn(record: Mapping[str, Any]) -> tuple[str, str] | Drop:
    """The first question and its answer of a conversation in LLaVA's form, without the picture's place."""
    turns = record["conversations"]
    if len(turns) < 2 or turns[0]["from"] != "human" or turns[1]["from"] != "gpt":
        return Drop("no question and answer", f"the turns are by {[turn['from'] for turn in turns][:5]}")
    question = turns[0]["value"]
    if question.count("<image>") == 1:  # more are left for cleaning to see
        question = question.replace("<image>", "")
    return question.strip(), turns[1]["value"].strip()


_MARK = re.compile(
    r"(?:^[#* ]{0,8}(?:final )?answer[* ]{0,4}[:：]|\b(?:final |correct )?answer is\b:?)[* ]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)


def _final_answer(solution: str) -> str | None:
    """The last box of a solution, or what follows its last "Answer:", or the whole of one that is short."""
    if box := _last_box(solution):
        return box
    marks = list(_MARK.finditer(solution))
    if marks:
        return solution[marks[-1].end() :].strip(" \n*") or None
    return solution if solution and len(solution) <= 50 and "\n" not in solution else None


def _last_box(text: str) -> str | None:
    return parse_response(f"<answer>{text}</answer>").answer
