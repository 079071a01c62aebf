"""Slots that run over the fake engine, with the real queue and turn scheduler, and requests as their tasks see them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from tandem.actors.host import EngineHost, InlineHost
from tandem.actors.kit import Actor, Ref, open_mailbox, supervise
from tandem.actors.lending import LaneRules
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, Item, Outbox
from tandem.actors.queue import Enter, Granted, Lent, Needs, Queue, Refused
from tandem.actors.slots import Cancel, Run, Slot
from tandem.actors.turns import Turns
from tandem.actors.watchdog import SlotSeen, WatchdogMessage
from tandem.engine.decoding.generation import Generation
from tandem.engine.fake import FakeEngine
from tandem.engine.text.reading.deltas import Content, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules

__all__ = ["ENDLESS", "Box", "Request", "open_box"]

ENDLESS: dict[str, Any] = {"say": " la", "loop": True, "token_ms": 100}
SMALL = Needs(prompt=100, output=100)
"""Fits a side slot."""


@dataclass
class Request:
    """One request on a slot, as its task sees it."""

    key: str
    outbox: Outbox
    items: list[tuple[float, Item]] = field(default_factory=list)
    ended_at: float | None = None

    async def read(self) -> None:
        while (item := await self.outbox.take()) is not None:
            self.items.append((trio.current_time(), item))
        self.ended_at = trio.current_time()

    def batches(self, choice: int = 0) -> list[Deltas]:
        return [item for _, item in self.items if isinstance(item, Deltas) and item.choice == choice]

    def text(self, choice: int = 0) -> str:
        deltas = [delta for batch in self.batches(choice) for delta in batch.deltas]
        return "".join(delta.text for delta in deltas if isinstance(delta, Content))

    @property
    def finishes(self) -> list[Finish]:
        deltas = [delta for _, item in self.items if isinstance(item, Deltas) for delta in item.deltas]
        return [delta for delta in deltas if isinstance(delta, Finish)]

    @property
    def finish(self) -> Finish:
        (finish,) = self.finishes
        return finish


class Box:
    """Slots over the fake engine, with the real queue and turn scheduler."""

    def __init__(self, engine: FakeEngine, host: EngineHost | None = None, **more: Any) -> None:
        watchdog: Ref[WatchdogMessage]
        watchdog, self._seen = open_mailbox("watchdog", 10_000)
        self.engine = engine
        self.turns = Turns(quantum_s=0.05, watchdog=watchdog, timed=more.get("timed", False))
        self.queue = Queue(max_queue=8, watchdog=watchdog)
        self.defects: list[str] = []
        self.slots = [
            Slot(
                index,
                engine=each,
                host=host or InlineHost(engine),
                turns=self.turns.ref,
                queue=self.queue.ref,
                watchdog=watchdog,
                first=engine if len(engine.slots) > 1 else None,
                lender=engine if index == 0 else None,
                **{"lane": LaneRules(), **more},
            )
            for index, each in enumerate(engine.slots)
        ]
        for index, slot in enumerate(self.slots):
            self.queue.add_slot(index, slot.ref)
        self._count = 0

    def generation(self, script: dict[str, Any], *, words: int = 0, limit: int = 1000, **rules: Any) -> Generation:
        prompt = self.engine.text.read("word " * words + f"@fake {json.dumps(script)}")
        return Generation(
            prompt,
            SamplingRules(**rules),
            limit=limit,
            reader=PlainReader(self.engine.text),
            end_ids=self.engine.text.end_ids,
            grid=self.engine.card.anchor_grid,
            arrived_at=trio.current_time(),
        )

    async def enter(self, key: str) -> Granted:
        answer: Granted | Refused | Lent = await self.queue.ref.ask(lambda reply: Enter(key, Rank.TURN, reply, SMALL))
        assert isinstance(answer, Granted)
        return answer

    async def run(
        self,
        script: dict[str, Any],
        *,
        n: int = 1,
        timeout_s: float = 1e6,
        outbox: Outbox | None = None,
        nursery: trio.Nursery | None = None,
        **more: Any,
    ) -> Request:
        """Ask for a slot and run there; the request is read in `nursery`, without one to its end."""
        first = self.generation(script, **more)
        choices = (first, *(first.for_choice(index, PlainReader(self.engine.text)) for index in range(1, n)))
        self._count += 1
        request = Request(f"r{self._count}", outbox or Outbox(stall_s=60))
        granted = await self.enter(request.key)
        await granted.ref.tell(Run(request.key, choices, request.outbox, timeout_s))
        if nursery is None:
            await request.read()
        else:
            nursery.start_soon(request.read)
        return request

    async def cancel(self, request: Request, slot: int = 0) -> tuple[Finish, ...]:
        return await self.slots[slot].ref.ask(lambda reply: Cancel(request.key, reply))

    def verbs(self, *names: str) -> list[str]:
        return [call.verb for call in self.engine.calls if not names or call.verb in names]

    def seen(self) -> list[SlotSeen]:
        """What the slots have reported since the last call."""
        seen = []
        while (message := self._seen.receive_nowait()) is not None:
            if isinstance(message, SlotSeen):
                seen.append(message)
        return seen

    async def rest(self) -> None:
        """Whatever became of the requests, nothing of them is left."""
        await wait_all_tasks_blocked()
        assert self.engine.state()["open_sequences"] == 0
        assert self.turns._share.holder is None
        assert self.queue._waiters.free_slots == sorted(self.queue._slots)
        assert {message.slot: message.phase for message in self.seen()} == dict.fromkeys(range(len(self.slots)), "idle")
        assert self.defects == []
        request = await self.run({"say": "still here"})
        assert request.text() == "still here"


@asynccontextmanager
async def open_box(
    engine: FakeEngine | None = None, *, slots: int = 1, host: EngineHost | None = None, **more: Any
) -> AsyncIterator[tuple[Box, trio.Nursery]]:
    """The box and a nursery for the readers of its requests."""
    async with trio.open_nursery() as nursery:
        box = Box(engine or FakeEngine(slots=slots), host, **more)
        actors: list[Actor[Any]] = [box.turns, box.queue, *box.slots]
        for actor in actors:
            await nursery.start(partial(supervise, actor, lambda name, defect: box.defects.append(name)))
        yield box, nursery
        nursery.cancel_scope.cancel()
