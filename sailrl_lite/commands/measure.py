"""evaluate, ask: the subcommands that look at a policy."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from sailrl_lite.commands.options import (
    Subparsers,
    add_parser,
    add_policy_options,
    add_quiet,
    add_rung_options,
    configured,
)
from sailrl_lite.config import SHIPPED, EvaluateConfig, check_seed, checkpoint_of

# -------------------- evaluate


def add_evaluate(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "evaluate", "measure a policy on unseen problems",
        "Prints a row a family: accuracy, trigger rate, format, the rewards, tokens, and tokens relative to "
        "the same policy forced to answer directly, each with a 95% bootstrap interval over problems.",
    )  # fmt: skip
    usual = EvaluateConfig()
    parser.add_argument("--checkpoint", help="folder of the policy (default: the shipped one, or the rung's)")
    parser.add_argument(
        "--temperature", type=float, help=f"of sampling; 0 is greedy (default: {usual.temperature:g})"
    )
    parser.add_argument("--seed", type=int, help=f"of sampling, and of intervals (default: {usual.seed})")
    parser.add_argument("--problems", type=int, help=f"problems a family (default: {usual.problems})")
    parser.add_argument("--families", help="names, separated by commas (default: all)")
    parser.add_argument(
        "--never-think", action="store_true", default=None, help="force a direct answer by prefill"
    )
    parser.add_argument("--shortcut", type=float, help="share of pictures with the answer mark (default: 0)")
    parser.add_argument("--out", type=Path, help="also write the table as JSON to this file")
    add_rung_options(parser, EvaluateConfig)
    add_quiet(parser)
    parser.set_defaults(run=run_evaluate)


def run_evaluate(args: argparse.Namespace) -> int:
    from sailrl_lite.files import write_text
    from sailrl_lite.study import evaluation
    from sailrl_lite.training.policies import load_policy

    names = ("checkpoint", "temperature", "seed", "problems", "families", "never_think", "shortcut")
    config = configured(args, EvaluateConfig, *names)
    config.check()
    problems = evaluation.unseen_problems(config.problems, config.families, config.shortcut)
    policy, processor = load_policy(checkpoint_of(config), config.policy)
    rows = evaluation.evaluate_relative(
        policy, processor, problems, config.temperature, config.seed, config.max_new_tokens,
        bar=None if args.quiet else "evaluating", never_think=config.never_think,
    )  # fmt: skip
    summary = evaluation.summarize(rows, seed=config.seed)
    print(evaluation.as_text(summary))
    print(evaluation.as_text(evaluation.summarize(rows, ("kind",), seed=config.seed)))
    if args.out:
        table = {"settings": asdict(config), "families": evaluation.as_records(summary)}
        write_text(args.out, json.dumps(table, indent=1) + "\n")
    return 0


# -------------------- ask


def add_ask(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "ask", "ask a policy a question about a picture of your own",
        "The micro policy knows the micro-world only: pictures of 112 x 56 pixels (others are fitted into "
        "that) and the questions of its families. A larger one needs more --max-new-tokens.",
    )  # fmt: skip
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the picture")
    parser.add_argument("question", metavar="QUESTION", help="such as 'How high is the red bar?'")
    add_policy_options(parser)
    parser.add_argument("-n", type=int, default=1, help="how many responses")
    parser.add_argument("--max-new-tokens", type=int, default=64, help="of a response")
    parser.set_defaults(run=run_ask)


def run_ask(args: argparse.Namespace) -> int:
    from PIL import Image

    from sailrl_lite.pictures import FORMATS
    from sailrl_lite.training.models import knows
    from sailrl_lite.training.policies import load_policy
    from sailrl_lite.training.rollout import respond
    from sailrl_lite.world.scenes import read_picture

    check_seed(args.seed)
    read_picture(args.image)  # a file that is none is named before the policy is loaded
    policy, processor = load_policy(args.checkpoint or SHIPPED)
    with Image.open(args.image, formats=FORMATS) as image:
        picture = processor.shown(image)
    unknown = [word for word in args.question.split() if not knows(processor, word)]
    if unknown:
        print(f"note: the policy has never seen {', '.join(unknown)}", file=sys.stderr)
    options = dict(n=args.n, max_new_tokens=args.max_new_tokens, temperature=args.temperature, seed=args.seed)
    print("\n\n".join(respond(policy, processor, [args.question], [picture], **options)[0]))
    return 0
