"""The report of a curation in one folder: report.json with everything, report.md to read, and figures.

report.json holds `settings`, `versions`, `file`, `rows` (read, left, dropped), `steps` (each with rows in,
changed, dropped by reason, seconds of work), `labels` (rows by kind, source and label), `splits`,
`pass_rates`, `spreads` (value: rows, before and after) and, a line each, `remarks` on rows that stayed (id,
step, note; of overlaps with evaluation sets, say) and `dropped` rows: id, step, reason, detail, and as
`other` the row because of which it went.
"""

import json
import platform
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sailrl_lite import __version__
from sailrl_lite.curation import figures
from sailrl_lite.curation.pipeline import Dropped, Tally
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.survey import LABELS, SAMPLE, Survey, survey
from sailrl_lite.figures import save
from sailrl_lite.files import whole_file, write_text

_PAIRS = 6
_LONGEST = 100  # characters of a text, and lines of a table
_MARKS = re.compile(r"[\\`*_\[\]<>|#$~&]")
_FIGURES = {
    "funnel": "Rows after each step",
    "labels": "Rows by kind and source with their labels",
    "lengths": "Before and after balancing",
    "sample": "Random rows of the result",
    "pairs": "Rows that were dropped for the sake of another",
}


def write_report(
    out: Path, tally: Tally, file: Path, settings: Mapping[str, Any], then: str = "", seed: int = 0
) -> Path:
    """Write the report of a run into its folder, in place of an older one, and return report.md.

    Args:
        out: the folder.
        tally: what the run counted.
        file: the Parquet file that the run wrote.
        settings: of the run; what JSON cannot hold is written as its text.
        then: the command to go on with.
        seed: of the rows that are drawn to be looked at.

    Raises:
        SailRLError: the folder cannot be written to.
    """
    result = survey(file, seed)
    drawn = _draw(out, tally, result)
    summary = _summary(tally, result, file, settings)
    lists = {"remarks": result.remarks, "dropped": map(asdict, tally.dropped)}
    _write_json(out / "report.json", summary, lists)
    write_text(out / "report.md", _markdown(tally, result, summary, drawn, then))
    return out / "report.md"


# ---- figures


def _draw(out: Path, tally: Tally, result: Survey) -> list[str]:
    """Write the figures for which there is something to show, and return their names."""
    spreads = {step: spread for step, spread in tally.spreads.items() if spread.before}
    found = _found(tally)
    made: dict[str, Figure] = {"funnel": figures.funnel(tally.counts)}
    if result.rows:
        made["labels"] = figures.label_balance(result.labels)
        made["sample"] = figures.sample(result.sample)
    if spreads:
        made["lengths"] = figures.lengths(spreads)
    if found:
        made["pairs"] = figures.pairs(found)
    for name in _FIGURES:
        path = out / f"{name}.png"
        if name in made:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing")  # a box stands for the letter
                save(made[name], path)
        else:
            path.unlink(missing_ok=True)
    return [name for name in _FIGURES if name in made]


def _found(tally: Tally) -> list[tuple[Dropped, Row, Row]]:
    """Some dropped rows with the row because of which each went, of every reason in turn."""
    turns: Counter[tuple[str, str]] = Counter()
    known = {}
    for dropped in tally.dropped:
        row, other = tally.pairs.get(dropped.id), tally.pairs.get(dropped.other)
        pair = frozenset((dropped.id, dropped.other))  # of a conflict both are dropped
        if row and other and pair not in known:
            reason = dropped.step, dropped.reason
            known[pair] = turns[reason], (dropped, row, other)
            turns[reason] += 1
    return [pair for _, pair in sorted(known.values(), key=lambda item: item[0])][:_PAIRS]


# ---- report.json


def _summary(tally: Tally, result: Survey, file: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    packages = ("datasets", "numpy", "pandas", "pillow", "pyarrow")
    return {
        "settings": dict(settings),
        "versions": {
            "sailrl-lite": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "file": {"path": str(file), "bytes": file.stat().st_size},
        "rows": {
            "read": tally.counts["read"].rows,
            "left": result.rows,
            "dropped": len(tally.dropped),
        },
        "steps": [
            {
                "step": name,
                "rows": count.rows,
                "changed": count.changed,
                "dropped": dict(count.dropped.most_common()),
                "seconds": round(count.seconds, 3),
            }
            for name, count in tally.counts.items()
        ],
        "labels": result.labels.to_dict("records"),
        "splits": dict(result.splits),
        "pass_rates": dict(sorted(result.pass_rates.items())),
        "spreads": {
            step: {
                "column": spread.column,
                **{
                    when: {f"{value:g}": rows for value, rows in sorted(values.items())}
                    for when, values in (("before", spread.before), ("after", spread.after))
                },
            }
            for step, spread in tally.spreads.items()
        },
    }


def _write_json(
    path: Path, summary: Mapping[str, Any], lists: Mapping[str, Iterable[Mapping[str, str]]]
) -> None:
    """The summary, and then each list an entry at a time: there may be hundreds of thousands."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as text:
        text.write(json.dumps(summary, indent=1, default=str).removesuffix("\n}"))
        for name, entries in lists.items():
            text.write(f',\n "{name}": [')
            for number, entry in enumerate(entries):
                text.write(f"{',' if number else ''}\n  {json.dumps(entry)}")
            text.write("\n ]")
        text.write("\n}\n")


# ---- report.md


def _markdown(
    tally: Tally, result: Survey, summary: Mapping[str, Any], drawn: Sequence[str], then: str
) -> str:
    rows = summary["rows"]
    steps = [
        [name, count.rows, count.changed, out := count.dropped.total(), count.rows - out, count.seconds]
        for name, count in tally.counts.items()
    ]
    parts = [
        f"# {rows['left']:,} of {rows['read']:,} rows are left",
        *_next(result, summary, then),
        "## What each step did",
        _table(["step", "rows in", "changed", "dropped", "left", "seconds of work"], steps),
        *_picture("funnel", drawn),
    ]
    if tally.dropped:
        heads = ["step", "reason", "rows", "the first", "detail"]
        parts += ["## Why rows were dropped", _table(heads, _reasons(tally)), *_picture("pairs", drawn)]
    if result.remarks:
        noted = [[remark["step"], remark["id"], remark["note"]] for remark in result.remarks[:SAMPLE]]
        parts += [
            "## What stayed and was remarked on",
            f"{len(result.remarks):,} rows; the first, the others are in `report.json`:",
            _table(["step", "id", "remark"], noted),
        ]
    if result.rows:
        seen = [[row.id, row.question, row.gold, LABELS[row.needs_thinking]] for row in result.sample]
        parts += [
            "## What is left",
            _table(["kind", "source", "label", "rows"], result.labels.to_numpy().tolist()[:_LONGEST]),
            *_picture("labels", drawn),
            *_counted("split", result.splits),
            *_counted("pass rate", result.pass_rates),
            *_picture("lengths", drawn),
            "## Some of it, drawn at random",
            _table(["id", "question", "gold", "label"], seen),
            *_picture("sample", drawn),
        ]
    told = {name: summary[name] for name in ("settings", "versions")}
    parts += ["## Settings and versions", f"```json\n{json.dumps(told, indent=1, default=str)}\n```"]
    return "\n\n".join(parts) + "\n"


def _next(result: Survey, summary: Mapping[str, Any], then: str) -> list[str]:
    reasons = [(n, step["step"], why) for step in summary["steps"] for why, n in step["dropped"].items()]
    file = summary["file"]
    parts = [
        f"- the rows: `{file['path']}`, {file['bytes'] / 1e6:,.1f} MB\n"
        "- what is said here, and every dropped row with its step, reason and detail: `report.json`"
    ]
    if not result.rows:
        n, step, why = max(reasons, default=(0, "read", "there was none"))
        return [*parts, f"No row is left. Most were lost in the step “{step}” ({why}: {n:,}); begin there."]
    labels = result.labels.groupby("label")["rows"].sum()
    if LABELS[None] in labels:
        parts.append(f"{labels[LABELS[None]]:,} rows have no label, which the judging reward needs.")
    elif len(labels) == 1:
        parts.append(f"All rows have the label “{labels.index[0]}”: there is nothing to judge.")
    if without := sum(n for n, _, why in reasons if why == "no teacher"):
        parts.append(f"{without:,} rows need a trace and had no teacher to write it: name one to keep them.")
    return [*parts, f"Go on with\n\n```\n{then}\n```"] if then else parts


def _reasons(tally: Tally) -> list[list[Any]]:
    """A line a step and reason, with the first row it dropped, the commonest reason of a step first."""
    first: dict[tuple[str, str], Dropped] = {}
    for dropped in tally.dropped:
        first.setdefault((dropped.step, dropped.reason), dropped)
    return [
        [step, reason, rows, (one := first[step, reason]).id, one.detail]
        for step, count in tally.counts.items()
        for reason, rows in count.dropped.most_common()
    ]


def _counted(name: str, counts: Counter[Any]) -> list[str]:
    lines = [[str(value), rows] for value, rows in sorted(counts.items())]
    return [_table([name, "rows"], lines)] if lines else []


def _picture(name: str, drawn: Sequence[str]) -> list[str]:
    return [f"![{_FIGURES[name]}]({name}.png)"] if name in drawn else []


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    rules = ["--:" if isinstance(cell, int | float) else "---" for cell in rows[0]]
    lines = [heads, rules, *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """What may stand in a table: numbers, or a text of one line with all that Markdown would read escaped."""
    if isinstance(value, int | float):
        return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
    return _MARKS.sub(r"\\\g<0>", figures.plain(value, _LONGEST))
