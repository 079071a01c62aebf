from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.actors.estimates import (
    Ahead,
    Estimates,
    Finished,
    HoldTimes,
    OwnWaits,
    SlotProgress,
    coarse,
    until_grant,
)
from tandem.actors.line import Rank

ONE = frozenset({0})
TWO = frozenset({0, 1})


def progress(
    written: int = 0,
    *,
    rows_left: int = 0,
    prefill_rate: float | None = None,
    limit: int = 10_000,
    thinks: bool = False,
    decode_rate: float | None = 10.0,
) -> SlotProgress:
    return SlotProgress(
        slot=0,
        rows_left=rows_left,
        prefill_rate=prefill_rate,
        written=written,
        limit=limit,
        thinks=thinks,
        decode_rate=decode_rate,
    )


def finished(*written: int, thinks: bool = False, decode_rate: float | None = 10.0) -> Finished:
    kept = Finished()
    for each in written:
        kept.add(progress(each, thinks=thinks, decode_rate=decode_rate))
    return kept


@pytest.mark.spec("SCH-031")
def test_hold_times_are_the_median_rest_of_those_that_were_longer() -> None:
    times = HoldTimes()
    for seconds in (10.0, 20.0, 30.0, 40.0):
        times.add(Rank.TURN, seconds)
    assert times.left(Rank.TURN, 0) is None  # four records
    times.add(Rank.TURN, 50.0)
    assert times.left(Rank.TURN, 0) == 30
    assert times.left(Rank.TURN, 20) == 20  # of 10, 20, 30
    assert times.left(Rank.TURN, 30) is None  # two are longer
    assert times.left(Rank.SIDE, 0) is None


@pytest.mark.spec("SCH-031")
def test_the_last_500_hold_times_are_kept() -> None:
    times = HoldTimes()
    for _ in range(500):
        times.add(Rank.TURN, 1.0)
    for _ in range(497):
        times.add(Rank.TURN, 100.0)
    assert times.left(Rank.TURN, 0.5) == 99.5
    assert times.usual(Rank.TURN) == 100
    times.add(Rank.TURN, 100.0)
    assert times.left(Rank.TURN, 2) == 98


@pytest.mark.spec("SCH-033")
def test_the_live_estimate_is_what_is_left_to_read_and_to_write() -> None:
    kept = finished(100, 100, 100, 100, 100)
    assert kept.left(progress(0, rows_left=500, prefill_rate=100.0, decode_rate=None)) == 5 + 10
    assert kept.left(progress(40, decode_rate=20.0)) == 3
    assert kept.left(progress(0, rows_left=500, decode_rate=None)) is None  # no chunk was read
    assert finished(*[100] * 5, decode_rate=None).left(progress(0, decode_rate=None)) is None


@pytest.mark.spec("SCH-034")
def test_tokens_left_are_the_75th_percentile_of_the_kind() -> None:
    kept = finished(10, 20, 30, 40)
    assert kept.left(progress()) is None  # four
    kept = finished(10, 20, 30, 40, 50, 60, 70, 80)
    assert kept.left(progress()) == 6
    assert kept.left(progress(45)) == 2.5  # of 5, 15, 25, 35
    assert kept.left(progress(45, limit=50)) == 0.5
    assert kept.left(progress(80)) is None  # nobody wrote more
    assert kept.left(progress(thinks=True)) is None


def test_a_request_that_wrote_nothing_teaches_nothing() -> None:
    assert finished(0, 0, 0, 0, 0).left(progress()) is None


@pytest.mark.spec("SCH-035")
def test_own_work_is_estimated_by_the_waits_behind_it() -> None:
    waits = OwnWaits()
    for seconds in (0.1, 0.2, 3.0, 0.4):
        waits.add(seconds)
    assert waits.left(0) is None
    waits.add(1.0)
    assert waits.left(0) == 0.4
    assert waits.left(0.5) == pytest.approx(1.5)  # of 0.5 and 2.5
    assert waits.left(3) is None


@pytest.mark.spec("SCH-033", "SCH-034", "SCH-031")
def test_the_live_estimate_comes_first_and_ages() -> None:
    estimates = Estimates()
    for _ in range(5):
        estimates.ended(Rank.TURN, 60.0, progress(100))
    assert estimates.left(Rank.TURN, 20.0, progress(50), 0.0) == 5
    assert estimates.left(Rank.TURN, 20.0, progress(50), 2.0) == 3
    assert estimates.left(Rank.TURN, 20.0, progress(50), 9.0) == 0
    assert estimates.left(Rank.TURN, 20.0, None, 0.0) == 40
    assert estimates.left(Rank.TURN, 20.0, progress(50, thinks=True), 0.0) == 40
    assert estimates.usual(Rank.OWN) == 0


@pytest.mark.spec("SCH-032")
def test_who_is_ahead_adds_what_its_rank_takes() -> None:
    assert until_grant({0: 7.0}, [], ONE) == 7
    assert until_grant({0: 7.0}, [Ahead(ONE, 10.0), Ahead(ONE, 0.0), Ahead(ONE, 2.5)], ONE) == 19.5
    assert until_grant({0: 7.0}, [Ahead(ONE, None)], ONE) is None
    assert until_grant({0: None}, [], ONE) is None
    assert until_grant({}, [], ONE) is None


def test_with_side_slots_who_is_ahead_takes_the_first_that_is_free() -> None:
    left = {0: 100.0, 1: 10.0}
    assert until_grant(left, [], TWO) == 10
    assert until_grant(left, [Ahead(TWO, 30.0)], TWO) == 40
    assert until_grant(left, [Ahead(TWO, 30.0)], ONE) == 100
    assert until_grant(left, [Ahead(TWO, None)], TWO) == 100
    assert until_grant({0: None, 1: 10.0}, [Ahead(ONE, 5.0)], TWO) == 10


@pytest.mark.spec("SCH-030")
@pytest.mark.parametrize(
    ("seconds", "own", "words"),
    [
        (0.0, False, "about 10 s"),
        (4.0, False, "about 10 s"),
        (14.9, False, "about 10 s"),
        (15.0, False, "about 20 s"),
        (114.0, False, "about 110 s"),
        (115.0, False, "about 2 min"),
        (149.0, False, "about 2 min"),
        (150.0, False, "about 3 min"),
        (3_600.0, False, "about 60 min"),
        (0.1, True, "about 1 s"),
        (2.5, True, "about 3 s"),
        (10.0, True, "about 10 s"),
        (10.1, True, "about 10 s"),
        (16.0, True, "about 20 s"),
    ],
)
def test_estimates_are_told_coarsely(seconds: float, own: bool, words: str) -> None:
    assert coarse(seconds, own) == words


@given(st.floats(0, 1e5), st.booleans())
def test_what_is_told_is_near_the_estimate(seconds: float, own: bool) -> None:
    _, number, unit = coarse(seconds, own).split()
    told = int(number) * {"s": 1, "min": 60}[unit]
    step = 60 if seconds >= 115 else 10
    assert told > 0
    assert math.isclose(told, seconds, abs_tol=step)
