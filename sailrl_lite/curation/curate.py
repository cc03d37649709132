"""The two curations as a user starts them: from a source to a folder with the data and its report.

OUT/data.parquet   the rows        OUT/report.md, report.json, *.png   what was done to them
OUT/config.json    the settings    OUT/pass-rates.sqlite               what the policy was asked
"""

import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sailrl_lite.config import SHIPPED
from sailrl_lite.curation.annotate import LLMTeacher, MicroTeacher, Teacher
from sailrl_lite.curation.mix import References, read_references
from sailrl_lite.curation.passrate import MicroSampler, PassRate, Sampler, VLLMSampler
from sailrl_lite.curation.pipeline import Dropped, Step, run
from sailrl_lite.curation.quality import DirectAccuracy
from sailrl_lite.curation.readers import read_file, read_micro, read_source
from sailrl_lite.curation.report import write_report
from sailrl_lite.curation.rl import rl_steps
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.settings import RLOptions, SFTOptions
from sailrl_lite.curation.sft import sft_steps
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import working_in, write_text
from sailrl_lite.judges.specs import get_endpoint
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.world.teacher import Noise

SCORES = "pass-rates.sqlite"


@dataclass(frozen=True)
class Source:
    """Where rows come from: one of a file, a source of the registry, and a number of micro-world problems.

    images: the folder of the pictures, where it is not the file's own.
    limit: read no more rows than this.
    """

    file: Path | None = None
    name: str | None = None
    micro: int | None = None
    images: Path | None = None
    limit: int | None = None

    def rows(self) -> Iterator[Row | Dropped]:
        """Raises SailRLError where the source as a whole cannot be read."""
        if self.limit is not None and self.limit < 1:
            raise SailRLError(f"--limit must be at least 1, not {self.limit}")
        if self.file is not None:
            return itertools.islice(read_file(self.file, self.images), self.limit)
        if self.name is not None:
            return read_source(self.name, self.limit, images=self.images)
        if self.micro is None or self.micro < 1:
            raise SailRLError("name a file, a public source, or a number of micro-world problems from 1")
        return itertools.islice(read_micro(self.micro), self.limit)


def get_teacher(text: str, guided: bool = False) -> Teacher | None:
    """The teacher that a text names: "" is none, "micro", or "llm:MODEL,..." as for a judge."""
    if not text:
        return None
    if text == "micro":
        return MicroTeacher(Noise())
    if not text.startswith("llm:"):
        raise SailRLError(f"unknown teacher {text!r}; use micro or llm:MODEL[,base_url=URL][,NAME=VALUE...]")
    return LLMTeacher(get_endpoint(text), guided)


def curate_sft(
    source: Source,
    out: Path,
    options: SFTOptions,
    teacher: Teacher | None = None,
    checkpoint: str = "",
    workers: int = 1,
    bar: bool = True,
) -> Path:
    """Make LongCoT data (paper section 3.4.1) and return the path of its report.

    Args:
        teacher: who writes traces; without one, rows that need a trace and have none are dropped.
        checkpoint: folder of the policy whose direct answers label rows, with options.label "accuracy".

    Raises:
        SailRLError: the source or an option cannot be used, or `out` holds data made otherwise.
    """
    accuracy = _direct_accuracy(out, checkpoint, options)
    steps = sft_steps(options, teacher, accuracy)
    settings = {"kind": "sft", "teacher": teacher.name if teacher else ""} | asdict(options)
    return _curate(source, out, steps, settings, workers, bar)


def curate_rl(
    source: Source,
    out: Path,
    options: RLOptions,
    references: Sequence[str] = (),
    checkpoint: str | None = "",
    workers: int = 1,
    bar: bool = True,
) -> Path:
    """Make RL data (paper section 3.4.5) and return the path of its report.

    Args:
        references: evaluation sets to look for overlaps with: files, or names of the registry.
        checkpoint: folder of the policy that is tried on STEM rows; "" is the shipped one, None tries none.

    Raises:
        SailRLError: as in `curate_sft`.
    """
    sampler = None if checkpoint is None else _trier(checkpoint, options)
    accuracy = _direct_accuracy(out, checkpoint or "", options)
    known = References(read_references(references)) if references else None
    steps = rl_steps(options, sampler, out / SCORES, known, accuracy)
    settings = {"kind": "rl", "references": list(references), "checkpoint": checkpoint} | asdict(options)
    return _curate(source, out, steps, settings, workers, bar)


def _trier(checkpoint: str, options: RLOptions) -> Sampler:
    """Who tries STEM rows."""
    if options.sampler == "vllm":
        return VLLMSampler(checkpoint or str(SHIPPED), max_new_tokens=options.max_new_tokens)
    return _sampler(checkpoint, max_new_tokens=options.max_new_tokens)


def _sampler(checkpoint: str, **options: Any) -> MicroSampler:
    return MicroSampler(Path(checkpoint) if checkpoint else SHIPPED, **options)


def _direct_accuracy(out: Path, checkpoint: str, options: SFTOptions | RLOptions) -> DirectAccuracy | None:
    """Who says how often direct answers are right, where labels depend on it."""
    if options.label != "accuracy":
        return None
    return PassRate(_sampler(checkpoint, prefill=NEVER_THINK), out / SCORES, seed=options.seed).rates


def _curate(
    source: Source,
    out: Path,
    steps: Sequence[Step],
    settings: dict[str, Any],
    workers: int,
    bar: bool,
) -> Path:
    if workers < 1:
        raise SailRLError(f"--workers must be at least 1, not {workers}")
    rows = source.rows()
    described = {name: str(value) for name, value in asdict(source).items() if value is not None}
    settings = {"source": described} | settings
    file, work = out / "data.parquet", out / ".work"
    with working_in(out):
        _claim(out, settings)
        tally = run(rows, steps, file, work, workers, bar, source.micro)
        shutil.rmtree(work, ignore_errors=True)
        then = f"sailrl-lite {settings['kind']} --data {file}"
        if settings["kind"] == "rl" and source.micro is None:
            then += " --judge llm:MODEL  # or a reward that needs no judge: --reward judging+answer"
        return write_report(out, tally, file, settings, then, settings["seed"])


def _claim(out: Path, settings: dict[str, Any]) -> None:
    """Make `out` the folder of these settings; the same ones again make the data again."""
    text, file = json.dumps(settings, indent=1) + "\n", out / "config.json"
    had = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    if (out / "data.parquet").exists():
        if not had:  # the user's own, perhaps the input
            raise SailRLError(f"{out} holds a data.parquet that was not made here; give another --out")
        if had != text:
            raise SailRLError(f"{out} holds data made with other settings; give another --out, or remove it")
    write_text(file, text)
