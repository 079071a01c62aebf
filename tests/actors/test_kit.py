from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Actor, ActorGone, Inline, Ref, Reply, Threads, open_mailbox, supervise


@dataclass(frozen=True, slots=True)
class Ask:
    reply: Reply[int]


@dataclass(slots=True)
class Defects:
    """What `supervise` was told."""

    names: list[str] = field(default_factory=list)

    def note(self, name: str, defect: Exception) -> None:
        assert isinstance(defect, LookupError)
        self.names.append(name)


class Essential(Actor[str | Ask]):
    """Fails at every `fail`; keeps the questions it gets."""

    name = "essential"
    inbox_size = 4

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[float] = []
        self.taken: list[str | Ask] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.starts.append(trio.current_time())
        task_status.started()
        async for message in self.inbox:
            self.taken.append(message)
            if message == "fail":
                raise LookupError


class OwnWork(Essential):
    name = "own work"
    essential = False


async def settled(check: Callable[[], Any]) -> Any:
    await wait_all_tasks_blocked()
    return check()


@pytest.mark.spec("SCH-003")
async def test_tell_waits_for_room() -> None:
    ref: Ref[int]
    ref, inbox = open_mailbox("box", 1)
    await ref.tell(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ref.tell, 2)
        await wait_all_tasks_blocked()
        assert (ref.depth, ref.handled) == (1, 0)
        assert [await inbox.receive(), await inbox.receive()] == [1, 2]
    assert (ref.depth, ref.handled, ref.dropped) == (0, 2, 0)


@pytest.mark.spec("SCH-003")
def test_offer_drops_and_counts() -> None:
    ref: Ref[int]
    ref, inbox = open_mailbox("box", 2)
    assert [ref.offer(number) for number in range(5)] == [True, True, False, False, False]
    assert ref.dropped == 3
    assert [inbox.receive_nowait() for _ in range(3)] == [0, 1, None]
    with inbox:
        pass
    assert not ref.offer(5)
    assert ref.dropped == 4
    assert repr(ref) == "<Ref box: 0 waiting, 2 handled, 4 dropped>"


async def test_telling_an_actor_that_has_ended() -> None:
    ref: Ref[int]
    ref, inbox = open_mailbox("box", 1)
    ref.offer(1)

    async def tell() -> None:
        with pytest.raises(ActorGone, match="box"):
            await ref.tell(2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell)
        await wait_all_tasks_blocked()
        with inbox:
            pass
    await tell()


@pytest.mark.spec("SCH-002")
async def test_an_asker_that_is_cancelled_is_known_to_have_gone() -> None:
    actor = Essential()
    async with trio.open_nursery() as nursery:
        await nursery.start(actor.run)
        with trio.CancelScope() as scope:
            nursery.start_soon(wait_all_tasks_blocked_then, scope.cancel)
            await actor.ref.ask(Ask)
        assert scope.cancelled_caught
        (asked,) = actor.taken
        assert isinstance(asked, Ask)
        assert not asked.reply.send(1)
        nursery.cancel_scope.cancel()


async def wait_all_tasks_blocked_then(act: Callable[[], None]) -> None:
    await wait_all_tasks_blocked()
    act()


@pytest.mark.spec("SCH-002")
async def test_an_asker_that_is_cancelled_before_there_was_room_has_sent_nothing() -> None:
    ref: Ref[Ask]
    ref, inbox = open_mailbox("box", 1)
    ref.offer(Ask(Reply()))
    with trio.move_on_after(0):
        await ref.ask(Ask)
    assert (inbox.receive_nowait(), inbox.receive_nowait())[1] is None


async def test_an_answer_is_one() -> None:
    reply = Reply[int]()
    assert reply.take_nowait() is None
    assert reply.send(1)
    assert not reply.send(2)
    assert await reply.wait() == 1
    assert reply.take_nowait() is None
    with pytest.raises(ActorGone):
        await reply.wait()


async def test_an_answer_outlives_a_timeout_of_the_asker(autojump_clock: MockClock) -> None:
    reply = Reply[int]()
    with trio.move_on_after(1) as scope:
        await reply.wait()
    assert scope.cancelled_caught
    assert reply.send(7)
    assert await reply.wait() == 7


async def test_a_dropped_question_raises() -> None:
    reply = Reply[int]()
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(ActorGone):
                await reply.wait()

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        reply.drop()
    assert not reply.send(1)


@pytest.mark.spec("SCH-006")
async def test_a_defect_of_an_essential_actor_ends_it_and_is_handed_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    actor, defects = Essential(), Defects()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, defects.note))
        await actor.ref.tell("fail")
    assert defects.names == ["essential"]
    assert len(actor.starts) == 1
    assert caplog.messages == ["[actor] essential failed"]
    with pytest.raises(ActorGone):
        await actor.ref.tell("more")


@pytest.mark.spec("SCH-006")
async def test_own_work_is_started_again_three_times_and_then_stays_off(autojump_clock: MockClock) -> None:
    actor, defects = OwnWork(), Defects()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, defects.note))
        for starts in (1, 2, 3, 4):
            assert await settled(lambda: (len(actor.starts), defects.names)) == (starts, [])
            await actor.ref.tell("fail")
    assert (len(actor.starts), defects.names) == (4, ["own work"])
    with pytest.raises(ActorGone):
        await actor.ref.tell("more")


@pytest.mark.spec("SCH-006")
@pytest.mark.parametrize("quiet_s", [0.0, 700.0])
async def test_restarts_are_counted_over_ten_minutes(autojump_clock: MockClock, quiet_s: float) -> None:
    actor, defects = OwnWork(), Defects()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, defects.note))
        await trio.sleep(quiet_s)
        while not await settled(lambda: defects.names):
            await actor.ref.tell("fail")
            await trio.sleep(1)
    assert len(actor.starts) == 4  # however long it had run before, three restarts


@pytest.mark.spec("SCH-006")
async def test_own_work_that_fails_every_four_minutes_goes_on(autojump_clock: MockClock) -> None:
    actor, defects = OwnWork(), Defects()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, defects.note))
        for _ in range(50):
            await actor.ref.tell("fail")
            await trio.sleep(240)
        assert (len(actor.starts), defects.names) == (51, [])
        for _ in range(2):  # with those of the last ten minutes too many
            await actor.ref.tell("fail")
            await trio.sleep(1)
    assert defects.names == ["own work"]


async def test_what_waits_for_a_restarted_actor_is_served_by_it(autojump_clock: MockClock) -> None:
    actor, defects = OwnWork(), Defects()
    async with trio.open_nursery() as nursery:
        for message in ("fail", "fail", "kept"):
            actor.ref.offer(message)
        await nursery.start(partial(supervise, actor, defects.note))
        assert await settled(lambda: actor.taken) == ["fail", "fail", "kept"]
        nursery.cancel_scope.cancel()
    assert defects.names == []


@pytest.mark.spec("SCH-006")
@pytest.mark.parametrize("defect_count", [1, 9])
async def test_a_defect_before_the_start_keeps_nobody_waiting(autojump_clock: MockClock, defect_count: int) -> None:
    class Shaky(OwnWork):
        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            if len(self.starts) < defect_count:
                self.starts.append(trio.current_time())
                raise LookupError
            await super().run(task_status=task_status)

    actor, defects = Shaky(), Defects()
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(supervise, actor, defects.note))
            nursery.cancel_scope.cancel()
    assert defects.names == ([] if defect_count == 1 else ["own work"])


@pytest.mark.spec("SCH-006", "SCH-002")
@pytest.mark.parametrize("last", ["fail", "end"])
async def test_nobody_waits_for_an_actor_that_has_ended(autojump_clock: MockClock, last: str) -> None:
    """Neither the question it holds, nor the one it failed at, nor one behind that, nor one that had no room."""

    class Ending(Essential):
        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            async for message in self.inbox:
                self.taken.append(message)
                if len(self.taken) == 2:
                    await trio.sleep(1)
                    if last == "fail":
                        raise LookupError
                    return

    actor = Ending()
    gone: list[int] = []

    async def ask(number: int) -> None:
        with pytest.raises(ActorGone):
            await actor.ref.ask(Ask)
        gone.append(number)

    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, Defects().note))
        for number in range(actor.inbox_size + 4):
            nursery.start_soon(ask, number)
    assert sorted(gone) == list(range(actor.inbox_size + 4))
    assert trio.current_time() == 1


async def test_an_answer_given_before_the_end_still_arrives(autojump_clock: MockClock) -> None:
    class Answering(Essential):
        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            message = await self.inbox.receive()
            assert isinstance(message, Ask)
            message.reply.send(5)
            raise LookupError

    actor = Answering()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, Defects().note))
        assert await actor.ref.ask(Ask) == 5


async def test_a_cancelled_actor_is_no_defect(autojump_clock: MockClock) -> None:
    actor, defects = Essential(), Defects()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, actor, defects.note))
        nursery.cancel_scope.cancel()
    assert defects.names == []
    with pytest.raises(ActorGone):
        await actor.ref.tell("more")


def divide(by: int) -> tuple[float, int]:
    return 6 / by, threading.get_ident()


@pytest.mark.spec("SCH-113", "SCH-007")
async def test_inline_work_runs_where_it_is_called(autojump_clock: MockClock) -> None:
    assert await Inline().run("any", divide, 2) == (3.0, threading.get_ident())
    with pytest.raises(ZeroDivisionError):
        await Inline().run("any", divide, 0)


@pytest.mark.spec("SCH-113")
async def test_thread_work_runs_elsewhere_and_raises_what_it_raises() -> None:
    threads = Threads.with_limits({"parse": 1})
    result, thread = await threads.run("parse", divide, 2)
    assert result == 3.0
    assert thread != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run("parse", divide, 0)
    assert threads.limiters["parse"].borrowed_tokens == 0


@pytest.mark.spec("SCH-113")
async def test_a_purpose_has_its_own_limit() -> None:
    threads = Threads.with_limits({"slow": 1, "other": 1})
    release, running = threading.Event(), 0

    def slow() -> int:
        nonlocal running
        running += 1
        most = running
        release.wait(5)
        running -= 1
        return most

    async with trio.open_nursery() as nursery:
        most: list[int] = []

        async def run_slow() -> None:
            most.append(await threads.run("slow", slow))

        for _ in range(3):
            nursery.start_soon(run_slow)
        while not running:
            await trio.sleep(0.001)
        with trio.fail_after(30):
            assert (await threads.run("other", divide, 1))[0] == 6.0
        assert threads.limiters["slow"].statistics().tasks_waiting == 2
        release.set()
    assert most == [1, 1, 1]


@pytest.mark.spec("SCH-113")
async def test_who_leaves_does_not_wait_for_the_thread() -> None:
    threads = Threads.with_limits({"slow": 1})
    release = threading.Event()
    try:
        with trio.fail_after(30), trio.move_on_after(0.005):
            await threads.run("slow", release.wait, 5)
        assert threads.limiters["slow"].borrowed_tokens == 1  # still counted while it runs
    finally:
        release.set()
    with trio.fail_after(30):
        await threads.run("slow", divide, 1)
