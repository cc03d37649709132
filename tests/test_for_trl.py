"""Our rewards in other people's trainers: TRL's own GRPOTrainer, run for real, and verl's signature."""

import asyncio
import functools
import math
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from trl import GRPOTrainer

from sailrl_lite.config import SHIPPED, RLConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges import exact
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.judges.protocol import Judge, NoVerdict, Verdict
from sailrl_lite.response import render_response
from sailrl_lite.rewards import Combination, for_trl, verl
from sailrl_lite.training.data import rl_dataset
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rl import grpo_config
from sailrl_lite.training.runs import claim_folder
from sailrl_lite.world.problems import make_problem
from sailrl_lite.world.teacher import solve
from sailrl_lite.world.traces import write_trace
from sailrl_lite.world.verifier import verify

README = Path(__file__).resolve().parent.parent / "README.md"


class Scripted(Judge):
    """Says what it is told to, case after case, and remembers what it was shown."""

    def __init__(self, *says, paid=False):
        self.says, self.paid, self.seen, self.modes = list(says), paid, [], []
        self.name = "scripted"

    async def judge(self, cases, continuous=False, sample=0):
        await asyncio.sleep(0)
        self.modes.append(continuous)
        self.seen += cases
        return [self.says[k % len(self.says)] for k in range(len(cases))]


def verdict(logic=1, grounding=1, consistency=1):
    return Verdict({"logic": logic, "grounding": grounding, "consistency": consistency})


RIGHT = render_response("2+3=5", "5")
COLUMNS = {"gold": ["5"], "needs_thinking": [True]}
LOST = NoVerdict("timeout", "after 300 s")


def score(function, completions, **columns):
    logged, metrics = {}, {}
    n = len(completions)
    columns = {
        name: values * n if len(values) == 1 else values for name, values in (COLUMNS | columns).items()
    }
    rewards = asyncio.run(
        function(completions, log_extra=logged.__setitem__, log_metric=metrics.__setitem__, **columns)
    )
    return rewards, logged, metrics


# ---- the function itself


def test_it_pays_what_the_reward_says_and_logs_every_part():
    rewards, logged, metrics = score(
        for_trl("cascade", Scripted(verdict(consistency=0))), [RIGHT, "nonsense"]
    )
    assert rewards == pytest.approx([0.7, 0])
    assert logged["format"] == [1, 0] and logged["answer"] == [1, 0] and logged["consistency"] == [0, None]
    assert logged["content"] == pytest.approx([2 / 3, 0])
    assert metrics["thinking"] == pytest.approx(1 / 3) and metrics["unscored"] == 0


def test_no_verdict_is_none_and_is_counted_and_a_format_error_needs_none():
    rewards, logged, metrics = score(for_trl("cascade", Scripted(LOST)), [RIGHT, RIGHT + " and more"])
    assert rewards == [None, 0]
    assert logged["unscored"] == [1, 0] and logged["no_verdict"] == ["timeout", "timeout"]
    assert metrics["unscored"] == 0.5 and "logic" not in metrics


def test_a_direct_answer_needs_no_judge():
    judge = Scripted(LOST)
    direct = render_response("", "5")
    rewards, _, _ = score(for_trl("cascade", judge), [direct], needs_thinking=[False])
    assert rewards == [1.0] and not judge.seen


def test_a_paid_judge_is_asked_only_where_the_total_depends_on_it():
    for reward, completion, asked in (
        ("cascade", RIGHT, 1),
        ("answer-only", RIGHT, 0),
        ("cascade", RIGHT + " and more", 0),
    ):
        judge = Scripted(verdict(), paid=True)
        score(for_trl(reward, judge), [completion])
        assert len(judge.seen) == asked, reward
    free = Scripted(verdict())
    score(for_trl("answer-only", free), [RIGHT])
    assert len(free.seen) == 1  # its scores are logged


def test_a_reward_of_ones_own_alpha_and_continuous_scores():
    mine = Combination("mine", ("grounding", "answer"), alpha=0.8, continuous=True)
    judge = Scripted(verdict(grounding=0.5))
    assert score(for_trl(mine, judge), [RIGHT])[0] == pytest.approx([0.8 * 0.5 + 0.2])
    assert judge.modes == [True]
    assert score(for_trl(mine, judge, alpha=1.0), [RIGHT])[0] == pytest.approx([0.5])


def test_the_judge_sees_question_picture_trace_and_answer():
    judge, picture = Scripted(verdict()), Image.new("RGB", (9, 9))
    prompt = [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How much?"}]},
        {"role": "assistant", "content": "<judge>think</judge>"},
    ]
    completion = [{"role": "assistant", "content": r"<think>2+3=5</think><answer>\boxed{5}</answer>"}]
    rewards, _, _ = score(for_trl("cascade", judge), [completion], prompts=[prompt], images=[[picture]])
    (case,) = judge.seen
    assert rewards == [1.0]
    assert (case.question, case.think, case.answer, case.image) == ("How much?", "2+3=5", "5", picture)


def test_what_is_missing_or_unusable_is_named():
    function = for_trl("cascade", Scripted(verdict()))
    with pytest.raises(SailRLError, match=r"no column 'needs_thinking'.*remove_unused_columns"):
        asyncio.run(function([RIGHT], gold=["5"]))
    with pytest.raises(SailRLError, match="row 1: unusable gold answer '': empty"):
        asyncio.run(function([RIGHT, RIGHT], gold=["5", ""], needs_thinking=[True, True]))
    with pytest.raises(SailRLError, match="did you mean cascade"):
        for_trl("cascad", Scripted(verdict()))
    with pytest.raises(SailRLError, match=r"get_judge\('exact'\)"):
        for_trl("cascade", "exact")
    rewards, logged, _ = score(for_trl("cascade", ExactJudge()), [RIGHT])
    assert rewards == [None] and logged["no_verdict"] == ["no truth"]


@pytest.mark.parametrize("label", ["false", "true", "0", None, math.nan, 2, [True]])
def test_a_label_is_not_guessed(label):
    with pytest.raises(SailRLError, match="needs_thinking"):
        score(for_trl("cascade", Scripted(verdict())), [RIGHT], needs_thinking=[label])
    with pytest.raises(SailRLError, match="needs_thinking"):
        verl_score({"needs_thinking": label}, judge=Scripted(verdict()))


@pytest.mark.parametrize("label", [True, 1, 1.0, np.bool_(True), np.int64(1)])
def test_a_label_may_be_of_any_type_of_number(label):
    assert score(for_trl("cascade", Scripted(verdict())), [RIGHT], needs_thinking=[label])[0] == [1.0]
    assert verl_score({"needs_thinking": label}, judge=Scripted(verdict()))["score"] == 1.0


# ---- the truth beside the judge

PROBLEMS = {name: make_problem(name, 0) for name in ("add", "read_bar")}


def of(problem, *completions, judge, reward="cascade", **columns):
    given = {"gold": [problem.gold], "needs_thinking": [problem.needs_thinking], "problem": [problem]}
    return score(for_trl(reward, judge), list(completions), **(given | columns))


def test_what_is_true_is_logged_whatever_the_judge_says_and_pays():
    problem = PROBLEMS["add"]
    trace = write_trace(solve(problem))
    good = render_response(trace, problem.gold)
    lucky = render_response("5+5=11", problem.gold)
    wrong = render_response(trace, "1000")
    direct = render_response("", problem.gold)
    pleased = Scripted(verdict())
    rewards, logged, _ = of(problem, good, lucky, wrong, direct, "x", judge=pleased)
    assert rewards == pytest.approx([1, 1, 0.1, 0.1, 0]) and logged["logic"] == [1, 1, 1, None, None]
    assert logged["true_logic"] == [1, 0, 1, None, None]
    assert logged["true_consistency"][2] == 0
    assert logged["true_cascade"][0] == 1 and logged["true_cascade"][1] < 1
    assert logged["content/nonzero"] == [1, 1, 0, 0, 0]
    shares = [
        name.removeprefix("share/")
        for k in range(5)
        for name, values in logged.items()
        if name.startswith("share/") and values[k]
    ]
    assert shares == [
        "think_right_sound",
        "think_right_unsound",
        "think_wrong_unsound",
        "direct_right",
        "malformed",
    ]
    # Another judge changes what is paid and nothing of what is true.
    strict = of(problem, good, lucky, wrong, direct, "x", judge=Scripted(verdict(0, 0, 0)))
    assert strict[0] != rewards
    assert all(strict[1][name] == values for name, values in logged.items() if name.startswith("true_"))


def test_the_exact_judge_is_not_asked_twice_and_stays_binary_beside_a_continuous_reward(monkeypatch):
    asked = []
    monkeypatch.setattr(exact, "verify", lambda *args: asked.append(1) or verify(*args))
    problem = PROBLEMS["add"]
    trace = write_trace(solve(problem)) + "\nstar=red"  # one claim that nothing supports
    text = render_response(trace, problem.gold)
    _, logged, _ = of(problem, text, judge=ExactJudge())
    assert len(asked) == 1 and logged["true_grounding"] == logged["grounding"] == [0]
    _, logged, _ = of(problem, text, judge=ExactJudge(), reward="cascade-continuous")
    assert 0 < logged["grounding"][0] < 1 and logged["true_grounding"] == [0]


def test_a_noisy_label_pays_and_the_true_one_is_what_is_measured():
    problem = PROBLEMS["read_bar"]
    direct = render_response("", problem.gold)
    columns = {"needs_thinking": [True], "truly_needs_thinking": [False]}
    rewards, logged, _ = of(problem, direct, judge=ExactJudge(), **columns)
    assert rewards == pytest.approx([0.1]) and logged["judging"] == [0]
    assert logged["true_cascade"] == [1] and logged["true_thinking"] == [1]
    assert logged["trigger_direct"] == [0] and logged["trigger_think"] == [None]


def test_without_the_truth_what_a_response_is_comes_from_the_judge():
    _, logged, _ = score(for_trl("cascade", Scripted(verdict(logic=0), LOST)), [RIGHT, RIGHT])
    assert logged["share/think_right_unsound"] == [1, 0] and logged["share/think_unjudged"] == [0, 1]
    assert not any(name.startswith("true_") for name in logged)


# ---- inside TRL's own trainer


class Kept(GRPOTrainer):
    """Stock TRL, keeping the advantages that it computes."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        self.kept = batch["advantages"]
        return batch


def train(tmp_path, judge, completions=None):
    """One step of stock TRL on two prompts x 4 rollouts; the completions are replaced if some are given."""
    policy, processor = load_checkpoint(SHIPPED)
    config = RLConfig(steps=1, prompts=2, rollouts=4, updates=1, epochs=1, families=("add", "angle"))
    function = for_trl("cascade", judge)
    if completions:
        inner = function

        async def function(completions, **columns):
            return await inner([[{"role": "assistant", "content": text}] for text in texts], **columns)

        texts, function.__name__ = list(completions), "cascade"
    trainer = Kept(
        model=policy, reward_funcs=function, args=grpo_config(config, tmp_path / "run"),
        train_dataset=rl_dataset(2, config.families), processing_class=processor,
    )  # fmt: skip
    before = {name: weight.clone() for name, weight in policy.named_parameters()}
    trainer.train()
    moved = any(not torch.equal(before[name], weight) for name, weight in policy.named_parameters())
    return trainer, moved


def test_stock_trl_trains_on_it(tmp_path):
    trainer, _ = train(tmp_path, ExactJudge())
    (log,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert {"format", "answer", "thinking", "logic", "unscored", "trigger_rate"} <= set(log)
    assert log["unscored"] == 0 and 0 <= log["reward"] <= 1


def test_in_stock_trl_one_lost_verdict_moves_no_baseline_and_all_lost_move_nothing(tmp_path):
    problems = [make_problem(name, 0) for name in ("add", "angle")]
    texts = [render_response(write_trace(solve(p)), p.gold) for p in problems for _ in range(4)]
    says = [verdict(), verdict(logic=0), LOST, verdict(), LOST, LOST, LOST, LOST]
    trainer, moved = train(tmp_path, Scripted(*says), texts)
    high, low = 1.0, 0.7
    mean = (high + low + high) / 3
    order = [high - mean, low - mean, 0, high - mean, 0, 0, 0, 0]
    kept = sorted(trainer.kept.tolist())
    assert kept == pytest.approx(sorted(order), abs=1e-6)
    (log,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert log["unscored"] == 5 / 8 and log["reward"] == pytest.approx(mean) and moved

    trainer, moved = train(tmp_path / "all", Scripted(LOST), texts)
    assert not trainer.kept.any() and not moved


def test_the_script_of_the_readme_runs_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    (script,) = [block for block in blocks if "GRPOTrainer(" in block]
    found: dict = {}
    exec(script, found)
    assert found["trainer"].state.global_step == 2


# ---- the signature of verl


def verl_score(info=None, **kwargs):
    row = {"needs_thinking": True} | (info or {})
    return asyncio.run(verl.compute_score("mine", RIGHT, "5", row, **kwargs))


@pytest.fixture(autouse=True)
def no_memory():
    verl._unscored.clear()


def test_verl_gets_numbers_under_the_same_keys_whatever_happens():
    full = verl_score(judge=Scripted(verdict(grounding=0)))
    assert full["score"] == pytest.approx(0.7) and full["grounding"] == 0 and full["unscored"] == 0
    lost = verl_score(judge=Scripted(LOST), reward_router_address="ignored")
    assert lost["score"] == 0 and lost["unscored"] == 1 and math.isnan(lost["thinking"])
    assert lost.keys() == full.keys() and all(isinstance(v, float) for v in (full | lost).values())


def test_verl_reads_the_picture_and_the_judges_text(tmp_path):
    judge, path = Scripted(verdict()), tmp_path / "a.png"
    Image.new("RGB", (5, 7)).save(path)
    for image in (path, str(path), path.read_bytes(), {"bytes": path.read_bytes(), "path": None}):
        verl_score({"image": image, "question": "How much?"}, judge=judge)
    assert {case.image.size for case in judge.seen} == {(5, 7)}
    assert judge.seen[0].question == "How much?"
    problem = make_problem("add", 1)
    right = render_response(write_trace(solve(problem)), problem.gold)
    row = {"needs_thinking": True, "problem": problem}
    scored = asyncio.run(verl.compute_score("micro", right, problem.gold, row, judge="exact"))
    assert scored["score"] == 1.0


def test_verl_takes_none_for_a_field_that_a_row_has_not():
    judge = Scripted(verdict())
    picture = {"bytes": None, "path": None}
    row = {"prefill": None, "question": None, "image": picture, "problem": None}
    assert verl_score(row, judge=judge)["score"] == 1.0
    assert judge.seen[0].image is None and judge.seen[0].question == ""
    with pytest.raises(SailRLError, match="picture of a row cannot be read"):
        verl_score({"image": [picture]}, judge=judge)


def test_verl_has_one_judge_for_all_threads(monkeypatch):
    made = []

    def make(text):
        time.sleep(0.05)
        made.append(text)
        return Scripted(verdict())

    monkeypatch.setattr(verl, "_kept_judge", functools.lru_cache(make))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: verl_score(judge="scripted"), range(8)))
    assert made == ["scripted"]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ([1], "extra_info of a row of 'mine' must be a mapping"),
        ({"prefill": 5}, "extra_info.prefill of a row of 'mine' must be a text, not 5"),
        ({"question": ["a"]}, "extra_info.question of a row of 'mine' must be a text"),
        ({"problem": "add"}, "extra_info.problem must have family, seed"),
        ({"problem": {"family": "add", "size": 1}}, "extra_info.problem must have family, seed"),
        ({"image": b"GIF?"}, r"cannot be read \(cannot identify image file\); mend"),
    ],
)
def test_verl_names_a_field_of_the_wrong_type(info, words):
    row = info if isinstance(info, list) else {"needs_thinking": True} | info
    with pytest.raises(SailRLError, match=words):
        asyncio.run(verl.compute_score("mine", RIGHT, "5", row, judge=Scripted(verdict())))


def test_verl_is_told_what_is_wrong_and_a_judge_that_fails_stops_the_run(tmp_path):
    with pytest.raises(SailRLError, match=r"'mine' has no extra_info\.needs_thinking"):
        asyncio.run(verl.compute_score("mine", RIGHT, "5"))
    with pytest.raises(SailRLError, match="picture of a row cannot be read"):
        verl_score({"image": str(tmp_path / "none.png")}, judge=Scripted(verdict()))
    verl._unscored.clear()
    with pytest.raises(
        SailRLError, match=r"256 of the last 256 judged responses have no verdict \(the last: timeo"
    ):
        for _ in range(256):
            verl_score(judge=Scripted(LOST))
            asyncio.run(verl.compute_score("mine", render_response("", "5"), "5", {"needs_thinking": False}))


# ---- the judge of a run


def test_a_run_goes_on_with_other_limits_of_its_judge_but_not_with_another_judge(tmp_path):
    def config(judge):
        return RLConfig(judge=judge)

    claim_folder(config("llm:m,max_calls=10"), tmp_path, resume=False)
    claim_folder(config("llm:m,max_calls=99"), tmp_path, resume=True)
    assert RLConfig.from_json((tmp_path / "config.json").read_text()).judge == "llm:m,max_calls=99"
    with pytest.raises(SailRLError, match=r"other settings \(judge llm:m there, llm:other here\)"):
        claim_folder(config("llm:other"), tmp_path, resume=True)


def test_a_bad_judge_is_refused_before_anything_is_written():
    with pytest.raises(SailRLError, match="unknown judge 'exakt'; did you mean exact"):
        RLConfig(judge="exakt").check()
