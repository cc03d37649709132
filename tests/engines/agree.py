"""One DAPO update by any number of processes, on the same rollouts, for test_processes.py to compare.

    python tests/engines/agree.py OUT [PROCESSES] [NAME=VALUE ...]

Each process samples the whole batch by one seed and takes its part of it, which a real run does not do; so
with the prompts of a refill. The judge gives no verdict on some responses. The gradient goes to
OUT/gradient.pt.
"""

import hashlib
import sys
from pathlib import Path

import torch
from torch import distributed
from transformers import TrainerCallback

from sailrl_lite.config import RLConfig
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.judges.protocol import NoVerdict
from sailrl_lite.training import dapo, rl, shared_judge
from sailrl_lite.training.processes import count, index

CONFIG = {
    "steps": 1,
    "prompts": 8,
    "rollouts": 4,
    "updates": 1,
    "epochs": 1,
    "refills": 0,
    "max_new_tokens": 48,
}


class Silent(ExactJudge):
    """The exact judge, without a verdict on about a third of the responses."""

    async def judge(self, cases, continuous=False, sample=0):
        verdicts = await super().judge(cases, continuous, sample)
        silent = [hashlib.sha256(repr((c.problem.id, c.think)).encode()).digest()[0] < 85 for c in cases]
        return [NoVerdict("refusal") if s else v for s, v in zip(silent, verdicts, strict=True)]


def has_spread(rewards):
    """The first of every four groups taught nothing, and all of a refill did: each process lacks as many."""
    found = torch.ones(len(rewards), dtype=torch.bool)
    found[::4] = len(rewards) < 4
    return found


class Trainer(dapo.DapoTrainer):
    def _seed(self, draw, alike=1):
        return 1_000_003 * self.state.global_step + draw

    def _more_examples(self, wanted, draw):
        whole = super()._more_examples(wanted * count(), draw)
        return whole[index() * wanted :][:wanted]

    def _rollouts(self, prompt_ids, images, fields, draw):
        parts = [(prompt_ids, images, fields)] * count()
        if count() > 1:
            distributed.all_gather_object(parts, (prompt_ids, images, fields))
        whole = {name: torch.cat([part[2][name] for part in parts]) for name in fields}
        rolled = super()._rollouts(
            [ids for part in parts for ids in part[0]],
            [image for part in parts for image in part[1]],
            whole,
            draw,
        )
        own = len(prompt_ids) * self.num_generations
        here = slice(index() * own, (index() + 1) * own)
        return tuple(rows and rows[here] for rows in rolled)

    def train(self, *args, **kwargs):
        self.add_callback(KeepGradient(Path(self.args.output_dir).parent))
        return super().train(*args, **kwargs)


class KeepGradient(TrainerCallback):
    def __init__(self, out):
        self.out = out

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if index() == 0:
            named = getattr(model, "module", model).named_parameters()
            torch.save({name: weight.grad for name, weight in named}, self.out / "gradient.pt")


def main(out: str, processes: str = "1", *settings: str) -> None:
    rl.DapoTrainer = Trainer
    shared_judge.get_judge = rl.get_judge = lambda text: Silent()
    values = {**CONFIG, "engine.processes": processes} | dict(pair.split("=") for pair in settings)
    config = RLConfig().with_values({name: str(value) for name, value in values.items()})
    if config.refills:
        dapo.has_spread = has_spread
    rl.train_rl(config, Path(out), bar=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
