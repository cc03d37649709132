"""The reward system of SAIL-RL (paper sections 3.2 to 3.4): seven rewards and the ways to combine them.

`measure` turns a parsed response, its gold answer, its complexity label and the judge's scores into one
`Components` record. A `Combination` is a small object that turns the record into the number that is trained
on; print it to read its formula. Everything is pure and needs no torch.

    >>> from sailrl_lite.response import parse_response
    >>> r = parse_response(r"<judge>think</judge><think>2+3=5</think><answer>\\boxed{5}</answer>")
    >>> c = measure(r, gold="5", needs_thinking=True, scores=Scores(logic=1, grounding=1, consistency=0))
    >>> REWARDS["cascade"]
    <cascade: 0.9 * (judging * thinking * answer) + 0.1 * format>
    >>> round(REWARDS["cascade"](c), 4)     # one failed sub-reward of three still pays 2/3 of the product
    0.7
    >>> REWARDS["strict-product"](c)
    0.1

A new combination is one line, and a new term one entry of `TERMS`:

    >>> Combination("mine", ("judging", "grounding", "answer"), alpha=0.8)
    <mine: 0.8 * (judging * grounding * answer) + 0.2 * format>

Two rules hold everywhere. A response with a format error is paid nothing at all, so declaring "direct" and
thinking all the same does not pay. And no verdict is not a verdict of 0: where the total needs scores that
were not given, it is None, whatever the other components are. (With a wrong answer the product would be 0
anyway, but keeping just these rollouts would drag down the baseline of their group.)
"""

from sailrl_lite.judges.protocol import Scores
from sailrl_lite.rewards.combinations import (
    ALPHA,
    REWARDS,
    TERMS,
    Anneal,
    Combination,
    Reward,
    get_reward,
)
from sailrl_lite.rewards.components import (
    Components,
    answer_reward,
    consistency_reward,
    format_reward,
    grounding_reward,
    judging_reward,
    logic_reward,
    measure,
    thinking_reward,
)
from sailrl_lite.rewards.trl import for_trl

__all__ = [
    "REWARDS",
    "TERMS",
    "ALPHA",
    "Reward",
    "Combination",
    "Anneal",
    "get_reward",
    "Scores",
    "Components",
    "measure",
    "format_reward",
    "answer_reward",
    "judging_reward",
    "logic_reward",
    "grounding_reward",
    "consistency_reward",
    "thinking_reward",
    "for_trl",
]
