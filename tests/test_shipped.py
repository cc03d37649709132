"""What ships under data/: the policy is as good, and as bad, as it is said to be, and RL did what is said."""

import json
from pathlib import Path

import pandas as pd
import pytest

from sailrl_lite.config import SHIPPED
from sailrl_lite.judges.check import check
from sailrl_lite.judges.labelled import labelled_set
from sailrl_lite.judges.prompt import screen
from sailrl_lite.judges.protocol import DIMENSIONS, Verdict
from sailrl_lite.judges.reply import read_reply
from sailrl_lite.study import spine
from sailrl_lite.study.arms import Run, load_study
from sailrl_lite.study.evaluation import evaluate, unseen_problems
from sailrl_lite.study.logs import read_logs
from sailrl_lite.study.worker import problems_of
from sailrl_lite.training.models import load_checkpoint

ROOT = Path(__file__).resolve().parent.parent
QUALITY = pd.DataFrame(json.loads((ROOT / "data" / "micro-sft-quality.json").read_text())["families"])
SPINE = pd.read_csv(ROOT / "data" / "runs" / "spine.csv")


def mean(measure, kind, frame=QUALITY):
    return frame.loc[frame["kind"] == kind, measure].mean()


def test_the_sft_policy_leaves_room_for_every_reward():
    assert QUALITY["format_rate"].mean() >= 0.98
    assert mean("accuracy", "perception") >= 0.90
    assert 0.35 <= mean("accuracy", "reasoning") <= 0.75
    assert mean("trigger_rate", "perception") > 0.15 and mean("trigger_rate", "reasoning") < 0.90
    for score in ("logic", "grounding", "consistency"):
        assert 0.5 <= mean(score, "reasoning") <= 0.9, score
    others = QUALITY[QUALITY["family"] != "exists"]
    assert (others["majority_guess"] < 0.25).all()


def test_the_stated_quality_is_that_of_the_shipped_weights():
    rows = evaluate(*load_checkpoint(SHIPPED), unseen_problems(40), bar=None, seed=11)
    for measure in ("accuracy", "trigger_rate", "cascade"):
        for kind in ("perception", "general", "reasoning"):
            measured = rows.loc[rows["kind"] == kind, measure].mean()
            assert abs(measured - mean(measure, kind)) < 0.12, (measure, kind)


def test_rl_did_what_the_readme_says():
    sft, rl = (SPINE[SPINE["stage"] == stage] for stage in ("sft", "rl"))
    assert SPINE["seed"].nunique() == 3
    assert rl["cascade"].mean() - sft["cascade"].mean() >= 0.20
    assert mean("trigger_rate", "perception", rl) < 0.15 and mean("trigger_rate", "reasoning", rl) > 0.90
    assert mean("accuracy", "reasoning", rl) > mean("accuracy", "reasoning", sft)
    assert mean("consistency", "reasoning", rl) >= mean("consistency", "reasoning", sft)


def test_the_readme_shows_the_table_that_ships():
    assert spine.markdown(SPINE) in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["README.md", "model.safetensors", "config.json"])
def test_the_policy_comes_with_its_card_and_is_small(name):
    assert 0 < (SHIPPED / name).stat().st_size < 8_000_000


def test_the_recorded_llm_judged_the_labelled_set_as_the_data_readme_says():
    rows = [json.loads(line) for line in (ROOT / "data" / "judge-transcript.jsonl").read_text().splitlines()]
    # One of every twelve; the one that `screen` answers by itself was not sent.
    traces = [trace for trace in labelled_set()[::12] if screen(trace.case) is None]
    written = [(trace.id, trace.case.think, trace.case.answer) for trace in traces]
    assert [(row["id"], row["think"], row["answer"]) for row in rows] == written
    verdicts = [read_reply(row["message"], row["finish_reason"], row["keys"]) for row in rows]
    assert len(verdicts) == 54 and all(isinstance(verdict, Verdict) for verdict in verdicts)
    table = check([trace.truth for trace in traces], [verdicts]).set_index("dimension")
    stated = (ROOT / "data" / "README.md").read_text()
    for name in DIMENSIONS:
        row = table.loc[name]
        right = row.n_true_pass + row.n_true_fail
        wrong, fine = row.n_false_pass + row.n_true_fail, row.n_true_pass + row.n_false_fail
        line = f"| {name} | {right} of 54 | {row.n_false_pass} of {wrong} | {row.n_false_fail} of {fine} |"
        assert f"{line} {row.kappa:.2f} |" in stated


def test_the_logs_of_the_study_are_of_this_world_and_these_arms():
    arms = load_study().arms
    for log in read_logs():
        run = Run(arms[log.head["arm"]], log.head["seed"])
        assert log.head["hash"] == run.hash, f"{run.name} is of other code or settings"
        assert len(log.metrics) == run.arm.steps
        asked = sum(len(problems_of(tests, run.arm.per_family)) for tests in run.arm.tests)
        assert log.evaluation["n"].sum() == asked
