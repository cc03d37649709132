"""judge-check, judge-train: the subcommands about judges."""

import argparse
import json
import re
from pathlib import Path

from sailrl_lite.commands.options import (
    Subparsers,
    add_parser,
    add_quiet,
    add_run_options,
    configured,
)
from sailrl_lite.config import JudgeConfig
from sailrl_lite.judges.specs import JUDGES, get_judge


def add_judge_check(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "judge-check", "measure how far a judge can be trusted, against the exact truth",
        "Shows a judge a fixed labelled set of micro-world traces (clean, with an error of the teacher, and "
        "built to fool it) and writes accuracy, false-pass and false-fail rates, Cohen's kappa, agreement of "
        "repeats, cost and latency, by dimension and family, as JSON, Markdown and a figure. What an LLM "
        "judge says is kept in its cache, so a call that was paid is not paid again.",
    )  # fmt: skip
    parser.add_argument("--judge", default="exact", help=JUDGES)
    parser.add_argument("--traces", type=int, default=650, help="size of the labelled set")
    parser.add_argument("--repeats", type=int, default=2, help="independent opinions asked of each trace")
    parser.add_argument("--continuous", action="store_true", help="ask for scores anywhere in [0, 1]")
    parser.add_argument("--out", type=Path, help="folder of the report (default: runs/judge-check/JUDGE)")
    add_quiet(parser)
    parser.set_defaults(run=run_judge_check)


def run_judge_check(args: argparse.Namespace) -> int:
    from sailrl_lite.study.judge_check import run_check
    from sailrl_lite.study.judge_report import overview

    judge = get_judge(args.judge)
    folder = args.out or Path("runs/judge-check") / re.sub(r"[^\w.-]+", "-", judge.name).strip("-")[:80]
    report = run_check(judge, folder, args.repeats, args.continuous, not args.quiet, args.traces)
    print(overview(json.loads(report.read_text(encoding="utf-8"))))
    print(f"report: {report.with_suffix('.md')}")
    return 0


def add_judge_train(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "judge-train", "train the learned judge on traces that the exact verifier has labelled",
        "This is how the shipped data/micro-judge was made. Takes about ten minutes on two cores.",
    )  # fmt: skip
    add_run_options(parser, "runs/judge", JudgeConfig)
    parser.add_argument("--checkpoint", help="folder of the policy to start from (default: the shipped one)")
    parser.set_defaults(run=run_judge_train)


def run_judge_train(args: argparse.Namespace) -> int:
    from sailrl_lite.training.judge import train_judge

    config = configured(args, JudgeConfig, "seed", "steps", "checkpoint")
    print(f"judge: {train_judge(config, args.out, args.resume, not args.quiet)}")
    return 0
