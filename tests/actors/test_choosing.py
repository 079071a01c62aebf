from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tandem.actors.choosing import Candidate, Needs, Resident, SlotRules, choose, continues, may_use_side
from tandem.actors.line import Rank

RULES = SlotRules(side_window=1_000, guest_max=300, chunk=100)
TALK = Resident(tuple(range(500)), prompt=400)
"""A conversation whose last prompt was its first 400 ids."""
FITS = Needs(prompt=500, output=100)


def waiter(key: str = "a", rank: Rank = Rank.TURN, needs: Needs | None = FITS, *, is_lane: bool = False) -> Candidate:
    return Candidate(key, rank, needs, is_lane)


def chosen(
    *order: Candidate, free: set[int], held: tuple[Rank, ...] = (Rank.TURN,), resident: Resident | None = None
) -> tuple[str, int] | None:
    choice = choose(order, free, held, resident, RULES)
    return None if choice is None else (choice[0].key, choice[1])


@pytest.mark.spec("SCH-049")
def test_slot_0_first_then_the_lowest_side_slot() -> None:
    assert chosen(waiter(), free={2, 0, 1}) == ("a", 0)
    assert chosen(waiter(), free={2, 1}) == ("a", 1)
    assert chosen(waiter(), free=set()) is None
    assert chosen(free={0, 1}) is None


@pytest.mark.spec("SCH-049", "SCH-050")
@pytest.mark.parametrize(
    ("who", "fits"),
    [
        (waiter(needs=Needs(prompt=900, output=36)), True),
        (waiter(needs=Needs(prompt=900, output=37)), False),
        (waiter(needs=Needs(prompt=900, output=36, margin=64 + 8_192)), False),
        (waiter(needs=Needs(prompt=10, output=10, text_only=False)), False),
        (waiter(needs=None), False),
        (waiter(is_lane=True), False),
        (waiter(rank=Rank.SIDE), True),
        (waiter(rank=Rank.LONG_SIDE), True),
        (waiter(rank=Rank.OWN), False),
    ],
)
def test_a_side_slot_takes_who_fits(who: Candidate, fits: bool) -> None:
    assert chosen(who, free={1}) == (("a", 1) if fits else None)


@pytest.mark.spec("SCH-049")
def test_a_side_slot_is_offered_in_queue_order() -> None:
    big = waiter("big", needs=Needs(prompt=2_000, output=1))
    assert chosen(big, waiter("b"), waiter("c"), free={1}) == ("b", 1)


@pytest.mark.spec("SCH-013")
def test_a_longer_side_request_gets_no_slot_while_a_turn_waits() -> None:
    big = waiter("big", needs=None)
    assert chosen(big, waiter("long", Rank.LONG_SIDE), free={1}) is None
    assert chosen(waiter("long", Rank.LONG_SIDE), free={1}) == ("long", 1)


@pytest.mark.spec("SCH-051")
def test_the_next_turn_of_the_conversation_is_kept_for_slot_0() -> None:
    keys = (*range(400), 7, 7)
    assert chosen(waiter(needs=dataclasses.replace(FITS, keys=keys)), free={1}, resident=TALK) is None
    assert chosen(waiter(needs=dataclasses.replace(FITS, keys=keys)), free={0, 1}, resident=TALK) == ("a", 0)


@pytest.mark.spec("SCH-051")
@pytest.mark.parametrize(
    ("keys", "resident", "goes_on"),
    [
        (tuple(range(400)), TALK, True),
        ([*range(336), 9, 9], TALK, True),  # a template may end in other ids
        ((*range(335), 9, 9), TALK, False),  # as a second session with the same system prompt
        (tuple(range(335)), TALK, False),
        ((), TALK, False),
        (tuple(range(400)), None, False),
        (tuple(range(65)), Resident(range(65), prompt=65), True),
        (tuple(range(64)), Resident(range(64), prompt=64), False),
    ],
)
def test_what_goes_on_with_a_conversation(keys: tuple[int, ...], resident: Resident | None, goes_on: bool) -> None:
    assert continues(keys, resident) == goes_on


class Counted(tuple[int, ...]):
    """Ids of a prompt, and how often somebody has looked through them."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        Counted.looks += 1
        return super().__getitem__(at)


def test_a_long_prompt_is_compared_once_with_what_slot_0_holds() -> None:
    who = waiter(needs=dataclasses.replace(FITS, keys=Counted(range(400))))
    for resident in (TALK, TALK, TALK, dataclasses.replace(TALK)):
        assert not may_use_side(who, resident, RULES)
    assert Counted.looks == 2
    assert may_use_side(dataclasses.replace(who, needs=FITS), TALK, RULES)


@pytest.mark.spec("SCH-053")
@pytest.mark.parametrize("who", [waiter(rank=Rank.SIDE), waiter(is_lane=True)])
def test_a_small_stranger_leaves_the_conversation_alone(who: Candidate) -> None:
    def slot(needs: Needs, resident: Resident | None = TALK, free: tuple[int, ...] = (0, 1)) -> int:
        choice = choose([dataclasses.replace(who, needs=needs)], free, (), resident, RULES)
        assert choice is not None
        return choice[1]

    small = Needs(prompt=300, output=10, keys=(*range(99), 1, 1))
    assert slot(small) == 1
    assert slot(small, free=(0,)) == 0
    assert slot(small, resident=None) == 0
    assert slot(dataclasses.replace(small, prompt=301)) == 0
    assert slot(dataclasses.replace(small, keys=tuple(range(100)))) == 0
    assert slot(dataclasses.replace(small, output=1_000)) == 0


@pytest.mark.spec("SCH-053")
def test_a_turn_is_no_stranger() -> None:
    assert chosen(waiter(needs=Needs(prompt=10, output=10)), free={0, 1}, held=(), resident=TALK) == ("a", 0)


@pytest.mark.spec("SCH-080")
def test_own_work_waits_until_no_request_holds_a_slot() -> None:
    own = waiter("own", Rank.OWN, None)
    assert chosen(own, free={0, 1}, held=()) == ("own", 0)
    assert chosen(own, free={0, 1}, held=(Rank.SIDE,)) is None
    assert chosen(own, free={1}, held=()) is None


@pytest.mark.spec("SCH-060")
def test_nobody_gets_a_side_slot_while_own_work_runs() -> None:
    assert chosen(waiter(), free={1}, held=(Rank.OWN,)) is None


def test_without_a_rule_against_it_a_waiter_may_use_a_side_slot() -> None:
    assert may_use_side(waiter(), None, RULES)
    assert not may_use_side(waiter(rank=Rank.LONG_SIDE), None, RULES, turn_waits=True)
