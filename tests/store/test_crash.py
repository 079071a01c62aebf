"""Processes that are killed while they write: nothing that was committed is lost, and never the file."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.project.tree import ROOT
from tests.store.samples import request_ids, rows

SLACK_S = 0.5
"""For a busy machine: how much longer than the promised second a commit may take."""
AT_ONCE = 5

Writer = subprocess.Popen[str]


@contextmanager
def writing(path: Path, flush_every: int) -> Iterator[Writer]:
    """A process that writes to `path`."""
    command = [sys.executable, "-m", "tests.store.crash_writer", str(path), str(flush_every)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def said(writer: Writer, word: str) -> list[list[str]]:
    """What follows `word` in the lines of a killed writer; its last line may be cut."""
    assert writer.stdout is not None
    return [line.split()[1:] for line in writer.stdout if line.endswith("\n") and line.startswith(word)]


def check(path: Path, at_least: int) -> None:
    """The file is whole and has the first rows, without a gap, of both kinds and in the sums."""
    kept = request_ids(path)
    assert kept == [f"req-{number}" for number in range(len(kept))]
    assert len(kept) >= at_least
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    events = [name for (name,) in rows(path, "SELECT request_id FROM conductor_events ORDER BY id")]
    assert events == [f"req-{number}" for number in range(len(events))]
    assert len(events) >= at_least
    assert rows(path, "SELECT count(*) FROM conductor_texts") == [(min(1, len(events)),)]
    ((counted,),) = rows(path, "SELECT coalesce(sum(requests), 0) FROM usage WHERE by_what = 0")
    assert counted == len(kept)


def kill_all(directory: Path, seed: int) -> None:
    """Let some processes write and kill each at a moment of its own."""
    moments = random.Random(seed)
    paths = [directory / f"{seed}-{number}.sqlite3" for number in range(AT_ONCE)]
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(path, moments.choice((1, 3, 20)))) for path in paths]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        for writer in writers:
            time.sleep(moments.uniform(0.02, 0.25))
            writer.kill()
        safe = [max((int(number) + 1 for (number,) in said(writer, "safe")), default=0) for writer in writers]
    for path, at_least in zip(paths, safe, strict=True):
        check(path, at_least)
    assert any(safe)


@pytest.mark.spec("OBS-004")
def test_a_killed_process_loses_the_last_second_at_most(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    with writing(path, 0) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(2.3)
        killed_at = time.monotonic()
        writer.kill()
        offered = said(writer, "offered")
    safe = [number for number, at in offered if float(at) < killed_at - 1 - SLACK_S]
    assert len(safe) > 20
    check(path, len(safe) + 1)


@pytest.mark.spec("OBS-004")
@pytest.mark.parametrize("seed", range(2))
def test_ten_killed_processes_lose_nothing_that_was_committed(tmp_path: Path, seed: int) -> None:
    kill_all(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.spec("OBS-004")
@pytest.mark.parametrize("seed", range(2, 42))
def test_two_hundred_killed_processes_lose_nothing_that_was_committed(tmp_path: Path, seed: int) -> None:
    kill_all(tmp_path, seed)
