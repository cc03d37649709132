"""study run, status, list, report: the arms of the study, their runs and what came out."""

import argparse
from pathlib import Path

from sailrl_lite.commands.options import Subparsers, add_parser, add_quiet

_NAMES = "an arm, a group of arms, or all; `sailrl-lite study list` shows them"


def add_study(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "study", "run the arms of the study, each with several seeds, and report",
        "An arm is one way to train a policy: a few lines of sailrl_lite/study/arms.toml, or of a file of "
        "your own. A run is an arm with a seed, and leaves one small log.",
    )  # fmt: skip
    kinds = parser.add_subparsers(title="what to do", metavar="run|status|list|report", required=True)
    add_study_run(kinds)


def add_study_run(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "run", "make the runs that are not there yet",
        "A run whose log is there is not made again, as long as its arm and the frozen parts of the code "
        "stay as they were. All cores are used, with one run on each. Ctrl-C, or a kill, loses at most the "
        "steps since the last checkpoint: the same command goes on. Exit status: 0 all well, 1 some runs "
        "failed, 130 stopped by Ctrl-C.",
    )  # fmt: skip
    parser.add_argument("names", nargs="+", metavar="NAME", help=_NAMES)
    parser.add_argument(
        "--seeds", type=int, help="runs of each arm, seeds 0, 1, ... (default: as the arm says)"
    )
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one for each core)")
    parser.add_argument(
        "--keep", action="store_true", help="keep the trained policies, in OUT/work/RUN/policy"
    )
    _add_places(parser)
    add_quiet(parser)
    parser.set_defaults(run=run_study_run)


def run_study_run(args: argparse.Namespace) -> int:
    from sailrl_lite.study.arms import load_study
    from sailrl_lite.study.runner import run_study

    runs = load_study(args.arms).runs(args.names, args.seeds)
    outcome = run_study(runs, args.out, _logs(args), args.jobs, args.keep, not args.quiet)
    made, skipped, failed = len(outcome.made), len(outcome.skipped), len(outcome.failed)
    print(f"{made} made, {skipped} there already, {failed} failed; logs: {_logs(args)}")
    for name, why in outcome.failed.items():
        print(f"  {name}: {why}")
    if outcome.stopped:
        print("stopped; the same command goes on from the last checkpoints")
        return 130
    return 1 if outcome.failed else 0


def _add_places(parser: argparse.ArgumentParser) -> None:
    from sailrl_lite.study.arms import ARMS_FILE

    parser.add_argument("--arms", type=Path, default=ARMS_FILE, help="the file of the arms")
    parser.add_argument("--out", type=Path, default=Path("runs/study"), help="folder of what is begun")
    parser.add_argument(
        "--logs", type=Path,
        help="folder of the logs (default: data/runs/study of this clone; OUT/logs for another --arms)",
    )  # fmt: skip


def _logs(args: argparse.Namespace) -> Path:
    from sailrl_lite.study.arms import ARMS_FILE
    from sailrl_lite.study.logs import LOGS

    if args.logs:
        return Path(args.logs)
    return LOGS if args.arms.resolve() == ARMS_FILE.resolve() else Path(args.out) / "logs"
