"""A plan as text."""

from dataclasses import asdict

from sailrl_lite.plan.estimate import Plan
from sailrl_lite.plan.hardware import GIB, timing
from sailrl_lite.plan.work import Work


def table(plan: Plan) -> str:
    """The lines of a plan: memory, tokens, operations, time, judge, disk, and what was assumed."""
    setup, needed = plan.setup, plan.memory
    where = f"{setup.gpus} x {plan.gpu.name}" if plan.gpu.memory else f"{setup.gpus} core of a CPU"
    lines = [
        f"{setup.stage}: {setup.shape.name}, {_count(setup.shape.parameters)} parameters, "
        f"{_count(setup.trained)} trained, {setup.weights} {setup.dtype}, on {where}",
        "",
        "memory of one GPU" if plan.gpu.memory else "memory",
    ]
    lines += [_row(name, _bytes(value)) for name, value in needed.parts().items() if value]
    lines.append(_row("at the height of an update", _bytes(needed.update)))
    if setup.stage == "rl":
        lines.append(_row("while sampling", _bytes(needed.rollout)))
    if plan.gpu.memory:
        lines.append(_row("there is", _bytes(plan.gpu.memory)))
    lines += ["", f"tokens of {plan.steps:,} steps of {setup.batch:,} rows"]
    lines += [_row(name, _count(value)) for name, value in asdict(plan.tokens).items()]
    lines += ["", "a step" + " " * 25 + "operations   seconds"]
    lines += _work(plan.operations, plan.seconds)
    lines += ["", _row("hours", f"{plan.hours:,.2f}"), _row("GPU hours", f"{plan.hours * setup.gpus:,.1f}")]
    if plan.gpu.memory:
        dollars = (
            "price not known: --set plan.gpu_price=DOLLARS"
            if plan.dollars is None
            else _dollars(plan.dollars)
        )
        lines.append(_row("GPUs' price", dollars))
    if plan.judging:
        lines += ["", *_judge(plan)]
    lines += ["", "disk"]
    lines += [_row(name, _bytes(value)) for name, value in asdict(plan.disk).items() if value]
    lines.append(_row("together", _bytes(plan.disk.total)))
    utilisation, layer = timing()
    lines += [
        "",
        f"assumed: {_settings(plan)}; {utilisation:.0%} of the data sheet's speed, and {layer * 1000:.2f} ms "
        "for a layer and pass; no waiting for the judge",
    ]
    return "\n".join(lines)


def _work(operations: Work, seconds: Work) -> list[str]:
    lines = []
    taken = asdict(seconds)
    for name, value in asdict(operations).items():
        if value:
            lines.append(_row(name.replace("_", " "), f"{value:10.2e}  {taken[name]:8.2f}"))
    lines.append(_row("together", f"{operations.total:10.2e}  {seconds.total:8.2f}"))
    return lines


def _judge(plan: Plan) -> list[str]:
    judge = plan.judging
    assert judge is not None
    if not judge.calls:
        return [_row("judge", judge.note)]
    lines = [f"judge {judge.model}"]
    lines.append(_row("written traces", _count(judge.traces)))
    lines.append(_row("calls", _count(judge.calls)))
    lines.append(_row("tokens in", _count(judge.tokens_in)))
    lines.append(_row("tokens out", _count(judge.tokens_out)))
    price = "not known" if judge.dollars is None else _dollars(judge.dollars)
    return [*lines, _row("price", f"{price}  ({judge.note})")]


def _settings(plan: Plan) -> str:
    names = (
        "prompt_tokens",
        "picture_tokens",
        "completion_tokens",
        "redrawn",
        "trigger_rate",
        "reply_tokens",
    )
    return ", ".join(f"{name} {getattr(plan.assumed, name):g}" for name in names)


def _row(name: str, text: str) -> str:
    return f"  {name.replace('_', ' '):<28} {text}"


def _bytes(value: float) -> str:
    return f"{value / GIB:8.2f} GiB" if value >= 0.01 * GIB else f"{value / 2**20:8.2f} MiB"


def _count(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return f"{value:.0f}"


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value < 100 else f"${value:,.0f}"
