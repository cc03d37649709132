"""`sailrl-lite score`, run as a user runs it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sailrl_lite import __version__, cli

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases/responses.jsonl").open(encoding="utf-8")
]
KEYS = [
    "format",
    "decision",
    "answer",
    "answer_reward",
    "judging",
    "thinking",
    "cascade",
    "additive",
    "problems",
]
THOUGHT = r"<judge>think</judge><think>2+3=5</think><answer>\boxed{5}</answer>"
DIRECT = r"<judge>direct</judge><think></think><answer>\boxed{5}</answer>"
CHEAT = r"<judge>direct</judge><think>2+3=5</think><answer>\boxed{5}</answer>"
SCORES = {"logic": 1, "grounding": 0, "consistency": 1.0}
GOOD = {"response": DIRECT, "gold": "5", "needs_thinking": False}


def run(*arguments, stdin=b""):
    command = [sys.executable, "-m", "sailrl_lite", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def score(*rows):
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    status, out, err = run("score", "-", stdin=b"\n".join(lines))
    return status, [json.loads(line) for line in out.splitlines()], err.splitlines()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GOOD, {"format": 1, "decision": "direct", "answer": "5", "cascade": 1.0, "problems": []}),
        (GOOD | {"needs_thinking": True}, {"judging": 0, "thinking": 0, "cascade": 0.1, "additive": 0.4}),
        (
            GOOD | {"response": THOUGHT},
            {"answer_reward": 1, "thinking": None, "cascade": None, "additive": None},
        ),
        (
            GOOD | {"response": THOUGHT, "needs_thinking": True, "scores": SCORES},
            {"thinking": pytest.approx(2 / 3), "cascade": pytest.approx(0.7), "additive": pytest.approx(0.9)},
        ),
        # A format error pays nothing; without scores the CLI leaves the totals open all the same.
        (
            GOOD | {"response": CHEAT, "scores": SCORES},
            {"format": 0, "judging": 1, "cascade": 0, "additive": 0},
        ),
        (GOOD | {"response": CHEAT}, {"format": 0, "thinking": None, "cascade": None, "additive": None}),
        (
            GOOD | {"response": ""},
            {"format": 0, "decision": None, "thinking": 0, "cascade": 0, "additive": 0},
        ),
        (GOOD | {"response": DIRECT[7:], "prefill": "<judge>", "id": 7}, {"format": 1, "cascade": 1.0}),
        (GOOD | {"prefill": None, "scores": None}, {"cascade": 1.0}),
        (GOOD | {"gold": "6"}, {"answer_reward": 0, "cascade": 0.1}),
        (GOOD | {"response": "\ud800"}, {"format": 0}),
    ],
)
def test_one_line(row, expected):
    scored = cli.score_line(json.dumps(row))
    assert list(scored) == KEYS
    assert {key: scored[key] for key in expected} == expected


def test_shared_cases():
    status, rows, err = score(*({**case, "gold": "5", "needs_thinking": True} for case in CASES))
    assert (status, err) == (0, [])
    found = [{key: row[key] for key in ("format", "decision", "answer")} for row in rows]
    assert found == [case["expect"] for case in CASES]


BAD_LINES = [
    (b"{", "not JSON"),
    (b"[1]", "expected a JSON object, found a list"),
    (b"null", "expected a JSON object, found null"),
    (b"[" * 100_000, "nested too deeply"),
    ({"gold": "5", "needs_thinking": True}, "the key response is missing"),
    ({"response": DIRECT, "gold": "5"}, "the key needs_thinking is missing"),
    (GOOD | {"needs_thinking": 1}, "needs_thinking must be true or false, not a number"),
    (GOOD | {"response": None}, "response must be a string, not null"),
    (GOOD | {"gold": 5}, "gold must be a string, not a number"),
    (GOOD | {"gold": " "}, "unusable gold answer"),
    (GOOD | {"prefill": 3}, "prefill must be a string, not a number"),
    (GOOD | {"scores": [1, 1, 1]}, "scores must be an object, not a list"),
    (GOOD | {"scores": {"logic": 1, "grounding": 1}}, "the key consistency is missing"),
    (GOOD | {"scores": SCORES | {"logic": "1"}}, "logic must be a number, not a string"),
    (GOOD | {"scores": SCORES | {"logic": True}}, "logic must be a number, not true or false"),
    (GOOD | {"scores": SCORES | {"logic": 1.5}}, "score logic must be a number from 0 to 1, not 1.5"),
    (GOOD | {"scores": SCORES | {"logic": float("nan")}}, "NaN is not a JSON number"),
    (GOOD | {"scores": SCORES | {"logic": float("-inf")}}, "-Infinity is not a JSON number"),
    (json.dumps(GOOD)[:-1].encode() + b', "gold": "6"}', "the key gold is repeated"),
    (json.dumps(GOOD)[:-1].encode() + b', "scores": {"logic": 0, "logic": 1}}', "the key logic is repeated"),
    (json.dumps(GOOD | {"id": "é"}, ensure_ascii=False).encode("latin-1"), "not UTF-8 text"),
    (b'{"response": ' + b"9" * 10_000 + b"}", "digits"),
]


def test_bad_lines_are_named_and_the_rest_is_scored():
    status, rows, err = score(*(line for bad, _ in BAD_LINES for line in (bad, b" \r", GOOD)))
    assert status == 1
    assert len(rows) == len(BAD_LINES) and all(row["cascade"] == 1.0 for row in rows)
    assert len(err) == len(BAD_LINES)
    for number, (line, (_, message)) in enumerate(zip(err, BAD_LINES, strict=True)):
        assert line.startswith(f"sailrl-lite: standard input, line {3 * number + 1}: ") and message in line


def test_a_huge_line_is_refused_and_the_next_one_scored(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli, "LONGEST_LINE", 1000)
    huge = GOOD | {"response": "é" * 5000}
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in (huge, GOOD)), encoding="utf-8")
    assert cli.main(["score", str(file)]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 and "line 1: longer than 1000 bytes" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        ("folder", "cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_line(tmp_path, content, message):
    file = tmp_path / "rows.jsonl"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    status, out, err = run("score", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"sailrl-lite: error: {file} ") and message in err and err.count("\n") == 1


def test_byte_order_mark_and_line_ends_of_windows():
    status, rows, err = score(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r", GOOD)
    assert (status, len(rows), err) == (0, 2, [])


def test_a_reader_that_leaves_is_not_an_error(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text((json.dumps(GOOD) + "\n") * 5000)
    command = f"{sys.executable} -m sailrl_lite score {file} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""


def shell(redirection, *arguments):
    command = shlex.join([sys.executable, "-m", "sailrl_lite", *arguments]) + " " + redirection
    done = subprocess.run(command, shell=True, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.skipif(os.name == "nt", reason="redirections of a Unix shell")
def test_closed_streams(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(GOOD) + "\n{\n")
    status, out, err = shell(">&-", "score", str(file))
    assert (status, out) == (1, "") and err.startswith(f"sailrl-lite: {file}, line 2: not JSON")
    status, out, err = shell("2>&-", "score", str(file))
    assert (status, err) == (1, "") and json.loads(out)["cascade"] == 1.0  # and no error among the rows
    status, out, err = shell("<&-", "score", "-")
    assert (status, out) == (2, "") and err.startswith("sailrl-lite: error: standard input is empty")
    assert shell(">&- 2>&- <&-", "score", str(file)) == (1, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("rows", [1, 5000])  # written at the end, or on the way
def test_a_full_device_is_one_clear_line(tmp_path, rows):
    file = tmp_path / "rows.jsonl"
    file.write_text((json.dumps(GOOD) + "\n") * rows)
    message = "sailrl-lite: error: the output cannot be written: No space left on device\n"
    assert shell("> /dev/full", "score", str(file)) == (2, "", message)
    assert shell("> /dev/full 2>&1", "score", str(file)) == (2, "", "")


def test_a_terminal_without_the_character_shows_another():
    code = (
        "from sailrl_lite import cli; cli.run_score = lambda _: print('1 \\xb1 2'); cli.main(['score', '-'])"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == (b"1 ? 2", b"")


def test_help_and_version():
    words = run("score", "--help")[1].replace(",", " ").split()
    assert set(KEYS) <= set(words)
    assert "score responses" in run("--help")[1]
    assert run("--version")[:2] == (0, f"sailrl-lite {__version__}\n")
    assert run()[0] == run("nonsense")[0] == 2
