"""What the live view knows, and the event that is made of it. Told everything, time included: no clock, no channel.

Owns: the requests in flight, those that ended, the rates, the samples of the last five minutes.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import msgspec
from msgspec import UNSET

from tandem.live import words
from tandem.live.ending import ended_row, recent
from tandem.live.ends import Ends
from tandem.live.event import Counts, EngineNow, Event, Kv, Memory, Now, OwnNow, Row, SamplerNow
from tandem.live.figures import ms, ratio
from tandem.live.history import History
from tandem.live.line import Line, Why
from tandem.live.parallel import Parallel
from tandem.live.rates import Meter
from tandem.live.rows import running_row
from tandem.live.seen import RequestSeen
from tandem.live.sharing import Shared, Sharing
from tandem.live.watched import Gain, Watched
from tandem.store.outcome import Outcome

__all__ = ["LiveView", "Moment", "Served"]

SHOWN = 256
"""Requests in flight that are looked at, the oldest; more would hold up the event loop."""


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
    slots: int = 1


class LiveView:
    def __init__(self, served: Served, *, shows_activity: bool, now: float) -> None:
        self._served = served
        self._shows_activity = shows_activity
        self._in_flight: dict[str, Watched] = {}
        self._ends = Ends()
        self._line = Line()
        self.sharing = Sharing(served.slots)
        """What the actors besides the queue have told."""
        self._shared = Shared()
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
        line = recent(outcome, watched, zone)
        self._ends.add(outcome, msgspec.Raw(msgspec.json.encode(row)), line, at.now)
        if outcome.lane is not None:
            self.sharing.lane_ended(outcome.lane)
        self._is_sampled = False
        if not self.is_busy and not self._draining:
            self._state_at = at.now

    def queue_seen(self, waiting: int, line: tuple[str, ...], *, draining: bool, now: float) -> None:
        """`line` has those who wait, the next one first."""
        if draining and not self._draining:
            self._state_at = now
        self._draining = draining
        self._line.waiting = waiting
        self._line.places = {request_id: place for place, request_id in enumerate(line, start=1)}
        for request_id in line:
            if watched := self._in_flight.get(request_id):
                watched.entered(now)

    def waits_seen(self, whys: Mapping[str, Why], lane: tuple[str, ...], now: float) -> None:
        """Of the first in line why and how long they wait, and who waits in the side lane."""
        self._line.whys, self._line.lane = whys, lane
        for request_id in lane:
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
        self._share(at.now)
        self._ends.forget(at.now)

    def _share(self, now: float) -> None:
        """Who is where, and so whom those in line wait for."""
        line = self._line
        guests = [each for each in self._running if each.is_guest]
        holders = {each.slot: each for each in self._running if not each.is_guest}
        short = [each for each in self._shown() if each.missing]
        self._shared = Shared(dict(sorted(holders.items())), guests, short)
        first = holders.get(0) or next(iter(self._running), None)
        line.holder = None if first is None else first.holding(now)
        line.running, line.short, line.own = len(holders), len(short), self.sharing.own
        line.has_free_side = self.sharing.has_free_side(self._shared)

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
            requests=(*self._rows(at), *self._ends.rows),
            recent=tuple(self._ends.recent),
            parallel=self._parallel(at.now) if self.sharing.has_side_slots else UNSET,
            sample=self._history.newest,
            history=self._history.all() if with_history else UNSET,
            sampler=sampler,
        )

    def _parallel(self, now: float) -> Parallel:
        lane = len(self._line.lane)
        return self.sharing.block(self._shared, now, lane=lane, shows_activity=self._shows_activity)

    def _shown(self) -> Iterator[Watched]:
        return islice(self._in_flight.values(), SHOWN)

    def _rows(self, at: Moment) -> list[Row]:
        return [
            running_row(each, self._line, at.now, each.arrived(at.wall, at.now), shows_activity=self._shows_activity)
            for each in sorted(self._shown(), key=self._order)
        ]

    def _order(self, each: Watched) -> tuple[int, int, int]:
        """Who runs by slot, a guest under its holder; who waits for memory; who waits for a slot; the others."""
        if each.missing:
            return each.rank, -1, each.memory_place
        if each.phase == "queued":
            return each.rank, *self._line.order(each.request_id, SHOWN)
        return each.rank, each.slot, each.is_guest

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
            own_work=self._own_work(now),
        )

    def _own_work(self, now: float) -> OwnNow | None:
        name = self.sharing.own
        if name is None or not self._shows_activity:
            return None
        return OwnNow(name=name, label=words.own_work(name), since_ms=ms(now - self.sharing.own_since))

    def _label(self, now: float) -> str:
        label = self._does(now)
        return words.draining(label if self.is_busy else None) if self._draining else label

    def _does(self, now: float) -> str:
        """What the engine does, as a sentence."""
        own, holders, waiting = self.sharing.own, self._shared.holders, self._phases["queued"]
        if not self.is_busy:
            return words.idle(own if self._shows_activity else None)
        if not self._shows_activity:
            return words.busy(len(self._running), waiting)
        if holders:
            sentences = [(slot, watched.sentence(now)) for slot, watched in holders.items()]
            return words.together(sentences, len(self._shared.guests))
        if own is not None:
            return words.yielding(own, waiting)
        coming = next((each for each in self._shown() if each.phase in ("finishing", "reading")), None)
        return words.busy(len(self._running), waiting) if coming is None else coming.sentence(now)

    def _counted(self) -> Counts:
        return Counts(
            in_flight=len(self._in_flight),
            queued=max(self._phases["queued"], self._line.waiting if len(self._in_flight) > SHOWN else 0),
            lane=len(self._line.lane),
            prefilling=self._phases["prefilling"],
            decoding=self._phases["writing"],
            completed_1m=self._ends.good_in_a_minute,
            served=self._ends.served,
            errors=self._ends.errors,
            refused=self._ends.refused,
        )

    def _rates(self, now: float) -> Now:
        return Now(
            decode_tps=round(self._written.rate or 0.0, 1),
            prefill_tps=round(self._forwarded.rate or 0.0, 1),
            prefilling=self._phases["prefilling"] > 0,
            tokens_per_block=ratio(self._written.gain, self._rounds.gain),
            last_prefill_ms_ago=None if self._read_at is None else ms(now - self._read_at),
        )
