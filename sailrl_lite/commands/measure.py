"""evaluate, ask: the subcommands that look at a policy."""

import argparse
import json
import sys
from pathlib import Path

from sailrl_lite.commands.options import (
    Subparsers,
    add_parser,
    add_policy_options,
    add_quiet,
)
from sailrl_lite.config import SHIPPED, check_seed

# -------------------- evaluate


def add_evaluate(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "evaluate", "measure a policy on unseen problems",
        "Prints a row a family: accuracy, trigger rate, format, the rewards, tokens, and tokens relative to "
        "the same policy forced to answer directly, each with a 95% bootstrap interval over problems.",
    )  # fmt: skip
    add_policy_options(parser)
    parser.add_argument("--problems", type=int, default=100, help="problems a family")
    parser.add_argument("--families", default="", help="names, separated by commas; empty means all")
    parser.add_argument("--never-think", action="store_true", help="force a direct answer by prefill")
    parser.add_argument("--shortcut", type=float, default=0.0, help="share of pictures with the answer mark")
    parser.add_argument("--out", type=Path, help="also write the table as JSON to this file")
    add_quiet(parser)
    parser.set_defaults(run=run_evaluate)


def run_evaluate(args: argparse.Namespace) -> int:
    from sailrl_lite.files import write_text
    from sailrl_lite.study import evaluation
    from sailrl_lite.training.models import load_checkpoint

    check_seed(args.seed)
    families = list(dict.fromkeys(name.strip() for name in args.families.split(",") if name.strip()))
    problems = evaluation.unseen_problems(args.problems, families, args.shortcut)
    policy, processor = load_checkpoint(args.checkpoint or SHIPPED)
    bar = None if args.quiet else "evaluating"
    rows = evaluation.evaluate_relative(
        policy, processor, problems, args.temperature, args.seed, bar=bar, never_think=args.never_think
    )
    summary = evaluation.summarize(rows, seed=args.seed)
    print(evaluation.as_text(summary))
    print(evaluation.as_text(evaluation.summarize(rows, ("kind",), seed=args.seed)))
    if args.out:
        table = evaluation.as_records(summary)
        settings = {k: str(v) for k, v in vars(args).items() if k not in ("run", "out", "quiet")}
        write_text(args.out, json.dumps({"settings": settings, "families": table}, indent=1) + "\n")
    return 0


# -------------------- ask


def add_ask(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "ask", "ask a policy a question about a picture of your own",
        "The micro policy knows the micro-world only: pictures of 112 x 56 pixels (others are fitted into "
        "that) and the questions of its families.",
    )  # fmt: skip
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the picture")
    parser.add_argument("question", metavar="QUESTION", help="such as 'How high is the red bar?'")
    add_policy_options(parser)
    parser.add_argument("-n", type=int, default=1, help="how many responses")
    parser.set_defaults(run=run_ask)


def run_ask(args: argparse.Namespace) -> int:
    from sailrl_lite.training.models import knows, load_checkpoint
    from sailrl_lite.training.rollout import respond
    from sailrl_lite.world.scenes import read_picture

    check_seed(args.seed)
    picture = read_picture(args.image)
    policy, processor = load_checkpoint(args.checkpoint or SHIPPED)
    unknown = [word for word in args.question.split() if not knows(processor, word)]
    if unknown:
        print(f"note: the policy has never seen {', '.join(unknown)}", file=sys.stderr)
    options = dict(n=args.n, temperature=args.temperature, seed=args.seed)
    print("\n\n".join(respond(policy, processor, [args.question], [picture], **options)[0]))
    return 0
