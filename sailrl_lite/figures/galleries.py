"""Real rollouts in the place of the paper's Figures 1, 6 and 7, picked by a rule that the figure states."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Missing, Results, of_kind
from sailrl_lite.figures.style import ARMS, BLUE, RED, WIDTH, use_style
from sailrl_lite.response import parse_response
from sailrl_lite.rewards.components import answer_reward
from sailrl_lite.world.problems import Problem, make_problem
from sailrl_lite.world.verifier import DIMENSIONS, verify

ROWS = 3  # problems of a gallery, of different families
_CARD = 42  # characters of a line in a card
_INK = "0.15"


@dataclass(frozen=True)
class Gallery:
    """Two arms' responses to the same problems, and the rule by which the problems are picked."""

    title: str
    rule: str
    arms: tuple[str, str]
    picks: Callable[[pd.DataFrame, pd.DataFrame], pd.Series]


def _sound(rows: pd.DataFrame) -> pd.Series:
    return (rows["trigger_rate"] == 1) & (rows[list(DIMENSIONS)] == 1).all(axis=1)


def _unsound(rows: pd.DataFrame) -> pd.Series:
    return (rows["trigger_rate"] == 1) & ~(rows[list(DIMENSIONS)] == 1).all(axis=1)


def _overthinking(always: pd.DataFrame, full: pd.DataFrame) -> pd.Series:
    return (
        (always["trigger_rate"] == 1) & (always["accuracy"] == 0)
        & (full["trigger_rate"] == 0) & (full["accuracy"] == 1)
    )  # fmt: skip


def _lucky(only: pd.DataFrame, full: pd.DataFrame) -> pd.Series:
    return _unsound(only) & (only["accuracy"] == 1) & only["family"].isin(of_kind("reasoning"))


def _mended(before: pd.DataFrame, after: pd.DataFrame) -> pd.Series:
    return _unsound(before) & _sound(after) & (after["accuracy"] == 1)


GALLERIES: dict[str, Gallery] = {
    "figure1-overthinking": Gallery(
        "In the place of Figure 1, top: overthinking",
        "always think is wrong, and the full system is right without thinking",
        ("always-think", "cascade"), _overthinking,
    ),
    "figure1-lucky": Gallery(
        "In the place of Figure 1, bottom: lucky success",
        "reasoning is asked for and answer only is right after an unsound trace; beside it the full system",
        ("answer-only", "cascade"), _lucky,
    ),
    "figure6-mended": Gallery(
        "In the place of Figures 6 and 7: traces before and after RL",
        "the trace is unsound before RL, and sound, with a right answer, after RL by the full system",
        ("sft", "cascade"), _mended,
    ),
}  # fmt: skip


def gallery(results: Results, name: str) -> Figure:
    """One of `GALLERIES`, from the responses of the runs with seed 0."""
    spec = GALLERIES[name]
    left, right = (_responses(results, arm) for arm in spec.arms)
    both = left.index[left.index.isin(right.index)]
    left, right = left.loc[both], right.loc[both]
    picked = left[spec.picks(left, right)].groupby("family", sort=False).head(1).index[:ROWS]
    if picked.empty:
        raise Missing(f"no problem on which {spec.rule}")
    problems = [_problem(identity) for identity in picked]
    cards = [
        [_card(problem, rows.loc[identity, "response"]) for rows in (left, right)]
        for identity, problem in zip(picked, problems, strict=True)
    ]
    questions = [textwrap.wrap(problem.question.replace("\n", " "), 24) for problem in problems]
    heights = [max(7 + len(lines), *map(len, row)) for lines, row in zip(questions, cards, strict=True)]
    use_style()
    figure, axes = plt.subplots(
        len(picked), 3, figsize=(WIDTH, 0.9 + 0.155 * sum(heights) + 0.25 * len(picked)), squeeze=False,
        width_ratios=(1, 1.75, 1.75), height_ratios=heights,
    )  # fmt: skip
    for row, problem, question, texts, height in zip(axes, problems, questions, cards, heights, strict=True):
        row[0].imshow(problem.image)
        row[0].set_anchor("N")
        row[0].set_xlabel("\n".join([*question, "", f"right answer: {problem.gold}"]), loc="left")
        for axis, arm, lines in zip(row[1:], spec.arms, texts, strict=True):
            _write(axis, lines, height)
            axis.set_title(ARMS[arm].label, loc="left")
        for axis in row:
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
    first = (
        f"The first problem, in the order of the test, of each of the first {len(picked)} families on which"
    )
    figure.suptitle(spec.title)
    figure.supxlabel(textwrap.fill(f"{first} {spec.rule}.", 115), fontsize=8)
    return figure


def _responses(results: Results, arm: str) -> pd.DataFrame:
    """The responses of the run with seed 0 to the plain test, by problem."""
    file = results.folder / "responses" / f"{arm}-0.csv.gz"
    if not file.is_file():
        raise Missing(f"there are no responses of {arm} with seed 0")
    rows = pd.read_csv(file)
    return rows[rows["tests"] == "plain"].set_index("id")


def _problem(identity: str) -> Problem:
    family, split, seed = identity.rsplit("-", 2)
    return make_problem(family, int(seed), split)


def _card(problem: Problem, text: str) -> list[tuple[str, str]]:
    """A response as lines with their colours; what the verifier faults is marked, with its reason."""
    response = parse_response(text)
    lines = [(f"judge: {response.decision or 'unclear'}", _INK)]
    if response.think:
        *trace, last = verify(problem, response.think, response.answer).findings
        for finding in trace:
            lines += _line(str(finding.statement), finding.failed, finding.reason)
        lines += _line(f"answer: {response.answer}", last.failed, last.reason)
    else:
        lines += [("(no trace)", "0.45"), (f"answer: {response.answer}", _INK)]
    right = answer_reward(response, problem.gold)
    return [*lines, ("right", BLUE) if right else ("wrong", RED)]


def _write(axis: Axes, lines: list[tuple[str, str]], height: int) -> None:
    for k, (line, color) in enumerate(lines):
        top = 1 - (k + 0.3) / (height + 0.5)
        axis.text(0.02, top, line, va="top", color=color, family="monospace", fontsize=8,
                  transform=axis.transAxes, parse_math=False)  # fmt: skip


def _line(said: str, failed: tuple[str, ...], reason: str) -> list[tuple[str, str]]:
    if not failed:
        return [(said[:_CARD], _INK)]
    why = textwrap.wrap(f"{', '.join(failed)}: {reason}", _CARD - 4)
    return [(f"✗ {said}"[:_CARD], RED), *((f"    {part}", RED) for part in why)]


DRAWINGS = {name: partial(gallery, name=name) for name in GALLERIES}
