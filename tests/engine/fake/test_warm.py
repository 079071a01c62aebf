"""The fake engine's caches by arithmetic (ENG-172)."""

from __future__ import annotations

import pytest

from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Prefilled, SamplingRules

GRID = 8
LONG, OTHER = tuple(range(100, 120)), tuple(range(200, 205))


def turn(engine: WarmFakeEngine, ids: tuple[int, ...], count: int = 3) -> tuple[Prefilled, tuple[int, ...]]:
    """One request; the ids of the next turn's beginning."""
    seq = engine.open(Prompt.of_client(ids))
    try:
        while (read := engine.prefill(seq, len(ids))).done < len(ids):
            pass
        for _ in range(count):
            [rows] = engine.verify([(seq, EMPTY_TREE)])
            engine.accept(seq, rows, SamplingRules())
        return read, (*ids, *seq.output)
    finally:
        engine.close(seq)


@pytest.mark.spec("ENG-172")
def test_it_resumes_at_lines_and_ends() -> None:
    engine = WarmFakeEngine(grid=GRID)
    first, following = turn(engine, LONG)
    assert (first.resumed, first.source) == (0, "")
    again, _ = turn(engine, (*following, 1))
    assert (again.resumed, again.source) == (len(LONG) + 2, "end")
    edited, _ = turn(engine, (*LONG[:17], 1))
    assert (edited.resumed, edited.source) == (16, "resident")
    assert engine.state()["resumed_tokens"] == len(LONG) + 2 + 16


@pytest.mark.spec("ENG-172")
def test_a_guest_leaves_the_conversation_where_it_was() -> None:
    engine = WarmFakeEngine(grid=GRID)
    _, following = turn(engine, LONG)
    guest, its_own = turn(engine, OTHER)
    assert guest.resumed == 0
    assert turn(engine, (*its_own, 1))[0].source == "end"
    assert turn(engine, (*following, 1))[0].resumed == len(LONG) + 2
    assert engine.state()["resident_guests"] == 1


@pytest.mark.spec("ENG-172")
def test_a_loan_finds_nothing_and_leaves_nothing() -> None:
    engine = WarmFakeEngine(grid=GRID)
    _, following = turn(engine, LONG)
    loan = engine.borrow(None, 100)
    assert turn(engine, LONG)[0].resumed == 0
    engine.give_back(loan)
    assert turn(engine, (*following, 1))[0].source == "end"
    assert engine.clear() == {"resident": len(LONG) + 6}
    assert turn(engine, following)[0].source == ""


@pytest.mark.spec("ENG-172")
def test_it_sheds_in_order_and_refuses() -> None:
    engine = WarmFakeEngine(grid=GRID, workspace=10, peak=100)
    engine.levels = {"parked": 40, "state_store": 30}
    engine.reserved = 40
    turn(engine, LONG)
    assert engine.levels == {"parked": 40}
    engine.reserved = 95
    with pytest.raises(MemoryRefused) as refused:
        turn(engine, OTHER)
    assert refused.value.numbers["in_a_row"] == 1
    assert [event.kind for event in engine.memory().events] == ["shed", "shed", "refuse"]
