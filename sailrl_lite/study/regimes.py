"""Maps of an effect against a knob of the regime: `regimes.toml`, measured on its logs and the study's.

They ask when an effect appears, with seeds that no claim was judged by: no verdicts, no correction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.logs import LOGS, Log, evaluations, read_logs
from sailrl_lite.study.measured import measured, scale
from sailrl_lite.study.statistics import interval, paired

REGIMES_FILE = Path(__file__).with_name("regimes.toml")
COLUMNS = (
    "map", "title", "a_is", "b_is", "knob", "point", "measure",
    "a", "a_low", "a_high", "b", "b_low", "b_high", "effect", "ci_low", "ci_high", "seeds",
)  # fmt: skip


@dataclass(frozen=True)
class Map:
    """Two arms, and their difference a - b, at each point of a knob.

    arms: what a and b are, in words.
    points: the knob's value, as text, to the arms a and b.
    show: the arguments of `measured` for each measure.
    """

    id: str
    title: str
    arms: tuple[str, str]
    knob: str
    points: Mapping[str, tuple[str, str]]
    show: tuple[Mapping[str, Any], ...]


def load_maps(file: Path = REGIMES_FILE) -> list[Map]:
    """Read the maps of a file.

    Raises:
        SailRLError: an arm at a point is neither one of the file nor of the study.
    """
    known = {**load_study().arms, **load_study(file).arms}
    maps = []
    for entry in read_toml(file, "the regimes").get("maps", []):
        for arm in (arm for pair in entry["points"].values() for arm in pair):
            if arm not in known:
                raise SailRLError(f"map {entry['id']}: there is no arm {arm!r}; {suggest(arm, known)}")
        points = {point: (a, b) for point, (a, b) in entry["points"].items()}
        given = {"points": points, "arms": tuple(entry["arms"]), "show": tuple(entry["show"])}
        maps.append(Map(**entry | given))
    return maps


def name_of(show: Mapping[str, Any]) -> str:
    """What is measured, in words.

    >>> name_of({"measure": "logic", "kinds": ["reasoning"], "tests": "marked"})
    'logic, reasoning (marked)'
    """
    name = ", ".join([show["measure"].replace("_", " "), *show.get("kinds", ())])
    return name + (f" ({show['tests']})" if "tests" in show else "")


def read_regimes(logs: Path = LOGS) -> pd.DataFrame:
    """The `regime_table` of the maps that ship, from the study's logs and those in `regimes` beside them."""
    return regime_table([*read_logs(logs), *read_logs(logs.with_name("regimes"))], load_maps())


def regime_table(logs: Sequence[Log], maps: Sequence[Map]) -> pd.DataFrame:
    """A row for each map, measure and point that two pairs of runs have reached, with `COLUMNS`.

    A single point is no map, and is left out.

    a, b and effect (a - b, paired by seed), each with its uncorrected 95% interval over the seeds that both
    have, are in points where they are shares.
    """
    table = evaluations(logs)
    rows: list[tuple[Any, ...]] = []
    for chart in maps:
        for show in chart.show:
            line = []
            for point, (a, b) in chart.points.items():
                ours, theirs = measured(table, a, **show), measured(table, b, **show)
                found = paired(ours, theirs)
                if found.seeds < 2:
                    continue
                both, factor = sorted(ours.keys() & theirs.keys()), scale(show["measure"])
                levels = [x for arm in (ours, theirs) for x in interval([arm[seed] for seed in both])]
                numbers = [factor * x for x in (*levels, found.mean, found.low, found.high)]
                where = (chart.id, chart.title, *chart.arms, chart.knob, point, name_of(show))
                line.append((*where, *numbers, found.seeds))
            rows += line if len(line) > 1 else []
    return pd.DataFrame(rows, columns=list(COLUMNS))
