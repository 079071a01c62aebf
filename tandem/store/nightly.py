"""What the store does at four in the morning: old rows go, free pages go back, and once a week there is a backup.

All of it in small pieces, between which the rows of ended requests are written as ever (OBS-015, OBS-028, OBS-109).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta

import trio

from tandem.store import buckets
from tandem.store.backup import backup_path, drop_old_backups
from tandem.store.ledger import Ledger
from tandem.store.query import Statement

__all__ = ["AT_HOUR", "JOURNAL_DAYS", "Alarm", "Pruned", "prune", "weekly_backup"]

AT_HOUR = 4
JOURNAL_DAYS = 30
CHUNK = 5_000
"""Rows deleted in one transaction."""
VACUUM_PAGES = 500
NAP_S = 900.0
"""The longest wait before the clock is looked at again: it may be set, and summer time begins."""

_DELETE = "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE ts_ms < ? ORDER BY ts_ms LIMIT ?)"
# Read beside the writes; a row written since then may use such a text again.
_UNUSED = """
SELECT hash, (SELECT coalesce(max(id), 0) FROM conductor_events) FROM conductor_texts
WHERE first_ms < ? AND hash NOT IN (SELECT text_hash FROM conductor_events WHERE text_hash IS NOT NULL) LIMIT ?
"""
_DELETE_TEXT = """
DELETE FROM conductor_texts
WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM conductor_events WHERE id > ? AND text_hash = conductor_texts.hash)
"""


class Alarm:
    """Says when the night's work is due: once a day, from four o'clock on, whatever the clock is set to meanwhile."""

    def __init__(self, now: datetime) -> None:
        # A service that starts in the afternoon waits for the night.
        self._done: date = now.date() if now.hour >= AT_HOUR else now.date() - timedelta(days=1)

    def is_due(self, now: datetime) -> bool:
        """Whether to work now; if so, this was the day's answer."""
        due = now.hour >= AT_HOUR and now.date() != self._done
        if due:
            self._done = now.date()
        return due

    def nap_s(self, now: datetime) -> float:
        """How long to wait before asking again."""
        four = now.replace(hour=AT_HOUR, minute=0, second=0, microsecond=0)
        left = ((four if now < four else four + timedelta(days=1)) - now).total_seconds()
        return min(max(left, 1.0), NAP_S)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that went."""

    requests: int
    events: int
    texts: int


async def prune(ledger: Ledger, now: datetime, retention_days: int) -> Pruned:
    """Delete what has been kept long enough, and give the space back. Raises `StoreError`."""
    old, journal_old = _ms(now - timedelta(days=retention_days)), _ms(now - timedelta(days=JOURNAL_DAYS))
    events = await _prune_table(ledger, "conductor_events", journal_old)
    texts = await _prune_texts(ledger, journal_old)
    requests = await _prune_table(ledger, "requests", old)
    await ledger.write([(sql, [(old,)]) for sql in buckets.PRUNE])
    await _vacuum(ledger)
    return Pruned(requests, events, texts)


async def weekly_backup(ledger: Ledger, now: datetime) -> bool:
    """Back the ledger up where this week's backup is missing; whether it was. Raises `StoreError` and `OSError`."""
    if ledger.path is None:
        return False
    target = backup_path(ledger.path, now)
    if target.exists():
        return False
    await ledger.backup(target)
    drop_old_backups(target.parent)
    return True


async def _prune_table(ledger: Ledger, table: str, before_ms: int) -> int:
    sql, gone = _DELETE.format(table=table), 0
    while True:
        (deleted,) = await ledger.write([(sql, [(before_ms, CHUNK)])])
        gone += deleted
        if deleted < CHUNK:
            return gone
        await trio.lowlevel.checkpoint()


async def _prune_texts(ledger: Ledger, before_ms: int) -> int:
    gone = 0
    while True:
        (unused,) = await ledger.read([Statement(_UNUSED, (before_ms, CHUNK))])
        (deleted,) = await ledger.write([(_DELETE_TEXT, unused)])
        gone += deleted
        # One that is used again stays, and is not looked for tonight.
        if deleted < CHUNK:
            return gone


async def _vacuum(ledger: Ledger) -> None:
    """Until nothing is free, or nothing gives way: a file not made by Tandem may keep its free pages."""
    free = await ledger.vacuum(VACUUM_PAGES)
    while free:
        before, free = free, await ledger.vacuum(VACUUM_PAGES)
        if free >= before:
            return


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
