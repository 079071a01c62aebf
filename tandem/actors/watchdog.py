"""The watchdog: keeps the last snapshot of every actor, counts what ended, and flags what stands still.

Owns: snapshots, counts, the measured lag of the event loop. Waits for no slot and repairs nothing (SCH-098, SCH-101);
`/health` is answered from here alone, so it never waits for a generation.

| message in  | from         | answer or effect                         |
|-------------|--------------|------------------------------------------|
| `QueueSeen` | queue        | kept                                     |
| `SlotSeen`  | slot         | kept; the slot has reached a safe point  |
| `Counted`   | request task | counted                                  |
| `Look`      | `/health`    | `Sight` on `reply`                       |
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Ref, Reply

__all__ = ["Counted", "Look", "Phase", "QueueSeen", "Sight", "SlotSeen", "Watchdog", "WatchdogMessage"]

log = logging.getLogger(__name__)

Phase: TypeAlias = Literal["idle", "prefilling", "writing"]

TICK_S = 1.0
"""How often the loop's lag is measured."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    waiting: int
    running: int
    draining: bool
    line: tuple[str, ...] = ()
    """The first who wait, the next to be granted first."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    slot: int
    phase: Phase
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A completion request has ended: its status and finish reason, and the error's code where it has one."""

    status: int
    finish_reason: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Sight:
    """What /health shows of the running service."""

    waiting: int
    running: int
    draining: bool
    served: int
    refused: Mapping[str, int]
    errors: int
    timeouts: int
    abandoned: int
    slots: Mapping[int, Phase]
    stuck: Sequence[str]
    """Names of actors and slots that stand still, `queue` when requests wait with nothing running."""
    loop_lag_ms: float
    """The worst lag of the event loop between the last two sweeps."""


@dataclass(frozen=True, slots=True)
class Look:
    reply: Reply[Sight]


WatchdogMessage: TypeAlias = QueueSeen | SlotSeen | Counted | Look


@dataclass(slots=True)
class _Watched:
    """An actor's inbox as the last sweep saw it."""

    handled: int
    unmoved_since: float


class Watchdog(Actor[WatchdogMessage]):
    name = "watchdog"
    essential = False
    inbox_size = 1024

    def __init__(self, *, sweep_s: float, stuck_s: float) -> None:
        super().__init__()
        self._sweep_s = sweep_s
        self._stuck_s = stuck_s
        self._queue = QueueSeen(0, 0, False)
        self._slots: dict[int, SlotSeen] = {}
        self._safe_points: dict[int, float] = {}
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._refs: list[Ref[Any]] = []
        self._watched: dict[str, _Watched] = {}
        self._waiting_alone_since: float | None = None
        self._stuck: tuple[str, ...] = ()
        self._lag = 0.0
        self._lag_shown = 0.0

    def watch(self, ref: Ref[Any]) -> None:
        """Wiring, before `run`: flag this actor when its inbox stands still."""
        self._refs.append(ref)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        tick_at = trio.current_time() + TICK_S
        sweep_at = trio.current_time() + self._sweep_s
        while True:
            message: WatchdogMessage | None = None
            with trio.move_on_at(tick_at):
                message = await self.inbox.receive()
            if message is not None:
                self._take(message, trio.current_time())
                continue
            now = trio.current_time()
            self._lag = max(self._lag, now - tick_at)
            if now >= sweep_at:
                self._sweep(now)
                sweep_at = now + self._sweep_s
            tick_at = now + TICK_S

    def _take(self, message: WatchdogMessage, now: float) -> None:
        match message:
            case QueueSeen(waiting, running, _):
                self._queue = message
                if waiting == 0 or running > 0:
                    self._waiting_alone_since = None
                elif self._waiting_alone_since is None:
                    self._waiting_alone_since = now
            case SlotSeen(slot):
                self._slots[slot] = message
                self._safe_points[slot] = now
            case Counted():
                self._count(message)
            case Look(reply):
                reply.send(self._sight(now))
            case _:
                assert_never(message)

    def _count(self, counted: Counted) -> None:
        match counted.finish_reason:
            case "refused":
                self._refused[counted.code or str(counted.status)] += 1
            case "error":
                self._counts["errors"] += 1
            case "timeout":
                self._counts["timeouts"] += 1
            case "abandoned":
                self._counts["abandoned"] += 1
            case _:
                self._counts["served"] += 1

    def _sweep(self, now: float) -> None:
        stuck = tuple(self._standing(now))
        for name in stuck:
            if name not in self._stuck:
                log.error("[watchdog] %s has not moved for %.0f s", name, self._stuck_s)
        self._stuck = stuck
        self._lag_shown, self._lag = self._lag, 0.0

    def _standing(self, now: float) -> list[str]:
        names: dict[str, None] = {}  # in order, each once
        for ref in self._refs:
            seen = self._watched.setdefault(ref.name, _Watched(ref.handled, now))
            if seen.handled != ref.handled or ref.depth == 0:
                seen.handled, seen.unmoved_since = ref.handled, now
            elif now - seen.unmoved_since >= self._stuck_s:
                names[ref.name] = None
        for slot, seen_slot in self._slots.items():
            busy = seen_slot.phase != "idle"
            if busy and now - self._safe_points[slot] >= self._stuck_s:
                names[f"slot {slot}"] = None
        if self._waiting_alone_since is not None and now - self._waiting_alone_since >= self._stuck_s:
            names["queue"] = None
        return list(names)

    def _sight(self, now: float) -> Sight:
        return Sight(
            waiting=self._queue.waiting,
            running=self._queue.running,
            draining=self._queue.draining,
            served=self._counts["served"],
            refused=dict(self._refused),
            errors=self._counts["errors"],
            timeouts=self._counts["timeouts"],
            abandoned=self._counts["abandoned"],
            slots={slot: seen.phase for slot, seen in self._slots.items()},
            stuck=self._stuck,
            loop_lag_ms=1e3 * max(self._lag_shown, self._lag),
        )
