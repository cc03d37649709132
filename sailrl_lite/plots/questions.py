"""What the paper left open: results against the knob that was turned, and the claims at a glance."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.plots.results import ROOT, Missing, Results, Spread, of_kind, spread
from sailrl_lite.plots.style import (
    ARMS,
    BLUE,
    KINDS,
    MEASURES,
    ORANGE,
    VERDICTS,
    WIDTH,
    Look,
    legend,
    use_style,
)
from sailrl_lite.plots.tables import dots
from sailrl_lite.world.problems import FAMILIES

CLAIMS = ROOT / "data" / "claims.csv"
HELD_OUT = ("shape_of", "suppose", "compare")  # of the kl-* arms


@dataclass(frozen=True)
class Knob:
    """A question with arms in the order of the knob: `settings` names each on the axis."""

    title: str
    axis: str
    settings: Mapping[str, str]  # arm: what the axis says of it
    measures: tuple[str, ...] = ("accuracy", "trigger_rate", "sound")


KNOBS: dict[str, Knob] = {
    "open-alpha": Knob(
        "How much of the reward may be for the format?", "α, the weight of the content",
        {"alpha-0.5": "0.5", "alpha-0.7": "0.7", "cascade": "0.9", "alpha-1": "1"},
    ),
    "open-rollouts": Knob(
        "Many prompts or many rollouts of each? (240 in all)", "rollouts a prompt",
        {"rollouts-2": "2", "cascade": "5", "rollouts-10": "10"},
    ),
    "open-labels": Knob(
        "What if complexity labels are wrong?", "share of wrong labels in RL",
        {"cascade": "0", "labels-0.1": "0.1", "labels-0.3": "0.3"},
    ),
    "open-pass4": Knob(
        "Which problems to train on?", "kept by pass@4 of the SFT policy",
        {"cascade": "all", "pass4-account": "not 0,\nnot 1", "pass4-hard": "1 or 2\nof 4"},
    ),
    "open-judge-error": Knob(
        "How well must the judge judge?", "judge",
        {"cascade": "exact", "noisy": "10%\nwrong", "false-pass-0.3": "lenient", "false-fail-0.3": "harsh",
         "learned": "learned"},
    ),
    "open-anneal": Knob(
        "From the additive reward to the cascade?", "reward",
        {"additive": "additive", "anneal": "additive\nto cascade", "cascade": "cascade"},
    ),
}  # fmt: skip


def knob(results: Results, name: str) -> Figure:
    """One of `KNOBS`: a panel a measure, a line a kind of question."""
    spec = KNOBS[name]
    groups = {look: of_kind(kind) for kind, look in KINDS.items()}
    panels = [
        (MEASURES[measure], {look: _series(results, spec, measure, group) for look, group in groups.items()})
        for measure in spec.measures
    ]
    return _panels(spec.title, spec.axis, list(spec.settings.values()), panels)


def _series(results: Results, spec: Knob, measure: str, families: Sequence[str]) -> list[Spread]:
    return [spread(results.scores(arm, measure, families=families)) for arm in spec.settings]


def kl_weight(results: Results) -> Figure:
    """What a KL term keeps: accuracy on the families in RL and on those held out of it, and the KL paid."""
    arms = {"sft": "no RL", "kl-0": "0", "kl-0.01": "0.01", "kl-0.05": "0.05", "kl-0.1": "0.1"}
    spec = Knob("", "", arms)
    kept = [family for family in FAMILIES if family not in HELD_OUT]
    groups = {Look("trained on", BLUE, "o"): kept, Look("held out", ORANGE, "s", "--"): list(HELD_OUT)}
    panels = [
        (MEASURES[measure], {look: _series(results, spec, measure, group) for look, group in groups.items()})
        for measure in ("accuracy", "trigger_rate", "cascade")
    ]
    title = "What does a KL term keep of what RL does not train?"
    return _panels(title, "weight of the KL term", list(arms.values()), panels)


def disguise(results: Results) -> Figure:
    """Does the decision to think follow the question or its words? Plain and dressed questions."""
    arms = ("sft", "answer-only", "cascade")
    looks = {
        "plain": Look("usual words", BLUE, "o"),
        "dressed": Look("words of the other group", ORANGE, "s", "--"),
    }
    found = {
        (measure, kind): {
            tests: (look, [spread(results.scores(arm, measure, kind=kind, tests=tests), 100) for arm in arms])
            for tests, look in looks.items()
        }
        for measure in ("trigger_rate", "accuracy")
        for kind in ("perception", "reasoning")
    }
    use_style()
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 3.9), sharey=True, sharex=True)
    for axis, ((measure, kind), series) in zip(axes.flat, found.items(), strict=True):
        dots(axis, [ARMS[arm].label for arm in arms], series)
        axis.set(title=f"{kind}: {MEASURES[measure]}, %", xlim=(-2, 102))
    legend(figure, axes[0, 0], 2)
    figure.suptitle("Does the mode follow the question or its words?")
    return figure


def _panels(
    title: str,
    label: str,
    places: Sequence[str],
    panels: Sequence[tuple[str, Mapping[Look, Sequence[Spread]]]],
) -> Figure:
    use_style()
    figure, axes = plt.subplots(1, len(panels), figsize=(WIDTH, 3.0), sharey=True)
    for axis, (name, series) in zip(axes, panels, strict=True):
        for k, (look, values) in enumerate(series.items()):
            _line(axis, look, np.array(values, float), 0.09 * (k - (len(series) - 1) / 2))
        axis.set_xticks(range(len(places)), places)
        axis.set(title=name, xlabel=label, xlim=(-0.4, len(places) - 0.6), ylim=(0, 1.02))
        axis.grid(axis="x", visible=False)
    axes[0].set_ylabel("share, 95% intervals over seeds")
    legend(figure, axes[0], 3)
    figure.suptitle(title)
    return figure


def _line(axis: Axes, look: Look, values: np.ndarray, shift: float) -> None:
    mean, low, high = values.T
    ends = np.array([mean - low, high - mean])
    axis.errorbar(np.arange(len(mean)) + shift, mean, yerr=ends, color=look.color, ls=look.line,
                  marker=look.marker, capsize=2, lw=1.2, label=look.label)  # fmt: skip


def claims() -> Figure:
    """Each claim of the table of claims: our difference with its interval, and the verdict."""
    try:
        table = pd.read_csv(CLAIMS)
    except FileNotFoundError:
        raise Missing("data/claims.csv is not there; write it by: sailrl-lite study report") from None
    table = table[table["ci_low"].notna()]
    if table.empty:
        raise Missing("no claim of data/claims.csv has an interval yet")
    use_style()
    figure, axis = plt.subplots(figsize=(WIDTH, 1.0 + 0.31 * len(table)))
    ours, low, high = (pd.to_numeric(table[name]).to_numpy() for name in ("ours", "ci_low", "ci_high"))
    rows, verdicts = np.arange(len(table)), table["verdict"].to_numpy()
    for verdict, look in VERDICTS.items():
        mine = verdicts == verdict
        if mine.any():
            ends = np.array([(ours - low)[mine], (high - ours)[mine]])
            axis.errorbar(ours[mine], rows[mine], xerr=ends, color=look.color, marker=look.marker, ls="",
                          capsize=2, lw=1.2, label=look.label)  # fmt: skip
    axis.axvline(0, color="0.3", lw=0.8)
    names = [textwrap.shorten(f"{row.artifact}: {row.statement}", 78) for row in table.itertuples()]
    axis.set_yticks(rows, names)
    axis.set_ylim(len(table) - 0.4, -0.6)
    axis.set_xlabel("difference, 95% interval over seeds")
    axis.grid(axis="y", visible=False)
    legend(figure, axis, 4)
    figure.suptitle("The claims at a glance")
    return figure


QUESTIONS: dict[str, Callable[[Results], Figure]] = {
    **{name: partial(knob, name=name) for name in KNOBS},
    "open-kl": kl_weight,
    "open-disguise": disguise,
}
