"""A picture as an endpoint takes it: upright, opaque, not too large, and the same bytes every time."""

import base64
import io

import numpy as np
from PIL import Image, ImageOps

from sailrl_lite.errors import SailRLError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # others may start programs, as EPS does
_EXACT = 256 * 256  # pixels up to which a picture is sent without loss
_THINNEST = 100  # longest to shortest side; Qwen's image processor refuses 200


def data_url(image: Image.Image, longest_side: int = 1024) -> str:
    """The picture as a data URL: PNG up to 256 x 256 pixels, where each may matter, else JPEG of quality 90.

    Args:
        image: of any mode that `upright` takes.
        longest_side: pixels; a larger picture is made smaller, a smaller one is left as it is. Only one that
            is thinner than 1 : 100 is set on a white ground.

    Raises:
        SailRLError: the picture is empty, cut short, or of a mode that cannot be shown.
    """
    picture = upright(image)
    if (side := max(picture.size)) > longest_side:
        width, height = (max(1, round(length * longest_side / side)) for length in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    if min(picture.size) * _THINNEST < (side := max(picture.size)):
        ground = Image.new("RGB", [max(length, -(-side // _THINNEST)) for length in picture.size], "white")
        ground.paste(picture)
        picture = ground
    kind = "png" if picture.width * picture.height <= _EXACT else "jpeg"
    buffer = io.BytesIO()
    picture.save(buffer, kind, quality=90)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def upright(image: Image.Image) -> Image.Image:
    """A new RGB picture as a person would see it: turned as its EXIF says, opaque on white, no metadata.

    Grey values of more than eight bits are scaled to 0..255, not clipped.

    Raises:
        SailRLError: as in `data_url`.
    """
    try:
        if not image.width or not image.height:
            raise ValueError(f"it has {image.width} x {image.height} pixels")
        seen = ImageOps.exif_transpose(image)
        if seen.mode[0] in "IF":
            seen = _eight_bits(seen)
        if seen.has_transparency_data:
            seen = seen.convert("RGBA")
            picture = Image.new("RGBA", seen.size, "white")
            picture.alpha_composite(seen)
            seen = picture
        picture = Image.new("RGB", seen.size)
        picture.paste(seen.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SailRLError(
            f"a picture cannot be read ({error}); replace it, or leave the problem out"
        ) from error
    return picture


def _eight_bits(image: Image.Image) -> Image.Image:
    """A picture of mode I, I;16 or F in grey: 16 bits by their range, other numbers by the range they use."""
    values = np.nan_to_num(np.asarray(image).astype(np.float64))
    low, high = min(0.0, values.min()), values.max()
    if image.mode.startswith("I;16"):
        top = 65535.0
    else:
        ranges = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        top = next((known for known in ranges if high <= known), high)
    return Image.fromarray(np.rint((values - low) * (255 / (top - low))).astype(np.uint8))
