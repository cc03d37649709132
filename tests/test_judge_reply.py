"""Reading a judge's reply: the rules of `sailrl_lite.judges.reply`, and that nothing breaks it."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sailrl_lite.judges.protocol import DIMENSIONS, NoVerdict, Verdict
from sailrl_lite.judges.reply import CAUSES, LONGEST, read_reply

PATH = Path(__file__).parent / "cases/judge_replies.jsonl"
CASES = [json.loads(line) for line in PATH.open(encoding="utf-8")]
GOOD = '{"logic":1,"grounding":0,"consistency":1}'
OTHER = '{"logic":0,"grounding":0,"consistency":0}'
SCORES = {"logic": 1, "grounding": 0, "consistency": 1}


def read(content, finish_reason="stop", **options):
    """The scores as a dict, or the cause of none."""
    found = read_reply({"role": "assistant", "content": content}, finish_reason, **options)
    return found.cause if isinstance(found, NoVerdict) else dict(found.values)


def with_logic(value):
    return GOOD.replace('"logic":1', f'"logic":{value}')


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_shared_cases(case):
    found = read_reply(case["message"], case["finish_reason"])
    if case["expect"] == "no_verdict":
        assert isinstance(found, NoVerdict) and found.cause in CAUSES
    else:
        assert dict(found.values) == case["expect"]
        assert {name: getattr(found, name) for name in DIMENSIONS} == case["expect"]


# -------------------- where the object may stand


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"\ufeff \n{GOOD}\n",
        f"```\n{GOOD}\n```",
        f"```json\n{GOOD}",  # the closing fence is missing
        f"Verdict:\n```json\n{GOOD}\n```\nThe sets {{1, 2}} and {{x | x > 0}} agree [1], [see there].",
        f'With \\text{{"left"}} read as 80: {GOOD}',
        f'In [0, 5) lies {{"a", "b"}}. {GOOD}',
        f"[my verdict: {GOOD}]",
        json.dumps(json.loads(GOOD), indent=4),
        f'{{"scores": {GOOD}}}',
        f'{{"note": "checked {{twice}}", "result": {GOOD}, "confidence": [0.9], "usage": {{"tokens": 3}}}}',
        f'{{"note": "no scores here"}} {GOOD}',
        GOOD[:-1] + ',"reasons":{"logic":"sound","grounding":"left is 80","consistency":"follows"}}',
        [{"type": "text", "text": GOOD[:9]}, {"type": "text", "text": GOOD[9:]}],
        [{"type": "thinking", "text": OTHER}, {"type": "text", "text": GOOD}],
    ],
)
def test_one_object_is_found(content):
    assert read(content) == SCORES


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (f"[{GOOD}]", "misplaced"),
        (f"My list: [true, {GOOD}]", "misplaced"),
        (f'{{"scores": [{GOOD}]}}', "misplaced"),
        (f'{{"a": {{"b": {GOOD}}}}}', "misplaced"),
        (f"{GOOD} {GOOD}", "several objects"),
        (f"First {OTHER}, on second thoughts {GOOD}", "several objects"),
        (f'{GOOD} {{"logic": 0}}', "several objects"),
        (f"{GOOD} [{OTHER}]", "several objects"),
        (f'{{"a": {GOOD}, "b": {OTHER}}}', "several objects"),
        (f'{{"a": {OTHER}, "a": {GOOD}}}', "several objects"),
        (OTHER[:-1] + f',"revised": {GOOD}}}', "several objects"),
        (GOOD[:-1] + ',"share": {"logic": 0.75}}', "several objects"),
        (f'{{"logic": {OTHER}, "grounding": 0, "consistency": 1}}', "several objects"),
        (OTHER[:-1] + f',"corrected": [[{GOOD}', "broken JSON"),  # the inner one does not count
        (OTHER[:-1].replace(",", " ", 1) + f', "revised": {GOOD}}}', "broken JSON"),
        (f'{{"draft": to follow, "set": "{{", "final": {GOOD}}}', "broken JSON"),
        (f'{{"scores": {GOOD}', "broken JSON"),
        (GOOD[:-1] + ",}", "broken JSON"),
        (GOOD.replace('"', "'"), "no JSON"),
        (json.dumps(GOOD), "no JSON"),  # a string that holds JSON
        ("1", "no JSON"),
        ("true", "no JSON"),
        ('{"verdict": "pass"}', "missing key"),
        ("{}", "missing key"),
        (GOOD.replace("logic", "Logic"), "missing key"),
        ('{"logic":1,"logic":1,"grounding":0,"consistency":1}', "repeated key"),
        ('{"logic":0,"grounding":0,"consistency":1,"\\u006cogic":1}', "repeated key"),
        (" \n\t", "empty"),
        ([], "empty"),
        ([{"type": "text", "text": " "}, {"type": "image_url"}], "empty"),
        ("x" * (LONGEST + 1), "too long"),
        (f"{' ' * LONGEST}{GOOD}", "too long"),
    ],
)
def test_no_verdict_with_its_cause(content, cause):
    assert read(content) == cause


# -------------------- scores


@pytest.mark.parametrize(
    ("value", "score"),
    [(v, 1) for v in ("1", "1.0", "1.00", "true", '"1"', '"1.0"', '"true"', '"TRUE"')]
    + [(v, 0) for v in ("0", "0.0", "false", '"0"', '"0.0"', '"False"')],
)
@pytest.mark.parametrize("continuous", [False, True])
def test_the_ends_of_the_scale(value, score, continuous):
    found = read(with_logic(value), continuous=continuous)["logic"]
    assert found == score and type(found) is (float if continuous else int)


BAD = ["-1", "2", "10", "1e400", "1.0000000000000000001", "NaN", "Infinity", "null", "[]", "[1]", "{}"]
BAD += [
    '""',
    '"yes"',
    '" 1 "',
    '"1 "',
    '"1,0"',
    '"１"',
    '"١"',
    '"pass"',
    '"1/1"',
    '"NaN"',
    '"tru\u0435"',
    "9" * 5000,
]


@pytest.mark.parametrize("value", [*BAD, "0.5", '"0.5"', "0.9999999999999999999", "1e-400", "1e0"])
def test_no_binary_score(value):
    assert read(with_logic(value)) == "bad score"


@pytest.mark.parametrize(
    "value", [v for v in BAD if v != "1.0000000000000000001"] + ['"5e-1"', '"-0.5"', '".5"']
)
def test_no_continuous_score(value):
    assert read(with_logic(value), continuous=True) == "bad score"


@pytest.mark.parametrize(
    ("value", "score"), [("0.5", 0.5), ('"0.25"', 0.25), ("5e-1", 0.5), ("-0.0", 0.0), ("1e-400", 0.0)]
)
def test_continuous_scores(value, score):
    found = read(with_logic(value), continuous=True)["logic"]
    assert str(found) == str(score)


def test_only_the_asked_keys_count():
    assert read('{"logic":1,"grounding":7}', keys=["logic"]) == {"logic": 1}
    assert read('{"grounding":1}', keys=["logic"]) == "missing key"
    assert read('{"logic":1} {"grounding":1}', keys=["logic"]) == {"logic": 1}


def test_reasons():
    message = {"content": GOOD[:-1] + ',"logic_reason":"sound","grounding_reason":7,"reason":"all"}'}
    assert read_reply(message, "stop").reasons == {"logic": "sound"}
    message = {"content": '{"reason":"' + "x" * 999 + '\\ud800","logic":1}'}
    assert read_reply(message, "stop", ["logic"]).reasons == {"logic": "x" * 500}
    message = {"content": '{"reason":"\\ud800","logic":1}'}
    assert read_reply(message, "stop", ["logic"]).reasons["logic"].encode()


# -------------------- refusals, filters, length, reasoning


def test_a_refusal_or_filter_outweighs_the_content():
    assert read_reply({"content": GOOD, "refusal": "No."}, "stop") == NoVerdict("refusal", "No.")
    parts = [{"type": "refusal", "refusal": "No."}, {"type": "text", "text": GOOD}]
    assert read_reply({"content": parts}, "stop").cause == "refusal"
    assert read_reply({"content": GOOD, "refusal": ""}, "stop").scores.logic == 1
    assert read(GOOD, "content_filter") == "filtered"
    assert read(GOOD, "content_filter: SAFETY") == "filtered"


def test_cut_by_length():
    assert read(GOOD, "length") == SCORES
    assert read(f'{GOOD}\nThe trace says {{"left": 8', "length") == SCORES
    assert read(GOOD[:-3], "length") == "cut off"
    assert read("Let me look at the first step", "length") == "cut off"
    assert read(None, "length") == "cut off"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_counts_only_where_the_content_is_blank(name):
    for blank in (None, "", " \n", []):
        assert read_reply({"content": blank, name: f"So: {GOOD}"}, "stop").values == SCORES
    assert read_reply({"content": "I cannot say.", name: GOOD}, "stop").cause == "no JSON"
    assert read_reply({"content": GOOD, name: OTHER}, "stop").values == SCORES


# -------------------- whatever comes


class Odd:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "message",
    [
        *(None, 3, "text", [], {}),
        *({"content": said} for said in (3, {"text": GOOD}, [None, 3, GOOD], "\ud800" + GOOD[:-1])),
        {"content": [{"type": "text", "text": 5}], "reasoning": 5},
        {"content": GOOD, "refusal": Odd()},
        {"content": None, "refusal": "\udfff"},
    ],
)
def test_wrong_types_are_no_verdict(message):
    found = read_reply(message, "stop")
    assert isinstance(found, NoVerdict) and found.cause in CAUSES and found.detail.encode() is not None


HOSTILE = [
    "{" * 10_000_000,
    "[" * 100_000,
    '{"a":' * 39_000,
    '{"a":[' * 30_000,
    '{""' * 66_000,
    '["' * 99_000,
]
HOSTILE += ["{} " * 60_000, '{"a":1 ' * 28_000, '{"a":"\\' * 25_000, '{   "' * 39_000, "[1," * 66_000]
HOSTILE += ['{"logic":' + "1" * 190_000 + "}", '{"logic":[' + "{}," * 60_000 + "{}]}", '"' * 190_000]
HOSTILE += ['{"a" {' * 30_000, '{"a" ' + '"\\' * 90_000, '{"a" }' * 30_000]
HOSTILE += ['{"logic":' * 900 + "1" + "}" * 900, '{"logic":' + "[" * 900 + "]" * 900 + "}"]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_hostile_text_is_read_in_no_time(text):
    start = time.perf_counter()
    assert read(text, keys=["logic"]) in CAUSES
    assert time.perf_counter() - start < 1


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([GOOD, "1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*DIMENSIONS, "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)
pieces = st.sampled_from(
    [GOOD, OTHER, "{", "}", "[", "]", '"logic"', ":", ",", "1", '"', "\\", "```", "\ud800"]
)
contents = st.lists(pieces, max_size=12).map("".join) | anything.map(json.dumps) | st.text() | anything


@given(
    contents,
    contents,
    st.none() | st.text(max_size=3),
    st.booleans(),
    st.sampled_from(["stop", "length", None]),
)
def test_never_raises_and_holds_only_scores(content, reasoning, refusal, continuous, finish_reason):
    message = {"content": content, "reasoning": reasoning, "refusal": refusal}
    found = read_reply(message, finish_reason, continuous=continuous)
    if isinstance(found, Verdict):
        assert tuple(found.values) == DIMENSIONS
        kind = float if continuous else int
        assert all(type(v) is kind and 0 <= v <= 1 for v in found.values.values())
    else:
        assert found.cause in CAUSES


@given(anything)
def test_a_json_value_is_read_as_itself(value):
    """The one object a client would see decides, by the letter of the rules."""
    found = read_reply({"content": json.dumps({"logic": value})}, "stop", ["logic"])
    number = type(value) in (bool, int, float) and value in (0, 1) and str(value) != "-0.0"
    is_score = number or value in ("0", "1")
    assert isinstance(found, Verdict) == is_score
