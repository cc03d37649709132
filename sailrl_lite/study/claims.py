"""The table of claims: what `claims.toml` registers, measured on the logs and judged by rule.

A claim is *reproduced* if the difference has the sign that is claimed and its p value, corrected for all
testable claims, is below 0.05; *opposite* if that holds of the other sign; else *not reproduced*.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from sailrl_lite.study.arms import load_study
from sailrl_lite.study.logs import Log, curves, evaluations
from sailrl_lite.study.measured import changed, measured, scale
from sailrl_lite.study.registered import Claim, Question, reported_text
from sailrl_lite.study.statistics import Comparison, holm, interval, paired

COLUMNS = (
    "id", "artifact", "statement", "reported",
    "ours", "ci_low", "ci_high", "seeds", "p_adjusted", "verdict", "why",
)  # fmt: skip
OPEN_COLUMNS = ("question", "arm", "measure", "value", "ci_low", "ci_high", "seeds", "says")
UNTESTABLE = "untestable here"


def claim_table(logs: Sequence[Log], claims: Sequence[Claim]) -> pd.DataFrame:
    """A row a claim, with `COLUMNS`; `ours` and its interval in points, or as numbers for relative tokens.

    Logs may be missing: such a claim is untestable so far, and counts in the correction all the same.
    """
    table, training = evaluations(logs), curves(logs)
    testable = [claim for claim in claims if not claim.untestable]
    found = {claim.id: compare(table, training, claim) for claim in testable}
    adjusted = dict(zip(found, holm([c.p for c in found.values()]), strict=True))
    rows = [
        _row(claim, found.get(claim.id), adjusted.get(claim.id, math.nan), len(found)) for claim in claims
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def compare(table: pd.DataFrame, training: pd.DataFrame, claim: Claim) -> Comparison:
    """The claim's difference a - b, as a share; `p` is of what the claim expects.

    Args:
        table: of `evaluations`.
        training: of `curves`.
    """
    if claim.curve:
        a = changed(training, claim.a, claim.measure)
        b = dict.fromkeys(a, 0.0)
    else:
        a = measured(table, claim.a, claim.measure, claim.kinds, claim.families)
        b = measured(table, claim.b, claim.measure, claim.b_kinds or claim.kinds, claim.families)
    margin = claim.margin / scale(claim.measure)
    if claim.expect == "not lower":
        return replace(paired(a, b), p=paired(a, {seed: value - margin for seed, value in b.items()}).p)
    return paired(a, b, margin if claim.expect == "equal" else None)


def _row(claim: Claim, found: Comparison | None, p: float, tested: int) -> tuple[str, ...]:
    head = (claim.id, claim.artifact, claim.statement, reported_text(claim))
    if found is None or math.isnan(p):
        arms = " and ".join(dict.fromkeys(arm for arm in (claim.a, claim.b) if arm))
        why = claim.untestable or f"fewer than two seeds of {arms} have run so far"
        return (*head, "", "", "", str(found.seeds) if found else "", "", UNTESTABLE, _with_note(why, claim))
    verdict, why = judge(claim, found, p, tested)
    factor = scale(claim.measure)
    numbers = (f"{factor * x:+.2f}" for x in (found.mean, found.low, found.high))
    return (*head, *numbers, str(found.seeds), f"{p:.2g}", verdict, _with_note(why, claim))


def judge(claim: Claim, found: Comparison, p: float, tested: int) -> tuple[str, str]:
    """Verdict and reason, from the numbers alone.

    Args:
        p: of the claim, corrected for the `tested` claims.
    """
    mean, low, high = (scale(claim.measure) * x for x in (found.mean, found.low, found.high))
    border = {"equal": claim.margin, "not lower": -claim.margin}.get(claim.expect, 0.0)
    if claim.expect == "equal":
        holds = abs(mean) < border
        decided = max(-low, high) < border if holds else low > border or high < -border
    else:
        holds = mean < border if claim.expect == "lower" else mean > border
        decided = not low <= border <= high
    way = "as claimed" if holds else "against the claim"
    if p < 0.05:
        return "reproduced" if holds else "opposite", f"clear over {found.seeds} seeds"
    if decided:
        return "not reproduced", f"{way}, but not clear after correction for {tested} claims"
    edge = f"the margin of {border:g}" if claim.expect == "equal" else f"{border:g}"
    return "not reproduced", f"{way}, but the interval of {found.seeds} seeds includes {edge}"


def _with_note(why: str, claim: Claim) -> str:
    return f"{why}; {claim.note}" if claim.note else why


def open_table(logs: Sequence[Log], questions: Sequence[Question]) -> pd.DataFrame:
    """A row for each question, measure and arm, with `OPEN_COLUMNS`; values in points where they are shares.

    `says` is the difference to the reference (of dressed questions: to the same arm's plain ones) with its
    95% interval, uncorrected: these are no tests.
    """
    table, groups = evaluations(logs), load_study().groups
    rows = [
        _open_row(table, question, arm, show)
        for question in questions
        for show in question.show
        for arm in groups[question.group]
    ]
    return pd.DataFrame([row for row in rows if row], columns=list(OPEN_COLUMNS))


def _open_row(table: pd.DataFrame, question: Question, arm: str, show: Mapping[str, Any]) -> tuple[str, ...]:
    own = measured(table, arm, **show)
    if not own:
        return ()
    factor = scale(show["measure"])
    name = ", ".join([show["measure"], *show.get("kinds", ()), *show.get("families", ())])
    name += f" ({show['tests']})" if "tests" in show else ""
    numbers = ["" if math.isnan(x) else f"{factor * x:.2f}" for x in interval(list(own.values()))]
    base = measured(table, question.reference, **show)
    against = question.reference
    if show.get("tests") == "dressed":  # the question is what the dress does to one and the same policy
        base, against = (
            measured(table, arm, **{k: v for k, v in show.items() if k != "tests"}),
            "plain questions",
        )
    elif arm == question.reference:
        return (question.question, arm, name, *numbers, str(len(own)), "the reference")
    found = paired(own, base)
    mean, low, high = (f"{factor * x:+.2f}" for x in (found.mean, found.low, found.high))
    says = f"{mean} ({low} to {high}) against {against}"
    if found.low <= 0 <= found.high:
        says += ": no clear difference"
    elif found.seeds < 2:
        says = f"fewer than two seeds in common with {against}"
    return (question.question, arm, name, *numbers, str(len(own)), says)
