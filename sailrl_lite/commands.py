"""The subcommands that train and measure: preview, sft, rl, judge-check, ...; `cli` has the parser."""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sailrl_lite.config import SHIPPED, JudgeConfig, RLConfig, SFTConfig, check_rung, check_seed
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import JUDGES, get_judge
from sailrl_lite.rewards import REWARDS

Subparsers = Any  # argparse's own name for it is private
AnyConfig = RLConfig | SFTConfig | JudgeConfig
Config = TypeVar("Config", RLConfig, SFTConfig, JudgeConfig)


def add_commands(subparsers: Subparsers) -> None:
    """Declare every subcommand of this module."""
    add_preview(subparsers)
    add_sft(subparsers)
    add_rl(subparsers)
    add_evaluate(subparsers)
    add_ask(subparsers)
    add_spine(subparsers)
    add_judge_check(subparsers)
    add_judge_train(subparsers)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Names a default where there is one to name."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        named = action.default not in (None, "", []) and action.default is not False
        return super()._get_help_string(action) if named else action.help


def _parser(subparsers: Subparsers, name: str, help: str, more: str = "") -> argparse.ArgumentParser:
    return subparsers.add_parser(
        name, help=help, description=f"{help[0].upper()}{help[1:]}. {more}",
        formatter_class=_Help,
    )  # fmt: skip


def _add_run_options(
    parser: argparse.ArgumentParser, out: str, config: type[RLConfig | SFTConfig | JudgeConfig]
) -> None:
    usual = config()
    names = ", ".join(f.name for f in fields(config))
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of the run")
    parser.add_argument("--rung", default="preview", help="of the ladder; so far there is preview")
    parser.add_argument("--seed", type=int, help=f"of data, sampling and weights (default: {usual.seed})")
    parser.add_argument("--steps", type=int, help=f"training steps (default: {usual.steps})")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --out, with its settings"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"another value of: {names}"
    )
    _add_quiet(parser)


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", help="a file of curated rows to learn from (default: the micro-world)")


def _add_rl_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", help="folder of the SFT policy (default: the shipped one)")
    parser.add_argument("--reward", help=f"one of {', '.join(REWARDS)} (default: {RLConfig().reward})")
    parser.add_argument("--judge", help=f"{JUDGES} (default: {RLConfig().judge})")


def _add_policy_options(parser: argparse.ArgumentParser) -> None:
    """The policy that answers, and how it is sampled."""
    parser.add_argument("--checkpoint", default="", help="folder of the policy (default: the shipped one)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of sampling; 0 is greedy")
    parser.add_argument("--seed", type=int, default=0, help="of sampling, and of intervals")


def _configured(args: argparse.Namespace, config: Config, *names: str) -> Config:
    """The configuration of a run: its usual values, or those of the run to go on with, and what is asked for.

    `names` are the options that are settings, too; --set has any of them.
    """
    check_rung(getattr(args, "rung", "preview"))
    values = {name: str(getattr(args, name)) for name in names if getattr(args, name) is not None}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SailRLError(f"--set takes KEY=VALUE, not {pair!r}")
        values[key.strip()] = value.strip()
    file = args.out / "config.json"
    if getattr(args, "resume", False) and file.is_file():
        config = config.from_json(file.read_text(encoding="utf-8", errors="replace"))
    return config.with_values(values)


# -------------------- preview


def add_preview(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers, "preview", "run the whole method in small on this machine",
        "Measures the shipped SFT policy, trains it with DAPO and the cascade reward, measures it again, and "
        "writes metrics, figures, the trained policy and a report. Ctrl-C stops with a checkpoint.",
    )  # fmt: skip
    _add_run_options(parser, "runs/preview", RLConfig)
    _add_rl_options(parser)
    parser.set_defaults(run=run_preview)


def run_preview(args: argparse.Namespace) -> int:
    from sailrl_lite.study import preview

    config = _configured(args, RLConfig(), "seed", "steps", "checkpoint", "reward", "judge")
    report = preview.run_preview(config, args.out, args.resume, not args.quiet)
    print(report.read_text(encoding="utf-8"))
    print(f"report: {report}")
    return 0


# -------------------- sft


def add_sft(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers, "sft", "train the micro policy from scratch on the teacher's lessons",
        "This is how the shipped checkpoint was made. Takes about half an hour on two cores.",
    )  # fmt: skip
    _add_run_options(parser, "runs/sft", SFTConfig)
    _add_data_option(parser)
    parser.add_argument(
        "--checkpoint", help="folder of the policy to start from (default: none; with --data the shipped one)"
    )
    parser.set_defaults(run=run_sft)


def run_sft(args: argparse.Namespace) -> int:
    from sailrl_lite.training.sft import train_sft

    config = _configured(args, SFTConfig(), "seed", "steps", "data", "checkpoint")
    print(f"policy: {train_sft(config, args.out, args.resume, not args.quiet)}")
    return 0


# -------------------- rl


def add_rl(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers,
        "rl",
        "train a policy with DAPO and a reward",
        "Writes metrics.csv and the policy; no evaluation.",
    )
    _add_run_options(parser, "runs/rl", RLConfig)
    _add_rl_options(parser)
    _add_data_option(parser)
    parser.set_defaults(run=run_rl)


def run_rl(args: argparse.Namespace) -> int:
    from sailrl_lite.training.rl import train_rl

    config = _configured(args, RLConfig(), "seed", "steps", "checkpoint", "reward", "judge", "data")
    print(f"policy: {train_rl(config, args.out, args.resume, not args.quiet)}")
    return 0


# -------------------- evaluate


def add_evaluate(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers, "evaluate", "measure a policy on unseen problems",
        "Prints a row a family: accuracy, trigger rate, format, the rewards, tokens, and tokens relative to "
        "the same policy forced to answer directly, each with a 95% bootstrap interval over problems.",
    )  # fmt: skip
    _add_policy_options(parser)
    parser.add_argument("--problems", type=int, default=100, help="problems a family")
    parser.add_argument("--families", default="", help="names, separated by commas; empty means all")
    parser.add_argument("--never-think", action="store_true", help="force a direct answer by prefill")
    parser.add_argument("--shortcut", type=float, default=0.0, help="share of pictures with the answer mark")
    parser.add_argument("--out", type=Path, help="also write the table as JSON to this file")
    _add_quiet(parser)
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
    parser = _parser(
        subparsers, "ask", "ask a policy a question about a picture of your own",
        "The micro policy knows the micro-world only: pictures of 112 x 56 pixels (others are fitted into "
        "that) and the questions of its families.",
    )  # fmt: skip
    parser.add_argument("image", type=Path, metavar="IMAGE", help="the picture")
    parser.add_argument("question", metavar="QUESTION", help="such as 'How high is the red bar?'")
    _add_policy_options(parser)
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


# -------------------- spine


def add_spine(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers, "spine", "train with several seeds and write the result, a row a seed, stage and family"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    parser.add_argument("--problems", type=int, default=200, help="test problems a family")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/spine"), help="folder of the runs; done ones are kept"
    )
    parser.add_argument("--file", type=Path, default=Path("data/runs/spine.csv"), help="the table to write")
    parser.add_argument("--figure", type=Path, default=Path("figures/spine.png"), help="the figure to draw")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a value of config.json"
    )
    _add_quiet(parser)
    parser.set_defaults(run=run_spine)


def run_spine(args: argparse.Namespace) -> int:
    import pandas as pd

    from sailrl_lite import figures
    from sailrl_lite.study import spine

    config = _configured(args, RLConfig())
    file = spine.run_spine(
        list(range(args.seeds)), args.out, args.file, config, args.problems, not args.quiet
    )
    table = pd.read_csv(file)
    figure = figures.save(figures.spine(spine.by_seed(table)), args.figure)
    print(spine.markdown(table))
    print(f"table: {file}, figure: {figure}")
    return 0


# -------------------- judge-check, judge-train


def add_judge_check(subparsers: Subparsers) -> None:
    parser = _parser(
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
    parser.add_argument("--out", type=Path, default=Path("runs/judge-check"), help="folder of the report")
    _add_quiet(parser)
    parser.set_defaults(run=run_judge_check)


def run_judge_check(args: argparse.Namespace) -> int:
    from sailrl_lite.study.judge_check import run_check
    from sailrl_lite.study.judge_report import overview

    judge = get_judge(args.judge)
    report = run_check(judge, args.out, args.repeats, args.continuous, not args.quiet, args.traces)
    print(overview(json.loads(report.read_text(encoding="utf-8"))))
    print(f"report: {report.with_suffix('.md')}")
    return 0


def add_judge_train(subparsers: Subparsers) -> None:
    parser = _parser(
        subparsers, "judge-train", "train the learned judge on traces that the exact verifier has labelled",
        "This is how the shipped data/micro-judge was made. Takes minutes on two cores.",
    )  # fmt: skip
    _add_run_options(parser, "runs/judge", JudgeConfig)
    parser.add_argument("--checkpoint", help="folder of the policy to start from (default: the shipped one)")
    parser.set_defaults(run=run_judge_train)


def run_judge_train(args: argparse.Namespace) -> int:
    from sailrl_lite.training.judge import train_judge

    config = _configured(args, JudgeConfig(), "seed", "steps", "checkpoint")
    print(f"judge: {train_judge(config, args.out, args.resume, not args.quiet)}")
    return 0
