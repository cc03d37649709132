"""The export for VLMEvalKit, all but VLMEvalKit itself (`make check-vlmevalkit` runs that)."""

import html
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from judge_server import JudgeServer, chat, written

from sailrl_lite.answers import equivalent
from sailrl_lite.cli import main
from sailrl_lite.config import SHIPPED, EvaluateConfig, PolicyConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.export.grader import check_grader, grader_table, make_pairs, messages
from sailrl_lite.export.responses import read_responses, read_scores, table5
from sailrl_lite.export.vlmevalkit import BENCHMARKS, FILES, export_vlmevalkit, split_response
from sailrl_lite.judges.client import ChatClient
from sailrl_lite.judges.endpoint import Endpoint
from sailrl_lite.judges.protocol import NoVerdict
from sailrl_lite.response import NEVER_THINK, render_response
from sailrl_lite.study.evaluation import unseen_problems
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.training.rollout import respond


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = EvaluateConfig(temperature=0.0, max_new_tokens=48)
    return export_vlmevalkit(tmp_path_factory.mktemp("kit") / "out", config, ["MathVision"])


@pytest.fixture
def exported(out: Path, monkeypatch: pytest.MonkeyPatch):
    """Imports a module of the exported folder."""
    monkeypatch.syspath_prepend(str(out))

    def load(name: str):
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    yield load
    for name in ("sailrl_model", "evaluate"):
        sys.modules.pop(name, None)


def test_the_folder_holds_every_value_and_no_key(out: Path) -> None:
    settings = json.loads((out / "settings.json").read_text())
    assert settings["checkpoint"] == str(SHIPPED)
    assert (settings["temperature"], settings["max_new_tokens"], settings["seed"]) == (0.0, 48, 0)
    assert settings["benchmarks"] == {"MathVision": "MathVision"}
    assert settings["grader"] == "gpt-4o-mini"
    assert set(settings["policy"]) == set(vars(PolicyConfig()))
    assert {file.name for file in out.iterdir()} >= {*FILES, "settings.json"}
    assert (out / "run.sh").stat().st_mode & 0o100


def test_all_benchmarks_of_the_two_tables(tmp_path: Path) -> None:
    reported = pd.read_csv(Path(__file__).parent.parent / "data" / "paper" / "reported.csv")
    for table in (1, 2):
        named = set(reported[reported["artifact"] == f"table{table}"]["benchmark"]) - {"average"}
        assert named <= {name for name, b in BENCHMARKS.items() if b.table == table}
    readme = (export_vlmevalkit(tmp_path / "out", EvaluateConfig()) / "README.md").read_text()
    for name, benchmark in BENCHMARKS.items():
        assert f"| {name} | {benchmark.data} |" in readme


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"benchmarks": ["MathVison"]}, "did you mean 'MathVision'"),
        ({"grader": "two words"}, "name of a model"),
        ({"grader": "llm:gpt-4o-mini"}, "name of a model, such as gpt-4o-mini, or exact_matching, not 'llm:"),
        ({"grader": "-x"}, "name of a model"),
        ({"grader": "exact"}, "or exact_matching, not 'exact'"),
        ({"config": EvaluateConfig(checkpoint="data")}, "no checkpoint in data"),
        ({"config": EvaluateConfig(problems=3)}, "problems is of the micro-world"),
        ({"config": EvaluateConfig(never_think=True)}, "never_think is of the micro-world"),
        ({"config": EvaluateConfig(checkpoint="nowhere")}, "no checkpoint in nowhere"),
        ({"config": EvaluateConfig(temperature=-1.0)}, "temperature must lie in"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict, words: str) -> None:
    with pytest.raises(SailRLError, match=re.escape(words)) as error:
        export_vlmevalkit(tmp_path / "out", **({"config": EvaluateConfig()} | change))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["vlmevalkit", "verl"])
def test_a_name_that_is_too_long_is_told(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", kind, str(tmp_path / ("a" * 5000))]) == 2
    said = capsys.readouterr().err
    assert "too long for the name of a file; name another" in said and said.count("\n") == 1


def test_another_folder_is_left_alone_and_its_own_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SailRLError, match="holds something else"):
        export_vlmevalkit(tmp_path, EvaluateConfig())
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    out = export_vlmevalkit(tmp_path / "out", EvaluateConfig())
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    export_vlmevalkit(out, EvaluateConfig())
    assert before == {file.name: file.read_bytes() for file in out.iterdir()}


def test_the_command_takes_the_values_of_a_rung(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "--rung",
        "paper",
        "--checkpoint",
        "owner/name",
        "--set",
        "temperature=0.6",
        "--benchmarks",
        "MME",
    ]
    assert main(["export", "vlmevalkit", str(tmp_path / "out"), *asked]) == 0
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert (settings["checkpoint"], settings["max_new_tokens"]) == ("owner/name", 4096)
    assert (settings["temperature"], settings["policy"]["dtype"]) == (0.6, "bfloat16")
    assert str(tmp_path / "out" / "README.md") in capsys.readouterr().out


def test_the_split_of_a_split_is_itself() -> None:
    texts = [
        "",
        "5",
        "= 5",
        "=",
        render_response("2+3=5", "5"),
        render_response("", "x=5"),
        "<answer>so 5",
        "</think>",
    ]
    for text in texts:
        answer, _ = split_response(text)
        assert answer.strip() and not answer.startswith("=")
        assert split_response(answer)[0] == answer
    assert split_response(NEVER_THINK + r"\boxed{5}</answer>") == ("5", "")


@pytest.mark.slow
def test_the_wrapper_answers_as_the_policy_does(out: Path, exported, tmp_path: Path) -> None:
    """Greedily, the responses that `respond` gives; both ways of asking; raw responses are kept."""
    wrapper = exported("sailrl_model")
    settings = json.loads((out / "settings.json").read_text())
    problems = unseen_problems(1)[:4]
    texts = {}
    for never in (False, True):
        folder = tmp_path / ("sail-rl-never" if never else "sail-rl")
        folder.mkdir()
        model = wrapper.SailRLPolicy(settings, folder, never_think=never)
        model.set_dump_image(lambda row: [row["path"]])
        assert model.use_custom_prompt("MathVision")
        texts[never] = []
        for k, problem in enumerate(problems):
            path = tmp_path / f"{k}.png"
            problem.image.save(path)
            message = model.build_prompt({"path": str(path), "question": problem.question}, "MathVision")
            texts[never].append(model.generate(message, dataset="MathVision"))
    policy, processor = load_checkpoint(SHIPPED)
    questions, images = [p.question for p in problems], [p.image for p in problems]
    for never, prefill in ((False, ""), (True, NEVER_THINK)):
        wanted = respond(policy, processor, questions, images, 1, prefill, temperature=0, max_new_tokens=48)
        assert texts[never] == [prefill + text for (text,) in wanted]
    rows = read_responses(tmp_path)
    assert rows[rows["model"] == "sail-rl"]["response"].tolist() == texts[False]
    table = table5(rows, {("sail-rl", "MathVision"): 50.0}).set_index("model")
    assert table.loc["sail-rl-never", "trigger_rate"] == 0
    assert table.loc["sail-rl-never", "relative_tokens"] == 1
    tokens = rows.groupby("model")["tokens"].mean()
    assert table.loc["sail-rl", "relative_tokens"] == pytest.approx(
        tokens["sail-rl"] / tokens["sail-rl-never"]
    )
    assert np.isnan(table.loc["sail-rl-never", "accuracy"])


def test_the_wrapper_never_cuts_a_prompt(out: Path, exported, tmp_path: Path) -> None:
    wrapper = exported("sailrl_model")
    settings = json.loads((out / "settings.json").read_text())
    model = wrapper.SailRLPolicy(settings, tmp_path)
    model.longest = 60
    path = tmp_path / "0.png"
    unseen_problems(1)[0].image.save(path)
    message = [
        {"type": "image", "value": str(path)},
        {"type": "text", "value": "How many circles are there?"},
    ]
    assert model.generate(message, dataset="MathVision") == ""
    assert "leaves no room" in json.loads(model.file.read_text())["problem"]
    assert split_response("") == ("no answer", "")


def test_a_seed_is_the_questions_own(exported, tmp_path: Path) -> None:
    wrapper = exported("sailrl_model")
    settings = {"checkpoint": str(SHIPPED), "temperature": 1.0, "max_new_tokens": 48, "seed": 0, "policy": {}}
    problems = unseen_problems(1)[:2]
    model = wrapper.SailRLPolicy(settings, tmp_path)
    messages = []
    for k, problem in enumerate(problems):
        problem.image.save(tmp_path / f"{k}.png")
        messages.append(
            [
                {"type": "image", "value": str(tmp_path / f"{k}.png")},
                {"type": "text", "value": problem.question},
            ]
        )
    first = [model.generate(message, dataset="d") for message in messages]
    assert [model.generate(message, dataset="d") for message in messages[::-1]] == first[::-1]


def test_the_folder_of_a_run_is_the_settings_and_the_checkpoints(out: Path, exported, tmp_path: Path) -> None:
    fingerprint = exported("evaluate").fingerprint
    settings = json.loads((out / "settings.json").read_text())
    first = fingerprint(settings)
    assert fingerprint(settings | {"benchmarks": {}}) == first, "more benchmarks belong to the same policy"
    assert fingerprint(settings | {"temperature": 0.5}) != first
    checkpoint = tmp_path / "policy"
    checkpoint.mkdir()
    seen = set()
    for content in (b"one", b"two"):
        (checkpoint / "model.safetensors").write_bytes(content)
        seen.add(fingerprint(settings | {"checkpoint": str(checkpoint)}))
    assert len(seen) == 2


def test_no_grader_without_its_key(out: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(out / "evaluate.py")],
        env={"PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr and "Traceback" not in done.stderr


def test_scores_are_read_by_the_papers_figures(tmp_path: Path) -> None:
    figures = {
        "DynaMath": {"Setting=Average|Overall": 0.5, "Setting=Worst Case|Overall": 0.25},
        "WeMath": {"Score (Strict)=35.80%|RoteMemorization (Strict)=9% (3)|x": 0.5},
        "MME": {"perception": 1500.0, "reasoning": 600.0, "OCR": 100.0},
        "HallusionBench": {
            f"split=Overall|{name}": v for name, v in (("aAcc", 60), ("fAcc", 50), ("qAcc", 40))
        },
        "LogicVista": {"nothing": 1.0},
        "OwnData": {"split=none|Overall": 0.75},
    }
    (tmp_path / "sail-rl").mkdir()
    status = {"datasets": {name: {"metrics": metrics} for name, metrics in figures.items()}}
    (tmp_path / "sail-rl" / "status.json").write_text(json.dumps(status))
    scores = {data: round(score, 6) for (_, data), score in read_scores(tmp_path).items()}
    assert scores == {"DynaMath": 25, "WeMath": 35.8, "MME": 75, "HallusionBench": 50, "OwnData": 75}


def test_responses_that_are_cut_short_or_asked_twice(tmp_path: Path) -> None:
    with pytest.raises(SailRLError, match="run evaluate"):
        read_responses(tmp_path)
    (tmp_path / "sail-rl").mkdir()
    row = {"data": "d", "key": "k", "response": render_response("", "5"), "tokens": 9}
    lines = [
        json.dumps(row),
        json.dumps(row | {"response": render_response("2+3", "6")}),
        '{"data": "d", "ke',
    ]
    (tmp_path / "sail-rl" / "responses-0.jsonl").write_text("\n".join(lines))
    (found,) = read_responses(tmp_path).to_dict("records")
    assert (found["answer"], found["thought"], found["well_formed"]) == ("6", True, True)


# -------------------- the check of the grader


def test_the_truth_of_the_pairs_is_the_exact_one() -> None:
    pairs = make_pairs(400)
    assert pairs == make_pairs(400) != make_pairs(400, seed=1)
    for pair in pairs:
        assert equivalent(pair.gold, pair.prediction) == pair.right, pair


def test_a_prediction_cannot_leave_its_tags() -> None:
    for pair in make_pairs(200):
        assert messages(pair)[1]["content"].count("</prediction>") == 1


def grader(flaw):
    """A grader that knows what is equal, and errs as `flaw` (gold, prediction) says."""

    def script(number, request):
        text = written(request)
        gold, said = (
            html.unescape(re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)[1])
            for tag in ("gold", "prediction")
        )
        return chat(flaw(gold, said) or json.dumps({"correct": equivalent(gold, said)}))

    return script


def check(flaw, count: int = 80):
    with JudgeServer(grader(flaw)) as server:
        return check_grader(ChatClient(Endpoint("m", server.url, cache=None)), count)


def test_a_grader_without_and_with_flaws(tmp_path: Path) -> None:
    table, lines = check(lambda gold, said: None)
    assert table["errors"].sum() == 0 and table["no_verdict"].sum() == 0
    assert all(json.loads(line)["said"] == json.loads(line)["right"] for line in lines.splitlines())

    # It passes whatever gives two answers, and cannot be read where there is none.
    table, _ = check(
        lambda gold, said: '{"correct": true}' if " or " in said else "well" if not said else None
    )
    table = table.set_index("kind")
    pairs = make_pairs(80)
    both = sum(" or " in pair.prediction for pair in pairs)
    assert both > 0
    assert table.loc["false pass", "errors"] == table.loc["wrong", "errors"] == both
    assert table.loc["false fail", "errors"] == 0
    assert table.loc["none", "no_verdict"] == sum(not pair.prediction for pair in pairs) > 0
    graded = table.loc["false pass", "graded"]
    assert table.loc["false pass", "rate"] == both / graded
    assert table.loc["false pass", "low"] < both / graded < table.loc["false pass", "high"]


def test_no_verdict_is_no_error() -> None:
    pairs = make_pairs(8)
    table = grader_table(pairs, [NoVerdict("timeout")] * 8)
    assert table["errors"].sum() == 0 and table["rate"].isna().all()


def test_a_grader_that_grades_nothing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SailRLError, match=r"m graded none of 8 pairs \(most often: empty\)"):
        check(lambda gold, said: "  ", count=8)
    with JudgeServer(grader(lambda gold, said: None)) as server:
        spec = f"llm:m,base_url={server.url},cache=,max_calls=2"
        assert main(["grader-check", "--grader", spec, "--pairs", "8"]) == 0
    assert "note: the judge's budget of 2 calls is spent" in capsys.readouterr().out
    for other in ("exact", "learned:m", "noisy:exact"):
        assert main(["grader-check", "--grader", other]) == 2
        assert "this takes an LLM, llm:MODEL" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with JudgeServer(grader(lambda gold, said: None)) as server:
        spec = f"llm:m,base_url={server.url},cache="
        out = tmp_path / "pairs.jsonl"
        assert main(["grader-check", "--grader", spec, "--pairs", "8", "--out", str(out)]) == 0
        assert len(server.requests) == 8
    assert "false pass" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == 8
    assert main(["grader-check", "--grader", spec, "--pairs", "0"]) == 2
