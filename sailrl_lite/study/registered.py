"""The registered claims and open questions: `claims.toml`, read and checked."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml
from sailrl_lite.paper import reported
from sailrl_lite.study.arms import load_study
from sailrl_lite.world.problems import FAMILIES

CLAIMS_FILE = Path(__file__).with_name("claims.toml")
EXPECTED = ("higher", "lower", "equal", "not lower")
Entry = TypeVar("Entry", "Claim", "Question")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper; the fields are those that the head of `claims.toml` describes."""

    id: str
    artifact: str
    statement: str
    reported: Mapping[str, Any]
    a: str = ""
    b: str = ""
    measure: str = ""
    kinds: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    b_kinds: tuple[str, ...] = ()
    curve: bool = False
    expect: str = ""
    margin: float = 0.0
    untestable: str = ""
    note: str = ""


@dataclass(frozen=True)
class Question:
    """What the paper left open: each arm of a group against a reference, by some measures."""

    id: str
    question: str
    group: str
    reference: str
    show: tuple[Mapping[str, Any], ...]


def load_claims(file: Path = CLAIMS_FILE) -> tuple[list[Claim], list[Question]]:
    """Read and check the registered claims and the open questions.

    Raises:
        SailRLError: no such file, no TOML, or an entry is wrong; the message names it.
    """
    table = read_toml(file, "the claims")
    claims = [_entry(Claim, entry) for entry in table.get("claim", [])]
    questions = [_entry(Question, entry) for entry in table.get("question", [])]
    study = load_study()
    for claim in claims:
        _check(claim, study.arms)
    for question in questions:
        if question.group not in study.groups or question.reference not in study.groups[question.group]:
            raise SailRLError(
                f"question {question.id}: name a group of arms.toml, and a reference of that group"
            )
    return claims, questions


def _entry(kind: type[Entry], entry: dict[str, Any]) -> Entry:
    where = f"{kind.__name__.lower()} {entry.get('id', '?')}"
    known = {f.name: f for f in fields(kind)}
    for name in entry:
        if name not in known:
            raise SailRLError(f"{where} has no entry {name!r}; {suggest(name, known)}")
    for name, field in known.items():
        if field.default is MISSING and name not in entry:
            raise SailRLError(f"{where} lacks the entry {name!r}; see the head of claims.toml")
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return kind(**values)


def _check(claim: Claim, arms: Iterable[str]) -> None:
    where = f"claim {claim.id}:"
    reported_text(claim)
    if claim.untestable:
        return
    for arm in (claim.a,) if claim.curve else (claim.a, claim.b):
        if arm not in arms:
            raise SailRLError(f"{where} there is no arm {arm!r}; {suggest(arm, arms)}")
    for family in claim.families:
        if family not in FAMILIES:
            raise SailRLError(f"{where} there is no family {family!r}; {suggest(family, FAMILIES)}")
    if claim.expect not in EXPECTED or not claim.measure:
        raise SailRLError(f"{where} needs a measure, and for expect one of {', '.join(EXPECTED)}")
    if (claim.margin > 0) != (claim.expect in ("equal", "not lower")):
        raise SailRLError(
            f"{where} a margin above 0 belongs to expect = 'equal' or 'not lower', and to no other"
        )


def reported_text(claim: Claim) -> str:
    """What the paper reports, in words: the difference and the two figures, or the figures of one system.

    >>> reported_text(next(claim for claim in load_claims()[0] if claim.id == "t6-general"))
    '+2.3 points (MMMU 63.8 → 66.1)'
    """
    entry = claim.reported
    metric = entry.get("metric", "accuracy_pct")
    metric_b = entry.get("metric_b", metric)
    digits = 2 if claim.artifact == "figure4" else 1
    unit = " points" if metric.endswith(("_pct", "_points")) else ""
    a = [reported(claim.artifact, entry["a"], name, metric) for name in entry["of"]]
    if "b" not in entry:
        sign = "+" if metric.startswith("delta") else ""
        return (
            ", ".join(f"{name} {x:{sign}.{digits}f}" for name, x in zip(entry["of"], a, strict=True)) + unit
        )
    b = [reported(claim.artifact, entry["b"], name, metric_b) for name in entry["of"]]
    differences = ", ".join(f"{x - y:+.{digits}f}" for x, y in zip(a, b, strict=True))
    figures = zip(entry["of"], a, b, strict=True)
    both = ", ".join(f"{name} {y:.{digits}f} → {x:.{digits}f}" for name, x, y in figures)
    return f"{differences}{unit} ({both})"
