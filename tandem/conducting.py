"""What the service starts with --conductor-config: the documents actor, and who is told of a change; what planners are
given; the sessions, which go on over a restart (NOTE-009).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from tandem.actors.documents import DocumentKeeper
from tandem.actors.keeper import Configure, KeeperMessage
from tandem.actors.kit import Blocking, Ref, WallClock
from tandem.actors.store import Store
from tandem.conductor.documents import Documents
from tandem.conductor.router.kit import Kit, kit_for
from tandem.conductor.sampling import Draw, sampling_kit
from tandem.conductor.sessions import BadSessions, Sessions, dump_sessions, load_sessions
from tandem.config import Settings
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import ModelCard
from tandem.fit import model_fit
from tandem.store.document_files import write_file
from tandem.store.files import make_private_dir

__all__ = ["conductor_kit", "document_keeper", "open_sessions", "sessions_file", "write_sessions"]

log = logging.getLogger(__name__)

SESSIONS = Path("state") / "sessions.json"
"""In the conductor's directory."""


class Parts(Protocol):
    """What it takes of `tandem.service.Parts`."""

    @property
    def conductor_dir(self) -> Path | None: ...

    @property
    def blocking(self) -> Blocking: ...

    @property
    def wall(self) -> WallClock: ...

    @property
    def store(self) -> Store: ...


def conductor_root(settings: Settings, parts: Parts) -> Path | None:
    """Its directory; None without a conductor."""
    return parts.conductor_dir or settings.conductor_dir


def document_keeper(settings: Settings, parts: Parts, keeper: Ref[KeeperMessage]) -> DocumentKeeper | None:
    """None without a directory."""
    root = conductor_root(settings, parts)
    if root is None:
        return None
    last = settings.disk_tier

    def configure(documents: Documents) -> bool:
        """The disk tier follows the settings document (MEM-014)."""
        nonlocal last
        disk = documents.settings.memory.disk_cache.over(settings.disk_tier)
        if disk != last and not keeper.offer(Configure(disk)):
            return False
        last = disk
        return True

    return DocumentKeeper(root, blocking=parts.blocking, wall=parts.wall, store=parts.store.ref, on_change=configure)


def conductor_kit(settings: Settings, parts: Parts, card: ModelCard, text: TextModel) -> Kit | None:
    """None without a conductor. Raises `SettingError` for a --conductor-fit that means nothing."""
    fit = model_fit(settings, card)
    if conductor_root(settings, parts) is None:
        return None
    return kit_for(
        text,
        fit=fit,
        model_name=card.name,
        dedup=settings.note_dedup,
        client_cwd=settings.client_cwd,
        tool_fit=settings.tool_fit,
        sampling=sampling_kit(card.sampling, regenerates=settings.regenerate, regenerate=_regenerate(settings)),
    )


def _regenerate(settings: Settings) -> Draw:
    return Draw(settings.regenerate_temperature, settings.regenerate_top_p, settings.regenerate_top_k)


def sessions_file(settings: Settings, parts: Parts) -> Path | None:
    root = conductor_root(settings, parts)
    return None if root is None else root / SESSIONS


async def open_sessions(settings: Settings, parts: Parts) -> Sessions:
    """Those of the last run, where there is a conductor."""
    sessions, file = Sessions(generations=settings.session_generations), sessions_file(settings, parts)
    if file is not None:
        await parts.blocking.run("documents", _read_sessions, file, sessions)
    return sessions


def _read_sessions(file: Path, sessions: Sessions) -> None:
    """A file that cannot be read costs sessions their notes and no more."""
    try:
        sessions.restore(load_sessions(file.read_bytes()))
    except FileNotFoundError:
        return
    except BadSessions as error:
        log.error("[conductor] %s: %s", file, error)
        return
    except OSError as error:
        log.error("[conductor] %s cannot be read: %s", file, error.strerror or error)
        return
    log.info("[conductor] %d sessions go on", len(sessions))


def write_sessions(file: Path, sessions: Sessions) -> None:
    try:
        make_private_dir(file.parent)
        write_file(file, dump_sessions(sessions))
    except OSError as error:
        log.error("[conductor] %s cannot be written: %s", file, error.strerror or error)
