"""What the tests of the store share."""

from __future__ import annotations

import datetime
import sqlite3
from pathlib import Path
from typing import Any

from tandem.store.outcome import Outcome

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


def request_ids(path: Path) -> list[str]:
    """The ledger's rows, read by a connection of the test's own."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT request_id FROM requests ORDER BY id").fetchall()
    connection.close()
    return [request_id for (request_id,) in rows]


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
