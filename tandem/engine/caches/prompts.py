"""How long the last prompts of the newest conversations were, for whoever asks which slot one goes on in (SCH-051)."""

from __future__ import annotations

from collections import deque

from tandem.engine.caches.copies import Held

__all__ = ["Prompts"]

_NEWEST = 4
"""One in the buffer, one under a guest, and those that may come back."""


class Prompts:
    """Conversations are told apart by the very tuple of their ids, which nobody copies."""

    def __init__(self) -> None:
        self._asked = 0
        self._left: deque[tuple[tuple[int, ...], int]] = deque(maxlen=_NEWEST)

    def asked(self, rows: int) -> None:
        """A prompt of so many rows begins."""
        self._asked = rows

    def left(self, held: Held) -> None:
        """Its sequence has ended, and this is in the buffer."""
        self._left.append((held[0], min(self._asked, len(held[0]))))

    def of(self, held: Held) -> int:
        """Of one that came back from a file nobody knows: its last line of bit class is in its prompt, at any rate."""
        ids, anchors = held
        for known, rows in tuple(self._left):
            if known is ids:
                return rows
        return max((anchor.row for anchor in anchors if anchor.exactness == "bit"), default=0)
