"""Which problems of the micro-world a run learns from, where that hangs on pass@4 under its starting policy.

pass@4 as the account means it: the share of four tries that are right.
"""

from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from sailrl_lite.answers import equivalent
from sailrl_lite.config import RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.response import parse_response
from sailrl_lite.training.data import problem_at
from sailrl_lite.training.models import MicroProcessor, Policy
from sailrl_lite.training.rollout import respond
from sailrl_lite.world.problems import FAMILIES

TRIES = 4
_CHUNK = 160  # problems tried together
_FEWEST = 0.02  # share that must be left


def passing_problems(
    config: RLConfig, policy: Policy, processor: MicroProcessor, wanted: int, file: Path, bar: bool = False
) -> list[int]:
    """Numbers, in the stream of `problem_at`, of the first `wanted` problems whose pass@4 lies strictly
    between `config.pass_low` and `config.pass_high`.

    Problems are tried in their order, and `file` keeps what was found (columns `problem`, `pass4`, a row each
    problem tried), so that a run that goes on tries none twice, and chooses as if it had not stopped.

    Raises:
        SailRLError: fewer than one problem in fifty lies between the bounds.
    """
    low = -1.0 if config.pass_low is None else config.pass_low
    high = 2.0 if config.pass_high is None else config.pass_high
    rates = pd.read_csv(file)["pass4"].tolist() if file.exists() else []

    def chosen() -> list[int]:
        return [index for index, rate in enumerate(rates) if low < rate < high]

    with tqdm(total=wanted, desc="pass@4", unit="problem", disable=not bar) as progress:
        while len(chosen()) < wanted:
            rates += _pass4(config, policy, processor, range(len(rates), len(rates) + _CHUNK))
            table = pd.DataFrame({"problem": range(len(rates)), "pass4": rates})
            write_text(file, table.to_csv(index=False))
            left = len(chosen())
            progress.update(min(left, wanted) - progress.n)
            if left < _FEWEST * len(rates):
                raise SailRLError(
                    f"of {len(rates)} problems {left} have a pass@4 strictly between {low:g} and {high:g}; "
                    "give other bounds, pass_low and pass_high"
                )
    return chosen()[:wanted]


def _pass4(config: RLConfig, policy: Policy, processor: MicroProcessor, numbers: range) -> list[float]:
    families = config.families or tuple(FAMILIES)
    problems = [problem_at(index, families, config.shortcut) for index in numbers]
    texts = respond(
        policy,
        processor,
        [problem.question for problem in problems],
        [problem.image for problem in problems],
        TRIES,
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        seed=config.seed * 1_000_003 + numbers.start,  # of the chunk, so that it is the same after a kill
    )
    return [
        sum(equivalent(problem.gold, parse_response(text).answer) for text in some) / TRIES
        for problem, some in zip(problems, texts, strict=True)
    ]
