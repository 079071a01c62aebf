"""How long a waiter still waits: the estimators of SCH-031 to SCH-035, and how coarsely they are told. Pure, no clock.

- Hold times: how much longer the requests held their slot that had held it as long (SCH-031).
- Finished requests: how much more those wrote that had written as much, at the holder's own rates (SCH-033, SCH-034).
- Waits behind own work: how much longer those lasted that had lasted as long (SCH-035).

All of it is the conditional rest of an empirical distribution, as in survival analysis: of what was seen to last longer
than it has lasted by now, the median of the rest, or a higher share where too early a promise is the worse fault.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tandem.actors.line import Rank

__all__ = ["Ahead", "Estimates", "Finished", "HoldTimes", "OwnWaits", "SlotProgress", "coarse", "until_grant"]

KEPT = 500
"""So many of the newest records are kept of each kind."""
ENOUGH = 5
"""With fewer records of a kind there is no estimate."""
BEYOND = 3
"""Nor with fewer hold times that are longer than the present one."""
UPPER = 0.75
"""Of what earlier requests still wrote, the share that is reckoned with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotProgress:
    """How far a slot's request is, at most once a second, for the estimates (SCH-033)."""

    slot: int
    rows_left: int
    """Prompt rows that are not read."""
    prefill_rate: float | None
    """Rows a second, measured; None before the first chunk."""
    written: int
    limit: int
    thinks: bool
    decode_rate: float | None
    """Tokens a second, measured; None before the second token."""


class HoldTimes:
    """Seconds from grant to free slot, by rank."""

    def __init__(self) -> None:
        self._held: dict[Rank, deque[float]] = {rank: deque(maxlen=KEPT) for rank in Rank}

    def add(self, rank: Rank, held_s: float) -> None:
        self._held[rank].append(held_s)

    def left(self, rank: Rank, held_s: float) -> float | None:
        """What is left for a holder of this rank that has run so long."""
        held = self._held[rank]
        longer = [each - held_s for each in held if each > held_s]
        return statistics.median(longer) if len(held) >= ENOUGH and len(longer) >= BEYOND else None

    def usual(self, rank: Rank) -> float | None:
        """What a waiter ahead adds; None without a record."""
        return statistics.median(self._held[rank]) if self._held[rank] else None


class Finished:
    """What earlier requests wrote in all, by whether they thought, and their decode rates."""

    def __init__(self) -> None:
        self._written: dict[bool, deque[int]] = {thinks: deque(maxlen=KEPT) for thinks in (True, False)}
        self._rates: deque[float] = deque(maxlen=KEPT)

    def add(self, end: SlotProgress) -> None:
        """A request has ended like this; one that wrote nothing tells nothing."""
        if end.written > 0:
            self._written[end.thinks].append(end.written)
        if end.decode_rate:
            self._rates.append(end.decode_rate)

    def left(self, now: SlotProgress) -> float | None:
        """Seconds until the request that is so far has ended; None where too little is known."""
        tokens = self._tokens_left(now)
        decode_rate = now.decode_rate or (statistics.median(self._rates) if self._rates else None)
        if tokens is None or not decode_rate or (now.rows_left and not now.prefill_rate):
            return None
        prefill = now.rows_left / now.prefill_rate if now.prefill_rate else 0.0
        return prefill + tokens / decode_rate

    def _tokens_left(self, now: SlotProgress) -> int | None:
        written = self._written[now.thinks]
        longer = sorted(each - now.written for each in written if each > now.written)
        if len(written) < ENOUGH or not longer:
            return None
        return min(longer[math.ceil(UPPER * len(longer)) - 1], now.limit - now.written)


class OwnWaits:
    """Seconds that requests really waited behind own work."""

    def __init__(self) -> None:
        self._waits: deque[float] = deque(maxlen=KEPT)

    def add(self, waited_s: float) -> None:
        self._waits.append(waited_s)

    def left(self, waited_s: float) -> float | None:
        """What is left for one that has waited so long."""
        longer = [each - waited_s for each in self._waits if each > waited_s]
        return statistics.median(longer) if longer and len(self._waits) >= ENOUGH else None


class Estimates:
    """All three, and which of them is asked."""

    def __init__(self) -> None:
        self._hold_times = HoldTimes()
        self._finished = Finished()
        self._own_waits = OwnWaits()

    def ended(self, rank: Rank, held_s: float, end: SlotProgress | None) -> None:
        """A request has held a slot so long, and ended like this."""
        self._hold_times.add(rank, held_s)
        if end is not None:
            self._finished.add(end)

    def waited_for_own(self, waited_s: float) -> None:
        self._own_waits.add(waited_s)

    def usual(self, rank: Rank) -> float | None:
        """How long a waiter of this rank will hold its slot; own work yields at its next chunk (SCH-032)."""
        return 0.0 if rank is Rank.OWN else self._hold_times.usual(rank)

    def left(self, rank: Rank, held_s: float, told: SlotProgress | None, age_s: float) -> float | None:
        """Until a request's slot is free; `told` is how far it was `age_s` ago."""
        if told is not None and (live := self._finished.left(told)) is not None:
            return max(live - age_s, 0.0)
        return self._hold_times.left(rank, held_s)

    def left_of_own(self, waited_s: float) -> float | None:
        """Until own work yields to one that has waited so long."""
        return self._own_waits.left(waited_s)


@dataclass(frozen=True, slots=True)
class Ahead:
    """A waiter ahead: the slots it may get, and how long it will hold one, None where that is not known."""

    slots: frozenset[int]
    holds_s: float | None


def until_grant(left: Mapping[int, float | None], ahead: Iterable[Ahead], mine: frozenset[int]) -> float | None:
    """Seconds until somebody who may get the slots `mine` is granted one.

    `left`: what is left of each slot's holder. Who is ahead takes the slot that is free first of those it may get, and
    holds it; with one slot that is the sum of SCH-032. A time that is not known makes its slot's unknown.
    """
    free_at = {slot: math.inf if seconds is None else seconds for slot, seconds in left.items()}
    for waiter in ahead:
        slot = _first(free_at, waiter.slots)
        if slot is not None:
            free_at[slot] += math.inf if waiter.holds_s is None else waiter.holds_s
    first = _first(free_at, mine)
    return None if first is None or math.isinf(free_at[first]) else free_at[first]


def _first(free_at: Mapping[int, float], slots: Iterable[int]) -> int | None:
    return min((slot for slot in slots if slot in free_at), key=lambda slot: (free_at[slot], slot), default=None)


def coarse(seconds: float, own: bool) -> str:
    """An estimate in words, coarse on purpose (SCH-030): in whole seconds up to 10 s where own work alone is waited
    for, else in steps of 10 s, from two minutes on in minutes."""
    if own and seconds <= 10:
        return f"about {max(_whole(seconds), 1)} s"
    tens = max(10 * _whole(seconds / 10), 10)
    return f"about {tens} s" if tens < 120 else f"about {_whole(seconds / 60)} min"


def _whole(value: float) -> int:
    return math.floor(value + 0.5)
