"""One who watches the live view: the newest event, and how many were made that it never took (OBS-061)."""

from __future__ import annotations

from dataclasses import dataclass

import trio

__all__ = ["LiveEvent", "Reader"]


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """A document as JSON, encoded once for all readers."""

    seq: int
    data: bytes
    lost: int
    """Events between this one and the reader's last that it was too slow for."""


class Reader:
    """The hub puts, one task takes. Holds at most one event: a newer one replaces it."""

    def __init__(self) -> None:
        self._event: tuple[int, bytes] | None = None
        self._lost = 0
        self._has_ended = False
        self._changed = trio.Event()
        self.is_new = True
        """Whether it has taken nothing yet: what it takes first has history."""

    async def next(self) -> LiveEvent:
        """The next event; the first has history. Raises `trio.EndOfChannel` once the hub has let the reader go."""
        await trio.lowlevel.checkpoint()
        while self._event is None:
            if self._has_ended:
                raise trio.EndOfChannel
            self._changed = trio.Event()
            await self._changed.wait()
        (seq, data), self._event = self._event, None
        lost, self._lost = self._lost, 0
        self.is_new = False
        return LiveEvent(seq, data, lost)

    def put(self, seq: int, data: bytes) -> None:
        """The hub's newest event; with history as long as the reader is new."""
        if self._event is not None and not self.is_new:
            self._lost += 1
        self._event = seq, data
        self._changed.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._has_ended = True
        self._changed.set()
