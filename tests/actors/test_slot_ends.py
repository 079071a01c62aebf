from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import ActorGone, Ref, Reply
from tandem.actors.line import Rank
from tandem.actors.outbox import Kept, Outbox, PrefillProgress
from tandem.actors.queue import Drain, Enter, Granted, Lent, Refused, SlotFree
from tandem.actors.slots import Abort, Run
from tandem.actors.turns import GiveUp
from tandem.engine.decoding.generation import Generation
from tandem.engine.text.reading.deltas import Finish, Timings, Usage
from tests.actors.box import ENDLESS, Request, open_box

NOTHING = Finish("stop", Usage(), Timings())
"""Stands for an empty answer."""


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


@pytest.mark.spec("SCH-079", "SCH-015")
async def test_a_cancel_gives_back_the_turn_then_the_slot_then_the_stream(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    tell, finish, answer = Ref.tell, Outbox.finish, Reply.send

    async def tell_noted(ref: Ref[Any], message: object) -> None:
        if isinstance(message, GiveUp | SlotFree):
            order.append(type(message).__name__)
            assert box.engine.state()["open_sequences"] == 0  # its state is settled
        await tell(ref, message)

    def finish_noted(outbox: Outbox) -> None:
        order.append("stream")
        finish(outbox)

    def answer_noted(reply: Reply[Any], value: object) -> bool:
        if isinstance(value, tuple):
            order.append("answer")
        return answer(reply, value)

    async with open_box() as (box, nursery):
        request = await box.run(ENDLESS, nursery=nursery)
        await trio.sleep(1.05)
        monkeypatch.setattr(Ref, "tell", tell_noted)
        monkeypatch.setattr(Outbox, "finish", finish_noted)
        monkeypatch.setattr(Reply, "send", answer_noted)
        await box.cancel(request)
        assert order == ["GiveUp", "SlotFree", "stream", "answer"]


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


@pytest.mark.spec("SCH-024", "SCH-025")
@pytest.mark.parametrize("aborted", [False, True])
async def test_a_run_that_keeps_is_followed_under_the_same_grant(autojump_clock: MockClock, aborted: bool) -> None:
    async with open_box() as (box, nursery):
        request, outbox = Request("r1", Outbox(stall_s=60)), Outbox(stall_s=60)
        granted = await box.enter("r1")
        await granted.ref.tell(Run("r1", (box.generation({"say": "first"}),), outbox, 60.0, keeps=True))
        items = [await outbox.take()]
        while not isinstance(items[-1], Kept):
            items.append(await outbox.take())
        other = trio.Event()

        async def wait_in_line() -> None:
            await box.run({"say": "another"})
            other.set()

        nursery.start_soon(wait_in_line)
        await trio.sleep(10)
        assert not other.is_set(), "the slot is not free"
        if aborted:
            await box.slots[0].ref.tell(Abort("the server is stopping"))
        await granted.ref.tell(Run("r1", (box.generation({"say": "then"}),), request.outbox, 60.0))
        await request.read()
        assert request.finish.reason == ("error" if aborted else "stop")
        await other.wait()
        await box.rest()


@pytest.mark.spec("SCH-020")
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


@pytest.mark.spec("SCH-006")
async def test_a_defect_in_the_slot_leaves_nobody_waiting(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_box() as (box, nursery):
        request = await box.run(ENDLESS, nursery=nursery)
        waiting = Reply[Granted | Refused | Lent]()
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
