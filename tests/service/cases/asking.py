"""Asking a scripted service, and turns of one conversation with how much of the earlier prompt the later one finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.text.prompt import Prompt
from tests.service.harness import Harness, chat
from tests.service.said import Said, all_said, said

__all__ = [
    "BLOCK",
    "BLOCKS",
    "CHAT",
    "JSON_OBJECT",
    "STREAMED",
    "TEXT",
    "Recording",
    "Turn",
    "ask",
    "ask_all",
    "counted",
    "only_call",
    "refused",
    "returned",
    "schema_format",
    "shared",
    "take_turn",
    "tool",
    "written",
]

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
BLOCKS = (1, 3, 32)
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])
BLOCK = pytest.mark.parametrize("block", BLOCKS)
JSON_OBJECT: dict[str, Any] = {"response_format": {"type": "json_object"}}


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    """The field that asks for a document of this schema."""
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A function tool with these properties, all required; a word stands for a schema of this type."""
    shown = {key: {"type": schema} if isinstance(schema, str) else schema for key, schema in (properties or {}).items()}
    schema = {"type": "object", "properties": shown, "required": list(shown), **more}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def written(name: str, **values: object) -> str:
    """A call as the model writes it."""
    shown = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in shown.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


async def ask(harness: Harness, say: Any, *, stream: bool, block: int = 1, **fields: Any) -> Said:
    """What a user gets to whom the model says this."""
    call = await harness.client.send(CHAT, chat({"say": say, "block": block}, stream=stream, **fields))
    return said(call)


async def ask_all(harness: Harness, say: Any, n: int = 2, **fields: Any) -> list[Said]:
    """The same with several choices, which are never streamed."""
    return all_said(await harness.client.send(CHAT, chat({"say": say}, n=n, **fields)))


async def refused(harness: Harness, body: Any, path: str = CHAT) -> dict[str, Any]:
    """The error of a 400."""
    call = await harness.client.send(path, body)
    assert call.status == 400, call.body
    error: dict[str, Any] = call.json["error"]
    assert (error["type"], error["status"]) == ("invalid_request_error", 400)
    return error


def only_call(answer: Said) -> tuple[str, Any]:
    """Name and arguments of the one call."""
    [call] = answer.calls
    return call.name, call.values


def counted(answer: Said) -> tuple[int, int]:
    """Completion and reasoning tokens. The prompt holds the script, and so is not the same with another block size."""
    return answer.usage["completion_tokens"], answer.usage["completion_tokens_details"]["reasoning_tokens"]


class Recording(FakeEngine):
    """Keeps the sequences it has opened."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.opened: list[FakeSeq] = []

    def open(self, prompt: Prompt) -> FakeSeq:
        seq = super().open(prompt)
        self.opened.append(seq)
        return seq


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation: what it read, what was read and written together, and what the client got."""

    prompt: tuple[int, ...]
    whole: tuple[int, ...]
    said: Said


async def take_turn(harness: Harness, messages: Sequence[dict[str, Any]], *, stream: bool, **fields: Any) -> Turn:
    """Send the messages to a service over a `Recording`."""
    call = await harness.client.send(CHAT, {"model": "M", "messages": list(messages), "stream": stream, **fields})
    answer = said(call)
    assert isinstance(harness.engine, Recording)
    seq = harness.engine.opened[-1]
    return Turn(seq.prompt.ids, (*seq.prompt.ids, *seq.output), answer)


def returned(answer: Said) -> dict[str, Any]:
    """The assistant message that a client sends back for an answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning is not None:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return message


def shared(earlier: Sequence[int], later: Sequence[int]) -> int:
    """How many tokens at its head the later prompt has in common with what an engine holds of the earlier turn."""
    pairs = zip(earlier, later, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(earlier), len(later)))
