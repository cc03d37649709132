"""Our rewards as verl takes them: name this file and `compute_score` in verl's configuration.

    reward.custom_reward_function.path=.../sailrl_lite/rewards/verl.py
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.reward=cascade
    +reward.custom_reward_function.reward_kwargs.judge="llm:gemini-2.5-pro,rpm=600"

Each row's `extra_info` holds `needs_thinking`, and for a judge that looks further `question` and `image` (a
path, bytes, or the {bytes, path} of the `datasets` library), or, for the exact one, `problem`: what
`make_problem` takes ({family, seed, split, shortcut}); `prefill` is what the prompt puts into the model's
mouth. It needs no verl. Keep `reward.num_workers=1`: each worker of verl is a process with a judge, and so
with limits and a budget, of its own.
"""

import functools
import io
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from sailrl_lite.answers import check_golds
from sailrl_lite.errors import SailRLError
from sailrl_lite.files import write_text
from sailrl_lite.judges.protocol import Case, Judge, NoVerdict, Verdict
from sailrl_lite.judges.specs import get_judge
from sailrl_lite.pictures import FORMATS
from sailrl_lite.response import parse_response
from sailrl_lite.rewards import get_reward, measure
from sailrl_lite.rewards.combinations import with_alpha
from sailrl_lite.rewards.components import read_label
from sailrl_lite.rewards.trl import is_shown
from sailrl_lite.world.problems import Problem, make_problem

MAX_UNSCORED = 0.5  # share of the last responses that were judged and have no verdict, at which a run stops
_WINDOW = 256
_kept_judge = functools.lru_cache(get_judge)
_first = threading.Lock()
_unscored: deque[bool] = deque(maxlen=_WINDOW)


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: str = "cascade",
    alpha: float | None = None,
    judge: str | Judge = "exact",
    **_: Any,
) -> dict[str, float]:
    """The reward of one response, with all its components, each a number under the same keys.

    verl has no word for "no verdict": its baseline takes every score. Such a response scores 0 here and says
    `unscored` 1; a component without a value is NaN. `content` is the total without the format term.

    Args:
        reward, alpha, judge: as in `for_trl`; the judge by its text (`sailrl_lite.judges.specs`).

    Raises:
        SailRLError: `needs_thinking` is missing, the gold answer cannot be used, the judge cannot work or has
            spent its budget, or more than half of the last 256 that were judged have no verdict.
    """
    # In a Parquet file every row has the fields of all; None is one that it has not.
    if not isinstance(extra_info or {}, Mapping):
        raise SailRLError(f"extra_info of a row of {data_source!r} must be a mapping, not {extra_info!r:.60}")
    info = {name: value for name, value in (extra_info or {}).items() if value is not None}
    texts = {"the response": solution_str}
    texts |= {f"extra_info.{name}": info.get(name, "") for name in ("prefill", "question")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise SailRLError(f"{name} of a row of {data_source!r} must be a text, not {text!r:.60}")
    if "needs_thinking" not in info:
        raise SailRLError(
            f"a row of {data_source!r} has no extra_info.needs_thinking; add the complexity label to the data"
        )
    needs_thinking = read_label(info["needs_thinking"])
    check_golds([ground_truth])
    total = get_reward(reward, alpha)
    asked = _judge_of(judge) if isinstance(judge, str) else judge
    response = parse_response(solution_str, info.get("prefill", ""))
    verdict: Verdict | NoVerdict | None = None
    if is_shown(response, total, asked):
        picture = _picture(info.get("image"))
        truth = _problem(info.get("problem"))
        case = Case(info.get("question", ""), response.think or "", response.answer, picture, truth)
        (verdict,) = await asked.judge([case], total.continuous)
    if isinstance(verdict, NoVerdict) and asked.stopped:
        raise SailRLError(f"{asked.stopped}; give the judge a larger one and go on from the last checkpoint")
    scores = verdict.scores if isinstance(verdict, Verdict) else None
    components = measure(response, ground_truth, needs_thinking, scores)
    score = total(components)
    _watch(score is None, verdict)
    names = ("format", "answer", "judging", "thinking", "logic", "grounding", "consistency")
    parts = {name: getattr(components, name) for name in names}
    parts["content"] = with_alpha(total, 1.0)(components)
    return {
        "score": 0.0 if score is None else float(score),
        **{name: float("nan") if part is None else float(part) for name, part in parts.items()},
        "trigger_rate": float(components.trace == "written"),
        "unscored": float(score is None),
    }


def for_folder(folder: Path) -> Callable[..., Awaitable[dict[str, float]]]:
    """`compute_score` for a run whose files are in `folder`, as `sailrl-lite export verl` writes it.

    verl replaces the prompt of a reward that raises and goes on, for ever if all do. So what should end the
    run is also written to stopped.txt, where launch.sh looks. rewards.csv gets the means over every 256
    responses to training problems, which verl does not log, and judge.json what a paid judge has used.
    """
    rows: list[dict[str, float]] = []
    judges: dict[str, Judge] = {}

    def judge_of(text: str) -> Judge:
        if text not in judges:
            judges[text] = _judge_of(text)
            judges[text].keep(folder)
        return judges[text]

    async def scored(
        data_source: str,
        solution_str: str,
        ground_truth: str,
        extra_info: Mapping[str, Any] | None = None,
        *,
        judge: str = "exact",
        **settings: Any,
    ) -> dict[str, float]:
        try:
            row = await compute_score(
                data_source, solution_str, ground_truth, extra_info, judge=judge_of(judge), **settings
            )
        except Exception as error:
            write_text(folder / "stopped.txt", f"{type(error).__name__}: {error}\n")
            raise
        if (extra_info or {}).get("split") != "test":
            rows.append(row)
        if len(rows) == _WINDOW:
            _write_means(folder / "rewards.csv", rows)
            rows.clear()
        return row

    return scored


def _write_means(file: Path, rows: list[dict[str, float]]) -> None:
    """Append one line: the mean of each column over the rows that have it."""
    means = {}
    for name in rows[0]:
        known = [row[name] for row in rows if not math.isnan(row[name])]
        means[name] = f"{sum(known) / len(known):.6g}" if known else ""
    head = "" if file.is_file() else ",".join(means) + "\n"
    with file.open("a", encoding="utf-8") as lines:
        lines.write(head + ",".join(means.values()) + "\n")


def _judge_of(text: str) -> Judge:
    """One for all threads that ask for the same: it has the budget."""
    with _first:
        return _kept_judge(text)


def _watch(unscored: bool, verdict: Verdict | NoVerdict | None) -> None:
    if verdict is None:
        return  # nobody had to be asked
    _unscored.append(unscored)
    if len(_unscored) == _WINDOW and sum(_unscored) > MAX_UNSCORED * _WINDOW:
        last = f" (the last: {verdict.cause}, {verdict.detail})" if isinstance(verdict, NoVerdict) else ""
        raise SailRLError(
            f"{sum(_unscored)} of the last {_WINDOW} judged responses have no verdict{last}; mend the "
            "judge and go on from the last checkpoint"
        )


def _problem(value: Any) -> Problem | None:
    if value is None or isinstance(value, Problem):
        return value
    try:
        return make_problem(**value)
    except TypeError:
        raise SailRLError(
            f"extra_info.problem must have family, seed, split and shortcut, not be {value!r:.100}"
        ) from None


def _picture(value: Any) -> Image.Image | None:
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path") or None
    if value is None or isinstance(value, Image.Image):
        return value
    try:
        return Image.open(io.BytesIO(value) if isinstance(value, bytes) else value, formats=FORMATS)
    except (OSError, ValueError, AttributeError, Image.DecompressionBombError) as error:
        why = str(error).partition(" <")[0]  # without the address of an object in memory
        raise SailRLError(f"the picture of a row cannot be read ({why}); mend the data") from error
