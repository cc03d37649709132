"""A scripted OpenAI-compatible server for tests: real HTTP on loopback, and every fault on demand.

In this process, in a thread of its own, with any function as its script:

    with JudgeServer(lambda number, request: chat('{"logic": 1}')) as server:
        ... server.url, server.requests

In a process of its own, with one of `SCRIPTS` (a test that measures or kills needs that):

    with ServerProcess("scores", folder, latency=0.2) as server:
        ... server.url, server.log()
"""

import asyncio
import hashlib
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = "application/json"


@dataclass(frozen=True)
class Action:
    """What the server does with a request.

    how: "reply" sends it all; "hang" sends nothing; "reset" breaks the connection in the middle of the body,
    "truncate" closes it there; "drip" sends a byte every 0.2 s.
    latency: seconds before it begins, None for the server's own.
    good: whether it is a reply with the right scores.
    """

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    type: str = JSON
    how: str = "reply"
    latency: float | None = None
    good: bool = False


Script = Callable[[int, dict[str, Any]], Action]
USAGE = {"prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 750}


def chat(
    content: Any,
    finish_reason: str = "stop",
    usage: dict[str, int] | None = USAGE,
    message: dict[str, Any] | None = None,
    **action: Any,
) -> Action:
    """A chat completion with this content, or this whole message."""
    message = message or {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    if usage:
        body["usage"] = usage
    return Action(json.dumps(body).encode(), **action)


def refuse(
    status: int,
    words: str = "no",
    code: Any = None,
    param: str | None = None,
    latency: float | None = None,
    **headers: str,
) -> Action:
    """An error as OpenAI words it. `headers` have _ for -."""
    error = {"message": words, "type": "error", "code": code, "param": param}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Action(json.dumps({"error": error}).encode(), status, named, latency=latency)


def pictured(request: dict[str, Any]) -> list[str]:
    """The data URLs in a request."""
    parts = [p for m in request["messages"] if isinstance(m["content"], list) for p in m["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def written(request: dict[str, Any]) -> str:
    """All the text in the messages of a request."""
    contents = [m["content"] for m in request["messages"]]
    return "\n".join(
        c if isinstance(c, str) else "\n".join(p["text"] for p in c if p["type"] == "text") for c in contents
    )


def asked_keys(request: dict[str, Any]) -> list[str]:
    """The scores that a request's JSON schema asks for."""
    form = request["response_format"]
    schema = form["json_schema"]["schema"] if "json_schema" in form else form["schema"]
    return [key for key in schema["properties"] if key in ("logic", "grounding", "consistency")]


def truth(case: str, key: str) -> int:
    """The score that the server gives to a case, whose text says `case 17`: by its hash."""
    return hashlib.sha256(f"{case}/{key}".encode()).digest()[0] & 1


def case_of(request: dict[str, Any]) -> str:
    return re.search(r"case (\d+)", written(request))[1]  # type: ignore[index]


def right(request: dict[str, Any]) -> Action:
    """The right scores, as the request asks for them."""
    case = case_of(request)
    return chat(json.dumps({key: truth(case, key) for key in asked_keys(request)}), good=True)


def faults() -> dict[str, Action]:
    """One of each kind of fault, by name."""
    whole = chat('{"logic": 1, "grounding": 1, "consistency": 1}')
    return {
        "429": refuse(429, "slow down"),
        "429 with Retry-After": refuse(429, "slow down", Retry_After="0.05"),
        "500": refuse(500, "oops"),
        "503": refuse(503, "overloaded", retry_after_ms="20"),
        "hang": Action(how="hang"),
        "reset": Action(whole.body, how="reset"),
        "truncated": Action(whole.body, how="truncate"),
        "drip": Action(whole.body, how="drip"),
        "wrong type": Action(whole.body, type="text/html"),
        "bad UTF-8": Action(whole.body.replace(b"assistant", b"\xff\xfe\xfa")),
        "no JSON": Action(b"<html>Bad gateway</html>"),
        "no completion": Action(b'{"error": {"message": "upstream"}}'),
        "no choices": Action(b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}'),
        "the model's JSON is invalid": refuse(400, "Failed to generate JSON", code="json_validate_failed"),
        "prose": chat("The reasoning looks fine to me."),
        "missing key": chat("{}"),
        "half": chat('{"logic": 0.5, "grounding": 0.5, "consistency": 0.5}'),
        "cut off": chat(None, finish_reason="length"),
    }


def scores() -> Script:
    """Every request is answered with the right scores."""
    return lambda number, request: right(request)


def one_in_five() -> Script:
    """Every fifth request, as a hash has it, meets a fault; all kinds come up."""
    tries: Counter[tuple[str, ...]] = Counter()
    kinds = list(faults().values())

    def script(number: int, request: dict[str, Any]) -> Action:
        what = (case_of(request), *asked_keys(request))
        tries[what] += 1
        draw = int.from_bytes(hashlib.sha256(f"{what}{tries[what]}".encode()).digest()[:4], "big")
        return kinds[draw // 5 % len(kinds)] if draw % 5 == 0 else right(request)

    return script


SCRIPTS: dict[str, Callable[[], Script]] = {"scores": scores, "one in five": one_in_five}


@dataclass
class Request:
    """What reached the judge, and when (time.time()) its answer had been sent in full, if ever."""

    number: int
    body: dict[str, Any]
    action: Action
    delivered: float | None = None


class _Http:
    """The server itself: HTTP/1.1 with keep-alive, for POST with Content-Length, which is all that comes."""

    def __init__(self, script: Script, latency: float, done: Callable[[Request], None]) -> None:
        self.script, self.latency, self.done = script, latency, done
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = self.connections = 0

    async def serve(self, ready: Callable[[int], None], stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1000)
        ready(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    if not await self._answer(json.loads(body), writer):
                        break
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client or the test has gone
        finally:
            writer.close()

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Do what the script says; whether the connection can be used again."""
        number = len(self.requests)
        request = Request(number, body, self.script(number, body))
        self.requests.append(request)
        action = request.action
        await asyncio.sleep(self.latency if action.latency is None else action.latency)
        lines = [f"HTTP/1.1 {action.status} Status", f"Content-Type: {action.type}"]
        lines += [f"Content-Length: {len(action.body)}", *(f"{k}: {v}" for k, v in action.headers.items())]
        head, half = "\r\n".join([*lines, "", ""]).encode(), len(action.body) // 2
        if action.how == "hang":
            await asyncio.sleep(3600)
        elif action.how == "drip":
            writer.write(head)
            for byte in action.body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.2)
        elif action.how in ("reset", "truncate"):
            writer.write(head + action.body[:half])
            await writer.drain()
            if action.how == "reset":
                connection: socket.socket = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            return False
        else:
            writer.write(head + action.body)
            await writer.drain()
            request.delivered = time.time()
        self.done(request)
        return action.how == "reply"


class JudgeServer:
    """The server in a thread of this process. `requests` is what reached it, `url` its base URL."""

    def __init__(self, script: Script, latency: float = 0.0) -> None:
        self._http = _Http(script, latency, lambda request: None)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def requests(self) -> list[Request]:
        return self._http.requests

    @property
    def most_in_flight(self) -> int:
        return self._http.most_in_flight

    @property
    def connections(self) -> int:
        return self._http.connections

    def __enter__(self) -> "JudgeServer":
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self._http.serve(self._listen, self._stop)

    def _listen(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()


class ServerProcess:
    """The server in a process of its own. Its log has one line for each answer that was sent in full."""

    def __init__(self, script: str, folder: Path, latency: float = 0.0) -> None:
        self._log = folder / "server.jsonl"
        self._command = [sys.executable, __file__, script, str(latency), str(self._log)]

    def __enter__(self) -> "ServerProcess":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def log(self) -> list[dict[str, Any]]:
        """The answers so far: case, keys, good (whether the scores were right), at (time.time())."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]


def _serve_process(script: str, latency: str, log: str) -> None:
    with open(log, "a", buffering=1) as file:

        def done(request: Request) -> None:
            line = {"case": case_of(request.body), "keys": asked_keys(request.body)}
            line |= {"good": request.action.good, "at": request.delivered}
            file.write(json.dumps(line) + "\n")

        http = _Http(SCRIPTS[script](), float(latency), done)
        asyncio.run(
            http.serve(lambda port: print(f"http://127.0.0.1:{port}/v1", flush=True), asyncio.Event())
        )


if __name__ == "__main__":
    _serve_process(*sys.argv[1:])
