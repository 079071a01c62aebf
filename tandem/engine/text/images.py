"""The images of a conversation as a prompt takes them: pixels, and how many rows each has."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["NO_IMAGES", "LoadedImages", "Picture"]


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
