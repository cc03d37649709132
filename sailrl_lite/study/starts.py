"""The policies that RL starts from, each made once by SFT, in NAME/policy of one folder."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from sailrl_lite.config import SHIPPED, SFTConfig
from sailrl_lite.files import write_text
from sailrl_lite.study.arms import Arm
from sailrl_lite.study.begun import alone_in, begin, holds


def do_start(name: str, config: SFTConfig, starts: Path) -> Path:
    """Make the policy of a start in `starts`/NAME, unless it is there, and return its folder.

    It is that of `sailrl-lite sft`, which may have begun or made it. Another configuration's is removed.
    """
    from sailrl_lite.training.sft import train_sft

    folder = starts / name
    with alone_in(folder):
        if not start_is_made(name, config, starts):
            meter = begin(folder, config)
            train_sft(config, folder, (folder / "config.json").is_file(), bar=False)
            write_text(folder / "cost.json", json.dumps(meter.save(), indent=1) + "\n")
            shutil.rmtree(folder / "trainer", ignore_errors=True)
    return folder / "policy"


def start_is_made(name: str, config: SFTConfig, starts: Path) -> bool:
    """Whether the policy of a start is there, trained with this configuration."""
    return holds(starts / name, config) and (starts / name / "policy").is_dir()


def start_of(arm: Arm, starts: Path) -> Path:
    """The folder of the policy that an arm starts from."""
    return (starts / arm.start / "policy").resolve() if arm.start else SHIPPED


def start_told(arm: Arm, starts: Path) -> dict[str, Any] | None:
    """What a log says of the start: name, weights (the beginning of their SHA-256) and the cpu_seconds that
    it has cost, null where that is not known here; None for the shipped policy."""
    if not arm.start:
        return None
    weights = (start_of(arm, starts) / "model.safetensors").read_bytes()
    try:
        cost = json.loads((starts / arm.start / "cost.json").read_text(encoding="utf-8"))["cpu_seconds"]
    except (OSError, ValueError, KeyError):
        cost = None
    return {"name": arm.start, "weights": hashlib.sha256(weights).hexdigest()[:16], "cpu_seconds": cost}
