"""plan: what a run on a rung needs, and whether it fits."""

import argparse
import json

from sailrl_lite.commands.options import Subparsers, add_parser, add_values_of_rung, read_settings
from sailrl_lite.config import PlanConfig, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.plan.estimate import Plan, make_plan, refuse, shape_for
from sailrl_lite.plan.published import compare, comparison_table
from sailrl_lite.plan.remedies import check_trainable, remedies
from sailrl_lite.plan.report import table
from sailrl_lite.rungs import config_of, read_rung
from sailrl_lite.settings import Settings

_KINDS: dict[str, type[Settings]] = {"sft": SFTConfig, "rl": RLConfig, "plan": PlanConfig}


def add_plan(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "plan", "say what a run needs: memory, tokens, operations, hours, judge, disk",
        "A plan that cannot fit is refused with status 2 and one line that says what would fit.",
    )  # fmt: skip
    add_values_of_rung(
        parser, "another value: sft.KEY, rl.KEY or plan.KEY; without that, of every stage that has KEY"
    )
    parser.add_argument("--gpus", type=int, help="how many train (default: the rung's)")
    parser.add_argument("--gpu", help="their type (default: the rung's)")
    parser.add_argument("--stage", choices=("sft", "rl", "both"), default="both", help="of the training")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check", action="store_true", help="compare with published runs, and show the errors"
    )
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    if args.check:
        rows = compare()
        print(json.dumps([row.to_json() for row in rows], indent=1) if args.json else comparison_table(rows))
        return 0
    stages = ("sft", "rl") if args.stage == "both" else (args.stage,)
    configs = _configs(args, stages)
    assumed, sft = configs["plan"], configs["sft"]
    assert isinstance(assumed, PlanConfig) and isinstance(sft, SFTConfig)
    made: list[tuple[Plan, SFTConfig | RLConfig]] = []
    for stage in stages:
        config = configs[stage]
        assert isinstance(config, SFTConfig | RLConfig)
        made.append((make_plan(config, assumed, shape_for(config, sft)), config))
    plans = [plan for plan, _ in made]
    if args.json:
        print(json.dumps({plan.setup.stage: plan.to_json() for plan in plans}, indent=1))
    else:
        print("\n\n".join(map(table, plans)))
    wrong = next(((plan, config) for plan, config in made if plan.problem), None)
    what = remedies(*wrong, assumed, [other for other in made if other != wrong]) if wrong else []
    if not what:
        for _, config in made:
            check_trainable(config)
    if wrong:
        refuse(wrong[0].problem, what)
    return 0


def _configs(args: argparse.Namespace, stages: tuple[str, ...]) -> dict[str, Settings]:
    """The configurations of the stages and of the plan, with what --set and the other options say."""
    rung = read_rung(args.rung)
    configs: dict[str, Settings] = {name: config_of(rung, kind) for name, kind in _KINDS.items()}
    said: dict[str, dict[str, str]] = {name: {} for name in configs}
    for key, value in read_settings(args.set).items():
        section, _, own = key.partition(".")
        if section in configs:
            said[section][own] = value
            continue
        users = [name for name in (*stages, "plan") if key in configs[name].flat()]
        if not users:
            known = {name for section in (*stages, "plan") for name in configs[section].flat()}
            raise SailRLError(f"unknown setting {key!r}; {suggest(key, sorted(known))}")
        for name in users:
            said[name][key] = value
    if args.gpus is not None:
        if args.gpus < 1:
            raise SailRLError(f"--gpus must be at least 1, not {args.gpus}; for a CPU leave out --gpu")
        for name in ("sft", "rl"):
            said[name]["engine.processes"] = str(args.gpus)
    if args.gpu is not None:
        said["plan"]["gpu"] = args.gpu
    return {name: config.with_values(said[name]) for name, config in configs.items()}
