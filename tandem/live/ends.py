"""The requests that have ended: their rows for a while, the newest for longer, and how many there were. No clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tandem.store.outcome import Outcome

__all__ = ["Ends"]

ENDED_S = 30.0
ENDED_SHOWN = 50
"""Rows of ended requests that an event holds at most: refusals may come by the hundred."""
RECENT_S = 900.0
RECENT_SHOWN = 20
MINUTE_S = 60
GOOD_ENDS = ("stop", "length", "tool_calls")


@dataclass(frozen=True, slots=True)
class _Kept:
    """Something encoded, and when it ended."""

    ended_at: float
    data: msgspec.Raw


class Ends:
    def __init__(self) -> None:
        self._rows: deque[_Kept] = deque(maxlen=ENDED_SHOWN)
        self._recent: deque[_Kept] = deque(maxlen=RECENT_SHOWN)
        self._good: deque[tuple[int, int]] = deque()  # (second, good ends in it)
        self.served = self.errors = self.refused = 0

    @property
    def rows(self) -> Iterator[msgspec.Raw]:
        """The newest first, as are the recent ones."""
        return (kept.data for kept in self._rows)

    @property
    def recent(self) -> Iterator[msgspec.Raw]:
        return (kept.data for kept in self._recent)

    @property
    def good_in_a_minute(self) -> int:
        return sum(count for _, count in self._good)

    def add(self, outcome: Outcome, row: msgspec.Raw, recent: msgspec.Raw, now: float) -> None:
        self._rows.appendleft(_Kept(now, row))
        self._recent.appendleft(_Kept(now, recent))
        if outcome.finish_reason in GOOD_ENDS:
            self.served += 1
            self._add_good(math.floor(now))
        elif outcome.finish_reason == "error":
            self.errors += 1
        elif outcome.finish_reason == "refused":
            self.refused += 1

    def forget(self, now: float) -> None:
        """What has been shown long enough."""
        for kept, for_s in ((self._rows, ENDED_S), (self._recent, RECENT_S)):
            while kept and now - kept[-1].ended_at > for_s:
                kept.pop()
        while self._good and self._good[0][0] <= now - MINUTE_S:
            self._good.popleft()

    def _add_good(self, second: int) -> None:
        if self._good and self._good[-1][0] == second:
            self._good[-1] = (second, self._good[-1][1] + 1)
        else:
            self._good.append((second, 1))
