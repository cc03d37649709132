"""Pictures of a data set: fetched without leaving the folder, made safe, known again by their hashes."""

import base64
import io
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFile

from sailrl_lite.curation.images import (
    clean_image,
    content_hash,
    fetch_image,
    hamming,
    perceptual_hash,
    safe_image,
)
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.curation.schema import Row


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def scene(size=(60, 40)):
    """White, with a red quarter at the upper left, so that it shows which way is up."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((0, 0, size[0] // 2 - 1, size[1] // 2 - 1), "red")
    return image


def opened(data):
    assert isinstance(data, bytes), data
    image = Image.open(io.BytesIO(data))
    image.load()
    assert image.mode == "RGB" and image.format in ("PNG", "JPEG")
    return image


def png_header(width, height):
    """A PNG that says it has width x height pixels, and holds none."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data))
            + name
            + data
            + struct.pack(">I", zlib.crc32(name + data) & 0xFFFFFFFF)
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "data",
    [encoded(scene()), encoded(scene(), "JPEG", quality=90), encoded(Image.new("RGB", (4, 400)))],
    ids=["png", "jpeg", "thin"],
)
def test_what_is_fine_comes_back_as_it_was(data):
    assert safe_image(data) is data


def test_a_photograph_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    turned = scene().transpose(Image.Transpose.ROTATE_90)
    image = opened(safe_image(encoded(turned, "JPEG", exif=exif, quality=95)))
    assert image.size == (60, 40) and image.format == "JPEG" and not image.getexif()
    assert image.getpixel((5, 5))[1] < 60 and image.getpixel((50, 30))[1] > 200


@pytest.mark.parametrize("mode", ["P", "L", "1", "RGBA", "LA", "CMYK", "I", "F"])
def test_other_modes_become_rgb_that_looks_the_same(mode):
    kind = {"CMYK": "JPEG", "F": "TIFF", "I": "TIFF"}.get(mode, "PNG")
    image = opened(safe_image(encoded(scene().convert(mode), kind)))
    light, dark = image.getpixel((50, 30)), image.getpixel((5, 5))
    assert min(light) > 240 and dark != light
    if mode in ("P", "RGBA", "CMYK"):
        assert dark[0] > 230 and max(dark[1:]) < 40


def test_sixteen_bits_are_scaled_and_not_clipped():
    values = np.linspace(0, 65535, 64 * 8).reshape(8, 64).astype(np.uint16)
    image = opened(safe_image(encoded(Image.fromarray(values))))
    row = np.asarray(image)[4, :, 0].astype(int)
    assert row[0] > 100 and row[-1] < 160 and (np.diff(row) >= 0).all() and len(set(row)) > 20


def test_what_is_transparent_stands_on_white():
    clear = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    clear.paste((0, 0, 255, 255), (0, 0, 10, 20))
    image = opened(safe_image(encoded(clear)))
    assert image.getpixel((15, 10)) == (255, 255, 255) and image.getpixel((5, 10)) == (0, 0, 255)
    keyed = encoded(scene(), transparency=(255, 0, 0))  # RGB, one colour of which is clear
    assert opened(safe_image(keyed)).getpixel((5, 5)) == (255, 255, 255)


def test_of_an_animation_the_first_frame_stays():
    frames = [Image.new("RGB", (20, 20), color) for color in ("red", "blue")]
    for kind in ("GIF", "PNG", "WEBP"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        image = opened(safe_image(data))
        assert getattr(image, "n_frames", 1) == 1 and image.getpixel((5, 5)) == (255, 0, 0)


def test_a_large_picture_is_made_smaller_and_never_too_thin():
    assert opened(safe_image(encoded(Image.new("RGB", (3000, 1500))))).size == (2048, 1024)
    width, height = opened(safe_image(encoded(Image.new("RGB", (2985, 15))))).size
    assert width == 2048 and width < 200 * height


JPEG = encoded(scene((300, 200)), "JPEG")
REFUSED = {
    "nothing": (b"", "no picture"),
    "text": (b"<svg>not a bitmap</svg>", "not a picture"),
    "a program that draws": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
    "a format that is not taken": (encoded(scene(), "PCX"), "not a picture"),
    "half a JPEG": (JPEG[: len(JPEG) // 2], "cut short"),
    "half a PNG": (encoded(scene((300, 200)))[:300], "cut short"),
    "a header alone": (png_header(20, 20), "cut short"),
    "1 x 1": (encoded(Image.new("RGB", (1, 1))), "too small"),
    "3 x 90": (encoded(Image.new("RGB", (3, 90))), "too small"),
    "1 x 3000": (encoded(Image.new("RGB", (1, 3000))), "too thin"),
    "200 times as long": (encoded(Image.new("RGB", (1000, 5))), "too thin"),
    "a bomb": (png_header(9_000, 9_000), "too many pixels"),
    "a bomb that PIL warns of": (png_header(12_000, 10_000), "too many pixels"),
    "a bomb that PIL refuses": (png_header(60_000, 60_000), "too many pixels"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_its_reason(data, reason, recwarn):
    why = safe_image(data)
    assert isinstance(why, Drop) and why.reason == reason and why.detail and " at 0x" not in why.detail
    assert not recwarn.list


def test_a_bomb_is_refused_by_its_header(monkeypatch):
    bomb = encoded(Image.new("1", (9_000, 9_000)))
    assert len(bomb) < 50_000  # for 81 million pixels
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    assert safe_image(bomb).reason == "too many pixels"


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_bytes_make_it_raise(data):
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM"]))
    good = bytearray(encoded(scene(), kind))
    for _ in range(data.draw(st.integers(0, 12))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(good[: data.draw(st.integers(0, len(good)))]) + data.draw(st.binary(max_size=30))
    result = safe_image(broken)
    if isinstance(result, bytes):
        opened(result)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_noise_makes_it_raise(data):
    assert isinstance(safe_image(data), Drop)


def test_the_step_keeps_the_provenance():
    good = Row("a", encoded(scene()), "Q?", "5")
    assert clean_image(good) is good
    changed = clean_image(Row("a", encoded(scene().convert("L")), "Q?", "5"))
    assert [(c.step, c.field) for c in changed.provenance] == [("images", "image")]
    assert clean_image(Row("a", b"x", "Q?", "5")).reason == "not a picture"


# ---- hashes


def test_the_content_hash_is_of_pixels():
    one, other = encoded(scene(), compress_level=1), encoded(scene(), compress_level=9)
    assert one != other and content_hash(one) == content_hash(other)
    changed = scene()
    changed.putpixel((59, 39), (255, 255, 254))
    assert content_hash(encoded(changed)) != content_hash(one)
    tall, wide = Image.new("RGB", (10, 20)), Image.new("RGB", (20, 10))
    assert content_hash(encoded(tall)) != content_hash(encoded(wide))


def test_the_perceptual_hash_knows_a_picture_again_and_tells_others_apart():
    rows = list(read_micro(60, ["angle", "read_number", "bars"]))
    hashes = [perceptual_hash(row.image) for row in rows]
    assert all(0 <= value < 2**256 for value in hashes)
    distances = []
    for row, value in zip(rows, hashes, strict=True):
        image = Image.open(io.BytesIO(row.image))
        smaller = image.resize((101, 50), Image.Resampling.LANCZOS)
        again = [perceptual_hash(data) for data in (encoded(image, "JPEG", quality=75), encoded(smaller))]
        distances += [hamming(value, other) for other in again]
    assert np.quantile(distances, 0.9) <= 8
    others = [hamming(a, b) for i, a in enumerate(hashes) for b in hashes[:i]]
    assert min(others) > 8 and hamming(hashes[0], hashes[0]) == 0


# ---- where pictures come from


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "data"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.png").write_bytes(encoded(scene()))
    (inside / "sub" / "b c.png").write_bytes(encoded(scene()))
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "data-other").mkdir()
    (tmp_path / "data-other" / "a.png").write_bytes(b"secret")
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "out").symlink_to(tmp_path)
    (inside / "loop.png").symlink_to(inside / "loop.png")
    (inside / "near.png").symlink_to(inside / "a.png")
    os.mkfifo(inside / "pipe.png")
    return inside


@pytest.mark.parametrize("name", ["a.png", "./sub/../a.png", "sub/b c.png", "sub\\b c.png", "near.png"])
def test_paths_in_the_folder_are_read(folder, name):
    assert fetch_image(name, folder) == encoded(scene())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../secret.png", "path leaves the folder"),
        ("sub/../../secret.png", "path leaves the folder"),
        ("..\\secret.png", "path leaves the folder"),
        ("../data-other/a.png", "path leaves the folder"),
        ("/etc/passwd", "path leaves the folder"),
        ("link.png", "path leaves the folder"),
        ("out/secret.png", "path leaves the folder"),
        ("a.png\0.txt", "missing picture"),
        ("missing.png", "missing picture"),
        ("sub", "missing picture"),
        ("pipe.png", "missing picture"),
        ("loop.png", "missing picture"),
        ("x" * 5000 + ".png", "missing picture"),
        ("https://example.org/a.png", "missing picture"),
        ("data:image/png;base64,@@@", "bad base64"),
        ("", "no picture"),
        (None, "no picture"),
        ([], "no picture"),
        (5, "no picture"),
        (["a.png", "a.png"], "several pictures"),
    ],
    ids=str,
)
def test_other_paths_are_not(folder, name, reason):
    why = fetch_image(name, folder)
    assert isinstance(why, Drop) and why.reason == reason


def test_pictures_inside_a_table(folder):
    data = encoded(scene())
    text = base64.b64encode(data).decode()
    assert fetch_image(data, folder) == data
    assert fetch_image({"bytes": data, "path": "elsewhere.png"}, None) == data
    assert fetch_image({"bytes": None, "path": "a.png"}, folder) == data
    assert fetch_image([{"bytes": data, "path": None}], None) == data
    assert fetch_image(f"data:image/png;base64,{text}", None) == data
    assert fetch_image(text, folder) == data
    assert fetch_image("\n".join(text[i : i + 76] for i in range(0, len(text), 76)), folder) == data
    assert fetch_image("a.png", None).reason == "missing picture"
