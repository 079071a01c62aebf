"""The outbox of a request: what its slot hands over, bounded so that a slow client never holds the engine (SCH-063).

The slot puts without waiting; the request's task takes. The client counts as gone when the oldest batch has waited
`stall_s`, when `max_bytes` are queued, or when `max_batches` are. Not an actor: a channel with two more bounds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

import trio

from tandem.engine.text.reading.deltas import CallArguments, Content, Delta, Line, Reasoning

__all__ = [
    "Deltas",
    "Item",
    "Kept",
    "LaneEnded",
    "LaneServed",
    "MemoryWait",
    "NoMemory",
    "Outbox",
    "PrefillProgress",
    "weight",
]

MAX_BATCHES = 4096
MAX_BYTES = 4 * 1024 * 1024
DELTA_BYTES = 64
"""What a delta weighs besides its text, roughly."""
WITH_TEXT = (Content, Reasoning, CallArguments, Line)


@dataclass(frozen=True, slots=True)
class Deltas:
    """What one piece of work gave the client: one batch, one write."""

    choice: int
    deltas: list[Delta]


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Prompt rows read so far, and all; and of the images the one that is read next, and how many (ENG-098)."""

    done: int
    total: int
    image: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class NoMemory:
    """There is no memory to read the prompt with (API-199); nothing else of the request comes."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class MemoryWait:
    """The request waits for memory that others hold (SCH-073): `missing` bytes; 0 once it is admitted."""

    missing: int
    waited_s: float
    position: int = 1
    """Among those who wait for memory."""


@dataclass(frozen=True, slots=True)
class LaneServed:
    """A lane guest begins: at a safe point of a holder's decode or prefill, or by itself (SCH-046)."""

    lane: Literal["decode", "prefill", "self"]


@dataclass(frozen=True, slots=True)
class LaneEnded:
    """A lane guest has ended, and delayed the holder by this much."""

    lent_s: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A run with `keeps` has ended, and the slot waits for the request's next one: the grant is still its own."""


Item: TypeAlias = Deltas | PrefillProgress | NoMemory | MemoryWait | LaneServed | LaneEnded | Kept


class Outbox:
    """One slot writes, one request's task reads."""

    def __init__(self, *, stall_s: float, max_batches: int = MAX_BATCHES, max_bytes: int = MAX_BYTES) -> None:
        self._send, self._receive = trio.open_memory_channel[Item](max_batches)
        self._waiting: deque[tuple[float, int]] = deque()  # (put at, bytes) of each item in the channel
        self._bytes = 0
        self._stall_s = stall_s
        self._max_bytes = max_bytes

    def put(self, item: Item, now: float) -> bool:
        """Hand over an item. False: the client is gone or too slow, and the request is over."""
        size = weight(item)
        stalled = bool(self._waiting) and now - self._waiting[0][0] >= self._stall_s
        if stalled or self._bytes + size > self._max_bytes:
            return False
        try:
            self._send.send_nowait(item)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        self._waiting.append((now, size))
        self._bytes += size
        return True

    def finish(self) -> None:
        """The slot's end: the reader sees the end once it has taken what is queued."""
        self._send.close()

    async def take(self) -> Item | None:
        """The next item; None when the slot has finished."""
        try:
            item = await self._receive.receive()
        except trio.EndOfChannel:
            return None
        self._taken()
        return item

    def take_nowait(self) -> Item | None:
        """An item that is already there, or None."""
        try:
            item = self._receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None
        self._taken()
        return item

    def _taken(self) -> None:
        self._bytes -= self._waiting.popleft()[1]

    def __repr__(self) -> str:
        return f"<Outbox {len(self._waiting)} batches, {self._bytes} bytes>"


def weight(item: Item) -> int:
    """Bytes that an item takes, roughly."""
    match item:
        case Deltas(_, deltas):
            return sum(
                DELTA_BYTES + (len(delta.text.encode()) if isinstance(delta, WITH_TEXT) else 0) for delta in deltas
            )
        case PrefillProgress() | NoMemory() | MemoryWait() | LaneServed() | LaneEnded() | Kept():
            return DELTA_BYTES
