from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.samples import request_ids

SLACK_S = 0.5
"""For a busy machine: how much longer than the promised second a commit may take."""


@pytest.mark.spec("OBS-004")
def test_a_killed_process_loses_the_last_second_at_most(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_writer", str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(2.3)
        killed_at = time.monotonic()
        writer.kill()
        offered = [line.split() for line in writer.stdout if line.endswith("\n")]
    safe = [f"req-{number}" for number, at in offered if float(at) < killed_at - 1 - SLACK_S]
    assert len(safe) > 20
    kept = request_ids(path)
    assert kept[: len(safe) + 1] == ["req-0", *safe]
    assert kept == [f"req-{number}" for number in range(len(kept))]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
