from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.actors.meeting import Meeting

TIMEOUT = 0.002


@pytest.mark.spec("SCH-067")
def test_a_block_that_is_alone_starts_at_once() -> None:
    meeting = Meeting[str](TIMEOUT)
    meeting.hand_in(3, "c")
    assert meeting.late == frozenset()
    assert meeting.take(1.0, 1.0) == {3: "c"}
    assert meeting.members == {3}


@pytest.mark.spec("SCH-064", "SCH-066")
def test_a_round_waits_for_its_members_but_not_past_the_timeout() -> None:
    meeting = Meeting[str](TIMEOUT)
    for slot, block in ((1, "b"), (0, "a")):
        meeting.hand_in(slot, block)
    assert list((meeting.take(1.0, 1.0) or {}).items()) == [(1, "b"), (0, "a")]  # the last to come is the last
    meeting.hand_in(1, "b")
    assert meeting.late == {0}
    assert meeting.due(2.0) == pytest.approx(2.0 + TIMEOUT)
    assert meeting.take(2.0 + 0.9 * TIMEOUT, 2.0) is None
    assert meeting.take(2.0 + TIMEOUT, 2.0) == {1: "b"}
    assert meeting.members == {1}
    meeting.hand_in(1, "b")
    assert meeting.take(3.0, 3.0) == {1: "b"}  # nobody waits for slot 0 any more
    meeting.hand_in(0, "a")
    assert meeting.take(4.0, 4.0) is None  # and it is waited for again


@pytest.mark.spec("SCH-068")
def test_who_leaves_holds_up_nobody() -> None:
    meeting = Meeting[str](TIMEOUT)
    for slot, block in ((0, "a"), (1, "b")):
        meeting.hand_in(slot, block)
    meeting.leave(1)
    assert meeting.take(1.0, 1.0) == {0: "a"}
    meeting.leave(0)
    meeting.leave(0)
    assert meeting.members == frozenset()


STEPS = st.lists(st.tuples(st.sampled_from(["in", "leave", "wait", "take"]), st.integers(0, 3)), max_size=60)


@given(STEPS)
@pytest.mark.spec("SCH-064", "SCH-066", "SCH-068")
def test_no_block_is_lost_or_taken_twice_and_nobody_waits_longer_than_the_timeout(steps: list[tuple[str, int]]) -> None:
    meeting = Meeting[int](TIMEOUT)
    waiting: dict[int, int] = {}
    members: set[int] = set()
    now, unused_since = 1.0, 1.0
    for block, (what, slot) in enumerate(steps):
        match what:
            case "in":
                meeting.hand_in(slot, block)
                waiting[slot] = block
                members.add(slot)
            case "leave":
                meeting.leave(slot)
                waiting.pop(slot, None)
                members.discard(slot)
            case "wait":
                now += slot * TIMEOUT / 2
            case _:
                taken = meeting.take(now, unused_since)
                if taken is None:
                    assert now - unused_since < TIMEOUT
                    assert members - waiting.keys()
                else:
                    assert taken == waiting
                    members &= waiting.keys()
                    waiting, unused_since = {}, now
        assert meeting.members == members
        assert meeting.late == members - waiting.keys()
        assert meeting.has_blocks == bool(waiting)
