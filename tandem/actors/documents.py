"""The documents actor: the one owner of the conductor's configuration and its directory (CFG-001 to CFG-011).

Owns: the documents in use, which a request takes as one frozen value and keeps. A file that somebody changes on disk is
noticed by the next question, a second after the last look; one that cannot be served leaves the last good version in
use. All reading and writing runs in a worker thread, one piece at a time.

| message in | from            | answer or effect                                                        |
|------------|-----------------|-------------------------------------------------------------------------|
| `Current`  | request's task  | the `Documents` in use                                                  |
| `Put`      | route           | a new version, in use from the next `Current` on; or a `Refusal`        |
| `Restore`  | route           | an older version as a new one; or a `Refusal`                           |
| `Show`     | route           | one version of a document; None: there is none                          |
| `Versions` | route           | all versions of a document that can be read                             |
| `Config`   | route           | every document's version, last note, and the file that failed, if any   |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, assert_never

import trio

from tandem.actors.document_library import (
    Library,
    Problem,
    Standing,
    is_locked,
    load,
    mark_of,
    read_versions,
    reason_of,
    standings,
    unreadable,
)
from tandem.actors.document_saving import Stored, migrated, save, seeded
from tandem.actors.kit import Actor, Blocking, Ref, Reply, WallClock
from tandem.actors.store import Journal, StoreMessage
from tandem.conductor.documents import DocumentError, DocumentKey, Documents
from tandem.conductor.documents.migrations import MIGRATIONS, Migration
from tandem.conductor.documents.versions import Version
from tandem.store.document_files import DocumentFiles
from tandem.store.journal import JournalRow

__all__ = [
    "Config",
    "Current",
    "DocumentKeeper",
    "DocumentsMessage",
    "Put",
    "Refusal",
    "Restore",
    "Show",
    "Standing",
    "Versions",
]

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""How old a look at the directory may be when a request asks."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was stored. `path` is the failing key of the document, or the field of the request."""

    code: Literal["invalid", "conflict", "locked", "unknown", "failed"]
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Current:
    reply: Reply[Documents]


@dataclass(frozen=True, slots=True)
class Put:
    key: DocumentKey
    body: Mapping[str, Any]
    note: str
    base_version: int | None
    reply: Reply[Version | Refusal]


@dataclass(frozen=True, slots=True)
class Restore:
    key: DocumentKey
    version: int
    note: str
    reply: Reply[Version | Refusal]


@dataclass(frozen=True, slots=True)
class Show:
    key: DocumentKey
    version: int | None
    """None: the one in use."""
    reply: Reply[Version | None]


@dataclass(frozen=True, slots=True)
class Versions:
    key: DocumentKey
    reply: Reply[Sequence[Version]]


@dataclass(frozen=True, slots=True)
class Config:
    reply: Reply[Sequence[Standing]]


DocumentsMessage: TypeAlias = Current | Put | Restore | Show | Versions | Config


class DocumentKeeper(Actor[DocumentsMessage]):
    """`root` is the directory of `--conductor-config`; what ships and is not there is stored at the start."""

    name = "documents"
    essential = False
    inbox_size = 256

    def __init__(
        self,
        root: Path,
        *,
        blocking: Blocking,
        wall: WallClock,
        store: Ref[StoreMessage],
        on_change: Callable[[Documents], bool] = lambda _: True,
        policy: Mapping[str, Any] | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        """`on_change` is told of the documents in use, again at the next question where it gives False. `policy` is
        what stands in the monitor's policy file.
        """
        super().__init__()
        self._files = DocumentFiles(root)
        self._blocking = blocking
        self._wall = wall
        self._store = store
        self._on_change = on_change
        self._policy = policy
        self._migrations = migrations
        self._told: Documents | None = None
        self._library: Library | None = None
        self._looked = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        library = await self._open()
        log.info("[config] %s: %d documents", self._files.root, len(library.in_use))
        self._tell(library)
        task_status.started()
        async for message in self.inbox:
            reply: Reply[Any] = message.reply
            with _answered(reply):
                library = await self._look(self._library or library)
                reply.send(await self._take(message, library))
            self._tell(self._library or library)

    def _tell(self, library: Library) -> None:
        if self._told is not library.documents and self._on_change(library.documents):
            self._told = library.documents

    async def _open(self) -> Library:
        """What ships is stored where it is missing; then what is there is read."""
        created = self._created()

        def work() -> tuple[list[Stored], Library]:
            stored = [*seeded(self._files, created), *migrated(self._files, self._migrations, created)]
            return stored, load(self._files, self._library, self._policy)

        try:
            stored, library = await self._blocking.run("documents", work)
        except OSError as error:
            log.error("[config] %s cannot be used, what ships serves: %s", self._files.root, reason_of(error))
            self._library = unreadable(str(self._files.root), error, self._policy)
            return self._library
        for one in stored:
            self._journal(one.key, one.what, {"version": one.version, "note": one.note})
        for key, problem in library.problems.items():
            self._report(key, problem)
        if filled := {role.name: role.filled for role in library.documents.contracts.values() if role.filled}:
            self._journal("roles", "filled", {"roles": filled})
        self._library, self._looked = library, trio.current_time()
        return library

    async def _take(self, message: DocumentsMessage, library: Library) -> Any:
        match message:
            case Current():
                return library.documents
            case Put(key, body, note, base_version):
                return await self._put(library, key, body, note, base_version)
            case Restore(key, version, note):
                return await self._restore(library, key, version, note)
            case Show(key, version):
                return await self._show(library, key, version)
            case Versions(key):
                return await self._blocking.run("documents", read_versions, self._files, key)
            case Config():
                return standings(library)
            case _:
                assert_never(message)

    async def _look(self, library: Library) -> Library:
        """What is in service, read anew where the directory has changed."""
        if trio.current_time() - self._looked < LOOK_EVERY_S:
            return library
        try:
            found = await self._blocking.run("documents", self._reread, library)
        except OSError as error:
            log.error("[config] %s cannot be read: %s", self._files.root, reason_of(error))
            found = library
        self._looked = trio.current_time()
        for key, problem in found.problems.items():
            if library.problems.get(key) != problem:
                self._report(key, problem)
        self._library = found
        return found

    def _reread(self, library: Library) -> Library:
        is_same = mark_of(self._files, library.numbers, library) == library.mark
        return library if is_same else load(self._files, library, self._policy)

    async def _put(
        self, library: Library, key: DocumentKey, body: Mapping[str, Any], note: str, base_version: int | None
    ) -> Version | Refusal:
        if is_locked(key):
            return self._refused(key, Refusal("locked", "", f"{key} is locked"))
        current = library.documents.versions.get(key, 0)
        if base_version is not None and base_version != current:
            told = f"version {current} is current, not {base_version}: somebody else has saved"
            return self._refused(key, Refusal("conflict", "base_version", told))
        return await self._save(library, key, body, note)

    async def _restore(self, library: Library, key: DocumentKey, number: int, note: str) -> Version | Refusal:
        if is_locked(key):
            return self._refused(key, Refusal("locked", "", f"{key} is locked"))
        versions = await self._blocking.run("documents", read_versions, self._files, key)
        found = next((one for one in versions if one.version == number), None)
        if found is None:
            return self._refused(key, Refusal("unknown", "version", f"there is no version {number} that can be read"))
        return await self._save(library, key, found.body, note, restored_from=number)

    async def _save(
        self, library: Library, key: DocumentKey, body: Mapping[str, Any], note: str, restored_from: int | None = None
    ) -> Version | Refusal:
        created = self._created()

        def work() -> tuple[Library, Version]:
            return save(self._files, library, key, body, note, created, restored_from=restored_from)

        try:
            self._library, version = await self._blocking.run("documents", work)
        except DocumentError as error:
            path = f"document.{error.path}" if error.path else "document"
            return self._refused(key, Refusal("invalid", path, error.message))
        except OSError as error:
            log.error("[config] %s cannot be written: %s", key, reason_of(error))
            return self._refused(key, Refusal("failed", "", f"the version could not be written: {reason_of(error)}"))
        self._journal(
            key,
            "stored" if restored_from is None else "restored",
            {"version": version.version, "note": note, "restored_from": restored_from},
        )
        return version

    async def _show(self, library: Library, key: DocumentKey, number: int | None) -> Version | None:
        one = library.in_use.get(key)
        if number is None or (one is not None and one.version.version == number):
            return one.version if one is not None else None
        versions = await self._blocking.run("documents", read_versions, self._files, key)
        return next((version for version in versions if version.version == number), None)

    def _report(self, key: DocumentKey, problem: Problem) -> None:
        """A file on disk is not in service."""
        log.error("[config] %s is not in service: %s", problem.file, problem)
        self._journal(key, "refused", {"file": problem.file, "path": problem.path})

    def _refused(self, key: DocumentKey, refusal: Refusal) -> Refusal:
        self._journal(key, "refused", {"code": refusal.code, "path": refusal.path})
        return refusal

    def _journal(self, key: DocumentKey, decision: str, detail: Mapping[str, Any]) -> None:
        ts_ms = int(self._wall.now().timestamp() * 1000)
        detail = {name: value for name, value in detail.items() if value is not None}
        row = JournalRow(ts_ms=ts_ms, kind="config", task=key, decision=decision, detail=detail)
        self._store.offer(Journal((row,)))

    def _created(self) -> str:
        return self._wall.now().isoformat(timespec="seconds")


@contextmanager
def _answered(reply: Reply[Any]) -> Iterator[None]:
    """Whoever asked learns of a defect too."""
    try:
        yield
    finally:
        reply.drop()  # without effect where it was sent
