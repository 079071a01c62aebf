"""Case S: images a model cannot see, addresses nobody may reach, and secrets."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio.testing

from tests.service.cases.asking import CHAT, STREAMED, TEXT, Recording, ask, refused, take_turn, tool
from tests.service.harness import chat, fake, open_harness

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)
URLS = (
    PIXEL,
    "https://example.com/a.png",
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:127.0.0.1]/",
    "http://2130706433/",
    "https://127.0.0.1/a.png",
    "https://localhost:8000/v1/cache/clear",
    "https://metadata.google.internal/",
    "https://user:password@example.com/",
    "file:///etc/passwd",
    "ftp://example.com/a.png",
    "javascript:alert(1)",
    "data:text/html;base64,PGI+",
    "",
    "x" * 5000,
)
SECRETS = (
    "sk-proj-9f3kq2Zx81LmVt77Qw",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "-----BEGIN RSA PRIVATE KEY-----",
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever asks for a name or a connection fails the test."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something wants the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(trio.socket, "getaddrinfo", refuse)


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@STREAMED
@pytest.mark.usefixtures("no_network")
@pytest.mark.spec("API-182", "API-023", "API-194")
async def test_s01_s02_s04_an_image_is_a_400_that_names_its_part(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """Whatever its address and wherever it stands: nothing is dropped and nothing is fetched."""
    ways: list[dict[str, Any]] = [{}, {"vision": False}, {"image_https": False}, {"image_https_private": True}]
    for settings in ways:
        async with open_harness(**settings) as harness:
            for url in URLS:
                for role in ("user", "assistant", "tool", "system", "developer"):
                    part = {"type": "text", "text": "look"}
                    messages = [
                        {"role": "user", "content": "hi"},
                        {"role": role, "tool_call_id": "c", "content": [part, image(url)]},
                        {"role": "user", "content": "and?"},
                    ]
                    error = await refused(harness, {"messages": messages, "stream": stream})
                    assert error["param"] == "messages[1].content[1].image_url"
                    assert "image" in error["message"]
                    assert not url or url not in error["message"]
            assert not [call for call in harness.engine.calls if call.verb == "open"]
            answer = await ask(harness, "fine", stream=stream)
            assert answer.content == "fine"


@pytest.mark.usefixtures("no_network")
@pytest.mark.spec("API-182", "API-039", "API-023")
async def test_s04_shapes_of_parts(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for part in (
            {"type": "image_url"},
            {"type": "image_url", "image_url": PIXEL},
            {"type": "image_url", "image_url": {"url": None}},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}},
            {"type": "image", "source": {"type": "base64", "data": "x"}},
            {"type": "input_image", "image_url": PIXEL},
            {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
            {"type": "image_url", "text": "not text"},
        ):
            error = await refused(harness, {"messages": [{"role": "user", "content": [part]}]})
            assert error["param"].startswith("messages[0].content[0]")
        # The first of several is named, on every turn of the conversation that holds it.
        many = [{"type": "text", "text": "a"}, image(PIXEL), image(URLS[1])]
        history = [
            {"role": "user", "content": many},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "y"},
        ]
        for messages in (history[:1], history):
            error = await refused(harness, {"messages": messages})
            assert error["param"] == "messages[0].content[1].image_url"


@STREAMED
@pytest.mark.spec("API-207", "API-208", "API-027", "OBS-048")
async def test_s05_secrets_reach_the_model_and_nothing_else(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    """In messages, results, calls, tools and stop strings; of answers and of requests that are refused."""
    caplog.set_level("DEBUG")
    async with open_harness(engine=Recording()) as harness:
        for secret in SECRETS:
            call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": f'{{"a": "{secret}"}}'}}
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": secret},
                {"role": "user", "content": fake(say="ignored", turns=[{"say": f"<think>{secret}</think>{secret}"}])},
                {"role": "assistant", "content": secret, "reasoning": secret, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": secret},
            ]
            fields: dict[str, Any] = {
                "tools": [tool("f", {"a": {"type": "string", "description": secret}})],
                "user": secret,
            }
            turn = await take_turn(harness, messages, stream=stream, **fields)
            read = b"".join(map(harness.engine.text.piece, turn.prompt)).decode()
            assert read.count(secret) >= 5
            assert (turn.said.reasoning, turn.said.content) == (secret, secret)
            for bad in (
                {
                    "messages": [
                        *messages,
                        {"role": "user", "content": [{"type": "input_audio", "input_audio": secret}]},
                    ]
                },
                {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": secret, "arguments": 5}}]}]},
                {"messages": [{"role": "user", "content": [image(f"https://{secret}@example.com/")]}]},
                {"messages": messages, "stop": ["", secret]},
                {"messages": messages, "tools": [{"type": "function", "function": {"description": secret}}]},
                {
                    "messages": messages,
                    "tools": [tool("f", {"a": {"type": "string", "pattern": f"({secret}"}})],
                    "tool_choice": "required",
                },
                {
                    "messages": messages,
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"schema": {"const": 1, "$ref": f"https://{secret}"}},
                    },
                },
                {"messages": messages, "structured_outputs": {"regex": f"(?={secret})"}},
                {"messages": [{"role": "user", "content": f'@fake {{"say": "{secret}", "x": 1}}'}]},
                {
                    "messages": messages,
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"schema": {"enum": [secret], "type": "integer"}},
                    },
                },
            ):
                refusal = await harness.client.send(CHAT, {**bad, "stream": stream})
                assert refusal.status == 400, bad
                assert secret.encode() not in refusal.body, bad
            broken = await harness.client.send(CHAT, f'{{"messages": "{secret}'.encode(), method="POST")
            assert (broken.status, secret.encode() in broken.body) == (400, False)
            failed = await harness.client.send(CHAT, chat({"say": [secret, "x"], "fail_at": 0}, stream=stream))
            assert (failed.status, secret.encode() in failed.body) == (500, False)
            text = await harness.client.send(TEXT, {"prompt": [secret, secret], "stream": stream})
            assert (text.status, secret.encode() in text.body) == (400, False)
        await harness.look()
        for secret in SECRETS:
            assert secret not in caplog.text
            assert secret not in repr(harness.outcomes)
