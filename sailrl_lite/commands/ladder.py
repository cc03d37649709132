"""config show, export, grader-check: the subcommands about the rungs of the ladder."""

import argparse
from pathlib import Path

from sailrl_lite.commands.options import (
    Subparsers,
    add_data_option,
    add_parser,
    add_rung_options,
    configured,
    given,
)
from sailrl_lite.config import EvaluateConfig, RLConfig, SFTConfig
from sailrl_lite.engines import check_rounding
from sailrl_lite.errors import SailRLError
from sailrl_lite.rungs import SECTIONS, config_of, origins, read_rung
from sailrl_lite.text import columns

# -------------------- config show


def add_config(subparsers: Subparsers) -> None:
    parser = add_parser(subparsers, "config", "show the values of a run and where each comes from")
    kinds = parser.add_subparsers(title="what to do", metavar="show", required=True)
    show = add_parser(
        kinds, "show", "print every value of a run and where it comes from",
        "That is: given by --set, the file of the rung (with what the value rests on), or the default.",
    )  # fmt: skip
    show.add_argument("section", nargs="?", default="rl", choices=tuple(SECTIONS), help="whose values")
    add_rung_options(show, RLConfig)
    show.set_defaults(run=run_config_show)


def run_config_show(args: argparse.Namespace) -> int:
    rung, kind, said = read_rung(args.rung), SECTIONS[args.section], given(args)
    config = config_of(rung, kind).with_values(said)
    config.check()
    if isinstance(config, RLConfig | SFTConfig):
        check_rounding(config.policy, config.engine)
    rows = [(name, _shown(value), source, why) for name, value, source, why in origins(rung, kind, said)]
    print(f"# {rung.name}: {rung.about}")
    print(columns(rows))
    return 0


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, tuple) else "" if value is None else str(value)


# -------------------- export


def add_export(subparsers: Subparsers) -> None:
    parser = add_parser(subparsers, "export", "write the files with which another engine goes on")
    kinds = parser.add_subparsers(title="for what", metavar="ENGINE", required=True)
    _add_vlmevalkit(kinds)
    _add_verl(kinds)


def _add_vlmevalkit(kinds: Subparsers) -> None:
    kit = add_parser(
        kinds, "vlmevalkit", "write a folder that evaluates a policy as the paper did, by VLMEvalKit",
        "Its README.md says how to set up the environment that VLMEvalKit needs, and what to know.",
    )  # fmt: skip
    kit.add_argument("out", type=Path, metavar="OUT", help="the folder")
    kit.add_argument("--checkpoint", help="folder of the policy, or its name on the hub")
    kit.add_argument("--benchmarks", default="", help="of the paper, separated by commas (default: all)")
    kit.add_argument("--grader", default="gpt-4o-mini", help="the model that grades, or exact_matching")
    add_rung_options(kit, EvaluateConfig)
    kit.set_defaults(run=run_export_vlmevalkit)


def run_export_vlmevalkit(args: argparse.Namespace) -> int:
    from sailrl_lite.export.vlmevalkit import export_vlmevalkit

    benchmarks = [name.strip() for name in args.benchmarks.split(",") if name.strip()]
    config = configured(args, EvaluateConfig, "checkpoint")
    print(f"export: {export_vlmevalkit(args.out, config, benchmarks, args.grader) / 'README.md'}")
    return 0


def _add_verl(kinds: Subparsers) -> None:
    verl = add_parser(
        kinds, "verl", "write a folder that trains by RL in verl, the paper's engine",
        "It holds data, reward, values and a launch script; its README.md says what to edit.",
    )  # fmt: skip
    verl.add_argument("out", type=Path, metavar="OUT", help="the folder")
    add_data_option(verl)
    verl.add_argument("--checkpoint", help="folder of the SFT policy, or its name on the hub")
    add_rung_options(verl, RLConfig)
    verl.set_defaults(run=run_export_verl, rung="paper")


def run_export_verl(args: argparse.Namespace) -> int:
    from sailrl_lite.export.verl import export_verl

    plan = export_verl(configured(args, RLConfig, "data", "checkpoint"), args.out)
    for note in plan.notes:
        print(f"note: {note}")
    print(f"export: {args.out / 'README.md'} ({plan.nodes} x {plan.gpus} GPUs)")
    return 0


# -------------------- grader-check


def add_grader_check(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "grader-check", "measure how far a grader of answers can be trusted",
        "Asks the model about pairs of a gold answer and a prediction whose truth is known, and prints false "
        "passes and false fails with 95% intervals. What it says is cached, so it is paid once.",
    )  # fmt: skip
    parser.add_argument("--grader", default="llm:gpt-4o-mini", help="llm:MODEL[,base_url=URL,max_cost=...]")
    parser.add_argument("--pairs", type=int, default=400, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the pairs")
    parser.add_argument(
        "--out", type=Path, help="also write every pair and answer to this file, as JSON Lines"
    )
    parser.set_defaults(run=run_grader_check)


def run_grader_check(args: argparse.Namespace) -> int:
    from sailrl_lite.files import write_text
    from sailrl_lite.judges.specs import get_endpoint

    endpoint = get_endpoint(args.grader)
    try:
        from sailrl_lite.export.grader import check_grader
        from sailrl_lite.judges.client import ChatClient
    except ImportError as error:
        raise SailRLError(f"a grader needs {error.name}: pip install 'sailrl-lite[judge]'") from error
    if args.pairs < 1:
        raise SailRLError(f"--pairs must be at least 1, not {args.pairs}")
    client = ChatClient(endpoint)
    table, lines = check_grader(client, args.pairs, args.seed)
    print(table.round(3).to_string(index=False))
    print(client.ledger)
    if client.ledger.stopped:
        print(f"note: {client.ledger.stopped}, so some pairs were not graded")
    if args.out:
        write_text(args.out, lines)
    return 0
