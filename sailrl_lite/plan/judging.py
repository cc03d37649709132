"""What an LLM judge is asked in a run, and what that costs."""

import math
from dataclasses import dataclass

from sailrl_lite.config import PlanConfig, RLConfig
from sailrl_lite.judges.prompt import instructions
from sailrl_lite.judges.protocol import DIMENSIONS
from sailrl_lite.judges.specs import get_endpoint, innermost, read_spec
from sailrl_lite.plan.hardware import price_of
from sailrl_lite.rewards import get_reward

CHARACTERS = 4  # of English text in a token, as OpenAI and Google say of theirs


@dataclass(frozen=True)
class Judging:
    """The judge's part of a run.

    Attributes:
        model: of the judge; "" where none is paid.
        traces, calls: written traces that are judged, and requests.
        tokens_in, tokens_out: of all requests, the criteria and the picture too.
        dollars: None where the price is not known.
        note: one line that says what the price rests on.
    """

    model: str
    traces: float
    calls: float
    tokens_in: float
    tokens_out: float
    dollars: float | None
    note: str


def judging(config: RLConfig, plan: PlanConfig, draws: float) -> Judging:
    """The cost of the judge over a whole run, without repeats and without what its cache saves.

    Only written traces are judged: `plan.trigger_rate` of the rollouts, those of the draws that teach nothing
    too. One request asks for all three dimensions, or each for one, as the judge's text says.
    """
    text = innermost(config.judge)
    kind = read_spec(text).kind
    if kind != "llm":
        return Judging("", 0, 0, 0, 0, 0.0, f"the {kind} judge is computed here")
    endpoint = get_endpoint(text)
    if not get_reward(config.reward, config.alpha).needs_scores:
        return Judging(endpoint.model, 0, 0, 0, 0, 0.0, f"the reward {config.reward} asks no judge")
    traces = config.steps * config.prompts * config.rollouts * draws * plan.trigger_rate
    keys = [DIMENSIONS] if endpoint.calls == "combined" else [(key,) for key in DIMENSIONS]
    criteria = sum(math.ceil(len(instructions(k)) / CHARACTERS) for k in keys)
    tokens_in = traces * (criteria + len(keys) * (plan.prompt_tokens + plan.completion_tokens))
    tokens_out = traces * plan.reply_tokens
    price = price_of(endpoint.model)
    if endpoint.price_in is not None and endpoint.price_out is not None:
        price = endpoint.price_in, endpoint.price_out
        note = "at the price in the judge's text"
    elif price:
        note = f"at ${price[0]:g} and ${price[1]:g} for a million tokens in and out"
    else:
        note = "price not known: name price_in and price_out in the judge's text; one served here costs GPUs"
    dollars = (tokens_in * price[0] + tokens_out * price[1]) / 1e6 if price else None
    return Judging(endpoint.model, traces, traces * len(keys), tokens_in, tokens_out, dollars, note)
