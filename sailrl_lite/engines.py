"""How the weights of a policy are held and trained, on what engine, and what of it does not go together."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from sailrl_lite.errors import SailRLError
from sailrl_lite.settings import Settings

Weights = Literal["full", "lora", "4bit"]
Dtype = Literal["float32", "bfloat16"]
Attention = Literal["sdpa", "flash_attention_2", "eager"]
Engine = Literal["trl", "verl"]
Sharding = Literal["none", "zero3", "fsdp2"]
Sampler = Literal["transformers", "vllm"]
VllmMode = Literal["colocate", "server"]


@dataclass(frozen=True)
class PolicyConfig(Settings):
    """How the weights of a checkpoint are loaded, and which of them are trained.

    Attributes:
        weights: "full" trains all, "lora" adapters beside the frozen ones, "4bit" the same with the frozen
            ones in four bits (bitsandbytes).
        lora_rank, lora_alpha: of the adapters. Their dropout is always 0: rollouts and training must be of
            one policy.
        dtype: in which the weights are held.
        attention: the implementation that transformers uses.
        max_pixels: larger pictures are made smaller; 0 is no limit beside the processor's own.
        remote_code: allow Python code that comes with the checkpoint to be run, as SAIL-VL2 needs it.
        revision: of a checkpoint of the hub; "" is its newest.
    """

    weights: Weights = "full"
    lora_rank: int = 64
    lora_alpha: int = 128
    dtype: Dtype = "float32"
    attention: Attention = "sdpa"
    max_pixels: int = 0
    remote_code: bool = False
    revision: str = ""

    ranges: ClassVar = {"lora_rank": (1, 1024), "lora_alpha": (1, 4096), "max_pixels": (0, 10**8)}
    choices: ClassVar = {
        "weights": get_args(Weights),
        "dtype": get_args(Dtype),
        "attention": get_args(Attention),
    }


@dataclass(frozen=True)
class EngineConfig(Settings):
    """On what a run is carried out. None of it changes what is learned, so a run may go on with another.

    Attributes:
        trainer: "trl", or "verl", for which `sailrl-lite export verl` writes the files.
        processes: how many train together, one on each GPU; more than one are started by `accelerate launch`.
        sharding: of weights, gradients and optimizer over the processes: "zero3" (DeepSpeed) or "fsdp2".
        gradient_checkpointing: compute activations again in the backward pass rather than hold them.
        sampler: of the rollouts: "transformers", in the training process, or "vllm".
        vllm: "colocate" on the training GPUs, or "server", at `vllm_server`, on GPUs of its own.
        vllm_server: the address of `trl vllm-serve`.
        vllm_memory: share of a GPU's memory that a colocated vLLM takes.
        vllm_gpus: GPUs that one copy of the policy is split over in a colocated vLLM (tensor parallel).
    """

    trainer: Engine = "trl"
    processes: int = 1
    sharding: Sharding = "none"
    gradient_checkpointing: bool = False
    sampler: Sampler = "transformers"
    vllm: VllmMode = "colocate"
    vllm_server: str = "http://localhost:8000"
    vllm_memory: float = 0.3
    vllm_gpus: int = 1

    ranges: ClassVar = {"processes": (1, 10**5), "vllm_memory": (0.01, 0.99), "vllm_gpus": (1, 64)}
    choices: ClassVar = {
        "trainer": get_args(Engine),
        "sharding": get_args(Sharding),
        "sampler": get_args(Sampler),
        "vllm": get_args(VllmMode),
    }


def device_rows(what: str, rows: int, processes: int, device_batch: int) -> int:
    """How many of the `rows` of an update go through a device at once.

    Raises:
        SailRLError: they cannot be shared evenly.
    """
    each, rest = divmod(rows, processes)
    if rest:
        raise SailRLError(f"{what} must be a multiple of engine.processes, not {rows} of {processes}")
    if device_batch and each % device_batch:
        raise SailRLError(
            f"device_batch must divide the {each} rows of an update on a device, not be {device_batch}"
        )
    return device_batch or each


def check_four_bits(policy: PolicyConfig, engine: EngineConfig) -> None:
    """Raise SailRLError where weights in four bits are to be sharded."""
    if policy.weights == "4bit" and engine.sharding != "none":
        raise SailRLError(
            f"weights in four bits cannot be sharded by {engine.sharding}; "
            "set engine.sharding=none, or policy.weights=lora"
        )


def check_rounding(policy: PolicyConfig, engine: EngineConfig) -> None:
    """Raise SailRLError where updates would be lost by rounding."""
    if policy.weights == "full" and policy.dtype == "bfloat16" and engine.sharding == "none":
        raise SailRLError(
            "updates of all weights are lost by rounding in bfloat16 (a sharded engine keeps them exact); "
            "set policy.dtype=float32, or policy.weights=lora"
        )


def check_sampler(policy: PolicyConfig, engine: EngineConfig) -> None:
    """Raise SailRLError where vLLM is to sample what it cannot."""
    if engine.sampler != "vllm":
        return
    if policy.weights == "4bit":
        raise SailRLError(
            "weights in four bits cannot be pushed to vLLM; "
            "set engine.sampler=transformers or policy.weights=lora"
        )
    if engine.vllm == "server" and engine.vllm_gpus > 1:
        raise SailRLError(
            "engine.vllm_gpus is of a colocated vLLM; start a server with `--tensor-parallel-size` instead"
        )
    if engine.vllm == "colocate" and engine.processes % engine.vllm_gpus:
        raise SailRLError(
            f"engine.vllm_gpus must divide engine.processes, not be {engine.vllm_gpus} of "
            f"{engine.processes}: a colocated vLLM is split over GPUs that train"
        )
