"""The images of a conversation as a prompt takes them: pixels, their grids, and how many rows each has.

No tensor library here: what is cut from pixels is opaque to everybody but the tower that reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["NO_IMAGES", "Geometry", "ImageReader", "LoadedImages", "Patches", "Picture", "PromptImage", "grid"]


@dataclass(frozen=True, slots=True)
class Picture:
    """Upright RGB pixels: `rgb` holds height * width * 3 bytes, row by row."""

    width: int
    height: int
    rgb: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoadedImages:
    """The oldest `left_out` images are left out; the others follow in order, with their prompt rows."""

    left_out: int = 0
    pictures: tuple[Picture, ...] = ()
    rows: tuple[int, ...] = ()

    def rows_of(self, index: int) -> int:
        """Prompt rows of the image that message parts call `index`, which is none of those left out."""
        return self.rows[index - self.left_out]


NO_IMAGES = LoadedImages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How a vision tower reads images; the defaults are those of the Qwen 27B tower (ENG-098)."""

    patch: int = 16
    """Side of a patch in pixels."""
    merge: int = 2
    """Patches along each side of a merged patch, which is one prompt row."""
    min_pixels: int = 65_536
    max_pixels: int = 16_777_216
    """An image is resized to have at least and at most this many."""
    row_bytes: int = 222_823
    """Memory that encoding takes for each row: 3.4 GiB at the largest image's 16,384 rows (ENG-102)."""

    @property
    def side(self) -> int:
        """Side of a merged patch in pixels."""
        return self.patch * self.merge

    @property
    def most_rows(self) -> int:
        """Rows of the largest image."""
        return max(1, self.max_pixels // self.side**2)


def grid(width: int, height: int, geometry: Geometry) -> tuple[int, int]:
    """Merged patches across and down for an image of these pixels.

    Each side is rounded to whole merged patches; an image beyond the bounds on pixels is scaled by one factor first
    and then rounded inwards. That is Qwen2-VL's resize, from which the towers' grids come. A side that is rounded to
    nothing makes an image of no pixels, which is below the least.
    """
    side = geometry.side
    across, down = (round(length / side) for length in (width, height))
    pixels = across * down * side**2
    if pixels > geometry.max_pixels:
        scale = math.sqrt(width * height / geometry.max_pixels)
        across, down = (max(1, math.floor(length / scale / side)) for length in (width, height))
    elif pixels < max(1, geometry.min_pixels):
        scale = math.sqrt(max(1, geometry.min_pixels) / (width * height))
        across, down = (math.ceil(length * scale / side) for length in (width, height))
    return across, down


@dataclass(frozen=True, slots=True)
class Patches:
    """An image as the tower takes it."""

    across: int
    """Merged patches, each of which is a prompt row; row by row from the top left."""
    down: int
    digest: bytes
    """Of the pixels that were cut and of how: equal digests are equal patches."""
    pixels: Any = field(repr=False, compare=False)
    """The tower's own form."""

    @property
    def rows(self) -> int:
        return self.across * self.down


class ImageReader(Protocol):
    """Cuts pixels into a tower's patches, on any thread."""

    @property
    def geometry(self) -> Geometry: ...

    def cut(self, picture: Picture) -> Patches: ...


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image in a prompt: its rows begin at row `start`."""

    start: int
    patches: Patches

    @property
    def stop(self) -> int:
        return self.start + self.patches.rows

    @property
    def key(self) -> int:
        """What stands for each of its rows where prompts are compared by content (ENG-100): below every token id."""
        return -1 - int.from_bytes(self.patches.digest)
