"""How much of a holder's time the lane may take (SCH-045). Plain decisions over the times it is given, in seconds.

A lane job may begin while those before it have had less than a tenth of the last ten seconds. One that took longer than
that share counts for ten times its length, so that in the long run too the holder has nine tenths of its time.
"""

from __future__ import annotations

from collections import deque

__all__ = ["LaneShare"]

WINDOW_S = 10.0
SHARE = 0.1


class LaneShare:
    """The loans whose time still counts."""

    def __init__(self) -> None:
        self._loans: deque[tuple[float, float]] = deque()  # (counts until, length)

    def count(self, begun: float, ended: float) -> None:
        """A loan is over."""
        length = ended - begun
        self._loans.append((max(ended + WINDOW_S, begun + length / SHARE), length))

    def allows(self, now: float) -> bool:
        """Whether another may begin."""
        self._loans = deque(loan for loan in self._loans if loan[0] > now)
        return sum(length for _, length in self._loans) < SHARE * WINDOW_S
