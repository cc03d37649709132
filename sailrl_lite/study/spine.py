"""The three-seed result: SFT and RL policies on the same unseen problems, a row a seed, stage and family."""

from pathlib import Path

import pandas as pd

from sailrl_lite.config import RLConfig, checkpoint_of
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.study.evaluation import MEASURES, evaluate, unseen_problems
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.runs import claim_folder
from sailrl_lite.world.verifier import DIMENSIONS

_FEWEST_TRACES = 20
COLUMNS = ("seed", "stage", "kind", "family", "n", *MEASURES)


def run_spine(
    seeds: list[int], out: Path, file: Path, config: RLConfig, per_family: int, bar: bool = True
) -> Path:
    """Train one policy a seed and write `file`; a seed that is finished in `out` is not trained again.

    Raises:
        SailRLError: no seed, or a folder of `out` that holds a run with other settings.
    """
    if not seeds:
        raise SailRLError("the three-seed result needs at least one seed")
    table = []
    problems = unseen_problems(per_family)
    for seed in seeds:
        this = config.with_values({"seed": str(seed)})
        folder = out / f"seed-{seed}"
        policy = folder / "policy"
        begun = (folder / "config.json").is_file()
        if policy.is_dir():
            claim_folder(this, folder, resume=True)
        else:
            train_rl(this, folder, resume=begun, bar=bar)
        for stage, checkpoint in (("sft", checkpoint_of(config)), ("rl", policy)):
            rows = evaluate(
                *load_checkpoint(checkpoint),
                problems,
                seed=seed,
                bar=f"seed {seed}, {stage}" if bar else None,
            )
            groups = rows.groupby(["kind", "family"], sort=False)
            means = groups[list(MEASURES)].mean().reset_index()
            table.append(means.assign(seed=seed, stage=stage, n=groups.size().to_numpy()))
    frame = pd.concat(table)[list(COLUMNS)]
    write_text(file, frame.to_csv(index=False, float_format="%.4f"))
    return file


def markdown(frame: pd.DataFrame) -> str:
    """The result as a Markdown table: means before and after RL, with the deviation over seeds."""
    shown = ("accuracy", "trigger_rate", "cascade", "logic", "grounding", "consistency", "tokens")
    lines = ["| kind | stage | " + " | ".join(name.replace("_", " ") for name in shown) + " |"]
    lines.append("|---|---|" + "---:|" * len(shown))
    for _, row in summary(frame).iterrows():
        cells = []
        for name in shown:
            digits = 1 if name == "tokens" else 2
            cells.append(
                "-" if pd.isna(row[name]) else f"{row[name]:.{digits}f} ± {row[f'{name}_sd']:.{digits}f}"
            )
        lines.append(f"| {row['kind']} | {row['stage'].upper()} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds and its standard deviation (columns `_sd`), a row a kind and stage."""
    groups = by_seed(frame).groupby(["kind", "stage"], sort=False)[list(MEASURES)]
    return groups.mean().join(groups.std().add_suffix("_sd")).reset_index()


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the families of a kind, a row a kind, stage and seed, SFT before RL.

    logic, grounding and consistency are means over traces, and NaN where a seed has fewer than 20 of them: a
    policy that hardly ever thinks about a kind of question says nothing about how well it would.
    """
    rows = []
    for kind in frame["kind"].unique():
        for stage in ("sft", "rl"):
            for seed, part in frame[(frame["kind"] == kind) & (frame["stage"] == stage)].groupby("seed"):
                traces = part["n"] * part["trigger_rate"]
                row = {"kind": kind, "stage": stage, "seed": seed} | part[list(MEASURES)].mean().to_dict()
                for score in DIMENSIONS:
                    known = traces.sum() >= _FEWEST_TRACES
                    row[score] = (part[score] * traces).sum() / traces.sum() if known else float("nan")
                rows.append(row)
    return pd.DataFrame(rows)
