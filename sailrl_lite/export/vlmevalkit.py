r"""Evaluation as the paper did: a folder that has VLMEvalKit ask a policy, in an environment of its own.

    sailrl-lite export vlmevalkit OUT --rung paper

writes `settings.json`, which holds every value, and five files that are the same for all policies: the policy
as a model of VLMEvalKit (`sailrl_model.py`), what starts it (`evaluate.py`, `run.sh`), the environment
(`requirements.txt`) and what there is to know (`README.md`). `responses` reads what a run leaves behind.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Literal

from sailrl_lite.config import EvaluateConfig, checkpoint_of, is_hub_name
from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import write_text
from sailrl_lite.response import parse_response

GRADER = "gpt-4o-mini"  # the account: "GPT-4o-Mini as the model judge for answer grading"
EXACT = "exact_matching"  # VLMEvalKit's word for no grader at all
FILES = ("sailrl_model.py", "evaluate.py", "run.sh", "requirements.txt", "README.md")
MARK = "settings.json"


@dataclass(frozen=True)
class Benchmark:
    """One benchmark of the paper.

    data: VLMEvalKit's name of the data set. The account names benchmarks, not data sets; `why` says which was
        taken of several.
    figures: VLMEvalKit's names of the figures that the paper's is the sum of, as patterns of `fnmatch`.
    scale: makes a percentage of that sum.
    """

    table: Literal[1, 2]
    data: str
    figures: tuple[str, ...]
    scale: float = 1.0
    why: str = ""

    def accuracy(self, figures: Mapping[str, float]) -> float | None:
        """Per cent, from the figures of a run, or None where one is missing."""
        found = [next((v for k, v in figures.items() if fnmatchcase(k, p)), None) for p in self.figures]
        return None if None in found else self.scale * sum(value for value in found if value is not None)


BENCHMARKS: dict[str, Benchmark] = {
    "DynaMath": Benchmark(
        1, "DynaMath", ("Setting=Worst Case|Overall",), 100, "right in all ten variants of a question"
    ),
    "LogicVista": Benchmark(1, "LogicVista", ("Task&Skill=Overall|acc",)),
    "MathVerse": Benchmark(1, "MathVerse_MINI_Vision_Only", ("split=*|Overall",), why="as leaderboards do"),
    "MathVision": Benchmark(1, "MathVision", ("Subject=Overall|acc",), why="all of it, not MINI"),
    "MathVista": Benchmark(1, "MathVista_MINI", ("Task&Skill=Overall|acc",), why="has public answers"),
    "WeMath": Benchmark(1, "WeMath", ("Score (Strict)",)),
    "MMMU": Benchmark(2, "MMMU_DEV_VAL", ("split=validation|Overall",), 100, "has public answers"),
    "MMBench": Benchmark(2, "MMBench_DEV_EN_V11", ("split=dev|Overall",), 100, "test needs its own server"),
    "MME": Benchmark(2, "MME", ("perception", "reasoning"), 1 / 28, "of 2,800 points"),
    "ChartQA": Benchmark(2, "ChartQA_TEST", ("Overall",)),
    "AI2D": Benchmark(2, "AI2D_TEST", ("split=*|Overall",), 100, "with the letters masked"),
    "OCRBench": Benchmark(2, "OCRBench", ("Final Score Norm",)),
    "HallusionBench": Benchmark(
        2, "HallusionBench", tuple(f"split=Overall|{name}" for name in ("aAcc", "fAcc", "qAcc")), 1 / 3
    ),
}


def export_vlmevalkit(
    out: Path, config: EvaluateConfig, benchmarks: Sequence[str] = (), grader: str = GRADER
) -> Path:
    """Write the folder; its README says how to go on.

    Args:
        config: the checkpoint, how it is loaded, and how it is sampled. A direct answer is always forced
            beside it, as `never_think` would.
        benchmarks: of the paper, by its names; empty is all thirteen.
        grader: a model for `--judge` of VLMEvalKit, or `EXACT`.

    Raises:
        SailRLError: an unknown benchmark, a bad value, or `out` holds something else.
    """
    config.check()
    usual = EvaluateConfig()
    for name in ("problems", "families", "shortcut", "never_think"):
        if getattr(config, name) != getattr(usual, name):
            raise SailRLError(f"{name} is of the micro-world's own evaluation: `sailrl-lite evaluate`")
    if not re.fullmatch(r"\w[\w./:-]*", grader) or grader.startswith("llm:") or grader == "exact":
        raise SailRLError(
            f"the grader must be the name of a model, such as {GRADER}, or {EXACT}, not {grader!r}"
        )
    for name in benchmarks:
        if name not in BENCHMARKS:
            raise SailRLError(f"unknown benchmark {name!r}; {suggest(name, BENCHMARKS)}")
    if out.exists() and not out.is_dir():
        raise SailRLError(f"{out} is a file; name another folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise SailRLError(f"{out} holds something else; name an empty folder, or a new one")
    chosen = list(benchmarks or BENCHMARKS)
    settings = {
        "checkpoint": _checkpoint(config),
        "policy": asdict(config.policy),
        "temperature": config.temperature,
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        "grader": grader,
        "benchmarks": {name: BENCHMARKS[name].data for name in chosen},
    }
    for name in FILES:
        template = files("sailrl_lite.export").joinpath("templates", "vlmevalkit", name)
        write_text(out / name, template.read_text("utf-8"))
    (out / "run.sh").chmod(0o755)
    write_text(out / MARK, json.dumps(settings, indent=1) + "\n")
    return out


def split_response(text: str) -> tuple[str, str]:
    r"""(what VLMEvalKit is to grade, the trace), of a response with its prefill.

    The answer is that of the last box in the answer block. Where the format fails it is the answer block, or
    else what follows the trace, or else the whole text: a grader may still find the answer there, and the
    format rate tells how often that was. The split of an answer is itself, since VLMEvalKit splits again
    what it reads from an earlier run. Never blank, and never with a leading "=": in its spreadsheets those
    would come back as "nan" and as a formula.

    >>> split_response(r"<judge>Think.</judge><think>2+3=5</think><answer>It is \boxed{5}</answer>")
    ('5', '2+3=5')
    >>> split_response("<think>Two and three.</think> So it is five.")
    ('So it is five.', 'Two and three.')
    >>> split_response("5"), split_response("=5"), split_response("")
    (('5', ''), ('5', ''), ('no answer', ''))
    """
    read = parse_response(text)
    answer = read.answer
    if answer is None:
        block = re.search(r"<answer>(.*?)(?:</answer>|$)", text, re.DOTALL)
        answer = block[1] if block else text.rpartition("</think>")[2]
        answer = re.sub(r"</?(?:judge|think|answer)>", " ", answer)
    return answer.strip().lstrip("= \n\t") or "no answer", read.think or ""


def _checkpoint(config: EvaluateConfig) -> str:
    """A folder by its full path, since the export may lie anywhere; a name of the hub as it is."""
    folder = checkpoint_of(config)
    if any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        return str(folder.resolve())
    if is_hub_name(config.checkpoint):
        return config.checkpoint
    raise SailRLError(f"no checkpoint in {folder}; name another with --checkpoint")
