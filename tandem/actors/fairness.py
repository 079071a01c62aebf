"""Who gets the GPU turn: fair sharing by device time, as a completely fair CPU scheduler does it (SCH-058, SCH-059).

Plain decisions over the times it is given. Seconds throughout.
1. The waiting slot with the least device time goes next; ties by slot number.
2. A slot that comes back from idling starts at the least time among the busy ones, or where that stood when the last
   of them stopped: idling saves nothing up.
3. The holder is recalled once it is a quantum ahead of the waiting slot with the least time.
"""

from __future__ import annotations

__all__ = ["FairShare"]


class FairShare:
    """Device time per slot, who holds the turn, who waits."""

    def __init__(self, quantum_s: float) -> None:
        self._quantum = quantum_s
        self._used: dict[int, float] = {}
        self._waiting: set[int] = set()
        self._holder: int | None = None
        self._since = 0.0
        self._floor = 0.0
        """The least time among the busy slots; never falls."""

    @property
    def holder(self) -> int | None:
        return self._holder

    def want(self, slot: int, now: float) -> None:
        """`slot` waits for the turn."""
        self._raise_floor(now)
        self._used[slot] = max(self._used.get(slot, 0.0), self._floor)
        self._waiting.add(slot)

    def give_up(self, slot: int, now: float) -> None:
        """The holder returns the turn; from anybody else this has no effect."""
        if slot == self._holder:
            self._raise_floor(now)
            self._used[slot] = self._time(slot, now)
            self._holder = None

    def grant(self, now: float) -> int | None:
        """The slot that gets the turn now, or None while it is held or nobody waits."""
        if self._holder is not None or not self._waiting:
            return None
        slot = min(self._waiting, key=lambda waiting: (self._used[waiting], waiting))
        self._waiting.discard(slot)
        self._holder, self._since = slot, now
        return slot

    def recall_at(self) -> float | None:
        """When the holder is to be told to give the turn back; None while nobody waits."""
        if self._holder is None or not self._waiting:
            return None
        least = min(self._used[waiting] for waiting in self._waiting)
        return self._since + max(0.0, least + self._quantum - self._used[self._holder])

    def seconds(self) -> dict[int, float]:
        """Device time per slot, the running hold not counted."""
        return dict(self._used)

    def _raise_floor(self, now: float) -> None:
        busy = self._waiting if self._holder is None else {*self._waiting, self._holder}
        least = min((self._time(slot, now) for slot in busy), default=0.0)
        self._floor = max(self._floor, least)

    def _time(self, slot: int, now: float) -> float:
        running = now - self._since if slot == self._holder else 0.0
        return self._used[slot] + running
