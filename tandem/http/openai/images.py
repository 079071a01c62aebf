"""Images of a chat, without any I/O: their parts, their checks, their rows, their places in the prompt (API-182 …).

An image is known by its index among all images of the message list, oldest first. Left out are always the oldest, so a
number says which.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tandem.config import Settings
from tandem.engine.text.images import Geometry, grid
from tandem.http.openai.checks import as_object, as_str
from tandem.http.openai.errors import ApiError, invalid

__all__ = [
    "LEFT_OUT",
    "BadImage",
    "Geometry",
    "ImageLimits",
    "ImageParts",
    "ImageRef",
    "Sight",
    "data_url_bytes",
    "grid",
    "is_data_url",
    "place_images",
    "refusal",
    "rows_of",
    "sight_of",
    "too_large",
]

LEFT_OUT = "[An earlier image was here; it has been left out.]"
"""What the model reads in the place of a left-out image (API-190)."""
MAX_ASPECT = 200
"""How many times longer than wide an image may be; the reference processor of the Qwen towers has the same bound."""

Sight: TypeAlias = Literal["sees", "off", "blind"]
"""Whether images are read; if not, whether `--vision off` or the model is why."""


class BadImage(Exception):
    """What is wrong with one image, to be put after its path: our own words, never an address or another's message."""


def sight_of(model_sees: bool, vision: bool) -> Sight:
    """`model_sees` is `ModelCard.images`, `vision` the setting, which comes first: off, no tower is loaded."""
    if not vision:
        return "off"
    return "sees" if model_sees else "blind"


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image of the message list: where it stands, and its URL, which no log and no error may show (API-207)."""

    message: int
    part: int
    url: str = field(repr=False)

    @property
    def path(self) -> str:
        return f"messages[{self.message}].content[{self.part}].image_url"


class ImageParts:
    """Takes the `image_url` parts of one request as they are met, in order."""

    def __init__(self, sight: Sight = "blind") -> None:
        self._sight = sight
        self._refs: list[ImageRef] = []

    @property
    def refs(self) -> tuple[ImageRef, ...]:
        """The images so far: the one of index i is `refs[i]`."""
        return tuple(self._refs)

    def read(self, part: Mapping[str, Any], message: int, index: int, role: str) -> dict[str, Any]:
        """The part as the template reads it. Raises a 400 that names it; `detail` has no effect."""
        path = f"messages[{message}].content[{index}].image_url"
        if self._sight == "off":
            raise invalid(path, f"{path} is an image, and images are switched off on this server (--vision off)")
        if self._sight == "blind":
            raise invalid(path, f"{path} is an image; this model takes no images, send text parts alone")
        if role in ("system", "developer"):
            raise invalid(path, f"{path} is an image, which a {role} message cannot hold")
        image = as_object(part.get("image_url"), path)
        url = None if image is None else as_str(image.get("url"), f"{path}.url")
        if url is None:
            raise invalid(path, f"{path} must be an object whose url is a string")
        if not is_data_url(url) and url[:6].lower() != "https:":
            raise invalid(path, f"{path}.url must be an https: or a data: URL")
        self._refs.append(ImageRef(message, index, url))
        return {"type": "image", "index": len(self._refs) - 1}


def refusal(ref: ImageRef, bad: BadImage) -> ApiError:
    """400: the image, named by its part, cannot be used."""
    return invalid(ref.path, f"{ref.path} {bad}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """The bounds that the settings put on images."""

    max_images: int = 16
    max_rows: int = 65_536
    max_bytes: int = 20 * 2**20
    max_pixels: int = 64_000_000
    """Of one image, by its header."""
    act_bytes: int = 6 * 2**30
    """Memory that the encoding of one image may take."""

    @classmethod
    def from_settings(cls, settings: Settings) -> ImageLimits:
        return cls(
            max_images=settings.max_images,
            max_rows=settings.max_image_rows,
            max_bytes=settings.image_max_mb * 2**20,
            max_pixels=settings.image_max_decode_pixels,
            act_bytes=int(settings.image_act_gb * 2**30),
        )


def is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def data_url_bytes(url: str, max_bytes: int) -> bytes:
    """The bytes in a `data:image/…;base64,` URL. Raises `BadImage`; what is too large is not decoded."""
    head, comma, payload = url.partition(",")
    head = head.lower()
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise BadImage("must be of the form data:image/…;base64,…")
    if len(payload) // 4 * 3 - payload[-2:].count("=") > max_bytes:
        raise too_large(max_bytes)
    try:
        return binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:  # characters beyond ASCII, and binascii.Error
        raise BadImage("is not valid base64") from None


def too_large(max_bytes: int) -> BadImage:
    return BadImage(f"is larger than {max_bytes:,} bytes; --image-max-mb sets the limit")


def rows_of(width: int, height: int, limits: ImageLimits, geometry: Geometry) -> int:
    """Prompt rows of an image with this header (API-183). Raises `BadImage` for what is not to be decoded."""
    pixels = width * height
    if pixels < 1:
        raise BadImage("has no pixels")
    if pixels > limits.max_pixels:
        raise BadImage(f"has {pixels:,} pixels; --image-max-decode-pixels allows {limits.max_pixels:,}")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise BadImage(f"is more than {MAX_ASPECT} times as long as it is wide")
    across, down = grid(width, height, geometry)
    if across * down * geometry.row_bytes > limits.act_bytes:
        raise BadImage("needs more memory to be read than --image-act-gb allows")
    return across * down


def place_images(messages: Sequence[Mapping[str, Any]], left_out: int) -> tuple[Mapping[str, Any], ...]:
    """The messages to render: a text in the place of the first `left_out` images (API-190). Others are untouched."""
    return tuple(_placed(message, left_out) for message in messages)


def _placed(message: Mapping[str, Any], left_out: int) -> Mapping[str, Any]:
    content = message["content"]
    if isinstance(content, str) or not any(_is_gone(part, left_out) for part in content):
        return message
    parts = [{"type": "text", "text": LEFT_OUT} if _is_gone(part, left_out) else part for part in content]
    if all(part["type"] == "text" for part in parts):
        return {**message, "content": "".join([part["text"] for part in parts])}
    return {**message, "content": parts}


def _is_gone(part: Mapping[str, Any], left_out: int) -> bool:
    return part["type"] == "image" and int(part["index"]) < left_out
