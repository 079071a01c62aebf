"""What a response says, streamed or not, gathered as strictly as the strictest client gathers it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.service.harness import Call

__all__ = ["Said", "ToolCall", "all_said", "said"]


@dataclass(slots=True)
class ToolCall:
    """One call; `arguments` as sent."""

    id: str
    name: str
    arguments: str

    @property
    def values(self) -> Any:
        return json.loads(self.arguments)


@dataclass(slots=True)
class Said:
    """One choice."""

    content: str | None = None
    reasoning: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)


def said(call: Call) -> Said:
    """The only choice of a response."""
    [only] = all_said(call)
    return only


def all_said(call: Call) -> list[Said]:
    """Every choice, in order."""
    assert call.status == 200, call.body
    if call.headers["content-type"].startswith("text/event-stream"):
        return [_streamed(call)]
    body = call.json
    return [_choice(choice, body["usage"]) for choice in body["choices"]]


def _choice(choice: dict[str, Any], usage: dict[str, Any]) -> Said:
    message = choice["message"]
    assert message.get("reasoning") == message.get("reasoning_content")
    calls = message.get("tool_calls", [])
    assert all(each["type"] == "function" for each in calls)
    return Said(
        content=message["content"],
        reasoning=message.get("reasoning_content"),
        calls=[ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in calls],
        finish=choice["finish_reason"],
        usage=usage,
    )


def _streamed(call: Call) -> Said:
    assert call.is_done
    total = Said()
    for chunk in call.chunks:
        total.usage = chunk.get("usage") or total.usage
        for choice in chunk["choices"]:
            assert total.finish is None, "a choice after the end"
            _add(total, choice["delta"])
            total.finish = choice["finish_reason"]
    if total.calls and not total.content:
        total.content = None  # as the body has it
    return total


def _add(total: Said, delta: dict[str, Any]) -> None:
    assert delta.get("reasoning") == delta.get("reasoning_content")
    if "content" in delta:
        assert isinstance(delta["content"], str)
        total.content = (total.content or "") + delta["content"]
    if "reasoning_content" in delta:
        total.reasoning = (total.reasoning or "") + delta["reasoning_content"]
    for piece in delta.get("tool_calls", ()):
        _add_call(total.calls, piece)


def _add_call(calls: list[ToolCall], piece: dict[str, Any]) -> None:
    function = piece["function"]
    if piece["index"] == len(calls):
        assert piece["type"] == "function"
        assert function["arguments"] == ""
        calls.append(ToolCall(piece["id"], function["name"], ""))
        return
    assert piece["index"] == len(calls) - 1, "calls come one after the other"
    assert piece.keys() == {"index", "function"}
    assert function.keys() == {"arguments"}
    calls[-1].arguments += function["arguments"]
