"""Where a prompt resumes, as a function of ids and of how each row was written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.caches.resident import SPARED, Anchor, Anchors, ResidentPrefix
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.shared import shared_length

GRID = 4


def read(anchors: Anchors, start: int, end: int) -> None:
    """Prefill rows start…end - 1 as the engine does: cut at grid lines."""
    while start < end:
        cut = min((start // GRID + 1) * GRID, end)
        anchors.prefilled(start, cut)
        start = cut


def held(ids: Sequence[int], prompt: int, *, end_anchor: bool = True) -> ResidentPrefix:
    """A prefix of `ids`, the first `prompt` of them prefilled and the others written."""
    resident = ResidentPrefix(GRID, end_anchor=end_anchor)
    anchors = Anchors(GRID)
    read(anchors, 0, prompt)
    resident.keep(ids, anchors)
    return resident


IDS = tuple(range(100, 118))


@pytest.mark.spec("ENG-107", "ENG-110")
@pytest.mark.parametrize(
    ("ids", "row", "why"),
    [
        ((*IDS, 1), 18, "extends the end"),
        (IDS, 8, "is the whole of it: the last row must still be read, and nothing resumes between anchors"),
        ((*IDS[:17], 1, 2), 8, "parts one row before the end; lines that rounds wrote are no anchors"),
        (IDS[:9], 8, "parts above a line"),
        (IDS[:8], 4, "ends on a line, whose row before must be read"),
        ((*IDS[:7], 1, 2), 4, "parts below a line"),
        ((1, *IDS[1:], 1), 0, "has another beginning"),
        ((100,), 0, "is one token"),
    ],
)
def test_it_resumes_at_the_highest_anchor_that_is_shared(ids: tuple[int, ...], row: int, why: str) -> None:
    assert held(IDS, 10).resume(ids).newest == row, why


@pytest.mark.spec("ENG-110")
def test_without_the_end_anchor_only_lines_are_left() -> None:
    assert held(IDS, 10, end_anchor=False).resume((*IDS, 1)).newest == 8


@pytest.mark.spec("ENG-073")
def test_lines_of_a_whole_prefill_are_bit_class_and_the_end_is_text_class() -> None:
    resident = held(IDS, 10)
    assert resident.resume((*IDS, 1)).all == (Anchor(4, "bit"), Anchor(8, "bit"), Anchor(18, "text"))


@pytest.mark.spec("ENG-073", "ENG-037")
def test_the_end_of_a_prefill_stopped_on_a_line_is_bit_class() -> None:
    resident = held(IDS[:8], 8)
    assert resident.resume(IDS).all == (Anchor(4, "bit"), Anchor(8, "bit"))


@pytest.mark.spec("ENG-073")
def test_lines_read_after_an_end_are_text_class_for_good() -> None:
    resident = held(IDS, 10)
    longer = (*IDS, *range(12))
    anchors = resident.resume(longer)
    read(anchors, 18, 30)
    text = (Anchor(18, "text"), Anchor(20, "text"), Anchor(24, "text"), Anchor(28, "text"))
    assert anchors.all == (Anchor(4, "bit"), Anchor(8, "bit"), *text)
    resident.keep(longer, anchors)
    assert resident.resume((*IDS, 99)).newest == 18, "the end of an earlier turn"
    again = resident.resume((*longer[:25], 99, 99, 99, 99))
    read(again, 24, 29)
    assert again.all[-1] == Anchor(28, "text")
    bit = resident.resume((*longer[:9], *range(9)))
    read(bit, 8, 18)
    assert {anchor.exactness for anchor in bit.all} == {"bit"}


@pytest.mark.spec("ENG-073")
def test_an_end_that_rounds_took_to_a_line_is_text_class() -> None:
    resident = held(IDS[:16], 10)
    anchors = resident.resume(IDS[:18] + IDS[:4])
    assert anchors.all[-1] == Anchor(16, "text")
    read(anchors, 16, 22)
    assert anchors.all[-1] == Anchor(20, "text")


def test_a_pass_cut_off_the_grid_makes_later_lines_text_class() -> None:
    anchors = Anchors(GRID)
    for start, end in ((0, 3), (3, 4), (4, 8)):
        anchors.prefilled(start, end)
    assert anchors.all == (Anchor(4, "text"), Anchor(8, "text"))


def test_it_counts_and_forgets() -> None:
    resident = held(IDS, 10)
    resident.resume((*IDS, 1))
    resident.resume((1, 2))
    assert resident.state() == {
        "resident_rows": 18,
        "resident_anchors": 3,
        "resident_hits": 1,
        "resident_misses": 1,
    }
    assert resident.drop() == 18
    assert resident.drop() == resident.rows == 0
    assert resident.resume((*IDS, 1)).newest == 0


def test_switched_off_it_keeps_and_counts_nothing() -> None:
    resident = ResidentPrefix(GRID, enabled=False)
    anchors = Anchors(GRID)
    read(anchors, 0, 18)
    resident.keep(IDS, anchors)
    assert resident.resume((*IDS, 1)).newest == 0
    assert set(resident.state().values()) == {0}


few = st.lists(st.integers(0, 1), max_size=40)


@pytest.mark.spec("ENG-105")
@settings(deadline=None)
@given(few, few, few)
def test_the_shared_length_is_that_of_a_plain_loop(head: list[int], one: list[int], other: list[int]) -> None:
    a, b = (*head, *one), (*head, *other)
    wanted = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))
    assert shared_length(a, b) == wanted


@pytest.mark.spec("ENG-073", "ENG-105", "ENG-107", "ENG-110")
@settings(deadline=None)
@given(st.lists(st.tuples(few, few, st.integers(0, 60)), max_size=6))
def test_every_resume_is_shared_is_an_anchor_and_is_of_its_class(turns: list[tuple[list[int], list[int], int]]) -> None:
    """Beside it a plain account of each row: the pass that wrote it, and where a run may be taken up."""
    resident = ResidentPrefix(GRID)
    ids: tuple[int, ...] = ()
    cold: list[bool] = []  # of each row held: written by the pass that a cold run of a longer prompt makes
    places: set[int] = set()  # rows that may be resumed from at all
    for fresh, written, keep in turns:
        prompt = (*ids[:keep], *fresh)
        if not prompt:
            continue
        anchors = resident.resume(prompt)
        row = anchors.newest
        shared = shared_length(ids, prompt)
        usable = [place for place in places if place <= min(shared, len(prompt) - 1)]
        assert row == max(usable, default=0)
        cold, places = cold[:row], {place for place in places if place <= row}
        start = row
        while start < len(prompt):
            cut = min((start // GRID + 1) * GRID, len(prompt))
            cold += [all(cold) and start % GRID == cut % GRID == 0] * (cut - start)
            places |= {cut} if cut % GRID == 0 else set()
            anchors.prefilled(start, cut)
            start = cut
        ids = (*prompt, *written)
        cold += [False] * len(written)
        for anchor in anchors.all:
            assert (anchor.exactness == "bit") == all(cold[: anchor.row])
        places.add(len(ids))
        resident.keep(ids, anchors)


def lines(anchors: Anchors) -> list[int]:
    return [anchor.row for anchor in anchors.all]


@pytest.mark.spec("ENG-108")
def test_over_the_limit_old_anchors_thin_out_evenly_and_the_newest_are_spared() -> None:
    anchors = Anchors(GRID, limit=8)
    read(anchors, 0, 24 * GRID)
    assert lines(anchors)[-SPARED:] == [21 * GRID, 22 * GRID, 23 * GRID, 24 * GRID]
    old = [0, *lines(anchors)[:-SPARED]]
    gaps = [after - before for before, after in pairwise(old)]
    assert max(gaps) <= 2 * min(gaps), old


@pytest.mark.spec("ENG-108")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9), st.integers(0, 60)), max_size=8), st.integers(0, 9))
def test_a_limit_takes_anchors_away_and_changes_nothing_else(turns: list[tuple[int, int, int]], limit: int) -> None:
    """Beside one without a limit: the anchors are some of its anchors, of their class, and the newest of them."""
    few, many = ResidentPrefix(GRID, limit=limit), ResidentPrefix(GRID)
    ids: tuple[int, ...] = ()
    for number, (fresh, written, keep) in enumerate(turns):
        prompt = (*ids[:keep], *(1000 * number + at for at in range(fresh)))
        here, there = few.resume(prompt), many.resume(prompt)
        assert here.newest <= there.newest
        if here.newest < there.newest:
            return  # from here on the two read in other passes
        for anchors in (here, there):
            read(anchors, anchors.newest, len(prompt))
        ids = (*prompt, *range(-written, 0))
        few.keep(ids, here)
        many.keep(ids, there)
        assert few.anchors_held <= limit
        kept, known = few.resume((*ids, 7)).all, many.resume((*ids, 7)).all
        assert set(kept) <= set(known)
        assert kept[-1:] == known[-1:] or limit == 0


def test_an_anchor_gives_back_the_recurrent_part_it_was_given() -> None:
    resident, anchors = ResidentPrefix(GRID), Anchors(GRID)
    at = {row: Recurrent(row) for row in (4, 8, 10)}
    anchors.prefilled(0, 4, at[4])
    anchors.prefilled(4, 8, at[8])
    resident.keep(IDS[:10], anchors, at[10])
    assert [anchor.recurrent for anchor in resident.resume(IDS).all] == [at[4], at[8], at[10]]
    last = resident.resume(IDS[:9]).last
    assert last is not None
    assert last.recurrent is at[8]
    assert resident.resume((1, 2)).last is None
