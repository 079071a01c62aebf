from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.actors.fairness import FairShare

QUANTUM = 0.05
STEPS = st.lists(st.floats(0.001, 2.0), min_size=1, max_size=8)
"""Lengths of a slot's pieces of work, taken in turn."""


class Device:
    """Slots that work in steps and look at each safe point whether they are to give the turn back."""

    def __init__(self, steps: dict[int, list[float]]) -> None:
        self.share = FairShare(QUANTUM)
        self.now = 100.0
        self.used = dict.fromkeys(steps, 0.0)
        self.log: list[int] = []
        self._steps = {slot: cycle(lengths) for slot, lengths in steps.items()}

    def want(self, *slots: int) -> None:
        for slot in slots:
            self.share.want(slot, self.now)
        self.share.grant(self.now)

    def step(self) -> None:
        """One piece of work of the holder, and the hand-over behind it where one is due."""
        holder = self.share.holder
        assert holder is not None
        length = next(self._steps[holder])
        self.now += length
        self.used[holder] += length
        self.log.append(holder)
        due = self.share.recall_at()
        if due is not None and self.now >= due:
            self.share.give_up(holder, self.now)
            self.share.grant(self.now)
            self.want(holder)

    def idle(self, slot: int) -> None:
        self.share.give_up(slot, self.now)
        self.share.grant(self.now)


@pytest.mark.spec("SCH-059")
def test_the_turn_goes_to_who_has_had_least_and_then_to_the_lower_number() -> None:
    share = FairShare(QUANTUM)
    for slot in (2, 1, 3):
        share.want(slot, 0.0)
    assert share.grant(0.0) == 1
    assert share.grant(0.0) is None
    share.give_up(1, 4.0)
    share.want(1, 4.0)
    assert share.grant(4.0) == 2
    share.give_up(2, 5.0)
    share.want(2, 5.0)
    assert share.grant(5.0) == 3
    share.give_up(3, 11.0)
    share.want(3, 11.0)
    assert [share.grant(11.0), share.holder, share.seconds()] == [2, 2, {1: 4.0, 2: 1.0, 3: 6.0}]


@pytest.mark.spec("SCH-058")
def test_the_holder_is_recalled_once_it_is_a_quantum_ahead() -> None:
    share = FairShare(QUANTUM)
    assert share.recall_at() is None
    share.want(0, 10.0)
    share.grant(10.0)
    assert share.recall_at() is None  # nobody waits: it keeps the turn
    share.want(1, 13.0)
    assert share.recall_at() == pytest.approx(13.05)  # the other starts level with it
    share.give_up(0, 13.2)
    assert share.grant(13.2) == 1
    share.want(0, 13.2)
    assert share.recall_at() == pytest.approx(13.2 + 0.2 + 0.05)


@pytest.mark.spec("SCH-058")
def test_a_recall_that_is_overdue_is_due_now() -> None:
    share = FairShare(QUANTUM)
    share.want(0, 0.0)
    share.want(1, 0.0)
    share.grant(0.0)
    share.give_up(0, 5.0)
    share.want(2, 5.0)
    assert share.grant(5.0) == 1  # both have had nothing
    share.give_up(1, 9.0)
    assert share.grant(9.0) == 2
    share.give_up(2, 20.0)
    share.want(2, 20.0)
    assert share.grant(20.0) == 2  # alone, and far ahead of nobody
    share.want(1, 20.0)
    due = share.recall_at()
    assert due is not None
    assert due <= 20.05


def test_only_the_holder_gives_up() -> None:
    share = FairShare(QUANTUM)
    share.want(0, 0.0)
    share.grant(0.0)
    share.give_up(1, 3.0)
    assert share.holder == 0
    share.give_up(0, 3.0)
    share.give_up(0, 9.0)
    assert share.holder is None
    assert share.seconds() == {0: 3.0}


@pytest.mark.spec("SCH-059")
@given(first=STEPS, second=STEPS)
def test_two_busy_slots_stay_within_a_quantum_and_a_step(first: list[float], second: list[float]) -> None:
    device = Device({0: first, 1: second})
    device.want(0, 1)
    band = QUANTUM + max(first + second)
    while device.now < 120.0:  # ten seconds and more, at every safe point of them
        device.step()
        assert abs(device.used[0] - device.used[1]) <= band + 1e-9


@pytest.mark.spec("SCH-059")
@pytest.mark.parametrize("comes_first", [0, 1])
@pytest.mark.parametrize("alone_s", [1.0, 30.0])
def test_idling_saves_nothing_up(comes_first: int, alone_s: float) -> None:
    """Slot 1 idles while slot 0 works; then both rest, and come back in either order."""
    device = Device({0: [0.01], 1: [0.01]})
    device.want(0)
    while device.used[0] < alone_s:
        device.step()
    device.idle(0)
    device.now += 60.0
    device.want(comes_first)
    device.want(1 - comes_first)
    before = dict(device.used)
    for _ in range(1000):
        device.step()
        had = [device.used[slot] - before[slot] for slot in (0, 1)]
        assert abs(had[0] - had[1]) <= QUANTUM + 0.01 + 1e-9


@pytest.mark.spec("SCH-059")
def test_who_joins_a_busy_slot_starts_level_with_it() -> None:
    device = Device({0: [0.01], 1: [0.01]})
    device.want(0)
    for _ in range(1000):
        device.step()
    device.want(1)
    for _ in range(50):
        device.step()
    assert device.log[1000:].count(1) in range(20, 31)


@given(
    lengths=st.lists(STEPS, min_size=3, max_size=3),
    rests=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60),
)
@pytest.mark.spec("SCH-059", "SCH-057")
def test_busy_slots_stay_level_however_often_some_rest(
    lengths: list[list[float]], rests: list[tuple[int, bool]]
) -> None:
    """The band holds for any two from the moment on at which both are busy."""
    device = Device(dict(enumerate(lengths)))
    busy: set[int] = set()
    band = QUANTUM + max(max(steps) for steps in lengths)
    for slot, works in rests:
        if works and slot not in busy:
            busy.add(slot)
            device.want(slot)
        elif not works and slot == device.share.holder:
            busy.discard(slot)
            device.idle(slot)
        for _ in range(3):
            if device.share.holder is not None:
                device.step()
        assert (device.share.holder is None) == (not busy)
        if busy:
            seconds = [device.share._time(slot, device.now) for slot in busy]
            assert max(seconds) - min(seconds) <= band + 1e-9


@pytest.mark.spec("SCH-058", "SCH-059")
def test_slots_that_hold_the_turn_together_share_its_time_and_go_on_until_another_is_a_quantum_behind() -> None:
    share = FairShare(QUANTUM)
    for slot in (0, 1):
        share.want(slot, 0.0)
    share.hold((0, 1), 0.0)
    assert share.holders == {0, 1}
    assert share.recall_at() is None
    share.give_up(0, 0.02)  # one of several cannot
    assert share.holders == {0, 1}
    share.release(0.04)
    assert share.seconds() == {0: 0.02, 1: 0.02}
    share.want(2, 0.04)  # starts with nothing saved up
    assert share.seconds()[2] == 0.02
    now = 0.04
    rounds = 0
    while True:
        for slot in (0, 1):
            share.want(slot, now)
        if share.first((0, 1)) == 2:
            break
        share.hold((0, 1), now)
        now += 0.03
        share.release(now)
        rounds += 1
    assert rounds == 4  # 0.015 s of each a round, until 0.05 s are between them
    assert share.grant(now) == 2


def test_who_withdraws_is_not_waited_for() -> None:
    share = FairShare(QUANTUM)
    share.want(0, 0.0)
    share.want(1, 0.0)
    share.withdraw(0)
    assert share.first() == 1
    share.withdraw(1)
    assert share.first() is None
