"""A training run whose judge is an LLM behind real HTTP: verdicts, none at all, a spent budget, going on."""

import json

import pandas as pd
import pytest
from judge_server import JudgeServer, asked_keys, chat

from sailrl_lite.config import RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.runs import Interrupted

SMALL = dict(steps=2, prompts=2, rollouts=3, updates=1, epochs=1, save_every=1, families=("add", "angle"))


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def passing(number, request):
    return chat(json.dumps(dict.fromkeys(asked_keys(request), 1)))


def config(server, cache, **limits):
    settings = {"base_url": server.url, "cache": cache, "calls": "combined"} | limits
    return RLConfig(judge="llm:m," + ",".join(f"{k}={v}" for k, v in settings.items()), **SMALL)


def counts(out):
    return json.loads((out / "judge.json").read_text())


@pytest.mark.slow
def test_an_llm_judges_a_run_and_its_use_is_kept(tmp_path):
    with JudgeServer(passing) as server:
        train_rl(config(server, tmp_path / "cache"), tmp_path / "run", bar=False)
        used, metrics = counts(tmp_path / "run"), pd.read_csv(tmp_path / "run" / "metrics.csv")
        assert used["calls"] == len(server.requests) > 0 and used["no_verdicts"] == 0
        assert used["tokens_in"] == 700 * used["calls"]
        assert (metrics["unscored"] == 0).all() and (metrics["logic"].dropna() == 1).all()

        # The same run again asks about the same rollouts, and pays for none of them.
        train_rl(config(server, tmp_path / "cache"), tmp_path / "again", bar=False)
        assert counts(tmp_path / "again")["calls"] == 0 and len(server.requests) == used["calls"]
        first, again = (tmp_path / name / "metrics.csv" for name in ("run", "again"))
        assert first.read_bytes() == again.read_bytes()


@pytest.mark.slow
def test_a_spent_budget_stops_the_run_with_a_checkpoint_and_a_larger_one_goes_on(tmp_path):
    out = tmp_path / "run"
    with JudgeServer(passing) as server:
        with pytest.raises(Interrupted, match=r"the judge's budget of 4 calls is spent.*--resume"):
            train_rl(config(server, tmp_path / "cache", max_calls=4), out, bar=False)
        assert len(server.requests) == 4 and counts(out)["calls"] == 4
        assert (out / "trainer" / "checkpoint-1").exists()
        with pytest.raises(SailRLError, match="budget of 4 calls is spent; go on with --resume"):
            train_rl(config(server, tmp_path / "cache", max_calls=4), out, resume=True, bar=False)
        assert len(server.requests) == 4
        train_rl(config(server, tmp_path / "cache", max_calls=100), out, resume=True, bar=False)
    assert (out / "policy" / "model.safetensors").exists()
    assert 4 < counts(out)["calls"] == len(server.requests) <= 100


@pytest.mark.slow
def test_a_judge_that_says_nothing_stops_the_run_and_names_the_cause(tmp_path):
    with (
        JudgeServer(lambda number, request: chat("The reasoning looks fine to me.")) as server,
        pytest.raises(Interrupted, match="rollouts have no verdict, most often: no JSON"),
    ):
        train_rl(config(server, "", reasks=0), tmp_path / "run", bar=False)


def test_counts_that_cannot_be_read_are_said(tmp_path):
    (tmp_path / "judge.json").write_text("[]")
    with pytest.raises(SailRLError, match=r"judge\.json holds no counts; remove it"):
        get_judge("llm:m,base_url=http://localhost:9/v1,cache=").keep(tmp_path)
