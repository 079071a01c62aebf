"""What the queue is told of a request (SCH-011, SCH-038, API-198)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.actors.line import Rank
from tandem.config import Settings
from tandem.engine.text.images import Patches, PromptImage
from tandem.engine.text.prompt import Prompt
from tandem.http.entry import SHORT_SIDE, Entry, entry_of

TITLE = [
    {"role": "system", "content": "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>"},
    {"role": "user", "content": "Generate a title for this conversation:\n"},
    {"role": "user", "content": '"What is one plus one?"'},
]
FOLLOW_UPS = [{"role": "user", "content": "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that"}]
IMAGE = PromptImage(2, Patches(3, 2, b"\1", None))
TURN = [{"role": "user", "content": "Why is a title generator called that?"}]


def entry(rows: int = 10, *, thinking: str = "off", **more: Any) -> Entry:
    settings = Settings(**more.pop("settings", {}))
    images = more.pop("images", ())
    prompt = replace(Prompt.of_client(range(rows), thinking), images=images)  # type: ignore[arg-type]
    asked: dict[str, Any] = {"limit": 64, "choices": 1, "stream": False, "messages": TURN}
    return entry_of(prompt, settings, **asked | more)


@pytest.mark.spec("SCH-011", "SCH-012", "SCH-013")
@pytest.mark.parametrize(
    ("messages", "rows", "has_tools", "rank"),
    [
        (TURN, 10, False, Rank.TURN),
        (TURN, 100_000, False, Rank.TURN),
        ((), 10, False, Rank.TURN),
        (TITLE, SHORT_SIDE, False, Rank.SIDE),
        (TITLE, SHORT_SIDE + 1, False, Rank.LONG_SIDE),
        (FOLLOW_UPS, 10, False, Rank.SIDE),
        (TITLE, 10, True, Rank.TURN),
        ([*TURN, *TITLE], 10, False, Rank.TURN),
        ([*FOLLOW_UPS, {"role": "assistant", "content": "x"}], 10, False, Rank.TURN),
    ],
)
def test_rank(messages: list[dict[str, str]], rows: int, has_tools: bool, rank: Rank) -> None:
    assert entry(rows, messages=messages, has_tools=has_tools).rank is rank


@pytest.mark.spec("API-196", "API-197", "API-198", "SCH-018", "SCH-019")
def test_how_long_it_may_wait() -> None:
    settings = {"queue_timeout": 5.0, "request_timeout": 50.0}
    assert entry(settings=settings).wait_s == 5
    assert entry(settings=settings, stream=True).wait_s == 50
    for rows in (10, SHORT_SIDE + 1):
        assert entry(rows, settings=settings, messages=TITLE).wait_s == 50


@pytest.mark.spec("SCH-038", "SCH-040")
def test_what_a_holder_may_serve() -> None:
    assert entry(2_048, limit=64).is_lane
    assert entry(messages=TITLE).is_lane
    assert entry(settings={"side_lane": "decode"}).is_lane
    assert not entry(2_049).is_lane
    assert not entry(limit=65).is_lane
    assert not entry(choices=2).is_lane
    assert not entry(thinking="open").is_lane
    assert not entry(thinking="free").is_lane  # the model may begin to
    assert not entry(images=(IMAGE,)).is_lane
    assert not entry(settings={"side_lane": "off"}).is_lane
    assert entry(3_000, limit=100, settings={"side_lane_prompt_max": 3_000, "side_lane_new_max": 100}).is_lane


@pytest.mark.spec("SCH-049", "SCH-050", "SCH-114")
def test_what_it_needs_of_a_slot() -> None:
    needs = entry(7, limit=9).needs
    assert (needs.prompt, needs.output, needs.margin, needs.text_only) == (7, 9, 64, True)
    assert tuple(needs.keys) == tuple(range(7))
    seen = entry(10, images=(IMAGE,)).needs
    assert not seen.text_only
    assert tuple(seen.keys) != tuple(range(10))  # an image compares by its content
