"""What `hardware.toml` knows of accelerators and of the prices of judges."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml

GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """An accelerator.

    Attributes:
        memory: bytes that a program can have; 0 is not known, so nothing is refused.
        flops: operations a second, dense, in the format that is trained in.
        bandwidth: bytes a second of its memory.
    """

    name: str
    memory: float
    flops: float
    bandwidth: float


def get_gpu(name: str) -> Gpu:
    """The accelerator of this name; "" is one core of a CPU.

    Raises:
        SailRLError: there is none; the message suggests the nearest name.
    """
    known = gpus()
    if (name or "cpu") not in known:
        word = name.lower()  # "A100" is two; "h100-80gb" is one more than its name
        near = [repr(gpu) for gpu in known if word in gpu.lower() or gpu.lower() in word]
        hint = f"did you mean {' or '.join(near)}?" if near else suggest(name, known)
        raise SailRLError(f"unknown gpu {name!r}; {hint}")
    return known[name or "cpu"]


def gpus() -> dict[str, Gpu]:
    """All that are known, in the order of the file."""
    return {
        name: Gpu(name, row["memory"] * GIB, row["tflops"] * 1e12, row["bandwidth"] * 1e9)
        for name, row in _table()["gpu"].items()
    }


def price_of(model: str) -> tuple[float, float] | None:
    """Dollars for a million tokens in and out of a judge; None where the price is not known."""
    row = _table()["price"].get(model)
    return (row["tokens_in"], row["tokens_out"]) if row else None


def timing() -> tuple[float, float]:
    """The utilisation that is assumed, and the seconds of a layer and pass that were fitted."""
    row = _table()["time"]
    return row["utilisation"], row["layer_seconds"]


def _table() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("hardware.toml"), "the hardware")
