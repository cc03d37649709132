"""config show: the subcommands about the rungs of the ladder."""

import argparse

from sailrl_lite.commands.options import Subparsers, add_parser, add_rung_options, given
from sailrl_lite.config import RLConfig
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
