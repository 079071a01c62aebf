"""What a codec was fed, piece by piece: a block's text is asked for where it ends, however much stands before it."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Fed"]


class Fed:
    """A call costs the pieces that it takes."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._starts: list[int] = []
        self._length = 0

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self._starts.append(self._length)
        self._length += len(piece)

    def from_on(self, start: int) -> str:
        """The text from this offset on."""
        return self.between(start, self._length)

    def between(self, start: int, end: int) -> str:
        """The text from offset `start` up to `end`."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = bisect_right(self._starts, end)
        if first >= last:
            return ""
        base = self._starts[first]
        return "".join(self.pieces[first:last])[start - base : end - base]
