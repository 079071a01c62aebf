"""Both implementations of the ledger, by the same tests. aiosqlite has threads, so the clock is the real one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest
import trio

from tandem.store import aio
from tandem.store.aio import open_aio
from tandem.store.inline import open_inline
from tandem.store.journal import HiddenText
from tandem.store.ledger import BadRow, Ledger, StoreError, Unanswered, UnfitFile, open_writer
from tandem.store.query import Statement
from tests.store.samples import CREATED, event, fingerprint, make_file, mode, outcome, query, request_ids, rows, steps

Opener = Callable[..., AbstractAsyncContextManager[Ledger]]
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT max(i) FROM n"


@pytest.fixture(params=[open_inline, open_aio], ids=["inline", "aio"])
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage" / "of" / "ledger.sqlite3"


@pytest.mark.spec("OBS-117")
async def test_rows_are_read_back_and_kept(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(n) for n in range(3)]))
        await ledger.write([])
        await ledger.write(steps([outcome(3, model=None)]))
        assert await query(ledger, "SELECT count(*), max(request_id) FROM requests") == [(4, "req-3")]
        assert await query(ledger, "SELECT id FROM requests WHERE status = ?", 500) == []
        assert ledger.bytes() > 4096
    async with opener(path, CREATED) as ledger:
        assert await query(ledger, "SELECT count(*) FROM requests") == [(4,)]
    assert request_ids(path) == ["req-0", "req-1", "req-2", "req-3"]


@pytest.mark.spec("OBS-001")
async def test_only_the_owner_can_read_the_files(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome()]))
        assert {file.name for file in path.parent.iterdir()} >= {path.name, f"{path.name}-wal"}
        assert {mode(file) for file in path.parent.iterdir()} == {0o600}
    assert [mode(parent) for parent in (path.parent, path.parent.parent)] == [0o700, 0o700]


@pytest.mark.spec("OBS-001")
async def test_a_file_that_others_could_read_is_closed_to_them(opener: Opener, path: Path) -> None:
    make_file(path, b"", 0o644)
    async with opener(path, CREATED):
        assert mode(path) == 0o600
    assert mode(path.parent) == 0o755  # a directory somebody made is left alone


@pytest.mark.spec("OBS-002")
async def test_journal_and_vacuum_modes_and_a_reader_that_cannot_write(opener: Opener, path: Path) -> None:
    with closing(open_writer(path, CREATED)) as writer:
        assert writer.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
    async with opener(path, CREATED) as ledger:
        assert await query(ledger, "PRAGMA journal_mode") == [("wal",)]
        assert await query(ledger, "PRAGMA auto_vacuum") == [(2,)]  # incremental
        with pytest.raises(StoreError, match="readonly"):
            await query(ledger, "DELETE FROM requests")


@pytest.mark.spec("OBS-007")
async def test_a_newer_file_is_refused_and_not_touched(opener: Opener, path: Path) -> None:
    make_file(path, b"", 0o640)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE requests (id INTEGER PRIMARY KEY, unheard_of TEXT)")
        connection.execute("PRAGMA user_version = 99")
    before = fingerprint(path)
    with pytest.raises(UnfitFile, match="version 99, this Tandem knows 1: update"):
        async with opener(path, CREATED):
            pass
    assert fingerprint(path) == before
    assert list(path.parent.iterdir()) == [path]


async def test_a_database_of_another_program_is_refused_and_not_touched(opener: Opener, path: Path) -> None:
    make_file(path, b"", 0o640)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER PRIMARY KEY)")
    before = fingerprint(path)
    with pytest.raises(UnfitFile, match="another program"):
        async with opener(path, CREATED):
            pass
    assert fingerprint(path) == before


async def test_what_is_no_database_or_no_place_for_one_is_refused(opener: Opener, path: Path) -> None:
    make_file(path, b"not a database" * 1000, 0o600)
    for bad in (path, path.parent, path / "below-a-file"):
        with pytest.raises(StoreError):
            async with opener(bad, CREATED):
                pass


@pytest.mark.spec("OBS-117")
async def test_a_batch_is_written_whole_or_not_at_all(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        with pytest.raises(StoreError, match="NOT NULL"):
            await ledger.write(steps([outcome(0), outcome(1, endpoint=None), outcome(2)]))
        await ledger.write(steps([outcome(3)]))
    assert request_ids(path) == ["req-3"]


@pytest.mark.parametrize("bad", [{"model": "\ud800"}, {"max_tokens": 2**70}, {"endpoint": None}])
async def test_a_value_that_no_row_can_hold_is_told_from_a_full_disk(
    opener: Opener, path: Path, bad: dict[str, object]
) -> None:
    async with opener(path, CREATED) as ledger:
        with pytest.raises(BadRow) as caught:
            await ledger.write(steps([outcome(0), outcome(1, **bad)]))
        assert "\ud800" not in str(caught.value)
        await ledger.write(steps([outcome(2)]))
    assert request_ids(path) == ["req-2"]


@pytest.mark.spec("OBS-019", "OBS-020")
async def test_a_hidden_text_is_stored_once_and_rows_name_it(opener: Opener, path: Path) -> None:
    nudge, closer = HiddenText.of("Check your work.", 4), HiddenText.of("That is enough.", 4)
    async with opener(path, CREATED) as ledger:
        for number, text in enumerate((nudge, closer, nudge)):
            await ledger.write(steps(events=[event(number, text_hash=text.hash, detail={"n": number})], texts=[text]))
    assert rows(
        path, "SELECT request_id, text, detail FROM conductor_events JOIN conductor_texts ON text_hash = hash"
    ) == [
        ("req-0", "Check your work.", '{"n":0}'),
        ("req-1", "That is enough.", '{"n":1}'),
        ("req-2", "Check your work.", '{"n":2}'),
    ]
    assert rows(path, "SELECT count(*), sum(tokens) FROM conductor_texts") == [(2, 8)]


async def test_the_statements_of_a_read_see_the_file_of_one_moment(opener: Opener, path: Path) -> None:
    count = Statement("SELECT count(*) FROM requests")
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(0), outcome(1)]))
        assert await ledger.read([count, Statement("SELECT request_id FROM requests WHERE id = ?", (2,)), count]) == [
            [(2,)],
            [("req-1",)],
            [(2,)],
        ]
        assert await ledger.read([]) == []
        with pytest.raises(StoreError, match="no such column"):
            await ledger.read([count, Statement("SELECT mood FROM requests")])
        await ledger.write(steps([outcome(2)]))
        assert await ledger.read([count]) == [[(3,)]]


async def test_free_pages_go_back_in_small_steps(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(n) for n in range(500)]))
        assert await ledger.write([("DELETE FROM requests WHERE id > ?", [(100,), (90,)])]) == [410]
        free = await ledger.vacuum(1)
        assert free > 1
        assert await ledger.vacuum(1) == free - 1
        assert await ledger.vacuum(100_000) == 0


async def test_a_locked_file_fails_the_batch_and_the_next_one_works(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED, busy_s=0.01) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                await ledger.write(steps([outcome(0)]))
            other.execute("ROLLBACK")
        await ledger.write(steps([outcome(1)]))
    assert request_ids(path) == ["req-1"]


async def test_a_full_disk_fails_the_batch_and_the_next_one_works(
    opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_on_a_full_disk(*args: object) -> sqlite3.Connection:
        connection = open_writer(*args)  # type: ignore[arg-type]
        ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        return connection

    monkeypatch.setattr(f"{opener.__module__}.open_writer", open_on_a_full_disk)
    async with opener(path, CREATED) as ledger:
        with pytest.raises(StoreError, match="full"):
            await ledger.write(steps([outcome(n) for n in range(1000)]))
        await ledger.write(steps([outcome(1000)]))
    assert request_ids(path) == ["req-1000"]


async def test_a_cancelled_writer_leaves_with_its_rows_committed(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        with trio.CancelScope() as scope:
            scope.cancel()
            await ledger.write(steps([outcome()]))
        assert await query(ledger, "SELECT count(*) FROM requests") == [(1,)]


async def test_a_cancelled_query_does_not_hold_up_the_next(path: Path) -> None:
    async with open_aio(path, CREATED) as ledger:
        with trio.move_on_after(0.05) as scope:
            await query(ledger, SLOW, 100_000_000)
        assert scope.cancelled_caught
        with trio.fail_after(30):
            assert await query(ledger, SLOW, 10) == [(10,)]


async def test_a_commit_that_takes_too_long_is_not_made_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "WRITE_S", 0.05)
    mine, others = steps([outcome(0)]), steps([outcome(1)])
    async with open_aio(path, CREATED) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for late in (mine, mine, others):
                with pytest.raises(Unanswered):
                    await ledger.write(late)
            other.execute("ROLLBACK")
        monkeypatch.setattr(aio, "WRITE_S", 10)
        assert await ledger.write(mine) == [1, 4]
        await ledger.write(others)
    assert request_ids(path) == ["req-0", "req-1"]


async def test_a_late_commit_is_waited_for_before_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "WRITE_S", 0.05)
    async with open_aio(path, CREATED) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unanswered):
                await ledger.write(steps([outcome(0)]))
            other.execute("ROLLBACK")
        monkeypatch.setattr(aio, "WRITE_S", 10)
        await ledger.write(steps([outcome(1)]))
    assert request_ids(path) == ["req-0", "req-1"]


async def test_a_read_goes_on_beside_a_write(path: Path) -> None:
    async with open_aio(path, CREATED) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ledger.write, steps([outcome()]))
                with trio.fail_after(30):
                    assert await query(ledger, "SELECT count(*) FROM requests") == [(0,)]
                other.execute("ROLLBACK")
    assert request_ids(path) == ["req-0"]


@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_connections_and_threads_end_with_the_block(opener: Opener, path: Path, how: str) -> None:
    threads = threading.active_count()

    async def use(written: trio.Event) -> None:
        async with opener(path, CREATED) as ledger:
            await ledger.write(steps([outcome()]))
            written.set()
            if how == "failed":
                raise LookupError
            await trio.sleep_forever()

    if how == "failed":
        with pytest.RaisesGroup(LookupError, allow_unwrapped=True, flatten_subgroups=True):
            await use(trio.Event())
    else:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, written := trio.Event())
            await written.wait()
            nursery.cancel_scope.cancel()
    with trio.fail_after(30):
        while threading.active_count() > threads:  # a thread says that it has closed just before it ends
            await trio.sleep(0.01)
    assert list(path.parent.iterdir()) == [path]  # the last connection folds the write-ahead log in
