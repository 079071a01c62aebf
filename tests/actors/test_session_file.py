"""The session file's actor: what has changed is on disk soon, and a disk that fails stops nobody."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from tandem.actors.kit import Inline
from tandem.actors.session_file import SessionFile, Write
from tandem.conductor.sessions import SessionDelta, SessionFacts, Sessions, load_sessions

DAY = datetime.date(2026, 1, 2)


def turn(sessions: Sessions, key: str) -> None:
    sessions.commit(sessions.open(SessionFacts(key=key, today=DAY)), SessionDelta(turn=True))


def keys(path: Path) -> list[str]:
    return [state.view.key for state in load_sessions(path.read_bytes())]


@pytest.mark.spec("SES-007", "NOTE-009")
async def test_what_has_changed_is_written_soon_and_else_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    path, sessions = tmp_path / "state" / "sessions.json", Sessions()
    async with trio.open_nursery() as nursery:
        actor = SessionFile(path, sessions, blocking=Inline())
        await nursery.start(actor.run)
        await trio.sleep(5)
        assert not path.exists(), "nothing was learned"
        turn(sessions, "c:a")
        turn(sessions, "c:b")
        await trio.sleep(1.5)
        assert keys(path) == ["c:a", "c:b"]
        path.unlink()
        sessions.open(SessionFacts(key="c:a", today=DAY))
        await trio.sleep(5)
        assert not path.exists(), "a request alone changes none"
        turn(sessions, "c:a")
        await actor.ref.ask(Write)
        assert keys(path) == ["c:b", "c:a"], "at once, the least recently used first"
        nursery.cancel_scope.cancel()


async def test_a_disk_that_fails_is_named_once_and_tried_again(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, sessions = tmp_path / "state", Sessions()
    folder.write_text("in the way")
    async with trio.open_nursery() as nursery:
        actor = SessionFile(folder / "sessions.json", sessions, blocking=Inline())
        await nursery.start(actor.run)
        with caplog.at_level(logging.ERROR):
            for key in ("c:a", "c:b", "c:c"):
                turn(sessions, key)
                await trio.sleep(2)
        assert len(caplog.messages) == 1
        folder.unlink()
        turn(sessions, "c:d")
        await actor.ref.ask(Write)
        assert len(keys(folder / "sessions.json")) == 4
        nursery.cancel_scope.cancel()


async def test_a_drain_writes_what_the_disk_would_not_take_before(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    folder, sessions = tmp_path / "state", Sessions()
    folder.write_text("in the way")
    async with trio.open_nursery() as nursery:
        actor = SessionFile(folder / "sessions.json", sessions, blocking=Inline())
        await nursery.start(actor.run)
        turn(sessions, "c:a")
        await trio.sleep(2)
        folder.unlink()
        await actor.ref.ask(Write)
        assert keys(folder / "sessions.json") == ["c:a"], "though nothing was learned since"
        nursery.cancel_scope.cancel()
