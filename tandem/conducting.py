"""The conductor's part of a service: the documents actor, and who is told of a change; the monitor and its pushes; what
planners are given; the sessions, which go on over a restart (NOTE-009).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tandem.actors.documents import DocumentKeeper
from tandem.actors.keeper import Configure, KeeperMessage
from tandem.actors.kit import Actor, Blocking, Ref, WallClock
from tandem.actors.notifier import Notifier, Push
from tandem.actors.session_file import SessionFile
from tandem.actors.store import Store
from tandem.conductor.documents import Documents
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import NotYaml, Policy, PolicyError, body_of, policy_of, shipped_body
from tandem.conductor.router.kit import Kit, kit_for
from tandem.conductor.sampling import Draw, sampling_kit
from tandem.conductor.sessions import BadSessions, Sessions, load_sessions
from tandem.config import SettingError, Settings
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.calls import pythonic_calls, xml_calls
from tandem.engine.verbs import ModelCard
from tandem.fit import model_fit

__all__ = ["Conducting", "check_policy", "open_conducting"]

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


@dataclass(frozen=True, slots=True)
class Conducting:
    """What there is of it: all but the sessions is None where the settings ask for none."""

    settings: Settings
    blocking: Blocking
    monitor: Monitor | None
    documents: DocumentKeeper | None
    sessions: Sessions
    session_file: SessionFile | None
    kit: Kit | None

    @property
    def actors(self) -> list[Actor[Any]]:
        return [actor for actor in (self.documents, self.session_file) if actor is not None]

    def notifier(self, on_result: Callable[[Push, str], None]) -> Notifier | None:
        """None where nothing is watched. With the fake engine nobody asks for one (MON-131)."""
        if self.monitor is None:
            return None
        url, state_dir = self.settings.notify_url, self.settings.state_dir
        return Notifier(url=url, state_dir=state_dir, blocking=self.blocking, on_result=on_result)


async def open_conducting(
    settings: Settings, parts: Parts, card: ModelCard, text: TextModel, keeper: Ref[KeeperMessage]
) -> Conducting:
    """Reads the sessions of the last run. Raises `SettingError` where a setting does not fit the model."""
    watched = _session_monitor(settings, parts, card, text)
    sessions = await _open_sessions(settings, parts)
    return Conducting(
        settings,
        parts.blocking,
        None if watched is None else watched.monitor,
        _document_keeper(settings, parts, keeper, watched),
        sessions,
        _session_keeper(settings, parts, sessions),
        _conductor_kit(settings, parts, card, text),
    )


def _conductor_root(settings: Settings, parts: Parts) -> Path | None:
    """Its directory; None without a conductor."""
    return parts.conductor_dir or settings.conductor_dir


@dataclass(frozen=True, slots=True)
class _SessionMonitor:
    """The policy file as it was read, and the monitor that is under it; None in mode raw."""

    body: Mapping[str, Any]
    monitor: Monitor | None


def check_policy(settings: Settings) -> None:
    """Raises `SettingError`, with a line for each problem, where a monitor could not start under its policy (MON-020):
    before a model is loaded for minutes.
    """
    if settings.monitor_mode != "raw":
        _policy(settings)


def _session_monitor(settings: Settings, parts: Parts, card: ModelCard, text: TextModel) -> _SessionMonitor | None:
    """None with neither monitor nor conductor. Raises `SettingError`, also where the policy does not fit the model."""
    mode = settings.monitor_mode
    if mode == "raw" and _conductor_root(settings, parts) is None:
        return None
    body, policy = _policy(settings)
    if mode == "raw":
        return _SessionMonitor(body, None)
    codec = xml_calls if settings.tool_format == "xml" else pythonic_calls
    try:
        monitor = Monitor(mode, policy, text, argloop=settings.argloop, window=card.max_len, codec=codec)
    except PolicyError as error:
        raise _unusable(settings, error) from None
    return _SessionMonitor(body, monitor)


def _policy(settings: Settings) -> tuple[Mapping[str, Any], Policy]:
    """The policy file's body, and what it says."""
    try:
        body = shipped_body() if settings.conductor_policy is None else body_of(settings.conductor_policy)
        return body, policy_of(body)
    except (NotYaml, PolicyError) as error:
        raise _unusable(settings, error) from None


def _unusable(settings: Settings, error: NotYaml | PolicyError) -> SettingError:
    name = settings.conductor_policy or "the policy that ships"
    return SettingError("\n".join(f"--conductor-policy: {name}: {line}" for line in str(error).splitlines()))


def _document_keeper(
    settings: Settings, parts: Parts, keeper: Ref[KeeperMessage], watched: _SessionMonitor | None
) -> DocumentKeeper | None:
    """None without a directory."""
    root = _conductor_root(settings, parts)
    if root is None:
        return None
    last, monitor = settings.disk_tier, None if watched is None else watched.monitor

    def configure(documents: Documents) -> bool:
        """The disk tier follows the settings document (MEM-014), the monitor its own (MON-021)."""
        nonlocal last
        if monitor is not None and documents.monitor is not None:
            _reload(monitor, documents.monitor, documents.versions.get("monitor", 0))
        disk = documents.settings.memory.disk_cache.over(settings.disk_tier)
        if disk != last and not keeper.offer(Configure(disk)):
            return False
        last = disk
        return True

    return DocumentKeeper(
        root,
        blocking=parts.blocking,
        wall=parts.wall,
        store=parts.store.ref,
        on_change=configure,
        policy=None if watched is None else watched.body,
    )


def _reload(monitor: Monitor, body: Mapping[str, Any], version: int) -> None:
    """A document that its checks let through may still not fit the model: then the policy in use stays (MON-023)."""
    if version == monitor.version:
        return
    try:
        monitor.reload(policy_of(body), version)
    except PolicyError as error:
        log.error("[conductor] version %d of the monitor document cannot be used: %s", version, error)
    except Exception as error:  # the documents' actor goes on whatever a model's text does with a policy (MON-012)
        log.error("[conductor] version %d of the monitor document cannot be used: %s", version, type(error).__name__)


def _conductor_kit(settings: Settings, parts: Parts, card: ModelCard, text: TextModel) -> Kit | None:
    """None without a conductor. Raises `SettingError` for a --conductor-fit that means nothing."""
    fit = model_fit(settings, card)
    if _conductor_root(settings, parts) is None:
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


def _sessions_file(settings: Settings, parts: Parts) -> Path | None:
    root = _conductor_root(settings, parts)
    return None if root is None else root / SESSIONS


async def _open_sessions(settings: Settings, parts: Parts) -> Sessions:
    """Those of the last run, where there is a conductor."""
    sessions, file = Sessions(generations=settings.session_generations), _sessions_file(settings, parts)
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


def _session_keeper(settings: Settings, parts: Parts, sessions: Sessions) -> SessionFile | None:
    """None without a conductor."""
    file = _sessions_file(settings, parts)
    return None if file is None else SessionFile(file, sessions, blocking=parts.blocking)
