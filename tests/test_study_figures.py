"""The figures of the study, on small made-up logs: drawn, the same bytes twice, nothing invented."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from sailrl_lite.figures import claims, questions, tables
from sailrl_lite.figures.curves import figure4
from sailrl_lite.figures.every import FIGURES, draw_all
from sailrl_lite.figures.galleries import GALLERIES
from sailrl_lite.figures.results import Missing, read_results
from sailrl_lite.figures.reward import surface
from sailrl_lite.figures.shares import OUTCOMES
from sailrl_lite.figures.style import ARMS, KINDS, PAPER, STYLE_FILE, VERDICTS, save_both
from sailrl_lite.rewards import REWARDS, Components
from sailrl_lite.rewards.combinations import ALPHA
from sailrl_lite.study.arms import load_study
from sailrl_lite.study.logs import Log, write_log
from sailrl_lite.study.regimes import REGIMES_FILE
from sailrl_lite.study.registered import load_claims
from sailrl_lite.world.problems import FAMILIES, make_problem

METRICS = (
    "answer", "thinking", "kl", "content/nonzero", "true_logic", "true_grounding", "true_consistency",
    "true_thinking", "true_cascade",
)  # fmt: skip


def write_logs(folder, arms=None, seeds=2, steps=6, study=None):
    """Logs of random numbers for arms of the study, in the shape in which the study writes them."""
    study = study or load_study()
    for arm in (study.arms[name] for name in arms or study.arms):
        for seed in range(seeds):
            rng = np.random.default_rng([*arm.name.encode(), seed])
            rows = steps if arm.rl else 0
            metrics = pd.DataFrame({name: rng.uniform(0.4, 0.6, rows) for name in METRICS})
            shares = pd.DataFrame(rng.dirichlet(np.ones(len(OUTCOMES)), rows), columns=list(OUTCOMES))
            metrics = pd.concat([pd.DataFrame({"step": range(1, rows + 1)}), metrics, shares], axis=1)
            tests = {*arm.tests, *(("dressed",) if arm.name in ("sft", "answer-only", "cascade") else ())}
            evaluation = pd.DataFrame(
                [_row(rng, test, f) for test in sorted(tests) for f in FAMILIES.values()]
            )
            head = {"arm": arm.name, "seed": seed}
            write_log(Log(head, metrics, evaluation), folder / f"{arm.name}-{seed}.json")
        _write_responses(folder / "responses" / f"{arm.name}-0.csv.gz", arm.name)


def _row(rng, tests, family):
    n, traces = 20, int(rng.integers(1, 20))
    measures = ("accuracy", "trigger_rate", "judging", "thinking", "cascade", "logic", "grounding",
                "consistency", "sound", "lucky")  # fmt: skip
    return {
        "tests": tests, "kind": family.kind, "family": family.name,
        "needs_thinking": family.kind == "reasoning", "n": n, "traces": traces,
        **{name: rng.uniform(0.4, 0.6) for name in measures}, "tokens": rng.uniform(20, 60),
    }  # fmt: skip


def _write_responses(file, arm):
    """Three problems: only `always-think` overthinks, `sft` and `answer-only` reason badly on sums."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for family in ("read_number", "color_of", "add"):
        problem = make_problem(family, 3, "test")
        thinks, right, sound = family == "add", True, True
        trace = f"\nanswer={problem.gold}\n"
        if arm == "always-think" and family != "add":
            thinks, right = True, False
        if arm in ("sft", "answer-only") and family == "add":
            trace, sound = "\n40+30=80\n", False
        answer = problem.gold if right else "none"
        judgment = "think" if thinks else "direct"
        text = f"<judge>{judgment}</judge><think>{trace if thinks else chr(10)}</think>"
        rows.append({
            "tests": "plain", "id": problem.id, "family": family,
            "response": f"{text}<answer>\\boxed{{{answer}}}</answer>", "accuracy": int(right),
            "trigger_rate": int(thinks), "judging": 1, "logic": int(sound) if thinks else np.nan,
            "grounding": 1 if thinks else np.nan, "consistency": 1 if thinks else np.nan, "cascade": 1,
        })  # fmt: skip
    pd.DataFrame(rows).to_csv(file, index=False)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs") / "study"
    write_logs(folder)
    write_logs(folder.with_name("regimes"), study=load_study(REGIMES_FILE))
    return folder


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.slow
def test_every_figure_is_drawn_and_the_same_logs_give_the_same_bytes(logs, tmp_path):
    for folder in ("one", "two"):
        assert draw_all(read_results(logs), tmp_path / folder) == {}
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg"))
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
        if file.endswith("png"):
            assert (tmp_path / "one" / file).stat().st_size < 100_000, file
            assert set(Image.open(tmp_path / "one" / file).info) <= {"dpi", "transparency"}, file
        else:
            assert "<dc:date>" not in (tmp_path / "one" / file).read_text(), file


def test_a_figure_whose_logs_are_missing_is_left_out_and_said(tmp_path):
    write_logs(tmp_path / "some", ["base", "sft"], seeds=1)
    names = ["table1", "figure4", "figure1-lucky", "open-alpha", "claims-accuracy", "reward-surfaces"]
    left_out = draw_all(read_results(tmp_path / "some"), tmp_path / "out", names)
    assert list(left_out) == names[:-1]
    assert left_out["table1"] == "there is no run of cascade"
    assert "responses of answer-only" in left_out["figure1-lucky"]
    assert left_out["claims-accuracy"] == "no claim has an interval yet"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "reward-surfaces.png",
        "reward-surfaces.svg",
    ]


def test_one_seed_is_drawn_without_an_interval(tmp_path):
    write_logs(tmp_path, ["base", "sft", "cascade"], seeds=1)
    figure = FIGURES["table1"](read_results(tmp_path))
    save_both(figure, tmp_path / "table1")


def test_a_measure_or_test_set_that_is_not_logged_is_said(logs):
    results = read_results(logs)
    with pytest.raises(Missing, match="the runs of cascade have no vanity"):
        results.scores("cascade", "vanity")
    with pytest.raises(Missing, match="the runs of cascade have no vanity"):
        results.curve("cascade", "vanity")
    with pytest.raises(Missing, match="no marked test"):
        results.scores("cascade", "accuracy", tests="marked")


# ---- nothing is invented


def test_dots_are_the_means_of_the_logs(logs):
    results = read_results(logs)
    axis = FIGURES["table1"](results).axes[1]
    rows = results.evaluations
    for container, arm in zip(axis.containers, ("base", "sft", "cascade"), strict=True):
        drawn = container.lines[0].get_xdata()
        mine = rows[(rows["arm"] == arm) & (rows["kind"] == "reasoning") & (rows["tests"] == "plain")]
        families = [name for name, family in FAMILIES.items() if family.kind == "reasoning"]
        means = mine.groupby("family")["accuracy"].mean().loc[families] * 100
        np.testing.assert_allclose(drawn[:-1], means)
        np.testing.assert_allclose(drawn[-1], 100 * mine["accuracy"].mean())


def test_reported_dots_are_the_paper_s(logs):
    axis = FIGURES["table6"](read_results(logs)).axes[0]
    labels = [tick.get_text() for tick in axis.get_yticklabels()]
    drawn = {
        (container.get_label(), label): x
        for container in axis.containers
        for label, x in zip(labels, container.lines[0].get_xdata(), strict=True)
    }
    assert drawn[PAPER["additive"].label, "MathVision"] == 46.1
    assert drawn[PAPER["cascade"].label, "MMMU"] == 66.1


def test_means_of_traces_are_weighted_by_traces_and_skip_families_without(tmp_path):
    evaluation = pd.DataFrame({
        "tests": "plain", "kind": "reasoning", "family": ["add", "angle", "story"], "needs_thinking": True,
        "n": 10, "traces": [1, 3, 0], "accuracy": [0.1, 0.2, 0.6], "logic": [1.0, 0.0, None],
    })  # fmt: skip
    write_log(Log({"arm": "sft", "seed": 0}, pd.DataFrame(), evaluation), tmp_path / "sft-0.json")
    results = read_results(tmp_path)
    assert results.scores("sft", "logic").tolist() == [0.25]
    assert results.scores("sft", "accuracy").tolist() == pytest.approx([0.3])
    assert results.scores("sft", "logic", families=["story"]).empty


def test_curves_are_means_over_seeds_of_five_steps(logs):
    results = read_results(logs)
    axis = figure4(results).axes[4]
    line = next(line for line in axis.lines if line.get_label() == ARMS["cascade"].label)
    rows = results.curves[results.curves["arm"] == "cascade"]
    by_step = rows.groupby("step")["answer"].mean()
    assert line.get_ydata()[3] == pytest.approx(by_step.loc[2:6].mean())
    assert list(line.get_xdata()) == [1, 2, 3, 4, 5, 6]


def test_figure4_begins_and_ends_where_the_paper_was_read(logs):
    axis = figure4(read_results(logs)).axes[3]
    ends = {line.get_label(): line.get_ydata() for line in axis.lines if not line.get_label().startswith("_")}
    assert ends[PAPER["answer-only"].label] == pytest.approx([0.875, 0.8])
    assert ends[PAPER["sail-rl"].label] == pytest.approx([0.95, 0.95])


def test_surfaces_are_what_the_rewards_pay():
    right = Components(1, 1, 1, 0.5, 0.5, 0.5, "think", "written")
    wrong = Components(1, 0, 1, 0.5, 0.5, 0.5, "think", "written")
    for name in ("cascade", "additive"):
        pay = REWARDS[name]
        assert surface(name, 1)[40, 20] == pytest.approx(pay(right))
        assert surface(name, 1)[10, 20] == pytest.approx(0.25 * pay(right) + 0.75 * pay(wrong))
    assert surface("cascade", 0).max() == surface("cascade", 0).min() == pytest.approx(0.1)


def test_galleries_hold_the_first_problem_of_a_family_that_keeps_the_rule(logs):
    results = read_results(logs)
    shown = {
        name: {text.get_text() for axis in FIGURES[name](results).axes for text in axis.texts}
        for name in GALLERIES
    }
    assert {"judge: think", "judge: direct", "wrong", "right"} <= shown["figure1-overthinking"]
    assert len(FIGURES["figure1-overthinking"](results).axes) == 6
    for name in ("figure1-lucky", "figure6-mended"):
        assert any(text.startswith("✗ 40+30=80") for text in shown[name])
        assert any("40+30 is 70" in text for text in shown[name])


# ---- told apart by every reader


def test_knobs_say_what_the_arms_are():
    """The settings on the axes, and the families held out, are those of arms.toml."""
    arms = {name: arm.rl for name, arm in load_study().arms.items()}

    def said(knob):
        return {arm: float(text) for arm, text in questions.KNOBS[knob].settings.items()}

    alpha = {arm: ALPHA if arms[arm].alpha is None else arms[arm].alpha for arm in said("open-alpha")}
    assert said("open-alpha") == alpha
    assert said("open-rollouts") == {arm: arms[arm].rollouts for arm in said("open-rollouts")}
    assert said("open-labels") == {arm: arms[arm].label_noise for arm in said("open-labels")}
    assert len({arms[arm].rollouts * arms[arm].prompts for arm in said("open-rollouts")}) == 1
    for arm in ("kl-0", "kl-0.01", "kl-0.05", "kl-0.1"):
        assert arms[arm].kl == float(arm.removeprefix("kl-"))
        assert set(FAMILIES) - set(arms[arm].families) == set(questions.HELD_OUT)


def test_looks_are_those_of_arms():
    assert set(ARMS) <= set(load_study().arms)


def test_every_registered_claim_has_a_place():
    units = (claims.ACCURACY, claims.THINKING)
    places = {name for unit in units for names in unit.values() for name in names}
    assert {claim.measure for claim in load_claims()[0] if not claim.untestable} <= places


def test_reported_systems_have_a_name():
    drawn = {name for name in FIGURES if re.fullmatch(r"table\d+", name)}
    assert drawn == {f"table{k}" for k in range(1, 11)}
    for name in ("table3", "table4", "table5", "table6", "table7", "table9"):
        assert set(tables.reported(name)) <= set(PAPER), name


def _looks_together():
    study = load_study()
    groups = [
        [ARMS[arm] for arm in arms if arm in ARMS] for name, arms in study.groups.items() if name != "table10"
    ]
    return [*groups, list(KINDS.values()), list(VERDICTS.values())]


def test_looks_that_are_seen_together_differ_without_colour():
    for group in _looks_together():
        for one, other in itertools.combinations(group, 2):
            assert one.marker != other.marker, (one, other)
            assert one.label != other.label, (one, other)


@pytest.mark.parametrize("vision", ["normal", "protan", "deutan", "grey"])
def test_colours_that_are_seen_together_differ_for_every_eye(vision):
    """Distances in CIE Lab after a simulation (Viénot 1999); in grey only markers differ."""
    for group in _looks_together():
        colors = {look.label: _lab(_seen(to_rgb(look.color), vision)) for look in group}
        for lab in colors.values():
            assert lab[0] < 75, "too pale on white"
        if vision != "grey":
            for one, other in itertools.combinations(colors, 2):
                distance = np.linalg.norm(colors[one] - colors[other])
                assert distance > 10, (one, other, distance)


def _seen(rgb, vision):
    linear = np.where(
        np.array(rgb) <= 0.04045, np.array(rgb) / 12.92, ((np.array(rgb) + 0.055) / 1.055) ** 2.4
    )
    if vision == "grey":
        return np.full(3, linear @ [0.2126, 0.7152, 0.0722])
    protan = [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]
    deutan = [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]
    return {"normal": np.eye(3), "protan": np.array(protan), "deutan": np.array(deutan)}[vision] @ linear


def _lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    x, y, z = np.cbrt(np.clip(xyz / [0.9505, 1, 1.089], 1e-9, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_print_is_large_enough():
    with plt.style.context(["default", STYLE_FILE]):
        sizes = {
            key: plt.rcParams[key] for key in plt.rcParams if key.endswith("size") and "font" in key + "x"
        }
        for key in ("font.size", "xtick.labelsize", "ytick.labelsize", "legend.fontsize", "axes.labelsize"):
            assert plt.rcParams[key] >= 8, (key, sizes)
