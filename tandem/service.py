"""The service: opens the nurseries, starts and wires the actors; `tandem.draining` ends it.

Nesting, outermost first: the engine host (`tandem.build`); store and watchdog; turn scheduler, slots and queue; then
whatever serves HTTP (`tandem.serve` or `tandem.asgi`). What is inside may use what is outside until its own end. Adding
an actor is a new file and one line of wiring in `open_service`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import trio

from tandem.actors.choosing import SlotRules
from tandem.actors.host import EngineHost
from tandem.actors.keeper import Keeper, KeeperMessage
from tandem.actors.kit import Actor, Blocking, Ref, WallClock, supervise
from tandem.actors.lending import LaneRules
from tandem.actors.live import Live, Served
from tandem.actors.memory import MemoryKeeper, MemoryMessage
from tandem.actors.own import OwnWork, own_work
from tandem.actors.queue import Queue, QueueMessage
from tandem.actors.reader import Reader
from tandem.actors.slots import Slot, SlotMessage
from tandem.actors.store import Store
from tandem.actors.turns import TurnMessage, Turns
from tandem.actors.watchdog import Watchdog, WatchdogMessage
from tandem.conducting import Conducting, open_conducting
from tandem.config import Settings
from tandem.engine.caches.caching import Caching
from tandem.engine.fake import FakeEngine
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.memory import GIB
from tandem.engine.verbs import Engine
from tandem.http.access.rules import Access
from tandem.http.context import SERVED_NAME, Context
from tandem.http.openai.images import Geometry, sight_of
from tandem.http.replays import open_responses
from tandem.http.watching import sweep, tell_push
from tandem.identity import Identity
from tandem.log import LogBook
from tandem.process import memory_of
from tandem.secrets import Secrets

if TYPE_CHECKING:
    from tandem.http.images import ImageLoader

__all__ = ["Parts", "Service", "ServiceEngine", "open_service"]

log = logging.getLogger(__name__)

M = TypeVar("M")


class ServiceEngine(Engine[Any, Any], Caching, Protocol):
    """What the service needs of an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What differs between a real service and one under the mock clock. The host runs already."""

    engine: ServiceEngine
    host: EngineHost
    store: Store
    blocking: Blocking
    wall: WallClock
    identity: Identity = field(default_factory=Identity)
    logs: LogBook = field(default_factory=LogBook)
    images: ImageLoader | None = None
    """None: one is made from the settings where the model sees."""
    available: Callable[[], int | None] = lambda: None
    """Bytes of memory that could be taken now; None where nobody knows, which admits every request."""
    floor: int = 0
    """Bytes of them that a request beside others leaves free, where no setting says so."""
    conductor_dir: Path | None = None
    """Where the conductor's documents are, where STATE is not the one that the settings name."""
    reader: Reader | None = None
    """What reads conversations while nothing else runs; None: nobody does."""


@dataclass(slots=True)
class Service:
    """A running service: its context, its slots, and whether something essential has broken."""

    context: Context
    slots: tuple[Ref[SlotMessage], ...]
    stop: trio.Event
    """Set when the service is to drain: by a signal, or by the defect of an essential actor."""
    own: OwnWork
    """For whoever has work for it."""


@asynccontextmanager
async def open_service(settings: Settings, parts: Parts, access: Access | None = None) -> AsyncIterator[Service]:
    """Everything but the HTTP server. Leaving the block cancels what runs; `drain` first to let it finish.

    Without `access` no secret is set, and the settings alone say who may do what.
    """
    responses = open_responses(settings)
    live = _live_hub(settings, parts)
    watchdog = Watchdog(
        sweep_s=settings.conductor_watch_s,
        stuck_s=settings.stuck_s,
        sweeps=[] if responses is None else [responses.sweep],
        live=live.ref,
    )
    turns = _turn_scheduler(settings, parts, watchdog.ref)
    own = own_work(
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        watchdog=watchdog.ref,
        prepares=settings.summary_ahead,
        reader=parts.reader,
    )
    queue = Queue(
        max_queue=settings.max_queue,
        watchdog=watchdog.ref,
        live=live.ref,
        windows=own.ref,
        rules=_slot_rules(settings, parts.engine),
    )
    keeper = Keeper(
        engine=parts.engine,
        host=parts.host,
        turns=turns.ref,
        queue=queue.ref,
        blocking=parts.blocking,
        wall=parts.wall,
    )
    own.begin_with(queue.ref, keeper.ref)
    memory = _memory_keeper(settings, parts, watchdog.ref)
    conducting = await open_conducting(settings, parts, parts.engine.card, parts.engine.text, keeper.ref)
    slots = _slots(settings, parts, queue.ref, turns.ref, watchdog.ref, keeper.ref, _ref(memory))
    for index, slot in enumerate(slots):
        queue.add_slot(index, slot.ref)
    context = Context(
        settings=settings,
        card=parts.engine.card,
        text=parts.engine.text,
        grammars=Grammars(parts.engine.text),
        queue=queue.ref,
        store=parts.store.ref,
        watchdog=watchdog.ref,
        live=live.ref,
        keeper=keeper.ref,
        documents=_ref(conducting.documents),
        kit=conducting.kit,
        monitor=conducting.monitor,
        sessions=conducting.sessions,
        session_file=_ref(conducting.session_file),
        blocking=parts.blocking,
        wall=parts.wall,
        started_at=trio.current_time(),
        created=parts.wall.now(),
        identity=parts.identity,
        logs=parts.logs,
        images=_image_loader(settings, parts),
        engine_state=parts.engine.state,
        engine_cost=parts.engine.cost,
        engine_caches=parts.engine.caches,
        engine_memory=parts.engine.memory,
        responses=responses,
        access=access or Access.from_settings(settings, Secrets()),
    )
    service = Service(context, tuple(slot.ref for slot in slots), trio.Event(), own)
    essential: list[Actor[Any]] = [queue, turns, *([] if memory is None else [memory]), *slots]
    watching = _watch(context, parts, conducting, watchdog)
    optional: list[Actor[Any]] = [keeper, *conducting.actors, *watching, *own.actors]
    for actor in (*essential, *optional, parts.store, live):
        watchdog.watch(actor.ref)
    async with _running(service, outer=[parts.store, watchdog, live], inner=[*essential, *optional]):
        yield service


@asynccontextmanager
async def _running(service: Service, outer: Sequence[Actor[Any]], inner: Sequence[Actor[Any]]) -> AsyncIterator[None]:
    """The actors run for the block, `outer` as long as any of `inner` does."""

    def on_defect(name: str, _defect: Exception) -> None:
        if any(actor.ref.name == name and actor.essential for actor in (*outer, *inner)):
            log.error("[service] %s has failed: draining", name)
            service.context.broken.append(name)
            service.stop.set()
        else:
            log.error("[service] %s stays off", name)
            service.context.switched_off.append(name)

    async with trio.open_nursery() as foundations:
        for actor in outer:
            await foundations.start(partial(supervise, actor, on_defect))
        async with trio.open_nursery() as nursery:
            for actor in inner:
                await nursery.start(partial(supervise, actor, on_defect))
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
        foundations.cancel_scope.cancel()


def _watch(context: Context, parts: Parts, conducting: Conducting, watchdog: Watchdog) -> list[Actor[Any]]:
    """Every sweep looks at the sessions; who pushes what it finds, where anybody does."""
    is_fake = isinstance(parts.engine, FakeEngine)
    notifier = None if is_fake else conducting.notifier(partial(tell_push, context))
    watchdog.also(partial(sweep, context, _ref(notifier)))
    return [] if notifier is None else [notifier]


def _ref(actor: Actor[M] | None) -> Ref[M] | None:
    return None if actor is None else actor.ref


def _slots(
    settings: Settings,
    parts: Parts,
    queue: Ref[QueueMessage],
    turns: Ref[TurnMessage],
    watchdog: Ref[WatchdogMessage],
    keeper: Ref[KeeperMessage],
    memory: Ref[MemoryMessage] | None,
) -> list[Slot]:
    return [
        Slot(
            index,
            engine=engine,
            host=parts.host,
            turns=turns,
            queue=queue,
            watchdog=watchdog,
            keeper=keeper,
            first=parts.engine if len(parts.engine.slots) > 1 else None,
            lender=parts.engine if index == 0 else None,
            lane=LaneRules(settings.side_lane, settings.side_lane_prompt_max, settings.side_lane_new_max),
            settles=settings.parallel_settle,
            timed=settings.parallel_timing,
            queue_timeout_s=settings.queue_timeout,
            memory=memory,
        )
        for index, engine in enumerate(parts.engine.slots)
    ]


def _turn_scheduler(settings: Settings, parts: Parts, watchdog: Ref[WatchdogMessage]) -> Turns:
    return Turns(
        quantum_s=settings.turn_quantum_ms / 1e3,
        batch_timeout_s=settings.batch_timeout_ms / 1e3,
        watchdog=watchdog if len(parts.engine.slots) > 1 else None,
        timed=settings.parallel_timing,
    )


def _slot_rules(settings: Settings, engine: ServiceEngine) -> SlotRules:
    card = engine.slots[-1].card  # the side slots are alike
    return SlotRules(side_window=card.max_len, guest_max=settings.resident_guest_max, chunk=card.anchor_grid)


def _memory_keeper(settings: Settings, parts: Parts, watchdog: Ref[WatchdogMessage]) -> MemoryKeeper | None:
    """None with one slot: what is alone in flight is always admitted."""
    if len(parts.engine.slots) == 1:
        return None
    floor = parts.floor if settings.parallel_floor_gb is None else int(settings.parallel_floor_gb * GIB)
    return MemoryKeeper(available=parts.available, view=parts.engine.memory, floor=floor, watchdog=watchdog)


def _live_hub(settings: Settings, parts: Parts) -> Live:
    card = parts.engine.card
    served = Served(
        model=SERVED_NAME,
        base_model=card.name,
        version=parts.identity.version,
        window=card.max_len,
        slots=len(parts.engine.slots),
    )
    return Live(
        served,
        hz=int(settings.live_hz),
        shows_activity=settings.live_activity,
        max_readers=settings.live_max_readers,
        wall=parts.wall,
        memory=memory_of,
    )


def _image_loader(settings: Settings, parts: Parts) -> ImageLoader | None:
    if sight_of(parts.engine.card.images, settings.vision) != "sees":
        return None
    # Pillow and the fetch take a while to import, which no other service need wait for.
    from tandem.http.images import ImageLoader

    return parts.images or ImageLoader.from_settings(settings, parts.engine.card.geometry or Geometry(), parts.blocking)
