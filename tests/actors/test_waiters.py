"""The queue alone, against a model: anybody comes, leaves, is granted, lent and done, over 1, 2 and 4 slots."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem.actors.choosing import Candidate, Needs, Resident, SlotRules
from tandem.actors.line import MAX_OVERTAKEN, Rank
from tandem.actors.waiters import Grant, Waiters

MAX_QUEUE = 5
RULES = SlotRules(side_window=1_000, guest_max=300, chunk=100)
TALK = Resident(tuple(range(400)), prompt=400)
SMALL = Needs(prompt=200, output=100)
NEEDS = {
    "small": SMALL,
    "large": Needs(prompt=950, output=100),
    "picture": Needs(prompt=200, output=100, text_only=False),
    "next turn": Needs(prompt=420, output=100, keys=tuple(range(420))),
    "unknown": None,
}


@dataclass
class Known:
    """What the model keeps of who waits."""

    rank: Rank
    needs: str
    came: int
    is_lane: bool = False
    guest: bool = False
    in_lane: bool = False
    overtaken: int = 0
    position: int | None = None


class QueueModel(RuleBasedStateMachine):
    @initialize(slots=st.sampled_from([1, 2, 4]))
    def begin(self, slots: int) -> None:
        self.waiters = Waiters(max_queue=MAX_QUEUE, rules=RULES)
        for slot in range(slots):
            self.waiters.add_slot(slot)
        self.slots = slots
        self.known: dict[str, Known] = {}
        self.running: dict[int, Rank] = {}
        self.resident: Resident | None = None
        self.before: Resident | None = None
        """What slot 0 held before its last grant."""
        self.came = 0
        self.may_rise = False

    def holds_talk(self) -> bool:
        """Whether slot 0 holds the conversation that the next turn goes on with."""
        return self.resident is not None and len(self.resident.keys) > 0

    def line(self) -> dict[str, Known]:
        return {key: known for key, known in self.known.items() if not known.in_lane}

    def counted(self) -> int:
        return sum(known.rank is not Rank.OWN and not known.guest for known in self.line().values())

    def lane_jobs(self) -> int:
        return sum(known.in_lane or known.guest for known in self.known.values())

    @rule(
        rank=st.sampled_from([Rank.SIDE, Rank.SIDE, Rank.TURN, Rank.TURN, Rank.LONG_SIDE, Rank.OWN]),
        needs=st.sampled_from(["small", "small", *NEEDS]),
    )
    def enter(self, rank: Rank, needs: str) -> None:
        self._enter(rank, "unknown" if rank is Rank.OWN else needs)

    @rule(rank=st.sampled_from([Rank.SIDE, Rank.TURN]), needs=st.sampled_from(["small", "next turn"]))
    def ask(self, rank: Rank, needs: str) -> None:
        """A lane job comes."""
        self._enter(rank, needs, is_lane=True)

    @rule(count=st.integers(1, 10))
    def flood(self, count: int) -> None:
        """Side requests that come while a slot is free again and again."""
        for _ in range(count):
            self._enter(Rank.SIDE, "small")
            if 0 in self.running:
                self._free(0)

    def _enter(self, rank: Rank, needs: str, *, is_lane: bool = False) -> None:
        key = f"{rank.name} {self.came}"
        known = self.known[key] = Known(rank, needs, self.came, is_lane)
        self.came += 1
        takes_lane = is_lane and 0 in self.running and self.lane_jobs() < MAX_QUEUE
        if takes_lane and self.running[0] is Rank.OWN:
            known.rank, known.guest = Rank.SIDE, True
        elif takes_lane:
            known.in_lane = True
        self.may_rise |= known.rank is Rank.SIDE and not known.in_lane
        self.waiters.enter(Candidate(key, rank, NEEDS[needs], is_lane), 0.0)
        self._settle()
        too_many = key in self.known and not (known.in_lane or known.guest or rank is Rank.OWN)
        too_many = too_many and self.counted() > MAX_QUEUE
        assert self.waiters.is_too_many(key) == too_many
        if too_many:
            self._leave(key)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.known:
            self._leave(data.draw(st.sampled_from(sorted(self.known))))
        assert not self.waiters.leave("stranger")

    def _leave(self, key: str) -> None:
        assert self.waiters.leave(key)
        del self.known[key]
        self._settle()

    @rule(data=st.data(), talk=st.booleans())
    def free(self, data: st.DataObject, talk: bool) -> None:
        if self.running:
            self._free(data.draw(st.sampled_from(sorted(self.running))), TALK if talk else None)

    def _free(self, slot: int, resident: Resident | None = None, *, vanished: bool = False) -> None:
        del self.running[slot]
        if slot == 0:
            self.resident = resident or self.before
        assert self.waiters.free(slot, resident, None, 0.0) == []
        if slot == 0:
            for known in self.known.values():
                if known.in_lane:
                    known.rank, known.guest, known.in_lane, known.came = Rank.SIDE, True, False, self.came
                    self.came += 1
                    self.may_rise = True
        self._settle(vanished=vanished)

    @precondition(lambda self: self.running and self.line())
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        """A slot is free, and whom it is granted has gone."""
        self._free(data.draw(st.sampled_from(sorted(self.running))), vanished=True)

    @rule()
    def take_lane(self) -> None:
        lane = [key for key, known in self.known.items() if known.in_lane]
        key = self.waiters.next_job()
        assert key == (lane[0] if lane else None)
        if key is not None:
            del self.known[key]

    @rule()
    def everybody_goes(self) -> None:
        """Who waits leaves, what runs ends, and nothing is left."""
        while self.known:
            self._leave(next(iter(self.known)))
        while self.running:
            self._free(min(self.running))
        assert (self.waiters.waiting, self.waiters.in_lane, self.waiters.running) == (0, 0, 0)

    def _settle(self, *, vanished: bool = False) -> None:
        while (grant := self.waiters.next_grant(0.0)) is not None:
            self._check(grant)
            del self.known[grant.key]
            if vanished:
                self.waiters.undo(grant)
                del self.running[grant.slot]
                self.resident = self.before if grant.slot == 0 else self.resident
                vanished = False

    def _check(self, grant: Grant) -> None:
        """It breaks no rule; the model counts what it overtakes."""
        assert grant.slot not in self.running
        granted = self.known[grant.key]
        assert not granted.in_lane
        resumes = granted.needs == "next turn" and self.holds_talk()
        assert grant.guest == (granted.guest and grant.slot == 0 and not resumes)
        strangers = (
            granted.needs == "small" and (granted.is_lane or granted.rank is Rank.SIDE) and 0 not in self.running
        )
        assert grant.slot == 0 or self._may_use(granted, 1) or (strangers and self.resident)
        assert granted.rank is not Rank.OWN or not self.running
        assert Rank.OWN not in self.running.values()
        for key, other in self.line().items():
            if key != grant.key and self._may_use(other, grant.slot):
                self._check_order(granted, other)
        self.running[grant.slot] = granted.rank
        if grant.slot == 0:
            self.before = self.resident
            needs = NEEDS[granted.needs]
            if granted.rank is Rank.TURN and needs is not None and not grant.guest:
                self.resident = Resident(needs.keys, len(needs.keys))

    def _check_order(self, granted: Known, other: Known) -> None:
        if other.rank is Rank.TURN and other.came < granted.came:
            assert granted.rank is Rank.SIDE  # nothing else overtakes a turn
            other.overtaken += 1
            assert other.overtaken <= MAX_OVERTAKEN
        if other.rank is granted.rank:
            assert granted.came < other.came
        if other.rank < granted.rank:  # a worse rank goes first only by the limit on overtakings
            assert (other.rank, granted.rank) == (Rank.SIDE, Rank.TURN)
            assert granted.overtaken == MAX_OVERTAKEN
            assert granted.came < other.came

    def _may_use(self, known: Known, slot: int) -> bool:
        if slot == 0:
            return True
        if known.rank is Rank.LONG_SIDE and any(other.rank is Rank.TURN for other in self.line().values()):
            return False
        kept = known.needs == "next turn" and self.holds_talk()
        return known.needs in ("small", "next turn") and not kept and not known.is_lane

    @invariant()
    def nobody_waits_beside_a_slot_that_may_be_his(self) -> None:
        free = set(range(self.slots)) - self.running.keys()
        assert self.waiters.free_slots == sorted(free)
        line = self.line().values()
        if 0 in free:
            assert all(known.rank is Rank.OWN for known in line)
            assert not line or self.running
        if free and Rank.OWN not in self.running.values():
            assert not any(self._may_use(known, 1) for known in line)

    @invariant()
    def everybody_waits_somewhere_and_within_bounds(self) -> None:
        lane = [key for key, known in self.known.items() if known.in_lane]
        assert not lane or self.running.get(0, Rank.OWN) is not Rank.OWN
        assert self.waiters.in_lane == len(lane)
        assert self.waiters.waiting == len(self.line())
        assert self.counted() <= MAX_QUEUE
        assert self.lane_jobs() <= MAX_QUEUE
        ranks = [known.rank for known in self.known.values()] + list(self.running.values())
        assert self.waiters.is_idle == all(rank is Rank.OWN for rank in ranks)

    @invariant()
    def places_are_in_order_and_rise_for_a_side_request_alone(self) -> None:
        order = self.waiters.order(100)
        assert sorted(order) == sorted(self.line())
        for position, key in enumerate(order, start=1):
            place = self.waiters.place(key, 0.0)
            assert place is not None
            assert place.position == position
            known = self.known[key]
            if known.rank <= Rank.TURN and known.position is not None and not self.may_rise:
                assert position <= known.position, key
            known.position = position
        self.may_rise = False


QueueModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWaiters = pytest.mark.spec("SCH-011", "SCH-013", "SCH-014", "SCH-016", "SCH-017", "SCH-049", "SCH-053", "SCH-080")(
    QueueModel.TestCase
)
