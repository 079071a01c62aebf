"""Copies of the ledger: the weekly backup, and what `tandem ledger check` looks at (OBS-109, OBS-008).

A copy is made through SQLite's backup interface, within one read transaction, so it is the file of one moment with all
that the write-ahead log holds, and a program that writes meanwhile does not wait.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from tandem.store.files import make_private_dir, open_private, read_only_uri

__all__ = ["KEPT", "backup_path", "copy_ledger", "drop_old_backups", "make_backup"]

KEPT = 8
PAGES = 2_000
"""Copied between two looks at whether to stop."""
INSTRUCTIONS = 1_000_000
"""SQLite's own, between two such looks while the copy is made compact."""
LEFT_OUT = ("conductor_events", "conductor_texts")
UNFINISHED = ".part"

Check = Callable[[], None]
"""Raises when the work is no longer wanted."""


def backup_path(ledger: Path, now: datetime) -> Path:
    """Where the backup of the present week belongs: `backup/ledger-<ISO year>-W<week>.sqlite3` beside the ledger."""
    year, week, _ = now.isocalendar()
    return ledger.parent / "backup" / f"ledger-{year:04}-W{week:02}.sqlite3"


def drop_old_backups(directory: Path) -> None:
    """Keep the newest ones, and nothing that an interrupted backup left behind."""
    names = sorted(file.name for file in directory.iterdir()) if directory.is_dir() else []
    backups = [name for name in names if re.fullmatch(r"ledger-\d{4}-W\d\d\.sqlite3", name)]
    for name in (*backups[:-KEPT], *(name for name in names if UNFINISHED in name)):
        with suppress(FileNotFoundError):
            (directory / name).unlink()


def make_backup(ledger: Path, target: Path, check: Check = lambda: None) -> None:
    """A compact copy of `ledger` without the journal, which appears at `target` when it is whole.

    Raises `sqlite3.Error` and `OSError`, and what `check` raises.
    """
    make_private_dir(target.parent)
    part = target.with_name(target.name + UNFINISHED)
    part.unlink(missing_ok=True)
    os.close(open_private(part))
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy_ledger(ledger, copy, check)
            _leave_out_journal(copy, check)
        _sync(part)
        part.replace(target)
        _sync(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def copy_ledger(path: Path, copy: sqlite3.Connection, check: Check = lambda: None) -> None:
    """Copy the database at `path`, which is not touched, into the empty one that `copy` is open on."""
    with closing(sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)) as source:
        # While it is open, a commit of another connection does not start the copy anew.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        source.backup(copy, pages=PAGES, progress=lambda *_: check())


def _leave_out_journal(copy: sqlite3.Connection, check: Check) -> None:
    """The pages of a dropped table still hold its rows until the file is written anew."""
    # A crash leaves an unfinished backup, which nobody reads, so it needs no journal, which would hold those rows.
    copy.execute("PRAGMA journal_mode = OFF")
    copy.execute("PRAGMA synchronous = OFF")
    for table in LEFT_OUT:
        copy.execute(f"DROP TABLE IF EXISTS {table}")
    # What a handler raises, SQLite takes as a wish to stop, and keeps to itself.
    copy.set_progress_handler(check, INSTRUCTIONS)
    try:
        copy.execute("VACUUM")
    except sqlite3.Error:
        check()
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
