"""The watchdog: keeps the last snapshot of every actor, counts what ended, and flags what stands still.

Owns: snapshots, counts, the measured lag of the event loop. Waits for no slot and repairs nothing (SCH-098, SCH-101);
`/health` is answered from here alone, so it never waits for a generation. Every sweep also has thrown away what is past
its lifetime (SCH-102) and sessions reported whose client is gone (MON-126). What it is told of slots, turn, memory and
windows it tells the live view too.

| message in    | from           | answer or effect                        |
|---------------|----------------|-----------------------------------------|
| `QueueSeen`   | queue          | kept                                    |
| `SlotSeen`    | slot           | kept; the slot has reached a safe point |
| `TurnsSeen`   | turn scheduler | kept                                    |
| `MemorySeen`  | memory keeper  | kept                                    |
| `WindowsSeen` | window broker  | kept                                    |
| `Counted`     | request task   | counted                                 |
| `Look`        | `/health`      | `Sight` on `reply`                      |
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Ref, Reply

__all__ = [
    "Counted",
    "Look",
    "MemorySeen",
    "Phase",
    "QueueSeen",
    "Sight",
    "SlotSeen",
    "Sweep",
    "TurnsSeen",
    "Watchdog",
    "WatchdogMessage",
    "WindowsSeen",
]

log = logging.getLogger(__name__)

Phase: TypeAlias = Literal["idle", "prefilling", "writing", "gone"]
"""What a slot does; `gone`: it could not be put right after a fault (SCH-056)."""

Sweep: TypeAlias = Callable[[float], None]
"""Looks for what is past its time, at a time of trio's clock."""

TICK_S = 1.0
"""How often the loop's lag is measured."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    waiting: int
    running: int
    draining: bool
    line: tuple[str, ...] = ()
    """The first who wait, the next to be granted first."""
    lane: int = 0
    """Lane jobs that wait for a safe point; they stand in no line."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    slot: int
    phase: Phase
    request_id: str | None


@dataclass(frozen=True, slots=True)
class TurnsSeen:
    """The GPU turn, GPU time by slot, joint rounds since the start; told with side slots, once a second at most."""

    holder: int | None
    """The slot that has the turn, the first of a joint round; own work has it under the name of slot 0 (SCH-060)."""
    seconds: Mapping[int, float]
    hand_overs: int
    rounds: Mapping[int, int]
    """Joint rounds by how many slots shared them."""
    meeting: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """What a round takes by how many slots decode (SCH-070); empty unless it is measured."""
    together: tuple[int, ...] = ()  # the slots of the joint round that has the turn, if one has


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """Admission by bytes; told where there are side slots."""

    reserved: int
    floor: int
    available: int | None
    """None where the system does not say."""
    waits: int
    """Admissions that had to wait, since the start."""


@dataclass(frozen=True, slots=True)
class WindowsSeen:
    """The service's own work: what an idle window is open for now, and the seconds that each job has had."""

    open_for: str | None
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counted:
    """A completion request has ended: its status and finish reason, the error's code where it has one, and its lane."""

    status: int
    finish_reason: str
    code: str | None
    lane: str | None = None


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
    lane: int = 0
    """Lane jobs that wait."""
    lane_served: Mapping[str, int] = field(default_factory=dict)
    """Lane guests that have ended, by kind."""
    turns: TurnsSeen | None = None
    """This and the next are None without side slots."""
    memory: MemorySeen | None = None
    windows: WindowsSeen | None = None
    """None where nobody has told of own work."""


@dataclass(frozen=True, slots=True)
class Look:
    reply: Reply[Sight]


WatchdogMessage: TypeAlias = QueueSeen | SlotSeen | TurnsSeen | MemorySeen | WindowsSeen | Counted | Look


@dataclass(slots=True)
class _Watched:
    """An actor's inbox as the last sweep saw it."""

    handled: int
    unmoved_since: float


class Watchdog(Actor[WatchdogMessage]):
    name = "watchdog"
    essential = False
    inbox_size = 1024

    def __init__(
        self, *, sweep_s: float, stuck_s: float, sweeps: Sequence[Sweep] = (), live: Ref[Any] | None = None
    ) -> None:
        super().__init__()
        self._live = live
        self._sweep_s = sweep_s
        self._stuck_s = stuck_s
        self._sweeps = tuple(sweeps)
        self._queue = QueueSeen(0, 0, False)
        self._slots: dict[int, SlotSeen] = {}
        self._safe_points: dict[int, float] = {}
        self._turns: TurnsSeen | None = None
        self._memory: MemorySeen | None = None
        self._windows: WindowsSeen | None = None
        self._counts: Counter[str] = Counter()
        self._lane_served: Counter[str] = Counter()
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

    def also(self, sweep: Sweep) -> None:
        """Wiring, before `run`: one more thing that every sweep does."""
        self._sweeps = (*self._sweeps, sweep)

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
        if self._live is not None and isinstance(message, SlotSeen | TurnsSeen | MemorySeen | WindowsSeen):
            self._live.offer(message)
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
            case TurnsSeen():
                self._turns = message
            case MemorySeen():
                self._memory = message
            case WindowsSeen():
                self._windows = message
            case Counted():
                self._count(message)
            case Look(reply):
                reply.send(self._sight(now))
            case _:
                assert_never(message)

    def _count(self, counted: Counted) -> None:
        if counted.lane is not None:
            self._lane_served[counted.lane] += 1
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
        for sweep in self._sweeps:
            sweep(now)

    def _standing(self, now: float) -> list[str]:
        names: dict[str, None] = {}  # in order, each once
        for ref in self._refs:
            seen = self._watched.setdefault(ref.name, _Watched(ref.handled, now))
            if seen.handled != ref.handled or ref.depth == 0:
                seen.handled, seen.unmoved_since = ref.handled, now
            elif now - seen.unmoved_since >= self._stuck_s:
                names[ref.name] = None
        for slot, seen_slot in self._slots.items():
            busy = seen_slot.phase not in ("idle", "gone")
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
            lane=self._queue.lane,
            lane_served=dict(self._lane_served),
            turns=self._turns,
            memory=self._memory,
            windows=self._windows,
        )
