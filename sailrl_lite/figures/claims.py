"""The table of claims at a glance: each difference with its interval, and the verdict."""

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Missing, Results
from sailrl_lite.figures.style import VERDICTS, WIDTH, use_style
from sailrl_lite.study.claims import claim_table
from sailrl_lite.study.logs import read_logs
from sailrl_lite.study.registered import load_claims

ACCURACY = {"accuracy, points": ("accuracy",)}  # what is on the axis: the measures that share it
THINKING = {
    "trigger rate, points": ("trigger_rate",),
    "tokens, times those of direct answers": ("relative_tokens",),
    "quality of traces, points": (
        "logic", "grounding", "consistency", "sound", "lucky", "true_logic", "true_grounding",
        "true_consistency",
    ),
}  # fmt: skip


def claims(results: Results, units: Mapping[str, Sequence[str]]) -> Figure:
    """The claims that have an interval, a panel a unit, as in data/claims.csv.

    Args:
        units: `ACCURACY` or `THINKING`.

    Raises:
        Missing: no claim has an interval yet.
    """
    registered = load_claims()[0]
    table = claim_table(read_logs(results.folder), registered)
    measures = {claim.id: claim.measure for claim in registered}
    table = table[table["ci_low"] != ""]
    own = table["id"].map(measures)
    parts = {unit: part for unit, names in units.items() if len(part := table[own.isin(names)])}
    if not parts:
        raise Missing("no claim has an interval yet")
    use_style()
    lengths = [len(part) for part in parts.values()]
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(WIDTH, 0.8 + 0.55 * len(parts) + 0.27 * sum(lengths)), squeeze=False,
        height_ratios=[length + 0.5 for length in lengths],
    )  # fmt: skip
    for axis, (unit, part) in zip(axes[:, 0], parts.items(), strict=True):
        _forest(axis, part)
        axis.set_xlabel(unit)
    given = set(pd.concat(parts)["verdict"])
    handles = [plt.Line2D([], [], color=look.color, marker=look.marker, label=look.label, lw=1.2)
               for verdict, look in VERDICTS.items() if verdict in given]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("The claims at a glance: our differences, 95% intervals over seeds")
    return figure


def _forest(axis: Axes, table: pd.DataFrame) -> None:
    ours, low, high = (pd.to_numeric(table[name]).to_numpy() for name in ("ours", "ci_low", "ci_high"))
    for row, verdict in enumerate(table["verdict"]):
        look, ends = VERDICTS[verdict], np.array([[ours[row] - low[row]], [high[row] - ours[row]]])
        axis.errorbar(ours[row], row, xerr=ends, color=look.color, marker=look.marker, capsize=2, lw=1.2)
    axis.axvline(0, color="0.3", lw=0.8)
    said = table["artifact"].str.replace("table", "T").str.replace("figure", "F") + ": " + table["statement"]
    axis.set_yticks(range(len(table)), [textwrap.fill(text, 66) for text in said], linespacing=0.95)
    axis.set_ylim(len(table) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
