"""Have VLMEvalKit ask the policy of settings.json, and print the columns of the paper's table 5.

    python evaluate.py                          every benchmark of settings.json
    python evaluate.py MathVision OCRBench      some of them, or other data sets that VLMEvalKit knows
    python evaluate.py --table                  only the table of what there is

Each policy is asked twice: freely, and forced to answer directly (`--freely` leaves that out), since tokens
are counted relative to the latter. A run that was stopped goes on where it was.
"""

import argparse
import hashlib
import json
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from sailrl_lite.errors import SailRLError
from sailrl_lite.export.responses import NEVER, read_responses, read_scores, table5
from sailrl_lite.export.vlmevalkit import EXACT

HERE = Path(__file__).resolve().parent
MODEL = "sail-rl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", nargs="*", help="benchmarks or data sets")
    parser.add_argument("--freely", action="store_true", help="do not force direct answers beside it")
    parser.add_argument("--table", action="store_true", help="print the table and ask nothing")
    args = parser.parse_args()
    settings = json.loads((HERE / "settings.json").read_text("utf-8"))
    names = args.data or list(settings["benchmarks"])
    data = [settings["benchmarks"].get(name, name) for name in names]
    models = [MODEL] if args.freely else [MODEL, MODEL + NEVER]
    try:
        folder = HERE / "outputs" / fingerprint(settings)
        failed = [] if args.table else run(settings, folder, data, models)
        if int(os.environ.get("RANK", "0")) == 0:
            print(f"\n{folder}")
            print(table5(read_responses(folder), read_scores(folder)).round(2).to_string(index=False))
    except SailRLError as error:
        print(f"evaluate.py: error: {error}", file=sys.stderr)
        return 2
    for line in failed:
        print(f"evaluate.py: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def fingerprint(settings: dict[str, Any]) -> str:
    """Of the settings and the checkpoint's files. VLMEvalKit takes predictions that it finds for its own, so
    another checkpoint must have another folder."""
    digest = hashlib.sha256(json.dumps({**settings, "benchmarks": None}, sort_keys=True).encode())
    folder = Path(settings["checkpoint"])
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        revision = settings["policy"]["revision"] or None
        one = snapshot_download(settings["checkpoint"], revision=revision, allow_patterns=["config.json"])
        return hashlib.sha256(digest.digest() + Path(one).name.encode()).hexdigest()[:12]  # of the commit
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.name.encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:12]


def run(settings: dict[str, Any], folder: Path, data: list[str], models: list[str]) -> list[str]:
    """Ask and grade; what failed, since VLMEvalKit goes on to the next data set and ends well."""
    grader = settings["grader"]
    key = os.environ.get("OPENAI_API_KEY", "")
    if grader != EXACT and not key:  # VLMEvalKit would go on without a grader
        raise SailRLError(f"the grader {grader} needs a key in the environment variable OPENAI_API_KEY")
    os.environ["SPLIT_THINK"] = "1"
    os.environ.pop("MMEVAL_ROOT", None)  # would take the place of --work-dir
    from sailrl_model import SailRLPolicy
    from vlmeval import run as kit
    from vlmeval.config import supported_VLM

    hide(key)
    for model in models:
        (folder / model).mkdir(parents=True, exist_ok=True)
        supported_VLM[model] = partial(
            SailRLPolicy, settings, folder / model, never_think=model.endswith(NEVER)
        )
    sys.argv = ["run.py", "--model", *models, "--data", *data, "--work-dir", str(folder), "--judge", grader]
    if address := os.environ.get("OPENAI_BASE_URL"):  # the openai client's own variable
        sys.argv += ["--judge-base-url", address]
    kit.main()
    failed: list[str] = []
    if int(os.environ.get("RANK", "0")):
        return failed  # the first process grades
    for model in models:
        status = json.loads((folder / model / "status.json").read_text("utf-8"))["datasets"]
        for name in data:
            said = status.get(name, {})
            if not said.get("metrics"):
                why = said.get("error_message") or said.get("skip_reason") or "no figures"
                failed.append(f"{model} on {name}: {why}")
    return failed


def hide(key: str) -> None:
    """Keep the key out of the log, into which VLMEvalKit writes it in plain text."""

    def without(record: logging.LogRecord) -> bool:
        if key and key in record.getMessage():
            record.msg, record.args = record.getMessage().replace(key, "***"), ()
        return True

    logging.getLogger("vlmeval.api.gpt").addFilter(without)


if __name__ == "__main__":
    sys.exit(main())
