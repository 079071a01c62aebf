"""Parallel slots: who may run beside whom, how the device is shared, and that nobody notices the others."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.scenarios.stage import play


@pytest.mark.spec("SCH-108", "SCH-049", "SCH-104")
async def test_two_run_side_by_side(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 299 tokens of 100 ms.
        At 0:01, bob asks for 299 tokens of 100 ms.
        At 0:02, cat asks for 5 tokens of 100 ms.
        ann runs on slot 0.
        bob runs on slot 1.
        bob starts by 0:01.4.
        ann ends by 0:32.
        cat starts by 0:33.
    """)


@pytest.mark.spec("SCH-108", "SCH-049", "SCH-050")
async def test_what_does_not_fit_a_side_slot_waits_for_slot_0(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2, side-max-len 2048.
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:01, bob asks for 5 tokens of 100 ms, over 2,000 words.
        At 0:02, cat asks for 5 tokens of 100 ms, with room for 1,960.
        At 0:03, dan asks for 5 tokens of 100 ms, with room for 500.
        bob runs on slot 0.
        bob starts at 1:00.
        dan runs on slot 1.
        dan starts by 0:03.4.
    """)


@pytest.mark.spec("SCH-108", "SCH-051")
async def test_the_next_turn_of_slot_0s_conversation_waits_for_slot_0(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 50 tokens of 100 ms, over 500 words.
        At 0:06, bob asks for 99 tokens of 100 ms.
        At 0:07, ann asks again for 9 tokens of 100 ms.
        bob runs on slot 0.
        ann runs on slot 1.
    """)


@pytest.mark.spec("SCH-059", "SCH-108")
async def test_a_prompt_that_is_read_shares_the_device_with_an_answer(autojump_clock: MockClock) -> None:
    """Half of the time each, in turns of a chunk against as many tokens."""
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 299 tokens of 100 ms.
        At 0:01, bob asks for 5 tokens of 100 ms, over 10,000 words of 1 ms.
        bob starts by 0:23.
        ann ends by 0:42.
    """)


@pytest.mark.spec("SCH-068", "SCH-108")
async def test_one_who_leaves_a_round_does_not_hold_up_the_other(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 199 tokens of 100 ms.
        At 0:00, bob asks for 199 tokens of 100 ms.
        At 0:05, bob leaves.
        bob ends by 0:05.3.
        ann ends by 0:20.5.
    """)


@pytest.mark.spec("SCH-068", "SCH-078")
async def test_a_fault_in_one_slot_leaves_the_other_alone(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 199 tokens of 100 ms.
        At 0:00, bob asks for 199 tokens of 100 ms, failing at token 50.
        bob ends with error.
        ann ends by 0:20.5.
    """)


@pytest.mark.spec("SCH-048", "SCH-111")
async def test_with_side_slots_the_lane_is_slot_0s(autojump_clock: MockClock) -> None:
    await play("""
        The box has parallel 2.
        At 0:00, ann asks for 299 tokens of 100 ms.
        At 0:01, bob asks for 299 tokens of 100 ms.
        At 0:10, cat asks for 1 token, as an opencode title, with room for 32, without thinking.
        cat starts by 0:10.5.
        cat runs in the decode lane.
        cat runs on slot 0.
    """)
