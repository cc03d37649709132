"""preview, sft, rl, spine: the subcommands that train a policy."""

import argparse
from pathlib import Path

from sailrl_lite.commands.options import (
    Subparsers,
    add_data_option,
    add_parser,
    add_quiet,
    add_rl_options,
    add_run_options,
    add_rung_options,
    configured,
)
from sailrl_lite.config import RLConfig, SFTConfig

# -------------------- preview


def add_preview(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "preview", "run the whole method in small on this machine",
        "Measures the shipped SFT policy, trains it with DAPO and the cascade reward, measures it again, and "
        "writes metrics, figures, the trained policy and a report. Ctrl-C stops with a checkpoint.",
    )  # fmt: skip
    add_run_options(parser, "runs/preview", RLConfig)
    add_rl_options(parser)
    parser.set_defaults(run=run_preview)


def run_preview(args: argparse.Namespace) -> int:
    from sailrl_lite.study import preview

    config = configured(args, RLConfig, "seed", "steps", "checkpoint", "reward", "judge")
    report = preview.run_preview(config, args.out, args.resume, not args.quiet)
    print(report.read_text(encoding="utf-8"))
    print(f"report: {report}")
    return 0


# -------------------- sft


def add_sft(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "sft", "train the micro policy from scratch on the teacher's lessons",
        "This is how the shipped checkpoint was made. Takes about half an hour on two cores.",
    )  # fmt: skip
    add_run_options(parser, "runs/sft", SFTConfig)
    add_data_option(parser)
    parser.add_argument(
        "--checkpoint", help="folder of the policy to start from (default: none; with --data the shipped one)"
    )
    parser.set_defaults(run=run_sft, together=True)


def run_sft(args: argparse.Namespace) -> int:
    from sailrl_lite.training.sft import train_sft

    config = configured(args, SFTConfig, "seed", "steps", "data", "checkpoint")
    print(f"policy: {train_sft(config, args.out, args.resume, not args.quiet)}")
    return 0


# -------------------- rl


def add_rl(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers,
        "rl",
        "train a policy with DAPO and a reward",
        "Writes metrics.csv and the policy; no evaluation.",
    )
    add_run_options(parser, "runs/rl", RLConfig)
    add_rl_options(parser)
    add_data_option(parser)
    parser.set_defaults(run=run_rl, together=True)


def run_rl(args: argparse.Namespace) -> int:
    from sailrl_lite.training.rl import train_rl

    config = configured(args, RLConfig, "seed", "steps", "checkpoint", "reward", "judge", "data")
    print(f"policy: {train_rl(config, args.out, args.resume, not args.quiet)}")
    return 0


# -------------------- spine


def add_spine(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "spine", "train with several seeds and write the result, a row a seed, stage and family"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    parser.add_argument("--problems", type=int, default=200, help="test problems a family")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/spine"), help="folder of the runs; done ones are kept"
    )
    parser.add_argument("--file", type=Path, default=Path("data/runs/spine.csv"), help="the table to write")
    parser.add_argument("--figure", type=Path, default=Path("figures/spine.png"), help="the figure to draw")
    add_rung_options(parser, RLConfig)
    add_quiet(parser)
    parser.set_defaults(run=run_spine)


def run_spine(args: argparse.Namespace) -> int:
    import pandas as pd

    from sailrl_lite import figures
    from sailrl_lite.study import spine

    config = configured(args, RLConfig)
    file = spine.run_spine(
        list(range(args.seeds)), args.out, args.file, config, args.problems, not args.quiet
    )
    table = pd.read_csv(file)
    figure = figures.save(figures.spine(spine.by_seed(table)), args.figure)
    print(spine.markdown(table))
    print(f"table: {file}, figure: {figure}")
    return 0
