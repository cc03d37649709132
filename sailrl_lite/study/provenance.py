"""Where a result comes from: arm, versions, processor and git state, and nothing that names the machine."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sailrl_lite import __version__
from sailrl_lite.study.arms import Run, frozen_hash

_PACKAGE = Path(__file__).resolve().parent.parent


def head_of(run: Run) -> dict[str, Any]:
    """What the log of a run says of the run and of the code that makes it."""
    named = {"arm": run.arm.name, "seed": run.seed, "hash": run.hash}
    return named | {"settings": run.settings()} | provenance()


@cache  # the code of a process is the code that it has imported, whatever becomes of the files
def provenance() -> dict[str, Any]:
    """The entries of a log about the code: frozen, versions, python, platform, git."""
    packages = {name: version(name) for name in ("torch", "transformers", "trl", "numpy")}
    return {
        "frozen": frozen_hash(),
        "versions": packages | {"sailrl_lite": __version__},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "git": git_state(_PACKAGE),
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit, and whether the files of `folder` differ from it; None where git does not keep them."""
    kept = _git(folder, "ls-files", "--error-unmatch", "__init__.py")
    commit = kept and _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    return None if not commit or changes is None else {"commit": commit, "dirty": bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.strip()
