"""Short requests served at the safe points of another: when, by whose leave, and what the holder sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Ref, Reply, open_mailbox
from tandem.actors.lane_share import LaneShare
from tandem.actors.lending import Lane, LaneRules
from tandem.actors.line import Rank
from tandem.actors.outbox import Deltas, LaneEnded, LaneServed, Outbox
from tandem.actors.queue import Enter, Granted, Lent, QueueMessage, Refused, SlotFree, TakeLane
from tandem.actors.slots import Abort, Cancel, Run, SlotMessage
from tandem.engine.caches.caching import MemoryView
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.sequence import FakeLoan
from tandem.engine.text.reading.deltas import Finish
from tandem.engine.verbs import Loan
from tests.actors.box import Box, Request, open_box

HOLDER = {"say": " la", "loop": True}
QUESTION = {"say": "yes"}


@dataclass
class Job(Request):
    """A lane candidate."""

    reply: Reply[Granted | Refused | Lent] = field(default_factory=Reply)
    asked_at: float = 0.0
    slot: Ref[SlotMessage] | None = None

    @property
    def lane(self) -> str | None:
        first = self.items[0][1] if self.items else None
        return first.lane if isinstance(first, LaneServed) else None

    @property
    def lent_s(self) -> float:
        last = self.items[-1][1]
        assert isinstance(last, LaneEnded)
        return last.lent_s


async def ask(box: Box, nursery: trio.Nursery, script: dict[str, Any], **more: Any) -> Job:
    """As a request task does: enter, and read what comes once it is lent; a grant is used."""
    box._count += 1
    job = Job(f"r{box._count}", Outbox(stall_s=60), asked_at=trio.current_time())
    timeout_s = more.pop("timeout_s", 1e6)
    run = Run(job.key, (box.generation(script, **more),), job.outbox, timeout_s)

    async def live() -> None:
        match await job.reply.wait():
            case Lent(_, ref):
                job.slot = ref
            case Granted(_, ref, guest=guest):
                job.slot = ref
                await ref.tell(Run(run.request_id, run.generations, run.outbox, timeout_s, guest))
            case refused:
                pytest.fail(str(refused))
        await job.read()

    await box.queue.ref.tell(Enter(job.key, Rank.SIDE, job.reply, lane=run))
    nursery.start_soon(live)
    await wait_all_tasks_blocked()
    return job


@pytest.mark.spec("SCH-039", "SCH-046", "SCH-047")
@pytest.mark.parametrize(("words", "lane"), [(0, "decode"), (30_000, "prefill")])
async def test_a_question_is_answered_within_a_second_while_another_runs(
    autojump_clock: MockClock, words: int, lane: str
) -> None:
    """On the fake's default rates."""
    async with open_box() as (box, nursery):
        holder = await box.run(HOLDER | {"prefill_ms_per_token": 1, "token_ms": 20}, nursery=nursery, words=words)
        await trio.sleep(0.99)
        job = await ask(box, nursery, QUESTION, words=100)
        await trio.sleep(2)
        assert job.text() == "yes"
        assert job.ended_at is not None
        assert job.lane == lane
        if lane == "decode":
            assert job.ended_at - job.asked_at < 1.0
        begun = next(at for at, item in job.items if isinstance(item, LaneServed))
        assert job.lent_s == pytest.approx(job.ended_at - begun)
        assert isinstance(job.items[-2][1], Deltas)
        assert box.verbs("borrow", "give_back") == ["borrow", "give_back"]
        await trio.sleep(100)
        assert holder.text() == " la" * 1000
        await box.rest()


@pytest.mark.spec("SCH-039")
async def test_a_guest_is_decoded_one_token_a_forward_and_one_job_a_safe_point(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        await box.run(HOLDER | {"token_ms": 50}, nursery=nursery, limit=100)
        await trio.sleep(0.01)
        jobs = [await ask(box, nursery, {"say": "a b c d", "block": 4}, limit=64) for _ in range(2)]
        await trio.sleep(10)
        assert [job.text() for job in jobs] == ["a b c d"] * 2
        verbs = [(call.verb, call.args.get("seq"), call.args.get("rows")) for call in box.engine.calls]
        first, second = (at for at, (verb, _, _) in enumerate(verbs) if verb == "borrow")
        assert {rows for verb, seq, rows in verbs if verb == "verify" and seq in (1, 2)} == {1}
        between = [seq for verb, seq, _ in verbs[first:second] if verb == "accept"]
        assert between == [1] * 5 + [0]  # the holder has a round of its own between two of them
        await box.rest()


@pytest.mark.spec("SCH-040")
@pytest.mark.parametrize(("mode", "when"), [("on", 1.024), ("decode", 5.0), ("off", None)])
async def test_the_mode(autojump_clock: MockClock, mode: Any, when: float | None) -> None:
    async with open_box(lane=LaneRules(mode)) as (box, nursery):
        holder = await box.run(HOLDER | {"prefill_ms_per_token": 1, "token_ms": 10}, nursery=nursery, words=4960)
        reads_s = len(box.generation(HOLDER, words=4960).prompt.ids) / 1000
        await trio.sleep(0.5)
        job = await ask(box, nursery, QUESTION)
        await trio.sleep(30)
        assert holder.text() == " la" * 1000
        begun = job.items[0][0]
        if when is None:
            assert job.lane == "self"  # the turn has ended and nobody took it
        else:
            assert begun == pytest.approx(when, abs=0.1)
            assert job.lane == ("prefill" if begun < reads_s else "decode")
        assert job.text() == "yes"
        await box.rest()


class Tight(FakeEngine):
    """Memory near its peak, until `freed`."""

    freed = False

    def memory(self) -> MemoryView:
        return MemoryView(reserved=0 if self.freed else 950, peak=1000)

    def worst_case(self, prompt_rows: int, max_new: int) -> int:
        return 51


@pytest.mark.spec("SCH-041")
async def test_a_guest_that_has_no_room_stays_for_another_safe_point(autojump_clock: MockClock) -> None:
    engine = Tight()
    async with open_box(engine) as (box, nursery):
        await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=400)
        await trio.sleep(0.1)
        job = await ask(box, nursery, QUESTION)
        await trio.sleep(1)
        assert job.items == []
        engine.freed = True
        await trio.sleep(0.1)
        assert job.text() == "yes"
        await trio.sleep(5)
        await box.rest()


@pytest.mark.spec("SCH-039")
async def test_a_job_that_comes_while_the_queue_says_that_there_is_none_is_not_missed(
    autojump_clock: MockClock,
) -> None:
    """The slot learns of the job before it reads the queue's older answer."""
    queue: Ref[QueueMessage]
    queue, inbox = open_mailbox("queue", 16)

    async def take() -> None:
        """The turn is in hand."""

    def begin(_: Any) -> Any:
        raise AssertionError("there is no job")

    hand: Any = SimpleNamespace(take=take)
    lane = Lane(LaneRules(), FakeEngine(), hand, queue, begin, end=begin)
    lane.is_wanted = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(lane.lend, None, is_prefill=False))
        asked = await inbox.receive()
        assert isinstance(asked, TakeLane)
        asked.reply.send(None)
        lane.is_wanted = True
    assert lane.is_wanted


@pytest.mark.spec("SCH-043")
async def test_a_job_that_no_holder_took_borrows_the_resident_rows_itself(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        granted = await box.enter("own work")  # holds the engine outside a generation
        job = await ask(box, nursery, QUESTION)
        await trio.sleep(1)
        assert job.items == []
        await box.queue.ref.tell(SlotFree(granted.slot))
        await trio.sleep(1)
        assert (job.lane, job.text(), job.lent_s) == ("self", "yes", 0.0)
        verbs = box.verbs("borrow", "open", "close", "give_back")
        assert verbs == ["borrow", "open", "close", "give_back"]
        await box.rest()


@pytest.mark.spec("SCH-044", "SCH-077")
async def test_a_guest_that_leaves_is_dropped_at_its_next_verb(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=100)
        await trio.sleep(0.1)
        job = await ask(box, nursery, {"say": " x", "loop": True, "token_ms": 100}, limit=64)
        await trio.sleep(0.25)
        assert job.slot is not None
        finishes: tuple[Finish, ...] = await job.slot.ask(lambda reply: Cancel(job.key, reply))
        assert [finish.reason for finish in finishes] == ["abandoned"]
        assert trio.current_time() == pytest.approx(0.4, abs=0.05)
        await trio.sleep(5)
        assert holder.text() == " la" * 100
        assert await box.cancel(job) == finishes  # late, and it is remembered
        await box.rest()


@pytest.mark.spec("SCH-044", "SCH-077", "SCH-020")
@pytest.mark.parametrize("how", ["cancel", "abort"])
async def test_a_holder_that_ends_while_it_lends(autojump_clock: MockClock, how: str) -> None:
    async with open_box() as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=1000)
        await trio.sleep(0.1)
        job = await ask(box, nursery, {"say": "a b c", "token_ms": 100}, limit=64)
        await trio.sleep(0.05)
        if how == "cancel":
            (finish,) = await box.cancel(holder)
            assert finish.reason == "abandoned"
        else:
            await box.slots[0].ref.tell(Abort("stop"))
        await trio.sleep(5)
        # A guest goes on over its holder's end; an abort ends both.
        assert job.finish.reason == ("stop" if how == "cancel" else "error")
        assert holder.ended_at is not None
        assert box.verbs("give_back") == ["give_back"]
        await box.rest()


@pytest.mark.spec("SCH-044", "ENG-137")
async def test_an_error_of_the_guest_is_the_guests_alone(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=100)
        await trio.sleep(0.1)
        failing = await ask(box, nursery, {"say": "a b c", "fail_at": 1}, limit=64)
        late = await ask(box, nursery, {"say": " x", "loop": True, "token_ms": 100}, limit=64, timeout_s=0.35)
        await trio.sleep(5)
        assert (failing.finish.reason, failing.text()) == ("error", "a")
        assert (late.finish.reason, late.text()) == ("timeout", " x" * 4)
        assert holder.text() == " la" * 100
        await box.rest()


class NoRoom(FakeEngine):
    """The copy cannot be made."""

    def borrow(self, holder: Any, rows: int) -> FakeLoan:
        raise EngineError("no memory for the copy")


class Lossy(FakeEngine):
    """What was lent does not come back."""

    def give_back(self, loan: Loan) -> None:
        super().give_back(loan)
        raise EngineError("lost")


@pytest.mark.spec("SCH-044", "SCH-056")
async def test_a_loan_that_fails(autojump_clock: MockClock) -> None:
    async with open_box(NoRoom()) as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=100)
        await trio.sleep(0.1)
        job = await ask(box, nursery, QUESTION)
        await trio.sleep(5)
        assert job.finish.detail == "no memory for the copy"
        assert holder.text() == " la" * 100
        await box.rest()
    async with open_box(Lossy()) as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=100)
        await trio.sleep(0.1)
        job = await ask(box, nursery, QUESTION)
        await trio.sleep(5)
        assert (job.text(), holder.finish.reason) == ("yes", "error")
        assert box.verbs("rebuild") == ["rebuild"]
        await box.rest()


@pytest.mark.spec("SCH-045")
async def test_the_lane_takes_no_more_than_its_share(autojump_clock: MockClock) -> None:
    async with open_box() as (box, nursery):
        holder = await box.run(HOLDER | {"token_ms": 20}, nursery=nursery, limit=5000)
        jobs: list[Job] = []
        for _ in range(100):
            await trio.sleep(0.5)
            if len(jobs) < 6 or jobs[-1].ended_at is not None:
                jobs.append(await ask(box, nursery, {"say": "a b", "token_ms": 100}, limit=64))
        loans = [(at, item.lent_s) for job in jobs for at, item in job.items if isinstance(item, LaneEnded)]
        assert len(loans) >= 14
        for start, _ in loans:
            within = sum(lent for at, lent in loans if start <= at < start + 10)
            assert within <= 1.0 + 0.31  # and the one that began before the share was used up
        for slot in box.slots:
            await slot.ref.tell(Abort("enough"))
        await trio.sleep(5)
        assert holder.finish.reason == "error"


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 4)), max_size=30))
@pytest.mark.spec("SCH-045")
def test_over_any_time_the_holder_has_nine_tenths_but_for_one_loan(steps: list[tuple[float, float]]) -> None:
    share, now = LaneShare(), 0.0
    loans: list[tuple[float, float]] = []
    for wait, length in steps:
        now += wait
        if share.allows(now):
            loans.append((now, length))
            share.count(now, now + length)
            now += length
    for at, (begun, _) in enumerate(loans):
        for end in range(at + 1, len(loans)):
            span = max(10.0, loans[end][0] - begun)
            lent = sum(length for _, length in loans[at:end])
            longest = max(length for _, length in loans[at:end])
            assert lent <= 0.1 * span + longest + 1.0


@pytest.mark.spec("SCH-111", "SCH-064", "SCH-039")
async def test_only_slot_0_lends_and_the_others_go_on_meanwhile(autojump_clock: MockClock) -> None:
    async with open_box(slots=2) as (box, nursery):
        requests = [await box.run(HOLDER | {"token_ms": 10}, nursery=nursery, limit=300) for _ in range(2)]
        await trio.sleep(0.5)
        job = await ask(box, nursery, {"say": "a b c", "token_ms": 100}, limit=64)
        await trio.sleep(10)
        assert job.lane == "decode"
        assert job.text() == "a b c"
        assert [request.text() for request in requests] == [" la" * 300] * 2
        assert all("slot" not in call.args for call in box.engine.calls if call.verb == "borrow")
        await box.rest()
