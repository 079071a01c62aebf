from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem.actors.line import MAX_OVERTAKEN, Rank, WaitingLine

SIDE, TURN, LONG_SIDE, OWN = Rank


def line_of(*waiters: tuple[str, Rank]) -> WaitingLine:
    line = WaitingLine()
    for key, rank in waiters:
        line.enter(key, rank)
    return line


def popped(line: WaitingLine) -> list[str]:
    keys = []
    while (key := line.pop()) is not None:
        keys.append(key)
    return keys


def copy(line: WaitingLine) -> WaitingLine:
    twin = WaitingLine()
    twin._waiters = list(line._waiters)
    return twin


@pytest.mark.spec("SCH-011")
def test_better_ranks_first_and_within_a_rank_as_they_came() -> None:
    line = line_of(
        ("own", OWN), ("long a", LONG_SIDE), ("turn a", TURN), ("side a", SIDE),
        ("side b", SIDE), ("turn b", TURN), ("long b", LONG_SIDE), ("own b", OWN),
    )  # fmt: skip
    assert popped(line) == ["side a", "side b", "turn a", "turn b", "long a", "long b", "own", "own b"]


@pytest.mark.spec("SCH-014")
def test_a_flood_of_side_requests_overtakes_a_turn_eight_times() -> None:
    line = line_of(("turn", TURN))
    order = []
    for number in range(20):
        line.enter(f"side {number}", SIDE)
        order.append(line.pop())
    assert order.index("turn") == MAX_OVERTAKEN == 8


@pytest.mark.spec("SCH-014")
def test_a_turn_counts_only_those_who_came_after_it() -> None:
    line = line_of(*((f"early {number}", SIDE) for number in range(10)), ("turn", TURN))
    for number in range(10):
        line.enter(f"late {number}", SIDE)
    assert popped(line).index("turn") == 10 + MAX_OVERTAKEN


@pytest.mark.spec("SCH-011")
def test_a_long_side_request_runs_only_while_no_turn_waits() -> None:
    line = line_of(("long", LONG_SIDE))
    for number in range(30):
        line.enter(f"turn {number}", TURN)
        assert line.pop() == f"turn {number}"
    assert line.pop() == "long"


@pytest.mark.spec("SCH-016")
def test_who_leaves_is_gone_and_those_behind_move_up() -> None:
    line = line_of(("a", TURN), ("b", TURN), ("c", TURN))
    assert [line.position(key) for key in "abc"] == [1, 2, 3]
    assert line.leave("b")
    assert not line.leave("b")
    assert [line.position(key) for key in "abc"] == [1, None, 2]
    assert line.waiting() == ["a", "c"]
    assert len(line) == 2
    assert repr(line) == "<WaitingLine a:TURN, c:TURN>"
    assert popped(line) == ["a", "c"]
    assert line.pop() is None
    assert line.position("a") is None


@dataclass
class Known:
    """What the model keeps of a waiter: its rank, who came before it, how often it was overtaken."""

    rank: Rank
    came: int
    overtaken: int = 0
    position: int | None = None


class LineModel(RuleBasedStateMachine):
    """Anybody comes, leaves and is granted at any time."""

    @initialize()
    def begin(self) -> None:
        self.line = WaitingLine()
        self.waiting: dict[str, Known] = {}
        self.came = 0
        self.may_rise = False

    @precondition(lambda self: len(self.waiting) < 12)
    @rule(rank=st.sampled_from([SIDE, SIDE, SIDE, TURN, TURN, LONG_SIDE, OWN]))
    def enter(self, rank: Rank) -> None:
        key = f"{rank.name} {self.came}"
        self.line.enter(key, rank)
        self.waiting[key] = Known(rank, self.came)
        self.came += 1
        self.may_rise = rank is SIDE

    @rule(count=st.integers(1, 10))
    def flood(self, count: int) -> None:
        """Side requests that are granted as they come."""
        for _ in range(count):
            self.enter(SIDE)
            self.grant()

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.waiting:
            key = data.draw(st.sampled_from(sorted(self.waiting)))
            assert self.line.leave(key)
            del self.waiting[key]
        assert not self.line.leave("stranger")

    @rule()
    def grant(self) -> None:
        key = self.line.pop()
        if key is None:
            assert not self.waiting
            return
        granted = self.waiting.pop(key)
        for other in self.waiting.values():
            if other.rank is TURN and other.came < granted.came:
                assert granted.rank is SIDE  # nothing else overtakes a turn
                other.overtaken += 1
                assert other.overtaken <= MAX_OVERTAKEN
            if other.rank is granted.rank:
                assert granted.came < other.came
            if other.rank < granted.rank:  # a worse rank goes first only by the limit on overtakings
                assert (other.rank, granted.rank) == (SIDE, TURN)
                assert granted.overtaken == MAX_OVERTAKEN
                assert granted.came < other.came

    @invariant()
    def positions_are_the_grants_to_come(self) -> None:
        """And that of a turn or a short side request rises only when a short side request enters."""
        assert self.line.waiting() == list(self.waiting)
        order = popped(copy(self.line))
        assert sorted(order) == sorted(self.waiting)
        assert self.line.order(3) == tuple(order[:3])
        for place, key in enumerate(order, start=1):
            assert self.line.position(key) == place
            known = self.waiting[key]
            if known.rank <= TURN and known.position is not None and not self.may_rise:
                assert place <= known.position, key
            known.position = place
        self.may_rise = False


LineModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLine = pytest.mark.spec("SCH-011", "SCH-014")(LineModel.TestCase)
