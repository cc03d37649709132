"""What to change where a plan does not fit: settings that were tried and do fit, the gentlest first."""

from dataclasses import replace

from sailrl_lite.config import PlanConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.plan.estimate import Config, Plan, make_plan
from sailrl_lite.plan.hardware import gpus

MOST = 4  # remedies that are named


def remedies(plan: Plan, config: Config, assumed: PlanConfig) -> list[str]:
    """Options of the command line, each of which makes the plan fit; at most `MOST`.

    Single changes are tried first, from those that change nothing that is learned to other hardware. Where
    none will do they are added up until they do.
    """
    found: list[str] = []
    given: dict[str, str] = {}
    for change in _changes(config):
        if _fits(config, change, assumed, plan):
            found.append(_text(change))
        given |= change
        if not found and len(given) > len(change) and _fits(config, given, assumed, plan):
            found.append(_text(given))
    processes = config.engine.processes
    for more in (2, 4, 8):
        change = {"engine.processes": str(processes * more)}
        if config.engine.sharding == "none":
            change["engine.sharding"] = "zero3"
        if _fits(config, change, assumed, plan):
            found.append(f"--gpus {processes * more} {_text(change, {'engine.processes'})}".strip())
            break
    larger = sorted((g for g in gpus().values() if g.memory > plan.gpu.memory), key=lambda g: g.memory)
    for gpu in larger:
        if not make_plan(config, replace(assumed, gpu=gpu.name), plan.setup.shape).problem:
            found.append(f"--gpu {gpu.name}")
            break
    return found[:MOST]


def _changes(config: Config) -> list[dict[str, str]]:
    """Single changes, the gentlest first; none that is already made."""
    flat = config.flat()
    changes: list[dict[str, str]] = []
    if flat["device_batch"] != 1:
        changes.append({"device_batch": "1"})
    if not flat["engine.gradient_checkpointing"]:
        changes.append({"engine.gradient_checkpointing": "true"})
    if flat["policy.attention"] == "eager":
        changes.append({"policy.attention": "sdpa"})
    if flat["engine.sampler"] == "vllm" and flat["engine.vllm"] == "colocate":
        shares = [share for share in (0.2, 0.3, 0.4, 0.5, 0.6) if share != flat["engine.vllm_memory"]]
        changes += [{"engine.vllm_memory": f"{share}"} for share in shares]
    if flat["policy.dtype"] == "float32":
        changes.append({"policy.dtype": "bfloat16"})
    if flat["engine.processes"] > 1 and flat["engine.sharding"] == "none":
        changes.append({"engine.sharding": "zero3"})
    if flat["policy.weights"] == "full":
        changes.append({"policy.weights": "lora"})
    if flat["policy.weights"] != "4bit":
        change = {"policy.weights": "4bit"}
        if flat["engine.sampler"] == "vllm":
            change["engine.sampler"] = "transformers"
        changes.append(change)
    return changes


def _fits(config: Config, change: dict[str, str], assumed: PlanConfig, plan: Plan) -> bool:
    try:
        return not make_plan(config.with_values(change), assumed, plan.setup.shape).problem
    except SailRLError:  # a batch that so many GPUs cannot share
        return False


def _text(change: dict[str, str], without: set[str] | frozenset[str] = frozenset()) -> str:
    return " ".join(f"--set {name}={value}" for name, value in change.items() if name not in without)
