"""What a completion request's exchange tells its handler, event by event, and what it notes on the way for the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tandem.actors.outbox import Deltas, Item, LaneEnded, LaneServed, MemoryWait
from tandem.actors.queue import Reason

__all__ = ["Course", "End", "Event", "Output", "Prefilling", "Silence", "Waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Still waiting: position (1 is next), seconds since arrival, why, and how much longer where that can be told."""

    position: int
    waited_s: float
    reason: Reason = "running"
    estimate_s: float | None = None
    missing: int = 0
    """Bytes of memory that are short, where that is the reason."""
    is_due: bool = True
    """A comment is due; else only a line may be."""


@dataclass(frozen=True, slots=True)
class Prefilling:
    """Prompt rows read so far, and all; the image that is read next, and of how many."""

    done: int
    total: int
    image: tuple[int, int] | None
    is_due: bool = True
    """A heartbeat is due; else only a line may be."""
    for_turn: bool = True
    """Else it is read for a question ahead of the turn, which has no line (STA-029)."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has gone to the client for a while."""


@dataclass(frozen=True, slots=True)
class Output:
    """Batches in the order they were made; what they hold goes out in one write."""

    batches: list[Deltas]


@dataclass(frozen=True, slots=True)
class End:
    """The slot has finished with the request."""


Event: TypeAlias = Waiting | Prefilling | Silence | Output | End


@dataclass(slots=True)
class Course:
    """What became of a request's waits and of its place, as far as it is known (SCH-105)."""

    slot: int | None = None
    """Index of the slot that was granted, or that lends."""
    lane: str | None = None
    """`decode`, `prefill` or `self` of a lane guest."""
    lent_s: float | None = None
    """How long the holder stood still for the guest."""
    wait_own_s: float = 0.0
    """The wait with own work alone before it (SCH-037)."""
    wait_mem_s: float = 0.0
    missing: int = 0
    """Bytes of memory that are short now; 0 once it is admitted."""
    position: int = 1
    """Among those who wait for memory."""

    def note(self, item: Item) -> None:
        """Take what an item of the outbox tells of this."""
        match item:
            case MemoryWait(missing, waited_s, position):
                self.missing, self.wait_mem_s, self.position = missing, waited_s, position
            case LaneServed(lane):
                self.lane = lane
            case LaneEnded(lent_s):
                self.lent_s = lent_s
            case _:
                pass

    @property
    def is_lent(self) -> bool:
        """A guest whose lane is not given back, as far as is known."""
        return self.lane is not None and self.lent_s is None
