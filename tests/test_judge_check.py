"""judge-check: what the tricks flip, what the labelled set holds, the statistics, and what is written."""

import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import cohen_kappa_score

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.attacks import ATTACKS
from sailrl_lite.judges.check import ALL_THREE, causes, check, kappa
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.judges.labelled import FIRST_SEED, Labelled, labelled_set
from sailrl_lite.judges.noisy import NoisyJudge
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Scores, Verdict
from sailrl_lite.judges.tricks import TRICKS, Trick
from sailrl_lite.study.judge_check import PAPER_ROLLOUTS, project, run_check
from sailrl_lite.study.judge_report import markdown, overview
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import ERRORS
from sailrl_lite.world.verifier import verify

PASS, FAIL = Scores(1, 1, 1), Scores(0, 0, 0)
CAUSES = (NoVerdict("timeout"), NoVerdict("refusal", "no"))


@pytest.fixture(scope="module")
def traces() -> list[Labelled]:
    return labelled_set()


def said(logic: float, grounding: float, consistency: float) -> Verdict:
    return Verdict({"logic": logic, "grounding": grounding, "consistency": consistency})


def row(table: pd.DataFrame, dimension: str, by: str = "all", group: str = "all") -> pd.Series:
    chosen = (table["by"] == by) & (table["group"] == group) & (table["dimension"] == dimension)
    (found,) = [line for _, line in table[chosen].iterrows()]
    return found


# ---- tricks


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_trick_flips_just_what_it_says(trick: Trick) -> None:
    done = Counter[str]()
    for family in FAMILIES:
        for seed in range(30):
            problem = make_problem(family, FIRST_SEED - 1 - seed, "test")
            if made := trick(problem, random.Random(seed)):
                done[family] += 1
                found = verify(problem, *made)
                failed = tuple(d for d in DIMENSIONS if not getattr(found, d))
                assert failed == trick.flips, f"{problem.id}: {problem.question}\n{made[0]}\n\n{found}"
    assert done.total() >= 20, done


def test_there_are_tricks_enough_after_each_dimension() -> None:
    groups = Counter(trick.group for trick in TRICKS)
    assert groups.keys() == {*DIMENSIONS, "harmless"} and min(groups.values()) >= 3
    for trick in TRICKS:
        assert trick.group == "harmless" or trick.group in trick.flips


# ---- the labelled set


def test_the_set_is_large_balanced_and_fixed(traces: list[Labelled]) -> None:
    assert len(traces) >= 600
    assert set(Counter(trace.family for trace in traces).values()) == {len(traces) // len(FAMILIES)}
    assert len({trace.id for trace in traces}) == len(traces)
    sources = Counter(trace.source for trace in traces)
    assert sources.keys() == {"clean", "noised", "adversarial"}
    assert min(sources.values()) >= 0.2 * len(traces)
    for dimension in DIMENSIONS:
        for family in (*FAMILIES, None):
            passed = [getattr(t.truth, dimension) for t in traces if family in (None, t.family)]
            assert 0.2 <= np.mean(passed) <= 0.8, (dimension, family)
    assert labelled_set(100) == traces[:100]


def test_the_set_says_the_truth(traces: list[Labelled]) -> None:
    flips = {f"{trick.group}: {trick.name}": trick.flips for trick in TRICKS}
    flips |= {"clean": (), "slip": ("logic",), "misread": ("grounding",), "wrong_model": ("logic",)}
    flips |= {"missing": ("consistency",), "swapped": ("consistency",), "unsupported": ("grounding",)}
    for trace in traces:
        failed = tuple(d for d in DIMENSIONS if not getattr(trace.truth, d))
        if trace.name.startswith("attack: "):
            assert failed == DIMENSIONS, trace
        elif trace.name == "lucky":
            assert failed in (("logic", "consistency"), ("grounding", "consistency")), trace
        else:
            assert failed == flips[trace.name], trace
        problem = trace.case.problem
        assert problem and trace.case.question == problem.question
        assert isinstance(trace.case.image, Image.Image)
        assert problem.split == "test" and problem.seed >= FIRST_SEED


def test_every_error_trick_and_attack_is_in_the_set(traces: list[Labelled]) -> None:
    tricks = {f"{trick.group}: {trick.name}" for trick in TRICKS} | {f"attack: {kind}" for kind in ATTACKS}
    assert {trace.name for trace in traces} == {"clean", *ERRORS, *tricks}
    told = {name.split(":")[0] for name in tricks}
    for trace in traces:
        assert (trace.name in ERRORS) == (trace.source == "noised")
        assert (trace.name.split(":")[0] in told) == (trace.source == "adversarial")


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(SailRLError, match="at least 1 trace"):
        labelled_set(0)


# ---- statistics


def test_rates_worked_out_by_hand() -> None:
    # Logic: of 10 right ones 2 are failed, of 5 wrong ones 1 is passed. Grounding: all right, all passed.
    truths = [Scores(1, 1, 0)] * 10 + [Scores(0, 1, 1)] * 5
    opinions = [said(1, 1, 0)] * 8 + [said(0, 1, 1)] * 2 + [said(1, 1, 1)] + [said(0, 1, 0)] * 4
    table = check(truths, [opinions], {"half": ["a"] * 10 + ["b"] * 5})
    logic = row(table, "logic")
    counts = [logic[f"n_{name}"] for name in ("true_pass", "false_pass", "true_fail", "false_fail")]
    assert counts == [8, 1, 4, 2] and logic["traces"] == logic["verdicts"] == 15
    assert logic["accuracy"] == pytest.approx(12 / 15)
    assert logic["false_pass"] == pytest.approx(1 / 5)
    assert logic["false_fail"] == pytest.approx(2 / 10)
    assert logic["kappa"] == pytest.approx((12 / 15 - 120 / 225) / (1 - 120 / 225))
    # Wilson's interval for 2 of 10, as in textbooks.
    assert (logic["false_fail_low"], logic["false_fail_high"]) == pytest.approx((0.0567, 0.5098), abs=1e-4)
    assert row(table, "logic", "half", "a")["accuracy"] == pytest.approx(0.8)
    assert math.isnan(row(table, "logic", "half", "a")["false_pass"])
    assert row(table, "grounding")["accuracy"] == 1 and math.isnan(row(table, "grounding")["kappa"])
    assert row(table, "consistency")["false_fail"] == pytest.approx(4 / 5)
    whole = row(table, ALL_THREE)
    assert whole["accuracy"] == pytest.approx(8 / 15)
    assert math.isnan(whole["kappa"]) and math.isnan(whole["agreement"])


@pytest.mark.parametrize("seed", range(20))
def test_kappa_is_that_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 200))
    truth = rng.integers(0, 2, n)
    truth[:2] = 0, 1
    given = np.where(rng.random(n) < rng.random(), truth, rng.integers(0, 2, n))
    table = check(
        [Scores(int(t), int(t), int(t)) for t in truth], [[said(int(g), 1, 1 - int(g)) for g in given]]
    )
    for dimension, values in (("logic", given), ("grounding", np.ones(n)), ("consistency", 1 - given)):
        line = row(table, dimension)
        assert line["kappa"] == pytest.approx(cohen_kappa_score(truth, values), abs=1e-12)
        assert line["kappa_low"] <= line["kappa"] <= line["kappa_high"]


def test_intervals_hold_the_true_value_about_as_often_as_they_say() -> None:
    # A judge that is right at 0.85 of what is right and 0.7 of what is wrong, half each.
    expected = {"accuracy": 0.775, "false_pass": 0.3, "false_fail": 0.15, "kappa": 0.55}
    held = Counter[str]()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = rng.random(150) < 0.5
        given = np.where(truth, rng.random(150) < 0.85, rng.random(150) < 0.3)
        opinions = [said(int(g), 1, 1) for g in given]
        # Asked again it says the same, which must not make the intervals any narrower.
        table = check([Scores(int(t), 1, 1) for t in truth], [opinions, opinions], draws=300)
        line = row(table, "logic")
        held.update(n for n, v in expected.items() if line[f"{n}_low"] <= v <= line[f"{n}_high"])
    assert all(held[name] >= 88 for name in expected), held


def test_no_verdict_is_neither_a_pass_nor_a_fail() -> None:
    truths = [PASS, PASS, FAIL, FAIL]
    first = [said(1, 1, 1), CAUSES[0], CAUSES[1], said(0, 0, 0)]
    second = [said(1, 1, 1), said(1, 1, 1), CAUSES[1], None]
    table = check(truths, [first, second], {"kind": ["a", "b", "c", "d"]})
    for dimension in (*DIMENSIONS, ALL_THREE):
        line = row(table, dimension)
        assert (line["verdicts"], line["no_verdicts"], line["traces"]) == (4, 3, 4)
        assert line["accuracy"] == 1 and line["agreement"] == 1
        nothing = row(table, dimension, "kind", "c")
        assert (nothing["verdicts"], nothing["no_verdicts"]) == (0, 2)
        assert math.isnan(nothing["accuracy"]) and math.isnan(nothing["agreement"])
    assert causes([first, second]) == {"refusal": 2, "timeout": 1}


def test_agreement_is_about_pairs_with_verdicts() -> None:
    opinions = [
        [said(1, 1, 1), said(1, 0, 1), said(0, 0, 0), CAUSES[0]],
        [said(1, 1, 1), said(0, 0, 1), said(0, 0, 1), said(1, 1, 1)],
        [said(1, 1, 1), CAUSES[1], said(0, 0, 0), said(1, 1, 1)],
    ]
    table = check([PASS] * 4, opinions)
    # Pairs with both verdicts: 3 of the first trace, 1 of the second, 3 of the third, 1 of the last.
    assert row(table, "logic")["agreement"] == pytest.approx(7 / 8)
    assert row(table, "grounding")["agreement"] == 1
    assert row(table, "consistency")["agreement"] == pytest.approx(6 / 8)
    assert row(table, ALL_THREE)["agreement"] == pytest.approx(5 / 8)


def test_continuous_scores_are_cut_in_the_middle() -> None:
    table = check([PASS, FAIL], [[said(0.5, 0.49, 1.0), said(0.49, 0.5, 0.0)]])
    assert [row(table, d)["accuracy"] for d in DIMENSIONS] == [1, 0, 1]


@pytest.mark.parametrize("opinions", [[], [[]], [[], []]])
def test_nothing_at_all(opinions: list[list[Verdict]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        line = row(check([], opinions), "logic")
    assert line["traces"] == line["verdicts"] == 0 and math.isnan(line["accuracy"])


def test_kappa_of_one_class_is_unknown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(kappa(np.array([[5, 0, 0, 3], [0, 2, 1, 0], [0, 0, 0, 0]]))).all()


# ---- the whole check


class Scripted(Judge):
    """Says what it is told to, a verdict a case; stops after `limit` cases."""

    name = "scripted"

    def __init__(self, *script: Verdict | NoVerdict, limit: int = 10**9) -> None:
        self.script, self.limit, self.asked = script, limit, 0
        self.samples: list[int] = []

    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        start, self.asked = self.asked, self.asked + len(cases)
        self.samples += [sample] * len(cases)
        return [self.script[(start + k) % len(self.script)] for k in range(len(cases))]

    @property
    def stopped(self) -> str:
        return "its budget is spent" if self.asked >= self.limit else ""

    def usage(self) -> dict[str, float]:
        return {
            "calls": 3 * self.asked, "replies": 3 * self.asked, "cache_hits": 0, "latency_p50": 0.2,
            "tokens_in": 600 * self.asked, "tokens_out": 90 * self.asked, "cost": 0.001 * self.asked,
        }  # fmt: skip


def report_of(judge: Judge, out: Path, **options: object) -> dict:
    path = run_check(judge, out, bar=False, **options)  # type: ignore[arg-type]
    assert path == out / "judge-check.json"
    return json.loads(path.read_text())


def overall(report: dict, dimension: str) -> dict:
    return next(line for line in report["overall"] if line["dimension"] == dimension)


def test_the_exact_judge_is_exact(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = report_of(ExactJudge(), tmp_path)
    assert (report["judge"], report["asked"], report["no_verdicts"]) == ("exact", 1300, 0)
    for dimension in DIMENSIONS:
        line = overall(report, dimension)
        assert (line["accuracy"], line["kappa"], line["agreement"]) == (1, 1, 1)
        assert line["false_pass"] == line["false_fail"] == line["n_false_pass"] == line["n_false_fail"] == 0
        assert line["false_pass_high"] < 0.03
    assert overall(report, ALL_THREE)["accuracy"] == 1
    assert {line["group"] for line in report["family"]} == set(FAMILIES)
    assert report["usage"] == {} and report["paper"] is None and report["stopped"] == ""
    assert {path.name for path in tmp_path.iterdir()} == {
        "judge-check.json", "judge-check.md", "confusion.png", "traces.jsonl"
    }  # fmt: skip
    assert Image.open(tmp_path / "confusion.png").size[0] > 1000
    assert (tmp_path / "judge-check.md").read_text() == markdown(report)


def test_a_noisy_judge_is_measured_at_its_rates(tmp_path: Path) -> None:
    rates = {"logic": 0.1, "grounding": 0.3, "consistency": 0.5}
    judge = NoisyJudge(ExactJudge(), false_pass=rates, false_fail=0.2, seed=3)
    report = report_of(judge, tmp_path)
    for dimension, rate in rates.items():
        line = overall(report, dimension)
        assert line["false_pass_low"] <= rate <= line["false_pass_high"]
        assert line["false_fail_low"] <= 0.2 <= line["false_fail_high"]
        assert line["agreement"] == 1


def test_a_judge_that_passes_everything_knows_nothing(tmp_path: Path) -> None:
    report = report_of(Scripted(said(1, 1, 1)), tmp_path, repeats=1)
    for dimension in DIMENSIONS:
        line = overall(report, dimension)
        assert (line["kappa"], line["false_pass"], line["false_fail"]) == (0, 1, 0)
        assert line["agreement"] is None
    assert "| clean " in markdown(report) and "nan" not in markdown(report).lower()


def test_a_judge_without_any_verdict(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = report_of(Scripted(*CAUSES), tmp_path, size=40)
    assert report["verdicts"] == 0 and report["causes"] == {"timeout": 40, "refusal": 40}
    assert "no verdict: timeout 40, refusal 40." in overview(report)
    for line in (*report["overall"], *report["source"]):
        assert line["accuracy"] is None and line["verdicts"] == 0 and line["no_verdicts"] > 0
    assert "| timeout |    40 |" in (tmp_path / "judge-check.md").read_text()


def test_what_a_judge_costs(tmp_path: Path) -> None:
    judge = Scripted(said(1, 0, 1), CAUSES[0])
    judge.asked = 7  # used elsewhere before
    report = report_of(judge, tmp_path, size=100, repeats=3)
    assert judge.samples == [0] * 100 + [1] * 100 + [2] * 100 and report["verdicts"] == 150
    assert report["usage"]["calls"] == 900 and report["usage"]["latency_p50"] == 0.2
    assert report["paper"] == {
        "rollouts": 1_050_000, "calls": 6_300_000, "tokens_in": 1_260_000_000, "tokens_out": 189_000_000,
        "cost": 2100.0,
    }  # fmt: skip
    assert "1,050,000 rollouts" in markdown(report) and "$2,100.00" in markdown(report)
    assert report["seconds_per_case"]["p50"] <= report["seconds_per_case"]["p95"] <= report["seconds"]


def test_the_projection_counts_what_the_cache_saved() -> None:
    usage = {"replies": 10, "cache_hits": 30, "tokens_in": 1000, "tokens_out": 100, "cost": 0.5}
    found = project(usage, 40)  # one call a verdict, of 100 and 10 tokens and five cents
    assert found == {
        "rollouts": PAPER_ROLLOUTS, "calls": PAPER_ROLLOUTS, "tokens_in": 100 * PAPER_ROLLOUTS,
        "tokens_out": 10 * PAPER_ROLLOUTS, "cost": 0.05 * PAPER_ROLLOUTS,
    }  # fmt: skip
    assert project(usage | {"cost": 0}, 40)["cost"] is None
    assert (
        project(usage | {"replies": 0}, 40) is None and project({}, 40) is None and project(usage, 0) is None
    )


def test_each_trace_has_its_line(tmp_path: Path, traces: list[Labelled]) -> None:
    long = Verdict({"logic": 1, "grounding": 0, "consistency": 1}, {"grounding": "no " * 5000})
    report_of(Scripted(long, CAUSES[1]), tmp_path, size=131, repeats=2)
    lines = [json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [trace.id for trace in traces[:131]]
    assert lines[0]["truth"] == {"logic": 1, "grounding": 1, "consistency": 1}
    first, second = lines[0]["opinions"]
    assert first["scores"] == {"logic": 1, "grounding": 0, "consistency": 1}
    assert 0 < len(first["reasons"]["grounding"]) <= 500
    assert second == {"no_verdict": "refusal", "detail": "no"}
    assert {line["source"] for line in lines} == {"clean", "noised", "adversarial"}


def test_a_judge_that_stops_is_reported_on(tmp_path: Path) -> None:
    judge = Scripted(said(1, 1, 1), limit=130)
    report = report_of(judge, tmp_path, size=200)
    assert judge.asked < 200 and report["asked"] == report["verdicts"] == judge.asked
    assert report["no_verdicts"] == 0 and report["stopped"] == "its budget is spent"
    assert f"stopped after {judge.asked} of 400 opinions: its budget is spent" in overview(report)
    lines = (tmp_path / "traces.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["opinions"] == [None, None]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SailRLError("no such model")])
def test_an_interrupted_check_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    class Broken(Scripted):
        async def judge(
            self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
        ) -> list[Verdict | NoVerdict]:
            if self.asked:
                raise error
            return await super().judge(cases, continuous, sample)

    with pytest.raises(type(error)):
        run_check(Broken(said(1, 1, 1)), tmp_path, bar=False)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_done_is_said_at_once(tmp_path: Path) -> None:
    judge = Scripted(said(1, 1, 1))
    with pytest.raises(SailRLError, match="at least 1 repeat"):
        run_check(judge, tmp_path, repeats=0, bar=False)
    with pytest.raises(SailRLError, match="at least 1 trace"):
        run_check(judge, tmp_path, size=0, bar=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(SailRLError, match="cannot make the folder"):
        run_check(judge, tmp_path / "file" / "out", bar=False)
    assert judge.asked == 0


def test_continuous_is_passed_on_and_said(tmp_path: Path) -> None:
    report = report_of(ExactJudge(), tmp_path, size=65, repeats=1, continuous=True)
    assert report["settings"] == {"traces": 65, "repeats": 1, "continuous": True, "threshold": 0.5}
    assert "pass from 0.5 on" in markdown(report)
    lines = (tmp_path / "traces.jsonl").read_text().splitlines()
    scores = [json.loads(line)["opinions"][0]["scores"] for line in lines]
    assert any(0 < value < 1 for line in scores for value in line.values())
