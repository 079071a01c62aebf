"""Who the monitor may not touch gets what a server without one gives, byte for byte (MON-002, MON-003, MON-028)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.service.harness import chat, open_harness
from tests.service.monitor.stage import open_stage, row_of, rows, send
from tests.service.recorded import answers
from tests.service.said import said
from tests.service.test_plan import CHAT, profile, put
from tests.service.test_recorded import VECTORS, checkpoint, one_thread, recorded

__all__ = ["checkpoint", "one_thread"]


def without_mode(kept: list[str]) -> list[str]:
    """An answer's lines without the header that names the mode."""
    status, told, *body = kept
    headers = json.loads(told)
    headers.pop("x-tandem")
    return [status, json.dumps(headers), *body]


@pytest.mark.spec("MON-001", "MON-002", "MON-003", "MON-008", "MON-028", "ENG-074")
@pytest.mark.parametrize(
    ("engine", "mode"),
    [("fake", "raw"), ("fake", "off"), ("fake", "shadow"), ("fake", "on"), ("qwen3_5", "on")],
)
async def test_fourteen_requests_in_which_nothing_is_found(
    autojump_clock: trio.testing.MockClock, checkpoint: Path, engine: str, mode: str
) -> None:
    """In `raw` every header is the same too."""
    if engine != "fake" and not VECTORS:
        pytest.skip("without vector kernels torch draws other random weights")
    kept = recorded(engine)
    found = await answers(engine, checkpoint, settings={"conductor": mode})
    if mode in ("raw", "off"):
        assert found == kept
        return
    for name, lines in found.items():
        assert json.loads(lines[1])["x-tandem"] == mode
        if (mode, name) == ("on", "thinking"):
            continue  # its budget is closed without a word (MON-038)
        assert without_mode(lines) == without_mode(kept[name]), name


@pytest.mark.spec("MON-002", "MON-004", "MON-005", "MON-007", "MON-009")
async def test_h07_it_is_on_where_a_conductor_is_and_everything_turns_it_off(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """With nothing set but the conductor's directory."""
    loop = {"say": "items " * 1_100, "block": 32, "choose": {"chat": 0.9}}

    async with open_harness(conductor_config=tmp_path) as harness:

        async def copies(**headers: str) -> tuple[int, list[Any]]:
            call = await harness.client.send(CHAT, chat(loop), headers=headers)
            found = row_of(await rows(harness, call), "D3")
            return (said(call).content or "").count("items"), found

        found = ("GIVE_UP", "GIVE_UP", "answer_loop(period)")
        assert await copies() == (1_024, [found])
        page = (await harness.client.send("/metrics")).body.decode()
        assert 'tandem_conductor_decisions_total{decision="GIVE_UP",mode="act",task="D3"} 1.0' in page
        assert await copies(**{"x-tandem": "raw"}) == (1_100, [])
        assert await copies(**{"x-tandem": "off"}) == (1_100, [])
        assert await copies(**{"x-tandem": "shadow"}) == (1_100, [("GIVE_UP", None, "answer_loop(period)")])
        assert await copies(**{"x-tandem-profile": "bench"}) == (1_100, [])
        document = await profile(harness, "general")
        await put(harness, "profiles/general", {**document, "tasks": {**document["tasks"], "D3": {"mode": "off"}}})
        assert await copies() == (1_100, [])
    async with open_harness(conductor_config=tmp_path, conductor="raw") as harness:
        call = await harness.client.send(CHAT, chat(loop), headers={"x-tandem-profile": "coding"})
        assert (said(call).content or "").count("items") == 1_100
        assert call.headers["x-tandem"] == "on", "the router's mode is its own"
        assert await rows(harness, call) == []


@pytest.mark.spec("MON-009", "MON-012")
async def test_side_requests_and_text_completions_go_by(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    loop = {"say": "items " * 1_100, "block": 32}
    async with open_stage(tmp_path) as harness:
        text = await harness.client.send(
            "/v1/completions", {"prompt": f"@fake {json.dumps(loop)}", "max_tokens": 2_000}
        )
        assert text.json["choices"][0]["text"].count("items") == 1_100
        assert await rows(harness, text) == []
        title = [
            {"role": "system", "content": "You are a title generator. You output ONLY a thread title. Nothing else."},
            {"role": "user", "content": "Generate a title: hi"},
        ]
        side = await harness.client.send(CHAT, {"model": "M", "messages": title})
        assert side.status == 200
        assert await rows(harness, side) == []
        assert await rows(harness, await send(harness, {"say": "Five."}, mode="raw")) == []
