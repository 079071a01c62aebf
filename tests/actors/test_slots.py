from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.host import ThreadHost
from tandem.actors.outbox import Deltas, PrefillProgress
from tandem.actors.watchdog import SlotSeen
from tandem.engine.errors import EngineError, SlotDamaged
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tests.actors.box import ENDLESS, Request, open_box


@pytest.mark.spec("ENG-038")
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


@pytest.mark.spec("SCH-056")
async def test_a_slot_that_a_fault_has_damaged_is_put_right(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_box(Breaking("close", SlotDamaged("bad rows"))) as (box, _):
        request = await box.run({"say": "a b"})
        assert request.text() == "a b"
        assert box.verbs("rebuild") == ["rebuild"]
        await box.rest()


@pytest.mark.spec("SCH-056", "SCH-006")
async def test_slot_0_that_cannot_be_put_right_is_a_defect(autojump_clock: MockClock) -> None:
    engine = Breaking("close", SlotDamaged("bad rows"))
    engine.repairs = False
    async with open_box(engine) as (box, _):
        request = await box.run({"say": "a b"})
        assert request.text() == "a b"
        await wait_all_tasks_blocked()
        assert box.defects == ["slot 0"]


@pytest.mark.spec("SCH-004", "ENG-171")
async def test_the_same_on_the_engine_thread() -> None:
    host = ThreadHost()
    async with trio.open_nursery() as outer:
        await outer.start(host.run)
        async with open_box(host=host) as (box, nursery):
            request = await box.run({"say": "one two three"}, n=2, words=3000)
            assert [request.text(choice) for choice in range(2)] == ["one two three"] * 2
            endless = await box.run(ENDLESS, limit=1_000_000, nursery=nursery)
            (finish,) = await box.cancel(endless)
            assert finish.reason == "abandoned"
            failing = await box.run({"say": "a b c", "fail_at": 1})
            assert failing.finish.reason == "error"
            await box.rest()
            await box.run(ENDLESS, limit=1_000_000, nursery=nursery)
        assert box.engine.state()["open_sequences"] == 0
        assert box.defects == []
        outer.cancel_scope.cancel()
