"""curate sft, curate rl: the subcommands that make training data."""

import argparse
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from sailrl_lite.commands.options import Subparsers, add_parser, add_quiet, read_settings

if TYPE_CHECKING:
    from sailrl_lite.curation.curate import Source

_MORE = (
    "Reads rows from a file of your own (CSV, JSONL or Parquet, with the columns image, question, answer), "
    "from a public source, or from the micro-world; cleans, filters and balances them; and writes Parquet "
    "for training with a report of every row that was changed or dropped, and why. The same command again "
    "goes on after an interruption and pays for nothing twice."
)


def add_curate(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "curate", "make data for SFT or RL from your own or public sources", _MORE
    )
    kinds = parser.add_subparsers(title="what for", metavar="sft|rl", required=True)
    add_curate_sft(kinds)
    add_curate_rl(kinds)


def add_curate_sft(subparsers: Subparsers) -> None:
    from sailrl_lite.curation.settings import SFTOptions

    parser = add_parser(subparsers, "sft", "make LongCoT data: judgment, trace and boxed answer", _MORE)
    _add_input(parser, "runs/curate-sft", SFTOptions)
    parser.add_argument(
        "--teacher", default="", metavar="TEACHER",
        help="who writes traces: micro (the micro-world's, for its own rows), or llm:MODEL[,base_url=URL]"
        "[,NAME=VALUE...]; without one, rows that need a trace and have none are dropped",
    )  # fmt: skip
    parser.add_argument("--guided", action="store_true", help="show an LLM teacher the right answer")
    parser.set_defaults(run=run_curate_sft)


def run_curate_sft(args: argparse.Namespace) -> int:
    from sailrl_lite.curation.curate import curate_sft, get_teacher
    from sailrl_lite.curation.settings import SFTOptions

    options = SFTOptions().with_values(read_settings(args.set))
    teacher = get_teacher(args.teacher, args.guided)
    report = curate_sft(
        _source(args), args.out, options, teacher, args.checkpoint, args.workers, not args.quiet
    )
    return _say(report)


def add_curate_rl(subparsers: Subparsers) -> None:
    from sailrl_lite.curation.settings import RLOptions

    parser = add_parser(subparsers, "rl", "make RL data: open questions of middling difficulty, mixed", _MORE)
    _add_input(parser, "runs/curate-rl", RLOptions)
    parser.add_argument(
        "--reference", action="append", default=[], metavar="NAME",
        help="an evaluation set to look for overlaps with: a file, or a source such as mathverse",
    )  # fmt: skip
    parser.add_argument("--no-pass-rate", action="store_true", help="keep STEM rows of any difficulty")
    parser.set_defaults(run=run_curate_rl)


def run_curate_rl(args: argparse.Namespace) -> int:
    from sailrl_lite.curation.curate import curate_rl
    from sailrl_lite.curation.settings import RLOptions

    options = RLOptions().with_values(read_settings(args.set))
    report = curate_rl(
        _source(args), args.out, options, args.reference, None if args.no_pass_rate else args.checkpoint,
        args.workers, not args.quiet,
    )  # fmt: skip
    return _say(report)


def _add_input(parser: argparse.ArgumentParser, out: str, options: type) -> None:
    names = ", ".join(field.name for field in fields(options))
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", type=Path, metavar="FILE", help="a CSV, JSONL or Parquet file")
    source.add_argument("--source", metavar="NAME", help="a public source, by its name in the registry")
    source.add_argument("--micro", type=int, metavar="N", help="N problems of the micro-world")
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER", help="of the pictures, where it is not the file's own"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="read no more than N rows")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of data and report")
    parser.add_argument(
        "--checkpoint", default="", help="folder of the policy to ask (default: the shipped one)"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"another value of: {names}"
    )
    add_quiet(parser)


def _source(args: argparse.Namespace) -> "Source":
    from sailrl_lite.curation.curate import Source

    return Source(args.input, args.source, args.micro, args.images, args.limit)


def _say(report: Path) -> int:
    told, _, _ = report.read_text(encoding="utf-8").partition("\n## What is left")
    print("\n".join(line for line in told.splitlines() if not line.startswith("![")))
    print(f"report: {report}")
    return 0
