"""The main job: measure the SFT policy, teach it with DAPO and the cascade reward, measure again, report."""

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from sailrl_lite import figures
from sailrl_lite.config import RLConfig, checkpoint_of
from sailrl_lite.files import write_text
from sailrl_lite.study.evaluation import (
    as_records,
    as_text,
    evaluate_relative,
    summarize,
    unseen_problems,
)
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.runs import claim_folder

PER_FAMILY = 40


def run_preview(config: RLConfig, out: Path, resume: bool = False, bar: bool = True) -> Path:
    """Do the whole job in the folder `out` and return the report, `out`/report.md.

    Besides what `train_rl` writes, `out` gets sft.csv and rl.csv (one row a response), evaluation.json, the
    figures learning.png and before_after.png, and run.json (versions, times).
    """
    started, cpu = time.time(), time.process_time()
    config.check()
    load_checkpoint(checkpoint_of(config))  # a bad one is named before the folder is taken
    claim_folder(config, out, resume)
    problems = unseen_problems(PER_FAMILY, config.families or None)
    before = _measured(checkpoint_of(config), problems, config, out / "sft.csv", bar)
    policy = out / "policy"
    if not policy.is_dir() or not (out / "metrics.csv").is_file():
        policy = train_rl(config, out, resume=True, bar=bar)
    after = _measured(policy, problems, config, out / "rl.csv", bar)

    summaries = {"sft": summarize(before), "rl": summarize(after)}
    kinds = {stage: summarize(rows, ("kind",)) for stage, rows in (("sft", before), ("rl", after))}
    whole = {stage: as_records(table) for stage, table in summaries.items()}
    write_text(out / "evaluation.json", json.dumps(whole, indent=1) + "\n")
    metrics = pd.read_csv(out / "metrics.csv")
    figures.save(figures.learning_curves(metrics), out / "learning.png")
    figures.save(figures.before_after(summaries["sft"], summaries["rl"]), out / "before_after.png")
    packages = {name: version(name) for name in ("torch", "transformers", "trl", "numpy")}
    run = {"python": platform.python_version(), **packages, "seconds": round(time.time() - started, 1),
           "cpu_seconds": round(time.process_time() - cpu, 1)}  # fmt: skip
    write_text(out / "run.json", json.dumps(run, indent=1) + "\n")
    write_text(out / "report.md", _report(config, kinds, metrics, run))
    return out / "report.md"


def _measured(checkpoint: Path, problems: list, config: RLConfig, file: Path, bar: bool) -> pd.DataFrame:
    """The responses of a policy, read from `file` where a stopped run has measured them already."""
    if not file.is_file():
        policy, processor = load_checkpoint(checkpoint)
        options = (config.temperature, config.seed, config.max_new_tokens)
        label = f"evaluating {file.stem}" if bar else None
        rows = evaluate_relative(policy, processor, problems, *options, label)
        write_text(file, rows.to_csv(index=False))
    return pd.read_csv(file)


def _report(
    config: RLConfig, kinds: dict[str, pd.DataFrame], metrics: pd.DataFrame, run: dict[str, object]
) -> str:
    few = min(5, -(-len(metrics) // 3))
    first, last = metrics["reward"].iloc[:few].mean(), metrics["reward"].iloc[-few:].mean()
    return f"""# What {config.steps} steps of DAPO did

Reward `{config.reward}`, seed {config.seed}, {config.prompts} prompts x {config.rollouts} rollouts a step.
The reward in training went from {first:.2f} to {last:.2f} (means of the first and the last {few} steps).
The whole job took {run["seconds"]} seconds.

Before (SFT) and after (SFT + RL), on problems and handwriting that no training saw, one response each at
temperature {config.temperature:g}; half-widths are of 95% bootstrap intervals over problems.
`relative_tokens` is against the same policy forced to answer directly.

```
before
{as_text(kinds["sft"])}

after
{as_text(kinds["rl"])}
```

![learning curves](learning.png)

![before and after](before_after.png)

Each response stands in sft.csv and rl.csv, each step in metrics.csv, every family with its intervals in
evaluation.json; the trained policy is in policy/.
"""
