"""The export for verl without verl: rows, values, refusals, the reward module and the launch script.

`make check-verl` asks verl itself.
"""

import asyncio
import io
import os
import shutil
import subprocess
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from sailrl_lite.cli import main
from sailrl_lite.config import RLConfig
from sailrl_lite.curation.readers import MICRO, read_micro
from sailrl_lite.curation.schema import Row, write_rows
from sailrl_lite.errors import SailRLError
from sailrl_lite.export.verl import export_verl
from sailrl_lite.export.verl_rows import curated_rows, micro_rows
from sailrl_lite.export.verl_values import plan_verl, update_prompts
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.response import render_response
from sailrl_lite.rewards import for_trl, verl
from sailrl_lite.rungs import config_of
from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import write_trace

PAPER = config_of("paper", RLConfig)
# A run so small that its rows are soon drawn; one GPU.
SMALL = PAPER.with_values(
    {
        "data": "", "steps": "2", "epochs": "2", "prompts": "8", "updates": "4", "engine.processes": "1",
        "judge": "exact", "families": "add,angle",
    }
)  # fmt: skip
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("verl") / "out"
    export_verl(SMALL, out)
    return out


@pytest.fixture(autouse=True)
def _forget() -> None:
    verl._unscored.clear()


def curated(tmp_path: Path, *more: Row, train: int = 8) -> Path:
    file = tmp_path / "rl.parquet"
    rows = [*read_micro(train, ["add"]), *read_micro(2, ["add"], "test"), *more]
    write_rows(file, rows)
    return file


def solved(problem: Any) -> str:
    return render_response(write_trace(solve(problem)), problem.gold)


# ---- values


def test_the_paper_rung_in_verls_words() -> None:
    plan = plan_verl(PAPER, 70_000)
    expected = {
        "trainer.nnodes": 8, "trainer.n_gpus_per_node": 8, "trainer.total_training_steps": 821,
        "data.train_batch_size": 256, "data.max_prompt_length": 16384, "data.max_response_length": 4096,
        f"{ROLLOUT}.n": 5, f"{ROLLOUT}.temperature": 1.0, f"{ACTOR}.clip_ratio_low": 0.20,
        f"{ACTOR}.clip_ratio_high": 0.28, f"{ACTOR}.use_kl_loss": False, f"{ACTOR}.optim.lr": 1e-6,
        f"{ACTOR}.optim.lr_scheduler_type": "cosine", f"{ACTOR}.loss_agg_mode": "token-mean",
        "algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False,
        "algorithm.filter_groups.enable": True, "reward.num_workers": 1, "data.image_patch_size": None,
        "+reward.custom_reward_function.reward_kwargs.judge": PAPER.judge,
    }  # fmt: skip
    assert {name: plan.values[name] for name in expected} == expected
    # Five updates of 256 rollouts are 51.2 prompts each, and verl takes whole groups.
    assert plan.values[f"{ACTOR}.ppo_mini_batch_size"] == 64
    assert any(note.startswith("updates=5") and "320 rollouts" in note for note in plan.notes)
    # 70,000 rows are 273 whole batches, so three epochs are two steps short.
    assert plan.values["trainer.total_epochs"] == 4


@pytest.mark.parametrize(
    ("prompts", "rollouts", "updates", "processes", "size"),
    [(256, 5, 5, 64, 64), (256, 4, 4, 64, 64), (64, 5, 5, 8, 16), (60, 5, 5, 1, 12), (8, 5, 40, 1, 1)],
)
def test_an_update_is_of_whole_groups_that_the_gpus_share(
    prompts: int, rollouts: int, updates: int, processes: int, size: int
) -> None:
    engine = replace(SMALL.engine, processes=processes)
    config = replace(SMALL, prompts=prompts, rollouts=rollouts, updates=updates, engine=engine)
    assert update_prompts(config) == size
    assert prompts % size == 0 and size * rollouts % processes == 0


@pytest.mark.parametrize("checkpoint", ["runs/sft/policy", "Qwen/Qwen2.5-VL-7B-Instruct"])
def test_a_folder_that_is_still_to_be_made_has_an_absolute_path_and_a_name_of_the_hub_none(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # launch.sh runs elsewhere
    path = plan_verl(replace(SMALL, checkpoint=checkpoint), 64).values["actor_rollout_ref.model.path"]
    assert path == (checkpoint if "Qwen" in checkpoint else str(tmp_path / checkpoint))


# What another value of each setting is; engine.trainer is what this export stands for.
OTHER = {
    "seed": "1", "checkpoint": "elsewhere", "data": "no.parquet", "steps": "4", "prompts": "16",
    "rollouts": "4", "updates": "2", "device_batch": "5", "epochs": "1", "learning_rate": "2e-6",
    "temperature": "0.9", "max_prompt_tokens": "100", "max_new_tokens": "100", "reward": "additive",
    "judge": "noisy:exact,false_pass=0.1", "alpha": "0.5", "clip": "adaptive", "filter_on": "content",
    "refills": "0", "overlong": "keep", "scale": "group", "kl": "0.01", "shortcut": "1", "label_noise": "0.9",
    "pass_low": "0.1", "pass_high": "0.9", "families": "add", "save_every": "7", "policy.weights": "4bit",
    "policy.lora_rank": "8", "policy.lora_alpha": "8", "policy.dtype": "float32",
    "policy.attention": "flash_attention_2", "policy.max_pixels": "100352", "policy.remote_code": "true",
    "policy.revision": "main", "engine.processes": "2", "engine.sharding": "zero3",
    "engine.gradient_checkpointing": "false", "engine.sampler": "transformers", "engine.vllm": "server",
    "engine.vllm_memory": "0.5", "engine.vllm_gpus": "2",
}  # fmt: skip
WITHOUT_EFFECT = {"engine.trainer", "engine.vllm_server"}  # the second is of engine.vllm=server, refused


def test_the_table_of_other_values_has_every_setting() -> None:
    assert set(OTHER) | WITHOUT_EFFECT == set(RLConfig().flat())


@pytest.mark.parametrize("name", OTHER)
def test_every_setting_acts_or_is_refused(name: str) -> None:
    def seen(config: RLConfig) -> Any:
        train, _ = micro_rows(config)
        return plan_verl(config, 64), list(islice(train, 4))

    base = SMALL.with_values({"policy.weights": "lora"}) if "lora" in name else SMALL
    other = base.with_values({name: OTHER[name]})
    try:
        assert seen(other) != seen(base) if name != "data" else curated_rows(other)
    except SailRLError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("clip=adaptive", "clip=asymmetric"),
        ("reward=anneal", "anneal"),
        ("pass_low=0.1", "curate"),
        ("max_prompt_tokens=0", "max_prompt_tokens"),
        ("policy.weights=4bit", "lora"),
        ("policy.revision=main", "folder"),
        ("engine.sampler=transformers", "engine.sampler=vllm"),
        ("engine.vllm=server", "colocate"),
        ("engine.sharding=zero3", "fsdp2"),
        ("engine.vllm_gpus=2", "vllm_gpus"),
        ("device_batch=3", "device_batch"),
    ],
)
def test_refusals_name_the_remedy_and_write_nothing(setting: str, words: str, tmp_path: Path) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(SailRLError, match=words):
        export_verl(SMALL.with_values({name: value}), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_several_machines_are_whole() -> None:
    engine = replace(SMALL.engine, processes=12)
    with pytest.raises(SailRLError, match="multiple of 8"):
        plan_verl(replace(SMALL, prompts=12, updates=1, engine=engine), 64)


# ---- rows


def test_rows_have_verls_form_and_the_problems_of_the_trl_run(folder: Path) -> None:
    table = pq.read_table(folder / "train.parquet").to_pylist()
    assert len(table) == 8  # two steps of 8 prompts, each problem twice
    row = table[1]
    problem = make_problem("angle", 0)
    assert set(row) == {"data_source", "prompt", "images", "ability", "reward_model", "extra_info"}
    assert row["data_source"] == MICRO and row["ability"] == "reasoning"
    assert row["prompt"] == [{"role": "user", "content": f"<image>{problem.question}"}]
    assert row["reward_model"] == {"style": "rule", "ground_truth": problem.gold}
    assert row["extra_info"]["needs_thinking"] is problem.needs_thinking
    assert row["extra_info"]["problem"] == {"family": "angle", "seed": 0, "split": "train", "shortcut": 0.0}
    picture = Image.open(io.BytesIO(row["images"][0]["bytes"])).convert("RGB")
    assert np.array_equal(np.asarray(picture), np.asarray(problem.image.convert("RGB")))
    val = pq.read_table(folder / "val.parquet").to_pylist()
    assert {v["extra_info"]["split"] for v in val} == {"test"}


def test_a_row_is_scored_as_in_a_run_by_trl(folder: Path) -> None:
    rows = pq.read_table(folder / "train.parquet").to_pylist()
    problems = [make_problem(**row["extra_info"]["problem"]) for row in rows]
    texts = [solved(problem) for problem in problems]
    texts[0] = texts[0].replace("</think>", " 1+1=3\n</think>")
    texts[1] = render_response("", problems[1].gold)
    texts[2] = "no format"
    columns = {
        "gold": [p.gold for p in problems],
        "needs_thinking": [p.needs_thinking for p in problems],
        "problem": problems,
    }
    wanted = asyncio.run(for_trl("cascade", ExactJudge(), 0.9)(texts, **columns))
    found = [
        asyncio.run(
            verl.compute_score(
                row["data_source"], text, row["reward_model"]["ground_truth"], row["extra_info"], alpha=0.9
            )
        )["score"]
        for row, text in zip(rows, texts, strict=True)
    ]
    assert found == wanted
    assert len(set(found)) > 2


def test_a_curated_file_is_split_drawn_and_labelled(tmp_path: Path) -> None:
    picture = next(read_micro(1, ["add"])).image
    stranger = Row("x-1", picture, "How many?", "4", "mine", needs_thinking=True)
    unlabelled = replace(stranger, id="x-2", needs_thinking=None)
    file = curated(tmp_path, stranger, unlabelled, train=12)
    config = replace(SMALL, data=str(file), judge="llm:m,base_url=http://localhost:1/v1")
    count, train, test = curated_rows(config)
    rows = list(train)
    assert count == len(rows) == 8 and len(list(test)) == 2
    again = [row["extra_info"]["id"] for row in curated_rows(config)[1]]
    other = [row["extra_info"]["id"] for row in curated_rows(replace(config, seed=1))[1]]
    assert again == [row["extra_info"]["id"] for row in rows] != other
    everything = list(curated_rows(replace(config, steps=4))[1])
    assert {row["extra_info"]["id"] for row in everything} >= {"x-1"} and len(everything) == 13
    export_verl(replace(config, policy=replace(config.policy, max_pixels=50_176)), tmp_path / "out")
    stored = pq.read_table(tmp_path / "out" / "train.parquet").to_pylist()[0]
    assert stored["images"][0]["max_pixels"] == 50_176
    assert stored["extra_info"]["image"] == stored["images"][0]["bytes"]  # what an LLM is shown
    assert "problem" not in stored["extra_info"]


def test_rows_that_verl_or_the_judge_cannot_take_leave_nothing_behind(tmp_path: Path) -> None:
    picture = next(read_micro(1, ["add"])).image
    stranger = Row("x-1", picture, "How many?", "4", "mine", needs_thinking=True)
    few = replace(SMALL, prompts=5, updates=5)
    placed = replace(stranger, id="x-2", question="What is <image> of?")
    with pytest.raises(SailRLError, match=r"x-1 .*micro-world"):
        export_verl(replace(few, data=str(curated(tmp_path, stranger, train=4))), tmp_path / "out")
    config = replace(few, judge="llm:m")
    with pytest.raises(SailRLError, match=r"x-2 .*<image>"):
        export_verl(replace(config, data=str(curated(tmp_path, placed, train=4))), tmp_path / "out")
    with pytest.raises(SailRLError, match="label_noise"):
        export_verl(replace(config, data="x", label_noise=0.1), tmp_path / "out")
    write_rows(tmp_path / "train.parquet", read_micro(8, ["add"]))
    with pytest.raises(SailRLError, match=r"test split; curate it with --set test=0\.01"):
        export_verl(replace(SMALL, data=str(tmp_path / "train.parquet")), tmp_path / "out")
    with pytest.raises(SailRLError, match="whole batch of 8"):
        export_verl(replace(SMALL, data=str(curated(tmp_path, train=7))), tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"rl.parquet", "train.parquet"}


def test_pictures_and_gold_answers_that_would_stop_verl_are_named_by_their_row(tmp_path: Path) -> None:
    def png(*size: int) -> bytes:
        buffer = io.BytesIO()
        Image.new("RGB", size).save(buffer, "PNG")
        return buffer.getvalue()

    row = Row("x-1", png(56, 56), "How many?", "4", "mine", needs_thinking=True)
    config = replace(SMALL, prompts=5, updates=5, judge="llm:m")
    wrongs = {
        "not a picture": replace(row, image=b"%!PS-Adobe-3.0 EPSF-3.0"),
        "no picture": replace(row, image=b""),
        "cut short": replace(row, image=png(300, 300)[:200]),
        "too thin": replace(row, image=png(1, 10_000)),
        "unusable gold answer": replace(row, gold=" "),
    }
    for words, wrong in wrongs.items():
        with pytest.raises(SailRLError, match=rf"row x-1 .*{words}.*drop the row"):
            export_verl(replace(config, data=str(curated(tmp_path, wrong, train=4))), tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_picture_that_its_exif_turns_is_turned_for_verl(tmp_path: Path) -> None:
    """verl reads pixels alone, and the judge would see the picture upright."""
    buffer, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # a quarter to the right
    Image.new("RGB", (60, 100)).save(buffer, "JPEG", exif=exif)
    row = Row("x-1", buffer.getvalue(), "How many?", "4", "mine", needs_thinking=True)
    config = replace(SMALL, prompts=5, updates=5, judge="llm:m")
    _, train, _ = curated_rows(replace(config, data=str(curated(tmp_path, row, train=4))))
    (seen,) = (r for r in train if r["extra_info"]["id"] == "x-1")
    assert Image.open(io.BytesIO(seen["images"][0]["bytes"])).size == (100, 60)
    assert seen["extra_info"]["image"] == seen["images"][0]["bytes"]


def test_the_same_run_gives_the_same_files_and_none_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()  # an empty folder will do
    export_verl(SMALL, tmp_path / "again")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "README.md", "config.json", "launch.sh", "overrides.txt", "reward.py", "train.parquet", "val.parquet",
    ]  # fmt: skip
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    assert RLConfig.from_json((folder / "config.json").read_text()) == SMALL
    with pytest.raises(SailRLError, match="there already"):
        export_verl(SMALL, tmp_path / "again")
    assert not any("@" in line for line in (folder / "README.md").read_text().splitlines())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    said = ["prompts=64", "steps=1", "epochs=1", "families=add", "judge=exact", "data="]
    arguments = [text for pair in said for text in ("--set", pair)]
    assert main(["export", "verl", str(out), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "note: updates=5" in printed and "8 x 8 GPUs" in printed
    assert main(["export", "verl", str(out), *arguments]) == 2
    assert main(["export", "verl", str(tmp_path / "b"), "--rung", "preview"]) == 2
    assert "max_prompt_tokens" in capsys.readouterr().err


# ---- the reward module


def load(folder: Path) -> Any:
    spec = spec_from_file_location("exported_reward", folder / "reward.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_score


def test_the_reward_module_keeps_means_and_says_why_a_run_must_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verl, "_WINDOW", 4)
    shutil.copy(folder / "reward.py", tmp_path)
    score = load(tmp_path)
    assert asyncio.iscoroutinefunction(score)  # else verl runs it in threads
    row = pq.read_table(folder / "train.parquet").to_pylist()[0]
    held_out = pq.read_table(folder / "val.parquet").to_pylist()[0]
    problem = make_problem(**row["extra_info"]["problem"])

    def ask(row: dict[str, Any], text: str, **more: Any) -> float:
        gold = row["reward_model"]["ground_truth"]
        return asyncio.run(score(row["data_source"], text, gold, row["extra_info"] | more, reward="cascade"))[
            "score"
        ]

    assert ask(row, solved(problem)) == 1.0
    assert ask(row, "no format") == 0.0
    for _ in range(4):
        ask(held_out, "no format")
    assert not (tmp_path / "rewards.csv").exists()  # two training responses so far
    ask(row, solved(problem)), ask(row, solved(problem))
    head, means = (tmp_path / "rewards.csv").read_text().splitlines()
    assert dict(zip(head.split(","), means.split(","), strict=True))["score"] == "0.75"
    assert not (tmp_path / "stopped.txt").exists()
    with pytest.raises(SailRLError, match="needs_thinking"):
        ask(row, "no format", needs_thinking=None)
    assert "needs_thinking" in (tmp_path / "stopped.txt").read_text()


# ---- the launch script


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash starts the run")
@pytest.mark.parametrize("stops", [False, True])
def test_the_launch_script_starts_verl_and_ends_it_where_the_reward_says_so(
    folder: Path, tmp_path: Path, stops: bool
) -> None:
    out, stubs = tmp_path / "a run's", tmp_path / "bin"  # a blank and an apostrophe in the path
    shutil.copytree(folder, out)
    stubs.mkdir()
    work = f'echo "no verdicts" > "{out}/stopped.txt"; exec sleep 60' if stops else "exit 0"
    scripts = {
        "ray": f'#!/bin/sh\necho "$@" >> "{tmp_path}/ray"\n',
        "python": f'#!/bin/sh\nif [ "$2" != verl.trainer.main_ppo ]; then exit 0; fi\n'
        f'for word in "$@"; do echo "$word" >> "{tmp_path}/verl"; done\n{work}\n',
    }
    for name, text in scripts.items():
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    (out / "stopped.txt").write_text("of the last time")
    done = subprocess.run(
        ["bash", str(out / "launch.sh"), "trainer.save_freq=5"],
        env={"PATH": f"{stubs}:{os.environ['PATH']}", "POLL": "0.1", "GRACE": "0.1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    asked = (tmp_path / "verl").read_text().splitlines()
    assert asked[2:-5] == (out / "overrides.txt").read_text().splitlines()
    place = str(out).replace("'", r"\'")
    assert asked[-5] == f"data.train_files='{place}/train.parquet'" and asked[-1] == "trainer.save_freq=5"
    assert (tmp_path / "ray").read_text().splitlines()[-1] == "stop"
    if stops:
        assert done.returncode == 3 and "no verdicts" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert not (out / "stopped.txt").exists()
