"""Published runs beside what `plan` says of them, with the error of each."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sailrl_lite.config import SHIPPED
from sailrl_lite.files import read_toml
from sailrl_lite.plan.hardware import GIB, Gpu, get_gpu
from sailrl_lite.plan.memory import memory
from sailrl_lite.plan.setup import Setup
from sailrl_lite.plan.shapes import read_shape
from sailrl_lite.plan.work import seconds
from sailrl_lite.text import columns

_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Compared:
    """One published figure.

    Attributes:
        run, source: its name, and where it is published.
        figure: what it is of: "GPUs" (the least number that will do), "GiB" (peak of one GPU), "fits" (1: it
            was run, so it must) or "seconds" (of a step).
        published, planned: the two values.
        role: "fitted", where the one constant comes from, "tested", "own", a run of this project, or
            "assumed" where the source leaves out something that the plan depends on (`note` says what).
    """

    run: str
    source: str
    date: str
    figure: str
    published: float
    planned: float
    role: str
    note: str

    @property
    def error(self) -> float:
        """Planned over published, less 1."""
        return self.planned / self.published - 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"error": self.error}


def compare() -> list[Compared]:
    """Every published figure of `published.toml` beside the plan's."""
    table = read_toml(Path(__file__).with_name("published.toml"), "the published runs")
    rows = []
    for name, entry in table.items():
        setup, gpu = published_setup(entry), _gpu(entry)
        planned = {
            "GPUs": lambda s=setup, g=gpu: least_gpus(s, g),
            "GiB": lambda s=setup, g=gpu: memory(s, g).peak / GIB,
            "fits": lambda s=setup, g=gpu: float(memory(s, g).peak <= g.memory),
            "seconds": lambda s=setup, g=gpu: seconds(s, g).total,
        }
        for figure, published in entry["states"].items():
            role, note = entry.get("role", "tested"), entry.get("note", "")
            if figure != "seconds" and role == "fitted":
                role = "tested"
            rows.append(
                Compared(
                    name,
                    entry["source"],
                    entry["date"],
                    figure,
                    float(published),
                    planned[figure](),
                    role,
                    note,
                )
            )
    return rows


def published_setup(entry: dict[str, Any]) -> Setup:
    """The setup that an entry of `published.toml` describes."""
    model = entry["model"]
    return Setup(read_shape(SHIPPED if model == "shipped" else model), **entry["setup"])


def least_gpus(setup: Setup, gpu: Gpu) -> float:
    """The least power of two of GPUs with which a sharded run fits; infinity where 128 do not.

    As in the tables of the frameworks: vLLM asleep in updates, and its share not counted.
    """
    for count in _COUNTS:
        tried = replace(setup, gpus=count, sharding=setup.sharding if count > 1 else "none")
        if memory(tried, gpu).update <= gpu.memory:
            return count
    return math.inf


def comparison_table(rows: Sequence[Compared]) -> str:
    """The comparison as text, and the mean error of what was not fitted."""
    lines = [
        (
            row.run,
            row.figure,
            f"{row.published:.4g}",
            f"{row.planned:.4g}",
            f"{row.error:+.0%}",
            row.role,
            row.source,
        )
        for row in rows
    ]
    text = columns([("run", "figure", "published", "planned", "error", "role", "source"), *lines])
    means = []
    for figure in ("GiB", "GPUs", "seconds"):
        errors = [abs(row.error) for row in rows if row.figure == figure and row.role == "tested"]
        means.append(f"{figure} {sum(errors) / len(errors):.0%} of {len(errors)}")
    notes = [
        f"  {row.run}: {row.note}"
        for k, row in enumerate(rows)
        if row.note and row.run not in {r.run for r in rows[:k]}
    ]
    return "\n".join([text, "", f"mean size of the error where tested: {', '.join(means)}", "notes", *notes])


def _gpu(entry: dict[str, Any]) -> Gpu:
    """The accelerator of a run; `memory` is in GiB, where the source says another than ours."""
    gpu = get_gpu(entry["gpu"])
    return replace(gpu, memory=entry["memory"] * GIB) if "memory" in entry else gpu
