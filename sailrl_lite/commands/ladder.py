"""config show, export: the subcommands about the rungs of the ladder."""

import argparse
from pathlib import Path

from sailrl_lite.commands.options import Subparsers, add_parser, add_rung_options, configured, given
from sailrl_lite.config import EvaluateConfig, RLConfig
from sailrl_lite.rungs import SECTIONS, origins, read_rung

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
    rows = [(name, _shown(value), source, why) for name, value, source, why in origins(rung, kind, said)]
    print(f"# {rung.name}: {rung.about}")
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        print(f"{line}  {row[3]}".rstrip())
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
