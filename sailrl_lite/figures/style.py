"""How all figures look: one style file, and one name, colour, marker and line for each arm."""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from PIL import Image

from sailrl_lite.files import write_bytes

STYLE_FILE = Path(__file__).with_name("sailrl.mplstyle")
BLUE, ORANGE, GREEN, RED, PURPLE, BROWN = "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161"
SKY, GREY, BLACK = "#56b4e9", "#949494", "#262626"
WIDTH = 7.4  # inches of a figure: a page
BAND = 0.18  # opacity of an interval behind a curve

Line = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """A name for readers, and a colour, a marker and a line, any of which would do in black and white."""

    label: str
    color: str
    marker: str
    line: Line = "-"


_DOTS: Line = (0, (1, 1.3))
_LONG: Line = (0, (6, 2))
_MIXED: Line = (0, (4, 1.5, 1, 1.5, 1, 1.5))

ARMS: dict[str, Look] = {
    "base": Look("direct answers only, no RL", GREY, "s", _DOTS),
    "sft": Look("SFT, no RL", BLACK, "D", _DOTS),
    "sft-forced-direct": Look("SFT, direct answer forced", BROWN, "P", _MIXED),
    "cascade": Look("full system (cascade)", BLUE, "o"),
    "answer-only": Look("answer only", RED, "s", "--"),
    "thinking-answer": Look("thinking + answer", GREEN, "^", "-."),
    "always-think": Look("always think", ORANGE, "v", _LONG),
    "additive": Look("additive", ORANGE, "v", "--"),
    "additive-bare": Look("additive, no format term", RED, "^", _LONG),
    "strict-product": Look("strict product", GREEN, "s", "-."),
    "logic-only": Look("logic alone", PURPLE, "D", _DOTS),
    "grounding-only": Look("grounding alone", SKY, "P", _MIXED),
    "consistency-only": Look("consistency alone", BLACK, "X", _LONG),
    "continuous": Look("continuous", ORANGE, "s", "--"),
    "noisy": Look("noisy judge (10% wrong)", GREEN, "^", "-."),
    "continuous-noisy": Look("continuous, noisy judge", RED, "v", _LONG),
    "learned": Look("learned judge", RED, "s", "--"),
    "biased-logic": Look("logic weighs half", ORANGE, "v", "--"),
    "biased-grounding": Look("grounding weighs half", GREEN, "^", "-."),
    "biased-consistency": Look("consistency weighs half", PURPLE, "D", _LONG),
    "small-sft": Look("small model, SFT", BLACK, "D", _DOTS),
    "small-answer-only": Look("small model, answer only", RED, "s", "--"),
    "small-cascade": Look("small model, full system", BLUE, "o"),
    "second-sft": Look("second architecture, SFT", BLACK, "D", _DOTS),
    "second-answer-only": Look("second architecture, answer only", RED, "s", "--"),
    "second-cascade": Look("second architecture, full system", BLUE, "o"),
    "shortcut-sft": Look("SFT on marked pictures, no RL", BLACK, "D", _DOTS),
    "shortcut-answer-only": Look("answer only", RED, "s", "--"),
    "shortcut-thinking-answer": Look("thinking + answer", GREEN, "^", "-."),
    "alpha-0.5": Look("α = 0.5", ORANGE, "v", "--"),
    "alpha-0.7": Look("α = 0.7", GREEN, "^", "-."),
    "alpha-1": Look("α = 1", RED, "s", _LONG),
    "anneal": Look("additive to cascade", GREEN, "^", "-."),
    "kl-0": Look("KL weight 0", BLUE, "o"),
    "kl-0.01": Look("KL weight 0.01", ORANGE, "v", "--"),
    "kl-0.05": Look("KL weight 0.05", GREEN, "^", "-."),
    "kl-0.1": Look("KL weight 0.1", RED, "s", _LONG),
    "pass4-account": Look("neither never nor always right", ORANGE, "v", "--"),
    "pass4-hard": Look("right in 1 or 2 of 4 tries", GREEN, "^", "-."),
    "rollouts-2": Look("2 rollouts a prompt", ORANGE, "v", "--"),
    "rollouts-10": Look("10 rollouts a prompt", GREEN, "^", "-."),
    "labels-0.1": Look("10% of labels wrong", ORANGE, "v", "--"),
    "labels-0.3": Look("30% of labels wrong", GREEN, "^", "-."),
    "false-pass-0.3": Look("lenient judge (passes 30% of the wrong)", ORANGE, "v", _LONG),
    "false-fail-0.3": Look("harsh judge (fails 30% of the right)", PURPLE, "D", _MIXED),
}


def _like(arm: str, label: str) -> Look:
    return replace(ARMS[arm], label=label)


# The paper's systems look like the arms of ours that play their part.
PAPER: dict[str, Look] = {
    "SAIL-VL2-8B-Instruct": _like("base", "SAIL-VL2-8B-Instruct"),
    "SAIL-VL2-8B-LongCoT": _like("sft", "SAIL-VL2-8B-LongCoT"),
    "SAIL-VL2-8B-Thinking": _like("cascade", "SAIL-VL2-8B-Thinking"),
    "sail-rl": _like("cascade", "SAIL-RL"),
    "sft": _like("sft", "SFT"),
    "answer-only": _like("answer-only", "answer only"),
    "always-thinking": _like("always-think", "always thinking"),
    "never-thinking": _like("base", "never thinking"),
    "judge-without-reward": _like("thinking-answer", "judge without reward"),
    "additive": _like("additive", "additive"),
    "cascade": _like("cascade", "cascade"),
    "continuous": _like("continuous", "continuous"),
    "discrete": _like("cascade", "discrete"),
    "equal": _like("cascade", "equal weights"),
    "biased-logic": _like("biased-logic", "logic weighs half"),
    "biased-consistency": _like("biased-consistency", "consistency weighs half"),
    "SFT baseline": _like("sft", "SFT baseline"),
    "Gemini-2.5-Pro": _like("cascade", "judge Gemini-2.5-Pro"),
    "GPT-5": Look("judge GPT-5", PURPLE, "v"),
    "Qwen2.5-VL-32B": _like("learned", "judge Qwen2.5-VL-32B"),
}
OTHERS = Look("other models", GREY, "x", "")

KINDS: dict[str, Look] = {
    "perception": Look("perception", ORANGE, "s", "--"),
    "general": Look("general", GREEN, "^", "-."),
    "reasoning": Look("reasoning", BLUE, "o"),
}
HATCHES = {"perception": "", "general": "....", "reasoning": "////"}

VERDICTS: dict[str, Look] = {
    "reproduced": Look("reproduced", BLUE, "o"),
    "not reproduced": Look("not reproduced", GREY, "s"),
    "opposite": Look("opposite", RED, "D"),
    "untestable here": Look("untestable here", BROWN, "x"),
}

MEASURES: dict[str, str] = {
    "accuracy": "accuracy",
    "trigger_rate": "trigger rate",
    "logic": "logic",
    "grounding": "grounding",
    "consistency": "consistency",
    "sound": "sound traces",
    "lucky": "lucky successes",
    "cascade": "cascade reward",
    "tokens": "tokens a response",
    "relative_tokens": "tokens, relative to direct answers",
}


# Figures for the screen are wider than a page, so all that is written in them is larger.
_SCREEN = {
    "font.size": 12, "figure.titlesize": "large", "figure.titleweight": "normal", "axes.titlesize": 11,
    "axes.labelsize": 10, "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9,
    "legend.title_fontsize": 12, "legend.handlelength": 2, "axes.linewidth": 1.25, "grid.linewidth": 1,
    "lines.linewidth": 1.5, "lines.markersize": 6, "hatch.linewidth": 1, "xtick.major.size": 6,
    "ytick.major.size": 6, "xtick.major.width": 1.25, "ytick.major.width": 1.25, "savefig.dpi": 150,
}  # fmt: skip


def use_style() -> None:
    """Set the style of print for all figures of this process."""
    plt.style.use(["default", STYLE_FILE])


def use_screen_style() -> None:
    """Set the style of the screen for all figures of this process."""
    use_style()
    plt.rcParams.update(_SCREEN)


def legend(figure: FigureBase, axis: Axes, columns: int) -> None:
    """The legend of a panel, below all of them."""
    handles = axis.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=columns, frameon=False)


def save_both(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as STEM.png, in at most 256 colours, and STEM.svg; the same figure, the same bytes."""
    drawn, png, svg = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    picture = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(png, "png", optimize=True)
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    files = [stem.with_suffix(f".{kind}") for kind in ("png", "svg")]
    for file, data in zip(files, (png, svg), strict=True):
        write_bytes(file, data.getvalue())
    return files


def save(figure: Figure, path: str | Path) -> Path:
    """Write a PNG whole; the same figure gives the same bytes."""
    path = Path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    write_bytes(path, buffer.getvalue())
    plt.close(figure)
    return path
