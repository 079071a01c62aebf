from __future__ import annotations

import logging
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import ActorGone, SystemWallClock, WallClock, supervise
from tandem.actors.store import Facts, FillOutcome, Flush, Journal, LedgerFacts, Read, Record, Store
from tandem.store.aio import open_aio
from tandem.store.inline import open_inline
from tandem.store.journal import HiddenText, JournalRow
from tandem.store.ledger import Ledger, OpenLedger, Step, StoreError, Unanswered
from tandem.store.query import Rows, Statement
from tandem.store.schema import COLUMNS, INSERT
from tests.store.samples import CREATED, outcome, request_ids

REQUEST_ID = [column.name for column in COLUMNS].index("request_id")


class FakeLedger:
    """Keeps the names of the requests of each write; `trouble` is called before it."""

    def __init__(self, trouble: Callable[[], object] = lambda: None, write_s: float = 0.0) -> None:
        self.batches: list[list[str]] = []
        self.path = Path("ledger.sqlite3")
        self.trouble = trouble
        self.tries = 0
        self._write_s = write_s

    async def write(self, steps: Sequence[Step]) -> list[int]:
        self.tries += 1
        with trio.CancelScope(shield=True):
            await trio.sleep(self._write_s)
        self.trouble()
        self.batches.append([row[REQUEST_ID] for sql, rows in steps if sql == INSERT for row in rows])
        return [len(rows) for _, rows in steps]

    async def read(self, statements: Sequence[Statement]) -> list[Rows]:
        await trio.lowlevel.checkpoint()
        return [[(40,)] for _ in statements]

    async def vacuum(self, pages: int) -> int:
        await trio.lowlevel.checkpoint()
        return 0

    async def backup(self, target: Path) -> None:
        await trio.lowlevel.checkpoint()

    def bytes(self) -> int:
        return 4096

    @asynccontextmanager
    async def open(self, created: datetime) -> AsyncIterator[Ledger]:
        yield self


class FixedWall:
    """A wall clock that goes with trio's."""

    def __init__(self, start: datetime) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=trio.current_time())


@asynccontextmanager
async def running(open_ledger: OpenLedger | None, wall: WallClock | None = None) -> AsyncIterator[Store]:
    """The actor until the end of the block, where a drain cancels it."""
    async with trio.open_nursery() as nursery:
        store = Store(open_ledger, wall or SystemWallClock())
        await nursery.start(store.run)
        yield store
        nursery.cancel_scope.cancel()


async def read(store: Store, *sql: str) -> list[Rows]:
    answer: list[Rows] | StoreError = await store.ref.ask(lambda reply: Read(tuple(map(Statement, sql)), reply))
    assert not isinstance(answer, StoreError)
    return answer


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def raise_full() -> None:
    raise StoreError("database or disk is full")


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Those that are opened from now on; they may be used from any thread."""
    opened: list[sqlite3.Connection] = []
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def keep(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **options, check_same_thread=False))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", keep)
    return opened


def limit_disk(connections: Sequence[sqlite3.Connection], more_pages: int) -> None:
    """Let the file grow by so much and no further."""
    for connection in connections[-2:]:
        ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages + more_pages}").fetchall()


async def make_bad(path: Path, how: str) -> Path:
    """The path of something that is no ledger for this Tandem."""
    if how == "directory":
        return path.parent
    if how == "no rights":
        return Path("/proc/tandem/ledger.sqlite3")  # root may do much, but nobody makes a directory there
    async with open_inline(path, CREATED):
        pass
    await trio.to_thread.run_sync(_spoil, path, how)
    return path


def _spoil(path: Path, how: str) -> None:
    if how == "text":
        path.write_bytes(b"no database" * 1000)
    elif how == "corrupt":
        with path.open("r+b") as file:
            file.seek(100)
            file.write(bytes(3000))
    elif how == "newer":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir()) if directory.is_dir() else []


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
        assert ledger.batches == [
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
        async def write(self, steps: Sequence[Step]) -> list[int]:
            await trio.sleep_forever()
            raise AssertionError

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
async def test_rows_wait_for_a_full_disk_and_are_all_kept(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = FakeLedger(raise_full)
    async with running(ledger.open) as store:
        for number in range(150):
            store.ref.offer(Record(outcome(number)))
            await trio.sleep(1)
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.enabled, facts.degraded, facts.rows, facts.queue, facts.dropped) == (True, True, 40, 150, 0)
        assert 15 < ledger.tries < 25  # a second later, and then less and less often, every ten seconds at least
        ledger.trouble = lambda: None
        await trio.sleep(10)
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.degraded, facts.rows, facts.queue, facts.dropped) == (False, 190, 0, 0)
    assert [name for batch in ledger.batches for name in batch] == [f"req-{number}" for number in range(150)]
    assert messages(caplog) == [
        "[ledger] cannot be written, so rows wait in memory: database or disk is full",
        "[ledger] can be written again: 150 rows were kept, 0 lost",
    ]


@pytest.mark.spec("OBS-004")
async def test_beyond_the_bound_the_oldest_rows_are_lost_and_reported_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "inbox_size", 1_500)
    ledger = FakeLedger(raise_full)
    async with running(ledger.open) as store:
        for number in range(1_800):
            store.ref.offer(Record(outcome(number)))
            await trio.sleep(0.4)
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.queue, facts.dropped) == (1_500, 300)
        ledger.trouble = lambda: None
        await store.ref.ask(Flush)
        assert (await store.ref.ask(LedgerFacts)).rows == 1_540
    assert [len(batch) for batch in ledger.batches] == [250] * 6
    assert ledger.batches[0][0] == "req-300"
    first, *losses, recovery, last = messages(caplog)
    assert first.startswith("[ledger] cannot be written")
    assert len(losses) in (2, 3)
    assert losses[0] == "[ledger] 1 rows were lost: more than 1500 were waiting"
    assert recovery == "[ledger] can be written again: 1500 rows were kept, 300 lost"
    assert sum(int(found) for line in (*losses, last) for found in re.findall(r"(\d+) rows", line)) == 300


async def test_a_disk_that_comes_and_goes_is_reported_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = FakeLedger()
    async with running(ledger.open) as store:
        for number in range(41):
            ledger.trouble = raise_full if number % 2 else lambda: None
            store.ref.offer(Record(outcome(number)))
            await trio.sleep(1.5)
    assert len(messages(caplog)) == 2


async def test_a_row_that_cannot_be_written_is_lost_alone(
    path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bad: dict[int, dict[str, Any]] = {5: {"model": "\ud800"}, 13: {"ts_ms": None}}
    async with running(partial(open_inline, path)) as store:
        for number in range(20):
            store.ref.offer(Record(outcome(number, **bad.get(number, {}))))
        for what in (object(), "\ud800"):
            store.ref.offer(Journal((JournalRow(ts_ms=1, kind="route", detail={"what": what}),)))
        await store.ref.ask(Flush)
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.rows, facts.dropped, facts.degraded) == (18, 4, False)
    assert request_ids(path) == [f"req-{number}" for number in range(20) if number not in bad]
    assert "\ud800" not in caplog.text


@pytest.mark.parametrize("how", ["full", "locked"])
@pytest.mark.parametrize("open_ledger", [open_inline, open_aio])
async def test_a_real_disk_that_is_full_or_locked(
    path: Path,
    how: str,
    open_ledger: Callable[..., Any],
    connections: list[sqlite3.Connection],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with running(partial(open_ledger, path, busy_s=0.01)) as store:
            if how == "locked":
                other.execute("BEGIN EXCLUSIVE")
            else:
                limit_disk(connections, 2)
            for number in range(500):
                store.ref.offer(Record(outcome(number)))
            await store.ref.ask(Flush)
            facts = await store.ref.ask(LedgerFacts)
            assert (facts.degraded, facts.rows, facts.queue, facts.dropped) == (True, 0, 500, 0)
            if how == "locked":
                other.execute("ROLLBACK")
            else:
                limit_disk(connections, 100_000)
            await store.ref.ask(Flush)
            assert (await store.ref.ask(LedgerFacts)).rows == 500
    assert request_ids(path) == [f"req-{number}" for number in range(500)]
    first, second = messages(caplog)
    assert re.fullmatch(r".*rows wait in memory: database (or disk is full|is locked)", first)
    assert second == "[ledger] can be written again: 500 rows were kept, 0 lost"


async def test_what_cannot_be_written_until_the_end_is_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(FakeLedger(raise_full).open) as store:
        store.ref.offer(Record(outcome()))
    assert messages(caplog)[-1] == "[ledger] 1 rows could not be written before the end"


async def test_a_write_without_an_answer_is_asked_for_again(autojump_clock: MockClock) -> None:
    asked: list[Sequence[Step]] = []

    class Late(FakeLedger):
        async def write(self, steps: Sequence[Step]) -> list[int]:
            asked.append(steps)
            if len(asked) < 4:
                raise Unanswered("no answer for 10 s")
            return await super().write(steps)

    ledger = Late()
    async with running(ledger.open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(1.5)
        assert (await store.ref.ask(LedgerFacts)).degraded
        store.ref.offer(Record(outcome(1)))
        await trio.sleep(20)
    assert ledger.batches == [["req-0"], ["req-1"]]
    assert len({id(steps) for steps in asked[:4]}) == 1


@pytest.mark.spec("OBS-018", "OBS-017")
async def test_the_journal_is_read_beside_the_ledger(path: Path, autojump_clock: MockClock) -> None:
    text = HiddenText.of("Check your work.", 4)
    rows = (
        JournalRow(ts_ms=1, kind="route", request_id="req-0", text_hash=text.hash, extra={"size": "small"}),
        JournalRow(ts_ms=2, kind="monitor", request_id="req-1", text_hash=text.hash),
    )
    for open_ledger in (None, partial(open_inline, path)):
        async with running(open_ledger) as store:
            for row in rows:
                store.ref.offer(Journal((row,), (text,)))
            store.ref.offer(FillOutcome("req-0", "stop"))
            store.ref.offer(Record(outcome(0)))
            await store.ref.ask(Flush)
            assert await read(
                store,
                "SELECT kind, outcome, extra FROM conductor_events ORDER BY id",
                "SELECT text, tokens FROM conductor_texts",
                "SELECT count(*) FROM requests",
            ) == [
                [("route", "stop", '{"size":"small"}'), ("monitor", None, None)],
                [("Check your work.", 4)],
                [(0 if open_ledger is None else 1,)],
            ]


@pytest.mark.spec("OBS-018")
async def test_without_a_ledger_the_journal_is_a_ring(autojump_clock: MockClock) -> None:
    old, new = HiddenText.of("old", 1), HiddenText.of("new", 1)
    async with running(None) as store:
        for number in range(5_100):
            text = old if number < 50 else new
            row = JournalRow(ts_ms=number, kind="route", text_hash=text.hash)
            store.ref.offer(Journal((row,), (text,)))
        await store.ref.ask(Flush)
        assert await read(
            store, "SELECT count(*), min(ts_ms) FROM conductor_events", "SELECT text FROM conductor_texts"
        ) == [[(5_000, 100)], [("new",)]]
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.enabled, facts.rows, facts.bytes, facts.dropped) == (False, 0, 0, 0)


@pytest.mark.spec("OBS-029")
async def test_a_full_inbox_loses_journal_rows_and_counts_them(autojump_clock: MockClock) -> None:
    async with running(None) as store:
        row = JournalRow(ts_ms=1, kind="route")
        placed = [store.ref.offer(Journal((row,))) for _ in range(10_100)]
        assert placed.count(False) == 99  # the first went straight to the waiting actor
        assert (await store.ref.ask(LedgerFacts)).dropped == 99


async def test_a_read_that_fails_is_told_why_and_harms_nobody(path: Path, autojump_clock: MockClock) -> None:
    async with running(partial(open_inline, path)) as store:
        for bad in (Statement("DELETE FROM requests"), Statement("SELECT ?", (2**70,)), Statement("SELECT")):
            answer: list[Rows] | StoreError = await store.ref.ask(partial(Read, (bad,)))
            assert isinstance(answer, StoreError)
        assert await read(store, "SELECT count(*) FROM requests") == [[(0,)]]


async def test_a_read_does_not_wait_for_a_write_that_hangs(autojump_clock: MockClock) -> None:
    async with running(FakeLedger(write_s=60).open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(2)
        with trio.fail_after(0.1):
            assert await read(store, "SELECT 40", "SELECT 40") == [[(40,)], [(40,)]]


async def test_a_reader_that_leaves_interrupts_its_read_and_no_other(path: Path) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT max(i) FROM n"
    async with running(partial(open_aio, path)) as store:
        with trio.move_on_after(0.05):
            await read(store, slow)
        with trio.fail_after(30):
            assert await read(store, "SELECT count(*) FROM requests") == [[(0,)]]


async def test_a_read_ends_with_the_store(autojump_clock: MockClock) -> None:
    class Slow(FakeLedger):
        async def read(self, statements: Sequence[Statement]) -> list[Rows]:
            if statements[0].sql == "SLOW":
                await trio.sleep_forever()
            return await super().read(statements)

    async with trio.open_nursery() as asking, running(Slow().open) as store:

        async def ask() -> None:
            with pytest.raises(ActorGone):
                await read(store, "SLOW")

        asking.start_soon(ask)
        await wait_all_tasks_blocked()


@pytest.mark.spec("OBS-015", "OBS-028", "OBS-109")
async def test_at_four_old_rows_go_and_once_a_week_there_is_a_backup(
    path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monday = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
    now_ms, day_ms = int(monday.timestamp() * 1000), 24 * 3_600_000
    backups = path.parent / "backup"
    async with running(partial(open_inline, path), FixedWall(monday)) as store:
        for number, days in enumerate((401, 399.5, 1)):
            store.ref.offer(Record(outcome(number, ts_ms=now_ms - int(days * day_ms))))
        store.ref.offer(Journal((JournalRow(ts_ms=now_ms - 31 * day_ms, kind="route"),)))
        await trio.sleep(3_500)
        assert (await store.ref.ask(LedgerFacts)).rows == 3
        await trio.sleep(200)
        assert (await store.ref.ask(LedgerFacts)).rows == 2
        assert await read(store, "SELECT count(*) FROM conductor_events") == [[(0,)]]
        assert names(backups) == ["ledger-2026-W49.sqlite3"]
        await trio.sleep(24 * 3600)
        assert (await store.ref.ask(LedgerFacts)).rows == 1
        await trio.sleep(6 * 24 * 3600)
        assert names(backups) == ["ledger-2026-W49.sqlite3", "ledger-2026-W50.sqlite3"]
    assert messages(caplog, logging.INFO)[:2] == [
        "[ledger] 1 requests, 1 journal rows and 0 texts were old and are deleted; a backup was made",
        "[ledger] 1 requests, 0 journal rows and 0 texts were old and are deleted",
    ]


@pytest.mark.spec("OBS-109")
async def test_a_missed_week_is_made_up_for_in_the_first_night(path: Path, autojump_clock: MockClock) -> None:
    friday = datetime(2026, 12, 4, 18, 0, tzinfo=UTC)
    async with running(partial(open_inline, path), FixedWall(friday)):
        await trio.sleep(9 * 3600)
        assert names(path.parent / "backup") == []
        await trio.sleep(2 * 3600)
        assert names(path.parent / "backup") == ["ledger-2026-W49.sqlite3"]


async def test_a_night_that_fails_is_made_up_for_in_the_next(
    path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    start = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
    async with running(partial(open_inline, path, busy_s=0.01), FixedWall(start)) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            await trio.sleep(2 * 3600)
            other.execute("ROLLBACK")
        assert messages(caplog) == ["[ledger] the night's work is left for tomorrow: database is locked"]
        await trio.sleep(24 * 3600)
        assert names(path.parent / "backup") == ["ledger-2026-W49.sqlite3"]
        assert (await store.ref.ask(LedgerFacts)).rows == 0


async def test_facts_are_there_while_a_write_hangs(autojump_clock: MockClock) -> None:
    async with running(FakeLedger(write_s=9).open) as store:
        store.ref.offer(Record(outcome(0)))
        await trio.sleep(2)
        store.ref.offer(Record(outcome(1)))
        with trio.fail_after(0.1):
            facts = await store.ref.ask(LedgerFacts)
        assert facts == Facts(enabled=True, degraded=False, rows=40, bytes=4096, queue=1, dropped=0)


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
        assert facts == Facts(enabled=False, degraded=False, rows=1, bytes=0, queue=0, dropped=0)


@pytest.mark.spec("OBS-007")
@pytest.mark.parametrize("how", ["text", "directory", "no rights", "corrupt", "newer"])
@pytest.mark.parametrize("open_ledger", [open_inline, open_aio])
async def test_a_ledger_that_cannot_be_used_is_off_with_one_line(
    path: Path, how: str, open_ledger: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    path = await make_bad(path, how)
    async with running(partial(open_ledger, path)) as store:
        store.ref.offer(Record(outcome()))
        store.ref.offer(Journal((JournalRow(ts_ms=1, kind="route"),)))
        await store.ref.ask(Flush)
        assert not (await store.ref.ask(LedgerFacts)).enabled
        assert await read(store, "SELECT count(*) FROM conductor_events") == [[(1,)]]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"[ledger] off: {path}")
    assert "\n" not in record.getMessage()


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
    threads, before = threading.active_count(), set(threading.enumerate())
    async with running(partial(open_aio, path)) as store:
        store.ref.offer(Record(outcome(0)))
        await store.ref.ask(Flush)
        assert request_ids(path) == ["req-0"]
        facts = await store.ref.ask(LedgerFacts)
        assert (facts.enabled, facts.rows, facts.queue, facts.dropped) == (True, 1, 0, 0)
        store.ref.offer(Record(outcome(1)))
    assert request_ids(path) == ["req-0", "req-1"]
    for thread in set(threading.enumerate()) - before:
        thread.join(5)  # a connection's thread says that it has closed, and returns a moment later
    assert threading.active_count() <= threads
