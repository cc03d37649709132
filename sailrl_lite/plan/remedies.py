"""What to change where a plan does not fit: settings that were tried and do fit, the gentlest first."""

from collections.abc import Sequence
from dataclasses import replace

from sailrl_lite.config import PlanConfig, RLConfig
from sailrl_lite.engines import check_rounding
from sailrl_lite.errors import SailRLError
from sailrl_lite.export.verl_values import refuse as refuse_verl
from sailrl_lite.plan.estimate import Config, Plan, make_plan
from sailrl_lite.plan.hardware import Gpu, gpus
from sailrl_lite.plan.shapes import Shape

MOST = 4  # remedies that are named
_SHARE = "engine.vllm_memory"
_SAME_RESULT = ("device_batch", "engine.gradient_checkpointing", "policy.attention")  # what is learned
_LENGTHS = ("max_new_tokens", "max_prompt_tokens", "max_tokens")
Stage = tuple[Config, Shape]


def remedies(
    plan: Plan, config: Config, assumed: PlanConfig, others: Sequence[tuple[Plan, Config]] = ()
) -> list[str]:
    """Options of the command line, each of which makes the plan fit; at most `MOST`.

    Single changes are tried first, from those that change nothing that is learned to other hardware. Where
    none will do they are added up until they do, then other hardware beside, then rows half as long.

    Args:
        others: plans of the same command, which must fit then, too.
    """
    stages = [(c, p.setup.shape) for p, c in [(plan, config), *others]]
    changes: list[dict[str, str]] = []
    for one, _ in stages:
        changes += [change for change in _changes(one) if change not in changes]
    shares = [change for change in changes if _SHARE in change]
    found: list[str] = []
    given: dict[str, str] = {}
    for change in changes:
        if _fits(stages, change, assumed):
            found.append(_text(change))
        given |= {} if change in shares else change
        sums = [given | share for share in ({}, *shares)]
        fitting = (total for total in sums if len(total) > len(change) and _fits(stages, total, assumed))
        if not found and (total := next(fitting, None)):
            found.append(_text(total))
    for more in (2, 4, 8):
        change = _shared(config, more)
        if _fits(stages, change, assumed):
            found.append(_text(change))
            break
    larger = sorted((g for g in gpus().values() if g.memory > plan.gpu.memory), key=lambda g: g.memory)
    for gpu in larger:
        if _fits(stages, {}, replace(assumed, gpu=gpu.name)):
            found.append(f"--gpu {gpu.name}")
            break
    if not found:
        same = {n: v for change in changes for n, v in change.items() if n in _SAME_RESULT}
        tried = [same | share for share in ({}, *shares)]
        found = _both(stages, tried, assumed, larger) or _shorter(stages, tried, assumed)
    return found[:MOST]


def check_trainable(config: Config) -> None:
    """Raise SailRLError where a run would be refused by its engine, whatever memory there is."""
    if isinstance(config, RLConfig) and config.engine.trainer == "verl":
        refuse_verl(config)
    else:
        check_rounding(config.policy, config.engine)


def _shared(config: Config, more: int) -> dict[str, str]:
    """So many times the GPUs, sharing what they hold."""
    change = {"engine.processes": str(config.engine.processes * more)}
    return change | ({"engine.sharding": "zero3"} if config.engine.sharding == "none" else {})


def _both(
    stages: Sequence[Stage], tried: Sequence[dict[str, str]], assumed: PlanConfig, larger: Sequence[Gpu]
) -> list[str]:
    """More GPUs of another type, the fewest that will do."""
    for more in (2, 4, 8, 16, 32, 64):
        for gpu in larger:
            for change in tried:
                total = change | _shared(stages[0][0], more)
                if _fits(stages, total, replace(assumed, gpu=gpu.name)):
                    return [f"{_text(total)} --gpu {gpu.name}"]
    return []


def _shorter(stages: Sequence[Stage], tried: Sequence[dict[str, str]], assumed: PlanConfig) -> list[str]:
    """The limits of a row's length, the longest halved until the rows fit."""
    lengths = {name: c.flat()[name] for c, _ in stages for name in _LENGTHS if c.flat().get(name)}
    shorter: dict[str, str] = {}
    while lengths and max(lengths.values()) > 1:
        name = max(lengths, key=lambda name: lengths[name])
        lengths[name] //= 2
        shorter[name] = str(lengths[name])
        for change in tried:
            total = change | shorter
            if _fits(stages, total, assumed):
                return [_text(total)]
    return []


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
        if flat["engine.sharding"] != "none":
            change["engine.sharding"] = "none"
        changes.append(change)
    return changes


def _fits(stages: Sequence[Stage], change: dict[str, str], assumed: PlanConfig) -> bool:
    try:
        for config, shape in stages:
            known = config.flat()
            changed = config.with_values({name: v for name, v in change.items() if name in known})
            check_trainable(changed)
            if make_plan(changed, assumed, shape).problem:
                return False
    except SailRLError:  # a batch that so many GPUs cannot share, or what the engine cannot do
        return False
    return True


def _text(change: dict[str, str]) -> str:
    """As options; how many GPUs train has one of its own."""
    named = {"engine.processes": "--gpus "}
    return " ".join(f"{named.get(n, f'--set {n}=')}{value}" for n, value in change.items())
