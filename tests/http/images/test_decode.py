"""Headers and pixels: the five formats, and what is broken, huge or odd."""

from __future__ import annotations

import io
import struct
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tandem.http.images.decode import decode, measure
from tandem.http.openai.images import BadImage, Geometry, ImageLimits
from tests.http.images.pictures import encoded, image_of, png_header

LIMITS = ImageLimits()
ROWS = Geometry()
FORMATS = ["PNG", "JPEG", "WEBP", "GIF", "BMP"]


def pixel(data: bytes, x: int = 0, y: int = 0) -> tuple[int, ...]:
    picture = decode(data)
    at = (y * picture.width + x) * 3
    return tuple(picture.rgb[at : at + 3])


@pytest.mark.spec("API-183", "API-184")
@pytest.mark.parametrize("format", FORMATS)
def test_the_five_formats(format: str) -> None:
    data = encoded(image_of(640, 480), format)
    assert measure(data, LIMITS, ROWS) == 300
    picture = decode(data)
    assert (picture.width, picture.height, len(picture.rgb)) == (640, 480, 640 * 480 * 3)
    assert all(abs(a - b) < 9 for a, b in zip(pixel(data), (200, 30, 60), strict=True))


@pytest.mark.parametrize("format", FORMATS)
def test_one_pixel(format: str) -> None:
    data = encoded(image_of(1, 1), format)
    assert measure(data, LIMITS, ROWS) == 64
    assert len(decode(data).rgb) == 3


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("format", ["TIFF", "ICO", "PPM", "TGA", "PCX", "JPEG2000", "DIB", "ICNS"])
def test_other_formats_of_pillow(format: str) -> None:
    with pytest.raises(BadImage, match="not a PNG"):
        measure(encoded(image_of(32, 32), format), LIMITS, ROWS)


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("data", [b"", b"x", b"<svg></svg>", b"%PDF-1.7", b"GIF89a", b"BM", b"\xff\xd8\xff", b"RIFF"])
def test_what_is_no_image(data: bytes) -> None:
    with pytest.raises(BadImage):
        measure(data, LIMITS, ROWS)


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("format", FORMATS)
def test_every_cut_is_an_image_or_a_bad_one(format: str) -> None:
    noise = Image.frombytes("RGB", (24, 20), bytes(i * 37 % 251 for i in range(24 * 20 * 3)))
    data = encoded(noise, format)
    whole = decode(data)
    outcomes: set[bool | None] = set()
    for end in range(len(data)):
        try:
            measure(data[:end], LIMITS, ROWS)
            outcomes.add(decode(data[:end]) == whole)
        except BadImage:
            outcomes.add(None)
    # A few of the last bytes, checksums and end marks, say nothing of the pixels; a cut image is never half there.
    assert outcomes <= {None, True}


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_broken_bytes_raise_nothing_else(format: str, data: st.DataObject) -> None:
    body = bytearray(encoded(image_of(9, 7), format))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            measure(bytes(body), ImageLimits(max_pixels=1_000_000), ROWS)
            decode(bytes(body))
        except BadImage:
            pass


# Size, by the header


@pytest.mark.spec("API-184")
@pytest.mark.parametrize(("width", "height"), [(8001, 8000), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_by_its_header(width: int, height: int) -> None:
    with pytest.raises(BadImage, match="64,000,000"):
        measure(png_header(width, height), LIMITS, ROWS)


@pytest.mark.spec("API-184")
def test_the_setting_counts_and_not_pillows_bound() -> None:
    assert measure(png_header(20_000, 20_000), ImageLimits(max_pixels=10**9), ROWS) == 16_384


def test_a_header_alone_does_not_decode() -> None:
    data = png_header(640, 480)
    assert measure(data, LIMITS, ROWS) == 300
    with pytest.raises(BadImage, match="broken or incomplete"):
        decode(data)


@pytest.mark.spec("API-185")
def test_memory_by_the_header() -> None:
    with pytest.raises(BadImage, match="--image-act-gb"):
        measure(png_header(4096, 4096), ImageLimits(act_bytes=10**9), ROWS)


@pytest.mark.parametrize(("width", "height"), [(1, 201), (201, 1), (60_000, 1)])
def test_absurd_shapes(width: int, height: int) -> None:
    with pytest.raises(BadImage, match="as long as"):
        measure(png_header(width, height), LIMITS, ROWS)


@pytest.mark.spec("API-184")
def test_a_frame_beyond_the_gifs_own_size_counts() -> None:
    data = bytearray(encoded(image_of(10, 10), "GIF"))
    frame = data.index(b"\x2c", 13 + 3 * 2 ** ((data[10] & 7) + 1))
    struct.pack_into("<HH", data, frame + 5, 20_000, 20_000)
    with pytest.raises(BadImage, match="64,000,000"):
        measure(bytes(data), LIMITS, ROWS)


@pytest.mark.spec("API-184")
def test_a_webps_header_counts() -> None:
    data = bytearray(encoded(image_of(100, 100), "WEBP", lossless=True))
    at = data.index(b"VP8L") + 9
    (bits,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, bits & ~0xFFFFFFF | 16_382 | 16_382 << 14)
    with pytest.raises(BadImage, match="64,000,000"):
        measure(bytes(data), LIMITS, ROWS)


# Pixels


@pytest.mark.parametrize(("format", "options"), [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})])
def test_of_several_frames_the_first(format: str, options: dict[str, Any]) -> None:
    frames = [image_of(colour=colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert Image.open(io.BytesIO(data)).n_frames == 3  # type: ignore[attr-defined]
    assert pixel(data) == (255, 0, 0)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(orientation: int) -> None:
    image = image_of(4, 2, "white")
    image.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(image, "PNG", exif=exif)
    picture = decode(data)
    assert (picture.width, picture.height) == ((2, 4) if orientation > 4 else (4, 2))
    corner = {1: (0, 0), 2: (3, 0), 3: (3, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 3), 8: (0, 3)}[orientation]
    assert pixel(data, *corner) == (255, 0, 0)


@pytest.mark.parametrize("exif", [b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0", b"MM\0*"])
def test_broken_exif_data_do_not_matter(exif: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert decode(encoded(image_of(), "JPEG", exif=exif)).width == 4


@pytest.mark.parametrize(
    ("mode", "colour", "format", "expected"),
    [
        ("RGBA", (0, 0, 0, 0), "PNG", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 0), "WEBP", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 51), "PNG", (204, 204, 204)),
        ("RGBA", (1, 2, 3, 255), "PNG", (1, 2, 3)),
        ("LA", (0, 0), "PNG", (255, 255, 255)),
        ("L", 7, "PNG", (7, 7, 7)),
        ("1", 1, "PNG", (255, 255, 255)),
        ("I;16", 40_000, "PNG", (156, 156, 156)),
        ("CMYK", (0, 255, 255, 0), "JPEG", (255, 0, 0)),
        ("1", 0, "BMP", (0, 0, 0)),
    ],
)
def test_modes(mode: str, colour: Any, format: str, expected: tuple[int, ...]) -> None:
    assert pixel(encoded(image_of(colour=colour, mode=mode), format)) == expected


@pytest.mark.parametrize("format", ["PNG", "GIF"])
def test_a_transparent_colour_of_a_palette(format: str) -> None:
    image = image_of(colour=0, mode="P")
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    data = encoded(image, format, transparency=0)
    assert pixel(data) == (255, 255, 255)
    assert pixel(data, 1) == (40, 50, 60)
