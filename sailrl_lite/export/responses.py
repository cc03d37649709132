"""What an evaluation by VLMEvalKit leaves behind, as the columns of the paper's table 5.

Accuracy is VLMEvalKit's own. The rest is read from the raw responses, which the policy's wrapper keeps: when
it thought, whether it kept to the format, and what it spent.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from sailrl_lite.errors import SailRLError
from sailrl_lite.export.vlmevalkit import BENCHMARKS
from sailrl_lite.response import parse_response

NEVER = "-never"  # what the name of a policy that is forced to answer directly ends in


def read_responses(folder: Path) -> pd.DataFrame:
    """A row a question: model, data, key, response (with the prefill), tokens, and what was read from it.

    `folder` is one of `outputs/`; it holds a folder a model, with `responses-RANK.jsonl`. A question that was
    asked twice, since a run was stopped before it was stored, counts once, as it was last answered. A line
    that a kill cut short is left out.

    Raises:
        SailRLError: there are no responses.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for file in sorted(folder.glob("*/responses-*.jsonl")):
        for row in _lines(file):
            found[file.parent.name, row["data"], row["key"]] = {"model": file.parent.name} | row
    if not found:
        raise SailRLError(f"no responses in {folder}; run evaluate.py first")
    return pd.DataFrame([row | _read(row["response"]) for row in found.values()])


def read_scores(folder: Path) -> dict[tuple[str, str], float]:
    """Accuracy in per cent by model and data set, as VLMEvalKit's status.json has it.

    For a data set that is none of the paper's it is the figure "Overall".
    """
    by_data = {benchmark.data: benchmark for benchmark in BENCHMARKS.values()}
    scores = {}
    for file in sorted(folder.glob("*/status.json")):
        for data, status in json.loads(file.read_text("utf-8")).get("datasets", {}).items():
            figures = _written_out(status.get("metrics", {}))
            if data in by_data:
                score = by_data[data].accuracy(figures)
            else:
                name = next((name for name in figures if name.split("|")[-1] == "Overall"), None)
                score = 100 * figures[name] if name else None
            if score is not None:
                scores[file.parent.name, data] = score
    return scores


def table5(rows: pd.DataFrame, scores: dict[tuple[str, str], float]) -> pd.DataFrame:
    """One line a data set and model: n, accuracy, trigger_rate, format_rate (per cent), tokens a response,
    and relative_tokens, over those of the same policy forced to answer directly (NaN without that run)."""
    lines = []
    for pair, group in rows.groupby(["data", "model"], sort=False):
        data, model = map(str, pair)
        base = rows[(rows["data"] == data) & (rows["model"] == model.removesuffix(NEVER) + NEVER)]
        lines.append(
            {
                "data": data,
                "model": model,
                "n": len(group),
                "accuracy": scores.get((model, data), float("nan")),
                "trigger_rate": 100 * group["thought"].mean(),
                "format_rate": 100 * group["well_formed"].mean(),
                "tokens": group["tokens"].mean(),
                "relative_tokens": group["tokens"].mean() / base["tokens"].mean(),
            }
        )
    return pd.DataFrame(lines)


def _written_out(figures: dict[str, float]) -> dict[str, float]:
    """The figures, and those that VLMEvalKit has as texts ("35.80%") and puts into the names of others."""
    texts = {
        part.partition("=")[0]: float(part.partition("=")[2].rstrip("%"))
        for name in figures
        for part in name.split("|")
        if re.search(r"=[0-9.]+%$", part)
    }
    return figures | texts


def _read(response: str) -> dict[str, Any]:
    read = parse_response(response)
    return {"thought": bool(read.think), "well_formed": read.well_formed, "answer": read.answer}


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8", errors="replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
