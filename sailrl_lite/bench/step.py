"""One RL step against stock TRL on equal terms, where its time goes, and how far the floor is.

Both trainers start from the shipped policy and see the same problems with the same reward, number of
rollouts, lengths, updates and threads. They take turns, so that a busy machine is unfair to neither. Timings
are of one run of one machine: read the ratios.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.trainer_callback import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from sailrl_lite.config import SHIPPED, RLConfig
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.response import parse_response
from sailrl_lite.rewards import for_trl
from sailrl_lite.study.evaluation import unseen_problems
from sailrl_lite.training import rollout
from sailrl_lite.training.dapo import CLIP_HIGH, Dapo, DapoTrainer
from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.models import Policy, load_checkpoint
from sailrl_lite.training.rl import grpo_config
from sailrl_lite.world.problems import FAMILIES
from sailrl_lite.world.verifier import verify

PARTS = ("generation", "reward", "log-probs", "forward and backward", "rest")


class Clock:
    """Wall seconds spent inside functions that are wrapped with a name; an inner one is not counted twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.stack: list[str] = []

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            self.stack.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                self.stack.pop()
                self.seconds[name] += spent
                if self.stack:
                    self.seconds[self.stack[-1]] -= spent

        return timed


class _Steps(TrainerCallback):
    """Wall and CPU seconds of every generation batch."""

    def __init__(self, updates: int) -> None:
        self.updates = updates
        self.marks: list[tuple[float, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.marks = [(time.perf_counter(), time.process_time())]

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.updates == 0:
            self.marks.append((time.perf_counter(), time.process_time()))


def run(kind: str, config: RLConfig, folder: Path) -> dict[str, Any]:
    """Train with one of the two trainers; per-step seconds, the split of the time, and the rewards."""
    policy, processor = load_checkpoint(SHIPPED)
    args = grpo_config(config, folder)
    args.save_strategy = "no"
    steps, clock = _Steps(config.updates), Clock()
    common: dict[str, Any] = dict(
        model=policy,
        reward_funcs=for_trl(config.reward, ExactJudge()),
        args=args,
        train_dataset=rl_dataset(config.steps * config.prompts),
        processing_class=processor,
        callbacks=[steps],
    )
    if kind == "ours":
        trainer: GRPOTrainer = DapoTrainer(
            **common, dapo=Dapo(refills=0), reference=load_checkpoint(SHIPPED)[0]
        )
        trainer._rollouts = clock.wrap("generation", trainer._rollouts)
    else:
        args.epsilon_high, args.mask_truncated_completions = CLIP_HIGH, True
        trainer = GRPOTrainer(**common)
        trainer._generate_single_turn = clock.wrap("generation", trainer._generate_single_turn)
    trainer.remove_callback(PrinterCallback)
    # What is left of _prepare_inputs is tokens, pictures, padding; of training_step, forward and backward.
    logps = trainer._get_per_token_logps_and_entropies
    inside = clock.wrap("log-probs", logps)

    def either(*a: Any, **k: Any) -> Any:
        return (inside if not torch.is_grad_enabled() else logps)(*a, **k)

    trainer._get_per_token_logps_and_entropies = either
    trainer._calculate_rewards = clock.wrap("reward", trainer._calculate_rewards)
    trainer._prepare_inputs = clock.wrap("rest", trainer._prepare_inputs)
    trainer.training_step = clock.wrap("forward and backward", trainer.training_step)
    trainer.train()
    marks = np.diff(np.array(steps.marks), axis=0)[1:]  # the first step warms up
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    tokens = [
        entry.get("tokens", entry.get("completions/mean_length")) for entry in trainer.state.log_history
    ]
    split = {part: clock.seconds[part] / config.steps for part in PARTS}
    response = float(np.mean([t for t in tokens if t]))
    rollouts = config.steps * config.prompts * config.rollouts
    rows = [entry["rows/trained"] for entry in trainer.state.log_history if "rows/trained" in entry]
    return {"wall": marks[:, 0], "cpu": marks[:, 1], "split": split, "rewards": rewards,
            "tokens": response, "prompt": trainer.state.num_input_tokens_seen / rollouts - response,
            "trained": sum(rows) / rollouts, "policy": policy}  # fmt: skip


def matmul_rate(seconds: float = 0.5) -> float:
    """Floating-point operations a second of a matrix product of the policy's shape."""
    a, b = torch.randn(4096, 128), torch.randn(128, 384)
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        a @ b
        done += 1
    return done * 2 * 4096 * 128 * 384 / (time.perf_counter() - started)


def step_operations(
    policy: Policy, config: RLConfig, prompt: float, response: float, trained: float, patches: int = 32
) -> float:
    """Operations of one step that nothing saves: a prompt and its picture are read once to write the rollouts
    and once to train on them; what carries no gradient is not trained on.

    Two a weight and token in a forward pass, twice that again in a backward pass. Attention, norms and the
    optimizer are left out, and so is KL, which only measures.

    Args:
        prompt, response: mean lengths in tokens.
        trained: share of the rollouts that carry a gradient.
    """
    visual = policy.model.visual
    merger = sum(p.numel() for p in visual.merger.parameters())
    vision = sum(p.numel() for p in visual.parameters()) - merger
    text = sum(p.numel() for p in policy.model.language_model.layers.parameters())
    head = policy.lm_head.weight.numel()
    merged = patches // policy.config.vision_config.spatial_merge_size**2
    read = config.prompts * (vision * patches + merger * merged + text * prompt)
    write = config.prompts * config.rollouts * (text + head) * response
    return 2 * (read + write) * (1 + 3 * trained)


def verifier_seconds(config: RLConfig) -> float:
    """Seconds to verify the traces of one step's rollouts."""
    policy, processor = load_checkpoint(SHIPPED)
    problems = unseen_problems(-(-config.prompts // len(FAMILIES)))[: config.prompts]
    questions, images = [p.question for p in problems], [p.image for p in problems]
    texts = rollout.respond(policy, processor, questions, images, config.rollouts)
    read = [(p, parse_response(text)) for p, five in zip(problems, texts, strict=True) for text in five]
    started = time.perf_counter()
    for problem, response in read:
        verify(problem, response.think or "", response.answer)
    return time.perf_counter() - started


def main(steps: int = 8, turns: int = 2, threads: int = 1) -> None:
    """Both trainers in turns, `steps` generation batches a turn, on so many threads of torch."""
    torch.set_num_threads(threads)
    config = RLConfig(steps=steps, epochs=1)
    results: dict[str, list[dict[str, Any]]] = {"ours": [], "stock": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            for kind in results:
                results[kind].append(run(kind, config, Path(folder) / f"{kind}-{turn}"))

    size = f"{config.prompts} prompts x {config.rollouts} rollouts, {config.updates} updates"
    print(f"\n{size}, {threads} thread(s); seconds a step, the first of each turn left out\n")
    print(f"{'':24}{'ours':>10}{'stock TRL':>12}")
    medians = {}
    for what in ("wall", "cpu"):
        values = {kind: np.median(np.concatenate([r[what] for r in runs])) for kind, runs in results.items()}
        medians[what] = values
        print(f"{what + ' seconds, median':24}{values['ours']:>10.2f}{values['stock']:>12.2f}")
    for part in PARTS:
        means = [np.mean([r["split"][part] for r in runs]) for runs in results.values()]
        print(f"  {part:22}{means[0]:>10.2f}{means[1]:>12.2f}")
    for what, name in (("rewards", "reward, last two steps"), ("tokens", "tokens a response")):
        means = [np.mean([np.mean(np.atleast_1d(r[what])[-2:]) for r in runs]) for runs in results.values()]
        print(f"{name:24}{means[0]:>10.3f}{means[1]:>12.3f}")
    for what, values in medians.items():
        print(f"\nstock / ours, {what}: {values['stock'] / values['ours']:.2f}", end="")
    rate = matmul_rate()
    ours = results["ours"][0]
    operations = step_operations(ours["policy"], config, ours["prompt"], ours["tokens"], ours["trained"])
    floor = operations / rate
    print(
        f"\n\nfloor: {operations / 1e9:.0f} GFLOP a step / {rate / 1e9:.0f} GFLOP/s = {floor:.2f} s", end=""
    )
    print(f", {floor / medians['cpu']['ours']:.0%} of our CPU seconds")
    print(f"  prompts of {ours['prompt']:.0f} tokens, {ours['trained']:.0%} of the rollouts trained on")
    share = verifier_seconds(config) / medians["wall"]["ours"]
    print(f"exact verifier: {100 * share:.2f}% of a step")
