"""Figures of one run, for the screen: curves, before and after, rollouts and what a reward pays for them."""

import textwrap
from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.style import BLUE, GREEN, ORANGE, RED, use_screen_style
from sailrl_lite.response import parse_response
from sailrl_lite.rewards import Components, Reward
from sailrl_lite.world.problems import Problem
from sailrl_lite.world.verifier import Finding, verify

BEFORE, AFTER = ORANGE, BLUE


def learning_curves(metrics: pd.DataFrame) -> Figure:
    """Six panels over the training steps, from the rows of metrics.csv."""
    use_screen_style()
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
    use_screen_style()
    figure, axes = plt.subplots(2, 1, figsize=(11, 5.6), sharex=True)
    for axis, (measure, title) in zip(
        axes, (("accuracy", "Accuracy"), ("trigger_rate", "Trigger rate")), strict=True
    ):
        for offset, (summary, label, color) in zip(
            (-0.2, 0.2), ((before, "SFT", BEFORE), (after, "SFT + RL", AFTER)), strict=True
        ):
            bars(axis, summary, measure, offset, label, color)
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


def bars(axis: Axes, summary: pd.DataFrame, measure: str, offset: float, label: str, color: object) -> None:
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
    use_screen_style()
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
    use_screen_style()
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
    use_screen_style()
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
    use_screen_style()
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
    use_screen_style()
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
    use_screen_style()
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
