"""Figures of a judge, for the screen: its errors, its verdicts beside the truth, and texts token by token."""

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.runs import bars
from sailrl_lite.figures.style import BLUE, ORANGE, PURPLE, use_screen_style
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Scores


def judge_confusion(table: pd.DataFrame, judge: str) -> Figure:
    """What a judge said of what is right and what is wrong, and its errors by source with 95% intervals.

    `table` is that of `judges.check.check`, with a grouping by "source".
    """
    use_screen_style()
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), sharey="row")
    whole, by_source = (table[table["by"] == by] for by in ("all", "source"))
    sources = list(by_source["group"].unique())
    places = np.arange(len(sources))
    for (top, bottom), dimension in zip(axes.T, ("logic", "grounding", "consistency"), strict=True):
        row = whole[whole["dimension"] == dimension].iloc[0]
        _confusion(top, row)
        kappa = "-" if np.isnan(row["kappa"]) else f"{row['kappa']:.2f}"
        top.set_title(f"{dimension.capitalize()}: kappa {kappa}")
        lines = by_source[by_source["dimension"] == dimension].set_index("group").loc[sources]
        for offset, rate, color in ((-0.2, "false_pass", ORANGE), (0.2, "false_fail", PURPLE)):
            bars(bottom, lines, rate, offset, rate.replace("_", " "), color)
            for place in places[lines[rate].isna()]:
                bottom.text(place + offset, 0.02, "none", ha="center", fontsize=8, color="0.4")
        bottom.set(ylim=(0, 1.02), xlim=(-0.55, len(sources) - 0.45))
        bottom.set_xticks(places, sources)
        bottom.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("the trace is")
    axes[1, 0].set_ylabel("error rate")
    axes[1, 0].legend(loc="upper left")
    figure.suptitle(f"The judge {judge} against the exact truth", fontsize=13, weight="bold")
    return figure


def _confusion(axis: Axes, row: pd.Series) -> None:
    """Shares of what is right (above) and wrong, in the colors of the error rates where the judge errs."""
    counts = np.array(
        [[row["n_true_pass"], row["n_false_fail"]], [row["n_false_pass"], row["n_true_fail"]]], float
    )
    totals = counts.sum(1, keepdims=True)
    shares = np.divide(counts, totals, out=np.full((2, 2), np.nan), where=totals > 0)
    colors = ((BLUE, PURPLE), (ORANGE, BLUE))
    pixels = np.ones((2, 2, 3))
    for (i, j), share in np.ndenumerate(shares):
        pixels[i, j] = sns.light_palette(colors[i][j], as_cmap=True)(np.nan_to_num(share))[:3]
        ink = "white" if colors[i][j] == BLUE and share > 0.5 else "0.15"
        said = f"{counts[i, j]:,.0f} of {totals[i, 0]:,.0f}"
        axis.text(
            j, i, "-" if np.isnan(share) else f"{share:.0%}",
            ha="center", va="bottom", fontsize=17, weight="bold", color=ink,
        )  # fmt: skip
        axis.text(j, i + 0.08, said, ha="center", va="top", fontsize=9, color=ink)
    axis.imshow(pixels, aspect="auto")
    axis.set_xticks((0, 1), ("judged right", "judged wrong"))
    axis.set_yticks((0, 1), ("right", "wrong"), rotation=90, va="center")
    axis.grid(visible=False)


def token_strip(strips: Mapping[str, tuple[Sequence[str], Sequence[float]]], legend: str = "") -> Figure:
    """Texts token by token, each in a box whose colour is its value; NaN is grey.

    Args:
        strips: by title, the tokens of a text and their values, as many, from 0 (pale) on.
        legend: what the values are; "" draws no scale.
    """
    use_screen_style()
    lines = {title: _token_lines(tokens) for title, (tokens, _) in strips.items()}
    heights = [1.5 + len(rows) for rows in lines.values()]
    size = (11, max(1.5, 0.3 * sum(heights)))
    figure, axes = plt.subplots(len(strips), 1, figsize=size, height_ratios=heights, squeeze=False)
    known = np.concatenate([np.asarray(values, float) for _, values in strips.values()])
    scale = plt.Normalize(0, max(1e-9, np.nanmax(known)))
    shade = plt.cm.ScalarMappable(scale, sns.light_palette(BLUE, as_cmap=True))
    for (title, (_, values)), axis in zip(strips.items(), axes[:, 0], strict=True):
        place = iter(values)
        for row, line in enumerate(lines[title]):
            for start, text in line:
                value = next(place)
                color = (0.9, 0.9, 0.9) if np.isnan(value) else tuple(shade.to_rgba(value))[:3]
                dark = sum(color) < 1.7
                style = {"facecolor": color, "edgecolor": "white", "boxstyle": "square,pad=0.22"}
                axis.text(start, row, text, family="monospace", fontsize=8, va="center", bbox=style,
                          color="white" if dark else "0.5" if np.isnan(value) else "black")  # fmt: skip
        axis.set(xlim=(0, _LINE), ylim=(len(lines[title]) - 0.4, -0.7))
        axis.set_title(title, loc="left")
        axis.set_axis_off()
    if legend:
        figure.colorbar(shade, ax=axes[:, 0].tolist(), label=legend, fraction=0.02, pad=0.01)
    return figure


_LINE = 138  # characters of monospaced text that a line of a token strip holds


def _token_lines(tokens: Sequence[str]) -> list[list[tuple[float, str]]]:
    """Tokens as (place, text) on lines; white space is made visible, a run of tokens wraps where it must."""
    lines: list[list[tuple[float, str]]] = [[]]
    end = 0.0
    for token in tokens:
        text = token.replace("\n", "⏎").replace(" ", "·")
        if end + len(text) > _LINE:
            lines.append([])
            end = 0.0
        lines[-1].append((end, text))
        end += len(text) + 1.3
    return lines


def verdict_cards(
    cases: Sequence[Case], truths: Sequence[Scores], judged: Sequence[Scores], titles: Sequence[str]
) -> Figure:
    """A card a case: its picture, its trace (long ones cut short), and the exact scores beside the judge's.

    An arrow marks a score that passes (from 0.5 on) and should not.
    """
    use_screen_style()
    size = 2, len(cases)
    figure, axes = plt.subplots(*size, figsize=(3.7 * size[1], 4.3), height_ratios=[1, 0.8], squeeze=False)
    for case, truth, said, title, top, below in zip(cases, truths, judged, titles, *axes, strict=True):
        if case.image is not None:
            top.imshow(case.image)
        top.set_title(title)
        trace = [line if len(line) < 36 else f"{line[:34]}…" for line in case.think.split("\n")]
        trace = trace if len(trace) < 6 else [*trace[:3], "…"]
        lines = [*textwrap.wrap(case.question, 40), "", *trace, f"answer {case.answer}", ""]
        for name in DIMENSIONS:
            exact, value = getattr(truth, name), getattr(said, name)
            mark = "  ←" if exact < 0.5 <= value else ""
            lines.append(f"{name:12} exact {exact:g}   judge {value:.2f}{mark}")
        below.text(0.02, 0.96, "\n".join(lines), va="top", family="monospace", fontsize=8.6,
                   transform=below.transAxes)  # fmt: skip
        for axis in (top, below):
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
    return figure
