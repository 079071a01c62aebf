"""Hidden tokens of a session's last answer come back at the grant, and the next turn goes on behind its end (K-10)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tandem.actors.host import ThreadHost
from tandem.actors.kit import Actor, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, Outbox
from tandem.actors.queue import Enter, Granted, Lent, Queue, Refused
from tandem.actors.slots import Run, Slot
from tandem.actors.turns import Turns
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.seams import Verdict
from tandem.engine.decoding.work import Force
from tandem.engine.fake.vocabulary import IM_START
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Content, Delta, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules
from tests.actors.box import SMALL, open_box
from tests.actors.test_beside_real import Ids
from tests.engine.decoding.engines import GRID, KIND, PROMPT, ids_of, read, rounds, tiny_engine
from tests.engine.decoding.supervised import Table

HIDDEN = (IM_START, 65, 66)


def generation_of(
    prompt: Prompt, reader: PlainReader, ends: Set[int], hidden: Sequence[int] = (), limit: int = 8
) -> Any:
    """With `hidden` the first end that the model chooses is none."""
    acts = Table(SP2=[Verdict(works=(Force(tuple(hidden), visible=False),))] if hidden else [])
    return Generation(
        prompt,
        SamplingRules(),
        limit=limit,
        reader=reader,
        end_ids=ends,
        grid=GRID,
        arrived_at=trio.current_time(),
        supervisor=acts,
    )


async def serve(queue: Queue, key: str, generation: Generation) -> tuple[str, Finish]:
    """What a slot makes of it."""
    outbox = Outbox(stall_s=60)
    granted: Granted | Refused | Lent = await queue.ref.ask(lambda reply: Enter(key, Rank.TURN, reply, SMALL))
    assert isinstance(granted, Granted)
    await granted.ref.tell(Run(key, (generation,), outbox, 60.0))
    deltas: list[Delta] = []
    while (item := await outbox.take()) is not None:
        deltas += item.deltas if isinstance(item, Deltas) else ()
    assert isinstance(deltas[-1], Finish)
    return "".join(delta.text for delta in deltas if isinstance(delta, Content)), deltas[-1]


@pytest.mark.spec("MON-136", "MON-137", "ENG-111", "ANS-004", "SCH-114", "API-157")
@pytest.mark.parametrize("session", ["mine", "another", None])
async def test_the_next_turn_goes_on_behind_a_hidden_act(autojump_clock: MockClock, session: str | None) -> None:
    engine = WarmFakeEngine(grid=GRID)
    prompt = replace(engine.text.read("word " * 40 + '@fake {"say": ["a", " b"], "then": [[" c"]]}'), session="mine")
    async with open_box(engine) as (box, _):
        text, first = await serve(
            box.queue, "1", generation_of(prompt, PlainReader(engine.text), engine.text.end_ids, HIDDEN)
        )
        assert (text, first.usage.completion, first.usage.hidden) == ("a b c", 4, 0)
        seen = [*prompt.ids, *engine.text.encode("a"), *engine.text.encode(" b"), *engine.text.encode(" c")]
        again = replace(engine.text.read([*seen, *engine.text.encode(" more")]), session=session)
        generation = generation_of(again, PlainReader(engine.text), engine.text.end_ids)
        usage = (await serve(box.queue, "2", generation))[1].usage
    assert usage.prompt == len(again.ids)
    if session == "mine":
        assert usage.hidden == usage.replayed == len(HIDDEN)
        assert usage.engine_cached == len(seen) + len(HIDDEN)
        assert usage.cached == len(seen)
        assert usage.engine_prompt == 1
    else:
        assert (usage.hidden, usage.replayed, generation.prompt) == (0, 0, again)
        assert usage.engine_cached == len(prompt.ids) // GRID * GRID


@pytest.mark.spec("MON-136", "MON-137", "ENG-111", "ENG-065")
@pytest.mark.parametrize(("end_anchor", "kind"), [(True, "qwen3_5"), (False, "llama")])
async def test_a_real_engine_goes_on_there_too(end_anchor: bool, kind: str) -> None:
    KIND.set(kind)
    plain = tiny_engine()
    seq = read(plain, PROMPT)
    first = rounds(plain, seq, 14)
    at = next(at for at in range(5, 14) if first[at] not in first[:at])
    end, hidden = first[at], ids_of(9, 5)
    engine = tiny_engine(end_anchor=end_anchor)
    watchdog, _ = open_mailbox("watchdog", 10_000)
    host, turns, queue = ThreadHost(), Turns(quantum_s=0.05), Queue(max_queue=20, watchdog=watchdog)
    slot = Slot(0, engine=engine, host=host, turns=turns.ref, queue=queue.ref, watchdog=watchdog)
    queue.add_slot(0, slot.ref)
    prompt = replace(Prompt.of_client(PROMPT), session="mine")
    async with trio.open_nursery() as actors:
        everybody: list[Actor[Any]] = [host, turns, queue, slot]
        for actor in everybody:
            await actors.start(partial(supervise, actor, lambda name, defect: pytest.fail(name)))
        with trio.fail_after(60):
            said, _ = await serve(queue, "1", generation_of(prompt, Ids(), {end}, hidden, limit=at + 6))
            seen = [*PROMPT, *(int(token) for token in said.split())]
            again = replace(Prompt.of_client([*seen, 7, 8]), session="mine")
            text, finish = await serve(queue, "2", generation_of(again, Ids(), {end}))
        actors.cancel_scope.cancel()
    rows = [*seen[: len(PROMPT) + at], *hidden, *seen[len(PROMPT) + at :]]
    usage = finish.usage
    assert usage.prompt == len(again.ids)
    if end_anchor:
        assert usage.replayed == len(hidden)
        assert usage.engine_cached in (len(rows), len(rows) - 1)  # an end token has no row, nor has the limit's last
        fresh = tiny_engine()
        wanted = rounds(fresh, read(fresh, [*rows, 7, 8]), 8)
        assert [int(token) for token in text.split()] == wanted[: wanted.index(end) if end in wanted else 8]
    else:
        assert usage.replayed == 0
