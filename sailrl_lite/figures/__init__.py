"""Every figure of the project, in one colour-blind safe style.

`runs` and `judges` draw one run or one judge on the screen, and their functions are here. All other modules
draw the study from its logs, what the paper reports beside ours: `python -m sailrl_lite.figures` draws all
that `every` names into figures/.
"""

from sailrl_lite.figures.judges import judge_confusion, token_strip, verdict_cards
from sailrl_lite.figures.runs import (
    AFTER,
    BEFORE,
    before_after,
    gallery,
    knobs,
    learning_curves,
    paid_and_due,
    reward_bars,
    rollouts,
    scored_trace,
    spine,
)
from sailrl_lite.figures.style import BLUE, GREEN, ORANGE, PURPLE, RED, save
from sailrl_lite.figures.style import use_screen_style as use_style

__all__ = [
    "AFTER", "BEFORE", "BLUE", "GREEN", "ORANGE", "PURPLE", "RED", "before_after", "gallery",
    "judge_confusion", "knobs", "learning_curves", "paid_and_due", "reward_bars", "rollouts", "save",
    "scored_trace", "spine", "token_strip", "use_style", "verdict_cards",
]  # fmt: skip
