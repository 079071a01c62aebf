from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tandem.actors.host import EngineHost, InlineHost, ThreadHost
from tandem.actors.kit import ActorGone, supervise
from tandem.engine.errors import EngineError, NumericalError


@asynccontextmanager
async def open_host() -> AsyncIterator[ThreadHost]:
    async with trio.open_nursery() as nursery:
        host = ThreadHost()
        await nursery.start(partial(supervise, host, lambda name, defect: pytest.fail(name)))
        yield host
        nursery.cancel_scope.cancel()


class Stopwatch:
    """An engine that has taken two seconds."""

    elapsed = 2.0

    def take_elapsed(self) -> float:
        return self.elapsed


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.spec("SCH-004", "ENG-044", "ENG-171")
async def test_all_verbs_run_on_one_thread_one_after_the_other() -> None:
    threads: set[int] = set()
    order: list[str] = []

    def verb(number: int) -> int:
        threads.add(threading.get_ident())
        order.append(f"{number} begins")
        time.sleep(0.001)
        order.append(f"{number} ends")
        return number * number

    results: dict[int, int] = {}

    async def run(host: EngineHost, number: int) -> None:
        results[number] = await host.run_verb(partial(verb, number))

    async with open_host() as host:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(run, host, number)
        await run(host, 20)
    assert results == {number: number * number for number in range(21)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}
    assert all(begin.split()[0] == end.split()[0] for begin, end in zip(order[::2], order[1::2], strict=True))


@pytest.mark.spec("SCH-005", "ENG-044")
async def test_the_loop_goes_on_while_a_verb_runs() -> None:
    release = threading.Event()
    async with open_host() as host, trio.open_nursery() as nursery:
        nursery.start_soon(host.run_verb, partial(release.wait, 5))
        for _ in range(10):
            await trio.sleep(0.001)
        release.set()


@pytest.mark.parametrize("kind", ["thread", "inline"])
@pytest.mark.spec("SCH-078")
async def test_an_engine_error_comes_through_as_it_is(kind: str) -> None:
    async with open_host() as thread_host:
        host: EngineHost = thread_host if kind == "thread" else InlineHost(Stopwatch0())
        with pytest.raises(NumericalError) as raised:
            await host.run_verb(partial(fail, NumericalError(7)))
        assert raised.value.position == 7
        assert await host.run_verb(lambda: 5) == 5


class Stopwatch0(Stopwatch):
    elapsed = 0.0


@pytest.mark.parametrize("kind", ["thread", "inline"])
@pytest.mark.spec("SCH-078", "SCH-107")
async def test_any_other_exception_ends_the_request_and_its_text_is_not_logged(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_host() as thread_host:
        host: EngineHost = thread_host if kind == "thread" else InlineHost(Stopwatch0())
        with pytest.raises(EngineError) as raised:
            await host.run_verb(partial(fail, KeyError("words of a client")))
        assert str(raised.value) == "KeyError in the engine"
        assert isinstance(raised.value.__cause__, KeyError)
        assert await host.run_verb(lambda: 5) == 5
    (record,) = caplog.records
    assert "a verb failed: KeyError" in caplog.text
    assert "in fail" in caplog.text  # where it failed is what one needs
    assert "words of a client" not in caplog.text
    assert record.exc_info is None


@pytest.mark.spec("SCH-004")
async def test_a_cancelled_caller_waits_for_the_end_of_its_verb() -> None:
    release, begun = threading.Event(), threading.Event()
    ends: list[str] = []

    def verb() -> str:
        begun.set()
        release.wait(5)
        ends.append("verb")
        return "result"

    async def call(host: ThreadHost, scope: trio.CancelScope) -> None:
        with scope:
            assert await host.run_verb(verb) == "result"
            ends.append("caller")
            await trio.lowlevel.checkpoint()
            ends.append("never")

    async with open_host() as host:
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, host, scope)
            while not begun.is_set():
                await trio.sleep(0.001)
            scope.cancel()
            await trio.sleep(0.005)
            assert ends == []
            release.set()
    assert ends == ["verb", "caller"]


@pytest.mark.spec("SCH-004", "ENG-044")
async def test_the_end_of_the_host_ends_its_thread() -> None:
    threads: list[threading.Thread] = []
    done: list[int] = []

    async def call(host: ThreadHost, number: int) -> None:
        await host.run_verb(partial(time.sleep, 0.002))
        done.append(number)

    async with trio.open_nursery() as callers, open_host() as host:
        threads.append(await host.run_verb(threading.current_thread))
        for number in range(3):
            callers.start_soon(call, host, number)
        await trio.sleep(0.001)
    assert sorted(done) == [0, 1, 2]  # what was handed in before the end was done
    # trio keeps an idle worker thread for a while; what counts is that it serves us no more.
    ident = threads[0].ident
    assert ident is not None
    stack = traceback.walk_stack(sys._current_frames().get(ident))
    assert "_serve" not in [frame.f_code.co_name for frame, _ in stack]
    with pytest.raises(ActorGone):
        await host.run_verb(threading.current_thread)


async def test_a_host_that_ends_before_its_thread_is_up_keeps_nobody_waiting() -> None:
    gone: list[bool] = []

    async def call(host: ThreadHost) -> None:
        with pytest.raises(ActorGone):
            await host.run_verb(lambda: 1)
        gone.append(True)

    with trio.fail_after(30):
        async with trio.open_nursery() as callers:
            host = ThreadHost()
            callers.start_soon(call, host)
            await trio.lowlevel.checkpoint()
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.cancel()
                nursery.start_soon(host.run)
    assert gone == [True]


@pytest.mark.spec("ENG-171", "SCH-007")
async def test_the_inline_host_spends_simulated_time_and_no_thread(autojump_clock: MockClock) -> None:
    host = InlineHost(Stopwatch())
    threads = threading.active_count()
    assert await host.run_verb(threading.get_ident) == threading.get_ident()
    assert trio.current_time() == 2.0
    assert threading.active_count() <= threads  # an idle worker of an earlier test may end meanwhile


@pytest.mark.spec("SCH-004", "ENG-171")
async def test_a_cancelled_caller_sits_out_the_simulated_verb(autojump_clock: MockClock) -> None:
    host = InlineHost(Stopwatch())
    with trio.move_on_after(1) as scope:
        assert await host.run_verb(lambda: "result") == "result"
        assert trio.current_time() == 2.0
        await trio.sleep(5)
    assert scope.cancelled_caught
    assert trio.current_time() == 2.0


@pytest.mark.spec("ENG-171")
async def test_a_verb_that_fails_has_taken_its_time_too(autojump_clock: MockClock) -> None:
    with pytest.raises(EngineError):
        await InlineHost(Stopwatch()).run_verb(partial(fail, EngineError("no")))
    assert trio.current_time() == 2.0


@pytest.mark.parametrize("kind", ["thread", "inline"])
async def test_a_caller_that_is_cancelled_already_begins_nothing(kind: str) -> None:
    async with open_host() as thread_host:
        host: EngineHost = thread_host if kind == "thread" else InlineHost(Stopwatch0())
        ran: list[int] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            await host.run_verb(partial(ran.append, 1))
        assert scope.cancelled_caught
        assert ran == []
