"""A tiny `qwen3_5` with a tower, served by the command: thinking, tools and an image in one request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.engine.tiny.kinds import make_tiny
from tests.e2e.process import Server
from tests.e2e.wire import post
from tests.http.images.pictures import data_url, encoded, image_of

ROWS = 24
"""Of an image of 200 by 130 pixels."""
BUDGET = 16
TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}, "coats": {"enum": [1, 2]}},
            "required": ["colour", "coats"],
        },
    },
}


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("hybrid")
    server = Server.tandem(home, "--model", str(make_tiny("qwen3_5-vision", home / "tiny")))
    yield server
    assert server.stop() == 0, server.shown_log


def ask(server: Server, *, image: bool, **more: Any) -> dict[str, Any]:
    shown = [{"type": "image_url", "image_url": {"url": data_url(encoded(image_of(200, 130, "red")))}}] * image
    content = [*shown, {"type": "text", "text": "Paint it."}]
    body = {
        "messages": [{"role": "user", "content": content}],
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
        "max_tokens": 200,
        "thinking_budget_tokens": BUDGET,
        "reasoning_format": "reasoning_content",
        **more,
    }
    reply = post(server.port, body)
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json
    return found


@pytest.mark.spec("ENG-006", "ENG-090", "ENG-097", "ENG-098", "API-183")
def test_it_thinks_sees_and_calls(hybrid: Server) -> None:
    answer, blind = ask(hybrid, image=True), ask(hybrid, image=False)
    assert answer["usage"]["prompt_tokens"] == blind["usage"]["prompt_tokens"] + ROWS + 2, "and its two markers"
    for each in (answer, blind):
        [choice] = each["choices"]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["reasoning_content"]
        [call] = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "paint"
        arguments = json.loads(call["function"]["arguments"])
        assert arguments["colour"] in ("red", "blue")
        assert arguments["coats"] in (1, 2)
        assert each["usage"]["completion_tokens_details"]["reasoning_tokens"] <= BUDGET + 40, "and its closer"
