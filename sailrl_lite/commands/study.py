"""study run, status, list, report: the arms of the study, their runs and what came out."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sailrl_lite.commands.options import Subparsers, add_parser, add_quiet
from sailrl_lite.errors import SailRLError
from sailrl_lite.study.arms import ARMS_FILE, load_study

if TYPE_CHECKING:
    from sailrl_lite.study.arms import Run

_NAME = "an arm, a group of arms, or all; `sailrl-lite study list` shows them"
_STATUS = (
    "Of each arm: the runs wanted; those done; those with a stale log, of another arm or frozen code; those "
    "begun, and those that failed; and the CPU seconds of a run."
)
_REPORT = (
    "From the logs alone: the table of claims, the open questions and a row for each arm, in Markdown. "
    "The shipped logs also give data/claims.csv and the table in README.md; those of another --logs give "
    "claims.csv beside them."
)


def add_study(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "study", "run the arms of the study, each with several seeds, and report",
        "An arm is one way to train a policy: a few lines of sailrl_lite/study/arms.toml, or of a file of "
        "your own. A run is an arm with a seed, and leaves one small log.",
    )  # fmt: skip
    kinds = parser.add_subparsers(title="what to do", metavar="run|status|list|report", required=True)
    add_study_run(kinds)
    add_study_status(kinds)
    add_study_list(kinds)
    add_study_report(kinds)


# -------------------- run


def add_study_run(subparsers: Subparsers) -> None:
    parser = add_parser(
        subparsers, "run", "make the runs that are not there yet",
        "For an arm of your own copy sailrl_lite/study/arms.toml, change or add a few lines, and name the "
        "copy with --arms. In the end stands what the named arms have reached, a column each, with half the "
        "width of the 95% interval over seeds. A run whose log is there is not made again, as long as its "
        "arm and the frozen parts of the code stay as they were. All cores are used, with one run on each. "
        "Ctrl-C, or a kill, loses at most the steps since the last checkpoint: the same command goes on. "
        "Exit status: 0 all well, 1 some runs failed, 130 stopped by Ctrl-C.",
    )  # fmt: skip
    parser.add_argument("names", nargs="+", metavar="NAME", help=_NAME)
    _add_seeds(parser)
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one for each core)")
    parser.add_argument(
        "--keep", action="store_true", help="keep the trained policies, in OUT/work/RUN/policy"
    )
    _add_places(parser)
    add_quiet(parser)
    parser.set_defaults(run=run_study_run)


def run_study_run(args: argparse.Namespace) -> int:
    from sailrl_lite.study.runner import run_study

    runs, logs = _runs(args), _logs(args)
    outcome = run_study(runs, args.out, logs, args.jobs, args.keep, not args.quiet)
    for name, why in outcome.failed.items():
        print(f"failed: {name}: {why}")
    made, there, failed = len(outcome.made), len(outcome.skipped), len(outcome.failed)
    print(f"{made} made, {there} there already, {failed} failed; logs: {logs}")
    if outcome.stopped:
        print("stopped; the same command goes on from the last checkpoints")
        return 130
    if "all" not in args.names:
        print(_reached(runs, logs))
    return 1 if outcome.failed else 0


def _reached(runs: Sequence["Run"], logs: Path) -> str:
    """What the arms of these runs have reached, a column each, and beside them the shipped full system."""
    import pandas as pd

    from sailrl_lite.study.logs import LOGS, read_log, read_logs
    from sailrl_lite.study.report import arm_row
    from sailrl_lite.study.runner import is_done

    own = [read_log(logs / f"{run.name}.json") for run in runs if is_done(run, logs)]
    shipped = read_logs(LOGS)
    arms = list(dict.fromkeys(log.head["arm"] for log in own))
    # Relative tokens need the arm `base`.
    base = [] if "base" in arms else [log for log in shipped if log.head["arm"] == "base"]
    columns = {arm: arm_row([*own, *base], arm) for arm in arms}
    if "cascade" not in arms or logs != LOGS:
        columns["cascade (shipped)"] = arm_row(shipped, "cascade")
    table = pd.DataFrame({arm: row for arm, row in columns.items() if row})
    return table.to_string(line_width=110) if arms else ""


# -------------------- status


def add_study_status(subparsers: Subparsers) -> None:
    parser = add_parser(subparsers, "status", "show what is made, begun, out of date or failed", _STATUS)
    parser.add_argument("names", nargs="*", default=["all"], metavar="NAME", help=_NAME)
    _add_seeds(parser)
    _add_places(parser)
    parser.set_defaults(run=run_study_status)


def run_study_status(args: argparse.Namespace) -> int:
    from sailrl_lite.study.status import failures, status

    runs, logs = _runs(args), _logs(args)
    table = status(runs, args.out, logs)
    print(table.to_string(index=False, float_format="{:.0f}".format, na_rep="-"))
    print(f"{table['done'].sum()} of {len(runs)} runs are done; logs: {logs}")
    for name, why in failures(runs, args.out).items():
        print(f"failed: {name}: {why}")
    return 0


# -------------------- list


def add_study_list(subparsers: Subparsers) -> None:
    parser = add_parser(subparsers, "list", "show the arms and groups that NAME can be")
    _add_arms(parser)
    parser.set_defaults(run=run_study_list)


def run_study_list(args: argparse.Namespace) -> int:
    study = load_study(args.arms)
    width = max(map(len, [*study.arms, *study.groups]), default=0)
    print(f"arms ({args.arms}):")
    for arm in study.arms.values():
        cost = f"{arm.steps} steps" if arm.rl else "no RL"
        print(f"  {arm.name:{width}}  {arm.about} ({cost}, {arm.seeds} seeds)")
    print("groups:")
    for name, members in study.groups.items():
        print(f"  {name:{width}}  {', '.join(members)}")
    print("all: every arm")
    return 0


# -------------------- report


def add_study_report(subparsers: Subparsers) -> None:
    parser = add_parser(subparsers, "report", "make the tables from the logs", _REPORT)
    parser.add_argument(
        "--logs", type=Path, help="folder of the logs (default: data/runs/study of this clone)"
    )
    parser.set_defaults(run=run_study_report)


def run_study_report(args: argparse.Namespace) -> int:
    from sailrl_lite.study.report import write_report

    if args.logs is None:
        print(write_report(), end="")
    elif args.logs.is_dir():
        print(write_report(args.logs, args.logs / "claims.csv", None), end="")
    else:
        raise SailRLError(f"there is no folder {args.logs}; name one that `sailrl-lite study run` has filled")
    return 0


# -------------------- shared


def _add_seeds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, help="runs of each arm: 0, 1, ... (default: as the arm says)")


def _add_arms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arms", type=Path, default=ARMS_FILE, metavar="FILE", help="the arms, in a TOML file"
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    _add_arms(parser)
    parser.add_argument("--out", type=Path, default=Path("runs/study"), help="folder of what is begun")
    parser.add_argument(
        "--logs", type=Path,
        help="folder of the logs (default: data/runs/study of this clone; OUT/logs for another --arms)",
    )  # fmt: skip


def _runs(args: argparse.Namespace) -> list["Run"]:
    if args.seeds is not None and args.seeds < 1:
        raise SailRLError(f"seeds must be at least 1, not {args.seeds}")
    return load_study(args.arms).runs(args.names, args.seeds)


def _logs(args: argparse.Namespace) -> Path:
    from sailrl_lite.study.logs import LOGS

    if args.logs:
        return Path(args.logs)
    return LOGS if args.arms.resolve() == ARMS_FILE.resolve() else Path(args.out) / "logs"
