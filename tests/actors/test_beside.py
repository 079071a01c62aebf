"""Several slots at once: the GPU turn, shared rounds, and what one may never do to another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.host import ThreadHost
from tandem.actors.kit import ActorGone
from tandem.actors.queue import Queue, SlotFree, SlotProgress
from tandem.actors.slots import Abort
from tandem.engine.errors import SlotDamaged
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.fake.simulation import Call
from tests.actors.box import ENDLESS, Box, Request, open_box

LA = {"say": " la", "loop": True, "token_ms": 10}


def shared_verifies(box: Box) -> Iterator[tuple[Call, Call]]:
    """Verifies of different slots in one pass: nothing is between them."""
    calls = list(box.engine.calls)
    for one, two in pairwise(calls):
        if one.verb == two.verb == "verify":
            yield one, two


@pytest.mark.spec("SCH-064", "SCH-057")
async def test_two_that_decode_share_every_round(autojump_clock: MockClock) -> None:
    async with open_box(slots=2) as (box, nursery):
        requests = [await box.run(LA, nursery=nursery, limit=300) for _ in range(2)]
        await trio.sleep(10)
        assert [request.text() for request in requests] == [" la" * 300] * 2
        assert [request.ended_at for request in requests] == pytest.approx([3.0, 3.0], abs=0.1)  # as long as one alone
        assert len(list(shared_verifies(box))) >= 290
        await box.rest()


@pytest.mark.spec("SCH-065")
@pytest.mark.parametrize(("slots", "nodes"), [(2, 16), (3, 10), (4, 8)])
async def test_a_tree_is_cut_to_its_share(autojump_clock: MockClock, slots: int, nodes: int) -> None:
    async with open_box(slots=slots) as (box, nursery):
        requests = [await box.run(LA | {"block": 25}, nursery=nursery, limit=400) for _ in range(slots)]
        await trio.sleep(20)
        assert [request.text() for request in requests] == [" la" * 400] * slots
        rows = [call.args["rows"] for call in box.engine.calls if call.verb == "verify"]
        assert set(rows[20:40]) == {1 + nodes}
        await box.rest()


@pytest.mark.spec("SCH-067")
async def test_a_slot_alone_does_what_a_service_with_one_slot_does(autojump_clock: MockClock) -> None:
    calls = []
    for slots in (1, 4):
        async with open_box(slots=slots) as (box, _):
            request = await box.run({"say": "one two three four", "block": 3, "token_ms": 7}, words=2000, n=2)
            assert request.text(1) == "one two three four"
            calls.append(list(box.engine.calls))
    assert calls[0] == calls[1]


@pytest.mark.spec("SCH-058", "SCH-059")
async def test_slots_that_read_take_turns_by_time(autojump_clock: MockClock) -> None:
    """Chunks of half a second against chunks of a tenth: within a quantum and a step over any ten seconds."""
    async with open_box(FakeEngine(slots=2, grid=100, max_len=65_536)) as (box, nursery):
        for step_ms in (5, 1):
            await box.run({"say": "x", "prefill_ms_per_token": step_ms}, words=40_000, nursery=nursery)
        marks = []
        for _ in range(40):
            await trio.sleep(1)
            marks.append(box.turns._share.seconds())
        for early, late in zip(marks, marks[10:], strict=False):
            gained = [late[slot] - early[slot] for slot in (0, 1)]
            assert abs(gained[0] - gained[1]) <= 0.05 + 0.5 + 0.1
        for slot in (0, 1):
            await box.slots[slot].ref.tell(Abort("enough"))
        await trio.sleep(2)
        await box.rest()


@pytest.mark.spec("SCH-059", "SCH-066")
async def test_one_that_reads_beside_two_that_decode(autojump_clock: MockClock) -> None:
    async with open_box(FakeEngine(slots=3, grid=100)) as (box, nursery):
        decoding = [await box.run(LA, nursery=nursery, limit=1000) for _ in range(2)]
        await trio.sleep(1)
        reading = await box.run({"say": "x", "prefill_ms_per_token": 1}, words=3000, nursery=nursery)
        early = box.turns._share.seconds()
        await trio.sleep(5)
        late = box.turns._share.seconds()
        gained = [late[slot] - early.get(slot, late[0]) for slot in (0, 1)]
        assert abs(gained[0] - gained[1]) <= 0.06
        assert reading.finishes == []
        await trio.sleep(60)
        assert [request.text() for request in decoding] == [" la" * 1000] * 2
        assert reading.text() == "x"
        await box.rest()


@pytest.mark.spec("SCH-068", "SCH-078")
async def test_a_slot_that_fails_in_a_round_fails_alone(autojump_clock: MockClock) -> None:
    async with open_box(slots=3) as (box, nursery):
        first = await box.run(LA, nursery=nursery, limit=50)
        failing = await box.run({"say": "a b c d", "fail_at": 3, "token_ms": 10}, nursery=nursery)
        third = await box.run(LA | {"block": 4}, nursery=nursery, limit=50)
        await trio.sleep(5)
        assert (failing.finish.reason, failing.text()) == ("error", "a b c")
        assert [first.text(), third.text()] == [" la" * 50] * 2
        await box.rest()


class Faulty(FakeEngine):
    """Its verify of several fails, as one that runs out of memory does."""

    def verify(self, pairs: Any) -> Any:
        if len(pairs) > 1:
            raise MemoryError
        return super().verify(pairs)


@pytest.mark.spec("SCH-068")
async def test_where_the_one_pass_fails_each_verifies_by_itself(autojump_clock: MockClock) -> None:
    async with open_box(Faulty(slots=2)) as (box, nursery):
        requests = [await box.run(LA, nursery=nursery, limit=50) for _ in range(2)]
        await trio.sleep(5)
        assert [request.text() for request in requests] == [" la" * 50] * 2
        await box.rest()


class Crashing(FakeEngine):
    """A side slot's accept has a defect."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots=slots)
        self.count = 0

        def accept(seq: FakeSeq, rows: Any, rules: Any) -> Any:
            self.count += 1
            if self.count == 5:
                raise ZeroDivisionError
            return accepted(seq, rows, rules)

        accepted = self.slots[1].accept
        self.slots[1].accept = accept  # type: ignore[method-assign]


@pytest.mark.spec("SCH-068", "SCH-078")
async def test_a_defect_in_one_walk_is_that_requests_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_box(Crashing(2)) as (box, nursery):
        requests = [await box.run(LA, nursery=nursery, limit=50) for _ in range(2)]
        await trio.sleep(5)
        assert requests[0].text() == " la" * 50
        assert (requests[1].finish.reason, requests[1].finish.detail) == ("error", "ZeroDivisionError in the engine")
        assert "a verb failed: ZeroDivisionError" in caplog.text
        await box.rest()


@pytest.mark.spec("SCH-068", "SCH-077", "SCH-079")
@pytest.mark.parametrize("at", [0.015, 0.505, 1.015, 2.0, 2.455])
async def test_one_that_leaves_changes_nothing_for_the_others(autojump_clock: MockClock, at: float) -> None:
    """While the first reads, while both read, while they decode together."""
    script = LA | {"prefill_ms_per_token": 1}
    async with open_box(FakeEngine(slots=2, grid=100)) as (box, nursery):
        stays = await box.run(script, nursery=nursery, words=900, limit=200)
        leaves = await box.run(script, nursery=nursery, words=900, limit=200)
        await trio.sleep(at)
        (finish,) = await box.cancel(leaves, slot=1)
        assert finish.reason == "abandoned"
        assert trio.current_time() <= at + 0.1 + 1e-9  # a chunk
        await trio.sleep(30)
        assert stays.text() == " la" * 200
        await box.rest()


@pytest.mark.spec("SCH-068")
async def test_anothers_stop_never_changes_ones_tokens(autojump_clock: MockClock) -> None:
    words = [f" w{number}" for number in range(60)]
    async with open_box(slots=4) as (box, nursery):
        requests = []
        for slot in range(4):
            script = {"say": "".join(words[: 15 * (slot + 1)]), "block": 1 + 2 * slot, "token_ms": 3 + slot}
            requests.append(await box.run(script, nursery=nursery, words=100 * slot))
            await trio.sleep(0.02)
        await trio.sleep(5)
        for slot, request in enumerate(requests):
            assert request.text() == "".join(words[: 15 * (slot + 1)])
            assert request.finish.reason == "stop"
        await box.rest()


@pytest.mark.spec("SCH-056", "SCH-103")
async def test_a_side_slot_that_cannot_be_put_right_goes_out_of_service(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(slots=2)
    engine.slots[1].repairs = False

    def draft(seq: FakeSeq, limit: int) -> Any:
        raise SlotDamaged("bad rows")

    engine.slots[1].draft = draft  # type: ignore[method-assign]
    async with open_box(engine) as (box, nursery):
        stays = await box.run(LA, nursery=nursery, limit=100)
        failing = await box.run(LA, nursery=nursery, limit=100)
        await trio.sleep(5)
        assert (failing.finish.reason, stays.text()) == ("error", " la" * 100)
        assert "slot 1 is out of service" in caplog.text
        assert box.defects == []
        assert [seen.phase for seen in box.seen() if seen.slot == 1][-1] == "gone"
        with pytest.raises(ActorGone):
            await box.cancel(failing, slot=1)
        follower = await box.run({"say": "after"})
        assert follower.text() == "after"
        await wait_all_tasks_blocked()
        assert box.queue._waiters.free_slots == [0]


@pytest.mark.spec("SCH-068", "SCH-109")
@pytest.mark.parametrize("slots", [2, 4])
async def test_random_requests_end_once_with_their_own_text(autojump_clock: MockClock, slots: int) -> None:
    """Whatever the others do: read long, fail, leave, force an end."""
    dice = random.Random(slots)
    async with open_box(FakeEngine(slots=slots, grid=64)) as (box, nursery):
        done: list[tuple[Request, dict[str, Any]]] = []

        async def live() -> None:
            for _ in range(12):
                await trio.sleep(dice.uniform(0, 0.5))
                words = dice.randrange(1, 40)
                script: dict[str, Any] = {
                    "say": "".join(f" w{number}" for number in range(words)),
                    "block": dice.randrange(1, 6),
                    "token_ms": dice.choice([1, 5, 20]),
                    "prefill_ms_per_token": dice.choice([0, 0.1]),
                }
                if dice.random() < 0.2:
                    script["fail_at"] = dice.randrange(1, words + 1)
                request = await box.run(script, words=dice.randrange(0, 300), nursery=nursery)
                if dice.random() < 0.2:
                    await trio.sleep(dice.uniform(0, 0.1))
                    for slot in range(slots):
                        await box.cancel(request, slot)
                with trio.fail_after(100):
                    while request.ended_at is None:
                        await trio.sleep(0.05)
                done.append((request, script))

        async with trio.open_nursery() as clients:
            for _ in range(slots):
                clients.start_soon(live)
        await wait_all_tasks_blocked()
        for request, script in done:
            assert script["say"].startswith(request.text())
            match request.finish.reason:
                case "stop":
                    assert request.text() == script["say"]
                case "error":
                    assert request.finish.usage.completion == script["fail_at"]
                case reason:
                    assert reason == "abandoned"
        assert box.turns._meeting.members == frozenset()
        await box.rest()


@pytest.mark.spec("SCH-057", "ENG-171")
async def test_shared_rounds_on_the_engine_thread() -> None:
    host = ThreadHost()
    async with trio.open_nursery() as outer:
        await outer.start(host.run)
        async with open_box(slots=2, host=host) as (box, nursery):
            requests = [await box.run(LA, nursery=nursery, limit=200) for _ in range(2)]
            with trio.fail_after(20):
                while any(request.ended_at is None for request in requests):
                    await trio.sleep(0.01)
            assert [request.text() for request in requests] == [" la" * 200] * 2
            assert len(list(shared_verifies(box))) > 100
            endless = await box.run(ENDLESS, nursery=nursery, limit=1_000_000)
            (finish,) = await box.cancel(endless)
            assert finish.reason == "abandoned"
            await box.rest()
        outer.cancel_scope.cancel()


class Noted(FakeEngine):
    """Counts the waits for the device."""

    settled = 0

    def synchronise(self) -> None:
        self.settled += 1


@pytest.mark.spec("SCH-061")
@pytest.mark.parametrize("settles", [True, False])
async def test_the_device_has_finished_before_the_turn_changes_hands(autojump_clock: MockClock, settles: bool) -> None:
    engine = Noted(slots=2, grid=100)
    async with open_box(engine, settles=settles) as (box, nursery):
        for _ in range(2):
            await box.run({"say": "x", "prefill_ms_per_token": 1}, words=1000, nursery=nursery)
        await trio.sleep(30)
        prefills = [call.args.get("slot", 0) for call in engine.calls if call.verb == "prefill"]
        given_up = sum(one == 0 != other for one, other in pairwise(prefills))
        assert given_up >= 3
        assert engine.settled >= given_up if settles else engine.settled == 0
        await box.rest()


@pytest.mark.spec("SCH-070", "API-055")
async def test_rounds_are_timed_where_that_is_asked_for(autojump_clock: MockClock) -> None:
    async with open_box(slots=2, timed=True) as (box, nursery):
        for limit in (100, 50):
            await box.run(LA | {"block": 5}, nursery=nursery, limit=limit)
        await trio.sleep(10)
        shown = box.turns._figures.seen((), {}).meeting
        assert set(shown) == {1, 2}
        assert [shown[slots]["accept"] for slots in (1, 2)] == [5.0, 5.0]
        assert shown[2]["round_ms"] == pytest.approx(50, abs=15)
        assert {"draft_ms", "post_ms", "verify_wait_ms", "pass_ms"} <= shown[2].keys()
        await box.rest()


@pytest.mark.spec("SCH-033", "SCH-051")
async def test_the_queue_hears_how_far_each_is_and_what_slot_0_holds(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[SlotProgress | SlotFree] = []
    take = Queue._take

    def noted(queue: Queue, message: Any, now: float) -> None:
        if isinstance(message, SlotProgress | SlotFree):
            heard.append(message)
        take(queue, message, now)

    monkeypatch.setattr(Queue, "_take", noted)
    async with open_box(FakeEngine(slots=2, grid=500)) as (box, nursery):
        script = {"say": " la", "loop": True, "token_ms": 20, "prefill_ms_per_token": 2}
        await box.run(script, nursery=nursery, words=2000, limit=200)
        rows = len(box.generation(script, words=2000).prompt.ids)
        await box.run({"say": "x"}, nursery=nursery)
        await trio.sleep(20)
        progress = [each for each in heard if isinstance(each, SlotProgress) and each.slot == 0]
        assert progress[0] == SlotProgress(
            slot=0, rows_left=rows, prefill_rate=None, written=0, limit=200, thinks=False, decode_rate=None
        )
        assert progress[1].prefill_rate == pytest.approx(500, rel=0.2)
        assert progress[1].rows_left == rows - 500
        assert progress[-1].decode_rate == pytest.approx(50, rel=0.1)
        assert len(progress) <= 10  # once a second
        free = {each.slot: each.resident for each in heard if isinstance(each, SlotFree)}
        assert free[1] is None
        assert free[0] is not None
        assert (len(free[0].keys), free[0].prompt) == (rows + 200 - 1, rows)  # the last token has no row yet
        await box.rest()
