"""What the rewards pay, as surfaces: computed from the rewards themselves, no run needed."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from sailrl_lite.figures.style import WIDTH, use_style
from sailrl_lite.rewards import REWARDS, Components

_GRID = np.linspace(0, 1, 41)


def surface(reward: str, judging: int) -> np.ndarray:
    """The expected reward of a well-formed response, by its chance to be right and its thinking reward.

    Args:
        reward: a name of `REWARDS`.
        judging: 1 if the decision to think suits the question, else 0.

    Returns:
        (41, 41): a row a chance, a column a thinking reward, both from 0 to 1.
    """
    pay = REWARDS[reward]
    paid = np.array(
        [
            [pay(Components(1, answer, judging, t, t, t, "think", "written")) for t in _GRID.tolist()]
            for answer in (0, 1)
        ],
        float,
    )
    chance = _GRID[:, None]
    return np.round((1 - chance) * paid[0] + chance * paid[1], 9)


def surfaces() -> Figure:
    """Cascade and additive over thinking reward and chance of a right answer, by judging reward."""
    use_style()
    figure, axes = plt.subplots(2, 2, figsize=(0.8 * WIDTH, 5.2), sharex=True, sharey=True)
    levels = np.linspace(0, 1, 11)
    for column, (reward, title) in enumerate(
        (("cascade", "cascade (a product)"), ("additive", "additive (a mean)"))
    ):
        for row, judging in enumerate((1, 0)):
            axis, values = axes[row, column], surface(reward, judging)
            shown = axis.contourf(_GRID, _GRID, values, levels, vmin=0, vmax=1)
            if np.ptp(values) > 0:
                edges = axis.contour(_GRID, _GRID, values, levels[2:], colors="white", linewidths=0.6)
                places = [_GRID[np.abs(values.diagonal() - level).argmin()] for level in levels[3::2]]
                inside = [(place, place) for place in places if 0 < place < 1]
                axis.clabel(edges, levels[3::2], fmt="%.1f", fontsize=8, manual=inside)
            else:
                axis.text(0.5, 0.5, f"{values[0, 0]:.1f} everywhere", ha="center", color="white")
            axis.grid(visible=False)
            if row == 0:
                axis.set_title(title)
            else:
                axis.set_xlabel("thinking reward")
    for row, said in enumerate(("the decision to think suits (judging 1)", "it does not (judging 0)")):
        axes[row, 0].set_ylabel(f"{said}\n\nchance of a right answer")
    figure.colorbar(shown, ax=axes, label="expected reward of a well-formed response", shrink=0.7)
    figure.suptitle("What a response is paid")
    return figure
