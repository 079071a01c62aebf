"""The live view's hub: it looks at what runs, makes one event a tick, and hands it to everybody who watches.

Owns: the view (requests in flight as they can be looked at, those that ended, the samples of the last minutes) and the
readers. Never: waits for an actor, a grant or a reader; with no request and no reader it sleeps (OBS-060).

| message in    | from         | answer or effect                                            |
|---------------|--------------|-------------------------------------------------------------|
| `Began`       | request task | the request is in the next event                            |
| `Ended`       | request task | its row stays for a while with its final figures            |
| `QueueSeen`   | queue        | who waits, in which order                                   |
| `WaitsSeen`   | queue        | why and how long the first wait, and who waits in the lane  |
| `SlotSeen`    | watchdog     | a slot is out of service, or it is not                      |
| `TurnsSeen`   | watchdog     | kept: the GPU turn and joint rounds                         |
| `MemorySeen`  | watchdog     | kept: admission by bytes                                    |
| `WindowsSeen` | watchdog     | kept: the own work that runs                                |
| `Watch`       | a reader     | a `Reader`, or None when there are too many                 |
| `Unwatch`     | a reader     | it gets no more events                                      |
| `Look`        | route, tests | the event of this moment, with history                      |
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never
from weakref import WeakSet

import msgspec
import trio

from tandem.actors.estimates import coarse
from tandem.actors.kit import Actor, Reply, WallClock
from tandem.actors.waiters import Place
from tandem.actors.watchdog import MemorySeen, QueueSeen, SlotSeen, TurnsSeen, WindowsSeen
from tandem.live.event import Memory, SamplerNow
from tandem.live.line import Why
from tandem.live.reader import LiveEvent, Reader
from tandem.live.seen import RequestSeen
from tandem.live.view import LiveView, Moment, Served
from tandem.store.outcome import Outcome

__all__ = [
    "Began",
    "Ended",
    "Live",
    "LiveEvent",
    "LiveMessage",
    "Look",
    "QueueSeen",
    "Reader",
    "Served",
    "Unwatch",
    "WaitsSeen",
    "Watch",
]

SAMPLE_S = 1.0
COSTS = 64
"""Ticks over which their mean cost is taken."""


@dataclass(frozen=True, slots=True)
class Began:
    """A request has arrived; `look` may be called at any time until its `Ended`."""

    request_id: str
    look: Callable[[], RequestSeen]


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WaitsSeen:
    """Places of the first in line; the jobs of the side lane, the next one first."""

    places: Mapping[str, Place]
    lane: tuple[str, ...]

    def is_of(self, line: tuple[str, ...], lane: tuple[str, ...]) -> bool:
        """Whether it tells of exactly these."""
        return tuple(self.places) == line and self.lane == lane


@dataclass(frozen=True, slots=True)
class Look:
    """One event as JSON, with history."""

    reply: Reply[bytes]


@dataclass(frozen=True, slots=True)
class Watch:
    """Every event from now on, the first one with history; None where `live_max_readers` watch already."""

    reply: Reply[Reader | None]


@dataclass(frozen=True, slots=True)
class Unwatch:
    """The reader wants no more. One that is dropped without it is released too."""

    reader: Reader


Seen: TypeAlias = QueueSeen | WaitsSeen | SlotSeen | TurnsSeen | MemorySeen | WindowsSeen
LiveMessage: TypeAlias = Began | Ended | Seen | Watch | Unwatch | Look


class Live(Actor[LiveMessage]):
    name = "live"
    essential = False
    inbox_size = 1024

    def __init__(
        self,
        served: Served,
        *,
        hz: int,
        shows_activity: bool,
        max_readers: int,
        wall: WallClock,
        memory: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`hz` events a second while a request runs and somebody watches; 0 is one a second, without activity.

        `memory` tells the process's `resident` and `peak` bytes, where it can.
        """
        super().__init__()
        self._interval_s = 1.0 / hz if hz else SAMPLE_S
        self._max_readers = max_readers
        self._wall = wall
        self._read_memory = memory
        self._view = LiveView(served, shows_activity=shows_activity and hz > 0, now=trio.current_time())
        self._readers: WeakSet[Reader] = WeakSet()  # one whose task ended before it had the answer is gone at once
        self._encoder = msgspec.json.Encoder()
        self._event_at = math.inf
        self._sample_at = math.inf
        self._memory_at = -math.inf
        self._memory = Memory(rss_bytes=None, peak_bytes=None)
        self._seq = 0
        self._ticks = 0
        self._encodes = 0
        self._costs: deque[float] = deque(maxlen=COSTS)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                message: LiveMessage | None = None
                with trio.move_on_at(self.wakes_at):
                    message = await self.inbox.receive()
                if message is None:
                    self._tick()
                else:
                    self._take(message)
                self._plan(trio.current_time())
        finally:
            for reader in list(self._readers):
                reader.end()

    @property
    def wakes_at(self) -> float:
        """When it ticks next; infinite while it sleeps."""
        return min(self._event_at, self._sample_at)

    @property
    def tick_cost_ms(self) -> float:
        """CPU time, the mean of the last ticks."""
        return round(sum(self._costs) / len(self._costs), 3) if self._costs else 0.0

    def _plan(self, now: float) -> None:
        """When the next event and the next sample are due: on whole multiples, and never later than they were."""
        watched = len(self._readers) > 0
        self._event_at = min(self._event_at, _multiple(now, self._pace_s)) if watched else math.inf
        sampled = watched or self._view.needs_sample
        self._sample_at = min(self._sample_at, _multiple(now, SAMPLE_S)) if sampled else math.inf

    @property
    def _pace_s(self) -> float:
        return self._interval_s if self._view.is_busy else SAMPLE_S

    def _take(self, message: LiveMessage) -> None:
        at = self._moment()
        match message:
            case Began(request_id, look):
                self._view.began(request_id, look, at)
            case Ended(outcome):
                self._view.ended(outcome, at)
            case QueueSeen() | WaitsSeen() | SlotSeen() | TurnsSeen() | MemorySeen() | WindowsSeen():
                self._note(message, at.now)
            case Watch(reply):
                self._watch(reply, at)
            case Unwatch(reader):
                self._readers.discard(reader)
                reader.end()
            case Look(reply):
                self._view.look(at)
                reply.send(self._encode(at, with_history=True))
            case _:
                assert_never(message)

    def _note(self, message: Seen, now: float) -> None:
        """An actor tells how things are with it."""
        view, sharing = self._view, self._view.sharing
        match message:
            case QueueSeen(waiting, _, draining, line):
                view.queue_seen(waiting, line, draining=draining, now=now)
            case WaitsSeen(places, lane):
                view.waits_seen({key: _why(place) for key, place in places.items()}, lane, now)
            case SlotSeen(slot, phase):
                sharing.slot_seen(slot, gone=phase == "gone")
            case TurnsSeen(holder, seconds, hand_overs, rounds, meeting, together):
                sharing.turn_seen(together or (() if holder is None else (holder,)), hand_overs)
                sharing.rounds_seen(seconds, rounds, meeting)
            case MemorySeen(reserved, floor, available, waits):
                sharing.memory_seen(reserved, floor, available, waits)
            case WindowsSeen(open_for):
                sharing.own_seen(open_for, now)
            case _:
                assert_never(message)

    def _moment(self) -> Moment:
        return Moment(trio.current_time(), self._wall.now())

    def _watch(self, reply: Reply[Reader | None], at: Moment) -> None:
        if len(self._readers) >= self._max_readers:
            reply.send(None)
            return
        reader = Reader()
        if reply.send(reader):
            self._readers.add(reader)
            self._view.look(at)
            reader.put(self._seq, self._encode(at, with_history=True))

    def _tick(self) -> None:
        started = time.thread_time()
        while (message := self.inbox.receive_nowait()) is not None:
            self._take(message)
        at = self._moment()
        self._view.look(at)
        if at.now >= self._sample_at:
            self._sample_at = math.inf
            self._view.sample(at)
        if at.now >= self._event_at:
            self._event_at = math.inf
            self._publish(at)
        self._ticks += 1
        self._costs.append(1e3 * (time.thread_time() - started))

    def _publish(self, at: Moment) -> None:
        """The event of this tick, encoded once for those who have had history and once for those who have not."""
        self._seq += 1
        encoded: dict[bool, bytes] = {}
        for reader in list(self._readers):
            is_new = reader.is_new
            if is_new not in encoded:
                encoded[is_new] = self._encode(at, with_history=is_new)
            reader.put(self._seq, encoded[is_new])

    def _encode(self, at: Moment, *, with_history: bool) -> bytes:
        self._encodes += 1
        if at.now >= self._memory_at + SAMPLE_S:
            self._memory_at, self._memory = at.now, self._measured_memory()
        event = self._view.event(
            self._seq,
            at,
            interval_s=self._pace_s,
            memory=self._memory,
            sampler=SamplerNow(
                ticks=self._ticks,
                encodes=self._encodes,
                tick_cost_ms=self.tick_cost_ms,
                readers=len(self._readers),
            ),
            with_history=with_history,
        )
        return self._encoder.encode(event)

    def _measured_memory(self) -> Memory:
        told = self._read_memory()
        return Memory(rss_bytes=told.get("resident"), peak_bytes=told.get("peak"))


def _why(place: Place) -> Why:
    left = place.estimate_s
    return Why(place.reason, left, None if left is None else coarse(left, place.reason == "own"))


def _multiple(now: float, step: float) -> float:
    """The next whole multiple of `step` after now."""
    return (math.floor(now / step + 1e-6) + 1) * step
