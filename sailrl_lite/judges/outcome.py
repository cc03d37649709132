"""What came of one request: a reply, a failure worth another try, no verdict for this call, or the end."""

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.dialect import Dialect
from sailrl_lite.judges.endpoint import NO_KEY, Endpoint
from sailrl_lite.judges.protocol import NoVerdict

LONGEST = 2_000_000  # bytes of a reply; no judge has that much to say
_WORDS = 300  # characters of an endpoint's words that are shown
_FILTERED = ("content_filter", "content_policy_violation")
_INVALID = "json_validate_failed"  # Groq, where the model's own JSON is not what the schema asks for
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context (?:length|window)|input token count.*exceeds",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\+(?:u00([2-7][0-9a-fA-F])|/)")  # of a character that a key may hold
_REMEDIES = {
    401: "check the key in {key_env}",
    402: "check the account's credit",
    403: "check the key in {key_env} and what it may use",
    404: "check the model's name and base_url",
    429: "check the account's credit",
}


@dataclass(frozen=True)
class Message:
    """The message of a reply as the endpoint sent it, and why it ended there: "stop", "length", ..."""

    message: dict[str, Any]
    finish_reason: str | None


@dataclass(frozen=True)
class Reply:
    """A chat completion as it came, not yet read: it has been paid for, whatever it holds.

    usage: tokens in and out, where the endpoint says so.
    """

    text: str
    choices: list[Any]
    usage: tuple[int, int] | None

    @property
    def message(self) -> Message | NoVerdict:
        first = self.choices[0] if self.choices else None
        if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
            return NoVerdict("bad reply", "a reply without a message")
        reason = first.get("finish_reason")
        return Message(first["message"], reason if isinstance(reason, str) else None)


@dataclass(frozen=True)
class Failure:
    """What may go better next time. retry_after: seconds that the endpoint asks to wait."""

    cause: str
    detail: str
    retry_after: float = 0.0


def read_reply_text(text: str) -> Reply | Failure:
    """The text of a chat completion."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return Failure("bad reply", "a reply that is no JSON")
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        return Failure("bad reply", "a reply that is no chat completion")
    return Reply(text, body["choices"], _usage(body.get("usage")))


def read_response(content_type: str, content: bytes, key: str) -> Reply | Failure:
    """The body of a response that reported success. The key is removed should it be there."""
    if "json" not in content_type.lower():
        shown = _without(key, content_type)[:50]
        return Failure("bad reply", f"a reply of the type {shown!r} instead of JSON")
    if len(content) > LONGEST:
        return Failure("bad reply", f"a reply of {len(content):,} bytes")
    try:
        return read_reply_text(_without(key, content.decode()))
    except UnicodeDecodeError:
        return Failure("bad reply", "a reply that is no UTF-8")


def read_refusal(
    status: int, headers: Mapping[str, str], error: Any, endpoint: Endpoint, key: str, dialect: Dialect
) -> Failure | NoVerdict | Dialect | SailRLError:
    """What a status other than success means.

    Args:
        error: what the body holds as its error, parsed where it is JSON.
        key: removed from the words should it be there.
        dialect: how the request was asked.

    Returns:
        A failure worth another try; no verdict where the fault lies with this call alone; how to ask
        instead; or the exception that ends the run, with the endpoint's own words.
    """
    if isinstance(error, list) and error and isinstance(error[0], dict):  # as Gemini wraps it
        error = error[0].get("error", error[0])
    fields = error if isinstance(error, dict) else {}
    code, param, message = (fields.get(name) for name in ("code", "param", "message"))
    everything = error if isinstance(error, str) else json.dumps(error, default=str)
    words = " ".join(_without(key, message if isinstance(message, str) else everything).split())
    words = words[:_WORDS] or "no words of its own"
    if (status in (408, 409, 429) and code != "insufficient_quota") or status >= 500:
        cause = {408: "timeout", 429: "rate limit"}.get(status, "server error")
        return Failure(cause, f"HTTP {status}: {words}", _retry_after(headers))
    if code == _INVALID:
        return Failure("bad reply", words)
    if status in (400, 422) and code in _FILTERED:
        return NoVerdict("filtered", words)
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(everything)):
        return NoVerdict("too long", words)
    if status in (400, 422):
        other = dialect.after(param if isinstance(param, str) else None, everything)
        if other is not None:
            return other
    remedy = _REMEDIES.get(status, "check the settings of the judge").format(key_env=endpoint.key_env)
    return SailRLError(f"{endpoint.address} refuses {endpoint.model} (HTTP {status}): {words}; {remedy}")


def _without(key: str, text: str) -> str:
    """The text without the key, be it written as it is or with the escapes of JSON."""
    if key == NO_KEY:
        return text
    text = text.replace(key, "***")
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)
    return plain.replace(key, "***") if key in plain else text


def _usage(used: Any) -> tuple[int, int] | None:
    if not isinstance(used, dict):
        return None
    counts = (used.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    tokens_in, tokens_out, total = (n if type(n) is int and 0 <= n < 10**9 else None for n in counts)
    if tokens_in is None or tokens_out is None:
        return None
    # Some endpoints count the thinking in the total only.
    return tokens_in, max(tokens_out, (total or 0) - tokens_in)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds from now, 0 where the headers say nothing that can be read."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(
            0.0, email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
        )
    except (TypeError, ValueError, OverflowError):
        return 0.0
