"""Statistics of the study, registered claims, and verdicts on made-up logs with a known effect."""

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sailrl_lite.errors import SailRLError
from sailrl_lite.paper import reported
from sailrl_lite.study.claims import COLUMNS, OPEN_COLUMNS, claim_table, open_table
from sailrl_lite.study.logs import LOGS, Log, evaluations, read_logs, write_log
from sailrl_lite.study.measured import measured
from sailrl_lite.study.registered import CLAIMS_FILE, Claim, load_claims, reported_text
from sailrl_lite.study.report import CLAIMS, MARKS, README, arm_row, claims_markdown, filled, write_report
from sailrl_lite.study.statistics import holm, interval, paired, sign_flip
from sailrl_lite.world.problems import FAMILIES

ZERO = dict.fromkeys(range(5), 0.0)

# ---- statistics


def test_an_interval_is_the_t_interval_and_says_nothing_of_one_seed():
    mean, low, high = interval([1, 2, 3, 4, 5])
    assert mean == 3 and (low, high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=1e-4)
    assert interval([2])[0] == 2 and math.isnan(interval([2])[1])
    assert all(math.isnan(x) for x in interval([]))


def test_arms_are_compared_by_the_seeds_that_both_have_a_value_for():
    found = paired({0: 0.5, 1: 0.7, 2: 0.6, 3: math.nan}, {1: 0.6, 2: 0.4, 3: 0.1, 4: 0.9})
    assert found.seeds == 2 and found.mean == pytest.approx(0.15)
    alone = paired({0: 0.5}, {0: 0.4, 1: 0.3})
    assert alone.seeds == 1 and math.isnan(alone.p) and math.isnan(alone.low)


def test_p_and_interval_agree_with_and_without_a_margin():
    rng = np.random.default_rng(0)
    sides = set()
    for center in (0, 0.005, 0.01, 0.02, 0.05) * 20:
        a = dict(enumerate(center + 0.01 * rng.standard_normal(5)))
        found = paired(a, ZERO)
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
        near = paired(a, ZERO, margin=0.02)
        ends = sorted((abs(near.low), abs(near.high)))
        within, beyond = ends[1] < 0.02, ends[0] > 0.02 and near.low * near.high > 0
        assert (near.p < 0.05) == (within or beyond)
        sides.add((within, beyond))
    assert sides == {(True, False), (False, True), (False, False)}


def test_seeds_that_agree_to_the_last_digit_are_no_certainty():
    assert paired(dict.fromkeys(range(5), 0.0025), ZERO).p > 0.05
    assert paired(dict.fromkeys(range(5), 1.0), ZERO).p < 1e-6


def test_the_sign_flip_value_is_exact():
    assert sign_flip([1, 2, 3, 4, 5]) == 2 / 32
    assert sign_flip([1, -1]) == 1
    assert sign_flip([3, -1, 1]) == 6 / 8  # of the sums 5, 3, 3, 1 and their negatives


def test_holm_counts_claims_without_a_test():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    adjusted = holm([0.01, 0.04, 0.03, math.nan])
    assert adjusted[:3] == pytest.approx([0.04, 0.09, 0.09]) and math.isnan(adjusted[3])


def test_the_test_is_right_where_no_effect_is_and_families_as_units_would_not_be():
    """Five seeds, five families; a seed's families share its policy, so their differences are correlated."""
    rng, draws = np.random.default_rng(1), 2000
    signs = rng.choice([-1, 1], (500, 25))
    by_seed, by_family, covered = 0, 0, 0
    for _ in range(draws):
        cells = 0.015 * rng.standard_normal((5, 1)) + 0.03 * rng.standard_normal((5, 5))
        differences = cells.mean(1)
        by_seed += paired(dict(enumerate(differences)), ZERO).p < 0.05
        by_family += np.mean(np.abs(signs @ cells.ravel()) >= abs(cells.sum())) < 0.05
        low, high = np.quantile(rng.choice(differences, (500, 5)).mean(1), [0.025, 0.975])
        covered += low <= 0 <= high
    assert 0.035 < by_seed / draws < 0.065
    assert by_family / draws > 0.1
    assert 0.8 < covered / draws < 0.88  # the percentile bootstrap that the module's docstring speaks of


def test_few_false_claims_among_forty_without_effect():
    rng, draws = np.random.default_rng(2), 300
    wrong = 0
    for _ in range(draws):
        shared = rng.standard_normal(5)  # claims about the same arm are not independent
        p = [paired(dict(enumerate(0.02 * (shared + rng.standard_normal(5)))), ZERO).p for _ in range(40)]
        wrong += min(holm(p)) < 0.05
    assert wrong / draws < 0.08


# ---- what is registered


def test_every_table_and_figure_has_a_claim_and_every_claim_its_figures():
    claims, questions = load_claims()
    artifacts = {*(f"table{k}" for k in range(1, 11)), "figure4", "figure5"}
    assert {claim.artifact for claim in claims} == artifacts
    assert {claim.artifact for claim in claims if not claim.untestable} == artifacts
    assert len({claim.id for claim in claims}) == len(claims)
    assert len({question.id for question in questions}) == len(questions)
    assert all(reported_text(claim) for claim in claims)


def test_what_the_paper_reports_is_said_with_its_figures():
    texts = {claim.id: reported_text(claim) for claim in load_claims()[0]}
    assert texts["t1-rl"] == "+7.2 points (average 52.1 → 59.3)"
    assert texts["f4-consistency-falls"] == "-0.05 (consistency 0.85 → 0.80)"
    assert texts["t8-logic"] == "MathVision +0.4, LogicVista -0.5, MMMU -0.3 points"
    assert reported("table3", "answer-only", "MathVision", "accuracy_pct") == 47.3
    with pytest.raises(SailRLError, match="no figure for table3, answer-only, MathVision, tokens"):
        reported("table3", "answer-only", "MathVision", "tokens")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('a = "sft"', 'a = "stf"', "claim t1-sft: there is no arm 'stf'; did you mean 'sft'"),
        ('expect = "higher"', 'expect = "better"', "claim t1-sft: needs a measure, and for expect one of"),
        ('expect = "higher"', 'expect = "equal"', "claim t1-sft: a margin above 0"),
        ('measure = "accuracy"', 'mesure = "accuracy"', "has no entry 'mesure'; did you mean 'measure'"),
        ('"SAIL-VL2-8B-LongCoT"', '"SAIL-VL3"', "no figure for table1, SAIL-VL3, average"),
        ('families = ["exists"]', 'families = ["exist"]', "t2-hallucination: there is no family 'exist'"),
        ('statement = "RL with', 'note = "RL with', "claim t1-rl lacks the entry 'statement'"),
        ('reference = "kl-0"', 'reference = "cascade"', "question kl: name a group of arms.toml"),
        ("[[claim]]", "[[claim", "is no TOML"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, old, new, message):
    file, text = tmp_path / "claims.toml", CLAIMS_FILE.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(SailRLError, match=message) as error:
        load_claims(file)
    assert "\n" not in str(error.value)


# ---- verdicts

Effect = Callable[[str, int], float]  # of a kind and a seed
LEVELS = {"accuracy": 0.5, "trigger_rate": 0.5, "judging": 0.7, "format_rate": 0.9, "thinking": 0.6,
          "cascade": 0.4, "logic": 0.6, "grounding": 0.6, "consistency": 0.8, "sound": 0.5, "lucky": 0.1,
          "tokens": 20.0}  # fmt: skip


def made_up(arm: str, seed: int, effects: Mapping[str, Effect], curve: float = 0.0) -> Log:
    """A log of an arm whose measures are `LEVELS` plus effects, and noise of 1 point a family."""
    rng = np.random.default_rng([seed, *arm.encode()])
    rows = []
    for name, family in FAMILIES.items():
        row = {
            "tests": "plain",
            "kind": family.kind,
            "family": name,
            "needs_thinking": True,
            "n": 80,
            "traces": 40,
        }
        for measure, level in LEVELS.items():
            noise = 0.01 * rng.standard_normal()
            row[measure] = level + effects.get(measure, lambda kind, seed: 0.0)(family.kind, seed) + noise
        rows.append(row)
    steps = np.arange(1, 21)
    metrics = pd.DataFrame(
        {"step": steps, "true_consistency": 0.8 + curve * steps / 20 + 0.005 * rng.standard_normal(20)}
    )
    return Log({"arm": arm, "seed": seed}, metrics, pd.DataFrame(rows))


def logs_of(
    tmp_path, arms: Mapping[str, Mapping[str, Effect]], seeds: int = 5, curve: float = 0.0
) -> list[Log]:
    for arm, effects in arms.items():
        for seed in range(seeds):
            write_log(made_up(arm, seed, effects, curve), tmp_path / f"{arm}-{seed}.json")
    return read_logs(tmp_path)


def a_claim(**changes: object) -> Claim:
    """Cascade is more accurate on reasoning than additive, unless changed."""
    claim = next(claim for claim in load_claims()[0] if claim.id == "t6-reasoning")
    return replace(claim, **changes)  # type: ignore[arg-type]


def verdict(logs: list[Log], **changes: object) -> pd.Series:
    return claim_table(logs, [a_claim(**changes)]).iloc[0]


def by(points: float) -> dict[str, Effect]:
    """So many points of accuracy on reasoning, and as many less on perception."""
    return {"accuracy": lambda kind, seed: points / 100 * {"reasoning": 1, "perception": -1}.get(kind, 0)}


@pytest.mark.parametrize(
    ("points", "changes", "expected"),
    [
        (8, {}, "reproduced"),
        (-8, {}, "opposite"),
        (0, {}, "not reproduced"),
        (-8, {"expect": "lower"}, "reproduced"),
        (8, {"kinds": ("perception",)}, "opposite"),
        (8, {"kinds": ("reasoning",), "b_kinds": ("perception",)}, "reproduced"),
        (0, {"expect": "equal", "margin": 3.0}, "reproduced"),
        (8, {"expect": "equal", "margin": 3.0}, "opposite"),
        (3, {"expect": "equal", "margin": 3.0}, "not reproduced"),
        (0, {"expect": "not lower", "margin": 3.0}, "reproduced"),
        (8, {"expect": "not lower", "margin": 3.0}, "reproduced"),
        (-8, {"expect": "not lower", "margin": 3.0}, "opposite"),
        (-3, {"expect": "not lower", "margin": 3.0}, "not reproduced"),
    ],
)
def test_a_planted_effect_gets_its_verdict(tmp_path, points, changes, expected):
    row = verdict(logs_of(tmp_path, {"cascade": by(points), "additive": {}}), **changes)
    assert row["verdict"] == expected and row["seeds"] == "5"
    assert float(row["ci_low"]) < float(row["ours"]) < float(row["ci_high"])
    if not changes.get("b_kinds") and changes.get("kinds") != ("perception",):
        assert float(row["ours"]) == pytest.approx(points, abs=1.5)


def test_an_effect_that_varies_from_seed_to_seed_is_not_clear(tmp_path):
    """Eight points on average as well, but the families of a seed move together."""
    swings = {"accuracy": lambda kind, seed: 0.08 + 0.1 * (seed - 2)}
    row = verdict(logs_of(tmp_path, {"cascade": swings, "additive": {}}))
    assert row["verdict"] == "not reproduced" and row["why"].endswith("the interval of 5 seeds includes 0")


def test_an_interval_beyond_both_margins_says_nothing_of_equality(tmp_path):
    swings = {"accuracy": lambda kind, seed: 0.1 * (seed - 2)}
    row = verdict(logs_of(tmp_path, {"cascade": swings, "additive": {}}), expect="equal", margin=3.0)
    assert float(row["ci_low"]) < -3 and float(row["ci_high"]) > 3
    assert row["why"].endswith("the interval of 5 seeds includes the margin of 3")


def test_the_correction_counts_all_testable_claims(tmp_path):
    logs = logs_of(tmp_path, {"cascade": by(1.5), "additive": {}})
    alone = claim_table(logs, [a_claim()]).iloc[0]
    others = [a_claim(id=f"other-{k}", a="continuous") for k in range(60)]
    beside = claim_table(logs, [a_claim(), *others, a_claim(id="never", untestable="too small")]).iloc[0]
    assert alone["verdict"] == "reproduced"
    assert float(beside["p_adjusted"]) == pytest.approx(61 * float(alone["p_adjusted"]), rel=0.1)
    assert beside["verdict"] == "not reproduced"
    assert beside["why"] == "as claimed, but not clear after correction for 61 claims"


def test_missing_runs_are_said_and_a_note_is_added(tmp_path):
    for seeds in (0, 1):
        row = verdict(logs_of(tmp_path, {"cascade": {}, "additive": {}}, seeds), note="see below")
        assert row["verdict"] == "untestable here" and row["ours"] == "" and row["p_adjusted"] == ""
        assert row["why"] == "fewer than two seeds of cascade and additive have run so far; see below"
    assert verdict([], untestable="too small")["why"] == "too small"
    logs = logs_of(tmp_path, {"cascade": by(8), "additive": {}}, 3)
    assert verdict([*logs, made_up("cascade", 7, {})])["seeds"] == "3"


def test_a_curve_is_compared_with_its_own_start(tmp_path):
    changes = {"curve": True, "measure": "true_consistency", "expect": "lower", "a": "answer-only", "b": ""}
    row = verdict(logs_of(tmp_path, {"answer-only": {}}, curve=-0.2), **changes)
    assert row["verdict"] == "reproduced" and float(row["ours"]) == pytest.approx(-15, abs=1)


def test_quality_is_a_mean_over_traces_and_tokens_are_relative_to_base(tmp_path):
    log = made_up("cascade", 0, {})
    log.evaluation["traces"] = [0] * 12 + [7]
    log.evaluation["logic"] = [math.nan] * 12 + [1.0]
    write_log(log, tmp_path / "cascade-0.json")
    twice = {"tokens": lambda kind, seed: 20.0}
    table = evaluations(logs_of(tmp_path, {"always-think": twice, "base": {}}, 2))
    assert measured(table, "cascade", "logic") == {0: 1.0}
    assert measured(table, "cascade", "logic", ("perception",)) == {}
    relative = measured(table, "always-think", "relative_tokens")
    assert list(relative) == [0, 1] and list(relative.values()) == pytest.approx([2, 2], abs=0.01)


# ---- the report


def test_the_report_is_the_same_bytes_for_the_same_logs(tmp_path):
    logs, readme = tmp_path / "logs", tmp_path / "README.md"
    logs_of(logs, {"cascade": by(8), "additive": {}, "base": {}, "sft": {}})
    readme.write_text(f"before\n{MARKS[0]}\nlast year\n{MARKS[1]}\nafter\n", "utf-8")
    text = write_report(logs, tmp_path / "claims.csv", readme)
    files = [tmp_path / "claims.csv", tmp_path / "open.csv", readme]
    first = [file.read_bytes() for file in files]
    assert write_report(logs, tmp_path / "claims.csv", readme) == text
    assert [file.read_bytes() for file in files] == first

    rows = list(csv.DictReader(first[0].decode().splitlines()))
    assert tuple(rows[0]) == COLUMNS and len(rows) == len(load_claims()[0])
    assert {row["verdict"] for row in rows} <= {"reproduced", "not reproduced", "opposite", "untestable here"}
    assert next(row["verdict"] for row in rows if row["id"] == "t6-reasoning") == "reproduced"
    shown = first[2].decode()
    assert shown.startswith("before\n") and shown.endswith("after\n") and "last year" not in shown
    assert "| Table 6 | The cascade is more accurate on reasoning" in shown and "## table6" in text


def test_a_readme_without_a_place_for_the_table_is_named(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("nothing\n", "utf-8")
    with pytest.raises(SailRLError, match="has no lines <!-- claims --> and"):
        write_report(tmp_path / "none", tmp_path / "claims.csv", readme)
    assert not (tmp_path / "claims.csv").exists()


def test_an_arm_row_shows_means_and_half_intervals(tmp_path):
    logs = logs_of(tmp_path, {"cascade": by(20), "base": {}})
    row = arm_row(logs, "cascade")
    assert row["runs"] == "5" and row["accuracy reasoning"].startswith(("69.", "70.")) and "±" in row["lucky"]
    assert row["relative tokens"].startswith("1.00 ±")
    assert arm_row(logs, "sft") == {}


def test_open_questions_show_the_difference_to_their_reference(tmp_path):
    logs = logs_of(tmp_path, {"cascade": {}, "additive": by(10)}, 3)
    table = open_table(logs, [q for q in load_claims()[1] if q.id == "joining"])
    assert tuple(table.columns) == OPEN_COLUMNS and set(table["arm"]) == {"cascade", "additive"}
    rows = table[table["measure"] == "accuracy, reasoning"].set_index("arm")
    assert rows.loc["cascade", "says"] == "the reference"
    assert (
        rows.loc["additive", "says"].startswith(("+9.", "+10."))
        and "no clear" not in rows.loc["additive", "says"]
    )


def test_the_shipped_tables_are_what_the_shipped_logs_give(tmp_path):
    write_report(LOGS, tmp_path / "claims.csv", None)
    for name in ("claims.csv", "open.csv", "regimes.csv"):
        assert (tmp_path / name).read_text("utf-8") == CLAIMS.with_name(name).read_text("utf-8")
    text = README.read_text("utf-8")
    assert filled(text, claims_markdown(claim_table(read_logs(), load_claims()[0])), README) == text
