r"""Mathematics by math-verify, in a process of its own that can be killed.

math-verify parses LaTeX into sympy and compares. Its time-outs need the main thread, and without them one
`9^{9^{9^9}}` would hold the interpreter for good. So this file is run twice: imported, it is the near side,
which starts one long-lived worker on first use, waits at most until a deadline and then kills it; started as
a script, it is the worker, which reads `seconds <tab> gold <tab> predicted` lines and answers each with one
word. Only text made of known LaTeX commands, numbers and letters is sent (see `latex`); the worker
hands it to math-verify's LaTeX parser and to nothing else. A worker whose parent goes away ends by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

DEADLINE = 2.0  # seconds for all the mathematics of one comparison
START = 120.0  # seconds for a worker to import math-verify, which is not counted against a comparison
MEMORY = 4 << 30  # bytes a worker may take
EQUAL, DIFFERENT, UNREADABLE, LATE = "equal", "different", "unreadable", "late"


class Worker:
    """The near side: one process, one question at a time, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask(self, gold: str, predicted: str, seconds: float) -> tuple[str, float]:
        """Return EQUAL, DIFFERENT, UNREADABLE (the gold does not parse) or LATE, and the seconds it took.

        Neither waiting for other threads nor starting the process counts in these seconds. `RuntimeError` is
        raised when math-verify cannot be started: no answer could be trusted then.
        """
        with self._lock:
            try:
                return self._ask(f"{seconds}\t{gold}\t{predicted}\n".encode(), seconds)
            except BaseException:  # interrupted: its reply must not be taken for the next one's
                self._end()
                raise

    def close(self) -> None:
        """End the process, whatever it is at; the next question starts a new one."""
        if process := self._process:
            process.kill()
        with self._lock:
            self._end()

    def _ask(self, question: bytes, seconds: float) -> tuple[str, float]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        begun = time.monotonic()
        try:
            while question:  # an unbuffered pipe may take a part
                question = question[self._process.stdin.write(question) :]
            reply = self._replies.get(timeout=seconds)
        except (queue.Empty, OSError):
            reply = ""
        if not reply:  # too late, or the worker died of the question (memory, stack)
            self._end()
        return reply or LATE, time.monotonic() - begun

    def _start(self) -> None:
        self._end()
        modules = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"}
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **modules},
            start_new_session=True,  # a Ctrl-C here does not reach the worker; the same on Windows:
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._replies = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(self._process, self._replies), daemon=True).start()
        try:
            greeting = self._replies.get(timeout=START)
        except queue.Empty:
            greeting = f"no greeting within {START:.0f} s"
        if greeting != "ready":
            self._end()
            raise RuntimeError(f"math-verify could not be started: {greeting or 'the worker ended at once'}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def _forget(self) -> None:
        """In a forked child: the worker belongs to the parent, so let go of its pipe and start afresh."""
        if self._process is not None:
            for pipe in filter(None, (self._process.stdin, self._process.stdout)):
                pipe.close()
            self._process.returncode = 0  # not a child of this process
        self.__init__()  # type: ignore[misc]


def _listen(process: subprocess.Popen[bytes], replies: queue.SimpleQueue[str]) -> None:
    """Hand on each line of the worker, and an empty string when it has ended."""
    assert process.stdout is not None
    with process.stdout as stdout:
        while line := stdout.readline():
            replies.put(line.decode("utf-8", "replace").strip())
    replies.put("")


worker = Worker()
atexit.register(worker.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=worker._forget)


class Budget:
    """What is left of the deadline of one comparison, which may take several questions."""

    def __init__(self, seconds: float = DEADLINE) -> None:
        self.left = seconds

    def equal(self, gold: str, predicted: str) -> bool:
        """Does math-verify, within the time left, hold the two equal?"""
        return self.ask(gold, predicted) == EQUAL

    def ask(self, gold: str, predicted: str) -> str:
        if self.left <= 0:
            return LATE
        reply, seconds = worker.ask(gold, predicted, self.left)
        self.left = 0.0 if reply == LATE else self.left - seconds
        return reply


# ------------------------------------------------------------------------------------------ the worker's side
def serve() -> None:
    """Answer questions from the standard input until it closes."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    sys.stdout = sys.stderr  # nothing but replies goes into the pipe

    def reply(word: str) -> None:
        out.write(word + "\n")
        out.flush()

    try:
        from latex2sympy2_extended import latex2sympy
        from math_verify import verify
        from math_verify.grader import should_treat_as_complex
        from sympy import Expr, Rational
    except Exception as error:
        return reply(f"{type(error).__name__}: {error}".replace("\n", " "))

    @functools.lru_cache(1024)
    def read(latex: str) -> object:
        """math-verify's parser, without its cleaning, which guesses at units ("2ab" would lose its "ab")."""
        real = not should_treat_as_complex(latex)
        return latex2sympy(latex, is_real=real, convert_degrees=False, normalization_config=None)

    def exactly(gold: Any, predicted: Any) -> str | None:
        """Decide what needs no simplification: a difference of zero, or one seen at a point to 500 digits.

        It spares math-verify most of the work, and does not round as math-verify does.
        """
        if not (isinstance(gold, Expr) and isinstance(predicted, Expr)):
            return None
        gold, predicted = gold.doit(), predicted.doit()
        if gold - predicted == 0:
            return EQUAL
        symbols = sorted(gold.free_symbols | predicted.free_symbols, key=str)
        point = {symbol: Rational(17 * place + 29, 7) for place, symbol in enumerate(symbols)}
        gold, predicted = gold.subs(point), predicted.subs(point)
        size, scale = abs((gold - predicted).evalf(15, maxn=600)), abs(gold.evalf(15)) or 1
        return DIFFERENT if size.is_finite and size > scale * Rational(1, 10**500) else None

    def judge(gold_text: str, predicted_text: str) -> str:
        try:
            gold = read(gold_text)
        except Exception:
            return UNREADABLE
        predicted = read(predicted_text)
        same = functools.partial(verify, gold, predicted, timeout_seconds=None, allow_set_relation_comp=True)
        return exactly(gold, predicted) or (EQUAL if same() else DIFFERENT)

    judge(r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}")  # warm up
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such thing on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    reply("ready")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for line in sys.stdin:
        seconds, gold_text, predicted_text = line.rstrip("\n").split("\t")
        # should the parent be gone when the time is up, this timer, which needs no interpreter lock, ends us
        faulthandler.dump_traceback_later(float(seconds) + 1, exit=True, file=nowhere)
        try:
            verdict = judge(gold_text, predicted_text)
        except Exception:
            verdict = DIFFERENT
        faulthandler.cancel_dump_traceback_later()
        reply(verdict)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]  # the parent's came along in PYTHONPATH
    serve()
