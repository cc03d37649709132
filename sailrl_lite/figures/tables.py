"""Tables 1 to 10 of the paper as dots: what is reported on the left, ours with intervals on the right."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Results, Spread, gain, of_kind, reported, spread, stands_for
from sailrl_lite.figures.style import ARMS, MEASURES, OTHERS, PAPER, WIDTH, Look, legend, use_style

Row = Sequence[Spread]
Series = Sequence[tuple[Look, Row]]  # what is compared, each with a value for each row


@dataclass(frozen=True)
class Table:
    """A table of accuracies by benchmark: ours by family, and the means of kinds of families below."""

    title: str
    arms: tuple[str, ...]
    families: tuple[str, ...]
    kinds: tuple[str, ...]


_SHORT = ("add", "pattern", "bars")  # stand for MathVision, LogicVista and MMMU, of which most ablations are
TABLES: dict[str, Table] = {
    "table1": Table(
        "Table 1: reasoning",
        ("base", "sft", "cascade"),
        tuple(of_kind("reasoning")),
        ("reasoning",),
    ),
    "table2": Table(
        "Table 2: general and perception",
        ("base", "sft", "cascade"),
        tuple(of_kind("general", "perception")),
        ("general", "perception"),
    ),
    "table3": Table(
        "Table 3: what the Thinking Reward adds",
        ("sft", "answer-only", "thinking-answer", "cascade"),
        tuple(of_kind("reasoning")),
        ("reasoning",),
    ),
    "table4": Table(
        "Table 4: always thinking against thinking when needed",
        ("always-think", "cascade"),
        ("bars", *of_kind("perception")),
        ("general", "perception"),
    ),
    "table6": Table(
        "Table 6: how the rewards are joined",
        (
            "cascade", "additive", "additive-bare", "strict-product", "logic-only", "grounding-only",
            "consistency-only",
        ),
        _SHORT,
        ("reasoning", "general"),
    ),
    "table7": Table(
        "Table 7: binary or continuous scores",
        ("cascade", "continuous", "noisy", "continuous-noisy"),
        _SHORT,
        ("reasoning", "general"),
    ),
    "table9": Table(
        "Table 9: judges of different quality",
        ("sft", "cascade", "noisy", "learned"),
        _SHORT,
        ("reasoning", "general"),
    ),
}  # fmt: skip


def dots(axis: Axes, rows: Sequence[str], series: Series, means: int = 0) -> None:
    """A line a row, top to bottom, with a dot and its interval for each series.

    The last `means` rows are means over the others: a line is drawn above them.
    """
    slots = _slots(series)
    for look, values in series:
        value, low, high = np.array(values, float).T
        places = np.arange(len(rows)) + 0.66 / len(slots) * (slots.index(look.marker) - (len(slots) - 1) / 2)
        ends = None if np.isnan(low).all() else np.array([value - low, high - value])
        axis.errorbar(value, places, xerr=ends, color=look.color, marker=look.marker, ls="", lw=1.2,
                      capsize=2, label=look.label)  # fmt: skip
    for row in range(0, len(rows), 2):
        axis.axhspan(row - 0.5, row + 0.5, color="0.96", zorder=0)
    if means:
        axis.axhline(len(rows) - means - 0.5, color="0.5", lw=0.8)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def table(results: Results, name: str) -> Figure:
    """One of `TABLES`."""
    spec = TABLES[name]
    ours = [(ARMS[arm], [spread(row, 100) for row in _by_row(results, arm, spec)]) for arm in spec.arms]
    rows = [stands_for(family) for family in spec.families] + [f"mean of {kind}" for kind in spec.kinds]
    theirs = reported(name)
    return _two_panels(spec.title, _reported(theirs), list(theirs.index), ours, rows, len(spec.kinds))


def _by_row(results: Results, arm: str, spec: Table) -> list[pd.Series]:
    """Accuracy by seed, for each family and then for each kind of the table."""
    values = [results.scores(arm, "accuracy", families=[family]) for family in spec.families]
    return values + [results.scores(arm, "accuracy", kind=kind) for kind in spec.kinds]


def _reported(table: pd.DataFrame) -> Series:
    """The paper's systems; those whose part no arm of ours plays are drawn as `OTHERS`, behind the rest."""
    others = [str(system) for system in table if system not in PAPER]
    unnamed = replace(OTHERS, label="_")  # which legends leave out
    looks = {system: unnamed if k else OTHERS for k, system in enumerate(others)}
    looks |= {str(system): PAPER[str(system)] for system in table if system in PAPER}
    return [(look, _exact(table[system])) for system, look in looks.items()]


def _exact(values: pd.Series) -> list[Spread]:
    return [(float(value), float("nan"), float("nan")) for value in values]


def _two_panels(
    title: str,
    theirs: Series,
    their_rows: Sequence[str],
    ours: Series,
    our_rows: Sequence[str],
    means: int,
    measure: str = "accuracy, %",
) -> Figure:
    use_style()
    lines = max(len(their_rows) * _thickness(theirs), len(our_rows) * _thickness(ours))
    legend = 0.19 * max(sum(not look.label.startswith("_") for look, _ in s) for s in (theirs, ours))
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 0.75 + lines + legend))
    dots(left, their_rows, theirs, int("average" in their_rows))
    dots(right, our_rows, ours, means)
    for axis, name in ((left, "reported"), (right, "ours, 95% intervals over seeds")):
        axis.set_title(name)
        axis.set_xlabel(measure)
        axis.legend(loc="upper left", bbox_to_anchor=(0, -0.45 / lines), frameon=False, borderaxespad=0)
    figure.suptitle(title)
    return figure


def _slots(series: Series) -> list[str]:
    """The places within a row, one a marker."""
    return list(dict.fromkeys(look.marker for look, _ in series))


def _thickness(series: Series) -> float:
    """Inches of a row."""
    return max(0.24, 0.1 * len(_slots(series)) + 0.04)


def table5(results: Results) -> Figure:
    """Accuracy, trigger rate and tokens: the paper's two benchmarks above, our kinds of question below."""
    use_style()
    metrics = {
        "accuracy": "accuracy_pct", "trigger_rate": "trigger_rate_pct",
        "relative_tokens": "tokens_relative_to_never",
    }  # fmt: skip
    arms = ("base", "sft-forced-direct", "always-think", "thinking-answer", "cascade")
    kinds = ("reasoning", "general", "perception")
    ours = {
        measure: [(ARMS[arm], [_value(results, arm, measure, kind) for kind in kinds]) for arm in arms]
        for measure in metrics
    }
    figure = plt.figure(figsize=(WIDTH, 5.2))
    above, under = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    theirs, mine = above.subplots(1, 3), under.subplots(1, 3)
    for top, bottom, (measure, metric) in zip(theirs, mine, metrics.items(), strict=True):
        table = reported("table5", metric)
        dots(top, list(table.index), _reported(table))
        dots(bottom, kinds, ours[measure])
        for axis in (top, bottom):
            axis.set_xlabel(MEASURES[measure] + ("" if measure == "relative_tokens" else ", %"))
            axis.tick_params(labelleft=axis in (theirs[0], mine[0]))
    theirs[1].set_title("reported")
    mine[1].set_title("ours, 95% intervals over seeds")
    legend(above, theirs[0], 4)
    legend(under, mine[0], 3)
    figure.suptitle("Table 5: what thinking when needed costs and gives")
    return figure


def _value(results: Results, arm: str, measure: str, kind: str) -> Spread:
    """In per cent, but for relative tokens."""
    return spread(results.scores(arm, measure, kind=kind), 1 if measure == "relative_tokens" else 100)


def table8(results: Results) -> Figure:
    """Weights of the sub-rewards: accuracy less that of equal weights, paired by seed."""
    deltas = reported("table8", "delta_vs_equal_points")
    spec = Table("", (), _SHORT, ("reasoning", "general", "perception"))
    ours = []
    for arm in ("biased-logic", "biased-grounding", "biased-consistency"):
        after, before = (_by_row(results, name, spec) for name in (arm, "cascade"))
        ours.append((ARMS[arm], [gain(a, b, 100) for a, b in zip(after, before, strict=True)]))
    rows = [stands_for(family) for family in spec.families] + [f"mean of {kind}" for kind in spec.kinds]
    title = "Table 8: weights of logic, grounding and consistency"
    measure = "accuracy less that of equal weights, points"
    means = len(spec.kinds)
    figure = _two_panels(title, _reported(deltas), list(deltas.index), ours, rows, means, measure)
    for axis in figure.axes:
        axis.axvline(0, color="0.3", lw=0.8)
    return figure


def table10(results: Results) -> Figure:
    """Three models before RL, under answer-only and under the full system."""
    accuracy = reported("table10")
    models = list(dict.fromkeys(str(system).split("/")[0] for system in accuracy))
    theirs = [
        (PAPER[system], _exact(pd.concat([accuracy[f"{model}/{system}"] for model in models])))
        for system in ("sft", "answer-only", "sail-rl")
    ]
    their_rows = [
        f"{benchmark}, {model.removeprefix('Qwen2.5-VL-')}"
        for model in models
        for benchmark in accuracy.index
    ]
    prefixes = {"small": "small-", "shipped": "", "second architecture": "second-"}
    kinds = ("reasoning", "general", "perception")
    ours = []
    for arm in ("sft", "answer-only", "cascade"):
        scores = [
            results.scores(prefix + arm, "accuracy", kind=kind)
            for prefix in prefixes.values()
            for kind in kinds
        ]
        ours.append((ARMS[arm], [spread(score, 100) for score in scores]))
    rows = [f"{kind}, {model}" for model in prefixes for kind in kinds]
    return _two_panels("Table 10: other models", theirs, their_rows, ours, rows, 0)
