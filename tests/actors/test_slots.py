from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.host import InlineHost
from tandem.actors.kit import Actor, ActorGone, Ref, Reply, open_mailbox, supervise
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, Item, Outbox, PrefillProgress
from tandem.actors.queue import Drain, Enter, Granted, Queue, QueueMessage, Refused, SlotFree
from tandem.actors.slots import Abort, Cancel, Run, Slot
from tandem.actors.turns import GiveUp, Turn, TurnMessage, Turns, Want
from tandem.actors.watchdog import SlotSeen, WatchdogMessage
from tandem.engine.decoding.generation import Generation
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.text.reading.deltas import Content, Finish
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules

ENDLESS = {"say": " la", "loop": True, "token_ms": 100}


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

    def __init__(self, engine: FakeEngine, slots: int) -> None:
        watchdog: Ref[WatchdogMessage]
        watchdog, self._seen = open_mailbox("watchdog", 10_000)
        self.engine = engine
        self.turns = Turns(quantum_s=0.05)
        self.queue = Queue(max_queue=8, watchdog=watchdog)
        self.defects: list[str] = []
        self.slots = [
            Slot(
                index,
                engine=engine,
                host=InlineHost(engine),
                turns=self.turns.ref,
                queue=self.queue.ref,
                watchdog=watchdog,
            )
            for index in range(slots)
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
        answer: Granted | Refused = await self.queue.ref.ask(lambda reply: Enter(key, Rank.TURN, reply))
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
        assert self.queue._free == set(self.queue._slots)
        assert {message.slot: message.phase for message in self.seen()} == dict.fromkeys(range(len(self.slots)), "idle")
        assert self.defects == []
        request = await self.run({"say": "still here"})
        assert request.text() == "still here"


@asynccontextmanager
async def open_box(engine: FakeEngine | None = None, *, slots: int = 1) -> AsyncIterator[tuple[Box, trio.Nursery]]:
    async with trio.open_nursery() as nursery:
        box = Box(engine or FakeEngine(), slots)
        actors: list[Actor[Any]] = [box.turns, box.queue, *box.slots]
        for actor in actors:
            await nursery.start(partial(supervise, actor, lambda name, defect: box.defects.append(name)))
        yield box, nursery
        nursery.cancel_scope.cancel()


async def test_deltas_arrive_block_by_block(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        script = {"say": "one two three four", "block": 2, "token_ms": 100, "prefill_ms_per_token": 1}
        request = await box.run(script, nursery=nursery)
        await trio.sleep(10)
        rows = request.finish.usage.prompt
        assert [type(item) for _, item in request.items] == [PrefillProgress, Deltas, Deltas, Deltas]
        assert [round(at * 1000) for at, _ in request.items] == [rows, rows + 200, rows + 400, rows + 500]
        assert request.text() == "one two three four"
        assert request.finish.reason == "stop"
        assert request.finish.usage.completion == 5
        assert box.verbs() == ["open", "prefill", *["draft", "verify", "accept"] * 3, "close"]
        assert request.ended_at == pytest.approx(0.5 + rows / 1000)
        await box.rest()


@pytest.mark.spec("SCH-077", "SCH-004", "ENG-036", "SCH-062")
async def test_a_cancel_during_a_long_prefill_is_answered_at_the_next_safe_point(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        request = await box.run({"say": "x", "prefill_ms_per_token": 1}, words=6000, nursery=nursery)
        await trio.sleep(1.5)
        (finish,) = await box.cancel(request)
        assert trio.current_time() == pytest.approx(2.048)
        assert finish.reason == "abandoned"
        assert (finish.usage.engine_prompt, finish.usage.completion) == (2048, 0)
        assert finish.usage.prompt > 6000
        await wait_all_tasks_blocked()
        assert request.finish == finish
        assert [item for _, item in request.items][:2] == [
            PrefillProgress(1024, finish.usage.prompt),
            PrefillProgress(2048, finish.usage.prompt),
        ]
        assert request.ended_at == pytest.approx(2.048)
        assert box.verbs() == ["open", "prefill", "prefill", "close"]
        await box.rest()


@pytest.mark.spec("SCH-077", "SCH-062", "ENG-036")
async def test_a_cancel_during_decode_keeps_what_was_written(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        request = await box.run(ENDLESS, nursery=nursery)
        await trio.sleep(1.05)
        (finish,) = await box.cancel(request)
        assert trio.current_time() == pytest.approx(1.1)
        assert (finish.reason, finish.usage.completion, finish.detail) == ("abandoned", 11, None)
        await wait_all_tasks_blocked()
        assert request.text() == " la" * 11
        assert request.finish == finish
        await box.rest()


@pytest.mark.spec("SCH-002", "SCH-077")
async def test_every_cancel_is_answered(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        done = await box.run({"say": "done"})
        running = await box.run(ENDLESS, nursery=nursery)
        stranger = Request("nobody", Outbox(stall_s=1))
        answers: Counter[str] = Counter()

        async def cancel(request: Request) -> None:
            answers.update(finish.reason for finish in await box.cancel(request) or [NOTHING])

        assert await box.cancel(done) == (done.finish,)  # late, and while another runs
        assert await box.cancel(stranger) == ()
        async with trio.open_nursery() as cancels:
            for request in (running, running, stranger, running):
                cancels.start_soon(cancel, request)
        assert answers == {"abandoned": 3, "stop": 1}
        await wait_all_tasks_blocked()
        assert await box.cancel(running) == (running.finish,)
        assert await box.cancel(done) == ()  # only the last one is remembered
        await box.rest()


NOTHING = Finish("stop", *(None, None))  # type: ignore[arg-type]
"""Stands for an empty answer."""


@pytest.mark.spec("SCH-079", "SCH-015")
async def test_a_cancel_gives_back_the_turn_then_the_slot_then_the_stream(autojump_clock: MockClock) -> None:
    engine, order = FakeEngine(), list[str]()
    turns: Ref[TurnMessage]
    queue: Ref[QueueMessage]
    turns, turn_box = open_mailbox("turns", 8)
    queue, queue_box = open_mailbox("queue", 8)
    watchdog: Ref[WatchdogMessage]
    watchdog, _ = open_mailbox("watchdog", 8)
    slot = Slot(0, engine=engine, host=InlineHost(engine), turns=turns, queue=queue, watchdog=watchdog)
    box = Box(engine, 0)

    async def scheduler() -> None:
        async for message in turn_box:
            if isinstance(message, Want):
                message.reply.send(Turn(0))
            else:
                assert message == GiveUp(0)
                assert box.engine.state()["open_sequences"] == 0  # its state is settled
                order.append("turn")

    async def grants() -> None:
        async for message in queue_box:
            assert message == SlotFree(0)
            order.append("slot")

    request = Request("r", Outbox(stall_s=60))

    async def read() -> None:
        await request.read()
        order.append("stream")

    async def cancel() -> None:
        await slot.ref.ask(lambda reply: Cancel("r", reply))
        order.append("answer")

    async with trio.open_nursery() as nursery:
        for task in (slot.run, scheduler, grants, read):
            nursery.start_soon(task)
        await slot.ref.tell(Run("r", (box.generation(ENDLESS),), request.outbox, 100.0))
        await trio.sleep(1)
        nursery.start_soon(cancel)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert order[:2] == ["turn", "slot"]
    assert sorted(order[2:]) == ["answer", "stream"]


@pytest.mark.spec("SCH-096")
async def test_an_abort_ends_what_runs_with_an_error(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        await box.slots[0].ref.tell(Abort("nothing runs"))
        request = await box.run(ENDLESS, nursery=nursery)
        await trio.sleep(1.05)
        await box.slots[0].ref.tell(Abort("the server is stopping"))
        await trio.sleep(0.1)
        assert request.ended_at == pytest.approx(1.1)
        assert (request.finish.reason, request.finish.detail) == ("error", "the server is stopping")
        assert request.finish.usage.completion == 11
        await box.rest()


@pytest.mark.parametrize(("words", "timeout_s", "ends_at"), [(0, 2.05, 2.1), (6000, 1.0, 1.024)])
async def test_the_deadline_ends_it_with_timeout(
    autojump_clock: MockClock, words: int, timeout_s: float, ends_at: float
) -> None:
    script = ENDLESS | ({"prefill_ms_per_token": 1} if words else {})
    async with open_box() as (box, _):
        request = await box.run(script, words=words, timeout_s=timeout_s)
        assert request.ended_at == pytest.approx(ends_at)
        assert request.finish.reason == "timeout"
        assert request.text() == ("" if words else " la" * 21)
        await box.rest()


@pytest.mark.spec("SCH-078")
async def test_an_engine_error_ends_only_its_request(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_box() as (box, nursery):
        failing = await box.run({"say": "a b c d", "fail_at": 2, "token_ms": 1000}, nursery=nursery)
        nexts: list[Request] = []

        async def wait_in_line() -> None:
            nexts.append(await box.run({"say": "next"}))

        nursery.start_soon(wait_in_line)
        await trio.sleep(3)
        assert failing.text() == "a b"
        assert (failing.finish.reason, failing.finish.usage.completion) == ("error", 2)
        assert failing.finish.detail == "the script has the engine fail at token 2"
        assert failing.ended_at == pytest.approx(2)
        assert nexts[0].text() == "next"
        assert nexts[0].ended_at == pytest.approx(2)
        assert caplog.messages == ["[engine] request r1 ends: the script has the engine fail at token 2"]
        await box.rest()


@pytest.mark.spec("SCH-078", "SCH-062")
async def test_a_prompt_that_the_engine_does_not_take(autojump_clock: MockClock) -> None:
    async with open_box(FakeEngine(max_len=200)) as (box, _):
        request = await box.run({"say": "x"}, words=300)
        assert request.finish.reason == "error"
        assert request.items[0][1] == Deltas(0, [request.finish])
        assert box.verbs() == []
        await box.rest()


class Breaking(FakeEngine):
    """Raises what it is told to, from one verb, once."""

    def __init__(self, verb: str, error: Exception) -> None:
        super().__init__()
        self.pending: dict[str, Exception] = {verb: error}

    def _break(self, verb: str) -> None:
        if (error := self.pending.pop(verb, None)) is not None:
            raise error

    def close(self, seq: FakeSeq) -> None:
        super().close(seq)
        self._break("close")

    def snapshot(self, seq: FakeSeq) -> object:
        self._break("snapshot")
        return super().snapshot(seq)

    def restore(self, seq: FakeSeq, snapshot: object) -> None:
        self._break("restore")
        super().restore(seq, snapshot)


@pytest.mark.spec("SCH-062", "SCH-078")
@pytest.mark.parametrize("error", [EngineError("no"), ZeroDivisionError()])
@pytest.mark.parametrize("verb", ["close", "snapshot", "restore"])
async def test_the_turn_is_given_up_whichever_verb_fails(
    autojump_clock: MockClock, verb: str, error: Exception
) -> None:
    async with open_box(Breaking(verb, error)) as (box, _):
        request = await box.run({"say": "a b"}, n=2)
        reasons = [finish.reason for finish in request.finishes]
        assert (
            reasons == {"close": ["stop", "stop"], "snapshot": ["error", "error"], "restore": ["stop", "error"]}[verb]
        )
        await box.rest()


@pytest.mark.spec("ENG-083")
async def test_several_choices_read_the_prompt_once(autojump_clock: MockClock) -> None:
    async with open_box() as (box, _):
        script = {"say": "one two three", "prefill_ms_per_token": 1}
        single = await box.run(script, words=2000)
        box.engine.calls.clear()
        request = await box.run(script, words=2000, n=3)
        assert box.verbs("open", "prefill", "snapshot", "restore", "close") == (
            ["open", "prefill", "prefill", "snapshot", "restore", "restore", "close"]
        )
        assert [request.text(choice) for choice in range(3)] == ["one two three"] * 3
        first, *others = request.finishes
        assert (first.reason, first.usage) == (single.finish.reason, single.finish.usage)
        assert all(other.usage.completion == first.usage.completion for other in others)
        assert [item.choice for _, item in request.items if isinstance(item, Deltas)] == [0] * 4 + [1] * 4 + [2] * 4
        await box.rest()


@pytest.mark.spec("ENG-083")
async def test_choices_draw_differently_and_the_first_as_if_alone(autojump_clock: MockClock) -> None:
    async with open_box() as (box, _):
        as_likely = dict.fromkeys(range(65, 73), 60.0)
        drawn: dict[str, Any] = {"temperature": 1.0, "seed": 7, "limit": 12, "logit_bias": as_likely}
        single = await box.run({"say": "x", "loop": True}, **drawn)
        request = await box.run({"say": "x", "loop": True}, n=4, **drawn)
        texts = [request.text(choice) for choice in range(4)]
        assert texts[0] == single.text()
        assert len(set(texts)) == 4
        await box.rest()


@pytest.mark.spec("SCH-077", "ENG-083")
@pytest.mark.parametrize(
    ("how", "phase"),
    [
        *product(["cancel", "abort", "timeout"], ["prefill", "first", "second"]),
        ("fail", "first"),  # as the script has it
    ],
)
async def test_every_choice_ends_however_the_request_does(autojump_clock: MockClock, how: str, phase: str) -> None:
    """The prompt takes six seconds, each choice two; the third never begins."""
    at = {"prefill": 2.5, "first": 7.05, "second": 9.05}[phase]
    script = ENDLESS | {"prefill_ms_per_token": 1} | ({"fail_at": 10} if how == "fail" else {})
    async with open_box() as (box, nursery):
        words = 6000 - len(box.generation(script, words=1).prompt.ids) + 1
        assert len(box.generation(script, words=words).prompt.ids) == 6000
        timeout_s = at if how == "timeout" else 1e6
        request = await box.run(script, words=words, limit=20, n=3, timeout_s=timeout_s, nursery=nursery)
        await trio.sleep(at)
        if how == "cancel":
            assert len(await box.cancel(request)) == 3
        elif how == "abort":
            await box.slots[0].ref.tell(Abort("stop"))
        await trio.sleep(1)
        reason = {"cancel": "abandoned", "abort": "error", "timeout": "timeout", "fail": "error"}[how]
        ended = 1 if phase == "second" else 0
        assert [finish.reason for finish in request.finishes] == ["length"] * ended + [reason] * (3 - ended)
        assert all(isinstance(request.batches(choice)[-1].deltas[-1], Finish) for choice in range(3))
        assert box.verbs("snapshot") == ([] if phase == "prefill" else ["snapshot"])
        await box.rest()


@pytest.mark.spec("SCH-063", "SCH-062")
@pytest.mark.parametrize(
    ("outbox", "ends_at"),
    [
        (Outbox(stall_s=60, max_batches=5), 0.5),
        (Outbox(stall_s=2.05), 2.1),
        (Outbox(stall_s=60, max_bytes=10 * 67 + 66), 1.0),
    ],
    ids=["full", "stalled", "too many bytes"],
)
async def test_a_client_that_takes_nothing_is_abandoned(
    autojump_clock: MockClock, outbox: Outbox, ends_at: float
) -> None:
    async with open_box() as (box, _):
        request = Request("r1", outbox)
        granted = await box.enter("r1")
        await granted.ref.tell(Run("r1", (box.generation(ENDLESS),), outbox, 1e6))
        await trio.sleep(30)
        assert box.engine.calls[-1].verb == "close"
        assert box.engine.calls[-1].at == pytest.approx(ends_at, abs=0.11)
        (finish,) = await box.cancel(request)
        assert finish.reason == "abandoned"
        await request.read()  # it learns of the end even so
        await box.rest()


@pytest.mark.spec("SCH-057", "SCH-058", "SCH-059")
async def test_two_slots_share_the_engine_by_the_turn(autojump_clock: MockClock) -> None:
    async with open_box(slots=2) as (box, nursery):
        script = {"say": " la", "loop": True, "token_ms": 10}
        requests = [await box.run(script, nursery=nursery, limit=300) for _ in range(2)]
        open_at = trio.current_time()
        await trio.sleep(3)
        written = [len(request.batches()) for request in requests]
        assert abs(written[0] - written[1]) <= 7  # a quantum and a step, and the one under way
        await trio.sleep(4)
        assert [request.text() for request in requests] == [" la" * 300] * 2
        assert requests[1].ended_at == pytest.approx(open_at + 6, abs=0.1)
        # A round is three verbs of one sequence: never is another one's between them.
        rounds = [call.args.get("seq") for call in box.engine.calls if call.verb in ("draft", "accept")]
        assert all(draft == accept for draft, accept in zip(rounds[::2], rounds[1::2], strict=True))
        assert len(set(rounds)) == 2
        await box.rest()


@pytest.mark.spec("SCH-062", "SCH-077")
async def test_a_cancel_reaches_a_slot_that_waits_for_the_turn(autojump_clock: MockClock) -> None:
    async with open_box(slots=2) as (box, nursery):
        long = await box.run({"say": "x", "prefill_ms_per_token": 1}, words=3000, nursery=nursery)
        await trio.sleep(0.1)
        waiting = await box.run(ENDLESS, nursery=nursery)
        (finish,) = await box.cancel(waiting, slot=1)
        assert (finish.reason, finish.usage.engine_prompt) == ("abandoned", 0)
        assert trio.current_time() == pytest.approx(1.024)  # the end of the other's chunk
        await trio.sleep(5)
        assert long.text() == "x"
        await box.rest()


@pytest.mark.spec("SCH-101")
async def test_the_watchdog_hears_of_a_request_before_its_first_verb_ends(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        await box.run({"say": "quick"})
        box.seen()
        await box.run({"say": "x", "prefill_ms_per_token": 1000, "token_ms": 10}, nursery=nursery, limit=50)
        await trio.sleep(0.5)
        assert box.seen() == [SlotSeen(0, "prefilling", "r2")]
        await trio.sleep(1000)
        assert [seen.phase for seen in box.seen()] == ["prefilling", "writing", "idle"]


async def test_reports_are_not_one_a_token(autojump_clock: MockClock) -> None:
    async with open_box() as (box, _):
        await box.run({"say": " la", "loop": True, "token_ms": 1}, limit=3000)
        phases = Counter(seen.phase for seen in box.seen())
        assert phases["idle"] == 1
        assert 3 <= phases["writing"] <= 4


@pytest.mark.spec("SCH-006", "SCH-079")
async def test_a_defect_in_the_slot_leaves_nobody_waiting(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_box() as (box, nursery):
        request = await box.run(ENDLESS, nursery=nursery)
        waiting = Reply[Granted | Refused]()
        await box.queue.ref.tell(Enter("waiting", Rank.TURN, waiting))
        await trio.sleep(1.05)

        def defect(*_: object) -> None:
            raise LookupError

        monkeypatch.setattr(Generation, "feed", defect)
        await trio.sleep(0.2)
        with pytest.raises(ActorGone):
            await box.cancel(request)
        assert request.ended_at == pytest.approx(1.1)
        assert request.finishes == []
        assert box.defects == ["slot 0"]
        assert box.engine.state()["open_sequences"] == 0
        assert box.turns._share.holder is None
        with trio.fail_after(1):
            await box.queue.ref.ask(Drain)
        assert await waiting.wait() == Refused("draining")


@pytest.mark.spec("SCH-006")
async def test_a_cancel_in_hand_learns_of_the_defect(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_box() as (box, nursery):
        request = await box.run(ENDLESS, nursery=nursery)
        await trio.sleep(1.05)

        def defect(*_: object) -> None:
            raise LookupError

        monkeypatch.setattr(Generation, "stop", defect)
        with pytest.raises(ActorGone):
            await box.cancel(request)
        await wait_all_tasks_blocked()
        assert request.ended_at == pytest.approx(1.1)


@pytest.mark.parametrize("at", [0.5, 3.05])
@pytest.mark.spec("SCH-062", "SCH-004")
async def test_the_end_of_the_service_is_no_defect(autojump_clock: MockClock, at: float) -> None:
    for _ in range(5):  # trio ends tasks in an order of its own
        start = trio.current_time()
        async with open_box(slots=2) as (box, nursery):
            script = ENDLESS | {"prefill_ms_per_token": 1}
            requests = [await box.run(script, words=1000, nursery=nursery) for _ in range(2)]
            await trio.sleep(at)
        assert box.defects == []
        assert box.engine.state()["open_sequences"] == 0
        assert all(request.finishes == [] for request in requests)
        assert trio.current_time() - start <= at + 1.1  # the verb in hand is waited for
