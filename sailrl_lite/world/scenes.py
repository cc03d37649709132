"""Pictures of the micro-world: a scene is a short list of printable items, and `render` draws them.

Every picture is 112 x 56 pixels, that is 4 x 2 cells of 28 pixels; Qwen2.5-VL (patch 14, merge 2) sees one
token per cell, eight in all. Scenes hold no randomness of their own: the same scene gives the same pixels.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from sailrl_lite.errors import SailRLError
from sailrl_lite.pictures import FORMATS, upright

CELL = 28
WIDTH, HEIGHT = 4 * CELL, 2 * CELL
COLORS = {
    "red": (214, 39, 40),
    "blue": (31, 90, 200),
    "green": (44, 150, 60),
    "yellow": (240, 200, 20),
    "purple": (140, 70, 180),
    "orange": (250, 130, 20),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "diamond")
FONTS = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif.ttf")
_MARKS = ((0, 0, 0), (120, 60, 20), (230, 0, 120), (0, 190, 190), (90, 90, 255),
          (255, 90, 0), (110, 200, 0), (190, 0, 255), (0, 110, 70), (150, 150, 150))  # fmt: skip
_UNIT = 5  # pixels of one unit on the axis of a bar chart; nine units fit the picture


@dataclass(frozen=True)
class Digit:
    """A scanned handwritten digit of scikit-learn (8 x 8 pixels, written by people), enlarged."""

    scan: int
    x: int
    y: int
    size: int
    angle: float = 0.0


@dataclass(frozen=True)
class Shape:
    kind: str
    color: str
    x: int
    y: int
    radius: int


@dataclass(frozen=True)
class Bar:
    color: str
    x: int
    height: int


@dataclass(frozen=True)
class Text:
    text: str
    x: int
    y: int
    size: int = 15
    font: int = 0


@dataclass(frozen=True)
class Lines:
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Mark:
    """The shortcut: three coloured blocks on the lower edge that encode the digits of a number 0 to 999."""

    code: int


Item = Digit | Shape | Bar | Text | Lines | Mark
Scene = tuple[Item, ...]


def cell_of(x: int, y: int) -> int:
    """The number of the cell that a point lies in, counted in reading order."""
    return x // CELL + y // CELL * (WIDTH // CELL)


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (1797, 8, 8) in 0..16, labels (1797,), and a fixed permutation that splits the scans."""
    from sklearn.datasets import load_digits  # here, since it costs a second to import

    data = load_digits()
    return data.images, data.target, np.random.default_rng(0).permutation(len(data.target))


@functools.cache
def scans(digit: int, split: str) -> tuple[int, ...]:
    """Indices of the scans of one digit; the 80% of `train` and the 20% of `test` share none."""
    _, labels, order = _digits()
    cut = int(0.8 * len(order))
    chosen = order[:cut] if split == "train" else order[cut:]
    return tuple(int(i) for i in chosen if labels[i] == digit)


@functools.cache
def _font(index: int, size: int) -> ImageFont.FreeTypeFont:
    import matplotlib  # ships DejaVu, so that no font of the system is needed

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / FONTS[index]), size)


@functools.cache
def _scan(index: int, size: int) -> Image.Image:
    pixels = (_digits()[0][index] * (255 / 16)).astype(np.uint8)
    return Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR)


def render(scene: Scene) -> Image.Image:
    """Draw a scene as an RGB picture of 112 x 56 pixels."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    for item in scene:
        match item:
            case Digit(scan, x, y, size, angle):
                ink = _scan(scan, size).rotate(angle, Image.Resampling.BILINEAR)
                image.paste((20, 20, 40), (x - size // 2, y - size // 2), ink)
            case Shape(kind, color, x, y, radius):
                _draw_shape(draw, kind, COLORS[color], x, y, radius)
            case Bar(color, x, height):
                box = (x - 8, HEIGHT - 4 - _UNIT * height, x + 7, HEIGHT - 4)
                draw.rectangle(box, COLORS[color], "black")
            case Text(text, x, y, size, font):
                draw.text((x, y), text, "black", _font(font, size), anchor="mm")
            case Lines(points):
                draw.line(points, "black", 1)
            case Mark(code):
                for k in range(3):
                    block = _MARKS[code // 10 ** (2 - k) % 10]
                    draw.rectangle((8 + 42 * k, HEIGHT - 6, 18 + 42 * k, HEIGHT - 1), block)
    return image


def read_picture(path: str | Path) -> Image.Image:
    """A picture file as the micro policy takes it: upright, opaque, fitted into 112 x 56 pixels on white.

    Raises:
        SailRLError: the file is missing, empty, no picture, cut short, or too large to be opened safely.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            return fit(image)
    except FileNotFoundError:
        raise SailRLError(f"there is no picture {path}; check the name") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, SailRLError) as error:
        why = error.__cause__ if isinstance(error, SailRLError) else error
        raise SailRLError(f"{path} cannot be read as a picture ({why}); give a PNG or JPEG file") from error


def fit(image: Image.Image) -> Image.Image:
    """A picture of any size and mode as the micro policy takes it; one of the world's own stays as it is."""
    return ImageOps.pad(upright(image), (WIDTH, HEIGHT), color="white")


def _draw_shape(
    draw: ImageDraw.ImageDraw, kind: str, color: tuple[int, int, int], x: int, y: int, r: int
) -> None:
    box = (x - r, y - r, x + r, y + r)
    if kind == "circle":
        draw.ellipse(box, color, "black")
    elif kind == "square":
        draw.rectangle(box, color, "black")
    elif kind == "triangle":
        draw.polygon(_polygon(x, y, [r * 1.2], 3), color, "black")
    elif kind == "diamond":
        draw.polygon(((x, y - r - 2), (x + r - 2, y), (x, y + r + 2), (x - r + 2, y)), color, "black")
    elif kind == "star":
        draw.polygon(_polygon(x, y, [r * 1.25, r * 0.5], 10), color, "black")
    elif kind == "cross":
        w = max(2, r // 3)
        draw.rectangle((x - w, y - r, x + w, y + r), color)
        draw.rectangle((x - r, y - w, x + r, y + w), color)
    else:
        raise ValueError(f"unknown shape {kind!r}; known: {', '.join(SHAPES)}")


def _polygon(x: int, y: int, radii: Sequence[float], corners: int) -> list[tuple[float, float]]:
    turn = 2 * math.pi / corners
    return [
        (x + radii[k % len(radii)] * math.sin(k * turn), y - radii[k % len(radii)] * math.cos(k * turn))
        for k in range(corners)
    ]
