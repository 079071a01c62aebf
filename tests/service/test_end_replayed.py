"""A turn with a hidden act in it, and the next one, which goes on behind its end (MON-137, K-10)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from tandem.engine.fake.warm import WarmFakeEngine
from tests.service.harness import fake, open_harness
from tests.service.test_plan import CHAT, decisions, put

GRID = 16


@pytest.mark.spec("MON-137", "ANS-004", "ENG-111", "MON-133", "MON-134", "API-248")
@pytest.mark.parametrize("asks", [False, True], ids=["", "a question inside comes between"])
async def test_what_an_act_has_hidden_comes_back_with_the_next_turn(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, asks: bool
) -> None:
    engine = WarmFakeEngine(grid=GRID, max_len=60_000)
    said = [{"role": "user", "content": f"Tell me. {fake(say='', then=['Here it is, at length.'])}"}]
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        if asks:
            router = (await harness.client.send("/v1/conductor/router")).json["document"]
            router["classifier"]["context_stage"] = {"mode": "on"}
            await put(harness, "router", router)
        first = (await harness.client.send(CHAT, {"messages": said})).json
        said += [first["choices"][0]["message"], {"role": "user", "content": f"And now? {fake(say='That is all.')}"}]
        second = (await harness.client.send(CHAT, {"messages": said})).json
        other = (await harness.client.send(CHAT, {"messages": said}, headers={"x-tandem": "raw"})).json
        rows = await decisions(harness)
    assert first["choices"][0]["message"]["content"] == "Here it is, at length."
    assert second["choices"][0]["message"]["content"] == "That is all."
    (row,) = [row for row in rows if "end_replayed" in (row["extra"] or {})]
    replayed = row["extra"]["end_replayed"]
    assert replayed > 0
    usage, raw = second["usage"], other["usage"]
    assert usage["prompt_tokens"] == raw["prompt_tokens"]
    assert usage["prompt_tokens_details"]["hidden_tokens"] >= replayed
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    written = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert cached >= written - 2 - asks * GRID  # the newest word and the end token have no rows
    assert [call.verb for call in engine.calls].count("ask") > 0 or not asks
    assert "hidden_tokens" not in raw["prompt_tokens_details"]


@pytest.mark.spec("MON-137", "ANS-004", "MON-045")
async def test_a_closer_that_was_hidden_comes_back_where_the_client_sends_the_reasoning(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The tag is in the history as well as in the rows; the phrase before it in the rows alone."""
    engine = WarmFakeEngine(grid=GRID, max_len=60_000)
    thought = fake(say="<think>\n" + "so " * 2_000 + "</think>Here it is.")
    said = [{"role": "user", "content": f"Tell me. {thought}"}]
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        first = (await harness.client.send(CHAT, {"messages": said})).json
        said += [first["choices"][0]["message"], {"role": "user", "content": f"And now? {fake(say='That is all.')}"}]
        second = (await harness.client.send(CHAT, {"messages": said})).json
        rows = await decisions(harness)
    assert first["choices"][0]["message"]["content"] == "Here it is."
    assert 0 < len(first["choices"][0]["message"]["reasoning_content"]) < 3_000, "D1 has closed it"
    (row,) = [row for row in rows if "end_replayed" in (row["extra"] or {})]
    assert 0 < row["extra"]["end_replayed"] < 12, "the phrase without the tag"
    written = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= written - 2
