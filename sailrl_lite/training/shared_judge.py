"""A paid judge's limits and its counts, where several processes ask it."""

import json
from pathlib import Path

from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.judges.endpoint import Endpoint
from sailrl_lite.judges.protocol import Judge
from sailrl_lite.judges.specs import get_judge, read_spec
from sailrl_lite.training.processes import count, first_does, index

_RATES = ("concurrency", "rpm", "tpm")
_BUDGET = {"max_calls": ("calls",), "max_tokens": ("tokens_in", "tokens_out"), "max_cost": ("cost",)}
_FILE = "judge.json"


def judge_for_run(text: str, out: Path) -> Judge:
    """The judge of this process, with its part of the limits; what it uses is kept in `out`.

    What earlier processes have used is counted as the first one's, so that a run may go on with another
    number of them.

    Raises:
        SailRLError: as `get_judge`; a limit that is less than one for each process; or judge.json is there
            and cannot be read.
    """
    if count() == 1 and not list(out.glob(f"judge-*/{_FILE}")):
        judge = get_judge(text)
        judge.keep(out)
        return judge
    used = first_does(lambda: add_up(text, out))
    judge = get_judge(part_of_limits(text, used, index(), count()))
    judge.keep(out if index() == 0 else out / f"judge-{index()}")
    return judge


def why_stopped(judge: Judge) -> str:
    """Why the judge of this process has stopped; "" while it has not."""
    several = f" by one of {count()} processes, of which each has its part" if count() > 1 else ""
    return judge.stopped and judge.stopped + several


def part_of_limits(text: str, used: dict[str, float], process: int, processes: int) -> str:
    """The text of a judge with the limits of one of several processes: an even part of each rate, and of what
    is left of the budget. The first process, on whose account the `used` is, has that besides.

    >>> part_of_limits("llm:m,rpm=600,max_calls=100", {"calls": 20}, 0, 4)
    'llm:m,rpm=150,max_calls=40,concurrency=16'
    >>> part_of_limits("llm:m,rpm=600,max_calls=100", {"calls": 20}, 1, 4)
    'llm:m,rpm=150,max_calls=20,concurrency=16'
    """
    spec = read_spec(text)
    if spec.kind != "llm":
        return text
    settings = dict(spec.settings)
    settings.setdefault("concurrency", str(Endpoint.concurrency))
    for name in _RATES:
        if name in settings:
            part = int(settings[name]) // processes
            if part < 1:
                raise SailRLError(f"{name} of the judge must be at least {processes}, one for each process")
            settings[name] = str(part)
    for name, counts in _BUDGET.items():
        if name in settings:
            spent = sum(used.get(each, 0) for each in counts)
            left = max(0.0, float(settings[name]) - spent) / processes
            whole = left + (spent if process == 0 else 0)
            settings[name] = f"{whole:.6f}" if name == "max_cost" else str(int(whole))
    return ",".join([f"{spec.kind}:{spec.first}", *(f"{name}={value}" for name, value in settings.items())])


def add_up(text: str, out: Path) -> dict[str, float]:
    """What all processes have used, which judge.json then says alone; empty for a judge that is free."""
    judge = get_judge(text)
    judge.keep(out)
    others = sorted(out.glob(f"judge-*/{_FILE}"))
    if (ledger := getattr(judge, "ledger", None)) is not None and others:
        for file in others:
            ledger.add(json.loads(file.read_text(encoding="utf-8")))
        write_text(out / _FILE, json.dumps(judge.usage(), indent=1) + "\n")
    for file in others:
        file.unlink()
        file.parent.rmdir()
    return judge.usage()
