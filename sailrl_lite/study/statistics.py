"""Intervals and tests over the seeds of the study; frozen, like the world, before the first run counts.

The unit is the seed, that is, a whole training run. The thousand responses of a run come from one policy, so
they rise and fall together: to take them, or the families, as the units finds effects where there are none
(`tests/test_claims.py` measures how often). The arms share problems and sources of chance seed by seed, so
two arms are compared seed by seed.

Why a t test and no resampling: with five seeds the sign-flip test has 2 ** 5 outcomes, so no p value below
2 / 32, and after a correction for dozens of claims no claim could pass; a percentile bootstrap over five
values is too narrow (its 95% intervals hold the truth in 84% of simulations). The price of t is that the
differences of seeds must be about normal: plausible for means of hundreds of responses, but nothing that five
seeds can show. So the sign-flip value, which needs no such assumption, stands beside it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

# The smallest spread over seeds that is believed: one response in 400. Without it two seeds that agree by
# chance to the last digit would be certainty.
RESOLUTION = 1 / 400


@dataclass(frozen=True)
class Comparison:
    """A difference over seeds.

    Attributes:
        mean, low, high: of the differences, with the 95% t interval.
        p: two-sided; of no difference, or of what `paired` says where a margin is given.
        p_flip: of no difference, by the exact sign-flip test; never below 2 ** (1 - seeds).
        seeds: how many.
    """

    mean: float
    low: float
    high: float
    p: float
    p_flip: float
    seeds: int


def interval(values: Sequence[float], spread: float = 0.0) -> tuple[float, float, float]:
    """Mean of a value a seed, and its 95% t interval; the ends are NaN for one seed, all three for none.

    Args:
        spread: the least standard deviation over seeds that is believed.
    """
    if not len(values):
        return (math.nan,) * 3
    mean, half = float(np.mean(values)), math.nan
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1)) * _error(values, spread)
    return mean, mean - half, mean + half


def paired(
    a: Mapping[int, float], b: Mapping[int, float], margin: float | None = None, spread: float = RESOLUTION
) -> Comparison:
    """Compare a - b over the seeds that both have.

    With a margin the question is whether the difference is small, not whether it is zero. Then p < 0.05 says
    that the whole 95% interval is on the same side of the margin as the mean: the difference is small (two
    one-sided tests), or it is not.

    Args:
        a, b: a value for each seed; NaN is no value.
        spread: the least standard deviation of the differences that is believed, in their unit.

    Returns:
        The comparison; all but `mean` and `seeds` are NaN where fewer than two seeds are common.
    """
    both = sorted(set(a) & set(b))
    differences = [d for seed in both if not math.isnan(d := a[seed] - b[seed])]
    mean, low, high = interval(differences, spread)
    if len(differences) < 2:
        return Comparison(mean, low, high, math.nan, math.nan, len(differences))
    distance = abs(mean) if margin is None else abs(margin - abs(mean))
    p = min(1.0, 2 * float(stats.t.sf(distance / _error(differences, spread), len(differences) - 1)))
    return Comparison(mean, low, high, p, sign_flip(differences), len(differences))


def sign_flip(differences: Sequence[float]) -> float:
    """Two-sided p value of no difference: the share of sign patterns whose mean is at least as far from 0.

    Exact over all patterns, so the work doubles with each seed.
    """
    signs = np.array(list(itertools.product((1, -1), repeat=len(differences))))
    sums = np.abs(signs @ np.asarray(differences, float))
    return float(np.mean(sums >= sums[0] * (1 - 1e-9)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: below 0.05 holds the chance of any false claim below 5%.

    NaN, a claim that has no test yet, counts as one of the claims and stays NaN.
    """
    order = sorted(range(len(p_values)), key=lambda i: (math.isnan(p_values[i]), p_values[i]))
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(order):
        if not math.isnan(p_values[i]):
            highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
            adjusted[i] = highest
    return adjusted


def _error(values: Sequence[float], spread: float) -> float:
    """Standard error of the mean of at least two values."""
    return max(float(np.std(values, ddof=1)), spread) / math.sqrt(len(values))
