"""One chat call to an OpenAI-compatible endpoint that survives what a long run meets.

Whatever goes wrong with one call is a `NoVerdict` with its cause; what would go wrong with every call (a
wrong key, an unknown model) is a SailRLError with the endpoint's own words. A reply is stored before it is
read, so none is paid for twice.
"""

import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import openai
import tenacity
from aiolimiter import AsyncLimiter

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.cache import ReplyCache
from sailrl_lite.judges.dialect import Dialect
from sailrl_lite.judges.endpoint import Endpoint as Endpoint
from sailrl_lite.judges.ledger import Ledger
from sailrl_lite.judges.outcome import Failure, Message, Reply, read_refusal, read_reply_text, read_response
from sailrl_lite.judges.protocol import NoVerdict

log = logging.getLogger(__name__)

ATTEMPTS = 8  # of one call, its patience allowing
LOST = 16  # calls given up before any was answered: nobody is there
PICTURE_TOKENS = 3000  # more than most models count for a picture of 1,024 pixels
_BACKOFF = tenacity.wait_exponential(multiplier=0.5, max=20) + tenacity.wait_random(0, 0.5)  # seconds
_POLL = 0.02  # seconds between two looks at a budget that is all reserved
_DAY = 86_400.0
_Found = Reply | NoVerdict | Failure | SailRLError | Dialect  # what came of one request


class ChatClient:
    """Calls one model at one endpoint, from any event loop.

    ledger: what was used, and the budget.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        endpoint.check()
        self.endpoint = endpoint
        self.ledger = Ledger(endpoint)
        self._answered, self._lost, self._last = False, 0, ""
        self._cache = ReplyCache(endpoint.cache)
        self._dialect = Dialect()  # how to ask
        self._understood: bool | None = None  # whether that has worked; None: not yet looked up
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()
        self._limits: dict[asyncio.AbstractEventLoop, _Limits] = {}

    async def ask(
        self, messages: Sequence[dict[str, Any]], schema: dict[str, Any], sample: int = 0, attempt: int = 0
    ) -> Message | NoVerdict:
        """The endpoint's reply to a conversation, from the cache where it is there.

        Args:
            messages: as the chat API takes them, pictures as data URLs.
            schema: the JSON schema of the reply, used as far as the endpoint knows how.
            sample: which of several independent opinions.
            attempt: how often the same was asked before, in vain. A re-ask has a temperature above 0, since
                the same reply again would be of no use.

        Returns:
            The message, whatever it says; or no verdict: "timeout", "rate limit", "server error",
            "connection" or "bad reply" after all retries, "filtered", "too long", "budget".

        Raises:
            SailRLError: the endpoint refuses what all calls have in common.
        """
        call = _Call(messages, schema, 0.7 if attempt else 0.0, _most_tokens(messages))
        key = _digest(
            *(self.endpoint.address, self.endpoint.model, messages, schema),
            *(call.temperature, self.endpoint.reply_tokens, sample, attempt),
        )
        async with self.open() as place:
            while key in place.flights:  # the same is being asked right now
                shared = await asyncio.shield(place.flights[key])
                if shared is not None:
                    self.ledger.count_hit()
                    return shared
            stored = self._cache.get(key)
            if stored is not None and isinstance(reply := read_reply_text(stored), Reply):
                self.ledger.count_hit()
                return reply.message
            flight = place.flights[key] = asyncio.get_running_loop().create_future()
            found = None
            try:
                async with place.slots:
                    found = await self._call(place, key, call)
                return found
            finally:
                del place.flights[key]
                flight.set_result(found)  # None where this call was given up: one that waits takes over

    def check_answered(self) -> None:
        """Raise SailRLError if calls were given up and none was ever answered."""
        if self._lost and not self._answered:
            raise SailRLError(
                f"{self.endpoint.address} has answered none of {self._lost} calls ({self._last}); check "
                "base_url, and whether the endpoint is up"
            )

    @asynccontextmanager
    async def open(self) -> AsyncIterator["_Place"]:
        """Keep the connections of this event loop open meanwhile. The last to leave closes them."""
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            self._places[loop] = _Place(self.endpoint, self._limits_of(loop))
        place = self._places[loop]
        place.users += 1
        try:
            yield place
        finally:
            place.users -= 1
            if not place.users:
                del self._places[loop]
                self._cache.close()
                await place.close()

    def _limits_of(self, loop: asyncio.AbstractEventLoop) -> "_Limits":
        """They outlive the connections: the next batch of a loop goes on under the same limits."""
        for other in list(self._limits):
            if other.is_closed():
                self._limits.pop(other, None)
        return self._limits.setdefault(loop, _Limits(self.endpoint))

    async def _call(self, place: "_Place", key: str, call: "_Call") -> Message | NoVerdict:
        """One call with its retries."""
        call.deadline = time.monotonic() + self.endpoint.patience
        found: Any = await tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda found: isinstance(found, Failure)),
            wait=_wait,
            stop=lambda state: (
                state.attempt_number >= ATTEMPTS
                or time.monotonic() + state.upcoming_sleep >= call.deadline
                or bool(self.ledger.stopped)
            ),
            before_sleep=lambda state: self.ledger.count_retry(),
            retry_error_callback=_result,
        )(self._attempt, place, key, call)
        if isinstance(found, SailRLError):
            raise found
        if not isinstance(found, Failure):
            return found
        # Others may be given up in the moment that it takes to stop: the count ends at the limit.
        self._lost, self._last = min(self._lost + 1, LOST), found.detail
        if self._lost >= LOST:
            self.check_answered()
        return NoVerdict(found.cause, found.detail)

    async def _attempt(
        self, place: "_Place", key: str, call: "_Call"
    ) -> Message | NoVerdict | Failure | SailRLError:
        """One try, and more where the endpoint must be asked otherwise."""
        if self._understood is None:
            remembered = Dialect.from_json(self._cache.get(self._dialect_key) or "")
            self._dialect, self._understood = remembered or self._dialect, remembered is not None
        while True:
            found = await (self._send if self._understood else self._explore)(place, call)
            if isinstance(found, Reply):
                self._answered = True
                self._cache.put(key, found.text)
                return found.message
            if not isinstance(found, Dialect):
                return found

    async def _explore(self, place: "_Place", call: "_Call") -> _Found:
        """Until it is known how to ask, one request goes ahead and the others wait, patience allowing."""
        try:
            async with asyncio.timeout(call.deadline - time.monotonic()):
                await place.exploring.acquire()
        except TimeoutError:
            return Failure("timeout", "no request got through")
        try:
            return self._dialect if self._understood else await self._send(place, call)
        finally:
            place.exploring.release()

    async def _send(self, place: "_Place", call: "_Call") -> _Found:
        """One request, within the limits and the budget. Nothing is raised here, since exceptions of the
        library lead to the request and so to the key."""
        waited = time.monotonic()
        if (refused := place.connect()) is not None:
            return refused
        if not self.ledger.stopped:
            await place.limits.admit(self.ledger.typical(call.prompt))
        while (reservation := self.ledger.reserve(call.prompt)) is None:
            if self.ledger.stopped:
                return NoVerdict("budget", self.ledger.stopped)
            await asyncio.sleep(_POLL)
        started = time.monotonic()
        call.deadline += started - waited  # a limit of our own costs no patience
        dialect = self._dialect
        found: _Found
        used: tuple[int, int] | None = None  # the worst case, unless we know better
        seconds: float | None = None
        try:
            async with asyncio.timeout(min(self.endpoint.timeout, call.deadline - started)):
                response = await place.post(dialect, call)
            seconds = time.monotonic() - started
            found = read_response(response.headers.get("content-type", ""), response.content, place.key)
            if isinstance(found, Reply):
                used = found.usage
                self._learn(dialect)
        except (TimeoutError, openai.APITimeoutError):
            found = Failure("timeout", f"no reply within {self.endpoint.timeout:g} s")
        except openai.APIStatusError as error:
            used = (0, 0)
            told = (error.status_code, error.response.headers, error.body)
            found = read_refusal(*told, self.endpoint, place.key, dialect)
        except openai.APIConnectionError as error:
            used = (0, 0) if type(error.__cause__).__name__ == "ConnectError" else None
            found = Failure("connection", f"the connection failed ({type(error.__cause__).__name__})")
        finally:
            reservation.settle(used, seconds)
        return self._step(dialect, found) if isinstance(found, Dialect) else found

    @property
    def _dialect_key(self) -> str:
        return "dialect " + _digest(self.endpoint.address, self.endpoint.model)

    def _learn(self, dialect: Dialect) -> None:
        """A dialect has worked: remember it, for other runs too."""
        if not self._understood and dialect == self._dialect:
            self._understood = True
            self._cache.put(self._dialect_key, dialect.to_json(), expire=_DAY)

    def _step(self, refused: Dialect, other: Dialect) -> Dialect:
        """Go on with another dialect, unless a request beside this one has gone on already."""
        if refused == self._dialect:
            self._dialect, self._understood = other, False
            log.warning("%s does not take %s; asking with %s", self.endpoint.address, refused, other)
        return self._dialect


async def together(coroutines: Any) -> list[Any]:
    """The results of coroutines that run at once. If one fails or all are cancelled, none goes on."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class _Call:
    """What is asked; `prompt` is the most tokens that it can be, `deadline` a time of the monotonic clock."""

    messages: Sequence[dict[str, Any]]
    schema: dict[str, Any]
    temperature: float
    prompt: int
    deadline: float = 0.0


class _Limits:
    """The requests and tokens a minute of one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._requests = _limiter(endpoint.rpm)
        self._tokens = _limiter(endpoint.tpm)

    async def admit(self, tokens: int) -> None:
        """Wait for the requests and tokens a minute to allow one request more."""
        if self._requests:
            await self._requests.acquire()
        if self._tokens:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))


class _Place:
    """What belongs to one event loop while it calls: connections, and the calls that are under way."""

    def __init__(self, endpoint: Endpoint, limits: _Limits) -> None:
        self.limits = limits
        self.users = 0
        self.slots = asyncio.Semaphore(endpoint.concurrency)
        self.exploring = asyncio.Lock()
        self.flights: dict[str, asyncio.Future[Message | NoVerdict | None]] = {}
        self._endpoint = endpoint
        self._client: openai.AsyncOpenAI | None = None

    @property
    def key(self) -> str:
        return self._endpoint.key()  # from the environment, each time: nothing of ours keeps it

    def connect(self) -> SailRLError | None:
        """Set up the connections where there are none yet; the error if the surroundings do not allow it."""
        if self._client is None:
            address, timeout = self._endpoint.address, self._endpoint.timeout
            try:
                self._client = openai.AsyncOpenAI(
                    api_key=self.key, base_url=address, max_retries=0, timeout=timeout
                )
            except SailRLError:
                raise  # about the key
            except Exception as error:  # of the HTTP library, with no common base
                return SailRLError(
                    f"no connection to {address} can be set up ({error}); check base_url, and the variables "
                    "ALL_PROXY, HTTPS_PROXY, HTTP_PROXY and SSL_CERT_FILE of the environment"
                )
        return None

    async def post(self, dialect: Dialect, call: _Call) -> Any:
        """Send a request; the response as it came. Raises what the openai package raises."""
        endpoint = self._endpoint
        assert self._client is not None  # by `connect`
        asked = dialect.parameters(call.schema, endpoint.reply_tokens, call.temperature)
        asked["messages"] = call.messages
        # An `extra_body` is sent as it is; to look through it for names to translate is a fifth of the work.
        create = self._client.chat.completions.with_raw_response.create
        return (await create(model=endpoint.model, messages=[], extra_body=asked)).http_response

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _limiter(a_minute: int | None) -> AsyncLimiter | None:
    """At most so many a minute, in small portions, since a burst of a minute's worth is refused."""
    if a_minute is None:
        return None
    seconds = max(5.0, 60 / a_minute)
    return AsyncLimiter(max(1.0, a_minute * seconds / 60), seconds)


def _most_tokens(messages: Sequence[dict[str, Any]]) -> int:
    """The most tokens that a prompt can be: no tokenizer makes more of a text than it has bytes."""
    parts = [part for message in messages for part in _parts(message["content"])]
    texts = sum(len(part["text"].encode("utf-8", "replace")) for part in parts if part["type"] == "text")
    return 100 + texts + PICTURE_TOKENS * sum(part["type"] == "image_url" for part in parts)


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _digest(*asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _result(state: tenacity.RetryCallState) -> Any:
    return state.outcome.result() if state.outcome else None


def _wait(state: tenacity.RetryCallState) -> float:
    """Seconds to the next try: longer and longer, or what the endpoint asks for, never all at once."""
    asked: float = _result(state).retry_after
    return max(asked * random.uniform(1.0, 1.1), _BACKOFF(state))
