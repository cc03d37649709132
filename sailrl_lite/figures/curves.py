"""Figures of what happens over training: means over seeds, with 95% intervals as bands."""

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.results import SMOOTH, Results, reported, spread
from sailrl_lite.figures.style import ARMS, BAND, BLUE, KINDS, ORANGE, PAPER, WIDTH, Look, legend, use_style
from sailrl_lite.figures.tables import dots
from sailrl_lite.study.arms import TestSet

_FIGURE4 = {  # our metric: the paper's name
    "answer": "accuracy", "true_logic": "logic", "true_grounding": "hallucination",
    "true_consistency": "consistency",
}  # fmt: skip
_TITLES = {"answer": "accuracy", "true_logic": "logic", "true_grounding": "grounding",
           "true_consistency": "consistency"}  # fmt: skip


def band(axis: Axes, curve: pd.DataFrame, look: Look) -> None:
    """The mean of a curve over its seeds, and its interval; `curve` has a row a step and a column a seed."""
    values = np.array([spread(row) for _, row in curve.iterrows()])
    every = max(1, len(curve) // 5)
    axis.plot(curve.index, values[:, 0], color=look.color, ls=look.line, marker=look.marker,
              markevery=(every // 2, every), label=look.label)  # fmt: skip
    axis.fill_between(curve.index, values[:, 1], values[:, 2], color=look.color, alpha=BAND, lw=0)


def lines(
    results: Results,
    title: str,
    arms: Sequence[str],
    panels: Mapping[str, str],
    limits: tuple[float, float] | None = (0, 1.02),
) -> Figure:
    """A panel a column of the metrics, a curve an arm. `panels` names the columns' titles."""
    found = {column: {arm: results.curve(arm, column) for arm in arms} for column in panels}
    use_style()
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 2.9), squeeze=False)
    for axis, (column, curves) in zip(axes[0], found.items(), strict=True):
        for arm, curve in curves.items():
            band(axis, curve, ARMS[arm])
        axis.set_title(panels[column])
        axis.set_xlabel(f"step (mean of {SMOOTH})")
        if limits:
            axis.set_ylim(*limits)
    legend(figure, axes[0, 0], 3)
    figure.suptitle(title)
    return figure


def figure4(results: Results) -> Figure:
    """The paper's four curves, of which start and end were read off, above ours."""
    arms = ("answer-only", "thinking-answer", "cascade")
    found = {column: {arm: results.curve(arm, column) for arm in arms} for column in _FIGURE4}
    use_style()
    figure = plt.figure(figsize=(WIDTH, 5.2))
    above, under = figure.subfigures(2, 1, height_ratios=(1, 1.1))
    theirs, ours = above.subplots(1, 4, sharey=True), under.subplots(1, 4, sharey=True)
    for axis, name in zip(theirs, _FIGURE4.values(), strict=True):
        _ends(axis, name)
        axis.set_title(name)
    for axis, (column, curves) in zip(ours, found.items(), strict=True):
        for arm, curve in curves.items():
            band(axis, curve, ARMS[arm])
        axis.set_xlabel(f"step (mean of {SMOOTH})")
        axis.set_title(_TITLES[column])
    theirs[0].set(ylabel="reported,\nread off its curves", ylim=(0.4, 1))
    ours[0].set_ylabel("ours, all rollouts,\n95% intervals")
    legend(above, theirs[0], 2)
    legend(under, ours[0], 3)
    figure.suptitle("Figure 4: what the Thinking Reward does to traces over training")
    return figure


def _ends(axis: Axes, curve: str) -> None:
    """Start and end of the paper's two curves; a start that was read as a range is a bar over it."""
    read = {metric: reported("figure4", metric) for metric in ("start", "start_low", "start_high", "end")}

    def value(metric: str, system: str) -> float:
        own = read[metric].reindex(index=[curve], columns=[system, "both"]).iloc[0].dropna()
        return float(own.iloc[0]) if len(own) else float("nan")

    for place, system in ((0, "answer-only"), (0.03, "sail-rl")):
        look = PAPER[system]
        start, low, high = (value(metric, system) for metric in ("start", "start_low", "start_high"))
        start = (low + high) / 2 if np.isnan(start) else start
        axis.plot([place, place], [low, high], color=look.color, lw=5, alpha=0.4, solid_capstyle="butt")
        axis.plot((place, 1), (start, value("end", system)), color=look.color, ls=look.line, lw=1,
                  marker=look.marker, label=look.label)  # fmt: skip
    axis.set_xticks((0, 1), ("start", "end"))


def cold_start(results: Results) -> Figure:
    """Does a product find a signal at the start? What share of rollouts earns any content reward."""
    title = "Cold start: a product pays nothing until all works at once"
    panels = {
        "content/nonzero": "rollouts with content reward", "true_cascade": "cascade reward, by exact truth",
    }  # fmt: skip
    return lines(results, title, ("cascade", "additive", "anneal"), panels)


def kl_over_training(results: Results) -> Figure:
    """How far RL goes from the SFT policy: by reward, and by the weight of a KL term."""
    arms = (
        ("cascade", "answer-only", "thinking-answer", "always-think"),
        ("kl-0", "kl-0.01", "kl-0.05", "kl-0.1"),
    )
    found = [{arm: results.curve(arm, "kl") for arm in group} for group in arms]
    use_style()
    figure = plt.figure(figsize=(WIDTH, 3.5))
    titles = ("by reward, no KL term", "by weight of the KL term")
    for half, curves, title in zip(figure.subfigures(1, 2), found, titles, strict=True):
        axis = half.subplots()
        for arm, curve in curves.items():
            band(axis, curve, ARMS[arm])
        axis.set(title=title, xlabel=f"step (mean of {SMOOTH})", ylabel="KL to the SFT policy, nats a token")
        axis.set_ylim(bottom=0)
        legend(half, axis, 2)
    figure.suptitle("How far RL goes from the SFT policy")
    return figure


def judge_and_truth(results: Results) -> Figure:
    """Does a policy learn to please its judge? The thinking reward as the judge says it, and as it is."""
    arms = ("noisy", "false-pass-0.3", "false-fail-0.3", "learned")
    looks = {
        "thinking": Look("as the judge says", ORANGE, "s", "--"),
        "true_thinking": Look("as it is, by the exact verifier", BLUE, "o"),
    }
    found = {arm: {column: results.curve(arm, column) for column in looks} for arm in arms}
    use_style()
    figure, axes = plt.subplots(1, len(arms), figsize=(WIDTH, 2.9), sharey=True)
    for axis, (arm, curves) in zip(axes, found.items(), strict=True):
        for column, curve in curves.items():
            band(axis, curve, looks[column])
        axis.set_title(textwrap.fill(ARMS[arm].label, 22))
        axis.set_xlabel(f"step (mean of {SMOOTH})")
    axes[0].set_ylabel("thinking reward")
    axes[0].set_ylim(top=1.02)
    legend(figure, axes[0], 2)
    figure.suptitle("What a judge says against what is true")
    return figure


def collapse(results: Results) -> Figure:
    """The regime in which Figure 4's collapse is looked for: a mark in the picture gives the answer away."""
    arms = ("shortcut-answer-only", "shortcut-thinking-answer")
    found = {column: {arm: results.curve(arm, column) for arm in arms} for column in _TITLES}
    kinds, scores = list(KINDS), results.scores
    titles: dict[TestSet, str] = {
        "marked": "unseen problems with the mark", "plain": "unseen problems without it",
    }  # fmt: skip
    accuracy = {
        test: [
            (ARMS[arm], [spread(scores(arm, "accuracy", kind=kind, tests=test), 100) for kind in kinds])
            for arm in ("shortcut-sft", *arms)
        ]
        for test in titles
    }  # fmt: skip
    use_style()
    figure = plt.figure(figsize=(WIDTH, 4.8))
    above, under = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    axes = above.subplots(1, 4, sharey=True)
    for axis, (column, curves) in zip(axes, found.items(), strict=True):
        for arm, curve in curves.items():
            band(axis, curve, ARMS[arm])
        axis.set_title(_TITLES[column])
        axis.set_xlabel(f"step (mean of {SMOOTH})")
    axes[0].set(ylabel="in training,\nmark on every picture", ylim=(0, 1.02))
    panels = under.subplots(1, 2, sharey=True)
    for axis, (test, title) in zip(panels, titles.items(), strict=True):
        dots(axis, kinds, accuracy[test])
        axis.set(xlabel="accuracy, %, 95% intervals over seeds", xlim=(0, 102), title=title)
    legend(under, panels[0], 3)
    figure.suptitle("With a shortcut in the picture: right answers, and what is left of the traces")
    return figure
