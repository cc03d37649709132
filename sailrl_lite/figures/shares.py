"""Shares: how often a policy thinks (Figure 5), and what its rollouts are over training."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.results import SMOOTH, Results, of_kind, reported, spread, stands_for
from sailrl_lite.figures.style import (
    ARMS,
    BLUE,
    GREEN,
    GREY,
    HATCHES,
    KINDS,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    WIDTH,
    legend,
    use_style,
)  # fmt: skip

OUTCOMES: dict[str, tuple[str, str, str]] = {  # column: (label, color, hatch), from the bottom up
    "share/think_right_sound": ("thinks, right, sound", BLUE, ""),
    "share/direct_right": ("direct, right", SKY, ""),
    "share/think_right_unsound": ("thinks, right, unsound (lucky)", ORANGE, "////"),
    "share/think_wrong_sound": ("thinks, wrong, sound", GREEN, "...."),
    "share/think_wrong_unsound": ("thinks, wrong, unsound", RED, "xxxx"),
    "share/direct_wrong": ("direct, wrong", PURPLE, "\\\\\\\\"),
    "share/malformed": ("malformed", GREY, ""),
}


def figure5(results: Results) -> Figure:
    """When the full system thinks: the paper's benchmarks beside our families, in three groups."""
    theirs = reported("figure5", "trigger_rate_pct")["sail-rl"].sort_values(ascending=False, kind="stable")
    families = of_kind("reasoning", "general", "perception")
    scores = {
        arm: {
            family: spread(results.scores(arm, "trigger_rate", families=[family]), 100) for family in families
        }
        for arm in ("cascade", "sft")
    }
    families.sort(key=lambda family: -scores["cascade"][family][0])
    kinds = {family: kind for kind in KINDS for family in of_kind(kind)}
    use_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.7))
    groups = [_paper_group(benchmark) for benchmark in theirs.index]
    _bars(left, list(theirs.index), theirs.to_numpy(), groups)
    values = np.array([scores["cascade"][family] for family in families])
    _bars(right, [stands_for(f) for f in families], values[:, 0], [kinds[f] for f in families])
    mean, low, high = values.T
    right.errorbar(
        mean, range(len(families)), xerr=np.array([mean - low, high - mean]), color="0.15", ls="", capsize=2
    )
    before = [scores["sft"][family][0] for family in families]
    sft = ARMS["sft"]
    right.plot(
        before, range(len(families)), ls="", marker=sft.marker, mfc="white", mec=sft.color, label=sft.label
    )
    left.set_title("reported")
    right.set_title("ours, 95% intervals over seeds")
    handles = [plt.Rectangle((0, 0), 1, 1, fc=look.color, hatch=HATCHES[kind], ec="white", label=kind)
               for kind, look in KINDS.items()]  # fmt: skip
    handles += right.get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("Figure 5: how often the full system thinks")
    return figure


def _paper_group(benchmark: str) -> str:
    """The paper has reading among its general benchmarks; here it is perception."""
    if benchmark == "OCRBench":
        return "perception"
    reasoning = ("LogicVista", "MathVision", "MathVerse", "WeMath", "DynaMath", "MathVista")
    return "reasoning" if benchmark in reasoning else "general"


def _bars(
    axis: Axes, rows: Sequence[str], values: Sequence[float] | np.ndarray, groups: Sequence[str]
) -> None:
    for row, (value, group) in enumerate(zip(values, groups, strict=True)):
        axis.barh(row, value, 0.7, color=KINDS[group].color, hatch=HATCHES[group], edgecolor="white")
    axis.set_yticks(range(len(rows)), rows)
    axis.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 103), xlabel="trigger rate, %")
    axis.grid(axis="y", visible=False)


def modes(results: Results) -> Figure:
    """Mode x answer x quality: what the rollouts of four arms are, as shares, over training."""
    arms = ("answer-only", "thinking-answer", "always-think", "cascade")
    found = {arm: {column: results.curve(arm, column).mean(axis=1) for column in OUTCOMES} for arm in arms}
    use_style()
    figure, axes = plt.subplots(1, len(arms), figsize=(WIDTH, 3.3), sharey=True)
    for axis, (arm, shares) in zip(axes, found.items(), strict=True):
        steps = next(iter(shares.values())).index
        colors = [color for _, color, _ in OUTCOMES.values()]
        layers = axis.stackplot(steps, *(share.to_numpy() for share in shares.values()), colors=colors)
        for layer, (label, _, hatch) in zip(layers, OUTCOMES.values(), strict=True):
            layer.set(hatch=hatch, edgecolor="white", linewidth=0.4, label=label)
        axis.set_title(ARMS[arm].label)
        axis.set(xlim=(steps[0], steps[-1]), ylim=(0, 1), xlabel=f"step (mean of {SMOOTH})")
        axis.grid(visible=False)
    axes[0].set_ylabel("share of rollouts")
    legend(figure, axes[0], 4)
    figure.suptitle("Mode, answer and quality of the trace, over training (means over seeds)")
    return figure
