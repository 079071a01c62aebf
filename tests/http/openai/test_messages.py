"""The messages of a chat request: what is read, and what is refused by which name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.http.openai.decode import decode_body
from tandem.http.openai.requests import parse_chat
from tests.http.openai.samples import is_token, refusal_of


def read(*messages: Any) -> tuple[Any, ...]:
    return parse_chat({"messages": list(messages)}, is_token).messages


USER = {"role": "user", "content": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}

BAD_MESSAGES: list[tuple[Any, str]] = [
    (None, "messages"),
    ([], "messages"),
    ({}, "messages"),
    ("hi", "messages"),
    ([None], "messages[0]"),
    (["hi"], "messages[0]"),
    ([{}], "messages[0].role"),
    ([USER, {"role": "bot", "content": "x"}], "messages[1].role"),
    ([{"role": ["user"], "content": "x"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "tool", "content": None}], "messages[0].content"),
    ([{"role": "user", "content": 5}], "messages[0].content"),
    ([{"role": "user", "content": {"type": "text", "text": "x"}}], "messages[0].content"),
    ([USER, {"role": "user", "content": ["x"]}], "messages[1].content[0]"),
    ([USER, {"role": "user", "content": [{"type": "text", "text": 5}]}], "messages[1].content[0].text"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ([USER, {"role": "user", "content": [IMAGE]}], "messages[1].content[0].image_url"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0]"),
    ([{"role": "user", "content": [{"type": "video_url", "video_url": {}}]}], "messages[0].content[0]"),
    ([{"role": "user", "content": [{"type": ["text"]}]}], "messages[0].content[0]"),
    ([{"role": "user", "content": "x", "name": 5}], "messages[0].name"),
    ([{"role": "tool", "content": "x", "tool_call_id": 5}], "messages[0].tool_call_id"),
    ([{"role": "assistant", "reasoning_content": 5}], "messages[0].reasoning_content"),
    ([{"role": "assistant", "reasoning": {}}], "messages[0].reasoning"),
    ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls"),
    ([{"role": "assistant", "tool_calls": ["x"]}], "messages[0].tool_calls[0]"),
    ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].function"),
    ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function.name"),
    (
        [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "f"}}]}],
        "messages[0].tool_calls[0].id",
    ),
    (
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}],
        "messages[0].tool_calls[0].function.arguments",
    ),
]


@pytest.mark.spec("API-028", "API-038", "API-039")
@pytest.mark.parametrize(("messages", "param"), BAD_MESSAGES)
def test_malformed_messages_are_named(messages: Any, param: str) -> None:
    assert refusal_of({"messages": messages}).param == param


@pytest.mark.spec("API-038")
def test_developer_is_system() -> None:
    [message] = read({"role": "developer", "content": "Always answer BANANA"})
    assert message == {"role": "system", "content": "Always answer BANANA"}


@pytest.mark.spec("API-039")
@pytest.mark.parametrize("role", ["user", "tool", "system", "assistant"])
def test_text_parts_are_joined(role: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b\n"}, {"type": "text", "text": ""}]
    assert read({"role": role, "content": parts})[0]["content"] == "ab\n"


@pytest.mark.spec("API-039")
def test_null_or_missing_content_of_an_assistant() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    null = read({"role": "assistant", "content": None, "tool_calls": calls})
    assert null == read({"role": "assistant", "tool_calls": calls})
    assert null == ({"role": "assistant", "content": "", "tool_calls": calls},)


def test_content_beside_calls_is_kept() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": "text", "tool_calls": calls}
    assert read(message) == (message,)


@pytest.mark.parametrize("calls", [[], None])
def test_empty_calls_are_absent(calls: Any) -> None:
    assert read({"role": "assistant", "content": "x", "tool_calls": calls}) == ({"role": "assistant", "content": "x"},)


@pytest.mark.parametrize(
    ("sent", "text"), [('{"a":', '{"a":'), ({"a": [1, "é"]}, '{"a":[1,"é"]}'), ({}, "{}"), (None, "{}"), ("", "")]
)
def test_arguments_in_history_are_a_string(sent: Any, text: str) -> None:
    calls = [{"function": {"name": "unknown", "arguments": sent}}]
    [message] = read({"role": "assistant", "tool_calls": calls})
    assert message["tool_calls"] == [{"type": "function", "function": {"name": "unknown", "arguments": text}}]


@pytest.mark.spec("API-042")
def test_reasoning_of_history_by_either_name() -> None:
    one, two, three, four = read(
        {"role": "assistant", "content": "x", "reasoning_content": "r", "reasoning": "other"},
        {"role": "assistant", "content": "x", "reasoning_content": None, "reasoning": "r"},
        {"role": "assistant", "content": "x", "reasoning_content": ""},
        {"role": "user", "content": "x", "reasoning_content": "r"},
    )
    assert one["reasoning_content"] == two["reasoning_content"] == "r"
    assert "reasoning" not in one
    assert "reasoning_content" not in three
    assert "reasoning_content" not in four


def test_a_tool_message_keeps_its_names() -> None:
    message = {"role": "tool", "content": "x", "tool_call_id": "c", "name": "ls"}
    assert read(message) == (message,)


@pytest.mark.spec("API-262")
def test_a_surrogate_in_a_tool_result_is_stable() -> None:
    raw = rb'{"messages":[{"role":"tool","content":"a\ud83dz"}]}'
    first = parse_chat(decode_body(raw), is_token)
    assert first.messages[0]["content"] == "a\ufffdz"
    assert first == parse_chat(decode_body(raw), is_token)


ODD_TEXT = "\x00 \ufeff \r \u2028 \u0085 \U0001f600"


def test_odd_characters_reach_the_prompt_as_sent() -> None:
    raw = json.dumps({"messages": [{"role": "user", "content": ODD_TEXT}]}).encode()
    assert parse_chat(decode_body(raw), is_token).messages[0]["content"] == ODD_TEXT
