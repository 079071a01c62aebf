"""Tandem's own request headers, and switches of a body that change nothing on the raw path."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing

from tests.service.harness import chat, open_harness
from tests.service.said import said

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SAY = {"say": "<think>why</think>so"}


@pytest.mark.spec("API-065")
@pytest.mark.parametrize("value", [None, "raw", "shadow", "on", "off", "Raw"])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_without_a_router_every_mode_is_raw(
    autojump_clock: trio.testing.MockClock, value: str | None, path: str
) -> None:
    body = chat(SAY) if path == CHAT else {"prompt": "hi"}
    async with open_harness() as harness:
        call = await harness.client.send(path, body, headers={"x-tandem": value})
        assert call.status == 200
        assert call.headers["x-tandem"] == "raw"
        assert "x-tandem-profile" not in call.headers


@pytest.mark.spec("API-065", "API-023", "API-178")
@pytest.mark.parametrize(
    ("header", "value"),
    [("X-Tandem", "fast"), ("X-Tandem", ""), ("X-Tandem-Regenerate", "yes"), ("X-Tandem-Regenerate", "2")],
)
async def test_a_value_that_a_header_does_not_take(
    autojump_clock: trio.testing.MockClock, header: str, value: str
) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat(SAY), headers={header.lower(): value})
        assert (call.status, call.json["error"]["param"]) == (400, header)
        assert call.headers["x-tandem"] == "raw"


@pytest.mark.spec("API-079")
@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"x-tandem-probe": "off"}, {}),
        ({"x-tandem-regenerate": "0"}, {}),
        ({"x-tandem-regenerate": "1"}, {}),
        ({}, {"reasoning": {"exclude": True}}),
        ({}, {"reasoning": {"exclude": False}}),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_changes_no_token_of_a_raw_answer(
    autojump_clock: trio.testing.MockClock, headers: dict[str, str], fields: dict[str, Any], stream: bool
) -> None:
    async with open_harness() as harness:
        plain = said(await harness.client.send(CHAT, chat(SAY, stream=stream)))
        call = await harness.client.send(CHAT, chat(SAY, stream=stream, **fields), headers=headers)
        assert said(call) == plain
        assert plain.reasoning == "why"
