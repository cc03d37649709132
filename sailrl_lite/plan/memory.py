"""Memory of one GPU, part by part, in bytes; every formula with its source.

States follow the ZeRO paper (Rajbhandari et al., arXiv 1910.02054), activations Korthikanti et al. (arXiv
2205.05198), counted anew for the layers of transformers' Qwen, four-bit weights QLoRA (arXiv 2305.14314).
"""

from dataclasses import asdict, dataclass

from sailrl_lite.plan.hardware import GIB, Gpu
from sailrl_lite.plan.setup import Setup
from sailrl_lite.plan.shapes import Tower

FOUR_BIT = (4 + 0.127) / 8  # bytes of a weight in NF4 with doubly quantised constants (QLoRA, section 3)
OVERHEAD = 1.5 * GIB  # assumed: CUDA context, libraries' work space, fragments
CPU_OVERHEAD = 0.51 * GIB  # measured: the process with its libraries and the micro policy, before a step
WORKSPACE = 1.0 * GIB  # assumed: what vLLM needs beside weights and cache
_TILE = 4096 * 32768  # logits that TRL's fused head holds at once


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU.

    Attributes:
        weights, gradients, optimizer: of what is trained, and the frozen weights beside LoRA.
        reference: the frozen copy that the KL divergence is measured from.
        activations: held for the backward pass of the largest update.
        logits: of the same.
        gathered: weights of other shards that are held for a moment in an update.
        generation: cache of keys and values, and the whole of a sharded policy, while transformers samples.
        vllm: the share of a colocated vLLM.
        vllm_needs: what that share must at least hold: weights, one row's cache, work space.
        overhead: of the framework.
        sleeps: vLLM gives its share back during an update.
    """

    weights: float
    gradients: float
    optimizer: float
    reference: float
    activations: float
    logits: float
    gathered: float
    generation: float
    vllm: float
    vllm_needs: float
    overhead: float
    sleeps: bool

    @property
    def held(self) -> float:
        """At all times."""
        return self.weights + self.optimizer + self.reference + self.overhead

    @property
    def update(self) -> float:
        """At the height of an update."""
        awake = 0.0 if self.sleeps else self.vllm
        return self.held + self.gradients + self.activations + self.logits + self.gathered + awake

    @property
    def rollout(self) -> float:
        """While responses are sampled; an update's gradients are gone by then."""
        return self.held + self.generation + self.vllm

    @property
    def peak(self) -> float:
        return max(self.update, self.rollout)

    def parts(self) -> dict[str, float]:
        """Name to bytes of what a table shows."""
        return {name: value for name, value in asdict(self).items() if name not in ("vllm_needs", "sleeps")}


def memory(setup: Setup, gpu: Gpu) -> Memory:
    """The memory that a GPU needs in a run."""
    shards = setup.gpus if setup.sharding != "none" else 1
    weights, gradients, optimizer = states(setup)
    on_cpu = not gpu.memory
    return Memory(
        weights=weights / shards,
        gradients=gradients / shards,
        optimizer=optimizer / shards,
        reference=setup.shape.parameters * _bytes(setup) / shards if setup.reference else 0.0,
        activations=activations(setup, 4 if on_cpu else 2),
        logits=logits(setup),
        gathered=_gathered(setup) if shards > 1 else 0.0,
        generation=_generation(setup, shards) if setup.stage == "rl" else 0.0,
        vllm=setup.vllm_share * gpu.memory,
        vllm_needs=_vllm_needs(setup) if setup.vllm_share else 0.0,
        overhead=CPU_OVERHEAD if on_cpu else OVERHEAD,
        sleeps=setup.sleep,
    )


def states(setup: Setup) -> tuple[float, float, float]:
    """Bytes of weights, gradients and AdamW's moments of the whole model, before sharding.

    Sharded in mixed precision: 2 + 2 + 12 bytes a parameter, the 12 being a copy, and two moments, in four
    bytes each (ZeRO, section 3.1); FSDP2 keeps 4 + 4 + 8, the same sum. Not sharded: all four numbers in the
    type that the weights are held in. Adapters are always held in four bytes (peft).
    """
    shape, trained = setup.shape, setup.trained
    if setup.weights == "full":
        if setup.sharding == "zero3" and not setup.pure:
            return 2.0 * trained, 2.0 * trained, 12.0 * trained
        size = 4 if setup.sharding == "fsdp2" and not setup.pure else _bytes(setup)
        return float(size * trained), float(size * trained), float(2 * size * trained)
    frozen = shape.parameters * float(_bytes(setup))
    if (
        setup.weights == "4bit"
    ):  # the text layers' maps; pictures, embeddings, head and norms stay as they are
        packed = shape.text.layers * sum(n * m for n, m in shape.text.linears)
        frozen = packed * FOUR_BIT + (shape.parameters - packed) * float(_bytes(setup))
    return frozen + 4.0 * trained, 4.0 * trained, 8.0 * trained


def activations(setup: Setup, size: int = 2) -> float:
    """Bytes held for the backward pass of the largest device batch.

    With gradient checkpointing only each layer's input is held, and one layer in full while it is computed
    again (Korthikanti et al., section 5).

    Args:
        size: bytes of a number in the format of the computation.
    """
    shape, rows = setup.shape, setup.device_batch
    tokens = setup.longest_prompt + setup.longest_completion
    prompts = max(1, -(-rows // setup.group)) if setup.shared else rows
    positions = prompts * setup.longest_prompt + rows * setup.longest_completion
    picture = setup.longest_picture * shape.merge**2  # patches
    inputs = held = largest = 0.0
    for tower, places, length in (
        (shape.text, positions, tokens),
        (shape.vision, prompts * picture, picture),
    ):
        if tower is None:
            continue
        layer = places * layer_activations(tower, size)
        if setup.attention == "eager":  # the softmax in four bytes, and its copy (their 5 a s / h term)
            layer += places * length * tower.heads * (4 + size)
        inputs += tower.layers * places * tower.width * size
        largest = max(largest, layer)
        if tower is shape.text or setup.weights == "full":  # a frozen picture tower holds nothing
            held += tower.layers * layer
    return inputs + largest if setup.checkpointing else held


def layer_activations(tower: Tower, size: int) -> float:
    """Bytes that one layer holds of one position for its backward pass, without attention's scores.

    Korthikanti et al. count 34 bytes a number of the width for a layer with dropout and GELU (equation 1). A
    Qwen layer as transformers writes it: two norms, each of which holds its input and its result, and a copy
    in four bytes where the format is shorter; queries and keys before and after their rotation, values, the
    result of attention; of the feed-forward part the maps in, the gate's activation, and the product.
    """
    norms = 2 * (2 * size + (4 if size < 4 else 0)) * tower.width
    attention = size * (3 * tower.queries + 3 * tower.keys)
    forward = size * (4 if tower.gated else 2) * tower.inner
    return float(norms + attention + forward)


def logits(setup: Setup) -> float:
    """Bytes of logits in an update.

    TRL's fused head holds one tile at a time, and the head's gradient in four bytes where it is trained.
    Without it: logits and a gradient, in two bytes each, of the prompt too (EasyR1, verl).
    """
    if setup.fused:
        positions = setup.device_batch * setup.longest_completion
        tile = min(positions * setup.shape.vocabulary, _TILE) * 2
        head = 4 * setup.shape.vocabulary * setup.shape.text.width if setup.weights == "full" else 0
        return float(tile + head)
    positions = setup.device_batch * (setup.longest_prompt + setup.longest_completion)
    return 2.0 * positions * setup.shape.vocabulary * 2


def _bytes(setup: Setup) -> int:
    return 4 if setup.dtype == "float32" else 2


def _gathered(setup: Setup) -> float:
    """Two layers at a time, the next being fetched, and the embeddings, in two bytes."""
    shape = setup.shape
    return 2.0 * (2 * shape.text.layer_parameters + shape.vocabulary * shape.text.width)


def _generation(setup: Setup, shards: int) -> float:
    if setup.sampler == "vllm":
        return 0.0
    whole = 2.0 * setup.shape.parameters if shards > 1 else 0.0
    size = 2 if setup.dtype == "float32" and setup.shape.parameters < 10**8 else 1  # a CPU's cache: 4 bytes
    prompts = setup.rows // setup.group if setup.shared else setup.rows
    places = prompts * setup.longest_prompt + setup.rows * setup.longest_completion
    return whole + size * setup.shape.cache_bytes * places


def _vllm_needs(setup: Setup) -> float:
    row = setup.shape.cache_bytes * (setup.longest_prompt + setup.longest_completion)
    return (2.0 * setup.shape.parameters + row) / setup.vllm_gpus + WORKSPACE
