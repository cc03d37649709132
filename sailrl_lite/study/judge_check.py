"""judge-check: any judge against the exact truth of the labelled set, with what it costs."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from sailrl_lite import __version__, figures
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.judges.check import THRESHOLD, Opinion, causes, check
from sailrl_lite.judges.labelled import SIZE, Labelled, labelled_set
from sailrl_lite.judges.protocol import DIMENSIONS, Judge, Verdict
from sailrl_lite.study.judge_report import markdown

PAPER_ROLLOUTS = 70_000 * 3 * 5  # prompts x epochs x rollouts a prompt
GROUPINGS = ("source", "family", "name")
_CHUNK = 65  # cases that the judge is given at once: five of each family
_LONGEST = 500  # characters of a trace or a reason in traces.jsonl


def run_check(
    judge: Judge,
    out: Path,
    repeats: int = 2,
    continuous: bool = False,
    bar: bool = True,
    size: int = SIZE,
) -> Path:
    """`check_judge` for a program that has no event loop of its own; in a notebook, await that one."""
    return asyncio.run(check_judge(judge, out, repeats, continuous, bar, size))


async def check_judge(
    judge: Judge,
    out: Path,
    repeats: int = 2,
    continuous: bool = False,
    bar: bool = True,
    size: int = SIZE,
) -> Path:
    """Ask a judge about the labelled set and write what it is worth into the folder `out`.

    judge-check.json (everything), judge-check.md (tables to read), confusion.png, traces.jsonl (a line a
    trace). A judge that stops (a spent budget) is reported on with what it said until then.

    Args:
        repeats: independent opinions asked of each trace.
        continuous: ask for scores anywhere in [0, 1]; they pass from 0.5 on.
        size: traces of the set; a smaller one is the beginning of a larger one.

    Returns:
        The path of judge-check.json.

    Raises:
        SailRLError: a size or number of repeats below 1, a folder that cannot be written, or a judge that
            cannot work at all; nothing is written then.
    """
    if repeats < 1:
        raise SailRLError(f"judge-check needs at least 1 repeat, not {repeats}")
    traces = labelled_set(size)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SailRLError(f"cannot make the folder {out}: {error.strerror}; name another one") from error
    found = await _ask(judge, traces, repeats, continuous, bar)
    groups = {name: [getattr(trace, name) for trace in traces] for name in GROUPINGS}
    table = check([trace.truth for trace in traces], found.opinions, groups)
    settings = {"traces": size, "repeats": repeats, "continuous": continuous, "threshold": THRESHOLD}
    report = {
        "judge": judge.name,
        "version": __version__,
        "settings": settings,
        "stopped": judge.stopped,
        **found.counts(),
        "overall": _records(table, "all"),
        **{name: _records(table, name) for name in GROUPINGS},
        **found.effort(),
        "paper": project(found.usage, found.counts()["verdicts"]),
    }
    rows = zip(traces, zip(*found.opinions, strict=True), strict=True)
    lines = [json.dumps(_line(trace, said)) + "\n" for trace, said in rows]
    write_text(out / "traces.jsonl", "".join(lines))
    figures.save(figures.judge_confusion(table, judge.name), out / "confusion.png")
    write_text(out / "judge-check.md", markdown(report))
    write_text(out / "judge-check.json", json.dumps(report, indent=1, allow_nan=False) + "\n")
    return out / "judge-check.json"


@dataclass
class _Answers:
    """opinions: one list of all traces a repeat; None for a trace that the judge was not asked about."""

    opinions: list[list[Opinion]]
    usage: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    paces: list[float] = field(default_factory=list)  # seconds a case, one number a chunk

    @property
    def asked(self) -> int:
        return sum(opinion is not None for repeat in self.opinions for opinion in repeat)

    def counts(self) -> dict[str, Any]:
        why = causes(self.opinions)
        missing = sum(why.values())
        return {"asked": self.asked, "verdicts": self.asked - missing, "no_verdicts": missing, "causes": why}

    def effort(self) -> dict[str, Any]:
        p50, p95 = np.quantile(self.paces, [0.5, 0.95]) if self.paces else (0.0, 0.0)
        return {
            "usage": self.usage,
            "seconds": round(self.seconds, 3),
            "seconds_per_case": {"p50": round(float(p50), 6), "p95": round(float(p95), 6)},
        }


async def _ask(
    judge: Judge, traces: Sequence[Labelled], repeats: int, continuous: bool, bar: bool
) -> _Answers:
    answers = _Answers([[None] * len(traces) for _ in range(repeats)])
    before, started = judge.usage(), time.perf_counter()
    chunks = [(r, k) for r in range(repeats) for k in range(0, len(traces), _CHUNK)]
    with tqdm(total=repeats * len(traces), unit="trace", disable=not bar, dynamic_ncols=True) as progress:
        for repeat, start in chunks:
            if judge.stopped:
                break
            cases = [trace.case for trace in traces[start : start + _CHUNK]]
            begun = time.perf_counter()
            said = await judge.judge(cases, continuous, sample=repeat)
            answers.paces.append((time.perf_counter() - begun) / len(cases))
            for row, opinion in zip(range(start, start + len(cases)), said, strict=True):
                answers.opinions[repeat][row] = opinion
            answers.usage = _difference(judge.usage(), before)
            counts = answers.counts()
            shown = {"verdicts": counts["verdicts"], "no verdict": counts["no_verdicts"]}
            progress.set_postfix(shown | _shown(answers.usage))
            progress.update(len(cases))
    answers.seconds = time.perf_counter() - started
    return answers


def _difference(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """What this check used: counts are told apart from the judge's earlier ones, latencies cannot be."""
    return {
        name: value if name.startswith("latency") else round(value - before.get(name, 0), 9)
        for name, value in now.items()
    }


def _shown(usage: dict[str, float]) -> dict[str, str]:
    parts = {
        name.replace("_", " "): f"{usage[name]:,.0f}" for name in ("calls", "cache_hits") if name in usage
    }
    return parts | ({"cost": f"${usage['cost']:,.2f}"} if usage.get("cost") else {})


def project(usage: dict[str, float], verdicts: int) -> dict[str, float | None] | None:
    """What a verdict on every rollout of the paper would use, at the calls and tokens a verdict as measured.

    An answer from the cache counts as the call that it once was. cost is None where the judge has no prices;
    the whole is None where it reports no tokens, or has answered from its cache alone.
    """
    replies = usage.get("replies", 0)
    if not (verdicts and replies and usage.get("tokens_in")):
        return None
    calls = (replies + usage.get("cache_hits", 0)) / verdicts * PAPER_ROLLOUTS
    whole = {name: round(usage[name] / replies * calls) for name in ("tokens_in", "tokens_out")}
    cost = usage.get("cost", 0) / replies * calls
    return {"rollouts": PAPER_ROLLOUTS, "calls": round(calls), **whole, "cost": round(cost, 2) or None}


def _records(table: pd.DataFrame, by: str) -> list[dict[str, Any]]:
    return json.loads(table[table["by"] == by].drop(columns="by").to_json(orient="records"))


def _line(trace: Labelled, said: Sequence[Opinion]) -> dict[str, Any]:
    """A trace and what was said of it, as a line of traces.jsonl; long texts are cut short."""
    case = trace.case
    return {
        "id": trace.id,
        "family": trace.family,
        "source": trace.source,
        "name": trace.name,
        "question": case.question,
        "think": case.think[:_LONGEST],
        "answer": case.answer,
        "truth": vars(trace.truth),
        "opinions": [_opinion(opinion) for opinion in said],
    }


def _opinion(opinion: Opinion) -> dict[str, Any] | None:
    if isinstance(opinion, Verdict):
        return {
            "scores": {d: opinion.values[d] for d in DIMENSIONS},
            "reasons": {d: text[:_LONGEST] for d, text in opinion.reasons.items()},
        }
    return {"no_verdict": opinion.cause, "detail": opinion.detail[:_LONGEST]} if opinion else None
