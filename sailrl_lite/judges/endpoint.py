"""Which LLM judges, where it is served, and what a run may ask of it."""

import ipaddress
import math
import os
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

from sailrl_lite.errors import SailRLError

Calls = Literal["separate", "combined"]
NO_KEY = "none-needed"  # what a local server without a key is sent
_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint as a judge. The key is in the environment and in no field.

    model: as the endpoint names it.
    base_url: such as "http://localhost:8000/v1"; None is OPENAI_BASE_URL or else OpenAI itself.
    key_env: the environment variable that holds the key.
    calls: "separate" asks once for each sub-reward, "combined" once for all three.
    concurrency: requests in flight at most.
    timeout: seconds for one attempt, from sending to the last byte.
    patience: seconds for one call with all its retries.
    rpm, tpm: requests and tokens a minute; None is no limit.
    max_calls, max_tokens, max_cost: the budget: requests, tokens in and out, dollars; None is no limit.
    price_in, price_out: dollars for a million tokens in and out.
    reply_tokens: the longest reply.
    longest_side: pixels; a larger picture is made smaller.
    cache: the folder of replies that were paid for, shared by runs; None or "" is none.
    reasks: how often a reply that holds no verdict is asked for again.
    """

    model: str
    base_url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    calls: Calls = "separate"
    concurrency: int = 64
    timeout: float = 60.0
    patience: float = 300.0
    rpm: int | None = None
    tpm: int | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    reply_tokens: int = 2048
    longest_side: int = 1024
    cache: str | None = "~/.cache/sailrl-lite/judge"
    reasks: int = 2

    def check(self) -> None:
        """Raise SailRLError where a setting is out of its range, or the key is missing."""
        self.check_values()
        self.key()

    def check_values(self) -> None:
        """Raise SailRLError where a setting is out of its range; the key may be that of another machine."""
        if not self.model.strip():
            raise SailRLError("an LLM judge needs the name of its model")
        if not self.model.isprintable():
            raise SailRLError(f"the model's name {ascii(self.model)[:80]} has characters that no name has")
        if self.calls not in get_args(Calls):
            raise SailRLError(f"calls cannot be {self.calls!r}; use one of {', '.join(get_args(Calls))}")
        for name, (least, greatest) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= greatest:  # NaN is in no range
                raise SailRLError(f"{name} of the judge must lie in [{least:g}, {greatest:g}], not {value}")
        if self.max_cost is not None and (self.price_in is None or self.price_out is None):
            raise SailRLError("max_cost needs price_in and price_out, in dollars for a million tokens")
        self._check_address()

    @property
    def address(self) -> str:
        """The base URL that will be used."""
        return (self.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or _OPENAI).rstrip("/")

    def key(self) -> str:
        """The key, from the environment.

        Raises:
            SailRLError: the variable is not set, and the endpoint is not a private one; or it holds what no
                key is.
        """
        key = os.environ.get(self.key_env, "").strip()
        if not key and _is_private(urlsplit(self.address).hostname or ""):
            return NO_KEY
        if not key:
            raise SailRLError(f"no key for {self.address}: set the environment variable {self.key_env}")
        # Else the exception about a broken header would show it.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SailRLError(f"the environment variable {self.key_env} holds no key: it has odd characters")
        return key

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Dollars; 0 where no price is given."""
        return (tokens_in * (self.price_in or 0) + tokens_out * (self.price_out or 0)) / 1e6

    def _check_address(self) -> None:
        try:
            parts = urlsplit(self.address)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise SailRLError("base_url of the judge must be like http://localhost:8000/v1") from None
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise SailRLError(
                f"base_url of the judge must be a bare address, without user, password or query; put the key "
                f"into the environment variable {self.key_env}"
            )
        odd = not self.address.isprintable() or " " in self.address
        if parts.scheme not in ("http", "https") or not host or port == 0 or odd:
            raise SailRLError(
                f"base_url of the judge must be like http://localhost:8000/v1, not {self.address!r}"
            )


def _is_private(host: str) -> bool:
    """Whether a host is this machine or one of a local network, where keys are often not needed."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))


_INF = math.inf
_RANGES: dict[str, tuple[float, float]] = {
    "concurrency": (1, 1000),
    "timeout": (0.01, 86_400),
    "patience": (0.01, 86_400),
    "rpm": (1, 1e9),
    "tpm": (1, 1e12),
    "max_calls": (0, _INF),
    "max_tokens": (0, _INF),
    "max_cost": (0, _INF),
    "price_in": (0, 1e6),
    "price_out": (0, 1e6),
    "reply_tokens": (1, 1_000_000),
    "longest_side": (28, 16_384),
    "reasks": (0, 100),
}
