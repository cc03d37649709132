"""Run folders: one run each, known by its configuration, resumed from its last whole checkpoint."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.judges.specs import essence
from sailrl_lite.settings import Settings
from sailrl_lite.training.models import bare, read_policy
from sailrl_lite.training.policies import restore_adapters
from sailrl_lite.training.processes import first_does

# `claim_folder` has compared all settings by then, and how many rows a device takes may differ.
logging.getLogger("transformers.trainer_utils").addFilter(
    lambda record: "do not match the ones in the `trainer_state.json`" not in record.getMessage()
)
_LAST_FILE = "trainer_state.json"  # the trainer writes it after weights, optimizer and random state


class Interrupted(SailRLError):
    """The run stopped early, with a checkpoint from which it can go on."""

    def __init__(self, done: int, steps: int, why: str, out: Path) -> None:
        super().__init__(f"stopped after step {done} of {steps} ({why}); go on with --resume --out {out}")


def claim_folder(config: Settings, out: Path, resume: bool) -> None:
    """Make `out` the folder of this run, with its configuration in config.json; the first process does.

    Raises:
        SailRLError: `out` holds a run and `resume` is off, or holds none, or another one, and it is on; or
            its checkpoints are of weights that were sharded in another way.
    """
    first_does(lambda: _claim(config, out, resume))


def _claim(config: Settings, out: Path, resume: bool) -> None:
    text, file = config.to_json(), out / "config.json"
    if not resume:
        if file.exists():
            raise SailRLError(f"{out} already holds a run; go on with --resume, or give another --out")
        write_text(file, text)
    elif not file.is_file():
        raise SailRLError(f"there is no run in {out} to resume; start it without --resume")
    elif file.read_bytes() != text.encode():
        there = type(config).from_json(file.read_text(encoding="utf-8", errors="replace"))
        old = _fixed(there)
        differ = [
            f"{name} {old[name]} there, {new} here"
            for name, new in _fixed(config).items()
            if new != old[name]
        ]
        if differ:
            what = ", ".join(differ)
            raise SailRLError(
                f"the run in {out} has other settings ({what}); give the same, or another --out"
            )
        _check_sharding(there.flat(), config.flat(), out)
        write_text(file, text)


def _check_sharding(there: Mapping[str, Any], here: Mapping[str, Any], out: Path) -> None:
    """A checkpoint of sharded weights holds a part for each process; any other goes on with any number."""
    names = ["engine.sharding"]
    if here.get("engine.sharding", "none") != "none":
        names.append("engine.processes")
    for name in names:
        if there.get(name) != here.get(name):
            raise SailRLError(
                f"the checkpoints in {out} are of {name}={there[name]}; go on with the same, not {here[name]}"
            )


def _fixed(config: Settings) -> dict[str, Any]:
    """What a resumed run must share with what it goes on with: all but its engine and a judge's limits."""
    values = {name: value for name, value in config.flat().items() if not name.startswith("engine.")}
    return values | ({"judge": essence(values["judge"])} if "judge" in values else {})


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end, or None: a kill may have cut the last one short."""
    numbered = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdecimal()]
    paths = sorted(numbered, key=lambda path: int(path.name.split("-")[1]), reverse=True)
    return next((path for path in paths if _is_whole(path)), None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _LAST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return all(file.stat().st_size for file in checkpoint.iterdir())


def check_finite(policy: torch.nn.Module, weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """Raise SailRLError if training has left a weight that is no number; `weights` are those of a policy
    whose own are sharded."""
    left = policy.parameters() if weights is None else weights.values()
    if not all(bool(weight.isfinite().all()) for weight in left):
        raise SailRLError("the policy diverged: a weight is no longer finite; lower learning_rate")


def restore_strictly(policy: Any, checkpoint: str) -> None:
    """Load every weight that a trainer's checkpoint holds, all or those of adapters, or raise SailRLError.

    The trainer's own way restores none of a full Qwen2.5-VL: the saved names are not the module's, and it
    only warns.
    """
    if bare(policy) is policy:
        policy.load_state_dict(read_policy(Path(checkpoint), dtype=policy.dtype).state_dict())
    else:
        restore_adapters(policy, Path(checkpoint))
