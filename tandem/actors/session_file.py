"""The session file's actor: keeps on disk what the sessions know, so that a process that is killed loses a moment of it
and not the notes of every conversation, without which the next prompts would move (SES-007, NOTE-009).

Owns: the file. The sessions are looked at every second and written where they have changed: taken as one value on the
event loop, encoded and written in a worker thread.

| message in | from  | answer or effect                                          |
|------------|-------|-----------------------------------------------------------|
| `Write`    | drain | what has changed is on disk, or could not be; then `None` |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

import trio

from tandem.actors.kit import Actor, Blocking, Reply
from tandem.conductor.sessions import KeptSessions, Sessions, encode_sessions, kept_sessions
from tandem.store.document_files import write_file
from tandem.store.files import make_private_dir

__all__ = ["SessionFile", "SessionFileMessage", "Write"]

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Write:
    reply: Reply[None]


SessionFileMessage: TypeAlias = Write


class SessionFile(Actor[SessionFileMessage]):
    name = "session_file"
    essential = False

    def __init__(self, path: Path, sessions: Sessions, *, blocking: Blocking) -> None:
        super().__init__()
        self._path = path
        self._sessions = sessions
        self._blocking = blocking
        self._written = sessions.commits
        self._fails = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            message: SessionFileMessage | None = None
            with trio.move_on_after(LOOK_EVERY_S):
                message = await self.inbox.receive()
            match message:
                case None:
                    await self._write()
                case Write(reply=reply):
                    await self._write()
                    reply.send(None)
                case _:
                    assert_never(message)

    async def _write(self) -> None:
        """What could not be written is tried again at the next look; the log says so once."""
        commits = self._sessions.commits
        if self._written == commits:
            return
        kept = kept_sessions(self._sessions)
        try:
            await self._blocking.run("documents", _write, self._path, kept)
        except OSError as error:
            if not self._fails:
                log.error("[conductor] %s cannot be written: %s", self._path, error.strerror or error)
            self._fails = True
        else:
            self._written, self._fails = commits, False


def _write(path: Path, kept: KeptSessions) -> None:
    make_private_dir(path.parent)
    write_file(path, encode_sessions(kept))
