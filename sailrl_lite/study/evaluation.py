"""Evaluation on unseen problems: accuracy, when the policy thinks, how well, and what it costs in tokens."""

import functools
import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from sailrl_lite.errors import SailRLError
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.rewards import REWARDS
from sailrl_lite.training.models import MicroProcessor, Policy, encode_prompts
from sailrl_lite.training.reward import grade
from sailrl_lite.training.rollout import sample
from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.verifier import DIMENSIONS

MEASURES = (
    "accuracy", "trigger_rate", "format_rate", "judging", "thinking", "cascade", *DIMENSIONS, "tokens",
)  # fmt: skip
# Of traces: all three sub-rewards are 1. Of all responses: a right answer after a trace that is not sound.
QUALITY = ("sound", "lucky")
_EXTRA = ("relative_tokens", "majority_guess")
_BATCH = 256


def unseen_problems(
    per_family: int, families: Sequence[str] | None = None, shortcut: float = 0.0
) -> list[Problem]:
    """The first problems of each family's test split; no training picture has their handwritten digits."""
    if per_family < 1:
        raise SailRLError(f"problems per family must be at least 1, not {per_family}")
    return [
        make_problem(family, k, "test", shortcut)
        for family in families or FAMILIES
        for k in range(per_family)
    ]


def evaluate(
    policy: Policy,
    processor: MicroProcessor,
    problems: Sequence[Problem],
    prefill: str = "",
    temperature: float = 1.0,
    seed: int = 0,
    max_new_tokens: int = 64,
    bar: str | None = "evaluating",
) -> pd.DataFrame:
    """One row a problem: who was asked what, the response, and its `MEASURES` and `QUALITY`.

    logic, grounding, consistency and sound are NaN where the think block is blank. `tokens` counts the
    prefill too; `NEVER_THINK` as prefill forces a direct answer. `majority_guess` is the accuracy of always
    giving the family's commonest answer, for comparison.
    """
    rows = []
    extra = len(processor.tokenizer(prefill)["input_ids"]) if prefill else 0
    starts = range(0, len(problems), _BATCH)
    for start in tqdm(starts, desc=bar, unit="batch", disable=bar is None, leave=False):
        part = problems[start : start + _BATCH]
        inputs = encode_prompts(processor, [p.question for p in part], [p.image for p in part], prefill)
        rolled = sample(policy, dict(inputs), 1, max_new_tokens, temperature, seed * 100_003 + start)
        texts = processor.batch_decode(rolled.ids, skip_special_tokens=True)
        rows += [
            _row(problem, text, prefill, len(ids) + extra)
            for problem, text, ids in zip(part, texts, rolled.ids, strict=True)
        ]
    return pd.DataFrame(rows)


def _row(problem: Problem, text: str, prefill: str, tokens: int) -> dict[str, object]:
    _, c = grade(problem, text, prefill)
    wrote = c.trace == "written"
    sound = wrote and all(getattr(c, name) == 1 for name in DIMENSIONS)
    return {
        "kind": problem.kind,
        "family": problem.family,
        "id": problem.id,
        "needs_thinking": problem.needs_thinking,
        "response": prefill + text,
        "accuracy": c.answer,
        "trigger_rate": int(wrote),
        "format_rate": c.format,
        "judging": c.judging,
        "thinking": c.thinking,
        "cascade": REWARDS["cascade"](c),
        **{name: getattr(c, name) if wrote else np.nan for name in DIMENSIONS},
        "sound": int(sound) if wrote else np.nan,
        "lucky": int(wrote and not sound and c.answer == 1),
        "tokens": tokens,
        "majority_guess": int(problem.gold == commonest_answer(problem.family)),
    }


@functools.cache
def commonest_answer(family: str) -> str:
    """What to guess without looking: the commonest answer in a family's first 1,000 training problems."""
    return Counter(make_problem(family, seed).gold for seed in range(1000)).most_common(1)[0][0]


def summarize(
    rows: pd.DataFrame, by: Sequence[str] = ("kind", "family"), draws: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Mean of each measure a group, with its 95% bootstrap interval over problems.

    Returns:
        A frame with the columns of `by`, `n`, and for each measure m the columns m, m_low, m_high.
    """
    rng = np.random.default_rng(seed)
    table = []
    for key, group in rows.groupby(list(by), sort=False):
        line: dict[str, object] = dict(zip(by, key, strict=True)) | {"n": len(group)}
        for measure in [m for m in (*MEASURES, *_EXTRA) if m in group]:
            values = group[measure].dropna().to_numpy(float)
            line[measure], line[f"{measure}_low"], line[f"{measure}_high"] = bootstrap(values, rng, draws)
        table.append(line)
    return pd.DataFrame(table)


def bootstrap(values: np.ndarray, rng: np.random.Generator, draws: int = 1000) -> tuple[float, float, float]:
    """Mean and 95% percentile interval of the mean; NaN three times for no values."""
    if not len(values):
        return (float("nan"),) * 3
    means = rng.choice(values, (draws, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def change(
    before: pd.DataFrame, after: pd.DataFrame, measure: str, where: pd.Series | None = None, seed: int = 0
) -> tuple[float, float, float]:
    """Mean change of a measure on the same problems, with its 95% bootstrap interval over problems.

    `before` and `after` are results of `evaluate` on one list of problems; `where` picks some of their rows.
    """
    if before["id"].tolist() != after["id"].tolist():
        raise SailRLError("a change needs two evaluations of the same problems, in the same order")
    differences = after[measure] - before[measure]
    values = (differences if where is None else differences[where]).dropna().to_numpy(float)
    return bootstrap(values, np.random.default_rng(seed))


def with_relative_tokens(rows: pd.DataFrame, never: pd.DataFrame) -> pd.DataFrame:
    """Add `relative_tokens`: tokens over those of the same policy when a direct answer is forced.

    The divisor is the mean over the family's problems, so that a mean of ratios is a ratio of means.
    """
    base = never.groupby("family")["tokens"].mean()
    return rows.assign(relative_tokens=rows["tokens"] / rows["family"].map(base))


def evaluate_relative(
    policy: Policy,
    processor: MicroProcessor,
    problems: Sequence[Problem],
    temperature: float = 1.0,
    seed: int = 0,
    max_new_tokens: int = 64,
    bar: str | None = "evaluating",
    never_think: bool = False,
) -> pd.DataFrame:
    """`evaluate` with `relative_tokens`; `never_think` gives the rows of the forced direct answers."""
    options = (temperature, seed, max_new_tokens, bar)
    never = evaluate(policy, processor, problems, NEVER_THINK, *options)
    rows = never if never_think else evaluate(policy, processor, problems, "", *options)
    return with_relative_tokens(rows, never)


def as_records(summary: pd.DataFrame) -> list[dict[str, object]]:
    """The summary for a JSON file, a row a group; null where there is no value."""
    return json.loads(summary.to_json(orient="records"))


def as_text(summary: pd.DataFrame) -> str:
    """The summary as a table for the terminal: mean and half the width of the interval."""
    shown = [m for m in (*MEASURES, *_EXTRA) if m in summary]
    table = summary[[c for c in ("kind", "family", "needs_thinking") if c in summary] + ["n"]].copy()
    for measure in shown:
        half = (summary[f"{measure}_high"] - summary[f"{measure}_low"]) / 2
        digits = 1 if measure == "tokens" else 2
        table[measure] = [
            "-" if np.isnan(m) else f"{m:.{digits}f}±{h:.{digits}f}"
            for m, h in zip(summary[measure], half, strict=True)
        ]
    return table.to_string(index=False)
