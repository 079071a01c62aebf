"""The side lane: short requests inside another's answer, which goes on as if nothing had been."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.scenarios.stage import play


@pytest.mark.spec("SCH-108", "SCH-038", "SCH-039", "SCH-046", "API-201")
async def test_a_title_is_served_inside_an_answer(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 1 token, as an opencode title, with room for 32, without thinking.
        bob starts by 0:10.3.
        bob runs in the decode lane.
        ann ends by 1:00.2.
        ann runs in no lane.
    """)


@pytest.mark.spec("SCH-108", "SCH-039", "SCH-040")
async def test_a_title_is_served_while_a_prompt_is_read(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 5 tokens of 100 ms, over 8,000 words of 2 ms.
        At 0:03, bob asks for 1 token, as an opencode title, with room for 32, without thinking.
        bob starts by 0:05.
        bob runs in the prefill lane.
    """)


@pytest.mark.spec("SCH-108", "SCH-040")
async def test_the_lane_can_be_kept_out_of_prompts(autojump_clock: MockClock) -> None:
    await play("""
        The box has side-lane decode.
        At 0:00, ann asks for 50 tokens of 100 ms, over 8,000 words of 2 ms.
        At 0:03, bob asks for 1 token, as an opencode title, with room for 32, without thinking.
        bob starts by 0:17.
        bob runs in the decode lane.
        bob ends before ann.
    """)


@pytest.mark.spec("SCH-108", "SCH-040")
async def test_without_the_lane_a_title_waits(autojump_clock: MockClock) -> None:
    await play("""
        The box has side-lane off.
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 1 token, as an opencode title, with room for 32, without thinking.
        bob starts at 1:00.
        bob runs in no lane.
    """)


@pytest.mark.spec("SCH-108", "SCH-038")
async def test_what_is_too_much_for_the_lane_waits_in_line(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 9 tokens of 10 ms, with room for 32, without thinking, over 2,100 words.
        At 0:11, cat asks for 9 tokens of 10 ms, with room for 65, without thinking.
        At 0:12, dan asks for 9 tokens of 10 ms, with room for 32, without thinking, with 2 choices, unstreamed.
        At 0:13, eve asks for 9 tokens of 10 ms, with room for 32.
        bob starts at 1:00.
        cat starts by 1:00.4.
        dan starts by 1:00.6.
        eve starts by 1:00.9.
        bob runs in no lane.
        cat runs in no lane.
        dan runs in no lane.
        eve runs in no lane.
    """)


@pytest.mark.spec("SCH-108", "SCH-045")
async def test_the_lane_takes_a_tenth_of_the_holders_time(autojump_clock: MockClock) -> None:
    """Guests of seven tenths of a second: two of them use up a tenth of ten seconds, the third waits."""
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 6 tokens of 100 ms, with room for 32, without thinking.
        At 0:10, cat asks for 6 tokens of 100 ms, with room for 32, without thinking.
        At 0:10, dan asks for 6 tokens of 100 ms, with room for 32, without thinking.
        bob ends by 0:11.
        cat ends by 0:11.8.
        dan starts at 0:20.9.
        dan runs in the decode lane.
    """)


@pytest.mark.spec("SCH-108", "SCH-043")
async def test_a_lane_job_that_no_holder_took_goes_first_and_by_itself(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 2 tokens of 10000 ms.
        At 0:05, bob asks for 5 tokens of 1000 ms.
        At 0:25, cat asks for 4 tokens of 10 ms, with room for 32, without thinking.
        cat runs in the self lane.
        cat starts at 0:30.
        cat starts before bob.
    """)


@pytest.mark.spec("SCH-108", "SCH-044", "SCH-077")
async def test_a_guest_that_leaves_gives_the_engine_back(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 60 tokens of 100 ms, with room for 64, without thinking.
        At 0:12, bob leaves.
        bob ends by 0:12.1.
        bob ends with abandoned.
        ann ends by 1:02.3.
    """)


@pytest.mark.spec("SCH-108", "SCH-044", "SCH-078")
async def test_a_guests_fault_is_its_own(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 9 tokens of 10 ms, with room for 32, without thinking, failing at token 3.
        bob ends with error.
        ann ends by 1:00.2.
    """)


@pytest.mark.spec("SCH-108", "SCH-044")
async def test_a_holder_that_leaves_takes_no_guest_with_it(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 599 tokens of 100 ms.
        At 0:10, bob asks for 20 tokens of 100 ms, with room for 32, without thinking.
        At 0:11, ann leaves.
        ann ends by 0:13.
        bob ends by 0:13.
    """)


@pytest.mark.spec("SCH-108", "SCH-093")
async def test_a_drain_serves_the_lane_jobs_of_who_finishes(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 5 tokens of 10000 ms.
        At 0:05, bob asks for 4 tokens of 10 ms, with room for 32, without thinking.
        At 0:06, the box drains.
        bob runs in the decode lane.
        ann ends by 1:00.1.
    """)
