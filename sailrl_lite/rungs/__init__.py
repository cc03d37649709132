"""The ladder: one file of values for each rung, and where each value of a run comes from.

A rung is a TOML file. Its sections [sft], [rl], [evaluate], [judge] and [plan] are settings of as many
configurations, [policy] and [engine] those of their parts of these names, and [why] says of a value what it
rests on. What a file leaves out has its usual value, which is the preview rung's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sailrl_lite.config import (
    EngineConfig,
    EvaluateConfig,
    JudgeConfig,
    PlanConfig,
    PolicyConfig,
    RLConfig,
    SFTConfig,
)
from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml
from sailrl_lite.settings import Settings, as_texts, check_type, flat_table

RUNGS = ("preview", "single-gpu", "node", "paper")
Config = TypeVar("Config", bound=Settings)
SECTIONS: dict[str, type[Settings]] = {
    "sft": SFTConfig,
    "rl": RLConfig,
    "evaluate": EvaluateConfig,
    "judge": JudgeConfig,
    "plan": PlanConfig,
}
_PARTS: dict[str, type[Settings]] = {"policy": PolicyConfig, "engine": EngineConfig}


@dataclass(frozen=True)
class Rung:
    """A rung of the ladder, as its file says it.

    name: of the ladder, or the path of the reader's own file.
    about: one line.
    values: "section.setting" to its value as text.
    why: the same names to what a value rests on.
    """

    name: str
    about: str
    values: Mapping[str, str]
    why: Mapping[str, str]


def read_rung(name: str) -> Rung:
    """The rung of this name, or of a TOML file of one's own.

    Raises:
        SailRLError: there is none, or its file has a wrong entry or value; the message names the entry and
            suggests the right one.
    """
    own_file = name.endswith(".toml")
    if not own_file and name not in RUNGS:
        raise SailRLError(f"unknown rung {name!r}; {suggest(name, RUNGS)}, or a .toml file of your own")
    file = Path(name) if own_file else Path(__file__).parent / f"{name}.toml"
    table = read_toml(file, "the values of a rung")
    known: dict[str, Any] = {}
    for section, kind in (SECTIONS | _PARTS).items():
        known |= {f"{section}.{setting}": usual for setting, usual in kind().flat().items()}
    about, why = table.pop("about", ""), table.pop("why", {})
    for section, entries in table.items():
        if section not in SECTIONS | _PARTS:
            raise SailRLError(f"{file} has no section {section!r}; {suggest(section, SECTIONS | _PARTS)}")
        if not isinstance(entries, dict):
            raise SailRLError(f"{file}: {section} is a section, so write [{section}] and its entries below")
    if not isinstance(why, dict):
        raise SailRLError(f"{file}: why is a section, so write [why] and its entries below")
    given, why = flat_table({name: part for name, part in table.items() if part}), flat_table(why)
    for entry in (*given, *why):
        if entry not in known:
            raise SailRLError(f"{file} has an entry {entry!r} that is none; {suggest(entry, known)}")
    try:
        check_type("about", about, "")
        for entry, value in given.items():
            check_type(entry, value, known[entry])
        for entry, text in why.items():
            check_type(f"why.{entry}", text, "")
    except SailRLError as error:
        raise SailRLError(f"{file}: {error}") from None
    rung = Rung(name, about, as_texts(given), why)
    for kind in SECTIONS.values():
        try:
            config_of(rung, kind).check()
        except SailRLError as error:
            raise SailRLError(f"{file}: {error}") from None
    return rung


def config_of(rung: Rung | str, kind: type[Config]) -> Config:
    """The configuration of one kind (`RLConfig` and so on) on a rung, or on the rung of this name."""
    rung = read_rung(rung) if isinstance(rung, str) else rung
    return kind().with_values(_own(rung, kind))


def origins(rung: Rung, kind: type[Settings], given: Mapping[str, str]) -> list[tuple[str, Any, str, str]]:
    """(name, value, where it comes from, what it rests on) of every value of a run.

    Args:
        given: what `--set` and other options say.
    """
    section = _section(kind)
    said, config = _own(rung, kind), config_of(rung, kind).with_values(dict(given))
    rows = []
    for name, value in config.flat().items():
        source = "given" if name in given else f"rung {rung.name}" if name in said else "default"
        reason = rung.why.get(f"{section}.{name}") or rung.why.get(name, "") if source != "given" else ""
        rows.append((name, value, source, reason))
    return rows


def _section(kind: type[Settings]) -> str:
    return next(section for section, known in SECTIONS.items() if known is kind)


def _own(rung: Rung, kind: type[Settings]) -> dict[str, str]:
    """The values of a rung that concern one kind of configuration, by their names in it."""
    section, known = _section(kind), kind().flat()
    shared = {name: text for name, text in rung.values.items() if name in known and "." in name}
    start = f"{section}."
    own = {name.removeprefix(start): text for name, text in rung.values.items() if name.startswith(start)}
    return shared | own
