"""The night's work, on both implementations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import trio

from tandem.store import nightly
from tandem.store.aio import open_aio
from tandem.store.backup import KEPT, backup_path, drop_old_backups, make_backup
from tandem.store.inline import open_inline, open_memory
from tandem.store.journal import HiddenText
from tandem.store.ledger import Ledger, StoreError
from tandem.store.nightly import Alarm, Pruned, prune, weekly_backup
from tests.store.samples import CREATED, contents, event, mode, outcome, query, request_ids, rows, steps

Opener = Callable[..., AbstractAsyncContextManager[Ledger]]
NOW = datetime(2026, 11, 30, 4, 0, tzinfo=ZoneInfo("Europe/Berlin"))
"""A Monday."""
SECRET = "only the journal knows the marmot"


@pytest.fixture(params=[open_inline, open_aio], ids=["inline", "aio"])
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage" / "ledger.sqlite3"


def before(**span: float) -> int:
    return int((NOW - timedelta(**span)).timestamp() * 1000)


def ring(start: datetime, until: datetime, alarm: Alarm | None = None) -> list[datetime]:
    """When the alarm goes off, on a clock that shows local time."""
    zone, now, rung = start.tzinfo, start, []
    alarm = alarm or Alarm(start)
    while now < until:
        now = (now.astimezone(ZoneInfo("UTC")) + timedelta(seconds=alarm.nap_s(now))).astimezone(zone)
        if alarm.is_due(now):
            rung.append(now)
    return rung


@pytest.mark.spec("OBS-015", "OBS-028", "JRN-001")
def test_it_is_done_at_four_each_day() -> None:
    rung = ring(NOW.replace(hour=13, minute=7), NOW + timedelta(days=3, minutes=1))
    assert rung == [NOW + timedelta(days=day) for day in (1, 2, 3)]
    assert ring(NOW.replace(hour=3, minute=59), NOW + timedelta(hours=1)) == [NOW]


@pytest.mark.spec("OBS-015")
@pytest.mark.parametrize("day", [datetime(2026, 3, 28), datetime(2026, 10, 24)], ids=["spring", "autumn"])
def test_four_is_four_on_the_day_that_the_clocks_change(day: datetime) -> None:
    start = day.replace(hour=12, tzinfo=NOW.tzinfo)
    rung = ring(start, start + timedelta(days=2))
    assert [(each.day, each.hour, each.minute) for each in rung] == [
        (day.day + 1, 4, 0),
        (day.day + 2, 4, 0),
    ]


def test_a_clock_that_is_set_makes_no_second_night() -> None:
    alarm = Alarm(NOW - timedelta(hours=1))
    assert [alarm.is_due(NOW + timedelta(minutes=m)) for m in (-1, 0, 1, -30, 5)] == [False, True, False, False, False]
    assert alarm.is_due(NOW + timedelta(days=1, hours=9))


@pytest.mark.spec("OBS-015", "OBS-028", "JRN-001")
async def test_what_is_old_goes_and_what_is_not_stays(opener: Opener, path: Path) -> None:
    old, used, new = (HiddenText.of(text, 3) for text in ("old", "old and used", "new"))
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(0, ts_ms=before(days=401)), outcome(1, ts_ms=before(days=399))]))
        await ledger.write(
            steps(
                events=[
                    event(0, ts_ms=before(days=31), text_hash=old.hash),
                    event(1, ts_ms=before(days=31), text_hash=used.hash),
                    event(2, ts_ms=before(days=29), text_hash=used.hash),
                    event(3, ts_ms=before(days=29), text_hash=new.hash),
                ],
                texts=[old, used, new],
            )
        )
        await ledger.write([("UPDATE conductor_texts SET first_ms = ?", [(before(days=31),)])])
        assert await prune(ledger, NOW, 400) == Pruned(requests=1, events=2, texts=1)
        assert await query(ledger, "SELECT request_id FROM conductor_events") == [("req-2",), ("req-3",)]
        assert sorted(await query(ledger, "SELECT text FROM conductor_texts")) == [("new",), ("old and used",)]
        assert await query(ledger, "SELECT sum(requests) FROM usage WHERE by_what = 0") == [(1,)]
        assert await prune(ledger, NOW, 400) == Pruned(0, 0, 0)
    assert request_ids(path) == ["req-1"]


async def test_a_text_that_is_used_again_meanwhile_stays(path: Path) -> None:
    text = HiddenText.of("used again", 2)
    async with open_inline(path, CREATED) as ledger:
        await ledger.write(steps(texts=[text]))
        found = await query(ledger, nightly._UNUSED, before(days=0), 10)
        await ledger.write(steps(events=[event(text_hash=text.hash)]))
        assert await ledger.write([(nightly._DELETE_TEXT, found)]) == [0]
        assert await query(ledger, "SELECT count(*) FROM conductor_texts") == [(1,)]


async def test_deletions_come_in_pieces_that_writes_go_between(
    opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "CHUNK", 10)
    monkeypatch.setattr(nightly, "VACUUM_PAGES", 3)
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(n, ts_ms=before(days=500)) for n in range(300)]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(prune, ledger, NOW, 400)
            while await query(ledger, "SELECT count(*) FROM requests WHERE ts_ms < ?", before(days=400)) == [(300,)]:
                await trio.lowlevel.checkpoint()
            await ledger.write(steps([outcome(300, ts_ms=before(days=1))]))
            assert await query(ledger, "SELECT count(*) FROM requests") > [(1,)]
        assert await query(ledger, "PRAGMA freelist_count") == [(0,)]
    assert request_ids(path) == ["req-300"]


async def test_texts_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "CHUNK", 4)
    async with open_inline(path, CREATED) as ledger:
        await ledger.write(steps(texts=[HiddenText.of(f"text {n}", 2) for n in range(11)]))
        assert (await prune(ledger, NOW, 400)).texts == 11


@pytest.mark.spec("OBS-028")
async def test_the_journal_in_memory_is_pruned_too(path: Path) -> None:
    async with open_memory(CREATED) as ledger:
        await ledger.write(steps(events=[event(0, ts_ms=before(days=31)), event(1, ts_ms=before(days=1))]))
        assert await prune(ledger, NOW, 400) == Pruned(0, 1, 0)
        assert await weekly_backup(ledger, NOW) is False


@pytest.mark.spec("OBS-109", "OBS-111")
async def test_a_weekly_backup_without_the_journal_that_starts_again(opener: Opener, path: Path) -> None:
    target = path.parent / "backup" / "ledger-2026-W49.sqlite3"
    text = HiddenText.of(SECRET, 6)
    async with opener(path, CREATED) as ledger:
        await ledger.write(steps([outcome(n) for n in range(200)]))
        events = [event(n, text_hash=text.hash, summary=f"{SECRET} {n}", detail={"a": SECRET}) for n in range(200)]
        await ledger.write(steps(events=events, texts=[text]))
        await ledger.write([("DELETE FROM conductor_events WHERE id > 100", [()])])
        assert await weekly_backup(ledger, NOW) is True
        assert [file.name for file in target.parent.iterdir()] == [target.name]
        assert (mode(target), mode(target.parent)) == (0o600, 0o700)
        assert b"marmot" not in contents(target)
        await ledger.write(steps([outcome(200)]))
        assert await weekly_backup(ledger, NOW + timedelta(days=6)) is False
    assert b"marmot" in contents(path)
    with closing(sqlite3.connect(target)) as backup:
        assert backup.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert backup.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'conductor%'").fetchall() == []
    assert request_ids(target) == [f"req-{n}" for n in range(200)]
    async with opener(target, CREATED) as ledger:
        assert await query(ledger, "PRAGMA auto_vacuum") == [(2,)]
        await ledger.write(steps([outcome(999)], [event()], [text]))
    assert rows(target, "SELECT count(*) FROM conductor_events") == [(1,)]
    assert rows(target, "SELECT sum(requests) FROM usage WHERE by_what = 0") == [(201,)]


@pytest.mark.spec("OBS-109")
def test_the_newest_eight_are_kept(path: Path) -> None:
    days = [NOW + timedelta(weeks=week) for week in range(-9, 2)]
    directory = path.parent / "backup"
    directory.mkdir(parents=True)
    for day in days:
        backup_path(path, day).touch()
    for other in ("notes.txt", "ledger-2026-W50.sqlite3.part", "ledger-2026-W50.sqlite3.part-journal"):
        (directory / other).touch()
    drop_old_backups(directory)
    kept = {backup_path(path, day).name for day in days[-KEPT:]}
    assert {file.name for file in directory.iterdir()} == {*kept, "notes.txt"}


def test_the_week_is_that_of_the_year_it_belongs_to(path: Path) -> None:
    assert backup_path(path, datetime(2027, 1, 3, tzinfo=NOW.tzinfo)).name == "ledger-2026-W53.sqlite3"
    assert backup_path(path, datetime(2024, 12, 30, tzinfo=NOW.tzinfo)).name == "ledger-2025-W01.sqlite3"


@pytest.mark.parametrize("calls", [1, 2])
def test_a_backup_that_is_not_wanted_any_more_leaves_nothing(
    path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.store.backup.INSTRUCTIONS", 10)
    left = [None] * (calls - 1)

    def stop() -> None:
        if not left:
            raise LookupError
        left.pop()

    trio.run(_fill, path)
    target = path.parent / "backup" / "ledger-2026-W49.sqlite3"
    with pytest.raises(LookupError):
        make_backup(path, target, stop)
    assert list(target.parent.iterdir()) == []


async def _fill(path: Path) -> None:
    async with open_inline(path, CREATED) as ledger:
        await ledger.write(steps([outcome(n) for n in range(100)]))


async def test_a_backup_is_stopped_by_a_drain(path: Path) -> None:
    target = path.parent / "backup" / "ledger-2026-W49.sqlite3"
    async with open_aio(path, CREATED) as ledger:
        await ledger.write(steps([outcome()]))
        with trio.CancelScope() as scope:
            scope.cancel()
            await ledger.backup(target)
        assert scope.cancelled_caught
        assert not target.exists()


async def test_a_backup_that_has_no_place_is_an_error_and_the_ledger_goes_on(opener: Opener, path: Path) -> None:
    async with opener(path, CREATED) as ledger:
        (path.parent / "backup").write_text("in the way")
        with pytest.raises(StoreError):
            await weekly_backup(ledger, NOW)
        await ledger.write(steps([outcome()]))
    assert request_ids(path) == ["req-0"]
