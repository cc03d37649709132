"""The export for VLMEvalKit against the real one, offline: `make check-vlmevalkit`.

It runs in the environment of the export (requirements.txt), with `vlmevalkit_cpu` on PYTHONPATH. A small data
set of micro-world problems goes through the exported folder to VLMEvalKit's own score; so does its grader, by
a stand-in for the endpoint, and the names of the figures of all thirteen benchmarks are looked up.

    python tests/engines/vlmevalkit_check.py FOLDER
"""

import html
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from judge_server import JudgeServer, chat, written

from sailrl_lite.answers import equivalent
from sailrl_lite.config import EvaluateConfig
from sailrl_lite.export.grader import make_pairs
from sailrl_lite.export.responses import NEVER, read_responses, read_scores, table5
from sailrl_lite.export.vlmevalkit import BENCHMARKS, export_vlmevalkit, split_response
from sailrl_lite.pictures import data_url
from sailrl_lite.study.evaluation import unseen_problems
from sailrl_lite.world.problems import Problem
from sailrl_lite.world.scenes import COLORS, SHAPES

KEY = "sk-check-0123456789"
LETTERS = "ABCD"
DATA = "MicroWorld"
PROBLEMS = 6  # of each family


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problems = unseen_problems(PROBLEMS)
    write_data(problems, folder / "LMUData")
    score_exactly(problems, folder)
    rerun_asks_nothing(folder)
    score_by_grader(problems, folder)
    names_of_figures(folder)
    own_comparison()
    print("all checks passed")


def write_data(problems: list[Problem], folder: Path) -> None:
    """The problems as multiple choice. No option lies within another: VLMEvalKit looks for their text."""
    rows = []
    for k, problem in enumerate(problems):
        options = options_of(problem, random.Random(f"options/{problem.id}"))
        picture = data_url(problem.image).partition(",")[2]
        row = {"index": k, "image": picture, "question": problem.question, "category": problem.family}
        row |= dict(zip(LETTERS, options, strict=True))
        rows.append(row | {"answer": LETTERS[options.index(problem.gold)]})
    folder.mkdir()
    pd.DataFrame(rows).to_csv(folder / f"{DATA}.tsv", sep="\t", index=False)


def options_of(problem: Problem, rng: random.Random) -> list[str]:
    gold = problem.gold
    if gold.isdigit():
        low = 10 ** (len(gold) - 1) if len(gold) > 1 else 0
        others = rng.sample([str(n) for n in range(low, 10 ** len(gold)) if str(n) != gold], 3)
    elif gold in ("yes", "no"):
        others = ["no" if gold == "yes" else "yes", "red", "star"]
    else:
        others = rng.sample([w for w in (COLORS if gold in COLORS else SHAPES) if w != gold], 3)
    options = [gold, *others]
    rng.shuffle(options)
    return options


def score_exactly(problems: list[Problem], folder: Path) -> None:
    """VLMEvalKit's score of greedy responses against ours of the same ones, row by row."""
    out = export_vlmevalkit(folder / "exact", EvaluateConfig(temperature=0.0), grader="exact_matching")
    run(out, folder, DATA)
    outputs = only(out / "outputs")
    rows, scores = read_responses(outputs), read_scores(outputs)
    for model in ("sail-rl", "sail-rl" + NEVER):
        mine = rows[rows["model"] == model]
        assert len(mine) == len(problems), f"{len(mine)} responses of {len(problems)}"
        asked = {
            int(Path(names[0]).stem): row for names, row in zip(mine["pictures"], mine.index, strict=True)
        }
        answers = [mine.loc[asked[k], "answer"] for k in range(len(problems))]
        right = [equivalent(p.gold, a) for p, a in zip(problems, answers, strict=True)]
        hits = graded(outputs / model, "exact_matching")
        for problem, answer, ours, theirs in zip(problems, answers, right, hits, strict=True):
            if ours != theirs:  # the one known difference: it looks for the option within the answer
                print(f"  differs: {problem.id}, gold {problem.gold}, answer {answer}")
                assert theirs and not ours and problem.gold in str(answer), "an unknown difference"
        figure, exact = scores[model, DATA], 100 * np.mean(right)
        assert abs(figure - 100 * np.mean(hits)) < 1e-6, "the figure in status.json is not that of the rows"
        same = sum(a == b for a, b in zip(right, hits, strict=True))
        print(f"{model}: {len(hits)} rows, VLMEvalKit {figure:.2f}%, exact {exact:.2f}%, same on {same}")
    whole = rows[rows["model"] == "sail-rl"]
    print(table5(rows, scores).round(2).to_string(index=False))
    from vlmeval.utils import can_infer

    choices = [
        dict(zip(LETTERS, options_of(p, random.Random(f"options/{p.id}")), strict=True)) for p in problems
    ]
    order = [int(Path(names[0]).stem) for names in whole["pictures"]]
    for name, text in (("whole", lambda t: t), ("split", lambda t: split_response(t)[0])):
        read = [
            bool(can_infer(text(t), dict(choices[k]))) for t, k in zip(whole["response"], order, strict=True)
        ]
        print(f"an option can be told from the {name} response in {np.mean(read):.0%}")


def rerun_asks_nothing(folder: Path) -> None:
    out = folder / "exact"
    before = sorted((file, file.stat().st_size) for file in out.rglob("responses-*.jsonl"))
    run(out, folder, DATA)
    assert before == sorted((file, file.stat().st_size) for file in out.rglob("responses-*.jsonl"))
    print("a second run asked nothing again")
    copy = folder / "checkpoint"
    shutil.copytree(json.loads((out / "settings.json").read_text())["checkpoint"], copy)
    (copy / "generation_config.json").write_text("{}")
    other = export_vlmevalkit(folder / "exact", EvaluateConfig(checkpoint=str(copy), temperature=0.0))
    sys.path.insert(0, str(other))
    import evaluate

    settings = json.loads((other / "settings.json").read_text())
    assert not (other / "outputs" / evaluate.fingerprint(settings)).exists()
    print("another checkpoint has another folder")


def score_by_grader(problems: list[Problem], folder: Path) -> None:
    """VLMEvalKit asks the stand-in, which knows what is equal, where no option's text is in the answer."""
    asked = []

    def script(number: int, request: dict) -> object:
        text = html.unescape(written(request))
        found = re.findall(r"Question: (.*?)\?*\nOptions: (.*)\nAnswer: (.*)\nYour output: ", text, re.DOTALL)
        if not found:
            return chat("hello")  # it first asks whether anybody is there
        asked.append(request["model"])
        options = dict(
            re.findall(r"([A-D])\. (\S+)", found[-1][1].rpartition("Options: ")[2] or found[-1][1])
        )
        return chat(next((letter for letter, o in options.items() if equivalent(o, found[-1][2])), "Z"))

    out = export_vlmevalkit(folder / "graded", EvaluateConfig(temperature=1.0, seed=3))
    with JudgeServer(script) as server:
        log = run(out, folder, "--freely", DATA, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)
    outputs = only(out / "outputs")
    rows = read_responses(outputs)
    by_row = {int(Path(n[0]).stem): a for n, a in zip(rows["pictures"], rows["answer"], strict=True)}
    right = [equivalent(p.gold, by_row[k]) for k, p in enumerate(problems)]
    hits = graded(outputs / "sail-rl", "gpt-4o-mini")
    same = np.mean([a == b for a, b in zip(right, hits, strict=True)])
    assert set(asked) == {"gpt-4o-mini-2024-07-18"}, f"it asked {set(asked)}"
    kept = log + "".join(file.read_text(errors="replace") for file in out.rglob("*.log"))
    assert KEY not in kept and "API Key: ***" in kept, "the key is in the log"
    print(f"by {asked[0]}, a stand-in: {len(asked)} of {len(hits)} rows sent to it, {same:.1%} as exact")
    print("the key is not in the log")
    missing = subprocess.run(command(out, DATA), env=environment(folder), capture_output=True, text=True)
    assert missing.returncode == 2 and "OPENAI_API_KEY" in missing.stderr, missing.stderr[-500:]
    print("without a key: refused")


def names_of_figures(folder: Path) -> None:
    """Every benchmark's figure is found by its name, in what VLMEvalKit's own code makes of a few rows."""
    from vlmeval.dataset import SUPPORTED_DATASETS
    from vlmeval.dataset.utils.logicvista import evaluate_logicvista
    from vlmeval.dataset.utils.mathv import MATH_V_acc
    from vlmeval.dataset.utils.mathverse import MathVerse_acc
    from vlmeval.dataset.utils.mathvista import MathVista_acc
    from vlmeval.dataset.utils.multiple_choice import report_acc
    from vlmeval.dataset.utils.yorn import Hallusion_rating, MME_rating
    from vlmeval.smp import d2df
    from vlmeval.smp.status_report import flatten_summary_metrics

    for benchmark in BENCHMARKS.values():
        assert benchmark.data in SUPPORTED_DATASETS, f"VLMEvalKit has no {benchmark.data}"

    def table(name: str, **columns: object) -> str:
        path = str(folder / f"{name}.xlsx")
        pd.DataFrame(columns).to_excel(path, index=False)
        return path

    skills = ["inductive", "deductive", "numerical", "spatial", "mechanical"]
    meta = "{'split': 'testmini', 'subject': 'Plane Geometry', 'subfield': 'Angle'}"
    mcq = pd.DataFrame({"hit": [1, 0, 1, 1], "split": ["dev", "dev", "validation", "validation"]})
    plain = pd.DataFrame({"hit": [1, 0]})
    dynamath = [d2df({"Setting": s, "Overall": v}) for s, v in (("Average", 0.5), ("Worst Case", 0.25))]
    wemath = {"Score (Strict)": {0: "35.80%"}, "Rote (Strict)": {0: "9.00% (3)"}, "one-step(S1)": {0: 0.5}}
    mathverse = table(
        "mv", metadata=[meta] * 4, problem_version=["Vision Only"] * 4, score=[True, False, False, False]
    )
    mathvision = table(
        "mt", category=["a", "b"], log=["", ""], res=["5", "6"], answer=["5", "7"], choices=["[]", "[]"]
    )
    mathvista = table(
        "ms", task=["t", "u"], skills=["['s']"] * 2, log=["", ""], res=[5, 6], answer=[5, 7],
        question_type=["free_form"] * 2, answer_type=["integer"] * 2,
    )  # fmt: skip
    mme = table(
        "me", category=["OCR", "OCR", "code_reasoning", "code_reasoning"], image_path=["a", "a", "b", "b"],
        score=[True, True, True, False],
    )  # fmt: skip
    hallusion = {"index": [f"VD_x_y_{k}_0_0" for k in range(2)], "l2-category": ["q", "q"]}
    made = {
        "DynaMath": (pd.concat(dynamath, ignore_index=True), 25),
        "LogicVista": (evaluate_logicvista(table("lv", skill=skills, hit=[1, 0, 1, 0, 1])), 60),
        "MathVerse": (MathVerse_acc(mathverse), 25),
        "MathVision": (MATH_V_acc(mathvision), 50),
        "MathVista": (MathVista_acc(mathvista), 50),
        "WeMath": (pd.DataFrame(wemath), 35.8),
        "MMMU": (report_acc(mcq.copy()), 100),
        "MMBench": (report_acc(mcq.copy()), 50),
        "AI2D": (report_acc(plain.copy()), 50),
        "MME": (MME_rating(mme), 250 / 28),
        "ChartQA": (d2df({"Overall": 90.0, "test_human": 80.0}), 90),
        "OCRBench": ({"Text Recognition": 9, "Final Score": 905, "Final Score Norm": 90.5}, 90.5),
        "HallusionBench": (Hallusion_rating(table("hb", **hallusion, score=[True, False])), 50),
    }
    assert made.keys() == BENCHMARKS.keys()
    run_folder = folder / "figures" / "sail-rl"
    run_folder.mkdir(parents=True)
    status = {BENCHMARKS[k].data: {"metrics": flatten_summary_metrics(v)} for k, (v, _) in made.items()}
    (run_folder / "status.json").write_text(json.dumps({"datasets": status}, default=float))
    scores = read_scores(folder / "figures")
    for name, (_, wanted) in made.items():
        found = scores.get(("sail-rl", BENCHMARKS[name].data))
        assert found is not None and abs(found - wanted) < 1e-6, (
            f"{name}: {found}, not {wanted}: {status[BENCHMARKS[name].data]}"
        )
    print(f"the figures of {len(made)} benchmarks are found by their names")


def own_comparison() -> None:
    """MathVision's comparison by rule, on pairs whose truth is known, without a grader to extract answers."""
    from vlmeval.dataset.utils.mathv import is_equal

    pairs = [pair for pair in make_pairs(240) if pair.kind != "attack"]
    said = [bool(is_equal(pair.prediction, pair.gold)) for pair in pairs]
    for kind in ("other spelling", "wrong", "none"):
        wrong = [s != p.right for s, p in zip(said, pairs, strict=True) if p.kind == kind]
        print(f"MathVision's rule alone, {kind}: {sum(wrong)} errors of {len(wrong)}")


def graded(folder: Path, grader: str) -> list[bool]:
    """The hits of the rows, in the order of their index."""
    file = next(folder.glob(f"*{DATA}_{grader}_result.xlsx"))
    return [bool(hit) for hit in pd.read_excel(file).sort_values("index")["hit"]]


def run(out: Path, folder: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        command(out, *arguments), env=environment(folder) | more, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{out} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def command(out: Path, *arguments: str) -> list[str]:
    return ["sh", str(out / "run.sh"), *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Nothing can be fetched, `python` is this one, and torchvision loads beside the CPU's torch."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    here = Path(__file__).resolve().parent
    kept["PYTHONPATH"] = os.pathsep.join([str(here / "vlmevalkit_cpu"), str(here.parent.parent)])
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return kept | {"LMUData": str(folder / "LMUData"), "HF_HUB_OFFLINE": "1", "PATH": path}


def only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
