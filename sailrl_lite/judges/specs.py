"""A judge in one line of text, as configurations and the command line name it.

    exact                                     the micro-world's verifier
    learned                                   the shipped small model, or learned:FOLDER
    noisy:exact,false_pass=0.1,false_fail.logic=0.05,seed=1
    llm:MODEL,base_url=http://localhost:8000/v1,rpm=600,max_calls=5000

A key is never part of it: `llm` reads it from the environment (`key_env` names another variable).
"""

import difflib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.protocol import DIMENSIONS, Judge

if TYPE_CHECKING:
    from sailrl_lite.judges.endpoint import Endpoint

NOISY = "noisy:JUDGE,false_pass=RATE,false_fail=RATE[,false_pass.logic=RATE...][,seed=N]"
JUDGES = f"exact, learned[:FOLDER], {NOISY}, or llm:MODEL[,base_url=URL][,NAME=VALUE...]"
# Settings of an LLM judge that change what it costs and how fast it is, but not what it says.
LIMITS = (
    "key_env", "concurrency", "timeout", "patience", "rpm", "tpm", "max_calls", "max_tokens", "max_cost",
    "price_in", "price_out", "cache",
)  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """A judge's text, taken apart: its kind, what stands before the first comma, and the settings."""

    kind: str
    first: str
    settings: Mapping[str, str]


def read_spec(text: str) -> Spec:
    """Take the text of a judge apart. Raises SailRLError where it is none.

    >>> read_spec("noisy:exact,false_pass=0.1")
    Spec(kind='noisy', first='exact', settings={'false_pass': '0.1'})
    """
    kind, _, rest = text.partition(":")
    kind = kind.strip()
    if kind not in _KINDS:
        near = difflib.get_close_matches(kind, _KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {JUDGES}"
        raise SailRLError(f"unknown judge {text!r}; {hint}")
    parts = [part.strip() for part in rest.split(",")] if rest.strip() else []
    first = parts.pop(0) if parts and "=" not in parts[0] else ""
    settings = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or name.strip() in settings:
            raise SailRLError(f"judge {text!r}: {part!r} is not a NAME=VALUE that is given once")
        settings[name.strip()] = value.strip()
    return Spec(kind, first, settings)


def get_judge(text: str) -> Judge:
    """The judge that a text names.

    Raises:
        SailRLError: an unknown kind or setting, a value out of range, a missing folder or key.
    """
    spec = read_spec(text)
    return _KINDS[spec.kind](spec)


def check_judge(text: str) -> None:
    """Raise SailRLError where `get_judge` would, but for what only the machine of a run has: folder, key,
    packages."""
    spec = read_spec(text)
    if spec.kind == "llm":
        _endpoint(spec).check_values()
    elif spec.kind == "noisy":
        from sailrl_lite.judges.exact import ExactJudge

        check_judge(spec.first or "exact")
        _made_noisy(spec, ExactJudge())
    else:
        _refuse_rest(spec, first=not spec.first or spec.kind == "learned")


def innermost(text: str) -> str:
    """The judge that is asked: a noisy one turns what another says.

    >>> innermost("noisy:llm:m,false_pass=0.1"), innermost("exact")
    ('llm:m', 'exact')
    """
    spec = read_spec(text)
    return innermost(spec.first or "exact") if spec.kind == "noisy" else text


def essence(text: str) -> str:
    """The part of a judge's text that decides its verdicts: a resumed run may change the rest.

    >>> essence("llm:m,max_calls=10,base_url=http://localhost:8000/v1,rpm=5")
    'llm:m,base_url=http://localhost:8000/v1'
    """
    spec = read_spec(text)
    kept = [f"{name}={value}" for name, value in sorted(spec.settings.items()) if name not in LIMITS]
    return ",".join([f"{spec.kind}:{spec.first}", *kept])


def _exact(spec: Spec) -> Judge:
    from sailrl_lite.judges.exact import ExactJudge

    _refuse_rest(spec, first=not spec.first)
    return ExactJudge()


def _learned(spec: Spec) -> Judge:
    from sailrl_lite.judges.learned import LearnedJudge

    _refuse_rest(spec)
    return LearnedJudge(spec.first or None)


def _noisy(spec: Spec) -> Judge:
    return _made_noisy(spec, get_judge(spec.first or "exact"))


def _made_noisy(spec: Spec, inner: Judge) -> Judge:
    from sailrl_lite.judges.noisy import NoisyJudge

    rates: dict[str, dict[Any, float]] = {"false_pass": {}, "false_fail": {}}
    seed = 0
    for name, text in spec.settings.items():
        rate, dot, dimension = name.partition(".")
        if name == "seed":
            seed = _value(int, name, text)
        elif rate in rates and (not dot or dimension in DIMENSIONS):
            named = (dimension,) if dot else DIMENSIONS
            rates[rate] |= dict.fromkeys(named, _value(float, name, text))
        else:
            raise SailRLError(f"unknown setting {name!r} of the noisy judge; use {NOISY}")
    return NoisyJudge(inner, rates["false_pass"], rates["false_fail"], seed)


def get_endpoint(text: str) -> "Endpoint":
    """The endpoint that a text "llm:MODEL,..." names. Raises SailRLError as `get_judge`."""
    spec = read_spec(text)
    if spec.kind != "llm":
        raise SailRLError(f"this takes an LLM, llm:MODEL[,base_url=URL][,NAME=VALUE...], not {text!r}")
    return _endpoint(spec)


def _llm(spec: Spec) -> Judge:
    endpoint = _endpoint(spec)
    try:
        from sailrl_lite.judges.llm import LLMJudge
    except ImportError as error:
        raise SailRLError(f"an LLM judge needs {error.name}: pip install 'sailrl-lite[judge]'") from error
    return LLMJudge(endpoint)


def _endpoint(spec: Spec) -> "Endpoint":
    from sailrl_lite.judges.endpoint import Endpoint

    if not spec.first:
        raise SailRLError("an LLM needs its model: llm:MODEL")
    kinds = get_type_hints(Endpoint)
    known = [field.name for field in fields(Endpoint) if field.default is not MISSING]
    values = {}
    for name, text in spec.settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise SailRLError(f"unknown setting {name!r} of an LLM judge; {hint}")
        values[name] = _value(kinds[name], name, text)
    return Endpoint(model=spec.first, **values)


def _refuse_rest(spec: Spec, first: bool = True) -> None:
    if spec.settings or not first:
        raise SailRLError(f"the {spec.kind} judge takes no settings")


def _value(kind: Any, name: str, text: str) -> Any:
    """The value of a text, of the first number type that its setting takes, else the text itself."""
    kinds = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    number = next((k for k in kinds if k in (int, float)), None)
    if number is None:
        return text
    try:
        return number(text)
    except ValueError:
        raise SailRLError(f"setting {name} must be a number, not {text!r}") from None


_KINDS: dict[str, Callable[[Spec], Judge]] = {
    "exact": _exact,
    "learned": _learned,
    "noisy": _noisy,
    "llm": _llm,
}
