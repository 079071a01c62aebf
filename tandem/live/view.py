"""What the live view knows, and the event that is made of it. Told everything, time included: no clock, no channel.

Owns: the requests in flight, those that ended, the rates, the samples of the last five minutes.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
from msgspec import UNSET

from tandem.live import words
from tandem.live.ending import ended_row, recent
from tandem.live.event import Counts, EngineNow, Event, Kv, Memory, Now, Row, SamplerNow
from tandem.live.figures import ms, ratio
from tandem.live.history import History
from tandem.live.rates import Meter
from tandem.live.rows import Line, running_row
from tandem.live.seen import RequestSeen
from tandem.live.watched import Gain, Watched
from tandem.store.outcome import Outcome

__all__ = ["LiveView", "Moment", "Served"]

SHOWN = 256
"""Requests in flight that are looked at, the oldest; more would hold up the event loop."""
ENDED_S = 30.0
ENDED_SHOWN = 50
"""Rows of ended requests that an event holds at most: refusals may come by the hundred."""
RECENT_S = 900.0
RECENT_SHOWN = 20
MINUTE_S = 60
GOOD_ENDS = ("stop", "length", "tool_calls")


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on trio's clock and as a date."""

    now: float
    wall: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What does not change while the service runs."""

    model: str
    base_model: str
    version: str
    window: int
    """Tokens a sequence may have."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Something encoded, and when it ended."""

    ended_at: float
    data: msgspec.Raw


class LiveView:
    def __init__(self, served: Served, *, shows_activity: bool, now: float) -> None:
        self._served = served
        self._shows_activity = shows_activity
        self._in_flight: dict[str, Watched] = {}
        self._ended: deque[_Kept] = deque(maxlen=ENDED_SHOWN)
        self._recent: deque[_Kept] = deque(maxlen=RECENT_SHOWN)
        self._good_ends: deque[tuple[int, int]] = deque()  # (second, ends in it)
        self._counts = {"served": 0, "errors": 0, "refused": 0}
        self._waiting = 0
        self._places: dict[str, int] = {}
        self._draining = False
        self._state_at = now
        self._total = Gain()
        self._sampled = Gain()
        self._written, self._forwarded, self._rounds = Meter(), Meter(), Meter()
        self._read_at: float | None = None
        self._history = History(now)
        self._running: list[Watched] = []
        """Those on a slot when last looked at, the longest first."""
        self._phases: Counter[str] = Counter()
        """How many were in each phase then."""
        self._is_sampled = True
        """Whether nothing has happened since the last sample."""

    @property
    def is_busy(self) -> bool:
        return bool(self._in_flight)

    @property
    def needs_sample(self) -> bool:
        return self.is_busy or not self._is_sampled

    def began(self, request_id: str, look: Callable[[], RequestSeen], at: Moment) -> None:
        if not self.is_busy:
            self._wake(at)
        self._in_flight[request_id] = Watched(request_id, look, at.now, at.wall.tzinfo)
        self._is_sampled = False

    def _wake(self, at: Moment) -> None:
        """The first request after a pause."""
        if not self._draining:
            self._state_at = at.now
        if not self.needs_sample:
            self._history.fill(at.now, at.wall.timestamp())
        self._restart_meters(at.now)

    def ended(self, outcome: Outcome, at: Moment) -> None:
        watched = self._in_flight.pop(outcome.request_id, None)
        zone = at.wall.tzinfo
        if watched is not None:
            self._add(watched.look(at.now), at.now)
            watched.end(outcome.total_ms)
        row = ended_row(outcome, watched, zone, shows_activity=self._shows_activity)
        self._ended.appendleft(_Kept(at.now, msgspec.Raw(msgspec.json.encode(row))))
        self._recent.appendleft(_Kept(at.now, recent(outcome, watched, zone)))
        self._count(outcome, at.now)
        self._is_sampled = False
        if not self.is_busy and not self._draining:
            self._state_at = at.now

    def _count(self, outcome: Outcome, now: float) -> None:
        if outcome.finish_reason in GOOD_ENDS:
            self._counts["served"] += 1
            self._count_good_end(math.floor(now))
        elif outcome.finish_reason == "error":
            self._counts["errors"] += 1
        elif outcome.finish_reason == "refused":
            self._counts["refused"] += 1

    def _count_good_end(self, second: int) -> None:
        if self._good_ends and self._good_ends[-1][0] == second:
            self._good_ends[-1] = (second, self._good_ends[-1][1] + 1)
        else:
            self._good_ends.append((second, 1))

    def queue_seen(self, waiting: int, line: tuple[str, ...], *, draining: bool, now: float) -> None:
        """`line` has those who wait, the next one first."""
        if draining and not self._draining:
            self._state_at = now
        self._draining = draining
        self._waiting = waiting
        self._places = {request_id: place for place, request_id in enumerate(line, start=1)}
        for request_id in line:
            if watched := self._in_flight.get(request_id):
                watched.entered(now)

    def look(self, at: Moment) -> None:
        """Look at everything in flight; whatever is shown next is as of now."""
        for watched in list(islice(self._in_flight.values(), SHOWN)):
            self._add(watched.look(at.now), at.now)
            if watched.seen is not None and watched.seen.is_closed:
                self._lose(watched, at.now)
        self._written.add(at.now, self._total.written)
        self._forwarded.add(at.now, self._total.forwarded)
        self._rounds.add(at.now, self._total.rounds)
        self._running = sorted((each for each in self._shown() if each.is_running), key=lambda each: each.granted_at)
        self._phases = Counter(each.phase for each in self._shown())
        self._forget(at.now)

    def _lose(self, watched: Watched, now: float) -> None:
        """It has ended, and the message of that was lost."""
        del self._in_flight[watched.request_id]
        if not self.is_busy and not self._draining:
            self._state_at = now

    def _add(self, gain: Gain, now: float) -> None:
        self._total = self._total + gain
        if gain.forwarded:
            self._read_at = now

    def _restart_meters(self, now: float) -> None:
        self._written.restart(now, self._total.written)
        self._forwarded.restart(now, self._total.forwarded)
        self._rounds.restart(now, self._total.rounds)

    def _forget(self, now: float) -> None:
        """What has been shown long enough."""
        for kept, for_s in ((self._ended, ENDED_S), (self._recent, RECENT_S)):
            while kept and now - kept[-1].ended_at > for_s:
                kept.pop()
        while self._good_ends and self._good_ends[0][0] <= now - MINUTE_S:
            self._good_ends.popleft()

    def sample(self, at: Moment) -> None:
        """The end of a second; `look` first."""
        gain = self._total - self._sampled
        self._history.add(
            at.now,
            at.wall.timestamp(),
            written=gain.written,
            forwarded=gain.forwarded,
            running=len(self._running),
            waiting=self._phases["queued"],
        )
        self._sampled = self._total
        self._is_sampled = not self.is_busy

    def event(
        self,
        seq: int,
        at: Moment,
        *,
        interval_s: float,
        memory: Memory,
        sampler: SamplerNow,
        with_history: bool,
    ) -> Event:
        """The document of this moment; `look` first."""
        if not self.needs_sample:
            self._history.fill(at.now, at.wall.timestamp())
        return Event(
            seq=seq,
            generated_at=at.wall.isoformat(timespec="milliseconds"),
            interval_s=interval_s,
            engine=self._engine(at.now, memory),
            counts=self._counted(),
            now=self._rates(at.now),
            requests=(*self._rows(at), *(kept.data for kept in self._ended)),
            recent=tuple(kept.data for kept in self._recent),
            sample=self._history.newest,
            history=self._history.all() if with_history else UNSET,
            sampler=sampler,
        )

    def _shown(self) -> Iterator[Watched]:
        return islice(self._in_flight.values(), SHOWN)

    def _rows(self, at: Moment) -> list[Row]:
        running = self._running
        line = Line(self._waiting, self._places, running[0].holding(at.now) if running else None, len(running))
        order = sorted(self._shown(), key=lambda each: (each.rank, self._places.get(each.request_id, SHOWN)))
        return [
            running_row(each, line, at.now, each.arrived(at.wall, at.now), shows_activity=self._shows_activity)
            for each in order
        ]

    def _engine(self, now: float, memory: Memory) -> EngineNow:
        return EngineNow(
            state="draining" if self._draining else "busy" if self.is_busy else "idle",
            label=self._label(now),
            since_ms=ms(now - self._state_at),
            model=self._served.model,
            base_model=self._served.base_model,
            version=self._served.version,
            kv=Kv(length=max((each.length for each in self._running), default=0), limit=self._served.window),
            memory=memory,
        )

    def _label(self, now: float) -> str:
        label = self._does(now)
        return words.draining(label if self.is_busy else None) if self._draining else label

    def _does(self, now: float) -> str:
        """What the engine does, as a sentence."""
        if not self.is_busy:
            return words.idle()
        working = self._running or [each for each in self._shown() if each.phase in ("finishing", "reading")]
        if not working or not self._shows_activity:
            return words.busy(len(self._running), self._phases["queued"])
        first, *others = working
        if first.seen is None:
            return first.label(now)
        more = len(others) if first.is_running else 0
        return words.for_client(first.label(now), first.seen.client_kind, first.seen.endpoint, more)

    def _counted(self) -> Counts:
        return Counts(
            in_flight=len(self._in_flight),
            queued=max(self._phases["queued"], self._waiting if len(self._in_flight) > SHOWN else 0),
            prefilling=self._phases["prefilling"],
            decoding=self._phases["writing"],
            completed_1m=sum(count for _, count in self._good_ends),
            **self._counts,
        )

    def _rates(self, now: float) -> Now:
        return Now(
            decode_tps=round(self._written.rate or 0.0, 1),
            prefill_tps=round(self._forwarded.rate or 0.0, 1),
            prefilling=self._phases["prefilling"] > 0,
            tokens_per_block=ratio(self._written.gain, self._rounds.gain),
            last_prefill_ms_ago=None if self._read_at is None else ms(now - self._read_at),
        )
