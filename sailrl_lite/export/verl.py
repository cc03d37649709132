"""A run for verl: a folder with data, reward, values and launch script, which needs verl only to start.

train.parquet, val.parquet    the problems, pictures inside
overrides.txt                 the values of the rung, one Hydra override a line
reward.py                     the reward function: this package's, writing into the folder
launch.sh                     starts Ray on each machine, and verl on the first
config.json, README.md        the run configuration, and what to edit
"""

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from sailrl_lite.config import RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.export.verl_rows import curated_rows, micro_rows, write_verl
from sailrl_lite.export.verl_values import Plan, plan_verl, refuse
from sailrl_lite.files import write_text
from sailrl_lite.judges.specs import get_endpoint, innermost, read_spec

VERL = "0.9.1"
_TEMPLATES = Path(__file__).parent / "templates" / "verl"


def export_verl(config: RLConfig, out: Path) -> Plan:
    """Write the folder `out`, whole or not at all.

    Raises:
        SailRLError: a setting that verl cannot follow, data that cannot be used, or an `out` that is there
            already and not empty.
    """
    config.check()
    refuse(config)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SailRLError(f"{out} is there already; name another folder, or remove it")
    if config.data:
        count, train, test = curated_rows(config)
    else:
        count, (train, test) = config.problems, micro_rows(config)
    plan = plan_verl(config, count)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            folder = Path(scratch) / out.name
            write_verl(folder / "train.parquet", train, config)
            write_verl(folder / "val.parquet", test, config)
            for name, text in verl_texts(config, plan).items():
                write_text(folder / name, text)
            (folder / "launch.sh").chmod(0o755)
            if out.exists():
                out.rmdir()
            os.replace(folder, out)
    except OSError as error:
        raise SailRLError(f"cannot write {out}: {error.strerror}; free some space or name another") from error
    return plan


def verl_texts(config: RLConfig, plan: Plan) -> dict[str, str]:
    """The text files of the folder, by name."""
    asked = innermost(config.judge)
    key = get_endpoint(asked).key_env if read_spec(asked).kind == "llm" else "no key"
    words = {
        "VERL": VERL, "NODES": str(plan.nodes), "GPUS": str(plan.gpus), "ALL": str(plan.nodes * plan.gpus),
        "JUDGE": shlex.quote(config.judge), "KEY": key, "POLICY": plan.values["actor_rollout_ref.model.path"],
        "NOTES": "\n".join(f"- {note}" for note in plan.notes),
    }  # fmt: skip
    texts = {name: _filled(name, words) for name in ("launch.sh", "reward.py", "README.md")}
    lines = [f"{name}={hydra_value(value)}\n" for name, value in plan.values.items()]
    return texts | {"overrides.txt": "".join(lines), "config.json": config.to_json()}


def hydra_value(value: Any) -> str:
    """A value as Hydra's overrides take it: texts in quotes, so that none of their characters has a meaning.

    >>> [hydra_value(v) for v in (1e-6, None, True, ["a", 2], "llm:m,rpm=5", "it's")]
    ['1e-06', 'null', 'true', "['a',2]", "'llm:m,rpm=5'", "'it\\\\'s'"]
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    return repr(value)


def _filled(name: str, words: dict[str, str]) -> str:
    """A template with its @WORDS@ filled in."""
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    for word, meant in words.items():
        text = text.replace(f"@{word}@", meant)
    return text
