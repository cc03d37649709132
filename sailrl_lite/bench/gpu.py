"""What only a GPU can tell, in under ten minutes: `python -m sailrl_lite.bench gpu [--dry-run] [--out FILE]`.

With random weights of the true shape of Qwen2.5-VL-3B (nothing is downloaded) and the values of the rung
`single-gpu`: a step of SFT, and a step of DAPO with rollouts by vLLM and by transformers. Each part runs in a
process of its own within a time limit, and what fails is a line of the table. Without a GPU, or with
--dry-run, a small shape goes through the same code on the CPU, and the table says "not measured".
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch

from sailrl_lite.bench.gpu_part import PICTURE_TOKENS, Measured, rl_config, sft_config
from sailrl_lite.config import PlanConfig
from sailrl_lite.files import write_text
from sailrl_lite.plan.hardware import GIB, Gpu, gpus
from sailrl_lite.plan.memory import memory
from sailrl_lite.plan.setup import Setup, rl_setup, sft_setup
from sailrl_lite.plan.shapes import read_shape
from sailrl_lite.plan.work import operations, seconds
from sailrl_lite.text import markdown

# Seconds that a part may take; their sum stays under ten minutes.
LIMITS = {"policy": 90, "sft": 100, "rl-vllm": 250, "rl-transformers": 140}
_PATIENCE = 5  # times as long for the dry run: the CPU may be busy, and no device waits
NOT_MEASURED = "not measured"
COLUMNS = ("part", "measure", "value", "unit", "plan")


def measure_all(dry_run: bool = False, limits: Mapping[str, int] = LIMITS) -> pd.DataFrame:
    """Carry out every part and return the table, with the columns `COLUMNS`."""
    dry_run = dry_run or not torch.cuda.is_available()
    rows: list[tuple[str, str, str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="sailrl-gpu-") as name:
        folder = Path(name)
        for part, limit in limits.items():
            if part == "rl-vllm" and find_spec("vllm") is None:
                measured, outcome = None, f"{NOT_MEASURED}: vLLM is not installed"
            else:
                measured, outcome = run_part(part, folder, dry_run, limit * (_PATIENCE if dry_run else 1))
            rows.append((part, "outcome", outcome, "", ""))
            if part == "policy":
                if measured is None:
                    break  # the others need it
                device = measured.device or "CPU, the dry run on a small shape"
                rows.append((part, "device", device, "", ""))
                rows.append((part, "parameters", f"{measured.parameters:,}", "", ""))
            else:
                rows += [(part, *row) for row in figures_of(part, folder, measured, dry_run)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def run_part(part: str, folder: Path, small: bool, limit: float) -> tuple[Measured | None, str]:
    """What a part measured, if it came to its end, and how it went in a few words."""
    one = "" if small else os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": one}
    command = [sys.executable, "-m", "sailrl_lite.bench.gpu_part", part, str(folder)]
    command.append("small" if small else "true")
    log, result, started = folder / f"{part}.log", folder / f"{part}.json", time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            return None, f"failed: not done after {limit:g} s"
        finally:
            _end(process)
    if process.returncode or not result.is_file():
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        return None, f"failed: {lines[-1][:200]}"
    return Measured(**json.loads(result.read_text())), f"passed in {time.perf_counter() - started:.0f} s"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the part with whatever it has started; vLLM starts processes of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def figures_of(
    part: str, folder: Path, measured: Measured | None, dry_run: bool
) -> list[tuple[str, str, str, str]]:
    """(measure, value, unit, what `plan` says) of a part that trains."""
    units = {"seconds a step": "s", "training speed": "tokens/s", "peak memory": "GiB", "utilisation": "%"}
    if part != "sft":
        units["rollout speed"] = "tokens/s"
    values, plan = ({}, {}) if measured is None or dry_run else compared(part, folder, measured)
    return [(name, values.get(name, NOT_MEASURED), unit, plan.get(name, "")) for name, unit in units.items()]


def compared(part: str, folder: Path, measured: Measured) -> tuple[dict[str, str], dict[str, str]]:
    """What was measured, and what `plan` says of it where it knows the GPU, each by its name.

    Utilisation is the model's operations in the updates, forward and backward, over their time and the data
    sheet's peak; what gradient checkpointing computes again does not count as work done.
    """
    training = measured.step_seconds - measured.batch_seconds
    values = {
        "seconds a step": f"{measured.step_seconds:.1f}",
        "training speed": f"{measured.train_tokens / training:.0f}",
        "peak memory": f"{measured.memory / GIB:.1f}",
    }
    if measured.rollout_seconds:
        values["rollout speed"] = f"{measured.rollout_tokens / measured.rollout_seconds:.0f}"
    gpu = gpu_named(measured.device)
    if gpu is None:
        return values, {}
    setup = setup_of(part, folder, measured)
    work, expected = operations(setup), seconds(setup, gpu)
    values["utilisation"] = f"{100 * (work.forward + work.backward) / training / gpu.flops:.1f}"
    update = expected.forward + expected.backward + expected.recompute
    plan = {
        "seconds a step": f"{expected.total:.1f}",
        "training speed": f"{measured.train_tokens / update:.0f}",
        "peak memory": f"{memory(setup, gpu).peak / GIB:.1f}",
    }
    if expected.rollout:
        plan["rollout speed"] = f"{measured.rollout_tokens / expected.rollout:.0f}"
    return values, plan


def setup_of(part: str, folder: Path, measured: Measured) -> Setup:
    """The part as `plan` sees it, at the lengths that it had."""
    plan = replace(
        PlanConfig(),
        prompt_tokens=round(measured.prompt_tokens),
        completion_tokens=round(measured.completion_tokens),
        picture_tokens=PICTURE_TOKENS,
        redrawn=0.0,
    )
    shape = read_shape(folder / "policy")
    if part == "sft":
        return sft_setup(sft_config(folder, small=False), plan, shape)
    return rl_setup(rl_config(folder, part.removeprefix("rl-"), small=False), plan, shape)


def gpu_named(device: str) -> Gpu | None:
    """The row of the plan's table of accelerators for a name as torch gives it; None where there is none.

    >>> gpu_named("NVIDIA H200").name, gpu_named("NVIDIA A100-SXM4-80GB").name, gpu_named("Voodoo 2")
    ('H200', 'A100-80GB', None)
    """
    words = device.replace("-", " ").split()
    fitting = [gpu for name, gpu in gpus().items() if set(name.split("-")) <= set(words)]
    return fitting[0] if fitting else None


def main(dry_run: bool = False, out: Path = Path("runs/gpu.csv")) -> None:
    """Measure, write `out` and the same as Markdown beside it, and print that."""
    table = measure_all(dry_run)
    write_text(out, table.to_csv(index=False))
    text = markdown(table.columns, table.astype(str).itertuples(index=False)) + "\n"
    write_text(out.with_suffix(".md"), text)
    print(text)
    print(f"table: {out}, {out.with_suffix('.md')}")
