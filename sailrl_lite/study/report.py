"""The study's report: the table of claims, the open questions and a row for each arm, from the logs alone."""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from scipy import stats

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.claims import claim_table, open_table
from sailrl_lite.study.logs import LOGS, Log, evaluations, read_logs
from sailrl_lite.study.measured import measured, scale
from sailrl_lite.study.regimes import read_regimes
from sailrl_lite.study.registered import load_claims
from sailrl_lite.study.statistics import interval
from sailrl_lite.text import markdown

ROOT = Path(__file__).resolve().parent.parent.parent
CLAIMS, README = ROOT / "data" / "claims.csv", ROOT / "README.md"
MARKS = "<!-- claims -->", "<!-- /claims -->"
# What a row of an ablation table shows: measure and kind of problem; "" is all kinds.
_SHOWN = (
    *(("accuracy", kind) for kind in ("perception", "general", "reasoning")),
    *(("trigger_rate", kind) for kind in ("perception", "general", "reasoning")),
    ("consistency", "reasoning"), ("sound", "reasoning"), ("lucky", ""), ("relative_tokens", ""),
)  # fmt: skip


def write_report(logs: Path = LOGS, claims: Path = CLAIMS, readme: Path | None = README) -> str:
    """Write the table of claims, beside it open.csv and regimes.csv, and the README's table.

    The same logs give the same bytes.

    Args:
        logs: the folder of logs; what is missing there is said in the tables.
        claims: the CSV file of claims.
        readme: the file whose part between `MARKS` becomes the table of claims; None is none.

    Returns:
        All tables as Markdown: claims, open questions, and the arms of each group.

    Raises:
        SailRLError: a log cannot be read, a file cannot be written, or the README has no such part.
    """
    found = read_logs(logs)
    registered, questions = load_claims()
    claimed, asked = claim_table(found, registered), open_table(found, questions)
    if readme:
        old = readme.read_text(encoding="utf-8")
        write_text(readme, filled(old, claims_markdown(claimed), readme))
    write_text(claims, _csv(claimed))
    regimes = read_regimes(logs).round(2)
    write_text(claims.with_name("open.csv"), _csv(asked))
    write_text(claims.with_name("regimes.csv"), _csv(regimes))
    parts = ["# The claims of the paper", claims_markdown(claimed), "# Open questions", _open_markdown(asked)]
    parts += ["# When an effect appears", _regimes_markdown(regimes), "# The arms", arms_markdown(found)]
    return "\n\n".join(parts) + "\n"


def arm_row(logs: Sequence[Log], arm: str) -> dict[str, str]:
    """An arm's row of the ablation tables: means over its seeds, with half the width of their 95% interval.

    Shares are in percent; tokens are relative to the arm `base`. Consistency and soundness are of reasoning
    problems; `lucky` is the share of right answers after an unsound trace among all responses.
    """
    return _arm_row(evaluations(logs), arm)


def claims_markdown(table: pd.DataFrame) -> str:
    """The table of claims, with the number of each verdict."""
    counts = Counter(table["verdict"]).most_common()
    summary = f"Of {len(table)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts) + "."
    summary += _power(table)
    rows, last = [], ""
    for row in table.to_dict("records"):
        place = "" if row["artifact"] == last else _place(row["artifact"])
        ours = f"{row['ours']} ({row['ci_low']} to {row['ci_high']})" if row["ours"] else "-"
        verdict = f"**{row['verdict']}**" if row["ours"] else row["verdict"]
        tested = (row["seeds"], row["p_adjusted"], verdict, row["why"])
        rows.append((place, row["statement"], row["reported"], ours, *tested))
        last = row["artifact"]
    head = ("", "claim", "reported", "ours (95%)", "seeds", "adjusted p", "verdict", "why")
    return f"{summary}\n\n{markdown(head, rows)}"


def _power(table: pd.DataFrame) -> str:
    """How large a difference had to be; "" where no claim was tested."""
    seeds = [int(n) for n in table.loc[table["p_adjusted"] != "", "seeds"]]
    if not seeds:
        return ""
    needed = [
        f"{stats.t.isf(0.025 / len(seeds), n - 1) / n**0.5:.1f} with {n} seeds" for n in sorted(set(seeds))
    ]
    return (
        " `ours` is in points (relative tokens: in times those of direct answers). The seed is the unit, and "
        "p is corrected for all claims, so the first passes from so many deviations over seeds: "
        f"{', '.join(needed)}. A smaller difference is not refuted, but unseen."
    )


def arms_markdown(logs: Sequence[Log]) -> str:
    """A table for each group of arms, a row an arm; shares in percent, ± half the 95% interval over seeds."""
    table, study = evaluations(logs), load_study()
    rows_of, parts = {arm: _arm_row(table, arm) for arm in study.arms}, []
    for group, arms in study.groups.items():
        rows = [{"arm": arm} | rows_of[arm] for arm in arms if rows_of[arm]]
        if rows:
            parts.append(f"## {group}\n\n{markdown(rows[0], [tuple(row.values()) for row in rows])}")
    return "\n\n".join(parts) or "No runs yet."


def filled(text: str, part: str, name: Path) -> str:
    """A text with what is between `MARKS` replaced; `name` is that of its file, for the message."""
    before, start, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise SailRLError(f"{name} has no lines {MARKS[0]} and {MARKS[1]}; put them where the table is to go")
    return f"{before}{start}\n{part}\n{end}{after}"


def _arm_row(table: pd.DataFrame, arm: str) -> dict[str, str]:
    """Empty where the arm has no runs."""
    runs = len(measured(table, arm, "accuracy"))
    if not runs:
        return {}
    row = {"runs": str(runs)}
    for measure, kind in _SHOWN:
        values = list(measured(table, arm, measure, (kind,) if kind else ()).values())
        row[f"{measure.replace('_', ' ')} {kind}".strip()] = _spread(values, scale(measure))
    return row


def _spread(values: Sequence[float], factor: int) -> str:
    mean, _, high = interval(values)
    digits = 1 if factor == 100 else 2
    if math.isnan(mean):
        return "-"
    half = "" if math.isnan(high) else f" ± {factor * (high - mean):.{digits}f}"
    return f"{factor * mean:.{digits}f}{half}"


def _open_markdown(table: pd.DataFrame) -> str:
    rows, last = [], ""
    for row in table.to_dict("records"):
        question = "" if row["question"] == last else row["question"]
        value = f"{row['value']} ({row['ci_low']} to {row['ci_high']})" if row["ci_low"] else row["value"]
        rows.append((question, row["measure"], row["arm"], value, row["seeds"], row["says"]))
        last = row["question"]
    return markdown(("question", "measure", "arm", "value (95%)", "seeds", "what it says"), rows)


def _regimes_markdown(table: pd.DataFrame) -> str:
    rows, last = [], ""
    for row in table.to_dict("records"):
        effect = f"{row['effect']:+.1f} ({row['ci_low']:+.1f} to {row['ci_high']:+.1f})"
        title = "" if row["title"] == last else row["title"]
        both = (f"{row['a_is']} {row['a']:.1f}", f"{row['b_is']} {row['b']:.1f}")
        rows.append(
            (title, row["measure"], f"{row['knob']}: {row['point']}", *both, effect, str(row["seeds"]))
        )
        last = row["title"]
    return markdown(("map", "measure", "at", "a", "b", "a - b (95%)", "seeds"), rows)


def _place(artifact: str) -> str:
    """table10 as Table 10."""
    return artifact.replace("table", "Table ").replace("figure", "Figure ")


def _csv(table: pd.DataFrame) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([list(table.columns), *table.to_numpy().tolist()])
    return out.getvalue()
