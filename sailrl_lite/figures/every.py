"""All figures of the study: `FIGURES` names each, as its files are named, and the function that draws it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure
from tqdm.auto import tqdm

from sailrl_lite.figures import claims, curves, galleries, questions, regimes, reward, shares, tables
from sailrl_lite.figures.results import Missing, Results
from sailrl_lite.figures.style import save_both

FIGURES: dict[str, Callable[[Results], Figure]] = {
    **galleries.DRAWINGS,
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
    "regimes": regimes.regimes,
    "claims-accuracy": partial(claims.claims, units=claims.ACCURACY),
    "claims-thinking": partial(claims.claims, units=claims.THINKING),
}


def draw_all(results: Results, out: Path, names: list[str] | None = None) -> dict[str, str]:
    """Draw the figures into a folder as NAME.png and NAME.svg.

    Returns:
        Why a figure was left out, by name: what it needs is not there.
    """
    left_out = {}
    for name in tqdm(names or list(FIGURES), desc="figures", unit="figure", leave=False):
        try:
            figure = FIGURES[name](results)
        except Missing as missing:
            left_out[name] = str(missing)
        else:
            save_both(figure, out / name)
    return left_out
