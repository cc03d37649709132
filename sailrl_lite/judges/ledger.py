"""What a judge has used, and whether the budget allows one call more."""

import threading
from collections import Counter, deque
from collections.abc import Mapping

from sailrl_lite.judges.endpoint import Endpoint
from sailrl_lite.judges.protocol import NoVerdict, Verdict

_RECENT = 10_000  # replies whose seconds are kept, for the quantiles
_CAUSE = "no_verdict: "  # how a cause is marked in the flat dict


class Ledger:
    """Counts of one judge, and its budget, which is kept by reservation.

    Before a request the worst case is reserved; afterwards it is replaced by what the endpoint says it
    used. So the budget is never overspent, however many requests are in flight. A request whose use is
    unknown (the connection was lost, the endpoint does not say) is charged its worst case.

    calls: requests sent, retries among them.
    replies: requests that were answered; `seconds` is what these took, in all.
    cache_hits: answers that needed no request.
    tokens_in, tokens_out, cost: as the endpoint counted; dollars.
    verdicts, no_verdicts: cases, the latter by cause.
    stopped: which part of the budget is spent, once a call had to be refused; "" before.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.calls = self.replies = self.retries = self.cache_hits = self.verdicts = 0
        self.tokens_in = self.tokens_out = 0
        self.seconds = 0.0
        self.no_verdicts: Counter[str] = Counter()
        self.stopped = ""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._reserved: Counter[str] = Counter()  # calls, tokens_in, tokens_out of the requests in flight
        self._scale = 1.0  # how far the endpoint's count of a prompt has exceeded ours
        self._bound = self._used = 0  # tokens of the settled requests: the worst case, and what it came to
        self._lock = threading.Lock()

    @property
    def cost(self) -> float:
        return self.endpoint.cost(self.tokens_in, self.tokens_out)

    def reserve(self, prompt: int) -> "Reservation | None":
        """Room for one request of at most `prompt` tokens.

        None where there is none now: for good if `stopped` says so, else until requests in flight have given
        back what they did not use.
        """
        with self._lock:
            tokens_in, tokens_out = round(prompt * self._scale), self.endpoint.reply_tokens
            lacking = self._lacking(tokens_in, tokens_out)
            self._stop_if(lacking)
            if lacking or self.stopped:
                return None
            reservation = Reservation(self, prompt, tokens_in, tokens_out)
            self._reserved.update(reservation.held)
            return reservation

    def typical(self, prompt: int) -> int:
        """Tokens in and out that a request of at most `prompt` tokens is likely to come to."""
        worst = prompt + self.endpoint.reply_tokens
        return max(1, round(worst * (self._used / self._bound if self._bound else 1)))

    def count_retry(self) -> None:
        with self._lock:
            self.retries += 1

    def count_hit(self) -> None:
        with self._lock:
            self.cache_hits += 1

    def count(self, found: Verdict | NoVerdict) -> None:
        """Count what became of a case."""
        with self._lock:
            if isinstance(found, NoVerdict):
                self.no_verdicts[found.cause] += 1
            else:
                self.verdicts += 1

    def as_dict(self) -> dict[str, float]:
        """All counts, flat, with `latency_mean`, `latency_p50` and `latency_p95` in seconds a reply."""
        with self._lock:
            latest = sorted(self._recent)
            counts = {name: getattr(self, name) for name in _COUNTS}
            causes = {_CAUSE + cause: float(n) for cause, n in sorted(self.no_verdicts.items())}
            return {
                **counts,
                "cost": self.cost,
                "no_verdicts": self.no_verdicts.total(),
                **causes,
                "latency_mean": self.seconds / self.replies if self.replies else 0.0,
                "latency_p50": latest[len(latest) // 2] if latest else 0.0,
                "latency_p95": latest[len(latest) * 95 // 100] if latest else 0.0,
            }

    def add(self, earlier: Mapping[str, float]) -> None:
        """Go on from what `as_dict` gave: a resumed run has spent what it had spent before.

        The quantiles of the latency are of this process's replies only.
        """
        with self._lock:
            for name in _COUNTS:
                setattr(self, name, getattr(self, name) + type(getattr(self, name))(earlier.get(name, 0)))
            for name, count in earlier.items():
                if name.startswith(_CAUSE):
                    self.no_verdicts[name.removeprefix(_CAUSE)] += int(count)
            self._stop_if(self._lacking(0, self.endpoint.reply_tokens))

    def __str__(self) -> str:
        """One line for a progress bar: 1,204 calls, 31% cached, 2.1M tokens, $1.34, 3 no verdict."""
        asked = self.cache_hits + self.replies
        parts = [f"{self.calls:,} calls", f"{self.cache_hits / asked:.0%} cached" if asked else ""]
        parts.append(f"{_short(self.tokens_in + self.tokens_out)} tokens")
        parts.append(f"${self.cost:,.2f}" if self.endpoint.price_in or self.endpoint.price_out else "")
        parts.append(f"{self.no_verdicts.total():,} no verdict" if self.no_verdicts else "")
        return ", ".join(part for part in parts if part)

    def _stop_if(self, lacking: str) -> None:
        if lacking and not self._reserved["calls"] and not self.stopped:
            self.stopped = f"the judge's budget of {lacking} is spent"

    def _lacking(self, tokens_in: int, tokens_out: int) -> str:
        """The first part of the budget that has no room for one call more; "" where all have."""
        limits, held = self.endpoint, self._reserved
        all_in = self.tokens_in + held["tokens_in"] + tokens_in
        all_out = self.tokens_out + held["tokens_out"] + tokens_out
        if limits.max_calls is not None and self.calls + held["calls"] + 1 > limits.max_calls:
            return f"{limits.max_calls:,} calls"
        if limits.max_tokens is not None and all_in + all_out > limits.max_tokens:
            return f"{limits.max_tokens:,} tokens"
        if limits.max_cost is not None and limits.cost(all_in, all_out) > limits.max_cost:
            return f"${limits.max_cost:,.2f}"
        return ""


class Reservation:
    """The worst case of one request: at most `tokens_in` and `tokens_out`. Settle it exactly once."""

    def __init__(self, ledger: Ledger, prompt: int, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in, self.tokens_out = tokens_in, tokens_out
        self.held = {"calls": 1, "tokens_in": tokens_in, "tokens_out": tokens_out}
        self._ledger, self._prompt = ledger, prompt

    def settle(self, used: tuple[int, int] | None, seconds: float | None) -> None:
        """Replace it by the tokens in and out that were used; None if unknown, which is the worst case.

        `seconds` is how long the answer took, None where there was none.
        """
        ledger, (tokens_in, tokens_out) = self._ledger, used or (self.tokens_in, self.tokens_out)
        with ledger._lock:
            ledger._reserved.subtract(self.held)
            ledger.calls += 1
            ledger.tokens_in += tokens_in
            ledger.tokens_out += tokens_out
            if seconds is not None:
                ledger.replies += 1
                ledger.seconds += seconds
                ledger._recent.append(seconds)
                ledger._scale = max(ledger._scale, tokens_in / self._prompt)
                ledger._bound += self._prompt + ledger.endpoint.reply_tokens
                ledger._used += tokens_in + tokens_out


_COUNTS = ("calls", "replies", "retries", "cache_hits", "tokens_in", "tokens_out", "seconds", "verdicts")


def _short(count: int) -> str:
    """2.1M for 2,100,000."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)
