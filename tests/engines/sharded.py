"""Two steps of SFT and of DAPO on the micro policy with sharded weights, by two processes on the CPU: once of
all weights, once of adapters.

    python tests/engines/sharded.py zero3|fsdp2

It asserts that loss and gradient are finite, that SFT ends near the weights of one process, that the saved
weights load strictly and have moved, and that a run that goes on from its checkpoint ends with the weights of
one that did not stop.
"""

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file

from sailrl_lite.training.models import load_checkpoint

ROOT = Path(__file__).resolve().parent.parent.parent
ENV = os.environ | {
    "DS_ACCELERATOR": "cpu",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": str(ROOT),
}
# An update is computed in pieces, as on the rungs with GPUs.
SFT = {
    "batch": 8,
    "device_batch": 2,
    "captions": 0,
    "learning_rate": "1e-4",
    "checkpoint": "shipped",
    "save_every": 1,
}
RL = {
    "prompts": 4,
    "rollouts": 4,
    "updates": 1,
    "device_batch": 4,
    "save_every": 1,
    "families": "add,read_bar",
}


def run(kind, sharding, out, steps, settings, *more):
    start = [sys.executable]
    if sharding != "none":
        settings = settings | {"engine.processes": 2, "engine.sharding": sharding}
        file = ROOT / "sailrl_lite" / "rungs" / f"{sharding}.yaml"
        start += ["-m", "accelerate.commands.launch", "--config_file", str(file), "--num_processes", "2"]
    module = [str(ROOT / "tests/engines/fsdp2_on_cpu.py")] if sharding == "fsdp2" else ["-m", "sailrl_lite"]
    pairs = [f"--set={name}={value}" for name, value in settings.items()]
    parts = [*start, *module, kind, "--out", str(out), "--steps", str(steps), "--quiet", *pairs, *more]
    subprocess.run(parts, cwd=ROOT, env=ENV, check=True, timeout=900)
    return pd.read_csv(out / "metrics.csv")


def weights(folder):
    """What was trained: the adapters, where there are some."""
    adapters = folder / "adapter_model.safetensors"
    return load_file(adapters) if adapters.is_file() else load_checkpoint(folder)[0].state_dict()


def farthest(first, second):
    return max(float((value - second[name]).abs().max()) for name, value in first.items())


def main(sharding: str, folder: Path, what: str, settings: dict) -> None:
    """Train as the settings say; `what` names that in each line printed."""
    name = f"{sharding} {what}"
    rows = run("sft", sharding, folder / "sft", 2, SFT | settings)
    one = run("sft", "none", folder / "sft-one", 2, SFT | settings)
    loss, usual = rows["loss"].iloc[-1], one["loss"].iloc[-1]
    tuned = weights(folder / "sft" / "policy")
    apart = farthest(tuned, weights(folder / "sft-one" / "policy"))
    assert math.isfinite(loss) and abs(loss - usual) < 1e-3 * abs(usual), (loss, usual)
    assert apart < 1e-4, apart
    print(f"{name} sft: loss {loss:.6f}, of one process {usual:.6f}; weights at most {apart:.1e} apart")

    settings = RL | settings | {"checkpoint": folder / "sft" / "policy"}
    rows = run("rl", sharding, folder / "rl", 2, settings)
    assert rows["loss"].map(math.isfinite).all() and rows["grad_norm"].map(math.isfinite).all()
    assert (
        rows["kl"].iloc[0] < 1e-4 < 1e-6 + rows["kl"].iloc[1]
    )  # the copy that is sampled follows the policy
    trained = weights(folder / "rl" / "policy")
    moved = farthest(trained, tuned)
    assert moved > 1e-5
    shown = ", ".join(f"{x} {rows[x].tolist()}" for x in ("loss", "grad_norm", "kl", "groups/drawn"))
    print(f"{name} rl: {shown}; weights moved by {moved:.1e} at most, and load strictly")

    for path in (folder / "rl" / "trainer").glob("checkpoint-2"):
        path.rename(folder / "later")  # as a run killed after its first step
    run("rl", sharding, folder / "rl", 2, settings, "--resume")
    apart = farthest(weights(folder / "rl" / "policy"), trained)
    assert apart == 0 or apart < 1e-6, apart
    assert torch.isfinite(torch.cat([value.flatten() for value in trained.values()])).all()
    print(f"{name} rl, resumed after its first step: weights {apart:.1e} apart")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(sys.argv[1], Path(scratch) / "full", "all weights", {})
        adapters = {"policy.weights": "lora", "policy.lora_rank": 8}
        main(sys.argv[1], Path(scratch) / "lora", "adapters", adapters)
