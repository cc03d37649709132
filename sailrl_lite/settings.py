"""What every configuration can do: be checked, printed, kept as JSON, and changed by text."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

from sailrl_lite.errors import SailRLError, suggest


class Settings:
    """A frozen dataclass of values. A field that is a dataclass is a part: `noise.slip` names its value.

    `ranges` are the least and the greatest value of a setting, `choices` the words that it can be.
    """

    ranges: ClassVar[dict[str, tuple[float, float]]] = {}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    def check(self) -> None:
        """Raise SailRLError where a value is out of its range or not among the choices."""
        for name, (least, greatest) in self.ranges.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= greatest:  # NaN is in no range
                raise SailRLError(f"{name} must lie in [{least:g}, {greatest:g}], not {value}")
        for name, known in self.choices.items():
            if getattr(self, name) not in known:
                raise SailRLError(f"{name} cannot be {getattr(self, name)!r}; use one of {', '.join(known)}")
        for name, part in _parts(self).items():
            if isinstance(part, Settings):
                try:
                    part.check()
                except SailRLError as error:
                    raise SailRLError(f"{name}.{error}") from None

    def flat(self) -> dict[str, Any]:
        """Every value by its name, those of a part as `part.name`."""
        return flat_table(asdict(self))  # type: ignore[call-overload]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The configuration that `to_json` wrote; what an older version did not know has its usual value.

        Raises:
            SailRLError: the text is no configuration of this kind.
        """
        try:
            values = json.loads(text)
            values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            for name, part in _parts(cls()).items():
                if name in values:
                    values[name] = type(part)(**values[name])
            made = cls(**values)
            usual = cls().flat()
            for name, value in made.flat().items():
                check_type(name, value, usual[name])
            return made
        except (TypeError, ValueError, AttributeError, KeyError, SailRLError):
            raise SailRLError(f"this is no configuration of a run: {text[:60]!r}") from None

    def with_values(self, values: Mapping[str, str]) -> Self:
        """A copy with some values set from text, as in `--set learning_rate=1e-4` or `--set noise.slip=0.3`.

        Raises:
            SailRLError: an unknown name (the message suggests the nearest), or a text of the wrong type.
        """
        known = type(self)().flat()  # a value has the type of its default
        read: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, text in values.items():
            if name not in known:
                raise SailRLError(f"unknown setting {name!r}; {suggest(name, known)}")
            part, dot, own = name.rpartition(".")
            (parts.setdefault(part, {}) if dot else read)[own] = _read(name, text, known[name])
        read |= {part: replace(getattr(self, part), **inner) for part, inner in parts.items()}
        return replace(self, **read)  # type: ignore[type-var]


def as_texts(table: Mapping[str, Any]) -> dict[str, str]:
    """The entries of a TOML table as `Settings.with_values` takes them.

    >>> as_texts({"steps": 3, "noise": {"slip": 0.3}, "families": ["add", "angle"]})
    {'steps': '3', 'noise.slip': '0.3', 'families': 'add,angle'}
    """
    entries = flat_table(table).items()
    return {name: ",".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in entries}


def flat_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Every entry of nested tables by its name; one that holds an empty table has that as its value.

    >>> flat_table({"steps": 3, "noise": {"slip": 0.3}, "policy": {}})
    {'steps': 3, 'noise.slip': 0.3, 'policy': {}}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        inner = flat_table(value) if isinstance(value, Mapping) else {}
        flat |= {f"{key}.{name}": entry for name, entry in inner.items()} or {key: value}
    return flat


def check_type(name: str, value: Any, like: Any) -> None:
    """Raise SailRLError unless a value from a file is of the type of the default `like`.

    A setting whose default is None is a number, or none: in TOML the text "none".
    """
    truth = isinstance(value, bool)  # which is an int to Python
    whole, number = isinstance(value, int) and not truth, isinstance(value, int | float) and not truth
    if isinstance(like, bool):
        fits, kind = truth, "true or false"
    elif isinstance(like, int):
        fits, kind = whole, "a whole number"
    elif isinstance(like, float):
        fits, kind = number, "a number"
    elif like is None:
        fits, kind = number or value in (None, "none"), 'a number, or "none"'
    elif isinstance(like, tuple):
        texts = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        fits, kind = texts, "a list of texts"
    else:
        fits, kind = isinstance(value, str), "a text"
    if not fits:
        raise SailRLError(f"{name} must be {kind}, not {value!r}")


def _parts(settings: Settings) -> dict[str, Any]:
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}  # type: ignore[arg-type]
    return {name: value for name, value in values.items() if is_dataclass(value)}


def _read(name: str, text: str, like: Any) -> Any:
    """The value of a text, of the type of the default it replaces."""
    try:
        if isinstance(like, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(like, int | float):
            return type(like)(text)
        if like is None:
            return None if text.lower() == "none" else float(text)
        if isinstance(like, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if isinstance(like, str):
            return text
    except (KeyError, ValueError):
        pass
    raise SailRLError(f"setting {name!r} cannot be {text!r}; the default is {like!r}")
