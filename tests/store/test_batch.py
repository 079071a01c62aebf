from __future__ import annotations

import pytest

from tandem.store.batch import Batch, Entry, Pending
from tandem.store.journal import event_row
from tandem.store.ledger import BadRow
from tests.store.samples import event, outcome


def entry(number: int = 0) -> Entry:
    return Entry(outcomes=(outcome(number),))


def filled(count: int, *, most: int = 100, batch_rows: int = 10) -> Pending:
    pending = Pending(most, batch_rows)
    for number in range(count):
        pending.add(entry(number))
    return pending


def numbers(batch: Batch | None) -> list[str]:
    return [] if batch is None else [each.outcomes[0].request_id for each in batch.entries]


def test_batches_are_taken_oldest_first_and_are_bounded() -> None:
    pending = filled(12)
    assert len(numbers(pending.take(is_ring=False))) == 10
    assert numbers(pending.take(is_ring=False)) == ["req-10", "req-11"]
    assert pending.take(is_ring=False) is None
    assert (bool(pending), pending.rows) == (False, 0)


def test_an_entry_larger_than_a_batch_is_taken_whole() -> None:
    pending = Pending(100, 10)
    pending.add(Entry(events=tuple(event_row(event(n)) for n in range(25))))
    pending.add(entry())
    batch = pending.take(is_ring=False)
    assert batch is not None
    assert (batch.rows, batch.requests, pending.rows) == (25, 0, 1)


@pytest.mark.spec("OBS-004")
def test_beyond_the_bound_the_oldest_go() -> None:
    pending = filled(5, most=5, batch_rows=3)
    failed = pending.take(is_ring=False)
    assert failed is not None
    assert [pending.add(entry(number)) for number in range(5, 9)] == [0, 0, 0, 1]
    assert pending.put_back(failed) == 3
    assert (pending.rows, numbers(pending.take(is_ring=False))) == (5, ["req-4", "req-5", "req-6"])


def test_what_is_put_back_comes_first_again() -> None:
    pending = filled(4, batch_rows=2)
    batch = pending.take(is_ring=False)
    assert batch is not None
    assert pending.put_back(batch) == 0
    assert numbers(pending.take(is_ring=False)) == ["req-0", "req-1"]


@pytest.mark.parametrize("bad", range(7))
def test_a_bad_entry_is_found_and_the_others_stay(bad: int) -> None:
    pending, written, lost = filled(7), [], 0
    while (batch := pending.take(is_ring=False)) is not None:
        if f"req-{bad}" in numbers(batch):
            lost += pending.split(batch)
        else:
            written += numbers(batch)
    assert lost == 1
    assert written == [f"req-{number}" for number in range(7) if number != bad]
    for number in range(10):
        pending.add(entry(number))
    assert len(numbers(pending.take(is_ring=False))) == 10


def test_the_steps_of_a_batch_are_made_once() -> None:
    batch = Batch([entry(), Entry(events=(event_row(event()),), fills=(("stop", "req-0"),))], is_ring=False)
    assert batch.steps() is batch.steps()
    tables = [sql.split()[2 if sql.startswith("INSERT") else 1] for sql, _ in batch.steps()]
    assert tables == ["requests", "usage", "conductor_events", "conductor_events"]


def test_a_row_of_which_nothing_can_be_made_is_a_bad_row() -> None:
    with pytest.raises(BadRow, match="TypeError"):
        Batch([Entry(outcomes=(outcome(ts_ms=None),))], is_ring=False).steps()
