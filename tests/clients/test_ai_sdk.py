"""The Vercel AI SDK with its provider for compatible servers, one script of tests/clients/ a scenario."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log, written
from tests.e2e.conftest import Start
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted

HERE = Path(__file__).parent
WEATHER = written("weather", place="Kiel", days=2)

Scenario: TypeAlias = Callable[[str, Server, str], list[Any]]


@pytest.fixture
def scenario(installed: Installed, tmp_path: Path) -> Scenario:
    """`scenario("name", server, prompt)`: what ai_sdk_name.mjs prints, a JSON value a line."""
    client = Client(tmp_path)
    (client.folder / "node_modules").symlink_to(installed("ai-sdk") / "node_modules")
    for script in HERE.glob("ai_sdk_*.mjs"):
        shutil.copy(script, client.folder)

    def run(name: str, server: Server, prompt: str) -> list[Any]:
        out = client.run("node", f"ai_sdk_{name}.mjs", BASE=server.base, PROMPT=prompt)
        return [json.loads(line) for line in out.splitlines()]

    return run


def joined(parts: list[Any], kind: str) -> str:
    return "".join(part["text"] for part in parts if part["type"] == kind)


@pytest.mark.spec("API-074", "API-138", "API-140", "API-154", "API-257")
def test_reasoning_text_and_usage(scenario: Scenario, fake: Server) -> None:
    log = Log(fake)
    parts = scenario("stream", fake, scripted(say="<think>Two and two. </think>\n\nIt is four."))
    kinds = [part["type"] for part in parts]
    assert joined(parts, "reasoning-delta") == "Two and two. "
    assert joined(parts, "text-delta") == "It is four."
    assert kinds.index("reasoning-end") < kinds.index("text-start")
    [end] = [part for part in parts if part["type"] == "finish"]
    usage = end["totalUsage"]
    [line] = log.lines(1)
    assert end["finishReason"] == "stop"
    assert usage["inputTokens"] == int(line["prompt_tokens"])
    assert usage["outputTokens"] == int(line["completion_tokens"])
    assert usage["inputTokenDetails"]["cacheReadTokens"] == int(line["cached_tokens"])
    assert usage["outputTokenDetails"]["reasoningTokens"] == int(line["reasoning_tokens"]) > 0


@pytest.mark.spec("API-145", "API-165")
def test_an_error_chunk_is_an_error_part_after_the_text(scenario: Scenario, fake: Server) -> None:
    parts = scenario("stream", fake, scripted(say="one two three", fail_at=2))
    assert joined(parts, "text-delta") == "one two"
    [error] = [part["error"] for part in parts if part["type"] == "error"]
    assert "the server failed" in json.dumps(error)
    [end] = [part for part in parts if part["type"] == "finish"]
    assert end["finishReason"] == "error"


@pytest.mark.spec("API-042", "API-104", "API-105", "API-109")
def test_a_call_its_result_and_the_answer(scenario: Scenario, fake: Server) -> None:
    log = Log(fake)
    answer = {"say": "<think>Clear.</think>\n\nIt will be clear in Kiel."}
    prompt = scripted(say=f"<think>I ask.</think>\n\nLet me see.\n{WEATHER}", turns=[answer])
    [out] = scenario("tools", fake, prompt)
    first, second = out["steps"]
    [call], [result] = first["calls"], first["results"]
    assert (call["toolName"], call["input"]) == ("weather", {"place": "Kiel", "days": 2})
    assert "invalid" not in call
    assert (result["toolCallId"], result["output"]["sky"]) == (call["toolCallId"], "clear")
    assert (first["text"], first["reasoning"], first["finishReason"]) == ("Let me see.", "I ask.", "tool-calls")
    assert (second["text"], second["reasoning"], second["finishReason"]) == (out["text"], "Clear.", "stop")
    assert out["text"] == "It will be clear in Kiel."
    assert [line["finish"] for line in log.lines(2)] == ["tool_calls", "stop"]


@pytest.mark.spec("API-125", "API-126", "API-129", "API-130")
def test_an_object_as_schema_as_json_object_and_streamed(scenario: Scenario, fake: Server) -> None:
    made = {"name": "Jo", "age": None, "tags": ["b", "a"], "home": {"city": "Ærø", "far": True}}
    say = f"<think>An {{object}}.</think>\n\n{json.dumps(made, ensure_ascii=False)}"
    schema, free, streamed = scenario("object", fake, scripted(say=say))
    assert [out["object"] for out in (schema, free, streamed)] == [made] * 3
    assert [out["finishReason"] for out in (schema, free, streamed)] == ["stop"] * 3
    assert schema["reasoning"] == free["reasoning"] == "An {object}."
    assert streamed["parts"] > 5


@pytest.mark.spec("API-023", "API-045", "API-167")
def test_a_refusal_and_leaving(scenario: Scenario, start: Start) -> None:
    server = start("--max-len", "512")
    log = Log(server)
    refused, left = scenario("failures", server, scripted(say="word ", loop=True, token_ms=20))
    assert (refused["name"], refused["statusCode"], refused["isRetryable"]) == ("AI_APICallError", 400, False)
    assert "maximum context length is 512 tokens" in refused["message"]
    assert left["text"].startswith("word")
    assert [line["finish"] for line in log.lines(2)] == ["refused", "abandoned"]
