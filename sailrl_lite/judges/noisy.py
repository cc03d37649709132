"""The noisy judge: another judge whose verdicts are turned at set rates, to see what a wrong judge does."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Dimension, Judge, NoVerdict, Verdict

Rate = float | Mapping[Dimension, float]


class NoisyJudge(Judge):
    """Turns the scores of a judge: a fail into a pass at one rate, a pass into a fail at another.

    Each dimension of each response is drawn on its own, and the draw belongs to the response: asked again, in
    another order or batch, the judge says the same. A continuous score below 1 becomes 1 at the rate of false
    passes, one above 0 becomes 0 at that of false fails (at most what the passes leave of it). So the exact
    judge's scores, continuous or not, are turned alike. A score that was turned has lost its reason.

    Args:
        inner: the judge; whether it is paid, has stopped, and what it has used are its own.
        false_pass, false_fail: a rate in [0, 1], or one for each dimension; one left out is 0.
        seed: of the draws.

    Raises:
        SailRLError: a rate out of its range, or of an unknown dimension.
    """

    def __init__(self, inner: Judge, false_pass: Rate = 0.0, false_fail: Rate = 0.0, seed: int = 0) -> None:
        self.inner, self.seed = inner, seed
        self.false_pass = _by_dimension("false_pass", false_pass)
        self.false_fail = _by_dimension("false_fail", false_fail)
        rates = (f"false pass {_shown(self.false_pass)}", f"false fail {_shown(self.false_fail)}")
        self.name = f"noisy {inner.name} ({', '.join(rates)})"
        self.paid, self.needs_truth = inner.paid, inner.needs_truth

    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        found = await self.inner.judge(cases, continuous, sample)
        return [
            self._turned(case, verdict) if isinstance(verdict, Verdict) else verdict
            for case, verdict in zip(cases, found, strict=True)
        ]

    @property
    def stopped(self) -> str:
        return self.inner.stopped

    def usage(self) -> dict[str, float]:
        return self.inner.usage()

    def status(self) -> str:
        return self.inner.status()

    def keep(self, folder: Path) -> None:
        self.inner.keep(folder)

    def _turned(self, case: Case, verdict: Verdict) -> Verdict:
        values, response = dict(verdict.values), _identity(case)
        for dimension in DIMENSIONS:
            if dimension not in values:
                continue
            # One draw serves both: passes lie at its lower end, fails at its upper one.
            draw = _draw([self.seed, dimension, *response])
            if values[dimension] < 1 and draw < self.false_pass[dimension]:
                values[dimension] = 1
            elif values[dimension] > 0 and draw >= 1 - self.false_fail[dimension]:
                values[dimension] = 0
        kept = {d: why for d, why in verdict.reasons.items() if values.get(d) == verdict.values.get(d)}
        return Verdict(values, kept)


def _by_dimension(name: str, rate: Rate) -> dict[Dimension, float]:
    rates = rate if isinstance(rate, Mapping) else dict.fromkeys(DIMENSIONS, rate)
    if unknown := [str(key) for key in rates if key not in DIMENSIONS]:
        raise SailRLError(f"{name}: unknown dimension {unknown[0]!r}; known: {', '.join(DIMENSIONS)}")
    for value in rates.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise SailRLError(f"{name} must be a rate in [0, 1], or one for each dimension, not {value!r}")
    return {dimension: rates.get(dimension, 0.0) for dimension in DIMENSIONS}


def _shown(rates: Mapping[Dimension, float]) -> str:
    """One number where all are the same."""
    values = [f"{rate:g}" for rate in rates.values()]
    return values[0] if len(set(values)) == 1 else "/".join(values)


def _identity(case: Case) -> list[str | None]:
    """What makes a response this one: the problem, or else the picture, and all that was written."""
    about = ""
    if case.problem is not None:
        about = case.problem.id
    elif case.image is not None:
        picture = case.image
        about = hashlib.sha256(f"{picture.mode} {picture.size} ".encode() + picture.tobytes()).hexdigest()
    return [about, case.question, case.think, case.answer]


def _draw(key: list[str | int | None]) -> float:
    """A number in [0, 1), uniform over keys and the same for the same key on every machine."""
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
