"""The LLM judge against the scripted server: every fault, every refusal, every handed reply."""

import asyncio
import email.utils
import json
import logging
import time
from pathlib import Path

import pytest
import tenacity
from judge_server import (
    Action,
    JudgeServer,
    asked_keys,
    case_of,
    chat,
    faults,
    pictured,
    refuse,
    right,
    written,
)
from PIL import Image

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges import client as client_module
from sailrl_lite.judges import llm as llm_module
from sailrl_lite.judges.client import ChatClient, Endpoint
from sailrl_lite.judges.llm import LLMJudge
from sailrl_lite.judges.protocol import DIMENSIONS, Case, NoVerdict, Verdict

PATH = Path(__file__).parent / "cases/judge_replies.jsonl"
REPLIES = [json.loads(line) for line in PATH.read_text("utf-8").splitlines()]
ALL_ONE = json.dumps(dict.fromkeys(DIMENSIONS, 1))


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No key, address or proxy of the surroundings; and no long waits between tries."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(client_module, "_BACKOFF", tenacity.wait_fixed(0.01))


def cases(n, first=0):
    """Cases that the server's `right` knows how to judge."""
    picture = Image.new("RGB", (56, 56), "red")
    return [
        Case(f"case {i}: how many?", "two and two is four", "4", picture) for i in range(first, first + n)
    ]


def judge(server, n=1, **settings):
    """The verdicts on n cases, and the judge."""
    llm = LLMJudge(Endpoint("m", server.url, cache=None, **settings))
    return asyncio.run(llm.judge(cases(n))), llm


def first_then_right(action):
    """The action once for each thing asked, the right scores afterwards."""
    seen = set()

    def script(number, request):
        what = (case_of(request), *asked_keys(request))
        if what in seen:
            return right(request)
        seen.add(what)
        return action

    return script


# What is sent


def test_separate_calls_ask_for_one_score_each_with_one_and_the_same_picture(monkeypatch):
    encoded = []
    real = llm_module.data_url
    monkeypatch.setattr(llm_module, "data_url", lambda *args: encoded.append(args) or real(*args))
    with JudgeServer(lambda number, request: right(request)) as server:
        [verdict], llm = judge(server)
    assert isinstance(verdict, Verdict) and set(verdict.values) == set(DIMENSIONS)
    assert sorted(asked_keys(r.body)[0] for r in server.requests) == sorted(DIMENSIONS)
    assert len({url for r in server.requests for url in pictured(r.body)}) == 1
    assert len(encoded) == 1
    assert all("two and two is four" in written(r.body) and r.body["model"] == "m" for r in server.requests)
    assert llm.usage()["calls"] == 3 and llm.usage()["tokens_in"] == 2100 and llm.usage()["verdicts"] == 1


def test_a_combined_call_asks_once():
    with JudgeServer(lambda number, request: chat(ALL_ONE)) as server:
        [verdict], _ = judge(server, calls="combined")
    assert verdict.values == dict.fromkeys(DIMENSIONS, 1)
    assert [asked_keys(r.body) for r in server.requests] == [list(DIMENSIONS)]


def test_a_case_without_picture_and_one_without_content():
    llm_cases = [Case("case 1: why?", "two and two is four", "4"), Case("case 2: why?", ":", "4")]
    with JudgeServer(lambda number, request: right(request)) as server:
        llm = LLMJudge(Endpoint("m", server.url, cache=None))
        shown, empty = asyncio.run(llm.judge(llm_cases))
    assert isinstance(shown, Verdict) and empty.values == dict.fromkeys(DIMENSIONS, 0)
    assert len(server.requests) == 3 and not any(pictured(r.body) for r in server.requests)


# What comes back


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply["id"])
def test_handed_replies(reply):
    answer = chat(None, finish_reason=reply["finish_reason"], message=reply["message"])
    with JudgeServer(lambda number, request: answer) as server:
        [found], _ = judge(server, calls="combined", reasks=1)
    if reply["expect"] == "no_verdict":
        assert isinstance(found, NoVerdict) and len(server.requests) == 2
    else:
        assert found.values == reply["expect"] and len(server.requests) == 1


@pytest.mark.parametrize("name", faults())
def test_a_fault_costs_one_try(name):
    with JudgeServer(first_then_right(faults()[name])) as server:
        [found], _ = judge(server, timeout=0.4)
    assert isinstance(found, Verdict)
    assert len(server.requests) == 2 * 3


CAUSES = {
    **dict.fromkeys(("429", "429 with Retry-After"), "rate limit"),
    **dict.fromkeys(("500", "503"), "server error"),
    **dict.fromkeys(("hang", "drip"), "timeout"),
    **dict.fromkeys(("reset", "truncated"), "connection"),
    **dict.fromkeys(("wrong type", "bad UTF-8", "no JSON", "no completion", "no choices"), "bad reply"),
    "the model's JSON is invalid": "bad reply",
    "prose": "no JSON",
    "missing key": "no JSON",
    "half": "bad score",
    "cut off": "cut off",
}


@pytest.mark.parametrize("name", faults())
def test_a_fault_that_stays_is_no_verdict_with_its_cause(name):
    with JudgeServer(lambda number, request: faults()[name]) as server:
        started = time.monotonic()
        [found], llm = judge(server, timeout=0.2, patience=0.7, reasks=1)
    assert isinstance(found, NoVerdict) and llm.usage()["no_verdicts"] == 1
    assert found.cause == CAUSES[name] or name in ("missing key", "cut off")
    assert time.monotonic() - started < 3


def test_nobody_listens():
    with JudgeServer(lambda number, request: right(request)) as server:
        pass
    [found], llm = judge(server, patience=0.5)
    assert found.cause == "connection"
    assert llm.usage()["tokens_in"] == 0  # nothing can have been charged


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks://127.0.0.1:1"), ("SSL_CERT_FILE", "/no/such/file.pem")]
)
def test_surroundings_that_allow_no_connection_are_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(SailRLError, match=rf"no connection to http://localhost:1/v1.*{name}"):
        asyncio.run(LLMJudge(Endpoint("m", "http://localhost:1/v1", cache=None)).judge(cases(1)))


def test_a_slow_drip_does_not_outlive_the_timeout():
    with JudgeServer(lambda number, request: faults()["drip"]) as server:
        started = time.monotonic()
        [found], _ = judge(server, timeout=0.5, patience=0.9)
    assert found.cause == "timeout" and time.monotonic() - started < 1.5


@pytest.mark.parametrize(
    ("header", "value", "least"),
    [
        ("Retry-After", lambda: "1", 0.9),
        ("retry-after-ms", lambda: "400", 0.35),
        ("Retry-After", lambda: email.utils.formatdate(time.time() + 2, usegmt=True), 0.9),
        ("Retry-After", lambda: "soon", 0.0),
        ("Retry-After", lambda: "-5", 0.0),
        ("Retry-After", lambda: "nan", 0.0),
    ],
)
def test_retry_after_is_honoured(header, value, least):
    arrived = []

    def script(number, request):
        arrived.append(time.monotonic())
        return right(request) if number else Action(status=429, headers={header: value()})

    with JudgeServer(script) as server:
        llm = ChatClient(Endpoint("m", server.url, cache=None))
        asyncio.run(llm.ask(*_simple()))
    assert len(arrived) == 2 and least <= arrived[1] - arrived[0] < least + 1.5


def test_a_retry_after_beyond_the_patience_is_not_waited_for():
    with JudgeServer(lambda number, request: refuse(503, retry_after="3600")) as server:
        started = time.monotonic()
        [found], _ = judge(server, patience=20)
    assert found.cause == "server error" and len(server.requests) == 3
    assert time.monotonic() - started < 5


def test_a_reask_is_warmer_and_a_retry_is_not():
    answers = [refuse(500), chat("hm"), chat("hm"), chat(ALL_ONE)]
    with JudgeServer(lambda number, request: answers[number]) as server:
        [found], _ = judge(server, calls="combined")
    assert isinstance(found, Verdict)
    temperatures = [r.body["temperature"] for r in server.requests]
    assert temperatures[:2] == [0, 0] and min(temperatures[2:]) > 0


# What ends a run, and what must not


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (refuse(401, "Incorrect API key provided"), "Incorrect API key provided"),
        (refuse(403, "not your model"), "not your model"),
        (refuse(404, "The model `m` does not exist"), "The model `m` does not exist"),
        (refuse(429, "You exceeded your quota", code="insufficient_quota"), "You exceeded your quota"),
        (refuse(400, "image_url is not supported by this model"), "image_url is not supported"),
        (Action(b"<html>\n<h1>Gone</h1>\n" + b"x" * 5000, 410, type="text/html"), "<h1>Gone</h1>"),
        (Action(b'{"detail": "Not Found"}', 404), "Not Found"),
        (Action(b'[{"error": {"message": "API key not valid"}}]', 400), "API key not valid"),
        (Action(b"", 405), "no words"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_all_calls_have_in_common_stops_at_once_with_the_endpoints_words(action, words):
    with JudgeServer(lambda number, request: action) as server, pytest.raises(SailRLError) as caught:
        judge(server, n=50, concurrency=2)
    text = str(caught.value)
    assert words in text and server.url in text and "\n" not in text and len(text) < 500
    assert len(server.requests) <= 2


@pytest.mark.parametrize(
    ("action", "cause"),
    [
        (refuse(400, "flagged", code="content_filter"), "filtered"),
        (refuse(400, "flagged", code="content_policy_violation"), "filtered"),
        (refuse(400, "too many tokens", code="context_length_exceeded"), "too long"),
        (
            refuse(400, "This model's maximum context length is 2048 tokens; max_tokens is", code=400),
            "too long",
        ),
        (refuse(413, "payload too large"), "too long"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_one_call_is_to_blame_for_is_no_verdict(action, cause):
    def script(number, request):
        return action if case_of(request) == "1" else right(request)

    with JudgeServer(script) as server:
        found, llm = judge(server, n=4)
    assert [getattr(v, "cause", "") for v in found] == ["", cause, "", ""]
    assert llm.usage()[f"no_verdict: {cause}"] == 1
    assert len(server.requests) == 12


# How an endpoint must be asked


def picky(best, length="max_tokens", temperature=True, blame=True):
    """A server that knows response formats from `best` on (0 to 3), one name of the length, perhaps no
    temperature; `blame` names the parameter, else the words do."""

    def script(number, request):
        form = request.get("response_format")
        kind = 3 if form is None else {"json_schema": 0}.get(form["type"], 1 if "schema" in form else 2)
        wrong = "response_format" if kind < best else ""
        wrong = wrong or next((name for name in request if name.startswith("max_") and name != length), "")
        wrong = wrong or ("temperature" if "temperature" in request and not temperature else "")
        if not wrong:
            return chat(ALL_ONE, latency=0.05)
        words = f"Unsupported parameter: {'' if blame else wrong}"
        param = wrong if blame else None
        return refuse(400 if blame else 422, words, param=param, code="unsupported", latency=0.02)

    return script


@pytest.mark.parametrize("blame", [True, False])
@pytest.mark.parametrize(
    ("best", "length", "temperature", "steps"),
    [(0, "max_tokens", True, 0), (1, "max_tokens", True, 1), (3, "max_completion_tokens", False, 5)],
)
def test_the_best_way_to_ask_is_found_once_by_one_request(best, length, temperature, steps, blame, caplog):
    with JudgeServer(picky(best, length, temperature, blame)) as server:
        found, llm = judge(server, n=20, calls="combined")
        assert server.most_in_flight > 5  # the others went on together
        again = asyncio.run(llm.judge(cases(20, first=50)))
    assert all(isinstance(v, Verdict) for v in found + again)
    assert len(server.requests) == 40 + steps
    assert sum(r.action.status != 200 for r in server.requests[:steps]) == steps
    assert len([r for r in caplog.records if "asking with" in r.message]) == steps
    last = server.requests[-1].body
    assert last[length] == 2048 and ("temperature" in last) == temperature
    assert ("response_format" in last) == (best < 3)


def test_the_way_to_ask_is_remembered_on_disk(tmp_path):
    with JudgeServer(picky(2)) as server:
        for first in (0, 10):
            llm = LLMJudge(Endpoint("m", server.url, cache=str(tmp_path)))
            asyncio.run(llm.judge(cases(3, first)))
    assert sum(r.action.status != 200 for r in server.requests) == 2


def test_an_endpoint_that_changes_its_mind_is_asked_otherwise(caplog):
    picks = [picky(0), picky(1)]
    with JudgeServer(lambda number, request: picks[number >= 6](number, request)) as server:
        llm = LLMJudge(Endpoint("m", server.url, cache=None, calls="combined", concurrency=8))
        for first in (0, 10):
            found = asyncio.run(llm.judge(cases(6, first)))
            assert all(isinstance(v, Verdict) for v in found)
    assert 12 < len(server.requests) <= 12 + 6
    assert len([r for r in caplog.records if "asking with" in r.message]) == 1


def test_faults_while_the_way_to_ask_is_open_hold_nobody_up():
    answers = {0: faults()["hang"], 1: refuse(500), 2: faults()["reset"]}
    with JudgeServer(lambda number, request: answers.get(number) or picky(1)(number, request)) as server:
        found, _ = judge(server, n=20, calls="combined", timeout=0.4)
    assert all(isinstance(v, Verdict) for v in found)


def test_with_a_dead_endpoint_the_whole_batch_takes_no_longer_than_one_call(caplog):
    with JudgeServer(lambda number, request: faults()["hang"]) as server:
        started = time.monotonic()
        with pytest.raises(SailRLError, match=r"has answered none of 16 calls .*check base_url"):
            judge(server, n=20, timeout=0.3, patience=1)
    assert time.monotonic() - started < 2.5
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_calls_that_are_given_up_together_say_the_same():
    """Which of them is heard first depends on the load of the machine."""

    async def ask_all(client):
        asked = [[{"role": "user", "content": f"case {k}: how many?"}] for k in range(20)]
        return await asyncio.gather(
            *(client.ask(a, {"type": "object"}) for a in asked), return_exceptions=True
        )

    with JudgeServer(lambda number, request: faults()["hang"]) as server:
        found = asyncio.run(ask_all(ChatClient(Endpoint("m", server.url, cache=None, patience=0.3))))
    raised = [str(error) for error in found if isinstance(error, SailRLError)]
    assert len(raised) == 5  # of the 20, those from the sixteenth on
    assert all("has answered none of 16 calls" in text for text in raised)


def _simple():
    """Messages and a schema that the server's `right` can read."""
    schema = {"type": "object", "properties": {"logic": {"type": "boolean"}}}
    return [{"role": "user", "content": "case 1: how many?"}], schema
