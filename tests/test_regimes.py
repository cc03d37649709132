"""Maps of an effect against a knob: on made-up logs with a known effect, and the ones that ship."""

import pandas as pd
import pytest

from sailrl_lite.errors import SailRLError
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.logs import Log
from sailrl_lite.study.regimes import COLUMNS, REGIMES_FILE, load_maps, read_regimes, regime_table


def log(arm: str, seed: int, accuracy: float) -> Log:
    cell = {
        "tests": "plain",
        "kind": "reasoning",
        "family": "add",
        "needs_thinking": True,
        "n": 10,
        "traces": 10,
    }
    return Log({"arm": arm, "seed": seed}, pd.DataFrame(), pd.DataFrame([cell | {"accuracy": accuracy}]))


def test_an_effect_is_read_at_each_point_and_paired_by_seed():
    (chart,) = [chart for chart in load_maps() if chart.id == "cascade-rate"]
    logs = []
    for arm, base, gain in (("slow", 0.5, 0.1), ("fast", 0.4, -0.2)):
        for seed in (100, 101):
            logs += [log(f"{arm}-additive", seed, base + seed / 1000)]
            logs += [log(f"{arm}-cascade", seed, base + seed / 1000 + gain + (seed - 100.5) / 100)]
    table = regime_table([*logs, log("fast-cascade", 102, 0.9)], [chart])
    assert tuple(table.columns) == COLUMNS and list(table["point"]) == ["1e-4", "1e-3"]
    assert table["effect"].tolist() == pytest.approx([10, -20]) and set(table["seeds"]) == {2}
    assert (table["a"] - table["b"]).tolist() == pytest.approx([10, -20])
    assert ((table["ci_low"] < table["effect"]) & (table["effect"] < table["ci_high"])).all()
    assert regime_table([x for x in logs if x.head["arm"].startswith("slow")], [chart]).empty  # one point


def test_the_arms_of_the_maps_have_seeds_that_no_claim_was_judged_by():
    study, regimes = load_study(), load_study(REGIMES_FILE)
    used = {run.seed for run in study.runs(["all"])}
    assert not used & {run.seed for run in regimes.runs(["all"])}
    assert not study.arms.keys() & regimes.arms.keys()
    mapped = {arm for chart in load_maps() for pair in chart.points.values() for arm in pair}
    assert set(regimes.arms) <= mapped


def test_an_unknown_arm_of_a_map_is_named(tmp_path):
    file = tmp_path / "regimes.toml"
    file.write_text(REGIMES_FILE.read_text().replace('["slow-cascade", ', '["slow-cascad", '))
    with pytest.raises(SailRLError, match="there is no arm 'slow-cascad'; did you mean 'slow-cascade'"):
        load_maps(file)


def test_the_shipped_maps_are_whole():
    table = read_regimes()
    assert set(table["map"]) == {chart.id for chart in load_maps()}
    assert (table["seeds"] >= 2).all()
