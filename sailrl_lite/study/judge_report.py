"""The report of judge-check as Markdown, from what its judge-check.json holds."""

from collections.abc import Sequence
from typing import Any

from sailrl_lite.judges.check import ALL_THREE, THRESHOLD
from sailrl_lite.judges.protocol import DIMENSIONS


def overview(report: dict[str, Any]) -> str:
    """The judge, how much it said, and its rates by dimension: a few lines for a terminal."""
    settings, asked = report["settings"], report["asked"]
    lines = [
        f"{report['judge']}: {report['verdicts']:,} verdicts, {report['no_verdicts']:,} times no verdict, on "
        f"{settings['traces']:,} traces, {settings['repeats']} opinions each, in {report['seconds']:,.1f} s."
    ]
    if report["causes"]:
        causes = ", ".join(f"{cause} {n:,}" for cause, n in report["causes"].items())
        lines.append(f"Why there was no verdict: {causes}.")
    if report["stopped"]:
        whole = settings["traces"] * settings["repeats"]
        lines.append(f"It stopped after {asked:,} of {whole:,} opinions: {report['stopped']}.")
    columns = ("accuracy", "false pass", "false fail", "kappa")
    rows = [
        [
            row["dimension"],
            f"{row['verdicts']:,}",
            *(_interval(row, column.replace(" ", "_")) for column in columns),
            _number(row["agreement"]),
        ]
        for row in report["overall"]
    ]
    return "\n".join([*lines, "", *_markdown(["dimension", "verdicts", *columns, "agreement"], rows)])


def markdown(report: dict[str, Any]) -> str:
    """The whole report as Markdown, from what judge-check.json holds."""
    lines = [f"# How far can the judge be trusted? {report['judge']}", "", overview(report), "", _READING]
    if report["settings"]["continuous"]:
        lines += ["", _CONTINUOUS]
    lines += ["", "![What the judge said of right and wrong traces](confusion.png)"]
    for name, title in (("source", "By source"), ("family", "By family"), ("name", "By error and trick")):
        lines += ["", f"## {title}", "", *_wide(report[name])]
    if report["causes"]:
        rows = [[cause, f"{n:,}"] for cause, n in report["causes"].items()]
        lines += ["", "## Why there was no verdict", "", *_markdown(["cause", "times"], rows)]
    return "\n".join([*lines, "", "## What it took", "", *_effort(report), ""])


_READING = (
    "False pass: the share of what is wrong that the judge passes. False fail: the share of what is right "
    "that it fails. Kappa: agreement beyond chance, 0 for a judge that knows nothing, 1 for a perfect one. "
    "Agreement: the share of traces of which two opinions say the same. In brackets 95% intervals (Wilson's "
    "for rates, bootstrap over traces for kappa). No verdict counts neither for nor against the judge."
)
_CONTINUOUS = (
    f"Scores were asked for anywhere from 0 to 1 and pass from {THRESHOLD} on. A judge whose score is the "
    "share of statements that hold, as the exact one's is, then passes a trace that is wrong in few places."
)


def _wide(records: Sequence[dict[str, Any]]) -> list[str]:
    """One row a group: all three right at once, then false pass and false fail by dimension."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for row in records:
        groups.setdefault(row["group"], {})[row["dimension"]] = row
    rows = []
    for group, by in groups.items():
        both = [f"{_number(by[d]['false_pass'])} / {_number(by[d]['false_fail'])}" for d in DIMENSIONS]
        whole = by[ALL_THREE]
        rows.append(
            [group, f"{whole['traces']}", f"{whole['no_verdicts']}", _number(whole["accuracy"]), *both]
        )
    heads = [f"{d}: false pass / fail" for d in DIMENSIONS]
    return _markdown(["", "traces", "no verdict", "all three right", *heads], rows)


def _effort(report: dict[str, Any]) -> list[str]:
    usage, pace, paper = report["usage"], report["seconds_per_case"], report["paper"]
    lines = [
        f"- {report['seconds']:,.1f} s in all; {pace['p50']:.3g} s an opinion (the median over the chunks "
        f"that the judge is given), 95th percentile {pace['p95']:.3g} s"
    ]
    told = {name: value for name, value in usage.items() if not name.startswith("no_verdict")}
    lines += [f"- {name.replace('_', ' ')}: {_plain(value)}" for name, value in told.items()]
    if paper:
        cost = "no prices were given" if paper["cost"] is None else f"${paper['cost']:,.2f}"
        lines.append(
            f"- at this rate a verdict on each of the paper's {paper['rollouts']:,} rollouts (70,000 "
            f"prompts, 3 epochs, 5 each) takes {paper['calls']:,} calls, {paper['tokens_in']:,} tokens in, "
            f"{paper['tokens_out']:,} tokens out, {cost}"
        )
    return [*lines, f"- sailrl-lite {report['version']}"]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose columns line up as plain text too."""
    columns = []
    for k, (head, *cells) in enumerate(zip(heads, *rows, strict=True)):
        width = max(map(len, (head, *cells)))
        rule = "-" * width if k == 0 else "-" * (width - 1) + ":"
        columns.append([cell.rjust(width) if k else cell.ljust(width) for cell in (head, rule, *cells)])
    return [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]


def _interval(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return "-"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.3f}, {row[f'{name}_high']:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}"
