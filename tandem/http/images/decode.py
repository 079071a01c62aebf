"""From the bytes of an image to pixels. CPU work, for a worker thread.

The pictures are always opened by their content and as one of five formats; whatever Pillow says of a broken one
becomes a `BadImage` of ours.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Pillow has the other four loaded; for WebP it would load every plugin it has, at some request.
from PIL import Image, ImageOps, UnidentifiedImageError, WebPImagePlugin

from tandem.engine.text.images import Picture
from tandem.http.openai.errors import memory
from tandem.http.openai.images import BadImage, Geometry, ImageLimits, rows_of

__all__ = ["decode", "measure"]

FORMATS = ("PNG", "JPEG", "GIF", "BMP", WebPImagePlugin.WebPImageFile.format)
DEEP_GREY = 256
"""What a level of 16-bit grey is divided by."""

# Our own bound counts, by the header of each image; Pillow's would warn on stderr, and refuse what a setting allows.
Image.MAX_IMAGE_PIXELS = None


def measure(data: bytes, limits: ImageLimits, geometry: Geometry) -> int:
    """Prompt rows of the image, by its header alone (API-184, API-185). Raises `BadImage`."""
    with _opened(data) as image:
        width, height = image.size
    return rows_of(width, height, limits, geometry)


def decode(data: bytes) -> Picture:
    """The image, its first frame where it has several, turned as its EXIF data say, transparent parts on white.

    For data that `measure` has let through. Raises `BadImage`, and `ApiError` 503 where the memory is not there.
    """
    with _opened(data) as image:
        image.load()
        _set_upright(image)
        flat = _flat(image)
        return Picture(flat.width, flat.height, flat.tobytes())


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            yield image
    except UnidentifiedImageError:
        raise BadImage("is not a PNG, JPEG, WEBP, GIF or BMP image") from None
    except MemoryError:
        raise memory() from None
    except Exception:
        # Whatever a parser may raise: OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error and others.
        raise BadImage("is broken or incomplete and cannot be decoded") from None


def _set_upright(image: Image.Image) -> None:
    # With broken EXIF data the image is seen as it lies, as in other viewers.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)


def _flat(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        image = image.point(lambda level: level / DEEP_GREY).convert("L")  # `convert` alone would cut at 255
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    clear = image.convert("RGBA")
    paper = Image.new("RGB", clear.size, "white")
    paper.paste(clear, mask=clear.getchannel("A"))
    return paper
