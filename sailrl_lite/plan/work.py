"""Floating-point operations and seconds of a step of training, part by part.

A token takes 2 operations a parameter forward and 4 backward (Kaplan et al., arXiv 2001.08361, section 2.1),
and attention 4 x width x the tokens it looks back on, half of them on average, for each layer. Frozen weights
get no gradient, so LoRA saves half of the backward pass.
"""

from dataclasses import asdict, dataclass

from sailrl_lite.plan.hardware import Gpu, timing
from sailrl_lite.plan.memory import FOUR_BIT, WORKSPACE
from sailrl_lite.plan.setup import Setup
from sailrl_lite.plan.shapes import Tower

SEQUENCES = 256  # that vLLM runs at once, its usual `max_num_seqs`


@dataclass(frozen=True)
class Work:
    """Of one step, of all GPUs together: operations, or seconds."""

    rollout: float
    old_logps: float
    reference: float
    forward: float
    backward: float
    recompute: float

    @property
    def total(self) -> float:
        return sum(asdict(self).values())


def operations(setup: Setup) -> Work:
    """Floating-point operations of a step."""
    train = forward_operations(setup, setup.shared)
    rl = setup.stage == "rl"
    return Work(
        rollout=setup.draws * forward_operations(setup, shared=True) if rl else 0.0,
        old_logps=train if setup.old_pass else 0.0,
        reference=train * setup.reference_pass if rl else 0.0,
        forward=train,
        backward=train * (2 if setup.weights == "full" else 1),
        recompute=train if setup.checkpointing else 0.0,
    )


def forward_operations(setup: Setup, shared: bool) -> float:
    """Operations of one pass over a step's rows; `shared` reads a prompt once for all its rollouts."""
    shape = setup.shape
    prompts = setup.batch / setup.group if shared else float(setup.batch)
    answers, length = setup.batch * setup.completion, setup.prompt + setup.completion
    positions = prompts * setup.prompt + answers
    text = _layers(shape.text, positions, length / 2)
    head = 2.0 * answers * shape.vocabulary * shape.text.width
    if shape.vision is None:
        return text + head
    patches = setup.picture * shape.merge**2
    around = 2.0 * prompts * setup.picture * shape.around_vision
    return text + head + around + _layers(shape.vision, prompts * patches, patches)


def seconds(setup: Setup, gpu: Gpu) -> Work:
    """Seconds of a step: operations at the utilisation assumed, and a fixed time for each layer and pass.

    The fixed time is what short batches and many shards cost; it is as long for a batch of one row.
    """
    ops = operations(setup)
    utilisation, layer_seconds = timing()
    speed = setup.gpus * gpu.flops * utilisation
    towers = [t for t in (setup.shape.text, setup.shape.vision) if t]
    one_pass = layer_seconds * sum(t.layers for t in towers)
    updates, scores = setup.rows / setup.device_batch, setup.rows / setup.score_batch
    asked = setup.reference_pass * scores
    return Work(
        rollout=setup.draws * _rollout(setup, gpu) if setup.stage == "rl" else 0.0,
        old_logps=ops.old_logps / speed + (scores * one_pass if ops.old_logps else 0.0),
        reference=ops.reference / speed + (asked * one_pass if ops.reference else 0.0),
        forward=ops.forward / speed + updates * one_pass,
        backward=ops.backward / speed + updates * 2 * one_pass,
        recompute=ops.recompute / speed + (updates * one_pass if ops.recompute else 0.0),
    )


def _rollout(setup: Setup, gpu: Gpu) -> float:
    """Seconds of a draw: prompts at the speed of training, then a token of every row in flight at a time.

    A token takes the time to read weights and caches from memory. transformers runs all rows of a GPU to the
    longest, and starts its kernels one by one; vLLM runs as many as fit, and replaces those that end.
    """
    shape = setup.shape
    utilisation, layer_seconds = timing()
    compute = forward_operations(setup, shared=True) / (setup.gpus * gpu.flops * utilisation)
    read = gpu.bandwidth * utilisation
    cache = shape.cache_bytes * (setup.prompt + setup.completion / 2)
    # A four-bit weight is read, written out in two bytes, and read again.
    size = FOUR_BIT + 4 if setup.weights == "4bit" and setup.sampler == "transformers" else 2.0
    weights = size * (shape.text.parameters + shape.vocabulary * shape.text.width)
    if setup.sampler == "transformers":
        gathered = layer_seconds * shape.text.layers
        return compute + setup.longest_completion * (gathered + (weights + setup.rows * cache) / read)
    rows = setup.rows * setup.vllm_gpus
    room = (setup.vllm_share or 0.9) * gpu.memory * setup.vllm_gpus - 2.0 * shape.parameters - WORKSPACE
    longest = shape.cache_bytes * (setup.prompt + setup.completion)
    at_once = max(1.0, min(rows, SEQUENCES, room / longest))
    steps = max(rows / at_once, 1.0) * setup.completion
    return compute + steps * (weights + at_once * cache) / (read * setup.vllm_gpus)


def _layers(tower: Tower, positions: float, looked_at: float) -> float:
    products = 2.0 * sum(n * m for n, m in tower.linears)
    return positions * tower.layers * (products + 4.0 * tower.queries * looked_at)
