"""Who waits, who goes first, and what they are told: one slot, as stories. The end of an answer is a token too."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.scenarios.stage import play


@pytest.mark.spec("SCH-108", "SCH-010")
async def test_the_third_who_waits_is_refused(autojump_clock: MockClock) -> None:
    await play("""
        The box has max-queue 2.
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:01, bob asks for 5 tokens of 100 ms.
        At 0:02, cat asks for 5 tokens of 100 ms.
        At 0:03, dan asks for 5 tokens of 100 ms.
        dan is refused with 503 queue_full at 0:03.
        ann starts at 0:01.
        bob starts at 1:00.
        bob starts before cat.
    """)


@pytest.mark.spec("SCH-108", "SCH-018", "SCH-019")
async def test_a_stream_waits_for_an_hour_and_a_body_for_four_minutes(autojump_clock: MockClock) -> None:
    await play("""
        The box has request-timeout 7200.
        At 0:00, ann asks for 3,499 tokens of 1000 ms, 32 a round.
        At 0:10, bob asks for 5 tokens of 100 ms, unstreamed.
        At 0:11, cat asks for 5 tokens of 100 ms.
        bob is refused with 429 queue_timeout at 4:10.
        cat is told "position 2" at 0:21.
        cat is told "position 1" at 4:11.
        cat is told "position 1" at 58:11.
        cat starts at 58:20.
        ann ends at 58:20.
    """)


@pytest.mark.spec("SCH-108", "SCH-019", "API-197")
async def test_a_stream_that_waits_for_ever_is_told_so_in_its_stream(autojump_clock: MockClock) -> None:
    await play("""
        The box has request-timeout 600.
        At 0:00, ann asks for 599 tokens of 1000 ms, 32 a round.
        At 0:01, bob asks for 599 tokens of 1000 ms.
        At 0:02, cat asks for 5 tokens of 100 ms.
        ann ends with stop.
        cat is refused in its stream with 429 queue_timeout at 10:02.
        bob starts at 10:00.
    """)


@pytest.mark.spec("SCH-108", "SCH-012", "SCH-014", "API-198")
async def test_a_title_goes_before_the_turns_that_wait(autojump_clock: MockClock) -> None:
    await play("""
        The box has side-lane off.
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:05, bob asks for 9 tokens of 1000 ms.
        At 0:15, cat asks for 1 token, as an opencode title.
        At 0:20, dan asks for 5 tokens of 100 ms.
        bob is told "position 1" at 0:15.
        bob is told "position 2" at 0:25.
        cat starts at 1:00.
        cat starts before bob.
        bob starts before dan.
    """)


@pytest.mark.spec("SCH-108", "SCH-014")
async def test_a_turn_is_overtaken_eight_times_and_no_more(autojump_clock: MockClock) -> None:
    titles = "\n".join(
        f"At 0:{at:02}, t{'abcdefghijkl'[at - 10]} asks for 1 token, as an opencode title." for at in range(10, 22)
    )
    await play(f"""
        The box has side-lane off, max-queue 20.
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:05, bob asks for 9 tokens of 1000 ms.
        {titles}
        th starts before bob.
        bob starts before ti.
        ti starts at 1:10.
    """)


@pytest.mark.spec("SCH-013")
async def test_a_long_side_request_overtakes_no_turn(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 59 tokens of 1000 ms.
        At 0:05, bob asks for 1 token, as an opencode title, over 9,000 words.
        At 0:10, cat asks for 9 tokens of 1000 ms.
        cat starts before bob.
        bob starts at 1:10.
    """)


@pytest.mark.spec("SCH-108", "SCH-020")
async def test_a_generation_ends_when_it_has_run_too_long(autojump_clock: MockClock) -> None:
    await play("""
        The box has request-timeout 30.
        At 0:00, ann asks for 100 tokens of 1000 ms.
        At 0:10, bob asks for 100 tokens of 1000 ms.
        ann ends with timeout.
        ann writes 30 tokens.
        ann ends at 0:30.
        bob ends at 1:00.
        bob ends with timeout.
    """)


@pytest.mark.spec("SCH-108", "SCH-115", "SCH-026")
async def test_a_silent_stream_is_kept_open(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 3 tokens of 25000 ms.
        ann is told "ping" at 0:10.
        ann is told "ping" at 0:20.
        ann is told "ping" at 0:35.
    """)


@pytest.mark.spec("SCH-029")
async def test_a_long_read_is_told_as_it_goes(autojump_clock: MockClock) -> None:
    await play("""
        At 0:00, ann asks for 3 tokens of 100 ms, over 8,000 words of 2 ms.
        ann is told "prefill 3072/80".
        ann is never told "waiting".
    """)
