"""Every figure of the project, drawn from logs and evaluations in one colour-blind safe style."""

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.files import write_bytes
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Scores
from sailrl_lite.plots import style
from sailrl_lite.plots.style import BLUE, GREEN, ORANGE, PURPLE, RED
from sailrl_lite.response import parse_response
from sailrl_lite.rewards import Components, Reward
from sailrl_lite.world.problems import Problem
from sailrl_lite.world.verifier import Finding, verify

BEFORE, AFTER = ORANGE, BLUE
# These figures are for the screen, wider than a page, so that all that is written in them is larger.
_SCREEN = {
    "font.size": 12, "figure.titlesize": "large", "figure.titleweight": "normal", "axes.titlesize": 11,
    "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "legend.title_fontsize": 12, "legend.handlelength": 2, "axes.linewidth": 1.25, "grid.linewidth": 1,
    "lines.linewidth": 1.5, "lines.markersize": 6, "hatch.linewidth": 1, "xtick.major.size": 6,
    "ytick.major.size": 6, "xtick.major.width": 1.25, "ytick.major.width": 1.25, "savefig.dpi": 150,
}  # fmt: skip


def use_style() -> None:
    """Set the style for all figures of this process."""
    style.use_style()
    plt.rcParams.update(_SCREEN)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a PNG whole; the same figure gives the same bytes."""
    path = Path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    write_bytes(path, buffer.getvalue())
    plt.close(figure)
    return path


def learning_curves(metrics: pd.DataFrame) -> Figure:
    """Six panels over the training steps, from the rows of metrics.csv."""
    use_style()
    panels: list[tuple[str, dict[str, str], tuple[float, float] | None]] = [
        ("Reward", {"reward": "total"}, (0, 1)),
        ("Its components", {k: k for k in ("format", "answer", "thinking", "judging")}, (0, 1.03)),
        ("Trigger rate", {"trigger_think": "thinking needed", "trigger_direct": "not needed"}, (0, 1.03)),
        ("Quality of the traces", {k: k for k in ("logic", "grounding", "consistency")}, (0, 1.03)),
        ("Tokens a response", {"tokens": "tokens"}, None),
        ("KL to the SFT policy", {"kl": "KL a token"}, None),
    ]
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.6), sharex=True)
    for axis, (title, columns, limits) in zip(axes.flat, panels, strict=True):
        for column, label in columns.items():
            values = metrics[column]
            (line,) = axis.plot(metrics["step"], _smooth(values), label=label, lw=2)
            axis.plot(metrics["step"], values, color=line.get_color(), alpha=0.25, lw=1)
        axis.set_title(title)
        if limits:
            axis.set_ylim(*limits)
        if len(columns) > 1:
            axis.legend()
    for axis in axes[-1]:
        axis.set_xlabel("step")
    return figure


def _smooth(values: pd.Series) -> pd.Series:
    return values.rolling(min(9, 1 + len(values) // 4), min_periods=1, center=True).mean()


def before_after(before: pd.DataFrame, after: pd.DataFrame) -> Figure:
    """Accuracy and trigger rate of each family before and after RL, with the intervals of `summarize`."""
    use_style()
    figure, axes = plt.subplots(2, 1, figsize=(11, 5.6), sharex=True)
    for axis, (measure, title) in zip(
        axes, (("accuracy", "Accuracy"), ("trigger_rate", "Trigger rate")), strict=True
    ):
        for offset, (summary, label, color) in zip(
            (-0.2, 0.2), ((before, "SFT", BEFORE), (after, "SFT + RL", AFTER)), strict=True
        ):
            _bars(axis, summary, measure, offset, label, color)
        axis.set_ylim(0, 1.05)
        axis.set_title(f"{title} on unseen problems, 95% intervals")
    axes[0].legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    axes[1].set_xticks(range(len(before)), before["family"], rotation=30, ha="right")
    edges = np.flatnonzero(before["kind"].to_numpy()[1:] != before["kind"].to_numpy()[:-1]) + 0.5
    for axis in axes:
        for edge in edges:
            axis.axvline(edge, color="0.6", ls=":")
        axis.grid(axis="x", visible=False)
        axis.margins(x=0.01)
    starts = [0, *(edges + 0.5)]
    for start, kind in zip(starts, before["kind"].unique(), strict=True):
        axes[0].text(start - 0.45, 1.06, kind, va="bottom", fontsize=9, style="italic")
    axes[0].set_title("Accuracy on unseen problems, 95% intervals", pad=18)
    return figure


def _bars(axis: Axes, summary: pd.DataFrame, measure: str, offset: float, label: str, color: object) -> None:
    values = summary[measure].to_numpy(float)
    errors = [values - summary[f"{measure}_low"], summary[f"{measure}_high"] - values]
    axis.bar(
        np.arange(len(values)) + offset,
        values,
        0.38,
        label=label,
        color=color,
        yerr=errors,
        ecolor="0.3",
        capsize=2,
    )


def gallery(problems: Sequence[Problem]) -> Figure:
    """Problems as a reader should see them, a row a kind: family, picture, question, gold answer, label."""
    use_style()
    kinds = list(dict.fromkeys(problem.kind for problem in problems))
    rows = [[problem for problem in problems if problem.kind == kind] for kind in kinds]
    size = len(rows), max(map(len, rows))
    figure, axes = plt.subplots(*size, figsize=(2.3 * size[1], 2.25 * size[0]), squeeze=False)
    for row, line in zip(rows, axes, strict=True):
        line[0].set_ylabel(row[0].kind, style="italic")
        for axis in line[len(row) :]:
            axis.set_axis_off()
        for problem, axis in zip(row, line, strict=False):
            axis.imshow(problem.image)
            axis.set_title(problem.family)
            axis.set_xlabel(_caption(problem, 31), fontsize=8)
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
    return figure


def _caption(problem: Problem, width: int) -> str:
    need = "needs thinking" if problem.needs_thinking else "no thinking needed"
    question = "\n".join(textwrap.wrap(problem.question, width))
    return f"{question}\n\ngold: {problem.gold}\nlabel: {need}"


def spine(by_seed: pd.DataFrame) -> Figure:
    """The three-seed result: means before and after RL by kind of question, a dot a seed.

    `by_seed` has the columns kind, stage, seed and the measures; a kind with no traces to judge has no bar.
    """
    use_style()
    panels = ("accuracy", "trigger_rate", "cascade", "logic", "grounding", "consistency")
    kinds = list(by_seed["kind"].unique())
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.2), sharex=True, sharey=True)
    for axis, measure in zip(axes.flat, panels, strict=True):
        for offset, stage, label, color in ((-0.2, "sft", "SFT", BEFORE), (0.2, "rl", "SFT + RL", AFTER)):
            part = by_seed[by_seed["stage"] == stage].pivot(index="kind", columns="seed", values=measure)
            x, values = np.arange(len(kinds)) + offset, part.loc[kinds].to_numpy()
            axis.bar(x, values.mean(axis=1), 0.38, label=label, color=color)
            axis.plot(x, values, "o", color="0.15", ms=3, clip_on=False, zorder=3)
            for place in x[np.isnan(values).any(axis=1)]:
                axis.text(place, 0.02, "too few\ntraces", ha="center", fontsize=8, color="0.4")
        axis.set_title(measure.replace("_", " ").capitalize())
        axis.set_xticks(range(len(kinds)), kinds)
        axis.grid(axis="x", visible=False)
    axes[0, 0].set_ylim(0, 1.05)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def rollouts(problem: Problem, texts: Sequence[str], graded: Sequence[Components], reward: Reward) -> Figure:
    """A problem and several responses to it side by side, each with its components and its reward.

    A cross marks the lines that the exact verifier faults.
    """
    use_style()
    figure, axes = plt.subplots(
        1, len(texts) + 1, figsize=(2.35 * (len(texts) + 1), 3.1), width_ratios=[1.1, *[1] * len(texts)]
    )
    axes[0].imshow(problem.image)
    axes[0].set_anchor("N")
    axes[0].set_title(f"{problem.family} ({problem.kind})")
    axes[0].set_xlabel(_caption(problem, 24))
    axes[0].set(xticks=[], yticks=[])
    for number, (axis, text, c) in enumerate(zip(axes[1:], texts, graded, strict=True), 1):
        value = reward(c)
        axis.set_title(
            f"rollout {number}: R = {'no verdict' if value is None else f'{value:.2f}'}", color=_shade(value)
        )
        axis.text(
            0.03, 0.97, _card(problem, text, c), va="top", family="monospace", fontsize=8.6,
            transform=axis.transAxes,
        )  # fmt: skip
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
    axes[0].grid(visible=False)
    return figure


def reward_bars(graded: Sequence[Components], rewards: Sequence[Reward]) -> Figure:
    """What several rewards pay for the same responses, side by side."""
    use_style()
    figure, axis = plt.subplots(figsize=(7.5, 3))
    width = 0.8 / len(rewards)
    for k, reward in enumerate(rewards):
        places = np.arange(1, len(graded) + 1) + width * (k - (len(rewards) - 1) / 2)
        values = [np.nan if (value := reward(c)) is None else value for c in graded]
        bars = axis.bar(places, values, 0.95 * width, label=reward.name)
        axis.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
    axis.set(ylim=(0, 1.12), ylabel="reward", xticks=range(1, len(graded) + 1))
    axis.set_xticklabels(f"rollout {k}" for k in range(1, len(graded) + 1))
    axis.grid(axis="x", visible=False)
    axis.set_title("The same responses, paid by different rewards", loc="left")
    axis.legend(ncols=len(rewards), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def _shade(value: float | None) -> object:
    """Grey for nothing, the bluer the better."""
    return "0.4" if value is None else sns.blend_palette(["0.5", AFTER], as_cmap=True)(value)


def _card(problem: Problem, text: str, c: Components) -> str:
    response = parse_response(text)
    trace, answer = ["(blank)"], f"answer: {response.answer}"
    if response.think:
        findings = verify(problem, response.think, response.answer).findings
        *trace, _ = [f"{f.statement}{_cross(f)}" for f in findings]
        answer += _cross(findings[-1])
    lines = [f"judge: {response.decision}", "", *trace[:9], "", answer, ""]
    lines += [f"format   {c.format}", f"judging  {c.judging}"]
    lines += [f"thinking {'-' if c.thinking is None else f'{c.thinking:.2f}'}", f"answer   {c.answer}"]
    return "\n".join(line[:28] for line in lines)


def _cross(finding: Finding) -> str:
    return "".join(f" ✗ {dimension}" for dimension in finding.failed)


def paid_and_due(panels: Mapping[str, tuple[pd.DataFrame, pd.Series]]) -> Figure:
    """What several rewards pay for the same cases beside what is due, 0 or 1, a panel a kind of reward.

    Each panel is (paid, due): a row a case, a column a reward, all panels with the same rows. NaN is a case
    that the reward refuses to score.
    """
    use_style()
    widths = [1 + len(paid.columns) for paid, _ in panels.values()]
    cases = next(iter(panels.values()))[1].index
    figure, axes = plt.subplots(
        1, len(panels), figsize=(2.6 + 0.8 * sum(widths), 1.2 + 0.25 * len(cases)),
        width_ratios=widths, sharey=True, squeeze=False,
    )  # fmt: skip
    white, orange, grey = (1, 1, 1), sns.desaturate(ORANGE, 0.8), (0.75, 0.75, 0.75)
    pale = sns.blend_palette(["white", AFTER], 5)[1]
    for axis, (title, (paid, due)) in zip(axes[0], panels.items(), strict=True):
        table = pd.concat({"due": due}, axis=1).join(paid)
        values, owed = table.to_numpy(float), due.to_numpy(float)[:, None]
        colors = np.full((*values.shape, 3), pale)
        colors[values > owed], colors[values < owed] = orange, grey
        colors[np.isnan(values)] = colors[:, 0] = white
        axis.imshow(colors, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            axis.text(column, row, "none" if np.isnan(value) else f"{value:g}", ha="center", va="center",
                      fontsize=8)  # fmt: skip
        axis.set_xticks(range(len(table.columns)), table.columns)
        axis.xaxis.tick_top()
        axis.set_yticks(range(len(cases)), cases)
        axis.set_title(title)
        axis.set_xticks(np.arange(-0.5, len(table.columns)), minor=True)
        axis.set_yticks(np.arange(-0.5, len(cases)), minor=True)
        axis.grid(visible=False)
        axis.grid(which="minor", color="white", lw=2)
        axis.tick_params(which="both", length=0)
    marks = {"right": pale, "pays what is not due": orange, "does not pay what is due": grey}
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in marks.values()]
    figure.legend(handles, list(marks), loc="outside lower right", ncols=3, frameon=False)
    return figure


def knobs(draw: Callable[..., Figure], **knobs: tuple[float, float, float, float] | str) -> None:
    """Show a figure in its default state and, where a reader sits before the notebook, knobs to redraw it.

    A number's knob is (default, least, greatest, step) and becomes a slider; a text is its own default and
    becomes a box to edit. A program that executes a notebook has nobody to turn a knob (it says so by
    forbidding input), and gets the figure alone: a saved slider is dead, and its id random.
    """
    from IPython.core.getipython import get_ipython

    draw(**{name: knob if isinstance(knob, str) else knob[0] for name, knob in knobs.items()})
    plt.show()
    shell = get_ipython()
    request = getattr(shell, "parent_header", {}).get("content", {})
    if request.get("allow_stdin"):
        from ipywidgets import FloatSlider, Textarea, interact

        def redraw(**values: float | str) -> None:
            draw(**values)
            plt.show()

        def control(knob: tuple[float, float, float, float] | str) -> Textarea | FloatSlider:
            if isinstance(knob, str):
                return Textarea(knob, rows=1 + knob.count("\n"), continuous_update=False)
            value, least, greatest, step = knob
            return FloatSlider(value, min=least, max=greatest, step=step, continuous_update=False)

        interact(redraw, **{name: control(knob) for name, knob in knobs.items()})


def scored_trace(problem: Problem, think: str, answer: str) -> Figure:
    """A trace line by line as the exact verifier finds it, beside its picture and its scores.

    Bars are the binary scores and their mean, the thinking reward; diamonds the continuous ones.
    """
    use_style()
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), width_ratios=[1, 2.6, 1.1])
    axes[0].imshow(problem.image)
    axes[0].set_xlabel(_caption(problem, 30))
    axes[0].set_title(f"{problem.family} ({problem.kind})")
    axes[0].set_anchor("N")
    verdict = verify(problem, think, answer)
    for row, finding in enumerate(verdict.findings):
        mark, color = ("✓", "0.25") if finding.passed else ("✗", RED)
        why = "" if finding.passed else f"   {', '.join(finding.failed)}: {finding.reason}"
        axes[1].text(0.02, 0.96 - 0.095 * row, f"{mark} {str(finding.statement)[:30]}{why}"[:80], va="top",
                     color=color, family="monospace", fontsize=8.2, transform=axes[1].transAxes,
                     clip_on=True, parse_math=False)  # fmt: skip
    axes[1].set_title("Line by line")
    scores, shares = ([*vars(verdict.scores(c)).values()] for c in (False, True))
    names = ["$d_1$ logic", "$d_2$ grounding", "$d_3$ consistency", "$R_{think}$"]
    bars = axes[2].barh(names, [*scores, sum(scores) / 3], color=[*[AFTER] * 3, GREEN], height=0.6)
    axes[2].plot([*shares, sum(shares) / 3], names, "D", color="0.15", ms=5, clip_on=False)
    axes[2].bar_label(bars, fmt="%.2f", fontsize=9, padding=6)
    axes[2].invert_yaxis()
    axes[2].set(xlim=(0, 1.2), title="Scores (◆ continuous)", xticks=[0, 1 / 3, 2 / 3, 1])
    axes[2].set_xticklabels(["0", "1/3", "2/3", "1"])
    axes[2].grid(axis="y", visible=False)
    for axis in axes[:2]:
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
    return figure


def judge_confusion(table: pd.DataFrame, judge: str) -> Figure:
    """What a judge said of what is right and what is wrong, and its errors by source with 95% intervals.

    `table` is that of `judges.check.check`, with a grouping by "source".
    """
    use_style()
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
            _bars(bottom, lines, rate, offset, rate.replace("_", " "), color)
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
    use_style()
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
    use_style()
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
