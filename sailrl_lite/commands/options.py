"""Options that several subcommands share."""

import argparse
from pathlib import Path
from typing import Any, TypeVar

from sailrl_lite.config import EvaluateConfig, JudgeConfig, PlanConfig, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import JUDGES
from sailrl_lite.rewards import REWARDS
from sailrl_lite.rungs import RUNGS, config_of
from sailrl_lite.settings import Settings

Subparsers = Any  # argparse's own name for it is private
Config = TypeVar("Config", RLConfig, SFTConfig, JudgeConfig, EvaluateConfig, PlanConfig)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Names a default where there is one to name."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        named = action.default not in (None, "", []) and action.default is not False
        return super()._get_help_string(action) if named else action.help


def add_parser(subparsers: Subparsers, name: str, help: str, more: str = "") -> argparse.ArgumentParser:
    return subparsers.add_parser(
        name, help=help, description=f"{help[0].upper()}{help[1:]}. {more}",
        formatter_class=_Help,
    )  # fmt: skip


def add_run_options(
    parser: argparse.ArgumentParser, out: str, config: type[RLConfig | SFTConfig | JudgeConfig]
) -> None:
    usual = config()
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of the run")
    parser.add_argument("--seed", type=int, help=f"of data, sampling and weights (default: {usual.seed})")
    parser.add_argument("--steps", type=int, help=f"training steps (default: {usual.steps}, or the rung's)")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run in --out, with its settings"
    )
    add_rung_options(parser, config)
    add_quiet(parser)


def add_rung_options(parser: argparse.ArgumentParser, config: type[Settings]) -> None:
    add_values_of_rung(parser, f"another value of: {', '.join(config().flat())}")


def add_values_of_rung(parser: argparse.ArgumentParser, settings: str) -> None:
    """--rung, and --set, of which `settings` says what it can set."""
    parser.add_argument(
        "--rung", default="preview", help=f"of the ladder: {', '.join(RUNGS)}, or a .toml file of your own"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=settings)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", help="a file of curated rows to learn from (default: the micro-world)")


def add_rl_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", help="folder of the SFT policy (default: the shipped one)")
    parser.add_argument("--reward", help=f"one of {', '.join(REWARDS)} (default: {RLConfig().reward})")
    parser.add_argument("--judge", help=f"{JUDGES} (default: {RLConfig().judge})")


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """The policy that answers, and how it is sampled."""
    parser.add_argument("--checkpoint", default="", help="folder of the policy (default: the shipped one)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of sampling; 0 is greedy")
    parser.add_argument("--seed", type=int, default=0, help="of sampling, and of intervals")


def configured(args: argparse.Namespace, kind: type[Config], *names: str) -> Config:
    """The configuration of a run: that of its rung, or of the run to go on with, and what is asked for.

    `names` are the options that are settings, too; --set has any of them.
    """
    config = config_of(args.rung, kind)
    file = args.out / "config.json" if getattr(args, "resume", False) else None
    if file and file.is_file():
        try:
            config = kind.from_json(file.read_text(encoding="utf-8", errors="replace"))
        except SailRLError as error:
            raise SailRLError(f"{file}: {error}; name another --out") from None
    return config.with_values(given(args, *names))


def given(args: argparse.Namespace, *names: str) -> dict[str, str]:
    """What options of these names, and --set, say of settings."""
    values = {name: str(getattr(args, name)) for name in names if getattr(args, name) is not None}
    return values | read_settings(args.set)


def read_settings(pairs: list[str]) -> dict[str, str]:
    """The KEY=VALUE texts of --set, taken apart."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SailRLError(f"--set takes KEY=VALUE, not {pair!r}")
        values[key.strip()] = value.strip()
    return values
