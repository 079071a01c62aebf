from __future__ import annotations

import logging
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import ActorGone, SystemWallClock, supervise
from tandem.actors.store import Facts, Flush, LedgerFacts, Record, Store
from tandem.store.aio import open_aio
from tandem.store.inline import open_inline
from tandem.store.ledger import Ledger, OpenLedger, StoreError
from tandem.store.outcome import Outcome
from tests.store.samples import make_file, outcome, request_ids


class FakeLedger:
    """Keeps batches; `trouble` is called before each write."""

    def __init__(self, trouble: Callable[[], object] = lambda: None, write_s: float = 0.0) -> None:
        self.batches: list[list[Outcome]] = []
        self._trouble = trouble
        self._write_s = write_s

    async def write_rows(self, outcomes: Sequence[Outcome]) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(self._write_s)
        self._trouble()
        self.batches.append(list(outcomes))

    async def query(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        await trio.lowlevel.checkpoint()
        return [(40,)]

    def bytes(self) -> int:
        return 4096

    @asynccontextmanager
    async def open(self, created: datetime) -> AsyncIterator[Ledger]:
        yield self


@asynccontextmanager
async def running(open_ledger: OpenLedger | None) -> AsyncIterator[Store]:
    """The actor until the end of the block, where a drain cancels it."""
    async with trio.open_nursery() as nursery:
        store = Store(open_ledger, SystemWallClock())
        await nursery.start(store.run)
        yield store
        nursery.cancel_scope.cancel()


def raise_full() -> None:
    raise StoreError("database or disk is full")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.mark.spec("OBS-004")
async def test_rows_of_a_second_are_one_commit(autojump_clock: MockClock) -> None:
    ledger = FakeLedger()
    async with running(ledger.open) as store:
        for number in range(6):
            store.ref.offer(Record(outcome(number)))
            await trio.sleep(0.3)
        await trio.sleep(1)
        assert [[ended.request_id for ended in batch] for batch in ledger.batches] == [
            ["req-0", "req-1", "req-2", "req-3"],
            ["req-4", "req-5"],
        ]


@pytest.mark.spec("OBS-004")
async def test_a_thousand_rows_do_not_wait(autojump_clock: MockClock) -> None:
    ledger = FakeLedger()
    async with running(ledger.open) as store:
        for number in range(1500):
            store.ref.offer(Record(outcome(number)))
        await trio.sleep(0.001)
        assert sum(map(len, ledger.batches)) >= 1000


async def test_a_flush_is_answered_when_all_before_it_is_in_the_file(path: Path, autojump_clock: MockClock) -> None:
    async with running(partial(open_inline, path)) as store:
        for number in range(3):
            store.ref.offer(Record(outcome(number)))
        await store.ref.ask(Flush)
        assert request_ids(path) == ["req-0", "req-1", "req-2"]
        assert trio.current_time() < 0.5
        await store.ref.ask(Flush)  # with nothing to write


@pytest.mark.spec("OBS-016")
@pytest.mark.parametrize("taken", [True, False])
async def test_a_cancelled_store_writes_what_was_offered(path: Path, autojump_clock: MockClock, taken: bool) -> None:
    async with running(partial(open_inline, path)) as store:
        for number in range(2500):
            store.ref.offer(Record(outcome(number)))
        if taken:
            await wait_all_tasks_blocked()
    assert len(request_ids(path)) == 2500


async def test_a_write_under_way_is_finished_before_the_last_rows(autojump_clock: MockClock) -> None:
    ledger = FakeLedger(write_s=3)
    async with running(ledger.open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(1.5)
        store.ref.offer(Record(outcome(1)))
    assert [len(batch) for batch in ledger.batches] == [1, 1]


async def test_the_last_rows_wait_for_a_dead_disk_no_longer_than_they_may(autojump_clock: MockClock) -> None:
    class DeadDisk(FakeLedger):
        async def write_rows(self, outcomes: Sequence[Outcome]) -> None:
            await trio.sleep_forever()

    async with running(DeadDisk().open) as store:
        store.ref.offer(Record(outcome()))
    assert 10 < trio.current_time() < 20


@pytest.mark.spec("OBS-004", "SCH-003")
async def test_a_full_inbox_drops_and_counts(autojump_clock: MockClock) -> None:
    ledger = FakeLedger()
    async with running(ledger.open) as store:
        store.ref.offer(Record(outcome()))  # goes straight to the waiting actor
        for number in range(10_100):
            store.ref.offer(Record(outcome(number)))
        await store.ref.ask(Flush)
        assert sum(map(len, ledger.batches)) == 10_001
        assert (await store.ref.ask(LedgerFacts)).dropped == 100


@pytest.mark.spec("OBS-004")
async def test_failed_batches_are_counted_and_reported_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = FakeLedger(raise_full)
    async with running(ledger.open) as store:
        for number in range(150):
            store.ref.offer(Record(outcome(number)))
            await trio.sleep(1)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 3
        assert lines[0].endswith("rows were lost: database or disk is full")
        assert lines[0].startswith("[ledger]")
        ledger._trouble = lambda: None
        store.ref.offer(Record(outcome(150)))
        await store.ref.ask(Flush)
        facts = await store.ref.ask(LedgerFacts)
        assert facts.rows - 40 + facts.dropped == 151
        assert facts.dropped >= 149
    # The last line is the end's, for what the minute had kept back.
    assert sum(int(number) for number in re.findall(r"(\d+) (?:more )?rows", caplog.text)) == facts.dropped


async def test_facts_are_there_while_a_write_hangs(autojump_clock: MockClock) -> None:
    async with running(FakeLedger(write_s=9).open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(2)
        store.ref.offer(Record(outcome(1)))
        with trio.fail_after(0.1):
            facts = await store.ref.ask(LedgerFacts)
        assert facts == Facts(enabled=True, rows=40, bytes=4096, queue=1, dropped=0)


async def test_rows_behind_a_hanging_write_are_bounded(autojump_clock: MockClock) -> None:
    ledger = FakeLedger(write_s=9)
    async with running(ledger.open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(2)
        for number in range(10_050):
            store.ref.offer(Record(outcome(number)))
            await trio.lowlevel.checkpoint()
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.queue, facts.dropped) == (10_000, 50)


@pytest.mark.spec("OBS-001")
async def test_without_a_ledger_requests_are_only_counted(autojump_clock: MockClock) -> None:
    async with running(None) as store:
        store.ref.offer(Record(outcome()))
        await store.ref.ask(Flush)
        facts = await store.ref.ask(LedgerFacts)
        assert facts == Facts(enabled=False, rows=1, bytes=0, queue=0, dropped=0)


@pytest.mark.spec("OBS-007")
async def test_a_ledger_that_cannot_be_used_is_off_with_one_line(
    path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    make_file(path.parent / "text" / "file", b"no database" * 1000, 0o600)
    async with running(partial(open_inline, path.parent / "text" / "file")) as store:
        store.ref.offer(Record(outcome()))
        assert not (await store.ref.ask(LedgerFacts)).enabled
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "[ledger] off: file is not a database"


@pytest.mark.spec("SCH-006")
async def test_a_defect_restarts_the_store_and_its_rows_go_on(
    path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    defects = iter([LookupError])

    class Defective(Store):
        def _facts(self) -> Facts:
            for defect in defects:
                raise defect
            return super()._facts()

    store = Defective(partial(open_inline, path), SystemWallClock())
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, store, lambda name, defect: pytest.fail(name)))
        store.ref.offer(Record(outcome(0)))
        with trio.move_on_after(0.1):
            await store.ref.ask(LedgerFacts)
        store.ref.offer(Record(outcome(1)))
        await store.ref.ask(Flush)
        assert request_ids(path) == ["req-0", "req-1"]
        assert (await store.ref.ask(LedgerFacts)).rows == 2
        nursery.cancel_scope.cancel()
    with pytest.raises(ActorGone):
        await store.ref.ask(LedgerFacts)


@pytest.mark.spec("SCH-007")
async def test_six_hours_on_the_mock_clock_without_a_thread(path: Path, autojump_clock: MockClock) -> None:
    threads = threading.active_count()
    async with running(partial(open_inline, path)) as store:
        for minute in range(360):
            store.ref.offer(Record(outcome(minute)))
            await trio.sleep(60)
        assert trio.current_time() >= 6 * 3600
        assert threading.active_count() <= threads
        assert (await store.ref.ask(LedgerFacts)).rows == 360


@pytest.mark.spec("OBS-117")
async def test_the_same_on_aiosqlite(path: Path) -> None:
    threads = threading.active_count()
    async with running(partial(open_aio, path)) as store:
        store.ref.offer(Record(outcome(0)))
        await store.ref.ask(Flush)
        assert request_ids(path) == ["req-0"]
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.enabled, facts.rows, facts.queue, facts.dropped) == (True, 1, 0, 0)
        store.ref.offer(Record(outcome(1)))
    assert request_ids(path) == ["req-0", "req-1"]
    assert threading.active_count() <= threads
