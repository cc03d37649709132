"""The LLM judge within its limits: cache, budget, event loops, and a key that turns up nowhere."""

import asyncio
import gc
import json
import logging
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import diskcache
import pytest
from judge_server import JudgeServer, chat, faults, refuse, right
from test_judge_client import _alone, _simple, cases  # noqa: F401

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges import llm as llm_module
from sailrl_lite.judges.client import ChatClient, Endpoint
from sailrl_lite.judges.ledger import Ledger
from sailrl_lite.judges.llm import LLMJudge
from sailrl_lite.judges.outcome import Failure, Message, read_response
from sailrl_lite.judges.protocol import NoVerdict, Verdict


@pytest.fixture
def server():
    with JudgeServer(lambda number, request: right(request), latency=0.02) as running:
        yield running


def new_judge(server, cache=None, **settings):
    return LLMJudge(Endpoint("m", server.url, cache=cache and str(cache), **settings))


def judge(server, n, cache=None, **settings):
    """The verdicts on n cases, and the judge."""
    llm = new_judge(server, cache, **settings)
    return asyncio.run(llm.judge(cases(n))), llm


# Cache


def test_what_was_paid_for_is_not_asked_again(server, tmp_path):
    first, _ = judge(server, 5, tmp_path)
    again, llm = judge(server, 5, tmp_path)
    assert first == again and len(server.requests) == 15
    assert llm.usage()["calls"] == 0 and llm.usage()["cache_hits"] == 15 and llm.usage()["verdicts"] == 5


@pytest.mark.parametrize(
    "change", [{"sample": 1}, {"continuous": True}, {"model": "other"}, {"reply_tokens": 99}, {"question": 9}]
)
def test_another_question_is_asked_again(server, tmp_path, change):
    judge(server, 1, tmp_path)
    llm = LLMJudge(
        Endpoint(
            change.get("model", "m"),
            server.url,
            cache=str(tmp_path),
            reply_tokens=change.get("reply_tokens", 2048),
        )
    )
    asked = {name: change[name] for name in ("sample", "continuous") if name in change}
    asyncio.run(llm.judge(cases(1, change.get("question", 0)), **asked))
    assert len(server.requests) == 6


def test_a_reply_without_a_verdict_is_paid_once_too(tmp_path):
    with JudgeServer(lambda number, request: chat("hm")) as server:
        for calls in (9, 0):
            [found], llm = judge(server, 1, tmp_path)
            assert isinstance(found, NoVerdict) and llm.usage()["calls"] == calls


def test_a_failure_is_not_remembered(tmp_path):
    answers = [faults()["hang"]]
    with JudgeServer(lambda number, request: answers[0]) as server:
        [found], _ = judge(server, 1, tmp_path, timeout=0.1, patience=0.1)
        answers[0] = chat('{"logic": 1, "grounding": 1, "consistency": 1}')
        [other], _ = judge(server, 1, tmp_path)
    assert isinstance(found, NoVerdict) and isinstance(other, Verdict)


def test_the_same_case_many_times_is_asked_once(server):
    llm = new_judge(server)
    found = asyncio.run(llm.judge(cases(1) * 20))
    assert len(server.requests) == 3 and len(set(map(str, found))) == 1
    assert llm.usage()["verdicts"] == 20 and llm.usage()["calls"] == 3


@pytest.mark.parametrize("given_up", [0, 1])
def test_of_those_who_wait_for_one_call_any_can_be_cancelled(server, given_up):
    async def run():
        client = ChatClient(Endpoint("m", server.url, cache=None))
        tasks = [asyncio.create_task(client.ask(*_simple())) for _ in range(3)]
        await asyncio.sleep(0.01)
        tasks.pop(given_up).cancel()
        return await asyncio.gather(*tasks)

    assert all(isinstance(m, Message) for m in asyncio.run(run()))
    assert len(server.requests) <= 2


def corrupt(folder):
    (folder / "cache.db").write_bytes(b"no database at all" * 999)


def a_file_in_its_place(folder):
    folder.rmdir()
    folder.write_text("here is a file")


@pytest.mark.parametrize("damage", [corrupt, a_file_in_its_place])
def test_a_broken_cache_is_said_once_and_done_without(server, tmp_path, caplog, damage):
    folder = tmp_path / "cache"
    folder.mkdir()
    damage(folder)
    found, _ = judge(server, 20, folder)
    assert all(isinstance(v, Verdict) for v in found)
    assert [r.message for r in caplog.records if "cache" in r.message and "going on without" in r.message]
    assert len(caplog.records) == 1


def test_a_cache_in_the_home_of_nobody_is_done_without(server, caplog):
    found, _ = judge(server, 1, "~no-such-user/cache")
    assert isinstance(found[0], Verdict) and "going on without" in caplog.text


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_locked_cache_does_not_stop_a_run(server, tmp_path, caplog, when):
    judge(server, 1, tmp_path)
    llm = new_judge(server, tmp_path) if when == "meanwhile" else None
    lock = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    found = asyncio.run((llm or new_judge(server, tmp_path)).judge(cases(10, first=50)))
    lock.close()
    assert all(isinstance(v, Verdict) for v in found) and len(caplog.records) == 1
    assert time.monotonic() - started < 6


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_nothing_from_the_cache_is_unpickled(server, tmp_path):
    judge(server, 1, tmp_path)
    database = sqlite3.connect(tmp_path / "cache.db")
    bomb = pickle.dumps(Bomb())
    database.execute("UPDATE Cache SET mode = ?, value = ?", (diskcache.core.MODE_PICKLE, bomb))
    database.commit()
    database.close()
    found, _ = judge(server, 1, tmp_path)
    assert isinstance(found[0], Verdict) and len(server.requests) == 6


def test_a_judge_that_is_not_asked_touches_no_disk(server, tmp_path):
    judge(server, 0, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


# Budget


def test_max_calls_is_used_up_and_not_overspent(server, tmp_path):
    found, llm = judge(server, 100, tmp_path, max_calls=100)
    assert len(server.requests) == 100 == llm.usage()["calls"]
    assert llm.stopped == "the judge's budget of 100 calls is spent"
    assert {v.cause for v in found if isinstance(v, NoVerdict)} == {"budget"}
    assert sum(isinstance(v, Verdict) for v in found) == llm.usage()["verdicts"] > 10
    known = asyncio.run(
        llm.judge([c for c, v in zip(cases(100), found, strict=True) if isinstance(v, Verdict)])
    )
    assert all(isinstance(v, Verdict) for v in known)  # what is cached costs nothing


def test_retries_count_as_calls():
    with JudgeServer(lambda number, request: refuse(500)) as server:
        found, llm = judge(server, 30, max_calls=50)
    assert len(server.requests) == 50 and llm.stopped
    assert all(isinstance(v, NoVerdict) for v in found)


@pytest.mark.parametrize(
    ("limit", "spent"),
    [
        ({"max_tokens": 120_000}, lambda n: n * 750 / 120_000),
        ({"max_cost": 0.02, "price_in": 0.0, "price_out": 2.0}, lambda n: n * 2 * 50 / 1e6 / 0.02),
        ({"max_cost": 0.15, "price_in": 1.0, "price_out": 2.0}, lambda n: n * (700 + 2 * 50) / 1e6 / 0.15),
    ],
)
def test_tokens_and_money_are_never_overspent_and_nearly_used(server, limit, spent):
    _, llm = judge(server, 100, concurrency=64, **limit)
    assert 0.75 < spent(len(server.requests)) <= 1 and llm.stopped


def test_a_prompt_that_counts_for_more_than_expected_is_learned_from(server):
    heavy = {"prompt_tokens": 20_000, "completion_tokens": 50}
    with JudgeServer(lambda number, request: chat('{"logic": 1}', usage=heavy), latency=0.01) as other:
        judge(other, 60, concurrency=1, max_tokens=200_000)
        assert len(other.requests) * 20_050 <= 200_000


def test_a_reply_without_usage_is_charged_its_worst_case():
    with JudgeServer(lambda number, request: chat('{"logic": 1}', usage=None)) as server:
        client = ChatClient(Endpoint("m", server.url, cache=None, reply_tokens=1000))
        asyncio.run(client.ask(*_simple()))
    assert client.ledger.tokens_out == 1000 and client.ledger.tokens_in > 18


def test_a_resumed_run_goes_on_with_what_was_spent(server):
    _, llm = judge(server, 4, max_calls=20)
    resumed = new_judge(server, max_calls=20)
    resumed.ledger.add(llm.usage())
    assert resumed.usage() | {"latency_p50": 0, "latency_p95": 0} == llm.usage() | {
        "latency_p50": 0,
        "latency_p95": 0,
    }
    asyncio.run(resumed.judge(cases(10, first=100)))
    assert len(server.requests) == 20 and "20 calls" in resumed.stopped


def test_the_line_of_a_progress_bar():
    ledger = Ledger(Endpoint("m", price_in=1.0, price_out=1.0))
    ledger.add(
        {"calls": 1204, "replies": 1200, "cache_hits": 539, "tokens_in": 2_000_000, "tokens_out": 100_000}
    )
    ledger.add({"no_verdict: timeout": 2, "no_verdict: refusal": 1})
    assert str(ledger) == "1,204 calls, 31% cached, 2.1M tokens, $2.10, 3 no verdict"


# Concurrency and rates


@pytest.mark.parametrize("concurrency", [1, 7])
def test_concurrency_is_reached_and_not_exceeded(server, concurrency):
    judge(server, 20, concurrency=concurrency)
    assert server.most_in_flight == concurrency


def test_requests_a_minute(server):
    started = time.monotonic()
    judge(server, 20, rpm=1200)  # 20 a second, the first 100 at once
    assert time.monotonic() - started < 3
    found, _ = judge(server, 60, rpm=1200, concurrency=64, patience=1.5)
    assert all(isinstance(v, Verdict) for v in found)  # to wait for our own limit costs no patience
    first = server.requests[60].delivered
    assert server.requests[-1].delivered - first > 0.7


def test_a_batch_goes_on_under_the_limit_of_the_one_before(server):
    async def run():
        llm = new_judge(server, rpm=60, calls="combined")  # one a second, the first five at once
        started = time.monotonic()
        for k in range(6):
            await llm.judge(cases(1, first=k))
        return time.monotonic() - started

    assert asyncio.run(run()) > 0.7


def test_prompts_are_not_made_long_before_they_are_sent(monkeypatch):
    made = []
    monkeypatch.setattr(
        llm_module, "data_url", lambda *args: made.append(args) or "data:image/png;base64,AAAA"
    )

    async def run(server):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(new_judge(server, concurrency=8).judge(cases(1) * 10_000), 0.5)

    with JudgeServer(lambda number, request: faults()["hang"]) as server:
        asyncio.run(run(server))
    assert len(made) <= 8


# Event loops


def test_several_loops_one_after_another_and_at_once(server):
    llm = new_judge(server)
    found = [asyncio.run(llm.judge(cases(3, first=10 * k))) for k in range(3)]
    threads = [
        threading.Thread(target=lambda k=k: found.append(asyncio.run(llm.judge(cases(3, first=100 * k)))))
        for k in range(1, 4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and all(isinstance(v, Verdict) for batch in found for v in batch)
    assert llm.usage()["verdicts"] == 18 and len(server.requests) == 54


def test_cancellation_leaves_nothing_behind():
    async def run(server):
        llm = new_judge(server)
        task = asyncio.create_task(llm.judge(cases(20)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1
        assert not llm._client._places and not llm.ledger._reserved["calls"]

    with JudgeServer(lambda number, request: faults()["hang"]) as server:
        asyncio.run(run(server))


PROGRAM = """
import asyncio, sys
sys.path[:0] = {path!r}
from test_judge_client import cases
from sailrl_lite.judges.client import Endpoint
from sailrl_lite.judges.llm import LLMJudge
llm = LLMJudge(Endpoint("m", {url!r}, cache={cache!r}))
print("ready", flush=True)
for k in range({times}):
    asyncio.run(llm.judge(cases(5, first=10 * k)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_program_ends_without_noise(server, tmp_path, interrupted):
    code = PROGRAM.format(
        path=[str(Path(__file__).parent)],
        url=server.url,
        cache=str(tmp_path),
        times=10_000 if interrupted else 3,
    )
    # Interrupted while it connects, asyncio itself can lose a transport: a warning that is off by default.
    warned = [] if interrupted else ["-W", "always"]
    command = [sys.executable, *warned, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        if interrupted:
            time.sleep(1)
            program.send_signal(signal.SIGINT)
        noise = program.communicate(timeout=60)[1]
    for word in ("unclosed", "was never", "loop is closed", "was destroyed", "Exception ignored"):
        assert word not in noise
    assert program.returncode != 0 if interrupted else (program.returncode, noise) == (0, "")


# The key

KEY = "sk-planted-5f0c3ab8e77d"


def everything_in(error):
    """The texts of an exception, of all that it is chained to, and of what these hold."""
    seen, todo, texts = set(), [error], []
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        todo += [one.__cause__, one.__context__]
        for value in vars(one).values():
            headers = getattr(value, "headers", None) or getattr(
                getattr(value, "request", None), "headers", {}
            )
            texts.append(repr(list(headers.values())))
    return " ".join(texts)


SCENES = {
    "right": lambda request: right(request),
    "echo in a reply": lambda request: chat(f'{{"logic": 1}} by the way, you sent Bearer {KEY}'),
    "echo with escapes": lambda request: chat(json.dumps({"reason": KEY}).replace("-", "\\u002d")),
    "echo in a refusal": lambda request: refuse(401, f"Incorrect API key provided: {KEY}"),
    "echo in a step": lambda request: refuse(400, f"response_format is not for {KEY}"),
    "echo in a fault": lambda request: refuse(503, f"overloaded, {KEY}"),
    "echo in a filter": lambda request: refuse(400, f"flagged {KEY}", code="content_filter"),
    "hang": lambda request: faults()["hang"],
    "reset": lambda request: faults()["reset"],
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_planted_key_is_found_nowhere(tmp_path, monkeypatch, caplog, capsys, scene):
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    texts = []
    with JudgeServer(lambda number, request: SCENES[scene](request)) as server:
        endpoint = Endpoint("m", server.url, "MY_JUDGE_KEY", cache=str(tmp_path), timeout=0.2, patience=0.5)
        llm = LLMJudge(endpoint)
        try:
            texts.append(repr(asyncio.run(llm.judge(cases(2)))))
        except SailRLError as error:
            texts.append(everything_in(error))
    texts += [
        repr(endpoint),
        str(asdict(endpoint)),
        repr(llm),
        repr(vars(llm)),
        repr(llm.usage()),
        str(llm.ledger),
    ]
    texts += [record.getMessage() + repr(record.args) for record in caplog.records]
    texts += capsys.readouterr()
    gc.collect()
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored and not any(KEY.encode() in content for content in stored)
    assert KEY not in " ".join(texts)


def test_a_key_in_the_type_of_a_reply_is_not_shown():
    found = read_response(f"text/{KEY}", b"{}", KEY)
    assert isinstance(found, Failure) and "text/***" in found.detail


@pytest.mark.parametrize("key", [KEY + "\nX-Other: 1", KEY + "é", KEY + " and more"])
def test_a_key_that_is_none_is_refused_without_showing_it(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(SailRLError, match="OPENAI_API_KEY") as caught:
        new_judge(server)
    assert KEY not in everything_in(caught.value)


def test_a_key_is_sent_and_white_space_around_it_is_not(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    assert Endpoint("m").key() == KEY


def test_a_public_endpoint_needs_a_key_and_a_private_one_does_not():
    with pytest.raises(SailRLError, match="OPENAI_API_KEY"):
        Endpoint("m").check()
    with pytest.raises(SailRLError, match="GEMINI_KEY"):
        Endpoint("m", "https://generativelanguage.googleapis.com/v1beta/openai/", "GEMINI_KEY").check()
    for host in ("localhost:8000", "127.0.0.1:1", "10.0.0.7", "[::1]:80", "vllm:8000", "192.168.1.5"):
        Endpoint("m", f"http://{host}/v1").check()


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"base_url": f"http://user:{KEY}@localhost/v1"}, "base_url"),
        ({"base_url": f"http://localhost/v1?key={KEY}"}, "base_url"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "http://localhost:99999/v1"}, "base_url"),
        ({"calls": "both"}, "calls"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout": float("nan")}, "timeout"),
        ({"rpm": 0}, "rpm"),
        ({"tpm": 10**400}, "tpm"),
        ({"price_in": float("inf")}, "price_in"),
        ({"base_url": "http://local host/v1"}, "base_url"),
        ({"model": "m\ud800"}, "model"),
        ({"max_cost": 1.0}, "price_in"),
        ({"reasks": -1}, "reasks"),
    ],
)
def test_settings_out_of_range_are_refused(setting, named):
    with pytest.raises(SailRLError, match=named) as caught:
        replace(Endpoint("m", "http://localhost/v1"), **setting).check()
    assert "\n" not in str(caught.value) and KEY not in everything_in(caught.value)


def test_the_address_comes_from_the_environment_where_it_is_not_given(monkeypatch):
    assert Endpoint("m").address == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1234/v1/")
    assert Endpoint("m").address == "http://localhost:1234/v1"
