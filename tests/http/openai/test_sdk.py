"""The openai SDK reads whole streams made here, over a transport without a network."""

from __future__ import annotations

import httpx2
import openai
import pytest

from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from tandem.http.openai import comments, errors
from tandem.http.openai.chunks import ChatStream
from tests.http.openai.samples import finish


def client(raw: bytes) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=raw)

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(base_url="http://test/v1", api_key="k", http_client=transport, max_retries=0)


@pytest.mark.spec("API-136", "API-138", "API-140")
def test_the_accumulator_gets_the_whole_answer() -> None:
    stream = ChatStream(id="chatcmpl-1", created=7, model="M", include_usage=True)
    call: list[Delta] = [CallStart(0, "c", "f"), CallArguments(0, '{"a"'), CallArguments(0, ":1}"), CallEnd(0)]
    raw = comments.waiting(1, 10) + stream.open() + stream.feed([Reasoning("r"), Content("a\u2028b\r")])
    raw += comments.PING + stream.feed([*call, finish("tool_calls")])
    with client(raw).chat.completions.stream(model="M", messages=[]) as events:
        for _ in events:
            pass
        whole = events.get_final_completion()
    [choice] = whole.choices
    assert (choice.message.content, choice.finish_reason) == ("a\u2028b\r", "tool_calls")
    assert [(call.id, call.function.arguments) for call in choice.message.tool_calls or []] == [("c", '{"a":1}')]
    assert whole.usage is not None
    assert whole.usage.total_tokens == 12


@pytest.mark.spec("API-145", "API-165")
def test_a_failure_in_mid_stream_is_an_error_there() -> None:
    stream = ChatStream(id="chatcmpl-1", created=7, model="M")
    raw = stream.open() + stream.feed([Content("so far")]) + stream.fail(errors.memory())
    got: list[object] = []
    with pytest.raises(openai.APIError) as failure:
        got.extend(client(raw).chat.completions.create(model="M", messages=[], stream=True))
    assert isinstance(failure.value.body, dict)
    assert (failure.value.body["code"], failure.value.body["status"]) == ("memory", 503)
