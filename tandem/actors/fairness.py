"""Who gets the GPU turn: fair sharing by device time, as a completely fair CPU scheduler does it (SCH-058, SCH-059).

Plain decisions over the times it is given. Seconds throughout.
1. The waiting slot with the least device time goes next; ties by slot number.
2. A slot that comes back from idling starts at the least time among the busy ones, or where that stood when the last
   of them stopped: idling saves nothing up.
3. A waiting slot that only ends its request goes before all others, and the holder is recalled at once.
4. The holder is recalled once it is a quantum ahead of the waiting slot with the least time. Slots that hold the turn
   together go on in the same way until another is a quantum behind them; each is charged its part of the time.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["FairShare"]


class FairShare:
    """Device time per slot, who holds the turn, who waits."""

    def __init__(self, quantum_s: float) -> None:
        self._quantum = quantum_s
        self._used: dict[int, float] = {}
        self._waiting: set[int] = set()
        self._urgent: set[int] = set()
        self._holders: frozenset[int] = frozenset()
        self._since = 0.0
        self._floor = 0.0
        """The least time among the busy slots; never falls."""

    @property
    def holder(self) -> int | None:
        """Who holds the turn; of several the lowest number."""
        return min(self._holders, default=None)

    @property
    def holders(self) -> frozenset[int]:
        return self._holders

    def want(self, slot: int, now: float) -> None:
        """`slot` waits for the turn; one that holds it will go on after it has given it up."""
        self._raise_floor(now)
        if slot not in self._holders:
            self._used[slot] = max(self._used.get(slot, 0.0), self._floor)
        self._waiting.add(slot)

    def hurry(self, slot: int) -> None:
        """`slot`, if it waits, goes next."""
        self._urgent |= {slot} & self._waiting

    def withdraw(self, slot: int) -> None:
        """`slot` waits no more."""
        self._waiting.discard(slot)
        self._urgent.discard(slot)

    def give_up(self, slot: int, now: float) -> None:
        """The holder returns the turn; from anybody else, or one of several, this has no effect."""
        if self._holders == {slot}:
            self.release(now)

    def release(self, now: float) -> None:
        """The turn is free."""
        self._raise_floor(now)
        for slot in self._holders:
            self._used[slot] = self._time(slot, now)
        self._holders = frozenset()

    def first(self, together: Collection[int] = ()) -> int | None:
        """The slot whose turn it would be now, or None while it is held or nobody waits.

        `together` are the slots that have just held it and would go on.
        """
        if self._holders or not self._waiting:
            return None
        slot = min(self._waiting, key=self._rank)
        staying = [each for each in together if each in self._waiting]
        if slot in self._urgent or slot in staying or not staying:
            return slot
        ahead = min(staying, key=self._rank)
        return slot if self._used[slot] + self._quantum <= self._used[ahead] else ahead

    def hold(self, slots: Collection[int], now: float) -> None:
        """The turn is `slots`', which wait for it."""
        self._waiting -= set(slots)
        self._urgent -= set(slots)
        self._holders, self._since = frozenset(slots), now

    def grant(self, now: float) -> int | None:
        """The slot that gets the turn now, or None while it is held or nobody waits."""
        if (slot := self.first()) is not None:
            self.hold((slot,), now)
        return slot

    def recall_at(self) -> float | None:
        """When the holder is to be told to give the turn back; None while nobody waits, or for a round of several."""
        if len(self._holders) != 1 or not self._waiting:
            return None
        if self._urgent:
            return self._since
        [holder] = self._holders
        least = min(self._used[waiting] for waiting in self._waiting)
        return self._since + max(0.0, least + self._quantum - self._used[holder])

    def seconds(self) -> dict[int, float]:
        """Device time per slot, the running hold not counted."""
        return dict(self._used)

    def _rank(self, slot: int) -> tuple[bool, float, int]:
        return slot not in self._urgent, self._used[slot], slot

    def _raise_floor(self, now: float) -> None:
        least = min((self._time(slot, now) for slot in self._waiting | self._holders), default=0.0)
        self._floor = max(self._floor, least)

    def _time(self, slot: int, now: float) -> float:
        running = (now - self._since) / len(self._holders) if slot in self._holders else 0.0
        return self._used[slot] + running
