"""Ask verl itself about an exported run, on the CPU: `make check-verl`. Not a test of the default suite.

It exports runs and has verl 0.9.1 compose and validate their values, read their rows, and score responses
through its own reward worker: by the exact judge, and by an LLM behind a server of the tests, under limits.
No step of training is made: that needs GPUs.
"""

import asyncio
import importlib.metadata
import json
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import datasets
import numpy as np
import torch
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf
from PIL import Image
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker, migrate_legacy_reward_impl
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from judge_server import JudgeServer, asked_keys, chat, refuse

from sailrl_lite.config import SHIPPED, RLConfig
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.schema import write_rows
from sailrl_lite.export.verl import export_verl
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.response import render_response
from sailrl_lite.rewards import for_trl, verl
from sailrl_lite.rungs import config_of
from sailrl_lite.training.models import MicroProcessor
from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import write_trace

PAPER = config_of("paper", RLConfig).with_values({"checkpoint": "shipped"})


def main() -> None:
    told = {name: importlib.metadata.version(name) for name in ("verl", "torch", "transformers", "ray")}
    print("verl check on the CPU:", ", ".join(f"{name} {version}" for name, version in told.items()))
    with (
        tempfile.TemporaryDirectory() as scratch,
        initialize_config_module("verl.trainer.config", version_base="1.3"),
    ):
        folder = Path(scratch)
        data = folder / "rl.parquet"
        write_rows(data, [*read_micro(256), *read_micro(8, split="test")])
        check_values(folder, str(data))
        check_rows(folder)
        check_exact(folder)
        check_limits(folder, str(data))
        check_no_verdict(folder, str(data))
    print("all of it passed; no step of training was made")


def composed(folder: Path, overrides: list[str]) -> DictConfig:
    """verl's configuration of an exported run, as launch.sh asks for it."""
    more = [
        f"data.train_files='{folder}/train.parquet'", f"data.val_files='{folder}/val.parquet'",
        f"reward.custom_reward_function.path='{folder}/reward.py'",
    ]  # fmt: skip
    return migrate_legacy_reward_impl(compose("ppo_trainer", [*overrides, *more]))


def exported(config: RLConfig, folder: Path) -> tuple[dict[str, Any], DictConfig]:
    plan = export_verl(config, folder)
    return plan.values, composed(folder, (folder / "overrides.txt").read_text().splitlines())


def check_values(folder: Path, data: str) -> None:
    """Every value arrives under a name that verl knows (Hydra refuses others), and verl finds them sound."""
    changes: dict[str, dict[str, str]] = {
        "paper": {},
        "paper-kl": {"kl": "0.01", "scale": "group", "filter_on": "content", "refills": "0"},
        "paper-lora": {"policy.weights": "lora", "policy.attention": "flash_attention_2"},
        "one-gpu": {"engine.processes": "1", "prompts": "16", "updates": "4"},
    }
    for name, change in changes.items():
        config = PAPER.with_values({"data": data} | change)
        values, found = exported(config, folder / name)
        for full, value in values.items():
            got = OmegaConf.select(found, full.removeprefix("+"))
            got = OmegaConf.to_container(got) if OmegaConf.is_config(got) else got
            assert got == value, (full, got, value)
        parts = ("algorithm", "actor_rollout_ref.actor", "actor_rollout_ref.rollout")
        for part in parts:
            omega_conf_to_dataclass(OmegaConf.select(found, part))
        if name != "paper-lora":  # its last question is to vLLM, which is not here
            validate_config(found, need_reference_policy(found), need_critic(found))
        assert need_reference_policy(found) == (config.kl > 0) and not need_critic(found)
        rollouts = (
            values["actor_rollout_ref.actor.ppo_mini_batch_size"] * values["actor_rollout_ref.rollout.n"]
        )
        print(f"values: {name}: {len(values)} as exported, {rollouts} rollouts an update, validated")


def check_rows(folder: Path) -> None:
    """verl's data set has our questions and pictures, and leaves out what is too long."""
    _, found = exported(small({"policy.max_pixels": "3136"}), folder / "rows")
    read_without_torchvision()
    processor = MicroProcessor.from_pretrained(SHIPPED)
    files = found.data.train_files
    datasets.config.HF_DATASETS_CACHE = folder / "cache"  # and not the user's
    rows = RLHFDataset(files, processor.tokenizer, found.data, processor)
    batch = collate_fn([rows[k] for k in range(4)])
    for k in range(4):
        info = batch["extra_info"][k]
        problem = make_problem(**info["problem"])
        picture, question = batch["raw_prompt"][k][0]["content"]
        assert question == {"type": "text", "text": problem.question}
        shown = np.asarray(picture["image"].convert("RGB"))
        assert np.array_equal(shown, np.asarray(problem.image.convert("RGB")))
        images, _ = asyncio.run(RLHFDataset.process_vision_info(batch["raw_prompt"][k], 14, found.data))
        assert isinstance(images[0], Image.Image) and images[0].width * images[0].height <= 3136
        text = processor.apply_chat_template(
            batch["raw_prompt"][k], add_generation_prompt=True, tokenize=False
        )
        ids = processor(text=[text], images=images, return_tensors="pt")["input_ids"][0].tolist()
        assert ids.count(processor.image_token_id) == images[0].width * images[0].height // 28**2
        assert batch["reward_model"][k]["ground_truth"] == problem.gold
    short = OmegaConf.merge(found.data, {"max_prompt_length": len(ids) - 1})
    left = RLHFDataset(files, processor.tokenizer, short, processor)
    assert 0 < len(left) < len(rows) == 16, (len(left), len(rows))
    print(f"rows: {len(rows)} read by RLHFDataset, pictures and max_pixels kept, {len(left)} short enough")


def check_exact(folder: Path) -> None:
    """verl's reward worker gives what our reward for TRL gives."""
    _, found = exported(small({}), folder / "exact")
    worker, rows = RewardLoopWorker(found), read(folder / "exact")
    problems = [make_problem(**row["extra_info"]["problem"]) for row in rows]
    texts = [(solved, unsound, direct, nothing)[k % 4](problem) for k, problem in enumerate(problems)]
    results, _ = scored(worker, rows, texts)
    labels = [p.needs_thinking for p in problems]
    columns = {"gold": [p.gold for p in problems], "needs_thinking": labels, "problem": problems}
    wanted = asyncio.run(for_trl(PAPER.reward, ExactJudge(), PAPER.alpha)(texts, **columns))
    assert [result["reward_score"] for result in results] == wanted
    assert len(set(wanted)) > 2, wanted
    print(f"exact judge: {len(rows)} rewards as in TRL, {len(set(wanted))} different ones")


def check_limits(folder: Path, data: str) -> None:
    """Requests in flight and a minute stay within the judge's limits, whatever verl asks at once."""

    def script(number: int, request: dict[str, Any]) -> Any:
        return chat(json.dumps(dict.fromkeys(asked_keys(request), 1)))

    with JudgeServer(script, latency=0.05) as server:
        _, found = exported(judged(data, server.url, "rpm=240,concurrency=3"), folder / "limits")
        worker, rows = RewardLoopWorker(found), read(folder / "limits")[:60]
        texts = [solved(micro(row)) for row in rows]
        texts = [text.replace("</think>", f" note {k}</think>") for k, text in enumerate(texts)]
        results, seconds = scored(worker, rows, texts)
        asked = len(server.requests)
        least = (asked - 20) / 4  # four a second, the first twenty at once
        assert asked == 60 and server.most_in_flight <= 3 and seconds >= least * 0.9, (asked, seconds)
        assert all(result["reward_extra_info"]["unscored"] == 0 for result in results)
        print(
            f"limits: {asked} judgments in {seconds:.1f} s under rpm=240 (at least {least:.1f} s), "
            f"{server.most_in_flight} in flight under concurrency=3"
        )


def check_no_verdict(folder: Path, data: str) -> None:
    """A response without a verdict is 0 and says so; when there are too many, the run is told to end."""
    with JudgeServer(lambda number, request: refuse(400, "content", code="content_filter")) as server:
        _, found = exported(judged(data, server.url, "concurrency=32"), folder / "none")
        worker, rows = RewardLoopWorker(found), read(folder / "none")
        texts = [solved(micro(row)) for row in rows]
        results, _ = scored(worker, rows[:200], texts[:200])
        assert {result["reward_score"] for result in results} == {0.0}
        assert {result["reward_extra_info"]["unscored"] for result in results} == {1.0}
        stopped = folder / "none" / "stopped.txt"
        assert not stopped.exists()
        try:
            scored(worker, rows, texts)
        except Exception as error:
            assert "no verdict" in str(error), error
        assert "no verdict" in stopped.read_text()
        print(f"no verdict: 200 told as unscored; then stopped.txt: {stopped.read_text().strip()}")


# ---- what the checks share


def read_without_torchvision() -> None:
    """Import qwen_vl_utils, which verl reads pictures with. It needs torchvision for videos only, whose
    wheels load beside the CUDA build of torch only."""
    absent = ("torchvision", "torchvision.transforms")
    sys.modules.update({name: MagicMock() for name in absent})
    import qwen_vl_utils  # noqa: F401

    for name in absent:
        del sys.modules[name]


def small(changes: dict[str, str]) -> RLConfig:
    """A run on the micro-world with the exact judge; 16 rows."""
    values = {"data": "", "judge": "exact", "steps": "1", "prompts": "16", "updates": "4", "epochs": "1"}
    return PAPER.with_values(values | {"engine.processes": "1"} | changes)


def judged(data: str, url: str, limits: str) -> RLConfig:
    judge = f"llm:m,base_url={url},calls=combined,cache=,reasks=0,{limits}"
    return replace(PAPER, data=data, judge=judge)


def read(folder: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(folder / "train.parquet").to_pylist()


def micro(row: dict[str, Any]) -> Any:
    family, split, seed = re.fullmatch(r"(\w+)-(train|test)-(\d+)", row["extra_info"]["id"]).groups()  # type: ignore[union-attr]
    return make_problem(family, int(seed), split)


def solved(problem: Any) -> str:
    return render_response(write_trace(solve(problem)), problem.gold)


def unsound(problem: Any) -> str:
    return solved(problem).replace("</think>", "\n1 + 1 = 3</think>")


def direct(problem: Any) -> str:
    return render_response("", problem.gold)


def nothing(problem: Any) -> str:
    return "It is a picture."


def scored(
    worker: RewardLoopWorker, rows: list[dict[str, Any]], texts: list[str]
) -> tuple[list[dict[str, Any]], float]:
    """What verl's worker says of all at once, and how long that took."""
    verl._unscored.clear()
    batch = protocol(worker.input_tokenizer, rows, texts)
    started = time.monotonic()
    results = worker.loop.run_until_complete(worker.compute_score_batch(batch))
    return results, time.monotonic() - started


def protocol(tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]], texts: list[str]) -> DataProto:
    """The responses as verl's rollouts hand them on: token ids, padded on the right."""
    end = tokenizer.eos_token
    sides = dict(padding=True, padding_side="right", return_tensors="pt", add_special_tokens=False)
    answers = tokenizer([text + end for text in texts], **sides)
    prompts = tokenizer([row["extra_info"]["question"] for row in rows], **sides)
    mask = torch.cat([prompts["attention_mask"], answers["attention_mask"]], 1)
    tensors = {"prompts": prompts["input_ids"], "responses": answers["input_ids"], "attention_mask": mask}
    columns = {
        name: np.fromiter((row[name] for row in rows), dtype=object, count=len(rows))
        for name in ("data_source", "reward_model", "extra_info")
    }
    return DataProto(batch=TensorDict(tensors, batch_size=len(rows)), non_tensor_batch=columns)


if __name__ == "__main__":
    main()
