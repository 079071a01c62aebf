"""How requests share the engine, as the live view shows it: slots and their guests, the GPU turn, joint passes, memory.

What the actors last said of it is kept here, as they said it. No clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tandem.live import words
from tandem.live.figures import ms
from tandem.live.parallel import AdmissionNow, GuestNow, LaneNow, Parallel, SlotNow, SlotState, TurnNow
from tandem.live.watched import Watched

__all__ = ["Shared", "Sharing"]


@dataclass(frozen=True, slots=True)
class Shared:
    """Who is where at this moment."""

    holders: Mapping[int, Watched] = field(default_factory=dict)
    """By slot, those that work; a guest is none."""
    guests: Sequence[Watched] = ()
    short: Sequence[Watched] = ()
    """Have a slot, and wait for memory."""


class Sharing:
    """Of `slots` slots. Attributes are what was last told; None is what never was."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._gone: set[int] = set()
        self._seconds: Mapping[int, float] = {}
        self._turn = TurnNow(slots=(), hand_overs=0)
        self._rounds: dict[str, int] = {}
        self._meeting: dict[str, dict[str, float]] = {}
        self._memory: tuple[int, int, int | None, int] | None = None
        self._served: Counter[str] = Counter()
        self.own: str | None = None
        """The name of the own work that holds slot 0."""
        self.own_since = 0.0

    @property
    def has_side_slots(self) -> bool:
        return self._slots > 1

    def has_free_side(self, shared: Shared) -> bool:
        """Whether a side slot is free; none is granted while own work runs (SCH-060)."""
        taken = {*shared.holders, *(each.slot for each in shared.short), *self._gone}
        return self.own is None and any(slot not in taken for slot in range(1, self._slots))

    def slot_seen(self, slot: int, *, gone: bool) -> None:
        (self._gone.add if gone else self._gone.discard)(slot)

    def turn_seen(self, slots: tuple[int, ...], hand_overs: int) -> None:
        self._turn = TurnNow(slots=slots, hand_overs=hand_overs)

    def rounds_seen(
        self,
        seconds: Mapping[int, float],
        rounds: Mapping[int, int],
        meeting: Mapping[int, Mapping[str, float]],
    ) -> None:
        self._seconds = seconds
        self._rounds = {str(size): count for size, count in sorted(rounds.items())}
        self._meeting = {str(size): dict(times) for size, times in sorted(meeting.items())}

    def memory_seen(self, reserved: int, floor: int, available: int | None, waits: int) -> None:
        self._memory = reserved, floor, available, waits

    def own_seen(self, name: str | None, now: float) -> None:
        if name != self.own:
            self.own, self.own_since = name, now

    def lane_ended(self, kind: str) -> None:
        self._served[kind] += 1

    def block(self, shared: Shared, now: float, *, lane: int, shows_activity: bool) -> Parallel:
        """`lane` jobs wait for a safe point."""
        return Parallel(
            slots=tuple(self._slot(slot, shared, now, shows_activity) for slot in range(self._slots)),
            turn=self._turn,
            rounds=self._rounds,
            lane=LaneNow(waiting=lane, served=dict(self._served)),
            admission=self._admission(shared if shows_activity else Shared()),
            meeting=self._meeting,
        )

    def _slot(self, slot: int, shared: Shared, now: float, shows_activity: bool) -> SlotNow:
        state, watched = self._state(slot, shared)
        return SlotNow(
            slot=slot,
            state=state,
            request_id=None if watched is None else watched.request_id,
            label=self._label(state, watched, now) if shows_activity else state,
            since_ms=watched.since_ms(now) if watched else ms(now - self.own_since) if state == "own" else None,
            gpu_s=round(self._seconds.get(slot, 0.0), 3),
            guests=tuple(
                GuestNow(request_id=guest.request_id, label=guest.sentence(now) if shows_activity else guest.phase)
                for guest in shared.guests
                if guest.slot == slot
            ),
        )

    def _state(self, slot: int, shared: Shared) -> tuple[SlotState, Watched | None]:
        if slot in self._gone:
            return "gone", None
        if (holder := shared.holders.get(slot)) is not None:
            return "prefilling" if holder.phase == "prefilling" else "writing", holder
        if (short := next((each for each in shared.short if each.slot == slot), None)) is not None:
            return "memory", short
        return ("own" if slot == 0 and self.own is not None else "idle"), None

    def _label(self, state: SlotState, watched: Watched | None, now: float) -> str:
        match state:
            case "own" if self.own is not None:
                return words.own_work(self.own)
            case "memory" if watched is not None:
                return watched.said(words.short(watched.missing, watched.memory_place))
            case _ if watched is not None:
                return watched.sentence(now)
            case "gone":
                return "out of service: its state could not be put right"
            case _:
                return "free"

    def _admission(self, shared: Shared) -> AdmissionNow | None:
        if self._memory is None:
            return None
        reserved, floor, available, waits = self._memory
        return AdmissionNow(
            reserved_bytes=reserved,
            floor_bytes=floor,
            available_bytes=available,
            waits=waits,
            waiting=tuple(each.said(words.short(each.missing, each.memory_place)) for each in shared.short),
        )
