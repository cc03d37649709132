"""What an endpoint understands of a chat request: the best way to ask for JSON, and other parameters."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Self

FORMATS = ("json_schema", "json_object with schema", "json_object", "no format")

_ABOUT_FORMAT = re.compile(
    r"response[_ ]?format|response[_ ]?schema|response[_ ]?mime|json[_ ]?schema|json[_ ]?object|json[_ ]?mode"
    r"|structured[_ ]output|guided|grammar",
    re.IGNORECASE,
)
_ABOUT_LENGTH = re.compile(r"max_(?:completion_)?tokens", re.IGNORECASE)
_ABOUT_TEMPERATURE = re.compile(r"temperature", re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """How to ask one model at one endpoint.

    format: 0 to 3, an index of `FORMATS`: what is asked for is in the prompt too, so any of them can do.
    length: the name of the parameter that bounds the reply.
    temperature: whether one may be set.
    """

    format: int = 0
    length: str = "max_tokens"
    temperature: bool = True

    def parameters(self, schema: dict[str, Any], reply_tokens: int, temperature: float) -> dict[str, Any]:
        """The parameters of a request, besides model and messages.

        schema: the JSON schema of the reply.
        """
        asked: dict[str, Any] = {self.length: reply_tokens}
        if self.temperature:
            asked["temperature"] = temperature
        if self.format == 0:
            named = {"name": "verdict", "strict": True, "schema": schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self.format < 3:
            asked["response_format"] = {"type": "json_object"} | (
                {"schema": schema} if self.format == 1 else {}
            )
        return asked

    def after(self, param: str | None, words: str) -> "Dialect | None":
        """What to try after a refusal; None where it is about nothing that could be asked for otherwise.

        Args:
            param: the parameter that the endpoint blames, if it says so.
            words: what it says.

        >>> Dialect().after("temperature", "Unsupported value")
        Dialect(format=0, length='max_tokens', temperature=False)
        >>> Dialect().after(None, "unknown field response_format") == Dialect(format=1)
        True
        """
        for blamed in (param or "", words):
            # Length first: the advice to use the other name stands beside many complaints.
            if _ABOUT_LENGTH.search(blamed) and self.length == "max_tokens":
                return replace(self, length="max_completion_tokens")
            if _ABOUT_TEMPERATURE.search(blamed) and self.temperature:
                return replace(self, temperature=False)
            if _ABOUT_FORMAT.search(blamed) and self.format < len(FORMATS) - 1:
                return replace(self, format=self.format + 1)
        return None

    def __str__(self) -> str:
        return f"{FORMATS[self.format]}, {self.length}, {'a' if self.temperature else 'no'} temperature"

    def to_json(self) -> str:
        return json.dumps([self.format, self.length, self.temperature])

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """What `to_json` wrote, or None where the text is something else."""
        try:
            format, length, temperature = json.loads(text)
        except (ValueError, TypeError):
            return None
        known = format in range(len(FORMATS)) and length in ("max_tokens", "max_completion_tokens")
        return cls(format, length, bool(temperature)) if known else None
