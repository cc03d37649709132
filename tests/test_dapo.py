"""DAPO: advantages with verdicts missing, dynamic sampling, what the loss counts, clipping, resuming."""

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from filelock import FileLock
from trl import GRPOConfig

from sailrl_lite.config import SHIPPED, RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.response import render_response
from sailrl_lite.rewards import for_trl
from sailrl_lite.training import passing, shared_prompt
from sailrl_lite.training.callbacks import StopBetweenBatches
from sailrl_lite.training.dapo import CLIP_HIGH, CLIP_LOW, Dapo, DapoTrainer, group_advantages, has_spread
from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.models import build_policy, build_processor, load_checkpoint, save_checkpoint
from sailrl_lite.training.packing import Group, Row, in_updates, rows_with_gradient
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.runs import Interrupted, claim_folder, last_checkpoint
from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import solve

NAN = float("nan")


# ---- the arithmetic of a group


def test_an_advantage_is_the_reward_minus_the_mean_of_its_group():
    rewards = torch.tensor([[1.0, 0.0, 0.5], [0.1, 0.1, 0.1]])
    assert torch.allclose(group_advantages(rewards), torch.tensor([[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]))


def test_a_rollout_without_a_verdict_moves_neither_the_mean_nor_the_policy():
    one_missing = group_advantages(torch.tensor([[1.0, 0.0, NAN, 0.5]]))
    assert torch.allclose(one_missing, torch.tensor([[0.5, -0.5, 0.0, 0.0]]))
    all_missing = group_advantages(torch.tensor([[NAN, NAN]]))
    assert torch.equal(all_missing, torch.zeros(1, 2))
    single = group_advantages(torch.tensor([[NAN, 0.7]]), scale=True)
    assert torch.equal(single, torch.zeros(1, 2))


def test_scaling_divides_by_the_deviation_of_those_that_have_a_verdict():
    scaled = group_advantages(torch.tensor([[1.0, 0.0, NAN]]), scale=True)
    deviation = torch.tensor([1.0, 0.0]).std()
    assert torch.allclose(scaled, torch.tensor([[0.5, -0.5, 0.0]]) / (deviation + 1e-4))


def test_spread_passes_over_missing_verdicts():
    rewards = torch.tensor([[1.0, 0.0], [0.3, 0.3], [0.3, NAN], [NAN, NAN]])
    assert has_spread(rewards).tolist() == [True, False, False, False]


# ---- from groups to updates


def group_of(advantages, trained=None, informative=True):
    wanted = [True] * len(advantages) if trained is None else trained
    ids = [[7, 8]] * len(advantages)
    return Group([1], {}, ids, None, torch.tensor(advantages), torch.tensor(wanted), informative)


def test_only_rows_that_move_the_policy_are_trained_on_and_with_kl_all_that_count():
    groups = [
        group_of([0.5, -0.5, 0.0], [True, False, True]),
        group_of([0.2, -0.2, 0.0], informative=False),
    ]
    assert rows_with_gradient(groups, all_trained=False) == [Row(0, 0, 0.5, True)]
    assert [row[:3] for row in rows_with_gradient(groups, all_trained=True)] == [
        (0, 0, 0.5), (0, 2, 0.0), (1, 0, 0.0), (1, 1, 0.0), (1, 2, 0.0)
    ]  # fmt: skip


@pytest.mark.parametrize("updates, pieces", [(1, 1), (2, 1), (2, 2), (3, 2), (4, 3)])
@pytest.mark.parametrize("spare", [0, 1])
def test_updates_hold_every_row_once_and_are_filled_up_with_rows_of_no_weight(updates, pieces, spare):
    groups = [group_of([0.5, -0.5, 0.25, -0.25, 0.0]) for _ in range(4)]
    rows = rows_with_gradient(groups, all_trained=False)
    size = -(-len(rows) // updates) + spare  # more, where another process has more rows
    ordered = in_updates(rows, groups, updates, size, pieces)
    assert sorted(row for row in ordered if row.real) == rows
    assert all(row.advantage == 0 for row in ordered if not row.real)
    each = size + -size % pieces
    assert len(ordered) == updates * each and each % pieces == 0
    places = [{k // each for k, row in enumerate(ordered) if row.real and row.group == i} for i in range(4)]
    assert sum(len(held) - 1 for held in places) <= updates - 1  # groups that are cut


# ---- one generation batch of the trainer


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    processor = build_processor()
    folder = tmp_path_factory.mktemp("untrained")
    build_policy(processor, 0).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


KEEP = Dapo(refills=0, overlong="keep")


def make_trainer(checkpoint, tmp_path, reward, dapo=KEEP, prompts=6, rollouts=4, updates=2, **options):
    policy, processor = load_checkpoint(checkpoint)
    defaults = {
        "max_steps": updates,
        "save_strategy": "no",
        "learning_rate": 1e-3,
        "max_completion_length": 8,
    }
    options = defaults | options
    args = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=prompts * rollouts // updates,
        steps_per_generation=updates,
        num_generations=rollouts,
        loss_type="dapo",
        beta=0.0,
        scale_rewards="none",
        remove_unused_columns=False,
        report_to=[],
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1,
        **options,
    )
    stop = StopBetweenBatches(updates)
    return DapoTrainer(
        model=policy,
        reward_funcs=reward,
        args=args,
        train_dataset=rl_dataset(prompts * 4),
        processing_class=processor,
        dapo=dapo,
        reference=load_checkpoint(checkpoint)[0],
        stop=stop,
        callbacks=[stop],
    )


def by_token(completion_ids, **_):
    """Any reward with a spread: an untrained policy writes all tokens alike."""
    return [sum(ids) % 5 / 5 for ids in completion_ids]


def batch_of(trainer):
    trainer.model.train()
    rows = [trainer.train_dataset[k] for k in range(6) for _ in range(trainer.num_generations)]
    return trainer._generate_and_score_completions(rows)


def test_only_rows_with_an_advantage_are_trained_on_but_all_tokens_are_counted(untrained, tmp_path):
    seen = {}

    def reward(completion_ids, **_):
        seen["tokens"] = sum(map(len, completion_ids))
        values = by_token(completion_ids)
        return [0.5 if k < 8 else v for k, v in enumerate(values)]  # the first two groups teach nothing

    batch = batch_of(make_trainer(untrained, tmp_path, reward))
    assert (
        0 < len(batch["advantages"]) <= 16
        and (batch["advantages"] != 0).sum() >= len(batch["advantages"]) - 1
    )
    assert batch["num_items_in_batch"] == seen["tokens"]


def test_the_loss_is_the_token_mean_over_all_rows_whether_dropped_or_not(untrained, tmp_path):
    kept = {}

    def reward(completion_ids, **_):
        kept["ids"] = completion_ids
        return by_token(completion_ids)

    trainer = make_trainer(untrained, tmp_path, reward, updates=1)
    batch = batch_of(trainer)
    batch["old_per_token_logps"] = (
        batch["old_per_token_logps"] - 0.05
    )  # a ratio other than 1, inside the range
    trainer.current_gradient_accumulation_steps = 1  # set by `train`
    loss = trainer.compute_loss(trainer.model, batch)
    rewards = torch.tensor(by_token(kept["ids"])).view(-1, 4)
    lengths = torch.tensor([len(ids) for ids in kept["ids"]]).view(-1, 4)
    by_hand = -(group_advantages(rewards) * lengths * torch.tensor(0.05).exp()).sum() / lengths.sum()
    assert torch.allclose(loss, by_hand, atol=1e-4)


def test_sampled_log_probabilities_are_those_of_the_policy(untrained, tmp_path):
    trainer = make_trainer(untrained, tmp_path, by_token)
    batch = batch_of(trainer)
    mask = batch["completion_mask"].bool()
    with torch.no_grad():
        assert torch.allclose(
            trainer._logps(trainer.model, batch)[mask], batch["old_per_token_logps"][mask], atol=1e-4
        )


def test_groups_without_spread_are_replaced_by_fresh_prompts(untrained, tmp_path):
    calls = []

    def reward(completion_ids, **_):
        calls.append(len(completion_ids))
        return by_token(completion_ids) if len(calls) > 1 else [0.0] * 12 + by_token(completion_ids[12:])

    trainer = make_trainer(untrained, tmp_path, reward, Dapo(refills=2, overlong="keep"))
    batch_of(trainer)
    metrics = trainer._metrics["train"]
    assert calls[0] == 24 and calls[1] == 12  # as many prompts as are missing: three of six
    assert metrics["groups/drawn"] == [6 + sum(calls[1:]) // 4]
    assert metrics["groups/informative"][0] >= 6


def test_filtering_on_content_ignores_what_the_format_term_pays(untrained, tmp_path):
    def reward(completion_ids, log_extra, **_):
        log_extra("content", [0.0] * len(completion_ids))
        return by_token(completion_ids)

    for filter_on, informative in (("total", 6), ("content", 0)):
        dapo = Dapo(filter_on=filter_on, refills=0, overlong="keep")
        trainer = make_trainer(untrained, tmp_path, reward, dapo)
        batch = batch_of(trainer)
        assert trainer._metrics["train"]["groups/informative"] == [informative]
        assert bool((batch["advantages"] != 0).any()) is (informative > 0)


def test_overlong_responses_count_in_the_mean_and_not_in_the_loss(untrained, tmp_path):
    batch = batch_of(make_trainer(untrained, tmp_path, by_token, Dapo(refills=0, overlong="mask")))
    end = 2  # <|im_end|>; rows of weight 0 only fill the updates up
    trained = batch["completion_ids"][batch["advantages"] != 0]
    assert all(end in row.tolist() for row in trained)


def test_rollouts_without_a_verdict_are_out_of_the_loss_and_counted(untrained, tmp_path):
    scored = []

    def reward(completion_ids, **_):
        scored.extend(len(ids) for k, ids in enumerate(completion_ids) if k % 4)
        return [None if k % 4 == 0 else v for k, v in enumerate(by_token(completion_ids))]

    trainer = make_trainer(untrained, tmp_path, reward)
    assert batch_of(trainer)["num_items_in_batch"] == sum(scored)
    assert trainer._metrics["train"]["unscored"] == [0.25]
    assert not trainer._stop.why


@pytest.mark.parametrize(("asked", "stopped"), [(6, "6 of 6"), (12, ""), (13, ""), (11, "6 of 11"), (1, "")])
def test_a_judge_that_fails_is_seen_among_the_rollouts_that_it_was_asked_about(
    untrained, tmp_path, asked, stopped
):
    """Of 24 rollouts, the others have no trace; a single failure is too few to stop for."""

    def reward(completion_ids, log_extra, **_):
        silent = min(asked, 6)
        log_extra("logic", [1.0 if silent <= k < asked else None for k in range(24)])
        return [None if k < silent else v for k, v in enumerate(by_token(completion_ids))]

    trainer = make_trainer(untrained, tmp_path, reward)
    batch_of(trainer)
    assert trainer._stop.why == (f"{stopped} rollouts have no verdict" if stopped else "")


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_when_no_rollout_has_a_verdict_the_run_stops_with_a_checkpoint(untrained, tmp_path, kl):
    trainer = make_trainer(
        untrained, tmp_path, lambda completion_ids, **_: [None] * len(completion_ids), replace(KEEP, kl=kl),
        max_steps=8, save_strategy="steps", save_steps=8,
    )  # fmt: skip
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    assert trainer.state.global_step == 2 and "24 of 24 rollouts have no verdict" in trainer._stop.why
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())


def test_a_checkpoint_inside_a_rollout_batch_is_refused(untrained, tmp_path):
    with pytest.raises(SailRLError, match="multiple of 2"):
        make_trainer(untrained, tmp_path, by_token, save_strategy="steps", save_steps=3)


def test_both_readings_of_the_clip_range(untrained, tmp_path):
    asymmetric = make_trainer(untrained, tmp_path, by_token)
    assert (asymmetric.epsilon_low, asymmetric.epsilon_high) == (CLIP_LOW, CLIP_HIGH) == (0.20, 0.28)
    calm = make_trainer(untrained, tmp_path, by_token, Dapo("adaptive", overlong="keep"), max_steps=4)
    calm.epsilon_low = calm.epsilon_high = 0.24
    calm.dapo = replace(calm.dapo, clip_target=1.0)  # nothing is ever too much: the range widens
    calm.train()
    assert calm.epsilon_low == calm.epsilon_high == pytest.approx(0.26)
    wild = make_trainer(
        untrained, tmp_path, by_token, Dapo("adaptive", clip_target=-1.0, overlong="keep"), max_steps=40
    )
    wild.train()
    assert wild.epsilon_low == wild.epsilon_high == CLIP_LOW  # and never leaves [0.20, 0.28]


def test_the_kl_term_is_trls_over_all_rows_that_count(untrained, tmp_path):
    def reward(completion_ids, **_):
        values = by_token(completion_ids)
        return [0.5 if k < 8 else v for k, v in enumerate(values)]  # two groups teach nothing, and drift

    trainer = make_trainer(untrained, tmp_path, reward, replace(KEEP, kl=0.5), updates=1)
    batch = batch_of(trainer)
    assert len(batch["advantages"]) == 24 and (batch["advantages"] == 0).sum() >= 8
    assert trainer.ref_model is None  # TRL has loaded no second one
    mask = batch["completion_mask"].bool()
    assert torch.allclose(batch["ref_per_token_logps"][mask], batch["old_per_token_logps"][mask], atol=1e-4)
    trainer.current_gradient_accumulation_steps = 1
    batch["ref_per_token_logps"] = batch["ref_per_token_logps"] - 0.3
    loss = trainer.compute_loss(trainer.model, batch)
    trainer.beta = 0.0
    plain = trainer.compute_loss(trainer.model, batch)
    assert (loss - plain).item() == pytest.approx(0.5 * (math.exp(-0.3) + 0.3 - 1), abs=1e-5)


def test_a_row_that_only_fills_up_an_update_has_no_kl(untrained, tmp_path):
    def reward(completion_ids, **_):
        return [None, *by_token(completion_ids)[1:]]

    batch = batch_of(make_trainer(untrained, tmp_path, reward, replace(KEEP, kl=0.1), updates=4))
    assert (batch["completion_mask"].sum(1) == 0).sum() == 1
    assert batch["completion_mask"].sum() == batch["num_items_in_batch"]


def test_a_kl_term_holds_the_policy_near_the_reference(untrained, tmp_path):
    drift = []
    for kl in (0.0, 10.0):
        dapo = replace(KEEP, kl=kl)
        trainer = make_trainer(untrained, tmp_path, by_token, dapo, learning_rate=0.01, max_steps=12)
        trainer.train()
        drift.append([entry["kl"] for entry in trainer.state.log_history if "kl" in entry][-1])
        assert ("kl/trained" in trainer.state.log_history[0]) is (kl > 0)
    assert drift[1] < drift[0]


def test_clipping_acts_because_a_batch_is_used_for_more_than_one_update(untrained, tmp_path):
    trainer = make_trainer(
        untrained, tmp_path, by_token, learning_rate=0.05, updates=3, prompts=6, max_steps=3
    )
    trainer.train()
    fractions = [entry["clip_ratio/region_mean"] for entry in trainer.state.log_history if "loss" in entry]
    assert fractions[0] == 0 and max(fractions[1:]) > 0


# ---- from the name of a reward to what is trained on


def trained_on(name, alpha=None):
    """The total and the logged content of a trace with one unsupported claim of three."""
    problem = make_problem("bars", 0)
    assert problem.needs_thinking
    lines = [str(statement) for statement in solve(problem)]
    trace = "\n".join([*lines[:3], "star=red", *lines[3:]])
    logged = {}
    text = render_response(trace, problem.gold)
    function = for_trl(name, ExactJudge(), alpha)
    columns = {"gold": [problem.gold], "needs_thinking": [problem.needs_thinking], "problem": [problem]}
    total = asyncio.run(function([text], log_extra=logged.__setitem__, **columns))
    return total[0], logged["content"][0], logged["grounding"][0]


def test_every_named_reward_is_trained_on_as_it_is_written():
    assert trained_on("cascade") == pytest.approx((0.9 * 2 / 3 + 0.1, 2 / 3, 0))
    assert trained_on("cascade", alpha=0.5) == pytest.approx((0.5 * 2 / 3 + 0.5, 2 / 3, 0))
    # Three of four claims hold: the continuous verdict pays more than the binary one.
    assert trained_on("cascade-continuous") == pytest.approx((0.9 * 11 / 12 + 0.1, 11 / 12, 0.75))
    bare = (1 + 2 / 3 + 1) / 3  # with the alpha of its own, 1: no format term
    assert trained_on("additive-bare") == pytest.approx((bare, bare, 0))
    assert RLConfig(reward="additive-bare").alpha is None


# ---- which problems, under which label


def test_noisy_labels_are_turned_by_problem_and_the_truth_stays_beside_them():
    clean, some, more = (rl_dataset(400, label_noise=share) for share in (0.0, 0.2, 0.5))
    turned = [
        {k for k, row in enumerate(rows) if row["needs_thinking"] != row["truly_needs_thinking"]}
        for rows in (clean, some, more)
    ]
    assert not turned[0] and turned[1] < turned[2]
    assert 0.14 < len(turned[1]) / 400 < 0.26 and 0.42 < len(turned[2]) / 400 < 0.58
    assert all(row["truly_needs_thinking"] == row["problem"].needs_thinking for row in more)
    # The same problem elsewhere in a stream has the same label.
    alone = rl_dataset(20, ("bars",), label_noise=0.5)
    labels = {row["problem"].id: row["needs_thinking"] for row in more}
    both = [row for row in alone if row["problem"].id in labels]
    assert both and all(labels[row["problem"].id] == row["needs_thinking"] for row in both)


def test_chosen_problems_are_those_of_the_stream():
    every, some = rl_dataset(9), rl_dataset(2, chosen=[4, 8])
    assert [row["problem"].id for row in some] == [every[k]["problem"].id for k in (4, 8)]


# ---- interrupting and resuming, on the shipped policy

SMALL = RLConfig(
    steps=6, prompts=4, rollouts=3, updates=2, epochs=3, save_every=2, families=("add", "read_bar")
)


def weights(folder):
    return load_checkpoint(folder)[0].state_dict()


def same(first, second):
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    train_rl(SMALL, out, bar=False)
    return out


def press_ctrl_c_after(step):
    def on_batch(rows):
        if rows["step"].iloc[-1] == step:
            os.kill(os.getpid(), signal.SIGINT)

    return on_batch


@pytest.mark.parametrize("step", [2, 4])
def test_ctrl_c_and_resume_end_as_if_nothing_had_happened(tmp_path, uninterrupted, step):
    out = tmp_path / "run"
    with pytest.raises(Interrupted, match=rf"stopped after step {step + 1} of 6 \(interrupted\); .*--resume"):
        train_rl(SMALL, out, bar=False, on_batch=press_ctrl_c_after(step))
    partial = pd.read_csv(out / "metrics.csv")
    assert partial["step"].tolist() == list(range(1, step + 2))  # step 3 ends in the second of three epochs
    train_rl(SMALL, out, resume=True, bar=False)
    assert (out / "metrics.csv").read_text() == (uninterrupted / "metrics.csv").read_text()
    assert same(weights(out / "policy"), weights(uninterrupted / "policy"))


def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(tmp_path, uninterrupted):
    for seed, equal in ((0, True), (1, False)):
        train_rl(replace(SMALL, seed=seed), tmp_path / str(seed), bar=False)
        texts = [(folder / "metrics.csv").read_text() for folder in (tmp_path / str(seed), uninterrupted)]
        assert (texts[0] == texts[1]) is equal


def test_a_killed_run_is_resumed_from_its_last_whole_checkpoint(tmp_path, uninterrupted):
    out = tmp_path / "run"
    settings = [f"--set={k}={v}" for k, v in (("prompts", 4), ("rollouts", 3), ("save_every", 2))]
    command = [
        sys.executable,
        "-m",
        "sailrl_lite",
        "rl",
        "--out",
        str(out),
        "--steps",
        "6",
        "--quiet",
        *settings,
    ]
    command.append("--set=families=add,read_bar")
    process = subprocess.Popen(command)
    deadline = time.time() + 120
    while last_checkpoint(out / "trainer") is None and time.time() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    (out / "trainer" / "checkpoint-99999").mkdir()  # as a kill in the middle of saving leaves one
    (out / "trainer" / "checkpoint-99999" / "trainer_state.json").write_text('{"global')
    subprocess.run([*command, "--resume"], check=True)
    assert (out / "metrics.csv").read_text() == (uninterrupted / "metrics.csv").read_text()
    assert same(weights(out / "policy"), weights(uninterrupted / "policy"))


def test_the_adaptive_clip_range_is_part_of_a_checkpoint(tmp_path):
    config = replace(SMALL, clip="adaptive", steps=2)
    train_rl(config, tmp_path / "run", bar=False)
    saved = json.loads((last_checkpoint(tmp_path / "run" / "trainer") / "clip.json").read_text())
    logged = pd.read_csv(tmp_path / "run" / "metrics.csv")["clip/high"].iloc[-1]
    assert CLIP_LOW <= saved[1] <= CLIP_HIGH and abs(saved[1] - logged) <= 0.01


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"families": ("ad",)}, "unknown family 'ad'"),
        ({"reward": "cascad"}, "did you mean cascade?"),
        ({"alpha": 1.5}, "alpha must lie in [0, 1]"),
        ({"clip": "wide"}, "clip cannot be 'wide'; use one of asymmetric, adaptive"),
        ({"rollouts": 1}, "rollouts must lie in [2, 1000], not 1"),
        ({"steps": 0}, "steps must lie in [1, 1e+06], not 0"),
        ({"updates": 5}, "multiple of updates"),
        ({"checkpoint": "nowhere"}, "no checkpoint in nowhere"),
        ({"kl": -0.1}, "kl must lie in [0, 100]"),
        ({"label_noise": 1.5}, "label_noise must lie in [0, 1]"),
        ({"pass_low": -1.0}, "pass_low must lie in [0, 1]"),
        ({"pass_low": 0.5, "pass_high": 0.5}, "pass_low must be less than pass_high"),
        ({"pass_low": 0.0, "data": "a.parquet"}, "curate"),
    ],
)
def test_a_wrong_value_is_named_before_anything_is_written(tmp_path, change, words):
    with pytest.raises(SailRLError) as error:
        train_rl(replace(SMALL, **change), tmp_path / "run", bar=False)
    assert words in str(error.value)
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    out = tmp_path / "run"
    claim_folder(SMALL, out, resume=False)
    with FileLock(out / ".lock"), pytest.raises(SailRLError, match="another process is at work"):
        train_rl(SMALL, out, resume=True, bar=False)


def test_a_folder_holds_one_run(tmp_path, uninterrupted):
    with pytest.raises(SailRLError, match="already holds a run"):
        train_rl(SMALL, uninterrupted, bar=False)
    with pytest.raises(SailRLError, match="has other settings"):
        train_rl(replace(SMALL, seed=5), uninterrupted, resume=True, bar=False)
    with pytest.raises(SailRLError, match="no run in"):
        train_rl(SMALL, Path(tmp_path / "empty"), resume=True, bar=False)


# ---- rollouts that share a prompt


def gradients(trainer, function, batch):
    """Log-probabilities, entropies, and gradients of a loss that weighs every token of both differently."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    names = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
    fields = {name: batch[name] for name in names}
    length = batch["completion_ids"].shape[1]
    trainer.model.zero_grad()
    logps, entropies, _ = function(trainer.model, ids, mask, length, compute_entropy=True, **fields)
    weights = torch.randn(2, *logps.shape, generator=torch.Generator().manual_seed(0))
    kept = batch["completion_mask"]
    ((weights[0] * logps + weights[1] * entropies) * kept).sum().backward()
    return logps * kept, entropies * kept, {n: p.grad for n, p in trainer.model.named_parameters()}


def of_shipped(tmp_path, checkpoint=SHIPPED, **options):
    """A batch of the shipped policy, whose prompts and responses are of many lengths."""
    trainer = make_trainer(checkpoint, tmp_path, by_token, max_completion_length=48, **options)
    return trainer, batch_of(trainer)


@pytest.fixture(scope="module")
def other_architecture(tmp_path_factory):
    processor = build_processor()
    policy = build_policy(processor, 0, architecture="qwen3_vl")
    return save_checkpoint(policy, processor, tmp_path_factory.mktemp("qwen3") / "policy")


@pytest.mark.parametrize(("shipped", "piece"), [(True, 32), (True, 5), (False, 5)])
def test_reading_a_prompt_once_changes_no_log_probability_entropy_or_gradient(
    tmp_path, monkeypatch, other_architecture, shipped, piece
):
    monkeypatch.setattr(shared_prompt, "_PIECE", piece)
    trainer, batch = of_shipped(tmp_path, SHIPPED if shipped else other_architecture)
    assert sum(batch["num_images"]) < len(batch["num_images"])  # something is shared
    assert len(set(batch["prompt_mask"].sum(1).tolist())) > 1  # and something padded, on both sides
    assert len(set(batch["completion_mask"].sum(1).tolist())) > 1
    shared = gradients(trainer, trainer._get_per_token_logps_and_entropies, batch)
    pictures = ("pixel_values", "image_grid_thw", "num_images")
    alone = batch | shared_prompt.repeat_pictures(**{name: batch[name] for name in pictures})
    stock = gradients(trainer, super(DapoTrainer, trainer)._get_per_token_logps_and_entropies, alone)
    for ours, theirs in zip(shared[:2], stock[:2], strict=True):
        assert theirs.abs().max() > 0.1
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
    assert any(gradient.abs().max() > 0 for name, gradient in stock[2].items() if "visual" in name)
    for name, gradient in stock[2].items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(shared[2][name], gradient, atol=1e-4 * scale + 1e-6, rtol=1e-4, msg=name)


def test_gradient_checkpointing_takes_the_way_of_trl(tmp_path):
    trainer, batch = of_shipped(tmp_path)
    with torch.no_grad():
        shared = trainer._logps(trainer.model, batch)
        trainer.args.gradient_checkpointing = True
        stock = trainer._logps(trainer.model, batch)
    kept = batch["completion_mask"].bool()
    torch.testing.assert_close(shared[kept], stock[kept], atol=2e-5, rtol=0)
    assert not torch.equal(shared[kept], stock[kept])  # another way indeed: the roundings differ


def test_a_run_on_problems_by_pass4_tries_none_twice(tmp_path, monkeypatch):
    out, config = tmp_path / "run", replace(SMALL, pass_low=0.0, pass_high=1.0)
    monkeypatch.setattr(passing, "_CHUNK", 8)
    train_rl(config, out, bar=False)
    table = pd.read_csv(out / "pass4.csv")
    assert set(table["pass4"]) <= {0, 0.25, 0.5, 0.75, 1} and len(table) % 8 == 0
    policy, processor = load_checkpoint(SHIPPED)
    file = tmp_path / "pass4.csv"
    chosen = passing.passing_problems(config, policy, processor, 8, file)
    assert chosen == table[table["pass4"].between(0, 1, inclusive="neither")]["problem"].tolist()[:8]
    assert file.read_bytes() == (out / "pass4.csv").read_bytes()

    # Killed after the first eight, it goes on to the same end; with all there, no policy is asked.
    table[:8].to_csv(file, index=False)
    assert passing.passing_problems(config, policy, processor, 8, file) == chosen
    assert file.read_bytes() == (out / "pass4.csv").read_bytes()
    assert passing.passing_problems(config, None, None, 8, file) == chosen


def test_bounds_that_leave_hardly_a_problem_are_said(tmp_path):
    file = tmp_path / "pass4.csv"
    pd.DataFrame({"problem": range(160), "pass4": 1.0}).to_csv(file, index=False)
    config = RLConfig(families=("add",), pass_low=0.3, pass_high=0.4)  # no share of four lies there
    with pytest.raises(SailRLError, match=r"of 320 problems 0 have a pass@4 strictly between 0.3 and 0.4"):
        passing.passing_problems(config, *load_checkpoint(SHIPPED), 5, file)


def test_the_new_settings_are_set_from_text():
    values = {"kl": "0.05", "label_noise": "0.1", "pass_low": "0", "pass_high": "0.75"}
    config = RLConfig().with_values(values)
    assert (config.kl, config.label_noise, config.pass_low, config.pass_high) == (0.05, 0.1, 0.0, 0.75)
    assert RLConfig.from_json(config.to_json()) == config and config.filtered and not RLConfig().filtered


def test_updates_get_whole_groups_and_shed_padding_without_a_change_of_the_loss(tmp_path):
    trainer, batch = of_shipped(tmp_path, updates=3)
    trainer.current_gradient_accumulation_steps = 1  # set by `train`
    batch["old_per_token_logps"] = batch["old_per_token_logps"] - 0.05  # a ratio other than 1
    parts = shared_prompt.split_batch(batch, 3)
    assert len({len(part["prompt_ids"]) for part in parts}) == 1
    assert (
        sum(len(part["image_grid_thw"]) for part in parts) <= len(batch["image_grid_thw"]) + 2
    )  # two borders
    for part in parts:
        assert part["num_images"][0] == 1 and sum(part["num_images"]) == len(part["image_grid_thw"])
        assert part["prompt_mask"].any(0).all() and part["completion_mask"].any(0).all()
    assert any(part["completion_ids"].shape[1] < batch["completion_ids"].shape[1] for part in parts)
    with torch.no_grad():
        whole = trainer.compute_loss(trainer.model, batch)
        pieces = sum(trainer.compute_loss(trainer.model, part) for part in parts)
    assert whole.abs() > 1e-3
    torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=1e-5)


def test_the_order_of_groups_hangs_on_the_step_and_on_no_random_state(untrained, tmp_path):
    trainer = make_trainer(untrained, tmp_path, by_token)
    orders = []
    for step, state in ((0, 1), (0, 2), (2, 1)):
        trainer.state.global_step = step
        torch.manual_seed(state)
        orders.append(batch_of(trainer)["prompt_ids"].tolist())
    assert orders[0] == orders[1] != orders[2]
