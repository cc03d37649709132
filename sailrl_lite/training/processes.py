"""Several processes that train one policy: who they are, what they agree on, and how all of them end.

`accelerate launch` starts them, one on each GPU, or some on a CPU. All train, each on its part of a batch;
the first alone writes files, and goes on when the training is done.
"""

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from accelerate import PartialState
from torch import distributed

from sailrl_lite import files
from sailrl_lite.config import RLConfig, SFTConfig
from sailrl_lite.engines import EngineConfig
from sailrl_lite.errors import SailRLError

_RUNGS = Path(__file__).resolve().parent.parent / "rungs"  # where the configurations of accelerate are
PATIENCE = timedelta(minutes=30)  # for which a process waits for another: a judge may take its time
_GRACE = 10  # seconds that a process has to say why it failed, before the others end
Config = TypeVar("Config", SFTConfig, RLConfig)
Rest = ParamSpec("Rest")
T = TypeVar("T")
# Of torch, for a setting that accelerate passes on.
warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)


def index() -> int:
    """Which process this is, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def count() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def in_all_processes(
    train: Callable[Concatenate[Config, Path, Rest], T],
) -> Callable[Concatenate[Config, Path, Rest], T]:
    """Make a function that trains by a configuration one that all processes call at once.

    When it is done only the first process returns from it; the others end with status 0. An error in one ends
    all, and only that process raises it, so that it is told once; the others end with status 2.

    Raises:
        SailRLError: there are other processes than `engine.processes` and `engine.sharding` say, or they
            have different settings.
    """

    @functools.wraps(train)
    def run(config: Config, out: Path, *args: Rest.args, **kwargs: Rest.kwargs) -> T:
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started == 1:
            check_launch(config.engine, 1)
            return train(config, out, *args, **kwargs)
        gpu = torch.cuda.is_available()
        if not gpu:  # accelerate would name it cpu:0, for which torch cannot load an optimizer
            os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
        cpu_alone = not gpu and config.engine.sharding == "none"
        PartialState(cpu=cpu_alone, backend=None if gpu else "gloo", timeout=PATIENCE)
        try:
            check_launch(config.engine, started)
            _check_same({"out": str(out)} | config.flat())
            result = train(config, out, *args, **kwargs)
            distributed.barrier()
        except BaseException as error:
            # A SystemExit is of `first_does`, whose first process tells the error. After one process has
            # failed, what others raise comes of it: a process that they wait for is gone.
            follows = isinstance(error, SystemExit)
            if follows or distributed.distributed_c10d._get_default_store().add("sailrl_lite/failed", 1) > 1:
                time.sleep(_GRACE)  # the launcher kills all when one ends: the one that tells must end first
                raise SystemExit(2) from error
            if isinstance(error, distributed.DistError) or "closed by peer" in str(error):
                raise SailRLError(
                    "another process of the launch has ended without a word (killed, or out of memory?); "
                    "go on with --resume"
                ) from error
            raise
        first = index() == 0
        distributed.destroy_process_group()
        if not first:
            raise SystemExit(0)
        for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):  # from here on it is alone
            os.environ.pop(name, None)
        return result

    return run


def check_launch(engine: EngineConfig, started: int) -> None:
    """Raise SailRLError unless `started` processes, sharded as they are, are those of the configuration."""
    on = {name for name in ("DEEPSPEED", "FSDP") if os.environ.get(f"ACCELERATE_USE_{name}") == "true"}
    sharding = "zero3" if "DEEPSPEED" in on else "fsdp2" if "FSDP" in on else "none"
    if (started, sharding) == (engine.processes, engine.sharding):
        return
    how = "--multi_gpu"
    if engine.sharding != "none":
        how = f"--config_file {os.path.relpath(_RUNGS / f'{engine.sharding}.yaml')}"
    launch = f"`accelerate launch {how} --num_processes {engine.processes} -m sailrl_lite ...`"
    if engine.processes == 1 and engine.sharding == "none":
        launch = "`sailrl-lite ...`"
    raise SailRLError(
        f"engine.processes={engine.processes} and engine.sharding={engine.sharding}, but the launch is of "
        f"processes={started} and sharding={sharding}; start it with {launch}, or go with "
        f"the launch by --set engine.processes={started} --set engine.sharding={sharding}"
    )


def _check_same(settings: dict[str, Any]) -> None:
    """Raise SailRLError unless all processes have the same settings."""
    told: list[Any] = [None] * count()
    distributed.all_gather_object(told, settings)
    for process, theirs in enumerate(told):
        differ = [f"{n} {told[0][n]} and {theirs[n]}" for n in theirs if theirs[n] != told[0][n]]
        if differ:
            raise SailRLError(
                f"processes 0 and {process} have different settings ({', '.join(differ)}); "
                "start all with the same"
            )


def device_settings(engine: EngineConfig) -> dict[str, Any]:
    """The part of the trainer's arguments that says where it runs, and how processes share gradients."""
    gpu = torch.cuda.is_available()
    return {
        "use_cpu": not gpu and engine.sharding == "none",  # told of a CPU, accelerate would shard nothing
        "ddp_backend": "gloo" if count() > 1 and not gpu else None,
        "ddp_timeout": int(PATIENCE.total_seconds()),
        "ddp_find_unused_parameters": False,  # every row has a picture, so every weight has its gradient
        "ddp_broadcast_buffers": False,  # they are constants
    }


def first_does(work: Callable[[], T]) -> T:
    """The result of `work`, which the first process does for all; its error ends all."""
    if count() == 1:
        return work()
    told: list[Any] = [True, None]  # whether it failed, and the result
    try:
        if index() == 0:
            told = [False, work()]
    finally:
        distributed.broadcast_object_list(told)
    if told[0]:
        raise SystemExit(2)  # the first process says why
    result: T = told[1]
    return result


def agreed(text: str) -> str:
    """The same text in all processes: that of the first one whose own is not empty."""
    if count() == 1:
        return text
    texts: list[Any] = [None] * count()
    distributed.all_gather_object(texts, text)
    return next((said for said in texts if said), "")


@contextmanager
def working_in(out: Path) -> Iterator[None]:
    """As `files.working_in`; the first process has the folder for all."""
    with ExitStack() as stack:
        first_does(lambda: stack.enter_context(files.working_in(out)))
        yield
