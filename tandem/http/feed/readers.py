"""Who reads a feed at the moment: places by kind, and the way to send everybody away at once.

Readers are tasks of their connections, and each waits for its own feed. A drain cannot wait for them, since they never
end, so it interrupts what they wait for.
"""

from __future__ import annotations

from collections import Counter

import trio

__all__ = ["Place", "Readers"]


class Readers:
    """The readers of one service. Lives on the event loop."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._places: set[Place] = set()
        self.is_leaving = False
        """Whether everybody has been sent away."""

    def count(self, kind: str) -> int:
        """How many read the feed `kind`: `live` or `log`."""
        return self._taken[kind]

    def take(self, kind: str, most: int) -> Place | None:
        """A place among `most`; None where there is none left."""
        if self._taken[kind] >= most:
            return None
        place = Place(self, kind)
        self._taken[kind] += 1
        self._places.add(place)
        return place

    def send_away(self) -> None:
        """Everybody is told that it is over, and so is whoever comes now."""
        self.is_leaving = True
        for place in self._places:
            place.interrupt()

    def leave(self, place: Place) -> None:
        """A place is free again; for the second time it changes nothing."""
        if place in self._places:
            self._places.remove(place)
            self._taken[place.kind] -= 1


class Place:
    """One reader's place. Must be closed."""

    def __init__(self, readers: Readers, kind: str) -> None:
        self._readers = readers
        self._scope: trio.CancelScope | None = None
        self.kind = kind

    @property
    def is_over(self) -> bool:
        return self._readers.is_leaving

    def waits(self, until: float) -> trio.CancelScope:
        """A scope that ends at `until`, on trio's clock, or once everybody is sent away."""
        self._scope = trio.CancelScope(deadline=until)
        if self.is_over:
            self._scope.cancel()
        return self._scope

    def interrupt(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def aclose(self) -> None:
        """Never waits."""
        self._readers.leave(self)
