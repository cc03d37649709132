"""Our rewards as TRL's GRPOTrainer takes them: one asynchronous function that judges, combines and logs.

It is ONE function, since TRL adds up the rewards of several and a cascade is a product.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sailrl_lite.answers import check_golds
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.exact import ExactJudge
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Verdict
from sailrl_lite.response import Response, parse_response
from sailrl_lite.rewards.combinations import REWARDS, Reward, get_reward, with_alpha
from sailrl_lite.rewards.components import Components, measure, read_label

TrlReward = Callable[..., Awaitable[list[float | None]]]
# What a response can be: malformed, or by mode, answer and, for a written trace, whether it is sound, all
# three sub-rewards being 1. A right answer after an unsound trace is a lucky success. Unjudged is a trace of
# which neither the truth nor a verdict is there.
OUTCOMES = (
    "think_right_sound", "think_right_unsound", "think_wrong_sound", "think_wrong_unsound", "think_unjudged",
    "direct_right", "direct_wrong", "malformed",
)  # fmt: skip
_TRUE = REWARDS["cascade"]  # what `true_cascade` is, and binary


def for_trl(reward: str | Reward, judge: Judge, alpha: float | None = None) -> TrlReward:
    """The reward function for TRL's `reward_funcs`: `for_trl("cascade", judge)`.

    The dataset needs the columns `gold` (the right answer) and `needs_thinking` (the complexity label), and
    for a judge that looks at pictures `image` or `images`. Optional: `question` (else the last user message
    of the prompt), `problem`, the micro-world's truth, and `truly_needs_thinking` where the label is noisy.
    Give GRPOConfig `remove_unused_columns=False`.

    It returns the total of each completion in [0, 1]; None, which TRL leaves out of the baseline, where a
    written trace has no verdict and the total needs one. Logged as columns (`log_extra`) and as metrics
    (`log_metric`, their means): the rewards, `content` (the total without the format term), `unscored` (1 for
    None), `content/nonzero` (1 where the content is above 0), `trigger_rate` (1 where the think block is not
    blank), the same on the problems that need no thinking (`trigger_direct`) and that do (`trigger_think`),
    and `share/...` for each of `OUTCOMES` (1 for one of them). The column `no_verdict` has the causes.

    Where there is `problem`, also `true_logic`, `true_grounding`, `true_consistency`, `true_thinking` and
    `true_cascade` (the paper's reward, of alpha 0.9): what the exact verifier says of every response, by the
    true label. No reward depends on it, so a judge that is pleased while truth falls can be seen.

    Args:
        reward: a name of `REWARDS`, or a reward of your own.
        judge: scores the written traces. One that is paid is sent only those whose total needs it.
        alpha: the weight of the content, where not the reward's own.

    Raises:
        SailRLError: from the call: a column is missing, a gold answer or a label cannot be used, or the judge
            cannot work at all.
    """
    if isinstance(judge, str):
        raise SailRLError(f"for_trl takes a judge and not its text: get_judge({judge!r})")
    total = get_reward(reward, alpha) if isinstance(reward, str) else with_alpha(reward, alpha)
    content = with_alpha(total, 1.0)

    async def function(
        completions: Sequence[Any],
        prompts: Sequence[Any] = (),
        trainer_state: Any = None,
        log_extra: Any = None,
        log_metric: Any = None,
        **columns: Any,
    ) -> list[float | None]:
        golds = _column(columns, "gold")
        labels = [read_label(value) for value in _column(columns, "needs_thinking")]
        true_labels = [read_label(value) for value in columns.get("truly_needs_thinking", labels)]
        check_golds(golds)
        prompts = prompts or [""] * len(completions)
        responses = [
            parse_response(_text(completion), _prefill(prompt))
            for completion, prompt in zip(completions, prompts, strict=True)
        ]
        verdicts = await _judge(judge, total, responses, prompts, columns)
        graded = _graded(responses, golds, labels, verdicts)
        progress = trainer_state.global_step / trainer_state.max_steps if trainer_state else 1.0
        rewards = [total(c, progress) for c in graded]
        logged = _logged(graded, true_labels)
        logged["content"] = [content(c, progress) for c in graded]
        logged["content/nonzero"] = [None if x is None else int(x > 0) for x in logged["content"]]
        logged["unscored"] = [int(value is None) for value in rewards]
        truth = graded
        if "problem" in columns:
            told = isinstance(judge, ExactJudge) and not total.continuous
            scores = verdicts if told else await _judge(ExactJudge(), _TRUE, responses, prompts, columns)
            if not told or labels != true_labels:
                truth = _graded(responses, golds, true_labels, scores)
            logged |= _true(truth)
        outcomes = [_outcome(c) for c in truth]
        logged |= {f"share/{name}": [int(name == x) for x in outcomes] for name in OUTCOMES}
        if log_extra:
            for name, values in logged.items():
                log_extra(name, values)
            log_extra("no_verdict", [v.cause if isinstance(v, NoVerdict) else "" for v in verdicts])
        if log_metric:
            for name, values in logged.items():
                if known := [value for value in values if value is not None]:
                    log_metric(name, sum(known) / len(known))
        return rewards

    function.__name__ = total.name
    return function


def is_shown(response: Response, reward: Reward, judge: Judge) -> bool:
    """Whether a response goes to the judge: a written trace; if it is paid, one whose total depends on it."""
    return bool(response.think) and (not judge.paid or (reward.needs_scores and response.well_formed))


async def _judge(
    judge: Judge,
    reward: Reward,
    responses: Sequence[Response],
    prompts: Sequence[Any],
    columns: dict[str, Any],
) -> list[Verdict | NoVerdict | None]:
    """What the judge says of the written traces; None for a response that it was not shown."""
    shown = [row for row, response in enumerate(responses) if is_shown(response, reward, judge)]
    verdicts: list[Verdict | NoVerdict | None] = [None] * len(responses)
    if shown:
        cases = [_case(responses[row], prompts[row], columns, row) for row in shown]
        for row, verdict in zip(shown, await judge.judge(cases, reward.continuous), strict=True):
            verdicts[row] = verdict
    return verdicts


def _case(response: Response, prompt: Any, columns: dict[str, Any], row: int) -> Case:
    pictures = columns.get("image") or columns.get("images")
    picture = pictures[row] if pictures else None
    if isinstance(picture, list | tuple):
        picture = picture[0] if picture else None
    question = columns["question"][row] if "question" in columns else _question(prompt)
    problem = columns["problem"][row] if "problem" in columns else None
    return Case(question or "", response.think or "", response.answer, picture, problem)


def _column(columns: dict[str, Any], name: str) -> Sequence[Any]:
    if name not in columns:
        raise SailRLError(
            f"the dataset has no column {name!r}, which the reward needs; add it, and give GRPOConfig "
            "remove_unused_columns=False"
        )
    return columns[name]


def _text(message: Any) -> str:
    """The text of a completion or of the last message of a conversation."""
    if isinstance(message, str):
        return message
    content = message[-1]["content"] or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] or "" for part in content if part.get("type") == "text")


def _prefill(prompt: Any) -> str:
    """What the prompt puts into the model's mouth: the last message, where the assistant's."""
    ends_open = not isinstance(prompt, str) and prompt and prompt[-1]["role"] == "assistant"
    return _text(prompt) if ends_open else ""


def _question(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return next((_text([m]) for m in reversed(prompt) if m["role"] == "user"), "")


def _graded(
    responses: Sequence[Response],
    golds: Sequence[str],
    labels: Sequence[bool],
    verdicts: Sequence[Verdict | NoVerdict | None],
) -> list[Components]:
    return [
        measure(response, gold, needs, verdict.scores if isinstance(verdict, Verdict) else None)
        for response, gold, needs, verdict in zip(responses, golds, labels, verdicts, strict=True)
    ]


def _outcome(c: Components) -> str:
    """The one of `OUTCOMES` that a response is."""
    if not c.format:
        return "malformed"
    answer = "right" if c.answer else "wrong"
    if c.decision == "direct":
        return f"direct_{answer}"
    if c.thinking is None:
        return "think_unjudged"
    return f"think_{answer}_{'sound' if c.thinking == 1 else 'unsound'}"


def _true(truth: Sequence[Components]) -> dict[str, list[float | None]]:
    logged: dict[str, list[float | None]] = {
        f"true_{name}": [getattr(c, name) if c.trace == "written" else None for c in truth]
        for name in DIMENSIONS
    }
    logged["true_thinking"] = [c.thinking for c in truth]
    logged["true_cascade"] = [_TRUE(c) for c in truth]
    return logged


def _logged(graded: list[Components], labels: Sequence[bool]) -> dict[str, list[float | None]]:
    thinks = [int(c.trace == "written") for c in graded]
    logged: dict[str, list[float | None]] = {
        name: [getattr(c, name) for c in graded] for name in ("format", "answer", "judging", "thinking")
    }
    for name in DIMENSIONS:
        logged[name] = [getattr(c, name) if t else None for c, t in zip(graded, thinks, strict=True)]
    logged["trigger_rate"] = list(thinks)
    logged["trigger_direct"] = [None if needs else t for needs, t in zip(labels, thinks, strict=True)]
    logged["trigger_think"] = [t if needs else None for needs, t in zip(labels, thinks, strict=True)]
    return logged
