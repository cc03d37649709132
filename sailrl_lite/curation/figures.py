"""The figures of a curation's report. Texts of rows are drawn as they are, never read as mathematics."""

import io
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw

from sailrl_lite.curation.images import safe_image
from sailrl_lite.curation.pipeline import Count, Drop, Dropped, Spread
from sailrl_lite.curation.schema import Row
from sailrl_lite.curation.survey import LABELS
from sailrl_lite.figures import AFTER, BEFORE, use_style

_COLORS = dict(zip(LABELS.values(), (AFTER, BEFORE, "0.7"), strict=True))
_SIDE = 320  # pixels of a picture in a figure
_MOST = 12  # bars of a panel
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # of later text's direction
_EAST_ASIAN = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Microsoft YaHei",
)


def plain(text: str, most: int) -> str:
    """A text on one line of at most `most` characters, without controls and marks that turn its direction."""
    shown = "".join(char for char in " ".join(text[: 20 * most].split()) if _is_seen(char))
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def funnel(counts: Mapping[str, Count]) -> Figure:
    """The rows that are left after each step, with what it dropped and why."""
    use_style()
    figure, axis = plt.subplots(figsize=(11, 1.2 + 0.42 * len(counts)))
    rows = max(1, max(count.rows for count in counts.values()))
    for place, count in enumerate(counts.values()):
        dropped = count.dropped.total()
        left = count.rows - dropped
        axis.barh(place, left, color=AFTER)
        axis.barh(place, dropped, left=left, color=BEFORE)
        axis.text(count.rows + 0.01 * rows, place, _told(left, count), va="center", fontsize=8.5)
    axis.set_yticks(range(len(counts)), list(counts))
    axis.invert_yaxis()
    axis.set_xlim(0, 1.9 * rows)  # room for the reasons
    axis.set_xticks([tick for tick in axis.get_xticks() if tick <= rows])
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.set_xlabel("rows")
    axis.grid(visible=False)
    axis.spines[["top", "right"]].set_visible(False)  # long reasons may go on beyond them
    axis.set_title("Rows after each step", loc="left")
    _legend(figure, {"left": AFTER, "dropped": BEFORE})
    return figure


def lengths(spreads: Mapping[str, Spread]) -> Figure:
    """The values of each watched column before and after its step, a panel a step."""
    use_style()
    figure, axes = plt.subplots(len(spreads), 1, figsize=(9, 0.6 + 2.9 * len(spreads)), squeeze=False)
    for (step, spread), axis in zip(spreads.items(), axes[:, 0], strict=True):
        values = np.array(list(spread.before), float)
        edges = _edges(values)
        for part, color, name in ((spread.before, BEFORE, "before"), (spread.after, AFTER, "after")):
            values, rows = np.array(list(part), float), list(part.values())
            axis.hist(values, edges, weights=rows, color=color, label=f"{name}: {sum(rows):,} rows")
        axis.set(title=f"Before and after “{step}”", xlabel=spread.column, ylabel="rows")
        axis.xaxis.set_major_locator(MaxNLocator(integer=_is_whole(edges + 0.5)))
        axis.grid(axis="x", visible=False)
        axis.legend()
    return figure


def label_balance(balance: pd.DataFrame) -> Figure:
    """Rows by complexity label, for each kind and each source.

    `balance` has the columns kind, source, label (of `LABELS`) and rows, as a `Survey` has.
    """
    use_style()
    tables = [
        balance.pivot_table(index=column, columns="label", values="rows", aggfunc="sum", fill_value=0)
        for column in ("kind", "source")
    ]
    tables = [table.loc[table.sum(axis=1).sort_values(ascending=False).index] for table in tables]
    bars = [min(len(table), _MOST) for table in tables]
    with plt.rc_context({"text.parse_math": False}):
        figure, axes = plt.subplots(
            2, 1, figsize=(9, 2 + 0.42 * sum(bars)), height_ratios=[bar + 0.6 for bar in bars]
        )
        for axis, table, column in zip(axes, tables, ("kind", "source"), strict=True):
            shown, start = table.iloc[:_MOST], np.zeros(min(len(table), _MOST))
            for label, color in _COLORS.items():
                rows = shown.get(label, pd.Series(0, shown.index)).to_numpy(float)
                bar = axis.barh(range(len(shown)), rows, left=start, color=color)
                told = [f"{n:,.0f}" if n > 0.05 * table.sum(axis=1).max() else "" for n in rows]
                axis.bar_label(bar, told, label_type="center", fontsize=8.5,
                               color="black" if color != AFTER else "white")  # fmt: skip
                start = start + rows
            axis.set_yticks(range(len(shown)), [plain(name, 30) or "(none given)" for name in shown.index])
            axis.set_ylim(len(shown) - 0.4, -0.6)
            axis.xaxis.set_major_formatter("{x:,.0f}")
            axis.grid(axis="y", visible=False)
            more = f" (the {_MOST} largest of {len(table):,})" if len(table) > _MOST else ""
            axis.set_title(f"Rows by {column} and label{more}", loc="left")
        axes[-1].set_xlabel("rows")
    _legend(figure, {label: color for label, color in _COLORS.items() if label in set(balance["label"])})
    return figure


def sample(rows: Sequence[Row]) -> Figure:
    """Some rows as pictures, five a line, each with its question, gold and label."""
    return _gallery(rows, [row.kind or row.source for row in rows], columns=5)


def pairs(found: Sequence[tuple[Dropped, Row, Row]]) -> Figure:
    """Rows that were dropped, with the reason, each beside the row because of which it was; two a line."""
    rows = [row for _, *both in found for row in both]
    titles = [title for dropped, _, other in found
              for title in (f"{dropped.reason}: {dropped.id}", f"beside: {other.id}")]  # fmt: skip
    return _gallery(rows, titles, columns=4)


def _gallery(rows: Sequence[Row], titles: Sequence[str], columns: int) -> Figure:
    use_style()
    pictures = [_picture(row) for row in rows]
    width, lines = 12.5 / columns, -(-len(rows) // columns)
    tallest = min(1.2, max(picture.height / picture.width for picture in pictures))
    with plt.rc_context({"text.parse_math": False, "font.family": _families()}):
        size = (12.5, lines * (tallest * width + 1.5))
        figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False)
        for axis in axes.flat[len(rows) :]:
            axis.set_axis_off()
        letters = round(11.5 * width)  # of a line
        for row, title, picture, axis in zip(rows, titles, pictures, axes.flat, strict=False):
            axis.imshow(picture)
            axis.set_title(plain(title, letters), fontsize=9.5)
            question = textwrap.fill(plain(row.question, 4 * letters), letters)
            gold, label = plain(row.gold, letters - 6), LABELS[row.needs_thinking]
            axis.set_xlabel(f"{question}\n\ngold: {gold}\n{label}", fontsize=8)
            axis.set(xticks=[], yticks=[], anchor="N")
            axis.grid(visible=False)
    return figure


def _picture(row: Row) -> Image.Image:
    """The picture of a row, small; a grey one with a cross where there is none."""
    data = safe_image(row.image)
    if isinstance(data, Drop):
        picture = Image.new("RGB", (_SIDE, _SIDE // 2), "lightgrey")
        pen = ImageDraw.Draw(picture)
        pen.line((0, 0, *picture.size), "grey")
        pen.line((0, picture.height, picture.width, 0), "grey")
        return picture
    with Image.open(io.BytesIO(data)) as image:
        image.thumbnail((_SIDE, _SIDE))
        return image.convert("RGB")


def _is_seen(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cs") and unicodedata.bidirectional(char) not in _TURNS


def _families() -> list[str]:
    """The usual font, and those that are here of the ones with Chinese, Japanese and Korean characters."""
    return ["DejaVu Sans", *(name for name in _EAST_ASIAN if name in font_manager.get_font_names())]


def _told(left: int, count: Count) -> str:
    most = 3 if len(count.dropped) <= 3 else 2
    reasons = [f"−{rows:,} {plain(reason, 28)}" for reason, rows in count.dropped.most_common(most)]
    if (more := len(count.dropped) - most) > 0:
        reasons.append(f"{more} more reasons")
    return ", ".join([f"{left:,}", *reasons])


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of at most 40 bins, of whole numbers if the values are whole."""
    low, high = values.min(), values.max()
    if _is_whole(values):
        step = max(1, -(-(high - low + 1) // 40))
        return np.arange(low, high + step + 0.5, step) - 0.5
    return np.linspace(low, high, 41)


def _is_whole(values: np.ndarray) -> bool:
    return bool((values == np.rint(values)).all())


def _legend(figure: Figure, colors: Mapping[str, object]) -> None:
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
    figure.legend(handles, list(colors), loc="outside lower right", ncols=len(colors), frameon=False)
