"""Admission by bytes: who waits for memory beside others, what it is told, and how long. A prompt needs a GiB."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.scenarios.stage import play


@pytest.mark.spec("SCH-108", "SCH-072", "SCH-073", "SCH-075")
async def test_a_request_waits_for_memory_while_the_others_go_on(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        The box has 0.5 GiB of memory.
        At 0:00, ann asks for 600 tokens of 100 ms.
        At 0:05, bob asks for 5 tokens of 100 ms.
        At 0:29.5, the box has 1.2 GiB of memory.
        bob is told "waiting, position 1, memory 0.5 GiB short" at 0:15.
        bob runs on slot 1.
        bob waits 25 s for memory.
        bob starts by 0:30.5.
        ann ends by 1:00.8.
    """)


@pytest.mark.spec("SCH-108", "SCH-073")
async def test_a_wait_for_memory_ends_as_one_in_line(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 3, queue-timeout 60.
        The box has 0.5 GiB of memory.
        At 0:00, ann asks for 900 tokens of 100 ms.
        At 0:05, bob asks for 5 tokens of 100 ms.
        At 0:05, cat asks for 5 tokens of 100 ms, unstreamed.
        bob is refused in its stream with 503 memory at 1:05.
        cat is refused with 503 memory at 1:05.
        ann ends at 1:30.
    """)


@pytest.mark.spec("SCH-108", "SCH-074", "SCH-077")
async def test_who_is_left_alone_needs_no_memory_of_others(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        The box has 0.5 GiB of memory.
        At 0:00, ann asks for 600 tokens of 100 ms.
        At 0:05, bob asks for 5 tokens of 100 ms.
        At 0:20, ann leaves.
        bob starts by 0:21.2.
    """)


@pytest.mark.spec("SCH-108", "SCH-076", "SCH-077")
async def test_who_leaves_while_it_waits_for_memory_frees_its_slot(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        The box has 1.5 GiB of memory.
        At 0:00, ann asks for 5 tokens of 100 ms, over 9,000 words of 10 ms.
        At 0:01, bob asks for 5 tokens of 100 ms.
        At 0:10, bob leaves.
        At 0:20, cat asks for 5 tokens of 100 ms.
        bob ends at 0:10.
        bob ends with abandoned.
        cat runs on slot 1.
    """)
