"""Rates of a count that grows: tokens a second over the last moments. Plain arithmetic, no clock."""

from __future__ import annotations

from collections import deque

__all__ = ["Meter"]

WINDOW_S = 2.0
"""Long enough that a round of several tokens does not make the figure jump, short enough to follow what happens."""
LEAST_S = 0.2
"""A rate over less would say little."""


class Meter:
    """The count at the moments at which it was looked at, as far back as the window goes."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._points

    def add(self, now: float, count: int) -> None:
        """The count stands at `count` now."""
        points = self._points
        if points and points[-1][0] >= now:
            points.pop()
        points.append((now, count))
        while len(points) > 2 and points[1][0] <= now - WINDOW_S:
            points.popleft()

    def restart(self, now: float, count: int) -> None:
        """Forget what was: nothing has happened for a while."""
        self._points.clear()
        self._points.append((now, count))

    @property
    def gain(self) -> int:
        """What came within the window."""
        return self._points[-1][1] - self._points[0][1] if self._points else 0

    @property
    def rate(self) -> float | None:
        """A second; None before there is enough to tell."""
        if not self._points:
            return None
        spent = self._points[-1][0] - self._points[0][0]
        return self.gain / spent if spent >= LEAST_S else None
