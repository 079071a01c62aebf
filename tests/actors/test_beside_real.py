"""Slots over a tiny model on the real engine thread: everybody writes what it writes alone (SCH-064, SCH-110)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio

from tandem.actors.host import ThreadHost
from tandem.actors.kit import Actor, Ref, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, Outbox
from tandem.actors.queue import Enter, Granted, Lent, Needs, Queue, Refused
from tandem.actors.slots import Run, Slot
from tandem.actors.turns import Turns
from tandem.actors.watchdog import WatchdogMessage
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.fake import FakeText
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Content, Delta
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules, TokenLogprob
from tests.engine.decoding.engines import ids_of
from tests.engine.decoding.slotted import Asked, alone, slotted

COUNT = 24


class Ids(PlainReader):
    """A reader whose text are the ids."""

    def __init__(self) -> None:
        super().__init__(FakeText())

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        return [Content(f"{token} ")]


@dataclass
class Real:
    engine: TorchEngine
    queue: Queue
    turns: Turns
    written: dict[int, list[int]] = field(default_factory=dict)

    async def ask(self, number: int, asked: Asked) -> None:
        outbox = Outbox(stall_s=60)
        generation = Generation(
            Prompt.of_client(asked.prompt),
            asked.rules,
            limit=asked.count,
            reader=Ids(),
            end_ids=set(),
            grid=self.engine.card.anchor_grid,
            arrived_at=trio.current_time(),
        )
        needs = Needs(prompt=len(asked.prompt), output=asked.count)
        granted: Granted | Refused | Lent = await self.queue.ref.ask(
            lambda reply: Enter(str(number), Rank.TURN, reply, needs)
        )
        assert isinstance(granted, Granted)
        await granted.ref.tell(Run(str(number), (generation,), outbox, 60.0))
        text = ""
        while (item := await outbox.take()) is not None:
            if isinstance(item, Deltas):
                text += "".join(delta.text for delta in item.deltas if isinstance(delta, Content))
        self.written[number] = [int(token) for token in text.split()]


@pytest.mark.spec("SCH-064", "SCH-065", "SCH-068", "ENG-162")
@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("slots", [2, 3])
async def test_everybody_writes_what_it_writes_alone(slots: int, drafts: bool) -> None:
    engine = slotted(slots, (lambda slot: LookupDrafter()) if drafts else lambda slot: None)
    watchdog: Ref[WatchdogMessage]
    watchdog, _ = open_mailbox("watchdog", 10_000)
    host, turns, queue = ThreadHost(), Turns(quantum_s=0.05), Queue(max_queue=20, watchdog=watchdog)
    more: dict[str, Any] = {"host": host, "turns": turns.ref, "queue": queue.ref, "watchdog": watchdog, "first": engine}
    workers = [Slot(index, engine=each, **more) for index, each in enumerate(engine.slots)]
    for index, slot in enumerate(workers):
        queue.add_slot(index, slot.ref)
    rules = [SamplingRules(), SamplingRules(temperature=0.8, seed=5), SamplingRules(repetition_penalty=1.3)]
    requests = [Asked(ids_of(20 + 17 * number, number), rules[number % 3], COUNT) for number in range(3 * slots)]
    real = Real(engine, queue, turns)
    async with trio.open_nursery() as actors:
        everybody: list[Actor[Any]] = [host, turns, queue, *workers]
        for actor in everybody:
            await actors.start(partial(supervise, actor, lambda name, defect: pytest.fail(name)))
        with trio.fail_after(120):
            async with trio.open_nursery() as clients:
                for number, asked in enumerate(requests):
                    clients.start_soon(real.ask, number, asked)
        actors.cancel_scope.cancel()
    for number, asked in enumerate(requests):
        assert real.written[number] == alone(asked)[:COUNT]
    assert turns._figures.rounds  # how many depends on when each came
