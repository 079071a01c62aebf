"""Small bodies and values that the tests of this folder share."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.text.reading.deltas import (
    CallArguments,
    CallEnd,
    CallStart,
    Delta,
    Finish,
    FinishReason,
    Timings,
    Usage,
)
from tandem.http.openai.errors import ApiError
from tandem.http.openai.requests import ChatRequest, CompletionRequest, parse_chat, parse_completion

__all__ = ["CALL", "VOCABULARY", "Names", "ask", "complete", "finish", "is_token", "refusal_of", "tool"]

VOCABULARY = 1000


def is_token(token: int) -> bool:
    return 0 <= token < VOCABULARY


def ask(**fields: Any) -> ChatRequest:
    """A chat request with one user message and these fields."""
    return parse_chat({"messages": [{"role": "user", "content": "hi"}], **fields}, is_token)


def complete(**fields: Any) -> CompletionRequest:
    return parse_completion({"prompt": "once", **fields}, is_token)


def tool(name: str = "ls") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


USAGE = Usage(prompt=7, cached=3, completion=5, reasoning=2, engine_cached=3, engine_prompt=4)
TIMES = Timings(queue_ms=10, prompt_ms=20, predicted_ms=40, total_ms=75, blocks=2)


CALL: list[Delta] = [CallStart(0, "c", "ls"), CallArguments(0, '{"a"'), CallArguments(0, ":1}"), CallEnd(0)]


def finish(reason: FinishReason = "stop", *, usage: Usage = USAGE, timings: Timings = TIMES) -> Finish:
    return Finish(reason, usage, timings)


class Names:
    """Token n is the n-th of these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def name(self, token: int) -> str:
        return self.pieces[token].decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        return self.pieces[token]


def refusal_of(fields: dict[str, Any], route: str = "chat") -> ApiError:
    body = {"messages": [{"role": "user", "content": "hi"}]} if route == "chat" else {"prompt": "p"}
    parse = parse_chat if route == "chat" else parse_completion
    with pytest.raises(ApiError) as refusal:
        parse({**body, **fields}, is_token)
    assert refusal.value.status == 400
    assert refusal.value.type == "invalid_request_error"
    return refusal.value
