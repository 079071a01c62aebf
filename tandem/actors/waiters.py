"""Who waits, who holds a slot, who waits in the lane: what the queue knows and decides, without replies and clock.

`line.py` decides the order, `choosing.py` the slot, `estimates.py` how long it takes; this keeps what they look at.

Lane jobs (SCH-017, SCH-039, SCH-043): one that comes while a request holds slot 0 waits in the lane, where the holder
takes it. When slot 0 is free, or own work holds it, nobody takes it there: it stands in the line at the first rank and
runs as a guest. Wherever they wait, lane jobs are bounded by themselves, and no others are by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tandem.actors.choosing import Candidate, Resident, SlotRules, choose, may_use_side
from tandem.actors.estimates import Ahead, Estimates, SlotProgress, until_grant
from tandem.actors.line import Rank, WaitingLine

__all__ = ["Grant", "Place", "Reason", "Waiters"]

Reason: TypeAlias = Literal["running", "side", "own", "deciding", "memory"]
"""Why somebody waits (SCH-028): another request runs, a client's side request goes first, own work finishes first, the
service decides how to handle the request, memory is short. The queue says the first three."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a waiter stands; 1 is next."""

    position: int
    reason: Reason = "running"
    estimate_s: float | None = None
    """Seconds until its grant, by the estimators (SCH-031 to SCH-035); None where there is none."""


@dataclass(frozen=True, slots=True)
class Grant:
    key: str
    slot: int
    guest: bool
    wait_own_s: float


@dataclass(slots=True)
class _Waiter:
    seen: Candidate
    since: float
    guest: bool = False
    own_s: float = 0.0
    """Seconds behind own work that has ended."""


@dataclass(slots=True)
class _Hold:
    rank: Rank
    since: float
    progress: SlotProgress | None = None
    told_at: float = 0.0
    resident: Resident | None = None
    """What slot 0 held before."""


class Waiters:
    """Every method is one step; after each, `next_grant` until it gives None."""

    def __init__(self, *, max_queue: int, rules: SlotRules) -> None:
        self._max_queue = max_queue
        self._rules = rules
        self._line = WaitingLine()
        self._waiters: dict[str, _Waiter] = {}
        """Of the line and of the lane."""
        self._lane: list[str] = []
        self._slots: set[int] = set()
        self._holds: dict[int, _Hold] = {}
        self._resident: Resident | None = None
        self._draining = False
        self._estimates = Estimates()

    def __repr__(self) -> str:
        return f"{self.waiting} waiting, free slots {self.free_slots}, draining {self.draining}"

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def is_drained(self) -> bool:
        """A drain was asked for and nobody holds a slot."""
        return self._draining and not self._holds

    @property
    def is_idle(self) -> bool:
        """No request holds a slot, none waits, no lane job is pending, and no drain has begun."""
        ranks = [waiter.seen.rank for waiter in self._waiters.values()] + self._held_ranks()
        return not self._draining and all(rank is Rank.OWN for rank in ranks)

    @property
    def free_slots(self) -> list[int]:
        return sorted(self._slots - self._holds.keys())

    @property
    def waiting(self) -> int:
        """How many stand in the line."""
        return len(self._line)

    @property
    def running(self) -> int:
        return len(self._holds)

    @property
    def in_lane(self) -> int:
        return len(self._lane)

    @property
    def lane(self) -> tuple[str, ...]:
        """Lane jobs that wait for a safe point, the next one first."""
        return tuple(self._lane)

    def order(self, most: int) -> tuple[str, ...]:
        """The first `most` of the line, the next one first."""
        return self._line.order(most)

    def add_slot(self, slot: int) -> None:
        self._slots.add(slot)

    def enter(self, seen: Candidate, now: float) -> None:
        """A request comes. Not during a drain."""
        waiter = _Waiter(seen, now)
        goes_by_lane = seen.is_lane and 0 in self._holds and self._lane_jobs() < self._max_queue
        self._waiters[seen.key] = waiter
        if goes_by_lane and self._holds[0].rank is not Rank.OWN:
            self._lane.append(seen.key)
        elif goes_by_lane:
            self._stand_as_guest(seen.key)
        else:
            self._line.enter(seen.key, seen.rank)

    def is_too_many(self, key: str) -> bool:
        """Whether the line is longer than it may be by this one, who has just come and was not granted anything."""
        if key not in self._waiters or not self._is_bounded(key):
            return False
        return sum(map(self._is_bounded, self._waiters)) > self._max_queue

    def leave(self, key: str) -> bool:
        """False when `key` waits nowhere."""
        if self._waiters.pop(key, None) is None:
            return False
        if key in self._lane:
            self._lane.remove(key)
        else:
            self._line.leave(key)
        return True

    def next_grant(self, now: float) -> Grant | None:
        """Who gets a slot now; it holds it from here on."""
        free = self.free_slots
        if not free or not len(self._line):
            return None
        looked_at = 1 if 0 in free else len(self._line)
        order = [self._waiters[key].seen for key in self._line.order(looked_at)]
        choice = choose(order, free, self._held_ranks(), self._resident, self._rules)
        if choice is None:
            return None
        chosen, slot = choice
        self._line.take(chosen.key, (lambda _key: True) if slot == 0 else self._might_use_side)
        waiter = self._waiters.pop(chosen.key)
        self._holds[slot] = _Hold(chosen.rank, now, resident=self._resident)
        # A small next turn that comes before slot 0 is settled is no guest: it reads on where the last one ended.
        guest = waiter.guest and slot == 0 and not chosen.goes_on_with(self._resident)
        if slot == 0 and chosen.rank is Rank.TURN and chosen.needs is not None and not guest:
            # From now on slot 0 holds this conversation: the next turn of the one before need not wait for its end.
            self._resident = Resident(chosen.needs.keys, len(chosen.needs.keys))
        return Grant(chosen.key, slot, guest, waiter.own_s)

    def undo(self, grant: Grant) -> None:
        """Nobody was there to take it."""
        hold = self._holds.pop(grant.slot)
        if grant.slot == 0:
            self._resident = hold.resident

    def free(self, slot: int, resident: Resident | None, end: SlotProgress | None, now: float) -> list[str]:
        """A slot is free again. Returns lane jobs that a drain leaves without a holder."""
        hold = self._holds.pop(slot, None)
        if slot == 0:  # which says nothing where nothing ran
            self._resident = resident or (hold.resident if hold is not None else self._resident)
        if hold is not None and hold.rank is Rank.OWN:
            self._count_own(hold, now)
        elif hold is not None:
            self._estimates.ended(hold.rank, now - hold.since, end)
        return self._empty_lane() if slot == 0 else []

    def gone(self, slot: int) -> list[str]:
        """A slot has failed and is never granted again; returns lane jobs that a drain leaves without a holder."""
        self._slots.discard(slot)
        self._holds.pop(slot, None)
        return self._empty_lane() if slot == 0 and self._draining else []

    def progress(self, progress: SlotProgress, now: float) -> None:
        hold = self._holds.get(progress.slot)
        if hold is not None:
            hold.progress, hold.told_at = progress, now

    def next_job(self) -> str | None:
        """The lane job whose turn it is; it is out of the lane."""
        if not self._lane:
            return None
        key = self._lane.pop(0)
        del self._waiters[key]
        return key

    def drain(self) -> list[str]:
        """From here on nobody enters. Returns who is refused: all but the lane jobs of a holder (SCH-093)."""
        self._draining = True
        refused = self._line.waiting()
        for key in refused:
            self.leave(key)
        return refused + ([] if 0 in self._holds else self._empty_lane())

    def place(self, key: str, now: float) -> Place | None:
        """Where `key` stands in the line, or in the lane, whose jobs have no estimate."""
        if key in self._lane:
            return Place(self._lane.index(key) + 1)
        ahead = self._line.ahead(key)
        if ahead is None:
            return None
        return Place(len(ahead) + 1, self._reason(), self._estimate(key, ahead, now))

    def places(self, most: int, now: float) -> dict[str, Place]:
        """Of the first `most` in line."""
        found = ((key, self.place(key, now)) for key in self.order(most))
        return {key: place for key, place in found if place is not None}

    def _lane_jobs(self) -> int:
        return len(self._lane) + sum(waiter.guest for waiter in self._waiters.values())

    def _is_bounded(self, key: str) -> bool:
        """Running ones, lane jobs and own work do not count (SCH-010)."""
        waiter = self._waiters[key]
        return waiter.seen.rank is not Rank.OWN and not waiter.guest and key not in self._lane

    def _stand_as_guest(self, key: str) -> None:
        waiter = self._waiters[key]
        waiter.seen, waiter.guest = replace(waiter.seen, rank=Rank.SIDE), True
        self._line.enter(key, Rank.SIDE)

    def _empty_lane(self) -> list[str]:
        """Jobs that no holder takes any more stand in the line; during a drain they are out, and returned."""
        jobs, self._lane = self._lane, []
        if not self._draining:
            for key in jobs:
                self._stand_as_guest(key)
            return []
        for key in jobs:
            del self._waiters[key]
        return jobs

    def _held_ranks(self) -> list[Rank]:
        return [hold.rank for hold in self._holds.values()]

    def _might_use_side(self, key: str) -> bool:
        turn_waits = any(self._waiters[other].seen.rank is Rank.TURN for other in self._line.waiting())
        return may_use_side(self._waiters[key].seen, self._resident, self._rules, turn_waits=turn_waits)

    def _count_own(self, hold: _Hold, now: float) -> None:
        """Own work has ended: no request ran meanwhile, so whoever waited did so behind it alone (SCH-037)."""
        for key in self._line.waiting():
            waiter = self._waiters[key]
            if waiter.seen.rank is not Rank.OWN:
                waited = now - max(waiter.since, hold.since)
                waiter.own_s += waited
                self._estimates.waited_for_own(waited)

    def _reason(self) -> Reason:
        rank = self._holds[0].rank if 0 in self._holds else None
        return "own" if rank is Rank.OWN else "side" if rank is Rank.SIDE else "running"

    def _estimate(self, key: str, ahead: Sequence[str], now: float) -> float | None:
        since = self._waiters[key].since
        left = {slot: self._left(slot, since, now) for slot in self._slots}
        usual = {rank: self._estimates.usual(rank) for rank in Rank}
        first = [Ahead(self._slots_of(other), usual[self._waiters[other].seen.rank]) for other in ahead]
        return until_grant(left, first, self._slots_of(key))

    def _left(self, slot: int, waits_since: float, now: float) -> float | None:
        """Seconds until the slot may be granted; while own work runs, no slot is."""
        match self._holds.get(0), self._holds.get(slot):
            case _Hold(Rank.OWN, since), _:
                return self._estimates.left_of_own(now - max(waits_since, since))
            case _, _Hold(rank, since, progress, told_at):
                return self._estimates.left(rank, now - since, progress, now - told_at)
            case _:
                return 0.0

    def _slots_of(self, key: str) -> frozenset[int]:
        has_choice = len(self._slots) > 1 and self._might_use_side(key)
        return frozenset(self._slots) if has_choice else frozenset({0})
