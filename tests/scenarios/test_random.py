"""Random stories: whoever comes, leaves or fails, and however many slots there are, the box keeps its promises."""

from __future__ import annotations

import itertools
import string
from dataclasses import replace

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.scenarios.language import Act, Ask, Story
from tests.scenarios.stage import Part, Stage, play
from tests.service.harness import Harness

MOST_OVERTAKEN = 8
NAMES = [f"{letter}{other}" for letter in "abcdefgh" for other in string.ascii_lowercase]

turns = st.builds(
    Ask,
    tokens=st.integers(1, 30),
    token_ms=st.sampled_from([0.0, 10.0, 100.0, 1000.0]),
    streamed=st.booleans(),
    prompt=st.sampled_from([0, 0, 10, 500, 3_000]),
    prompt_ms=st.sampled_from([0.0, 1.0, 10.0]),
    choices=st.sampled_from([1, 1, 1, 2]),
    thinking=st.sampled_from([0, 0, 5]),
    limit=st.sampled_from([None, None, 3, 64, 500]),
    block=st.sampled_from([1, 4]),
)
turns = turns.map(lambda ask: replace(ask, streamed=ask.streamed and ask.choices == 1))
failing = turns.flatmap(lambda ask: st.integers(0, 10).map(lambda at: replace(ask, fails_at=at)))
titles = st.builds(
    Ask,
    tokens=st.just(1),
    token_ms=st.just(0.0),
    streamed=st.booleans(),
    kind=st.just("title"),
    agent=st.just("opencode/1.0"),
    limit=st.sampled_from([None, 32]),
)
asks = st.one_of(turns, turns, turns, titles, failing)
entries = st.tuples(st.integers(0, 600), asks, st.one_of(st.none(), st.none(), st.integers(0, 200)))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Up to 14 requests within a minute; a third of them leave some time later."""
    acts: list[Act] = []
    for name, (tenths, ask, leaves) in zip(NAMES, draw(st.lists(entries, max_size=14)), strict=False):
        acts.append(Act(tenths / 10, name, "asks", ask))
        if leaves is not None:
            acts.append(Act((tenths + leaves) / 10, name, "leaves"))
    box = {
        "parallel": draw(st.sampled_from([1, 2, 4])),
        "side_lane": draw(st.sampled_from(["on", "decode", "off"])),
        "max_queue": 20,
        "queue_timeout": 3_000,
    }
    free_gib = draw(st.sampled_from([None, None, 0.5, 1.5, 2.5]))
    return Story(settings=box, memory_gib=free_gib, acts=tuple(sorted(acts, key=lambda act: (act.at, act.what))))


def check(harness: Harness, stage: Stage) -> None:
    ends = [outcome.request_id for outcome in harness.outcomes]
    assert len(ends) == len(stage.parts), "every request ends exactly once"
    _check_positions(stage)
    for who, part in stage.parts.items():
        if part.ask.kind == "turn" and (overtakers := _overtakers(stage, part)) > MOST_OVERTAKEN:
            stage.say(f"{who} is overtaken by {MOST_OVERTAKEN} at most", f"it was by {overtakers}")


def _check_positions(stage: Stage) -> None:
    """A position in line rises only when a side request has come, one among those who wait for memory never."""
    for who, part in stage.parts.items():
        told = [
            (at, int(words.split("position ")[1].split(",")[0]), "memory" in words)
            for at, words in (part.call.comments if part.is_stream else ())
            if "position " in words
        ]
        for (before, was, there), (after, now, here) in itertools.pairwise(told):
            if here != there:
                continue
            came = [
                other
                for other in stage.parts.values()
                if other.ask.kind == "title" and before <= other.asked_at <= after and not here
            ]
            if now > was and now - was > len(came):
                stage.say(f"{who} keeps its place", f"it went from {was} to {now}")


def _overtakers(stage: Stage, part: Part) -> int:
    """Side requests that came later and were granted slot 0 before it, while it waited."""
    granted = _granted_at(part)
    return sum(
        other.ask.kind == "title"
        and part.asked_at < other.asked_at
        and _granted_at(other) < granted
        and other.outcome is not None
        and other.outcome.lane is None
        for other in stage.parts.values()
    )


def _granted_at(part: Part) -> float:
    if (row := part.outcome) is None:
        return part.asked_at
    return part.asked_at + ((row.queue_ms or 0.0) - (row.wait_mem_ms or 0.0)) / 1e3


@pytest.mark.spec("SCH-109", "SCH-057", "SCH-015", "SCH-016")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories())
def test_the_box_keeps_its_promises(story: Story) -> None:
    trio.run(_play, story, clock=MockClock(autojump_threshold=0))


async def _play(story: Story) -> None:
    await play(story, check=check)
