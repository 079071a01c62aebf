"""A follow-up whose client has changed its history, over HTTP: the journal's row and the log's line (ENG-177)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.actors.store import Flush
from tests.service.harness import Harness, open_harness
from tests.service.test_conductor_routes import EVENTS, validate

CHAT = "/v1/chat/completions"
LONG = "Explain every one of these words. " + "word " * 300
ANSWER = {"role": "assistant", "content": "Here they are."}
MORE = {"role": "user", "content": "And the last one?"}


def asked(clock: str, *more: dict[str, str], mark: str = "") -> list[dict[str, str]]:
    system = {"role": "system", "content": f"Current time is {clock}. Be short."}
    return [system, {"role": "user", "content": LONG + mark}, *more]


async def send(harness: Harness, messages: Sequence[dict[str, str]], **more: Any) -> Any:
    call = await harness.client.send(CHAT, {"model": "M", "messages": messages, "max_tokens": 4, **more})
    assert call.status == 200, call.body
    await trio.testing.wait_all_tasks_blocked()
    return call.json


async def rows(harness: Harness) -> list[dict[str, Any]]:
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send(f"{EVENTS}?kind=miss")
    validate("conductor-events", call.json)
    events: list[dict[str, Any]] = call.json["events"]
    return events


@pytest.mark.spec("ENG-177", "OBS-021", "JRN-005")
async def test_a_miss_is_a_row_and_a_line(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_harness(conductor_config=tmp_path, ledger=tmp_path / "ledger.sqlite3") as harness:
        with caplog.at_level(logging.INFO):
            await send(harness, asked("15:09:20"))
            body = await send(harness, asked("15:09:34", ANSWER, MORE))
        [row] = await rows(harness)
    assert (row["request_id"], row["kind"], row["decision"]) == (body["id"], "miss", "clock")
    assert row["session_key"].startswith("h:")
    detail = row["detail"]
    assert (detail["message"], detail["field"], detail["byte"], detail["text"]) == (0, "content", 16, "clock")
    assert row["position"] == detail["position"] > 0
    assert detail["resumed"] == body["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert detail["read_again"] == detail["last"] - detail["resumed"]
    assert detail["seconds"] >= 0
    assert "word" not in row["summary"]
    assert f"[cache] {body['id']} {row['summary']}" in caplog.messages


@pytest.mark.spec("ENG-177")
async def test_whoever_repeats_has_no_row(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """Nor has one whose prompt was not read, a text completion, or another client."""
    async with open_harness(conductor_config=tmp_path, ledger=tmp_path / "ledger.sqlite3") as harness:
        await send(harness, asked("15:09:20"), session_id="a")
        await send(harness, asked("15:09:20", ANSWER, MORE), session_id="a")
        other = await harness.client.send(
            CHAT,
            {"model": "M", "messages": asked("15:09:34"), "max_tokens": 4, "session_id": "a"},
            headers={"authorization": "Bearer another"},
        )
        assert other.status == 200
        await harness.client.send("/v1/completions", {"model": "M", "prompt": "Hi", "max_tokens": 2})
        assert await rows(harness) == []


@pytest.mark.spec("ENG-177")
async def test_a_stream_that_is_left_is_looked_at_too(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path, ledger=tmp_path / "ledger.sqlite3") as harness:
        await send(harness, asked("15:09:20"), session_id="a")
        body = {"model": "M", "messages": asked("15:09:20", ANSWER, MORE, mark="!"), "session_id": "a"}
        call = harness.client.start(CHAT, {**body, "stream": True, "max_tokens": 500})
        await call.wait_for_piece(3)
        call.leave()
        await call.finished.wait()
        await trio.testing.wait_all_tasks_blocked()
        [row] = await rows(harness)
    assert (row["decision"], row["detail"]["message"], row["detail"]["byte"]) == ("edited", 1, len(LONG))


@pytest.mark.spec("ENG-177")
async def test_a_fault_of_the_search_harms_no_answer(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("tandem.http.misses.find_miss", fail)
    async with open_harness(conductor_config=tmp_path, ledger=tmp_path / "ledger.sqlite3") as harness:
        await send(harness, asked("15:09:20"))
        await send(harness, asked("15:09:34", ANSWER, MORE))
        assert await rows(harness) == []
