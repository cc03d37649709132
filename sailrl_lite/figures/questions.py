"""What the paper left open: what was reached against the knob that was turned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Results, of_kind, spread
from sailrl_lite.figures.style import (
    ARMS,
    BLUE,
    KINDS,
    MEASURES,
    ORANGE,
    WIDTH,
    Look,
    legend,
    use_style,
)
from sailrl_lite.figures.tables import dots
from sailrl_lite.study.arms import TestSet
from sailrl_lite.world.problems import FAMILIES

HELD_OUT = ("shape_of", "suppose", "compare")  # of the kl-* arms


@dataclass(frozen=True)
class Knob:
    """A question with arms in the order of the knob: `settings` names each on the axis."""

    title: str
    axis: str
    settings: Mapping[str, str]  # arm: what the axis says of it
    ordered: bool = True  # else no line joins the settings
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
        ordered=False,
    ),
    "open-judge-error": Knob(
        "How well must the judge judge?", "judge",
        {"cascade": "exact", "noisy": "10%\nwrong", "false-pass-0.3": "lenient", "false-fail-0.3": "harsh",
         "learned": "learned"},
        ordered=False,
    ),
    "open-anneal": Knob(
        "From the additive reward to the cascade?", "reward",
        {"additive": "additive", "anneal": "additive\nto cascade", "cascade": "cascade"},
        ordered=False,
    ),
}  # fmt: skip


def knob(results: Results, name: str) -> Figure:
    """One of `KNOBS`: a panel a measure, a line a kind of question."""
    return _panels(results, KNOBS[name], {look: of_kind(kind) for kind, look in KINDS.items()})


def kl_weight(results: Results) -> Figure:
    """What a KL term keeps: the families that RL trained on, and those that were held out of it."""
    settings = {"kl-0": "0", "kl-0.01": "0.01", "kl-0.05": "0.05", "kl-0.1": "0.1", "sft": "no RL"}
    title, measures = (
        "What does a KL term keep of what RL does not train?",
        ("accuracy", "trigger_rate", "cascade"),
    )
    spec = Knob(title, "weight of the KL term", settings, True, measures)
    kept = [family for family in FAMILIES if family not in HELD_OUT]
    return _panels(
        results, spec, {Look("trained on", BLUE, "o"): kept, Look("held out", ORANGE, "s", "--"): HELD_OUT}
    )


def disguise(results: Results) -> Figure:
    """Does the decision to think follow the question or its words? Plain and dressed questions."""
    arms = ("sft", "answer-only", "cascade")
    looks: dict[TestSet, Look] = {
        "plain": Look("usual words", BLUE, "o"),
        "dressed": Look("words of the other group", ORANGE, "s", "--"),
    }
    found = {
        (measure, kind): [
            (look, [spread(results.scores(arm, measure, kind=kind, tests=tests), 100) for arm in arms])
            for tests, look in looks.items()
        ]
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


def sharpening(results: Results) -> Figure:
    """What of the gain of RL is left when the SFT policy, too, gives its likeliest answer."""
    arms = ("sft", "answer-only", "cascade")
    looks = {"": Look("sampled", BLUE, "o"), "-greedy": Look("greedy", ORANGE, "s", "--")}
    found = {
        kind: [
            (look, [spread(results.scores(f"{arm}{how}", "accuracy", kind=kind), 100) for arm in arms])
            for how, look in looks.items()
        ]
        for kind in KINDS
    }
    use_style()
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 2.6), sharey=True)
    for axis, (kind, series) in zip(axes, found.items(), strict=True):
        dots(axis, [ARMS[arm].label for arm in arms], series)
        axis.set(title=f"{kind}: accuracy, %", xlim=(-2, 102))
    legend(figure, axes[0], 2)
    figure.suptitle("Does RL teach, or does it sharpen what SFT knew?")
    return figure


def _panels(results: Results, spec: Knob, groups: Mapping[Look, Sequence[str]]) -> Figure:
    """A panel a measure, a line a group of families."""
    found = {
        measure: {
            look: [spread(results.scores(arm, measure, families)) for arm in spec.settings]
            for look, families in groups.items()
        }
        for measure in spec.measures
    }
    use_style()
    figure, axes = plt.subplots(1, len(found), figsize=(WIDTH, 3.0), sharey=True)
    places = np.arange(len(spec.settings))
    for axis, (measure, series) in zip(axes, found.items(), strict=True):
        for k, (look, values) in enumerate(series.items()):
            mean, low, high = np.array(values, float).T
            ends, line = np.array([mean - low, high - mean]), look.line if spec.ordered else ""
            shifted = places + 0.09 * (k - (len(series) - 1) / 2)
            axis.errorbar(shifted, mean, yerr=ends, color=look.color, marker=look.marker, ls=line, lw=1.2,
                          capsize=2, label=look.label)  # fmt: skip
        axis.set_xticks(places, list(spec.settings.values()))
        axis.set(title=MEASURES[measure], xlabel=spec.axis, xlim=(-0.4, places[-1] + 0.4), ylim=(0, 1.02))
        axis.grid(axis="x", visible=False)
    axes[0].set_ylabel("mean, 95% intervals over seeds")
    legend(figure, axes[0], 3)
    figure.suptitle(spec.title)
    return figure


QUESTIONS: dict[str, Callable[[Results], Figure]] = {
    **{name: partial(knob, name=name) for name in KNOBS},
    "open-kl": kl_weight,
    "open-disguise": disguise,
    "open-sharpening": sharpening,
}
