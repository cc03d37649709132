"""One part of `python -m sailrl_lite.bench gpu`, run in a process of its own by `gpu.run_part`.

The part goes through the project's own `train_sft` or `train_rl` with the values of the rung `single-gpu`; a
meter, which the trainer library calls as it calls any callback, takes times and counts tokens. What was
measured goes to a JSON file in the folder.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer, TrainerCallback

from sailrl_lite.bench.gpu_policy import write_lessons, write_policy
from sailrl_lite.config import RLConfig, SFTConfig
from sailrl_lite.curation.schema import read_rows
from sailrl_lite.files import write_text
from sailrl_lite.rungs import config_of

PARTS = ("policy", "sft", "rl-vllm", "rl-transformers")
STEPS = 2  # the first one warms up, the second one counts
_PICTURE, _SMALL_PICTURE = (784, 756), (112, 56)  # pixels
PICTURE_TOKENS = 784 * 756 // 28**2  # nearly the most that the rung allows


@dataclass
class Measured:
    """What a part says of the step that counts.

    Attributes:
        device: the name of the GPU; "" is the CPU.
        parameters: of the policy; only the part "policy" sets it.
        step_seconds: wall seconds of the step; of RL, all of its updates.
        rollout_seconds, rollout_tokens: spent on rollouts, and the tokens written.
        batch_seconds: rollouts, rewards and whatever else comes before the updates.
        train_tokens: tokens of all rows that went through the updates, pictures and prompts among them.
        prompt_tokens, completion_tokens: means of a row.
        memory: the most bytes of the device in use, over what was in use before.
    """

    device: str = ""
    parameters: int = 0
    step_seconds: float = 0.0
    rollout_seconds: float = 0.0
    rollout_tokens: int = 0
    batch_seconds: float = 0.0
    train_tokens: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    memory: int = 0


def sft_config(folder: Path, small: bool) -> SFTConfig:
    """The rung's SFT on the random policy: `STEPS` updates, and small ones in the dry run."""
    values = {"checkpoint": str(folder / "policy"), "data": str(folder / "rows.parquet"), "steps": str(STEPS)}
    less = {"batch": "2", "device_batch": "1", "save_every": "1000"} if small else {"save_every": "1000"}
    return config_of("single-gpu", SFTConfig).with_values(values | less)


def rl_config(folder: Path, sampler: str, small: bool) -> RLConfig:
    """The rung's DAPO on the random policy: `STEPS` generation batches.

    Random weights earn no reward, and DAPO trains on no group without spread. A small KL weight and no
    overlong mask make it train on every row, as a real run at its largest does.
    """
    values = {
        "checkpoint": str(folder / "policy"), "data": str(folder / "rows.parquet"), "steps": str(STEPS),
        "epochs": str(STEPS), "engine.sampler": sampler, "judge": "exact", "kl": "0.001", "overlong": "keep",
        "refills": "0", "max_new_tokens": "300", "save_every": "1000",
    }  # fmt: skip
    less = {"prompts": "2", "rollouts": "2", "updates": "2", "max_new_tokens": "8"} if small else {}
    return config_of("single-gpu", RLConfig).with_values(values | less)


class Meter(TrainerCallback):
    """Times every update, and the parts of a trainer that `watch` wraps; a GPU is waited for at each mark."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.spent: dict[str, list[float]] = {"rollouts": [], "batch": []}
        self.prompts: list[int] = []
        self.completions: list[int] = []
        self.history: list[dict[str, Any]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.started = now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps.append(now() - self.started)
        self.history = state.log_history

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.history = state.log_history

    def watch(self, trainer: type) -> None:
        """Time the rollouts and the whole batch of a DAPO trainer, and count the tokens of every row."""
        rollouts, batch = trainer._rollouts, trainer._generate_and_score_completions  # type: ignore[attr-defined]

        def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                started = now()
                result = function(*args, **kwargs)
                self.spent[name].append(now() - started)
                return result

            return call

        inner = timed("rollouts", rollouts)

        def counted(own: Any, prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> Any:
            rolled = inner(own, prompt_ids, *args, **kwargs)
            ids = rolled[0]
            self.prompts.append(sum(map(len, prompt_ids)) * (len(ids) // len(prompt_ids)))
            self.completions.append(sum(map(len, ids)))
            return rolled

        trainer._rollouts = counted  # type: ignore[attr-defined]
        trainer._generate_and_score_completions = timed("batch", batch)  # type: ignore[attr-defined]


def now() -> float:
    """Seconds of a clock, once the GPU has done what it was told."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Memory:
    """The most memory of the device in use, looked at every 20 ms: whoever took it, torch or vLLM."""

    def __init__(self) -> None:
        self.most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Memory":
        if torch.cuda.is_available():
            self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._done.set()

    def _look(self) -> None:
        while not self._done.wait(0.02):
            free, total = torch.cuda.mem_get_info()
            self.most = max(self.most, total - free)


def measure(part: str, folder: Path, small: bool) -> Measured:
    """Carry out one of `PARTS` in a folder where "policy" was the first."""
    measured = Measured(device=torch.cuda.get_device_name() if torch.cuda.is_available() else "")
    if part == "policy":
        picture = _SMALL_PICTURE if small else _PICTURE
        write_lessons(folder / "rows.parquet", 64, picture, 1 if small else 300)
        measured.parameters = write_policy(folder / "policy", small, picture[0] * picture[1])
        return measured
    meter = Meter()
    transformers.trainer.DEFAULT_CALLBACKS.append(meter)
    with Memory() as memory:
        if part == "sft":
            _sft(sft_config(folder, small), folder / part, meter, measured)
        else:
            _rl(rl_config(folder, part.removeprefix("rl-"), small), folder / part, meter, measured)
    measured.memory = memory.most
    return measured


def _sft(config: SFTConfig, out: Path, meter: Meter, measured: Measured) -> None:
    from sailrl_lite.training.sft import train_sft

    train_sft(config, out, bar=False)
    tokens = next(entry["num_tokens"] for entry in reversed(meter.history) if "num_tokens" in entry)
    measured.step_seconds = meter.steps[-1]
    measured.train_tokens = tokens / config.steps
    tokenizer = AutoTokenizer.from_pretrained(config.checkpoint)
    written = [len(tokenizer(row.response or "")["input_ids"]) for row in read_rows(config.data)]
    measured.completion_tokens = sum(written) / len(written)
    measured.prompt_tokens = tokens / (config.steps * config.batch) - measured.completion_tokens


def _rl(config: RLConfig, out: Path, meter: Meter, measured: Measured) -> None:
    from sailrl_lite.training.dapo import DapoTrainer
    from sailrl_lite.training.rl import train_rl

    meter.watch(DapoTrainer)
    train_rl(config, out, bar=False)
    rows = config.prompts * config.rollouts
    trained = next(entry["rows/trained"] for entry in reversed(meter.history) if "rows/trained" in entry)
    measured.step_seconds = sum(meter.steps[-config.updates :])
    measured.rollout_seconds, measured.batch_seconds = meter.spent["rollouts"][-1], meter.spent["batch"][-1]
    measured.rollout_tokens = meter.completions[-1]
    measured.prompt_tokens, measured.completion_tokens = (
        meter.prompts[-1] / rows,
        meter.completions[-1] / rows,
    )
    measured.train_tokens = (measured.prompt_tokens + measured.completion_tokens) * trained


if __name__ == "__main__":
    name, where, size = sys.argv[1:]
    write_text(Path(where) / f"{name}.json", json.dumps(asdict(measure(name, Path(where), size == "small"))))
