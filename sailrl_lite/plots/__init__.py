"""The figures of the study, drawn from its logs: what the paper reports beside ours.

    python -m sailrl_lite.plots          draws all of them into figures/

`FIGURES` names each figure, which is also the name of its files, and the function that draws it.
"""

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from sailrl_lite.plots import claims, curves, gallery, questions, reward, shares, tables
from sailrl_lite.plots.results import Missing, Results, read_results

__all__ = ["FIGURES", "Missing", "Results", "read_results"]

FIGURES: dict[str, Callable[[Results], Figure]] = {
    **gallery.DRAWINGS,
    "figure4": curves.figure4,
    "figure5": shares.figure5,
    **{name: partial(tables.table, name=name) for name in tables.TABLES},
    "table5": tables.table5,
    "table8": tables.table8,
    "table10": tables.table10,
    "reward-surfaces": lambda results: reward.surfaces(),
    "cold-start": curves.cold_start,
    "kl": curves.kl_over_training,
    "modes": shares.modes,
    "judge-and-truth": curves.judge_and_truth,
    "collapse": curves.collapse,
    **questions.QUESTIONS,
    "claims-accuracy": lambda results: claims.claims(claims.ACCURACY),
    "claims-thinking": lambda results: claims.claims(claims.THINKING),
}
