"""The memory gate: what is asked before every prefill and before a cache grows (ENG-125 to ENG-129).

No memory is touched here but through the allocator and the levels that are handed in, so all of it is tested with a
simulated one. *Reserved* is what the allocator has taken from the device, *allocated* what is in use of that; the
difference are free blocks, which fit a workspace but no other process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from tandem.engine.caches.budget import Limits
from tandem.engine.memory import GIB

__all__ = ["EVENTS", "ORDER", "Allocator", "Event", "Level", "MemoryGate", "Refused"]

ORDER: Final = ("state_store", "grid_anchors", "end_anchor", "stash", "parked", "pinned", "role_pools")
"""What is given up first: what helps other conversations before what helps this one's next turn."""
EVENTS: Final = 200
"""How many of the newest events are kept for the memory view."""
RETRY_AFTER: Final = 10
"""Seconds after which a refused client may ask again (API-199)."""


class Allocator(Protocol):
    """Where memory comes from."""

    def reserved(self) -> int: ...

    def allocated(self) -> int: ...

    def pooled(self) -> int:
        """Free blocks that belong to a role's pool and serve nobody else (ENG-128)."""

    def empty_cache(self) -> None:
        """Give free segments back."""

    def collect(self) -> None:
        """Collect garbage: a cycle may hold tensors."""


@dataclass(frozen=True, slots=True)
class Level:
    """One cache as the gate sees it. `shed` gives up at least so many bytes where it has them, and says how many.

    What is in use is never among them: a stash whose guest runs, the rows of the running request.
    """

    name: str
    shed: Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the memory view shows."""

    kind: Literal["shed", "stale_admit", "refuse"]
    at: float
    need: int
    reserved: int
    allocated: int
    shed: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each level that gave up some."""


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no room for a prompt; `str` of it is the line for the log (ENG-127)."""

    allocated: int
    reserved: int
    need: int
    peak: int
    in_a_row: int
    retry_after: int = RETRY_AFTER

    def __str__(self) -> str:
        parts = {"allocated": self.allocated, "reserved": self.reserved, "need": self.need, "peak": self.peak}
        told = ", ".join(f"{name} {count / GIB:.2f} GiB" for name, count in parts.items())
        return f"no memory for a prompt: {told}; refused {self.in_a_row} in a row"


class MemoryGate:
    """The policy over one allocator. `levels` are those that there are, in any order."""

    def __init__(self, limits: Limits, allocator: Allocator, levels: tuple[Level, ...] = ()) -> None:
        self.limits = limits
        self._allocator = allocator
        self._levels = sorted(levels, key=lambda level: ORDER.index(level.name))
        self._refusals = 0
        self.sheds = 0
        """Times that a level gave up some."""
        self.events: deque[Event] = deque(maxlen=EVENTS)

    def settle(self, now: float) -> None:
        """Between two requests: bring what is reserved under the ceiling."""
        self._make_room(0, self.limits.ceiling, now)

    def admit(self, need: int, now: float) -> Refused | None:
        """Before a prefill whose workspace takes `need` bytes: None, and it may run; caches are given up as needed."""
        self.settle(now)
        fits = self._make_room(need, self.limits.peak, now)
        if not fits:
            # A last chance: garbage may hold tensors that no level knows of.
            self._allocator.collect()
            self._allocator.empty_cache()
            fits = self._over(need, self.limits.peak) <= 0
        if not fits and need <= self._free_blocks():
            # The workspace goes into blocks that are held already: nothing more is reserved.
            self._note("stale_admit", need, now)
            fits = True
        if fits:
            self._refusals = 0
            return None
        self._refusals += 1
        self._note("refuse", need, now)
        reserved, allocated = self._allocator.reserved(), self._allocator.allocated()
        return Refused(allocated, reserved, need, self.limits.peak, self._refusals)

    def may_grow(self, nbytes: int) -> bool:
        """Whether a cache may take so many bytes more. A no means that it does not store."""
        reserved = self._allocator.reserved()
        growth = max(nbytes - self._free_blocks(), 0)
        return reserved + growth <= self.limits.ceiling

    def _make_room(self, need: int, limit: int, now: float) -> bool:
        """Give up one level after the other until `need` more bytes stay within `limit`; whether they do."""
        if self._over(need, limit) <= 0:
            return True
        self._allocator.empty_cache()
        shed = {}
        for level in self._levels:
            if (over := self._over(need, limit)) <= 0:
                break
            if given := level.shed(over):
                shed[level.name] = given
                self._allocator.empty_cache()
        if shed:
            self.sheds += 1
            self._note("shed", need, now, shed)
        return self._over(need, limit) <= 0

    def _over(self, need: int, limit: int) -> int:
        return self._allocator.reserved() + need - limit

    def _free_blocks(self) -> int:
        return self._allocator.reserved() - self._allocator.allocated() - self._allocator.pooled()

    def _note(
        self,
        kind: Literal["shed", "stale_admit", "refuse"],
        need: int,
        now: float,
        shed: Mapping[str, int] | None = None,
    ) -> None:
        allocator = self._allocator
        self.events.append(Event(kind, now, need, allocator.reserved(), allocator.allocated(), shed or {}))
