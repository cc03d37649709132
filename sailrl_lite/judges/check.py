"""How far a judge agrees with the exact truth: error rates, kappa and their intervals, without any I/O.

A judge "passes" a dimension by a score of 1. False pass: it passes what is wrong; false fail: it fails what
is right. Continuous scores pass from `THRESHOLD` on. No verdict is counted apart, never as a 0 or a 1.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from sailrl_lite.judges.protocol import DIMENSIONS, NoVerdict, Scores, Verdict

THRESHOLD = 0.5
ALL_THREE = "all three"  # the row that asks for all dimensions right at once
COUNTS = ("true_pass", "false_pass", "true_fail", "false_fail")

Opinion = Verdict | NoVerdict | None  # None: the judge was not asked


def check(
    truths: Sequence[Scores],
    opinions: Sequence[Sequence[Opinion]],
    by: Mapping[str, Sequence[str]] | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row a group and dimension, and one for all three at once, which has no pass and fail of its own.

    Args:
        truths: the exact scores of N traces, each 0 or 1.
        opinions: one sequence of N a repeat.
        by: groupings of the traces, such as {"family": [...]}, each with one label a trace.
        draws: bootstrap samples for kappa, over traces.

    Returns:
        A frame with the columns
        by, group: "all" twice for the whole set;
        dimension;
        traces, verdicts, no_verdicts: the last two over all repeats;
        n_true_pass, n_false_pass, n_true_fail, n_false_fail: verdicts;
        accuracy, false_pass, false_fail, kappa, each with _low and _high, a 95% interval. False pass is a
        share of what is truly wrong, false fail of what is truly right. The intervals of the rates are
        Wilson's, with a trace counted once however often it was judged; that of kappa is the bootstrap's;
        agreement: the share of pairs of repeats that say the same of a trace.
        NaN is what cannot be known: a rate of no verdicts, kappa where all truths are the same, agreement of
        one repeat.
    """
    shape = len(opinions), len(truths), len(DIMENSIONS)
    truth = np.array([[getattr(t, d) for d in DIMENSIONS] for t in truths], float).reshape(shape[1:])
    said = np.array([[_passes(o) for o in repeat] for repeat in opinions], float).reshape(shape)
    missing = np.array([[isinstance(o, NoVerdict) for o in repeat] for repeat in opinions], int)
    missing = missing.reshape(shape[:2]).sum(0)
    rows = []
    for name, labels in {"all": ["all"] * len(truth), **(by or {})}.items():
        for group in dict.fromkeys(labels or ["all"]):
            here = np.array([label == group for label in labels], bool)
            lines = _lines(truth[here], said[:, here], draws, np.random.default_rng(seed))
            for dimension, line in zip((*DIMENSIONS, ALL_THREE), lines, strict=True):
                where = {"by": name, "group": group, "dimension": dimension, "traces": int(here.sum())}
                rows.append(where | {"no_verdicts": int(missing[here].sum())} | line)
    return pd.DataFrame(rows).astype({f"n_{name}": "Int64" for name in COUNTS})


def causes(opinions: Sequence[Sequence[Opinion]]) -> dict[str, int]:
    """How often there was no verdict, by cause, the commonest first."""
    found = Counter(o.cause for repeat in opinions for o in repeat if isinstance(o, NoVerdict))
    return dict(found.most_common())


def _passes(opinion: Opinion) -> list[float]:
    if not isinstance(opinion, Verdict):
        return [np.nan] * len(DIMENSIONS)
    return list(vars(opinion.scores.binary(THRESHOLD)).values())


def _lines(
    truth: np.ndarray, said: np.ndarray, draws: int, rng: np.random.Generator
) -> list[dict[str, float]]:
    """truth (N, 3) and said (repeats, N, 3), NaN for no verdict."""
    judged = ~np.isnan(said)
    lines = []
    for k in range(truth.shape[1]):
        right, passed, known = truth[:, k] == 1, said[:, :, k] == 1, judged[:, :, k]
        counts = np.stack(  # (N, 4), in the order of COUNTS
            [
                (known & passed & right).sum(0),
                (known & passed & ~right).sum(0),
                (known & ~passed & ~right).sum(0),
                (known & ~passed & right).sum(0),
            ],
            axis=1,
        )
        line: dict[str, float] = dict(zip((f"n_{name}" for name in COUNTS), counts.sum(0), strict=True))
        line |= {"verdicts": int(counts.sum()), "agreement": _agreement(said[:, :, [k]])}
        line |= _rate("accuracy", counts[:, [0, 2]], counts)
        line |= _rate("false_pass", counts[:, [1]], counts[:, [1, 2]])
        line |= _rate("false_fail", counts[:, [3]], counts[:, [0, 3]])
        lines.append(line | _kappa_line(counts, draws, rng))
    known = judged.all(2)
    hits = ((said == truth).all(2) & known).sum(0)[:, None]
    asked = known.sum(0)[:, None]
    line = {"verdicts": int(asked.sum()), "agreement": _agreement(said)}
    return [*lines, line | _rate("accuracy", hits, asked)]


def _rate(name: str, hits: np.ndarray, cases: np.ndarray) -> dict[str, float]:
    """A share of verdicts with Wilson's interval; both arrays have a row a trace."""
    n, total = int((cases.sum(1) > 0).sum()), cases.sum()
    share = float(hits.sum() / total) if total else np.nan
    low, high = _wilson(share, n)
    return {name: share, f"{name}_low": low, f"{name}_high": high}


def _wilson(share: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    if not n:
        return np.nan, np.nan
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return min(share, max(0.0, float(center - half))), max(share, min(1.0, float(center + half)))


def kappa(counts: np.ndarray) -> np.ndarray:
    """Cohen's kappa of tables of counts (..., 4) in the order of COUNTS; NaN where all truths are the same.

    >>> kappa(np.array([[45, 15, 25, 15], [50, 50, 0, 0], [50, 0, 0, 0]])).round(3)
    array([0.375, 0.   ,   nan])
    """
    pass_pass, pass_fail, fail_fail, fail_pass = np.moveaxis(np.asarray(counts, float), -1, 0)
    total = pass_pass + pass_fail + fail_fail + fail_pass
    right, wrong = pass_pass + fail_pass, pass_fail + fail_fail  # of the truth
    chance = right * (pass_pass + pass_fail) + wrong * (fail_fail + fail_pass)
    agreed = (pass_pass + fail_fail) * total
    two = (right > 0) & (wrong > 0)
    return np.where(two, (agreed - chance) / np.where(two, total * total - chance, 1), np.nan)


def _kappa_line(counts: np.ndarray, draws: int, rng: np.random.Generator) -> dict[str, float]:
    value = float(kappa(counts.sum(0)))
    if np.isnan(value):
        return {"kappa": np.nan, "kappa_low": np.nan, "kappa_high": np.nan}
    n = len(counts)
    samples = rng.multinomial(n, np.full(n, 1 / n), draws) @ counts
    low, high = np.nanquantile(kappa(samples), [0.025, 0.975])
    return {"kappa": value, "kappa_low": float(low), "kappa_high": float(high)}


def _agreement(said: np.ndarray) -> float:
    """said (repeats, N, D): the share of pairs of repeats, both with a verdict, that say the same."""
    same = pairs = 0
    for a in range(len(said)):
        for b in range(a):
            known = ~(np.isnan(said[a]) | np.isnan(said[b])).any(1)
            same += int((said[a] == said[b]).all(1)[known].sum())
            pairs += int(known.sum())
    return same / pairs if pairs else np.nan
