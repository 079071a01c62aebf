"""The service's own work as far as it is on, wired: one broker of windows, and the jobs that run in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tandem.actors.host import EngineHost
from tandem.actors.keeper import KeeperMessage
from tandem.actors.kit import Actor, Ref
from tandem.actors.preparer import Preparer
from tandem.actors.queue import QueueMessage
from tandem.actors.reader import Reader, ShadowReader
from tandem.actors.turns import TurnMessage
from tandem.actors.watchdog import WatchdogMessage
from tandem.actors.windows import WindowMessage, Windows

if TYPE_CHECKING:
    from tandem.engine.verbs import Engine

__all__ = ["OwnWork", "own_work"]


@dataclass(frozen=True, slots=True)
class OwnWork:
    windows: Windows | None = None
    """None where there is no own work at all."""
    preparer: Preparer | None = None
    reader: ShadowReader | None = None

    @property
    def ref(self) -> Ref[WindowMessage] | None:
        """Whom the queue tells that nobody asks for anything."""
        return None if self.windows is None else self.windows.ref

    @property
    def actors(self) -> list[Actor[Any]]:
        return [actor for actor in (self.windows, self.preparer, self.reader) if actor is not None]

    def begin_with(self, queue: Ref[QueueMessage], keeper: Ref[KeeperMessage]) -> None:
        """Wiring, before they run."""
        if self.windows is not None:
            self.windows.begin_with(queue, keeper)


def own_work(
    *,
    engine: Engine[Any, Any],
    host: EngineHost,
    turns: Ref[TurnMessage],
    watchdog: Ref[WatchdogMessage],
    prepares: bool,
    reader: Reader | None,
) -> OwnWork:
    """`prepares`: summaries are written ahead; `reader`: what reads conversations on."""
    if not prepares and reader is None:
        return OwnWork()
    windows = Windows(watchdog=watchdog)
    return OwnWork(
        windows,
        Preparer(engine=engine, host=host, turns=turns, windows=windows.ref) if prepares else None,
        None if reader is None else ShadowReader(reader=reader, host=host, turns=turns, windows=windows.ref),
    )
