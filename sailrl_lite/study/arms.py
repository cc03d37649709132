"""The arms of the study as data: `arms.toml`, read and checked. An arm with a seed is a run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from sailrl_lite.config import SHIPPED, RLConfig, SFTConfig
from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml
from sailrl_lite.settings import Settings, as_texts

Config = TypeVar("Config", bound=Settings)
ARMS_FILE = Path(__file__).with_name("arms.toml")
TestSet = Literal["plain", "marked", "dressed"]
TEST_SETS: tuple[TestSet, ...] = ("plain", "marked", "dressed")
# What no arm may change: the world and its noise, what is rewarded, what is measured, and the statistics.
_FROZEN = (
    "world/*.py", "response.py", "decision.py", "rewards/components.py", "rewards/combinations.py",
    "study/evaluation.py", "study/statistics.py",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One way to train a policy.

    Attributes:
        about: what it is, in a few words.
        start: the name of the policy that RL starts from; "" is the shipped one.
        sft: how that policy is made; None for the shipped one.
        rl: the settings of RL, with seed 0; None where the policy is measured as it starts.
        seeds: how many runs.
        per_family: test problems of each family.
        tests: the sets of problems that the policy answers in the end: "plain"; "marked", with the shortcut's
            mark on every picture; "dressed", plain questions in mathematical words and the reverse.
        forced_direct: a direct answer is put into the policy's mouth when it is measured.
        greedy: it is measured at temperature 0 rather than 1.
        given: what the file says of it, its start and the budget, as it is written there.
    """

    name: str
    about: str
    start: str
    sft: SFTConfig | None
    rl: RLConfig | None
    seeds: int
    per_family: int
    tests: tuple[TestSet, ...]
    forced_direct: bool
    greedy: bool
    given: Mapping[str, Any]

    @property
    def steps(self) -> int:
        return self.rl.steps if self.rl else 0


@dataclass(frozen=True)
class Run:
    """An arm with a seed; `name` is that of its log."""

    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        return f"{self.arm.name}-{self.seed}"

    def settings(self) -> dict[str, Any]:
        """All that the outcome depends on, as it is written into the log."""
        arm = self.arm
        return {
            "start": asdict(arm.sft) if arm.sft else "shipped",
            "rl": asdict(arm.rl) | {"seed": self.seed} if arm.rl else None,
            "seed": self.seed,
            "per_family": arm.per_family,
            "tests": list(arm.tests),
            "forced_direct": arm.forced_direct,
            "greedy": arm.greedy,
        }

    @property
    def hash(self) -> str:
        """Names what the file says of this run and the frozen code; a log that has it need not be made again.

        Of what is written, not of all settings: a setting that later versions add leaves old logs valid.
        """
        text = json.dumps([self.arm.given, self.seed, frozen_hash()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Study:
    """All arms by name, the groups of arms that answer one question each, and the first seed of every arm."""

    arms: Mapping[str, Arm]
    groups: Mapping[str, tuple[str, ...]]
    first_seed: int = 0

    def runs(self, names: Sequence[str], seeds: int | None = None) -> list[Run]:
        """The runs of arms and groups, each once, all first seeds before all second ones.

        Args:
            names: of arms or groups; "all" is every arm.
            seeds: how many of each arm; None is as many as the arm says.

        Raises:
            SailRLError: a name that is neither.
        """
        chosen: dict[str, Arm] = {}
        for name in names:
            if name == "all":
                chosen |= self.arms
            elif name in self.arms:
                chosen[name] = self.arms[name]
            elif name in self.groups:
                chosen |= {arm: self.arms[arm] for arm in self.groups[name]}
            else:
                hint = suggest(name, ("all", *self.arms, *self.groups))
                raise SailRLError(f"unknown arm or group {name!r}; {hint}")
        counts = {arm.name: arm.seeds if seeds is None else seeds for arm in chosen.values()}
        return [
            Run(arm, self.first_seed + k)
            for k in range(max(counts.values(), default=0))
            for arm in chosen.values()
            if k < counts[arm.name]
        ]


def load_study(file: Path = ARMS_FILE) -> Study:
    """Read the arms of a file; its maps are for `sailrl_lite.study.regimes`.

    Raises:
        SailRLError: the file is missing or no TOML, or an entry of it is unknown or wrong; the message names
            the entry.
    """
    table = read_toml(file, "the arms")
    _check_names("the file", table, ("budget", "study", "starts", "arms", "groups", "maps"))
    shared = {"first_seed": 0, "seeds": 5, "per_family": 80} | table.get("study", {})
    _check_names("[study]", shared, ("first_seed", "seeds", "per_family"))
    starts = table.get("starts", {})
    policies = {name: _start(name, entry) for name, entry in starts.items()}
    arms = {}
    for name, entry in table.get("arms", {}).items():
        arms[name] = _arm(name, entry, starts, policies, table.get("budget", {}), shared)
    groups = {name: tuple(members) for name, members in table.get("groups", {}).items()}
    for group, members in groups.items():
        for member in members:
            if member not in arms:
                raise SailRLError(f"[groups] {group}: there is no arm {member!r}; {suggest(member, arms)}")
        if group in arms or group == "all":
            raise SailRLError(f"[groups] {group}: an arm or 'all' has this name; take another")
    return Study(arms, groups, shared["first_seed"])


def _start(name: str, entry: dict[str, Any]) -> SFTConfig:
    return _configured(f"[starts.{name}]", SFTConfig(), _said(entry))


def _arm(
    name: str,
    entry: dict[str, Any],
    starts: Mapping[str, dict[str, Any]],
    policies: Mapping[str, SFTConfig],
    budget: dict[str, Any],
    shared: dict[str, Any],
) -> Arm:
    where = f"[arms.{name}]"
    own = ("about", "start", "rl", "seeds", "tests", "forced_direct", "greedy")
    _check_names(where, entry, (*own, *(f.name for f in fields(RLConfig))))
    start, tests = entry.get("start", ""), tuple(entry.get("tests", ("plain",)))
    if start and start not in starts:
        raise SailRLError(f"{where} there is no start {start!r}; {suggest(start, starts)}")
    for test in tests:
        if test not in TEST_SETS:
            raise SailRLError(f"{where} there is no test set {test!r}; {suggest(test, TEST_SETS)}")
    seeds = entry.get("seeds", shared["seeds"])
    if not isinstance(seeds, int) or seeds < 1:
        raise SailRLError(f"{where} seeds must be at least 1, not {seeds!r}")
    settings = {key: value for key, value in entry.items() if key not in own}
    if entry.get("rl", True):
        rl = _configured(where, RLConfig(), budget | settings)
    elif settings:
        raise SailRLError(f"{where} has rl = false, so {next(iter(settings))!r} means nothing; leave it out")
    else:
        rl = None
    per_family, forced = shared["per_family"], entry.get("forced_direct", False)
    greedy = entry.get("greedy", False)
    given = {
        "start": _said(starts.get(start, {})),
        "rl": budget | _said(settings) if rl else None,
        "measured": [per_family, list(tests), forced, *(["greedy"] if greedy else [])],
    }
    return Arm(
        name,
        entry.get("about", ""),
        start,
        policies.get(start),
        rl,
        seeds,
        per_family,
        tests,
        forced,
        greedy,
        given,
    )


def _said(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "about"}


def _configured(where: str, config: Config, values: dict[str, Any]) -> Config:
    try:
        made = config.with_values(as_texts(values))
        made.check()
    except SailRLError as error:
        raise SailRLError(f"{where} {error}") from None
    return made


def _check_names(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in table:
        if name not in known:
            raise SailRLError(f"{where} has no entry {name!r}; {suggest(name, known)}")


@cache
def frozen_hash() -> str:
    """Names the frozen code and the shipped weights, so that runs of another world are told apart."""
    package = Path(__file__).parent.parent
    files = sorted(file for pattern in _FROZEN for file in package.glob(pattern))
    digest = hashlib.sha256()
    for file in [*files, SHIPPED / "model.safetensors"]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
