"""The `sailrl-lite` command line: a thin layer over the package.

Each subcommand is one `add_...` function, called in `build_parser`, that declares its arguments and names the
function which runs it. That one imports what it needs when it runs, so `--help` is instant and `score` works
without torch. Exit status: 0 all well, 1 some input lines were bad, 2 an error that stopped the command.
"""

import argparse
import codecs
import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

from sailrl_lite import __version__
from sailrl_lite.commands import add_commands
from sailrl_lite.errors import SailRLError

LONGEST_LINE = (
    10_000_000  # bytes; far above any response, and it bounds the memory that a broken file can take
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    _open_streams()
    status: int
    try:
        try:
            args = build_parser().parse_args(argv)
            _check_launch(args)
            status = args.run(args)
        except SailRLError as error:
            _complain(f"error: {error}")
            status = 2
        finally:
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has gone (`| head`): nothing more to say
        _silence(sys.stdout)
        return 141  # 128 + SIGPIPE, as other tools end
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _complain(
                f"error: {str(error.filename)[:60]!r}... is too long for the name of a file; name another"
            )
            return 2
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise  # not the device that is written to, but a fault of ours
        _complain(f"error: the output cannot be written: {error.strerror}")
        _silence(sys.stdout)
        return 2


def _check_launch(args: argparse.Namespace) -> None:
    """Of a command that several processes were started with, what is made for one would be done twice."""
    launched = "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
    if launched and not getattr(args, "together", False):
        raise SailRLError(
            f"{args.command} runs in one process, and sft and rl in several; start it without a launcher"
        )


def _open_streams() -> None:
    """See to it that the standard streams can be used: Python sets closed ones (`>&-`) to None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (for the rest of the process)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "±" gets "?"


def _complain(message: str) -> None:
    try:
        print(f"sailrl-lite: {message}", file=sys.stderr, flush=True)
    except OSError:  # nobody can be told
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Discard what the stream still holds, so that Python does not fail to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sailrl-lite", description="SAIL-RL in small: teach a multimodal model when and how to think."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    add_score(subparsers)
    add_commands(subparsers)
    return parser


# -------------------- score


def add_score(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "score",
        help="score responses in a JSON Lines file: format, answer, judging, thinking and their totals",
        description="Read one JSON object a line, with the keys response, gold, needs_thinking (true or "
        "false) and, optionally, prefill and scores ({logic, grounding, consistency}, each from 0 to 1). "
        "Print one JSON object a line with format, decision, answer, answer_reward, judging, thinking, the "
        "totals cascade and additive, and problems (what is wrong with the format). Bad lines are named on "
        "standard error.",
    )
    parser.add_argument("file", metavar="FILE.jsonl", help="the file to read, or - for standard input")
    parser.set_defaults(run=run_score)


def run_score(args: argparse.Namespace) -> int:
    """Score a file line by line, in constant memory."""
    name = "standard input" if args.file == "-" else args.file
    scored = bad = 0
    for number, raw in _read_lines(args.file, name):
        try:
            row = score_line(_decode(raw, first=number == 1))
        except ValueError as error:
            _complain(f"{name}, line {number}: {error}")
            bad += 1
            continue
        except RuntimeError as error:  # no line is to blame: the comparison of answers cannot run at all
            raise SailRLError(str(error)) from error
        print(json.dumps(row))  # ASCII, so that any terminal encoding and lone surrogates will do
        scored += 1
    if not scored + bad:
        raise SailRLError(f"{name} is empty: expected one JSON object a line")
    return 1 if bad else 0


def score_line(line: str) -> dict[str, Any]:
    r"""Score one JSON object, given as text. Raises ValueError that says what is wrong with it.

    It gives format, decision, answer, answer_reward, judging, thinking, the totals cascade and additive,
    and problems. A written trace without scores has thinking, cascade and additive null, even where a format
    error already settles the totals: null says that the judge has not been asked.

    >>> row = {"response": r"<judge>direct</judge><think></think><answer>\boxed{47}</answer>", "gold": "47"}
    >>> score_line(json.dumps(row | {"needs_thinking": False}))["cascade"]
    1.0
    """
    from sailrl_lite.answers import check_gold
    from sailrl_lite.response import parse_response
    from sailrl_lite.rewards import REWARDS, Scores, measure

    row = _parse_object(line)
    text, gold = _take(row, "response", str), _take(row, "gold", str)
    needs_thinking = _take(row, "needs_thinking", bool)
    prefill = _take(row, "prefill", str) if row.get("prefill") is not None else ""
    scores = None
    if row.get("scores") is not None:
        given = _take(row, "scores", dict)
        scores = Scores(**{key: _take(given, key, float) for key in ("logic", "grounding", "consistency")})
    check_gold(gold)

    response = parse_response(text, prefill)
    components = measure(response, gold, needs_thinking, scores)
    thinking = components.thinking
    return {
        "format": components.format,
        "decision": response.decision,
        "answer": response.answer,
        "answer_reward": components.answer,
        "judging": components.judging,
        "thinking": thinking if thinking is None else round(thinking, 12),
        **{
            name: None if thinking is None else round(REWARDS[name](components) or 0, 12)
            for name in ("cascade", "additive")
        },
        "problems": list(response.problems),
    }


def _read_lines(file: str, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the lines that are not blank."""
    try:
        with sys.stdin.buffer if file == "-" else Path(file).open("rb") as stream:
            for number, raw in enumerate(_bounded_lines(stream), start=1):
                if raw.removeprefix(codecs.BOM_UTF8).strip():
                    yield number, raw
    except FileNotFoundError:
        raise SailRLError(f"{name} does not exist: give a JSON Lines file, or - for standard input") from None
    except OSError as error:
        raise SailRLError(f"{name} cannot be read: {error.strerror}") from None


def _bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one longer than the limit just the beginning, one byte over it."""
    while line := stream.readline(LONGEST_LINE + 1):
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST_LINE + 1)
        yield line


def _decode(raw: bytes, first: bool) -> str:
    if len(raw) > LONGEST_LINE:
        raise ValueError(f"longer than {LONGEST_LINE} bytes")
    try:
        return raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None


def _parse_object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, found {_kind(row)}")
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise ValueError(f"the key {key} is repeated")
        row[key] = value
    return row


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _take(row: dict[str, Any], key: str, wanted: type) -> Any:
    """The value under a key, checked for its type; an int will do for a float, a bool will not."""
    if key not in row:
        raise ValueError(f"the key {key} is missing")
    value = row[key]
    fits = isinstance(value, int | float) if wanted is float else isinstance(value, wanted)
    if not fits or (wanted is float and isinstance(value, bool)):
        kinds = {str: "a string", bool: "true or false", dict: "an object", float: "a number"}
        raise ValueError(f"{key} must be {kinds[wanted]}, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    kinds = {str: "a string", bool: "true or false", dict: "an object", list: "a list", type(None): "null"}
    return kinds.get(type(value), "a number")
