"""The memory keeper: admits a request to its prefill while the worst case of all in flight fits (SCH-071 to SCH-076).

Owns: the reservations, the floor, who waits for memory. Wired where there are side slots. Alone in flight a request
always passes; the engine's own gate applies to it as ever (SCH-074).

| message in | from | answer or effect                                                                     |
|------------|------|--------------------------------------------------------------------------------------|
| `Reserve`  | slot | `Admitted` or `Short` on `reply`; asked again after a second by who was short        |
| `Release`  | slot | the prompt is read: the reservation is back, the request stays in flight             |
| `Gone`     | slot | the request has ended, however it did                                                |
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.watchdog import MemorySeen, WatchdogMessage
from tandem.engine.memory import GIB

if TYPE_CHECKING:
    from tandem.engine.caches.caching import MemoryView

__all__ = ["Admitted", "Gone", "MemoryKeeper", "MemoryMessage", "Release", "Reserve", "Short", "missing"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admitted:
    alone: bool
    """Nothing else was in flight (SCH-112)."""


@dataclass(frozen=True, slots=True)
class Short:
    missing: int
    """Bytes."""
    position: int = 1
    """Among those who wait for memory: they are admitted in the order they first asked."""


@dataclass(frozen=True, slots=True)
class Reserve:
    slot: int
    request_id: str
    need: int
    """Bytes: `engine.worst_case` of the request."""
    reply: Reply[Admitted | Short]


@dataclass(frozen=True, slots=True)
class Release:
    slot: int


@dataclass(frozen=True, slots=True)
class Gone:
    slot: int


MemoryMessage: TypeAlias = Reserve | Release | Gone


def missing(*, available: int, growth: int, reserved: int, own: int, room: int | None, floor: int) -> int:
    """Bytes that a request beside others lacks; 0: it is admitted (SCH-072).

    `growth` is what caches may still grow into, `reserved` what others may still take, `room` what is left to the
    declared peak, above which the engine takes nothing; None where no peak is declared.
    """
    taken = growth + reserved + own
    if room is not None:
        taken = min(taken, room)
    return max(0, floor - (available - taken))


@dataclass(frozen=True, slots=True)
class _Waiter:
    request_id: str
    need: int
    since: float


class MemoryKeeper(Actor[MemoryMessage]):
    """`available` and `view` are asked at every decision; where `available` does not know, everybody is admitted."""

    name = "memory"

    def __init__(
        self,
        *,
        available: Callable[[], int | None],
        view: Callable[[], MemoryView],
        floor: int,
        watchdog: Ref[WatchdogMessage],
    ) -> None:
        super().__init__()
        self._available = available
        self._view = view
        self._floor = floor
        self._watchdog = watchdog
        self._held: dict[int, int] = {}
        """Slots in flight and the bytes reserved for each, 0 once the prompt is read."""
        self._waiters: dict[int, _Waiter] = {}
        """Slots that were short, in the order they first asked."""
        self._waits = 0
        self._reported: MemorySeen | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._report()
        task_status.started()
        async for message in self.inbox:
            self._take(message)
            self._report()

    def _take(self, message: MemoryMessage) -> None:
        match message:
            case Reserve():
                self._reserve(message)
            case Release(slot):
                if slot in self._held:
                    self._held[slot] = 0
            case Gone(slot):
                self._held.pop(slot, None)
                if (waiter := self._waiters.pop(slot, None)) is not None:
                    log.info("[memory] %s waits no more, after %s", waiter.request_id, _since(waiter))
            case _:
                assert_never(message)

    def _reserve(self, asked: Reserve) -> None:
        ahead = self._ahead_of(asked.slot)
        alone = not self._held and not ahead
        short = 0 if alone else self._missing(asked.need, sum(waiter.need for waiter in ahead))
        if short:
            self._note_wait(asked, short)
            asked.reply.send(Short(short, len(ahead) + 1))
        elif asked.reply.send(Admitted(alone)):
            self._held[asked.slot] = asked.need
            if (waiter := self._waiters.pop(asked.slot, None)) is not None:
                log.info("[memory] %s admitted%s after %s", asked.request_id, " alone" if alone else "", _since(waiter))

    def _ahead_of(self, slot: int) -> list[_Waiter]:
        """Who asked earlier and waits still: what they need is as good as taken, else the small would starve them."""
        slots = list(self._waiters)
        return list(self._waiters.values())[: slots.index(slot) if slot in slots else None]

    def _missing(self, own: int, ahead: int) -> int:
        if (available := self._available()) is None:
            return 0
        view = self._view()
        return missing(
            available=available,
            growth=0 if view.ceiling is None else max(0, view.ceiling - view.reserved),
            reserved=sum(self._held.values()) + ahead,
            own=own,
            room=None if view.peak is None else max(0, view.peak - view.reserved),
            floor=self._floor,
        )

    def _note_wait(self, asked: Reserve, short: int) -> None:
        if asked.slot in self._waiters:
            return
        self._waiters[asked.slot] = _Waiter(asked.request_id, asked.need, trio.current_time())
        self._waits += 1
        beside = len(self._held)
        log.info("[memory] %s waits: %.2f GiB short beside %d in flight", asked.request_id, short / GIB, beside)

    def _report(self) -> None:
        seen = MemorySeen(
            reserved=sum(self._held.values()), floor=self._floor, available=self._available(), waits=self._waits
        )
        if seen != self._reported and self._watchdog.offer(seen):
            self._reported = seen

    def __repr__(self) -> str:
        return f"<MemoryKeeper reserved {self._held}, waiting {list(self._waiters)}>"


def _since(waiter: _Waiter) -> str:
    return f"{trio.current_time() - waiter.since:.1f} s"
