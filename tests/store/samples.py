"""What the tests of the store share."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tandem.store.batch import Batch, Entry
from tandem.store.journal import HiddenText, JournalRow, event_row, text_rows
from tandem.store.ledger import Ledger, Step
from tandem.store.outcome import Outcome
from tandem.store.query import Rows, Statement

CREATED = datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


def outcome(number: int = 0, **fields: Any) -> Outcome:
    """A request that ended well; `number` tells them apart."""
    values: dict[str, Any] = {
        "request_id": f"req-{number}",
        "ts_ms": 1_774_744_200_000 + number,
        "endpoint": "chat",
        "stream": True,
        "status": 200,
        "finish_reason": "stop",
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "total_ms": 56.25,
    }
    return Outcome(**values | fields)


def event(number: int = 0, **fields: Any) -> JournalRow:
    """A journal row of that request."""
    values: dict[str, Any] = {"ts_ms": 1_774_744_200_000 + number, "kind": "route", "request_id": f"req-{number}"}
    return JournalRow(**values | fields)


def steps(
    outcomes: Sequence[Outcome] = (), events: Sequence[JournalRow] = (), texts: Sequence[HiddenText] = ()
) -> list[Step]:
    """What the store actor makes of them."""
    entry = Entry(tuple(outcomes), tuple(text_rows(texts, 1_774_744_200_000)), tuple(map(event_row, events)))
    return Batch([entry], is_ring=False).steps()


async def query(ledger: Ledger, sql: str, *params: object) -> Rows:
    """The rows of one statement."""
    (rows,) = await ledger.read([Statement(sql, params)])
    return rows


def rows(path: Path, sql: str, *params: object) -> Rows:
    """The same of a file, by a connection of the test's own."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, params).fetchall()


def request_ids(path: Path) -> list[str]:
    """The ledger's rows."""
    return [request_id for (request_id,) in rows(path, "SELECT request_id FROM requests ORDER BY id")]


def contents(path: Path) -> bytes:
    """Every byte of the file."""
    return path.read_bytes()


def mode(path: Path) -> int:
    """The permission bits."""
    return path.stat().st_mode & 0o777


def fingerprint(path: Path) -> tuple[bytes, int, int]:
    """What changes when a file is touched."""
    return path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode


def make_file(path: Path, content: bytes, mode: int) -> None:
    """A file in a new directory of mode 0755."""
    path.parent.mkdir(parents=True, mode=0o755)
    path.write_bytes(content)
    path.chmod(mode)
