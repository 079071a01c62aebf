"""Clients that leave, stop reading or fail, in every phase; and the box that drains in every phase."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.scenarios.stage import play


@pytest.mark.spec("SCH-108", "SCH-016", "SCH-077")
async def test_who_leaves_the_line_makes_room(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:01, bob asks for 59 tokens of 1000 ms.
        At 0:02, cat asks for 5 tokens of 100 ms.
        At 0:30, bob leaves.
        bob ends at 0:30.
        bob ends with abandoned.
        cat is told "position 2" at 0:22.
        cat is told "position 1" at 0:32.
        cat starts at 1:00.
    """)


@pytest.mark.spec("SCH-108", "SCH-077", "SCH-004")
async def test_who_leaves_while_its_prompt_is_read_frees_the_slot_at_the_next_chunk(
    autojump_clock: MockClock,
) -> None:
    await play("""
        At 0:00, ann asks for 5 tokens of 100 ms, over 8,000 words of 10 ms.
        At 0:12, bob asks for 5 tokens of 100 ms.
        At 0:15, ann leaves.
        ann ends by 0:21.
        ann ends with abandoned.
        bob starts by 0:21.
    """)


@pytest.mark.spec("SCH-108", "SCH-077")
async def test_who_leaves_while_it_is_answered_frees_the_slot_within_a_step(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 500 tokens of 100 ms.
        At 0:02, bob asks for 5 tokens of 100 ms.
        At 0:10, ann leaves.
        ann ends by 0:10.1.
        bob starts by 0:10.3.
    """)


@pytest.mark.spec("SCH-108", "SCH-063")
async def test_who_reads_no_more_is_gone_after_a_minute(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 500 tokens of 1000 ms.
        At 0:02, bob asks for 5 tokens of 100 ms.
        At 0:10, ann stops reading.
        At 2:00, ann leaves.
        bob starts by 1:13.
        ann ends with abandoned.
    """)


@pytest.mark.spec("SCH-108", "SCH-078")
async def test_a_fault_of_the_engine_ends_one_request(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 50 tokens of 100 ms, failing at token 20.
        At 0:01, bob asks for 5 tokens of 100 ms.
        ann ends with error.
        ann ends at 0:02.
        bob starts at 0:02.1.
    """)


@pytest.mark.spec("SCH-108", "SCH-092", "SCH-093", "API-202", "API-204")
async def test_a_drain_lets_the_answer_end_and_refuses_who_waits(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:05, bob asks for 5 tokens of 100 ms, unstreamed.
        At 0:06, cat asks for 5 tokens of 100 ms.
        At 0:30, the box drains.
        At 0:31, dan asks for 5 tokens of 100 ms.
        bob is refused with 503 draining at 0:30.
        cat is refused in its stream with 503 draining at 0:30.
        dan is refused with 503 draining at 0:31.
        ann ends at 1:00.
    """)


@pytest.mark.spec("SCH-108", "SCH-092")
async def test_a_drain_lets_a_prompt_be_read_and_answered(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 5 tokens of 100 ms, over 8,000 words of 10 ms.
        At 0:30, the box drains.
        ann starts by 1:23.
        ann ends by 1:24.
    """)
