"""Pictures: fetched from where a table says they are, and made safe, that is decoded to the last pixel,
upright, opaque RGB, and of a size that a model can take.

Also two hashes of the pixels, so that the same picture is known again in another file (`content_hash`) or
after it was compressed or made smaller (`perceptual_hash`).
"""

import base64
import binascii
import hashlib
import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row
from sailrl_lite.pictures import FORMATS, upright

LONGEST = 2048  # pixels; a longer side is made this long
SHORTEST = 4  # pixels; a shorter side shows nothing
RATIO = 200  # at which the image processor of Qwen2.5-VL refuses a picture
MOST_PIXELS = 64_000_000  # a photograph of a good phone; what says more in its header is not decoded
_COSINES = np.cos(np.pi / 64 * np.arange(16)[:, None] * (np.arange(64) + 0.5))  # (frequency, pixel)
_COSINES[0] *= np.sqrt(0.5)
_LARGEST = 64 * 2**20  # bytes of a picture file


def clean_image(row: Row) -> Row | Drop:
    """The step "images": the row with a safe picture."""
    data = safe_image(row.image)
    if isinstance(data, Drop):
        return data
    return row if data is row.image else row.with_change("images", "upright, RGB, within limits", image=data)


def fetch_image(value: Any, folder: Path | None) -> bytes | Drop:
    """The bytes of a picture, not looked at yet, from what a cell of a table can hold.

    Args:
        value: bytes, a path in `folder`, base64, a data URL, a mapping with "bytes" or "path", or a list of
            one of these.
        folder: where paths begin, and what they must not lead out of; None: no paths.

    Reasons to drop: "no picture", "several pictures", "missing picture", "path leaves the folder",
    "too large", "bad base64".
    """
    if isinstance(value, list):
        if len(value) > 1:
            return Drop("several pictures", f"there are {len(value)}; a row has one")
        value = value[0] if value else None
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value if len(value) <= _LARGEST else Drop("too large", f"a picture of {len(value):,} bytes")
    if not isinstance(value, str) or not value.strip():
        return Drop("no picture")
    value = value.strip()
    if value.startswith("data:"):
        return _from_base64(value.partition(",")[2])
    if re.fullmatch(r"[A-Za-z0-9+/\s]{64,}={0,2}", value):  # a path has a dot in it
        return _from_base64(value)
    return _from_file(value, folder) if folder else Drop("missing picture", value[:200])


def safe_image(data: bytes, longest: int = LONGEST) -> bytes | Drop:
    """The picture as a PNG or JPEG file that is upright, RGB and no longer than `longest` pixels a side.

    A file that is all this comes back unchanged (the same object); a JPEG is written again as JPEG, anything
    else as PNG. Of an animation the first frame stays. Reasons to drop: "no picture", "cut short", "not a
    picture", "too many pixels", "too small", "too thin". Nothing makes this raise.
    """
    if not data:
        return Drop("no picture", "there are no bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata, and about sizes that are refused below
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            if why := _refused(image.width, image.height):
                return why
            image.load()
            if _is_safe(image, longest):
                return data
            kind = "JPEG" if image.format in ("JPEG", "MPO") else "PNG"
            picture = upright(image)
    except UnidentifiedImageError:
        return Drop("not a picture", f"it is no file of {', '.join(FORMATS)}")
    except Image.DecompressionBombError as error:
        return Drop("too many pixels", str(error))
    except Exception as error:  # broken files make decoders raise nearly anything
        cut = "truncated" in str(error) or isinstance(error, EOFError)
        return Drop("cut short" if cut else "not a picture", f"{type(error).__name__}: {error}"[:200])
    if (side := max(picture.size)) > longest:
        width, height = (max(1, -(-length * longest // side)) for length in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, kind, quality=95)
    return buffer.getvalue()


def content_hash(data: bytes) -> str:
    """32 hexadecimal digits that two files share if they show the same RGB pixels. `data`: a safe picture."""
    return hashes(data)[0]


def perceptual_hash(data: bytes) -> int:
    """256 bits that change little when a picture is compressed or made smaller. `data`: a safe picture.

    They say which of the 256 lowest frequencies (of the cosine transform of 64 x 64 grey pixels) are above
    their median. The usual 64 bits cannot tell two triangles with other numbers in their corners apart.
    """
    return hashes(data)[1]


def hashes(data: bytes) -> tuple[str, int]:
    """`content_hash` and `perceptual_hash` of a picture that is decoded only once."""
    with Image.open(io.BytesIO(data)) as image:
        picture = image.convert("RGB")
    size = f"{picture.width}x{picture.height}/".encode()
    content = hashlib.blake2b(size + picture.tobytes(), digest_size=16).hexdigest()
    grey = picture.convert("L").resize((64, 64), Image.Resampling.LANCZOS, reducing_gap=3.0)
    low = (_COSINES @ np.asarray(grey, dtype=np.float64) @ _COSINES.T).ravel()
    bits = low > np.median(low[1:])  # the first is the mean brightness
    return content, int.from_bytes(np.packbits(bits).tobytes())


def hamming(a: int, b: int) -> int:
    """The number of bits in which two hashes differ."""
    return (a ^ b).bit_count()


def _refused(width: int, height: int) -> Drop | None:
    size = f"{width} x {height} pixels"
    if width * height > MOST_PIXELS:
        return Drop("too many pixels", f"{size}; at most {MOST_PIXELS:,} are decoded")
    if max(width, height) >= RATIO * min(width, height):
        return Drop("too thin", f"{size}; the sides must differ by less than a factor of {RATIO}")
    if min(width, height) < SHORTEST:
        return Drop("too small", f"{size}; a side must have at least {SHORTEST}")
    return None


def _is_safe(image: Image.Image, longest: int) -> bool:
    return (
        image.format in ("PNG", "JPEG")
        and image.mode == "RGB"
        and not image.has_transparency_data
        and getattr(image, "n_frames", 1) == 1
        and image.getexif().get(ExifTags.Base.Orientation, 1) == 1
        and max(image.size) <= longest
    )


def _from_base64(text: str) -> bytes | Drop:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        return Drop("bad base64", str(error))


def _from_file(name: str, folder: Path) -> bytes | Drop:
    shown = repr(name[:200])
    if re.match(r"https?://", name):
        return Drop("missing picture", f"{shown} is on the net; download it first")
    try:
        path = (folder / name.replace("\\", "/")).resolve()  # through links
        if not path.is_relative_to(folder.resolve()):
            return Drop("path leaves the folder", f"{shown} is not in the folder of the pictures")
        if not path.is_file():
            return Drop("missing picture", f"there is no file {shown}")
        if (size := path.stat().st_size) > _LARGEST:
            return Drop("too large", f"{shown} has {size:,} bytes, at most {_LARGEST:,}")
        return path.read_bytes()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a loop of links, no permission
        return Drop("missing picture", f"{shown}: {error}"[:300])
