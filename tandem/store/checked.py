"""What would become of a ledger file: migrated on a copy, counted before and after (OBS-008)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tandem.store.backup import copy_ledger
from tandem.store.ledger import StoreError, refuse_unfit
from tandem.store.schema import migrate, table_names, user_version

__all__ = ["Checked", "State", "check_ledger"]


@dataclass(frozen=True, slots=True)
class State:
    """A file's schema version and the number of rows of each table."""

    version: int
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Checked:
    """The copy before and after its migration, and what SQLite found in the file: nothing, where it is sound."""

    before: State
    after: State
    damage: list[str]


def check_ledger(path: Path, now: datetime) -> Checked:
    """Try this Tandem's migrations on a copy of `path`, which is left alone. Raises `StoreError`."""
    try:
        if not path.is_file():
            raise StoreError(f"{path} is a directory" if path.is_dir() else f"{path} does not exist")
        with TemporaryDirectory(prefix="tandem-ledger-") as directory:
            copy = Path(directory) / "ledger.sqlite3"
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                copy_ledger(path, connection)
                return _check(connection, path, now)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error


def _check(copy: sqlite3.Connection, path: Path, now: datetime) -> Checked:
    refuse_unfit(copy, path)
    before = _state(copy)
    damage = [line for (line,) in copy.execute("PRAGMA integrity_check") if line != "ok"]
    migrate(copy, now)
    return Checked(before, _state(copy), damage)


def _state(connection: sqlite3.Connection) -> State:
    tables = table_names(connection)
    counts = {table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables}
    return State(user_version(connection), counts)
