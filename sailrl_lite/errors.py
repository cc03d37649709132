"""The one exception a user of SAIL-RL lite is meant to read.

Raise it where the remedy lies outside the code: a missing file, a misspelt reward, a setting out of range.
The command line prints it as ``sailrl-lite: error: ...`` and exits with status 2; a bug stays a traceback.
"""

import difflib
from collections.abc import Iterable


class SailRLError(Exception):
    """One clear line that names the thing and the remedy."""


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them.

    >>> suggest("cascad", ["cascade", "additive"])
    "did you mean 'cascade'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
