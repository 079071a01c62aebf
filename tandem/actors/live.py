"""The live view's hub: it looks at what runs, makes one event a tick, and hands it to everybody who watches.

Owns: the requests in flight as they can be looked at, those that ended, the samples of the last minutes, the readers.
Never: waits for an actor, a grant or a reader.

| message in    | from         | answer or effect                                            |
|---------------|--------------|-------------------------------------------------------------|
| `Began`       | request task | the request is in the next event                            |
| `Ended`       | request task | its row stays for a while with its final figures            |
| `QueueSeen`   | queue        | who waits, in which order                                   |
| `Watch`       | a reader     | a `Reader`, or None when there are too many                 |
| `Unwatch`     | a reader     | it gets no more events                                      |
| `Look`        | route, tests | the event of this moment, with history                      |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import trio

from tandem.actors.kit import Actor, Reply
from tandem.actors.watchdog import QueueSeen
from tandem.live.seen import RequestSeen
from tandem.store.outcome import Outcome

__all__ = ["Began", "Ended", "Live", "LiveMessage", "Look", "QueueSeen"]


@dataclass(frozen=True, slots=True)
class Began:
    """A request has arrived; `look` may be called at any time until its `Ended`."""

    request_id: str
    look: Callable[[], RequestSeen]


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Look:
    """One event as JSON, with history."""

    reply: Reply[bytes]


LiveMessage: TypeAlias = Began | Ended | QueueSeen | Look


class Live(Actor[LiveMessage]):
    name = "live"
    essential = False
    inbox_size = 1024

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async for _message in self.inbox:
            pass
