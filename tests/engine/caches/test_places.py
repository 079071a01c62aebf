"""Guests, the parked conversation, pinned heads: decisions over numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.caches.heads import Heads
from tandem.engine.caches.places import Conversation, Decision, Guest, InPlace, PlaceRules, Prompted, TakeOver, decide
from tandem.engine.caches.resident import SPARED, Anchor, Anchors

RULES = PlaceRules(grid=1024, bytes_per_token=10, guest_max=8192, stash=100_000, park=600_000)
LONG = Conversation(rows=50_000)
NONE = Conversation()


@pytest.mark.parametrize(
    ("prompted", "decision", "why"),
    [
        (Prompted(900, 100, NONE), InPlace(), "nothing is held"),
        (Prompted(50_100, 100, Conversation(50_000, 50_000, 50_000)), InPlace(), "its next turn"),
        (Prompted(50_100, 100, Conversation(50_000, 45_000, 44_032)), InPlace(), "its last turn edited"),
        (Prompted(50_100, 100, Conversation(50_000, 45_000, 0)), InPlace(), "the same, its anchors shed"),
        (Prompted(900, 100, LONG), Guest(1000), "short, and shares nothing"),
        (Prompted(8192, 1000, LONG), Guest(9192), "the longest guest"),
        (Prompted(900, 100, Conversation(50_000, 1023, 0)), Guest(1000), "shares less than a chunk"),
        (Prompted(900, 100, Conversation(500)), Guest(500), "no more rows than are held are stashed"),
        (Prompted(1000, 100, Conversation(600, 600, 600)), InPlace(), "a short conversation goes on at its end"),
        (Prompted(8193, 100, LONG), TakeOver(park=True), "too long for a guest"),
        (Prompted(8000, 2001, LONG), TakeOver(park=True), "its rows are more than a stash may hold"),
        (Prompted(20_000, 100, Conversation(50_000, 10_000, 9_216)), TakeOver(park=True), "shares the head only"),
        (Prompted(20_000, 100, Conversation(60_001)), TakeOver(park=False), "more than the park may hold"),
        (Prompted(20_000, 100, Conversation(60_000, anchor_bytes=1)), TakeOver(park=False), "the same with anchors"),
        (
            Prompted(20_000, 100, LONG, parked=Conversation(19_000, 19_000, 19_000)),
            TakeOver(park=True, swap=True),
            "the parked one's next turn",
        ),
        (
            Prompted(500, 100, Conversation(60_001), parked=Conversation(400, 400, 400)),
            TakeOver(park=False, swap=True),
            "a short one comes back too, though the other cannot be parked",
        ),
        (
            Prompted(20_000, 100, Conversation(19_500, 19_000, 18_432), parked=Conversation(18_000, 18_000, 18_000)),
            InPlace(),
            "the resident one serves it better",
        ),
    ],
)
def test_where_a_prompt_goes(prompted: Prompted, decision: Decision, why: str) -> None:
    assert decide(prompted, RULES) == decision, why


def test_budgets_of_nothing_switch_both_off() -> None:
    off = PlaceRules(grid=1024, bytes_per_token=10, stash=0, park=0)
    assert decide(Prompted(900, 100, LONG), off) == TakeOver(park=False)


CONVERSATIONS = st.builds(
    lambda rows, shared, resumes, size: Conversation(
        rows, shared % (rows + 1), resumes % (shared % (rows + 1) + 1), size
    ),
    *[st.integers(0, 100_000)] * 4,
)


@given(st.builds(Prompted, st.integers(1, 100_000), st.integers(0, 9_000), CONVERSATIONS, CONVERSATIONS))
def test_budgets_are_kept_and_nothing_that_serves_a_prompt_is_put_aside(prompted: Prompted) -> None:
    resident = prompted.resident
    match decide(prompted, RULES):
        case Guest(rows):
            assert rows * RULES.bytes_per_token <= RULES.stash
            assert rows <= resident.rows
            assert resident.resumes == 0
            assert prompted.tokens <= RULES.guest_max
        case TakeOver(park, swap):
            assert not park or resident.rows * RULES.bytes_per_token + resident.anchor_bytes <= RULES.park
            assert swap == (prompted.parked.resumes > resident.resumes)
        case InPlace():
            assert 2 * resident.shared >= resident.rows


def test_the_newest_four_heads_are_pinned_at_their_last_line() -> None:
    heads = Heads(4)
    ids = tuple(range(20))
    heads.saw(ids, 10)
    assert heads.pinned(ids) == {8}
    heads.saw(ids, 3)
    assert heads.pinned(ids) == {8}, "a head within the first chunk has no line"
    heads.saw(ids, 17)
    assert heads.pinned(ids) == {8, 16}
    assert heads.pinned((*ids[:9], 99, *ids[10:])) == {8}
    for first in range(50, 53):
        heads.saw((first, *ids), 10)
    heads.saw((50, *ids), 10)
    assert heads.pinned(ids) == {16}, "the oldest has gone; one seen again is new"
    assert heads.pinned((50, *ids)) == {8}


@pytest.mark.spec("ENG-108")
def test_a_pinned_anchor_is_not_thinned_out() -> None:
    anchors = Anchors(4, limit=SPARED + 1, pinned=frozenset({8}))
    for start in range(0, 400, 4):
        anchors.prefilled(start, start + 4)
    rows = [anchor.row for anchor in anchors.all]
    assert 8 in rows
    assert len(rows) == SPARED + 2
    anchors.add(Anchor(402, "text"))
    assert 8 in {anchor.row for anchor in anchors.all}
