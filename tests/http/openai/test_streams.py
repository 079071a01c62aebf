"""Streams of both routes: order, framing, counts, and what the SDK's own types think of each chunk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletionChunk

from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Finish,
    FinishReason,
    Line,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
    Timings,
    Usage,
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai import errors
from tandem.http.openai.chunks import ChatStream
from tandem.http.openai.streams import CompletionStream
from tests.http.openai.samples import Names, finish
from tests.http.openai.sse import content_of, events, objects

ODD = ["\x00", "\ufeff", "\r", "\n\n", "\u2028", "\u2029", "\u0085", "\x0b", "\x1c", '"', "\\", "data: ", "[DONE]"]
texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(ODD), max_size=4).map("".join)


def chat(**options: Any) -> ChatStream:
    return ChatStream(id="chatcmpl-1", created=7, model="TandemLLM", **options)


def completion(**options: Any) -> CompletionStream:
    return CompletionStream(id="cmpl-1", created=7, model="TandemLLM", **options)


def run(stream: ChatStream | CompletionStream, *deltas: Delta) -> list[dict[str, Any]]:
    return objects(stream.open() + stream.feed(deltas))


@pytest.mark.spec("API-136", "API-137", "API-138", "API-140")
def test_a_plain_chat_stream() -> None:
    chunks = run(chat(), Content("Hel"), Content("lo"), finish())
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
        head = (chunk["id"], chunk["object"], chunk["created"], chunk["model"])
        assert head == ("chatcmpl-1", "chat.completion.chunk", 7, "TandemLLM")
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert [name for name in ("usage", "timings") if name in chunks[-1]] == ["usage", "timings"]
    assert not any("usage" in chunk for chunk in chunks[:-1])


@pytest.mark.spec("API-140")
def test_usage_in_a_chunk_of_its_own() -> None:
    *chunks, last = run(chat(include_usage=True), Content("a"), finish())
    for chunk in [*chunks, last]:
        ChatCompletionChunk.model_validate(chunk)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 12
    assert "timings" in last


@pytest.mark.spec("API-140")
@pytest.mark.parametrize("options", [{"include_usage": False}, {"usage_default": False}])
def test_no_usage(options: dict[str, bool]) -> None:
    for stream in (chat(**options), completion(**options)):
        chunks = run(stream, Content("a"), finish())
        assert not any("usage" in chunk or "timings" in chunk for chunk in chunks)


@pytest.mark.spec("API-139")
def test_one_chunk_a_delta_and_one_write_a_block() -> None:
    block = chat().feed([Content("a"), Content(""), Content("b")])
    assert [json.loads(event)["choices"][0]["delta"]["content"] for event in events(block)] == ["a", "b"]


def test_reasoning_and_its_alias() -> None:
    deltas: list[Delta] = [Reasoning("hm"), Content("a"), finish()]
    chunks = run(chat(), *deltas)
    assert chunks[1]["choices"][0]["delta"] == {"reasoning_content": "hm", "reasoning": "hm"}
    chunks = run(chat(reasoning_alias=False), *deltas)
    assert chunks[1]["choices"][0]["delta"] == {"reasoning_content": "hm"}


def test_calls() -> None:
    chunks = run(
        chat(),
        CallStart(0, "call_a", "ls"),
        CallArguments(0, '{"p":'),
        CallArguments(0, '"é"}'),
        CallEnd(0),
        CallStart(1, "call_b", "pwd"),
        CallArguments(1, "{}"),
        CallEnd(1),
        Line("step", "never sent"),
        finish("tool_calls"),
    )
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls == [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "ls", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"p":'}},
        {"index": 0, "function": {"arguments": '"é"}'}},
        {"index": 1, "id": "call_b", "type": "function", "function": {"name": "pwd", "arguments": ""}},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.spec("API-048")
def test_a_text_completion_stream() -> None:
    chunks = run(completion(), Content("a"), Content("b"), finish("length"))
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "b", ""]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    Completion.model_validate(chunks[-1])


@pytest.mark.spec("API-163")
@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "timeout"])
def test_finish_reasons_go_out_as_they_are(reason: FinishReason) -> None:
    assert run(chat(), finish(reason))[-1]["choices"][0]["finish_reason"] == reason


@pytest.mark.spec("API-145", "API-162")
@pytest.mark.parametrize("include_usage", [None, True])
def test_a_failure_in_mid_stream(include_usage: bool | None) -> None:
    for stream in (chat(include_usage=include_usage), completion(include_usage=include_usage)):
        *_, sent, last = run(stream, Content("a"), finish("error"))
        assert sent["choices"][0].get("text", "a") == "a"
        assert last["choices"][0]["finish_reason"] == "error"
        assert last["error"]["status"] == 500
        assert last["usage"]["completion_tokens"] == 5
        assert stream.ended
        assert stream.feed([Content("late"), finish()]) == stream.fail(errors.internal()) == b""


@pytest.mark.spec("API-145")
@pytest.mark.parametrize(
    "error", [errors.queue_timeout(), errors.draining(), errors.memory(), errors.context_length_exceeded(9, 8)]
)
def test_a_refusal_after_the_stream_had_opened(error: errors.ApiError) -> None:
    stream = chat()
    [chunk] = objects(stream.fail(error))
    assert chunk["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "error"}]
    plain = json.loads(error.body())["error"]
    retry = {} if error.retry_after is None else {"retry_after": error.retry_after}
    assert chunk["error"] == {**plain, **retry}
    assert "usage" not in chunk


def test_a_client_that_left_gets_nothing() -> None:
    stream = chat()
    assert stream.feed([finish("abandoned")]) == b""
    assert stream.ended


@pytest.mark.spec("API-035")
def test_chat_logprobs() -> None:
    names = Names(b" h\xc3\xa9", b"\xf0\x9f", b"\x98\x80")
    entries = (
        TokenLogprob(0, -0.25, ((0, -0.25), (1, float("-inf")))),
        TokenLogprob(1, -1.0),
        TokenLogprob(2, -2.0),
    )
    chunks = run(chat(names=names), Content(" h\u00e9\U0001f600", entries), Content("plain"), finish())
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    first, second, third = chunks[1]["choices"][0]["logprobs"]["content"]
    assert first == {
        "token": " h\u00e9",
        "logprob": -0.25,
        "bytes": [32, 104, 195, 169],
        "top_logprobs": [
            {"token": " h\u00e9", "logprob": -0.25, "bytes": [32, 104, 195, 169]},
            {"token": "\ufffd", "logprob": -9999.0, "bytes": [240, 159]},
        ],
    }
    assert bytes(second["bytes"] + third["bytes"]).decode() == "\U0001f600"
    assert second["top_logprobs"] == []
    assert chunks[2]["choices"][0]["logprobs"] is None


@pytest.mark.spec("API-048")
def test_legacy_logprobs() -> None:
    names = Names(b" a", b"\xf0\x9f", b"\x98\x80", b"b")
    chunks = run(
        completion(names=names),
        Content(" a", (TokenLogprob(0, -0.5, ((3, -0.1),)),)),
        Content("held"),
        Content("\U0001f600b", (TokenLogprob(1, -1.0), TokenLogprob(2, -2.0), TokenLogprob(3, -3.0))),
        finish(),
    )
    for chunk in chunks[:-1]:
        Completion.model_validate({**chunk, "choices": [{**chunk["choices"][0], "finish_reason": "stop"}]})
    assert chunks[0]["choices"][0]["logprobs"] == {
        "tokens": [" a"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"b": -0.1, " a": -0.5}],
        "text_offset": [0],
    }
    assert chunks[2]["choices"][0]["logprobs"]["text_offset"] == [6, 6, 7]


@given(st.lists(st.tuples(st.sampled_from(["content", "reasoning_content", "arguments"]), texts), max_size=6))
def test_every_text_comes_back(pieces: list[tuple[str, str]]) -> None:
    kinds: dict[str, type[Content] | type[Reasoning]] = {"content": Content, "reasoning_content": Reasoning}
    deltas: list[Delta] = [CallStart(0, "c", "f")]
    deltas += [kinds[kind](text) if kind in kinds else CallArguments(0, text) for kind, text in pieces]
    chunks = run(chat(include_usage=True), *deltas, finish())
    for kind in kinds:
        assert content_of(chunks, kind) == "".join(text for name, text in pieces if name == kind)
    calls = [
        call for chunk in chunks if chunk["choices"] for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    joined = "".join(call["function"]["arguments"] for call in calls)
    assert joined == "".join(text for name, text in pieces if name == "arguments")


@given(texts)
def test_names_on_the_wire_do_not_break_a_frame(text: str) -> None:
    stream = ChatStream(id="chatcmpl-1", created=7, model=text or "m", names=None)
    assert objects(stream.open() + stream.feed([CallStart(0, text, text), finish()]))[0]["model"] == (text or "m")


def test_a_surrogate_from_a_tool_value_is_replaced() -> None:
    assert content_of(run(chat(), Content("a\ud83dz"), finish())) == "a\ufffdz"
    assert content_of(run(chat(), Content("\ud83d\ude00"), finish())) == "\U0001f600"


@pytest.mark.parametrize(
    "delta",
    [ReasoningStart(), Reasoning("x"), ReasoningEnd(), Blank("\n"), CallStart(0, "c", "f"), Line("step", "x")],
)
def test_a_text_completion_has_text_alone(delta: Delta) -> None:
    with pytest.raises(TypeError):
        completion().feed([delta])


def test_a_failure_before_anything_was_counted_has_no_usage() -> None:
    [chunk] = objects(chat().feed([Finish("error", Usage(), Timings())]))
    assert "usage" not in chunk
