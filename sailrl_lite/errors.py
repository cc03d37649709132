"""The one exception a user of SAIL-RL lite is meant to read.

Raise it where the remedy lies outside the code: a missing file, a misspelt reward, a setting out of range.
The command line prints it as ``sailrl-lite: error: ...`` and exits with status 2; a bug stays a traceback.
"""


class SailRLError(Exception):
    """One clear line that names the thing and the remedy."""
