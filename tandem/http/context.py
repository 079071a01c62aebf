"""What the routes may use: references to actors, the model's card and text, and the two counters of the HTTP edge."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
from quart import current_app

from tandem.actors.documents import DocumentsMessage
from tandem.actors.keeper import KeeperMessage
from tandem.actors.kit import Blocking, Ref, WallClock
from tandem.actors.live import LiveMessage
from tandem.actors.outbox import Deltas
from tandem.actors.queue import QueueMessage
from tandem.actors.session_file import SessionFileMessage
from tandem.actors.store import Journal, StoreMessage
from tandem.actors.watchdog import WatchdogMessage
from tandem.conductor.masking.scan import SecretCache
from tandem.conductor.misses import Misses
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.packages.catalog import TokenCounts
from tandem.conductor.router.kit import Kit
from tandem.conductor.sampling import SamplingCounts
from tandem.conductor.sessions import Sessions
from tandem.config import Settings
from tandem.engine.caches.caching import CacheStats, MemoryView
from tandem.engine.caches.response import ResponseCache
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.text.model import TextModel
from tandem.engine.verbs import ModelCard
from tandem.http.access.rules import Access
from tandem.http.access.signin import Failures
from tandem.http.feed.readers import Readers
from tandem.http.openai import errors
from tandem.identity import Identity
from tandem.log import LogBook
from tandem.metrics import Metrics
from tandem.store.journal import HiddenText, JournalRow

if TYPE_CHECKING:  # Pillow and the fetch are loaded where a model sees
    from tandem.http.images import ImageLoader

__all__ = ["CONTEXT_KEY", "SERVED_NAME", "BodyBudget", "Context", "Traffic", "context", "new_id"]

SERVED_NAME = "TandemLLM"
"""The model's name in every response (API-052)."""
CONTEXT_KEY = "TANDEM_CONTEXT"
BODIES_IN_FLIGHT = 256 * 1024 * 1024
"""Bytes of request bodies held at once over all requests (API-004)."""


class BodyBudget:
    """Bytes of request bodies that may be in flight together."""

    def __init__(self, limit: int = BODIES_IN_FLIGHT) -> None:
        self._limit = limit
        self._held = 0

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Whatever is taken through the hold comes back at the end of the block."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self._held -= hold.size

    def _take(self, size: int) -> None:
        if self._held + size > self._limit:
            raise errors.memory()
        self._held += size


class Hold:
    """One request's share of the budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def grow(self, size: int) -> None:
        """Take `size` more bytes. Raises `ApiError` (503, `memory`) when they are not there."""
        self._budget._take(size)
        self.size += size


class Traffic:
    """HTTP requests that are being answered: a drain waits until there are none."""

    def __init__(self) -> None:
        self._active = 0
        self._idle = trio.Event()
        self._idle.set()

    @contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Counts one for the block, or until what it gives is called: nobody waits for whoever only watches."""
        if self._active == 0:
            self._idle = trio.Event()
        self._active += 1
        with ExitStack() as stack:
            stack.callback(self._less)
            yield stack.close

    def _less(self) -> None:
        self._active -= 1
        if self._active == 0:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns at a moment at which nothing is being answered."""
        while self._active:
            await self._idle.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One service, as its routes see it."""

    settings: Settings
    card: ModelCard
    text: TextModel
    grammars: Grammars
    queue: Ref[QueueMessage]
    store: Ref[StoreMessage]
    watchdog: Ref[WatchdogMessage]
    live: Ref[LiveMessage]
    keeper: Ref[KeeperMessage]
    documents: Ref[DocumentsMessage] | None = None
    """There with --conductor-config."""
    kit: Kit | None = None
    """What planners are given; there with `documents`."""
    monitor: Monitor | None = None
    """None: nothing looks on while answers are written."""
    sampling: SamplingCounts = field(default_factory=SamplingCounts)
    """How often turns were sampled under a plan."""
    secrets: SecretCache = field(default_factory=SecretCache)
    """The secrets that tool results hold."""
    session_file: Ref[SessionFileMessage] | None = None
    """Keeps the sessions over a restart; None without a conductor."""
    token_counts: TokenCounts = field(default_factory=TokenCounts)
    """Of the packages' texts."""
    blocking: Blocking
    wall: WallClock
    started_at: float
    """On trio's clock."""
    created: datetime.datetime
    """When the service started, for the model card."""
    broken: list[str] = field(default_factory=list)
    """Essential actors that have failed: the service drains (SCH-006)."""
    switched_off: list[str] = field(default_factory=list)
    """Optional actors that have failed too often and stay off."""
    leaving: trio.Event = field(default_factory=trio.Event)
    """Set once a drain has let the last request end: whoever only watches is sent away."""
    hurry: trio.Event = field(default_factory=trio.Event)
    """Set by a second signal: what runs is ended, and no conversation is kept for the next start (SCH-096)."""
    identity: Identity = field(default_factory=Identity)
    logs: LogBook = field(default_factory=LogBook)
    metrics: Metrics = field(default_factory=Metrics)
    images: ImageLoader | None = None
    """There where messages may hold images."""
    engine_state: Callable[[], Mapping[str, int]] = dict
    """The engine's counters; like `engine_cost` it may be called while a verb runs (ENG-174)."""
    engine_cost: Callable[[], Mapping[str, int]] = dict
    """Bytes a token and a snapshot take (ENG-133)."""
    engine_caches: Callable[[], Mapping[str, CacheStats]] = dict
    """The engine's caches that are on."""
    engine_memory: Callable[[], MemoryView] = MemoryView
    """What its memory gate sees."""
    responses: ResponseCache[tuple[Deltas, ...]] | None = None
    """The response cache, where it is on."""
    sessions: Sessions = field(default_factory=Sessions)
    misses: Misses = field(default_factory=Misses)
    """The last prompt of each of the newest conversations."""
    bodies: BodyBudget = field(default_factory=BodyBudget)
    traffic: Traffic = field(default_factory=Traffic)
    readers: Readers = field(default_factory=Readers)
    """Who watches; `readers.count("live")` and `readers.count("log")` are the gauges of OBS-036."""
    access: Access = field(default_factory=Access)
    failed_sign_ins: Failures = field(default_factory=Failures)

    def journal(self, rows: Sequence[JournalRow], texts: Sequence[HiddenText] = ()) -> None:
        """Rows for the journal. It delays nobody: what finds its inbox full is lost, and counted (OBS-037)."""
        if not self.store.offer(Journal(tuple(rows), tuple(texts))):
            self.metrics.journal_lost(len(rows))


def context() -> Context:
    """The context of the app that handles the present request."""
    found: Context = current_app.config[CONTEXT_KEY]
    return found


def new_id(prefix: str) -> str:
    """An id for a response, unique beyond chance."""
    return prefix + secrets.token_hex(12)
