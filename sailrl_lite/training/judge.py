"""Training the learned judge: fresh responses, right and wrong in many ways, marked line by line."""

import random
import re
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from datasets import Dataset
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from sailrl_lite.config import JudgeConfig, checkpoint_of
from sailrl_lite.files import write_text
from sailrl_lite.judges.learned import LearnedJudge, encode, labels_of, statements_of
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Verdict
from sailrl_lite.text import markdown
from sailrl_lite.training.data import numbered
from sailrl_lite.training.models import MicroProcessor, load_checkpoint, save_checkpoint
from sailrl_lite.training.runs import claim_folder
from sailrl_lite.training.sft import fit
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.scenes import COLORS, SHAPES
from sailrl_lite.world.teacher import ERRORS, err, solve
from sailrl_lite.world.traces import Claim, Step, calculate, write_trace
from sailrl_lite.world.verifier import verify

HELD_OUT = 2600  # responses that the card's figures come from


def train_judge(config: JudgeConfig, out: Path, resume: bool = False, bar: bool = True) -> Path:
    """Train a judge from the policy in `config.checkpoint`; return its folder, `out`/judge.

    Its card says how it does on `HELD_OUT` labelled responses to problems of the test split.

    Args:
        resume: go on from the last checkpoint in `out`; the configuration must be the same.

    Raises:
        SailRLError: a value out of its range, or an `out` that holds another run.
        Interrupted: after Ctrl-C.
    """
    config.check()
    model, processor = load_checkpoint(checkpoint_of(config))
    claim_folder(config, out, resume)
    lessons = judge_dataset(config.steps * config.batch, config.seed)
    fit(model, processor, lessons, config, out, resume, bar, partial(_collate, processor))
    model.config.judges = list(DIMENSIONS)  # by which a judge is known from a policy
    folder = save_checkpoint(model, processor, out / "judge")
    measured = quality(LearnedJudge(folder), list(judge_dataset(HELD_OUT, split="test")))
    write_text(folder / "README.md", _card(config, sum(p.numel() for p in model.parameters()), measured))
    return folder


def judge_dataset(rows: int, seed: int = 0, split: str = "train") -> Dataset:
    """`rows` labelled responses to fresh problems of all families in turn.

    Columns: `image`, by which TRL knows that there are pictures, `case`, and `lessons`: for each line that
    the judge reads, and for the answer, its right value (None if there is none) and the dimensions that fail,
    as a number of three bits (logic 1, grounding 2, consistency 4).
    """
    families = tuple(FAMILIES)

    def lesson(index: int) -> dict[str, Any]:
        rng = random.Random(f"judge/{split}/{seed}/{index}")
        problem, stranger = (
            make_problem(family, rng.randrange(2**40), split)
            for family in (families[index % len(families)], rng.choice(families))
        )
        think, answer = draw_response(problem, stranger, rng)
        case = Case(problem.question, think, answer, problem.image, problem)
        return {"image": case.image, "case": case, "lessons": _lessons(problem, think, answer)}

    return numbered(rows, lesson)


def quality(judge: LearnedJudge, rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """How a judge does on rows of `judge_dataset`: for each dimension the rates of its binary scores."""
    verdicts = judge.score([row["case"] for row in rows])
    table = []
    for k, dimension in enumerate(DIMENSIONS):
        truth = [int(not any(code >> k & 1 for _, code in row["lessons"])) for row in rows]
        said = [verdict.values[dimension] for verdict in verdicts if isinstance(verdict, Verdict)]
        (right_fail, false_pass), (false_fail, right_pass) = confusion_matrix(truth, said, labels=[0, 1])
        table.append(
            {
                "dimension": dimension,
                "passes": sum(truth) / len(truth),
                "accuracy": (right_fail + right_pass) / len(truth),
                "false pass": false_pass / (right_fail + false_pass),
                "false fail": false_fail / (right_pass + false_fail),
                "kappa": cohen_kappa_score(truth, said),
            }
        )
    return pd.DataFrame(table)


def _lessons(problem: Problem, think: str, answer: str | None) -> list[tuple[str | None, int]]:
    statements = statements_of(think)
    *read, conclusion = verify(problem, think, answer).findings
    marked = [*read[: len(statements)], conclusion]
    codes = [sum(1 << k for k, d in enumerate(DIMENSIONS) if d in finding.failed) for finding in marked]
    values: list[str | None] = []
    end = None  # what the trace comes to
    for statement in statements:
        right = None
        match statement:
            case Step(left, op, number, result):
                right, end = str(calculate(left, op, number)), str(result)
            case Claim(name, value):
                right, end = problem.facts[name].value if name in problem.facts else None, value
        values.append(right)
    return list(zip([*values, end], codes, strict=True))


def _collate(processor: MicroProcessor, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
    read = encode(processor, [row["case"] for row in rows])
    return {**read.inputs, "labels": labels_of(processor, read, [row["lessons"] for row in rows])}


def _card(config: JudgeConfig, parameters: int, measured: pd.DataFrame) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl"))
    start = (
        f"the policy in {config.checkpoint}" if config.checkpoint else "the shipped SFT policy (micro-sft)"
    )
    rows = [
        [name, *(f"{value:.3f}" for value in values)] for name, *values in measured.itertuples(index=False)
    ]
    table = markdown(measured.columns, rows)
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# SAIL-RL lite: the learned judge

A Qwen2.5-VL of {parameters:,} parameters that reads a question, its picture and a response of the
micro-world as a proofreader does, line by line: which value it would expect there, and whether logic,
grounding or consistency fail for another reason. It is a real judge: it was taught by one that knows the
truth, does without it, and is wrong in ways of its own. It is made for the course, to show how far a judge
can be trusted, and for no other use.

Made by `sailrl-lite judge-train --seed {config.seed}` from {start}:
{config.steps:,} updates of {config.batch} responses, each to a fresh problem of the train split: traces of
the teacher, clean or with an error, edited or garbled, all labelled by the exact verifier. AdamW, learning
rate {config.learning_rate:g} with warm-up and cosine decay, loss on the labels only.
{versions}.

On {HELD_OUT:,} such responses to problems of the test split, whose handwriting it has not seen:

{table}

`passes` is the share of responses that pass in truth; `false pass` the share of the failing ones that it lets
pass; `false fail` the share of the passing ones that it fails.

Blind spots of the shipped one: gaps between steps, the right arithmetic on the wrong quantities, a claim
that contradicts an earlier one, an answer in words of its own ("It is 47"), true facts that nobody needs,
all after the 24th line or the 32nd token of a line, and, for logic, long and foreign text. It has never seen
words that are addressed to a judge, for finding out what works on it is the lesson. Without a picture it
gives no verdict.

Load it with `sailrl_lite.judges.learned.LearnedJudge`.
"""


# ---- responses

_WRONG = (*ERRORS, "slip", "wrong_model", "wrong_model", "missing", "missing")  # more of what no value shows
_EDITS = (
    "drop", "drop", "repeat", "exchange", "value", "operation", "true claim", "true claim", "false claim",
    "strange claim", "mangled",
)  # fmt: skip
_KINDS = (tuple(COLORS), SHAPES, ("yes", "no"))


def draw_response(problem: Problem, stranger: Problem, rng: random.Random) -> tuple[str, str | None]:
    """A trace and an answer: one in three garbled, the rest clean or with an error of the teacher's, and two
    in five of these with further edits.

    Garbling changes many values at once. Most lines of the teacher's traces are right, and a judge learns
    little from these. The edits are what a policy may do that the teacher
    never does, harmless ones among them; some put in parts of the trace of `stranger`. None of them speaks to
    the judge: what it makes of that is its own.
    """
    if rng.random() < 0.33:
        return _garbled(problem, rng)
    wrong = rng.random() < 0.6 and not problem.gold.startswith("-")  # the teacher swaps no number below zero
    lesson = err(problem, rng.choice(_WRONG), rng) if wrong else None
    trace = lesson.trace if lesson else write_trace(solve(problem if rng.random() < 0.96 else stranger))
    lines = trace.split("\n")
    answer: str | None = lesson.answer if lesson else problem.gold
    if rng.random() < 0.4:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if rng.random() < 0.2:
                answer = rng.choice((stranger.gold, problem.gold, _other_value(f"={answer}", rng)[1:], None))
            else:
                _edit(lines, problem, stranger, rng)
    return "\n".join(lines), answer


def _garbled(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """The clean trace with three values in ten changed, and an answer that follows from it or does not."""
    clean = write_trace(solve(problem)).split("\n")
    lines = [_other_value(line, rng) if rng.random() < 0.3 else line for line in clean]
    end = "=" + lines[-1].rpartition("=")[2]
    answer = rng.choice((end, end, _other_value(end, rng), f"={problem.gold}"))
    return "\n".join(lines), answer[1:]


def _edit(lines: list[str], problem: Problem, stranger: Problem, rng: random.Random) -> None:
    """Change a trace in place in one way."""
    name, fact = rng.choice(list(problem.facts.items()))
    true = f"{name}={fact.value}"
    if not lines:
        lines.append(true)
        return
    at = rng.randrange(len(lines))
    match rng.choice(_EDITS):
        case "drop":
            del lines[at]
        case "repeat":
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case "exchange":
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case "value":
            lines[at] = _other_value(lines[at], rng)
        case "operation":
            lines[at] = re.sub(r"[+*-]", lambda _: rng.choice("+-*"), lines[at], count=1)
        case "true claim":
            lines.insert(at, true)
        case "false claim":
            lines.insert(at, _other_value(true, rng))
        case "strange claim":
            lines.insert(at, rng.choice(write_trace(solve(stranger)).split("\n")))
        case "mangled":
            pieces = re.findall(r"[a-z]+|.", lines[at])
            del pieces[rng.randrange(len(pieces))]
            lines[at] = "".join(pieces) or "="


def _other_value(line: str, rng: random.Random) -> str:
    """The line with one digit changed or, where it has none, with another word behind its equals sign."""
    digits = [k for k, character in enumerate(line) if character.isdigit()]
    if digits:
        at = rng.choice(digits)
        return line[:at] + rng.choice("0123456789") + line[at + 1 :]
    before, equals, value = line.rpartition("=")
    kind = next((words for words in _KINDS if value in words), sum(_KINDS, ()))
    return before + equals + rng.choice(kind)
