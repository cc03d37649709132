"""What an arm reached, a value for each seed: from its evaluation, or from its training curve."""

from collections.abc import Sequence

import pandas as pd

from sailrl_lite.study.arms import TestSet

_OF_TRACES = ("logic", "grounding", "consistency", "sound")  # means over the written traces, not over all
_PLAIN_NUMBERS = ("tokens", "relative_tokens")  # not shares, so not shown in points
_ENDS = 5  # steps of a training curve that are averaged at either end


def measured(
    table: pd.DataFrame,
    arm: str,
    measure: str,
    kinds: Sequence[str] = (),
    families: Sequence[str] = (),
    tests: TestSet = "plain",
) -> dict[int, float]:
    """An arm's value for each seed: the mean over all responses, or all written traces, to these problems.

    Args:
        table: of `evaluations`.
        measure: a column of it, or relative_tokens: tokens over those of the arm `base`, seed by seed.
        kinds, families: the problems; nothing named is all of them.

    Returns:
        A value in the measure's unit for each seed that has one.
    """
    if measure == "relative_tokens":
        own = measured(table, arm, "tokens", kinds, families, tests)
        base = measured(table, "base", "tokens", kinds, families, tests)
        return {seed: own[seed] / base[seed] for seed in own if seed in base}
    if table.empty:
        return {}
    rows = table[(table["arm"] == arm) & (table["tests"] == tests)]
    if kinds:
        rows = rows[rows["kind"].isin(kinds)]
    if families:
        rows = rows[rows["family"].isin(families)]
    if rows.empty or measure not in rows:
        return {}
    values = pd.to_numeric(rows[measure])
    weights = rows["traces" if measure in _OF_TRACES else "n"].where(values.notna(), 0)
    sums = pd.DataFrame({"total": values.fillna(0) * weights, "count": weights, "seed": rows["seed"]})
    sums = sums.groupby("seed", as_index=False).sum()
    sums = sums[sums["count"] > 0]
    return dict(zip(sums["seed"].tolist(), (sums["total"] / sums["count"]).tolist(), strict=True))


def changed(training: pd.DataFrame, arm: str, column: str) -> dict[int, float]:
    """For each seed the mean of a training curve's last steps minus that of its first ones, five each.

    Args:
        training: of `curves`.
    """
    if column not in training:
        return {}
    runs = training.loc[training["arm"] == arm, ["seed", "step", column]].sort_values(["seed", "step"])
    by_seed = runs.assign(**{column: pd.to_numeric(runs[column])}).groupby("seed")[column]
    change = by_seed.apply(lambda curve: curve.iloc[-_ENDS:].mean() - curve.iloc[:_ENDS].mean())
    return dict(zip(change.index.tolist(), change.tolist(), strict=True))


def scale(measure: str) -> int:
    """What a value is multiplied by to be shown: shares in points, other numbers as they are."""
    return 1 if measure in _PLAIN_NUMBERS else 100
