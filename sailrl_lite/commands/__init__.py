"""The subcommands, by what they are about; `cli` has the parser and `score`."""

from sailrl_lite.commands import curate, judge, ladder, measure, plan, study, train
from sailrl_lite.commands.options import Subparsers


def add_commands(subparsers: Subparsers) -> None:
    """Declare every subcommand of this package."""
    train.add_preview(subparsers)
    curate.add_curate(subparsers)
    train.add_sft(subparsers)
    train.add_rl(subparsers)
    measure.add_evaluate(subparsers)
    measure.add_ask(subparsers)
    judge.add_judge_check(subparsers)
    judge.add_judge_train(subparsers)
    train.add_spine(subparsers)
    study.add_study(subparsers)
    ladder.add_config(subparsers)
    plan.add_plan(subparsers)
    ladder.add_export(subparsers)
    ladder.add_grader_check(subparsers)
