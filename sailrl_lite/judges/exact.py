"""The exact judge: the micro-world's verifier, which knows the truth of every problem."""

from collections.abc import Sequence

from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Verdict
from sailrl_lite.world.verifier import verify


class ExactJudge(Judge):
    """Decides each dimension exactly; its continuous score is the share of statements that pass.

    A case without its `problem` gets no verdict.
    """

    name = "exact"
    needs_truth = True

    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        return [_judge(case, continuous) for case in cases]


def _judge(case: Case, continuous: bool) -> Verdict | NoVerdict:
    if case.problem is None:
        return NoVerdict("no truth", "the exact judge knows micro-world problems only; name another judge")
    found = verify(case.problem, case.think, case.answer)
    reasons = {
        dimension: "; ".join(str(f) for f in found.findings if dimension in f.failed)
        for dimension in DIMENSIONS
    }
    return Verdict(vars(found.scores(continuous)), {d: text for d, text in reasons.items() if text})
