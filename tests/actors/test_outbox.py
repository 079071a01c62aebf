from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.outbox import DELTA_BYTES, MAX_BATCHES, MAX_BYTES, Deltas, Item, Outbox, PrefillProgress
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, Content, Finish, Line, Reasoning, Timings, Usage

FINISH = Finish("stop", Usage(), Timings())


def batch(text: str = "x") -> Deltas:
    return Deltas(0, [Content(text)])


@pytest.mark.spec("SCH-063", "API-003")
def test_the_bounds_are_those_of_the_specification() -> None:
    assert (MAX_BATCHES, MAX_BYTES) == (4096, 4 * 1024 * 1024)


async def test_what_goes_in_comes_out_in_order_and_then_the_end() -> None:
    outbox = Outbox(stall_s=60)
    items: list[Item] = [PrefillProgress(1, 2), batch("a"), Deltas(1, [Content("b"), FINISH])]
    for item in items:
        assert outbox.put(item, 0.0)
    outbox.finish()
    assert outbox.take_nowait() is items[0]
    assert [await outbox.take() for _ in range(4)] == [items[1], items[2], None, None]
    assert outbox.take_nowait() is None
    assert not outbox.put(batch(), 0.0)
    assert repr(outbox) == "<Outbox 0 batches, 0 bytes>"


@pytest.mark.spec("SCH-063", "API-003")
def test_a_client_is_gone_when_the_oldest_batch_has_waited_too_long() -> None:
    outbox = Outbox(stall_s=60)
    assert outbox.put(batch(), 100.0)
    assert outbox.put(batch(), 159.9)
    assert not outbox.put(batch(), 160.0)
    outbox.take_nowait()
    assert outbox.put(batch(), 160.0)  # the oldest is now that of 159.9
    assert not outbox.put(batch(), 219.9)
    outbox.take_nowait()
    outbox.take_nowait()
    assert outbox.put(batch(), 1e6)  # an empty one is never late


@pytest.mark.spec("SCH-063", "API-003")
def test_a_client_is_gone_when_too_many_batches_are_queued() -> None:
    outbox = Outbox(stall_s=60)
    assert all(outbox.put(batch(), 0.0) for _ in range(4096))
    assert not outbox.put(batch(), 0.0)
    outbox.take_nowait()
    assert outbox.put(batch(), 0.0)


@pytest.mark.spec("SCH-063", "API-003")
@pytest.mark.parametrize(
    "delta",
    [
        Content("x" * 9000), Reasoning("x" * 9000), CallArguments(0, "x" * 9000), Line("note", "x" * 9000),
        Content("€" * 3000),  # three bytes each
    ],
)  # fmt: skip
def test_a_client_is_gone_when_four_mebibytes_are_queued(delta: Content | Reasoning | CallArguments | Line) -> None:
    outbox = Outbox(stall_s=60)
    count = 0
    while outbox.put(Deltas(0, [delta]), 0.0):
        count += 1
    assert MAX_BYTES // (9000 + DELTA_BYTES) <= count <= MAX_BYTES // 9000
    outbox.take_nowait()
    assert outbox.put(Deltas(0, [delta]), 0.0)


def test_what_has_no_text_weighs_little_and_not_nothing() -> None:
    outbox = Outbox(stall_s=60, max_bytes=10 * DELTA_BYTES, max_batches=100)
    assert outbox.put(Deltas(0, [CallEnd(0), FINISH]), 0.0)
    assert all(outbox.put(PrefillProgress(1, 2), 0.0) for _ in range(8))
    assert not outbox.put(PrefillProgress(1, 2), 0.0)


async def test_a_waiting_reader_gets_it_at_once(autojump_clock: MockClock) -> None:
    outbox = Outbox(stall_s=60)
    taken: list[Item | None] = []

    async def read() -> None:
        while (item := await outbox.take()) is not None:
            taken.append(item)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for number in range(3):
            await trio.sleep(100)
            assert outbox.put(batch(str(number)), trio.current_time())
            await wait_all_tasks_blocked()
            assert repr(outbox) == "<Outbox 0 batches, 0 bytes>"
        outbox.finish()
    assert taken == [batch(str(number)) for number in range(3)]


async def test_a_reader_that_is_cancelled_loses_nothing(autojump_clock: MockClock) -> None:
    outbox = Outbox(stall_s=60)
    with trio.move_on_after(1):
        await outbox.take()
    assert outbox.put(batch(), 1.0)
    assert await outbox.take() == batch()


@given(st.lists(st.one_of(st.just(None), st.integers(0, 300)), max_size=80))
@pytest.mark.spec("SCH-063")
def test_the_accounts_hold_and_come_back_to_zero(steps: list[int | None]) -> None:
    """A number puts a text of that length, None takes an item."""
    outbox = Outbox(stall_s=1e9, max_batches=20, max_bytes=2000)
    queued: list[int] = []
    for now, step in enumerate(steps):
        if step is None:
            assert (outbox.take_nowait() is None) == (not queued)
            queued = queued[1:]
            continue
        size = step + DELTA_BYTES
        fits = len(queued) < 20 and sum(queued) + size <= 2000
        assert outbox.put(batch("x" * step), float(now)) == fits
        queued += [size] if fits else []
        assert repr(outbox) == f"<Outbox {len(queued)} batches, {sum(queued)} bytes>"
    while outbox.take_nowait() is not None:
        pass
    assert repr(outbox) == "<Outbox 0 batches, 0 bytes>"
