"""Cases J, N and O: the window, the usage, and errors and comments on a stream."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from tests.service.cases.asking import (
    CHAT,
    JSON_OBJECT,
    STREAMED,
    TEXT,
    Recording,
    ask,
    counted,
    returned,
    shared,
    take_turn,
    tool,
    written,
)
from tests.service.harness import Call, Harness, chat, fake, open_harness
from tests.service.said import said

WINDOW = 400
LS = tool("ls", {"path": "string"})
FRAME = re.compile(rb"(?::[ ][^\r\n]+|data: (?:\[DONE\]|\{[^\r\n]*\}))\n\n")
"""A comment or one line of data, and a blank line."""


def check_frames(call: Call) -> None:
    """The body is whole frames and nothing else; `[DONE]` is the last."""
    at = 0
    while at < len(call.body):
        match = FRAME.match(call.body, at)
        assert match, call.body[at : at + 80]
        at = match.end()
    assert call.body.endswith(b"data: [DONE]\n\n")
    assert call.body.count(b"[DONE]") == 1


def padded(tokens: int) -> str:
    """Text of as many tokens."""
    return " w" * tokens


async def overhead(harness: Harness) -> int:
    """Prompt tokens of a message without text."""
    answer = await ask(harness, "x", stream=False)
    empty = fake(say="x", block=1)
    text = harness.engine.text
    return int(answer.usage["prompt_tokens"]) - len(text.encode(empty))


# --- J: context overflow ----------------------------------------------------------------------------------------------


@STREAMED
@pytest.mark.spec("API-045", "API-033", "API-023", "API-027")
async def test_j01_j02_j04_j11_the_window_is_exact(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """One token below the window is served; at it and above a 400 says both numbers in OpenAI's words."""
    async with open_harness(engine=Recording(max_len=WINDOW)) as harness:
        own = await overhead(harness)
        for size in (WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, 5 * WINDOW):
            for limit in ({}, {"max_tokens": 16_384}, {"max_completion_tokens": 1}):
                before = len(harness.engine.calls)
                call = await harness.client.send(CHAT, chat(padded(size - own), stream=stream, **limit))
                if size < WINDOW:
                    answer = said(call)
                    fits = WINDOW - size
                    assert answer.usage["prompt_tokens"] == size
                    assert answer.finish == "length"
                    assert counted(answer)[0] == min(fits, limit.get("max_completion_tokens", fits))
                    continue
                assert call.status == 400
                assert call.headers["content-type"] == "application/json"
                body = call.json
                assert body.keys() == {"error"}  # no counts, as zeros least of all
                error = body["error"]
                assert (error["code"], error["type"]) == ("context_length_exceeded", "invalid_request_error")
                assert (error["n_prompt_tokens"], error["n_ctx"], error["param"]) == (size, WINDOW, "messages")
                assert f"maximum context length is {WINDOW} tokens" in error["message"]
                assert f"resulted in {size} tokens" in error["message"]
                assert len(harness.engine.calls) == before


@STREAMED
@pytest.mark.spec("API-045", "API-046", "API-033")
async def test_j02_text_completions(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording(max_len=WINDOW)) as harness:
        for size, status in ((WINDOW - 1, 200), (WINDOW, 400), (WINDOW + 1, 400)):
            for prompt in (padded(size), [97] * size):
                call = await harness.client.send(TEXT, {"prompt": prompt, "stream": stream, "max_tokens": 999})
                assert call.status == status
                if status == 400:
                    error = call.json["error"]
                    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
                    assert (error["n_prompt_tokens"], error["n_ctx"]) == (size, WINDOW)


@pytest.mark.spec("API-045", "API-145", "API-027")
async def test_j01_while_others_are_served_the_refusal_is_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """It needs no engine, so it neither queues nor becomes an event of a stream."""
    async with open_harness(engine=Recording(max_len=WINDOW)) as harness:
        harness.client.start(CHAT, chat({"say": "a b", "token_ms": 30_000}))
        await trio.testing.wait_all_tasks_blocked()
        now = trio.current_time()
        call = await harness.client.send(CHAT, chat(padded(WINDOW), stream=True))
        assert (call.status, trio.current_time()) == (400, now)
        assert call.json["error"]["code"] == "context_length_exceeded"


@pytest.mark.spec("API-049", "API-050")
async def test_j05_cards_name_the_window(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(engine=Recording(max_len=WINDOW)) as harness:
        [card] = (await harness.client.send("/v1/models")).json["data"]
        single = (await harness.client.send(f"/v1/models/{card['id']}")).json
        for each in (card, single):
            assert each["context_length"] == each["max_model_len"] == each["meta"]["n_ctx"] == WINDOW


@STREAMED
@pytest.mark.spec("API-033", "API-045", "API-155")
async def test_j07_j08_nothing_is_cut_and_the_limit_gives_way(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """A prompt at 78 % is served beside a limit larger than the rest, and the engine reads all of it."""
    async with open_harness(engine=Recording(max_len=WINDOW)) as harness:
        own = await overhead(harness)
        size = WINDOW * 78 // 100
        messages = [{"role": "user", "content": padded(size - own)}]
        for limit in (WINDOW, 10 * WINDOW, 32_768):
            turn = await take_turn(harness, messages, stream=stream, max_tokens=limit)
            assert len(turn.prompt) == size == turn.said.usage["prompt_tokens"]
            assert turn.said.finish == "stop"
        # With nothing but its last message too long it is a refusal, not a shorter prompt.
        long = [{"role": "user", "content": padded(WINDOW)}, *messages]
        call = await harness.client.send(CHAT, {"messages": long, "stream": stream})
        assert call.json["error"]["n_prompt_tokens"] > WINDOW


@STREAMED
@pytest.mark.spec("API-068", "API-042")
async def test_j10_a_large_result_stays_as_it_is_on_every_turn(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_harness(engine=Recording()) as harness:
        output = "\n".join(f"{at} line of output, \u001b[31mred\u001b[0m" for at in range(400))
        asked = {"role": "user", "content": fake(say=written("ls", path="/"), turns=[{"say": "one"}, {"say": "two"}])}
        messages = [asked]
        turns = []
        for _ in range(3):
            turns.append(await take_turn(harness, messages, stream=stream, tools=[LS]))
            messages.append(returned(turns[-1].said))
            if turns[-1].said.calls:
                id = turns[-1].said.calls[0].id
                messages.append({"role": "tool", "tool_call_id": id, "content": output})
            else:
                messages.append({"role": "tool", "tool_call_id": "x", "content": output})
        text = b"".join(map(harness.engine.text.piece, turns[2].prompt)).decode()
        assert text.count(output) == 2
        for earlier, later in pairwise(turns):
            assert shared(earlier.whole, later.prompt) == len(earlier.whole)


# --- N: usage ---------------------------------------------------------------------------------------------------------

SCRIPTS: list[tuple[Any, dict[str, Any]]] = [
    ("one two", {}),
    ("<think>why</think>\n\nso", {}),
    (written("ls", path="/"), {"tools": [LS]}),
    (f"text <tool_call>\n<function=ls>{padded(20)}", {"tools": [LS], "max_tokens": 9}),
    ('{"a": 1}', JSON_OBJECT),
    ("one two three", {"stop": ["two"]}),
    ("one two three", {"max_tokens": 2, "logprobs": True}),
]


@pytest.mark.spec("API-140", "API-154")
async def test_n01_n02_n05_one_chunk_carries_the_usage(autojump_clock: trio.testing.MockClock) -> None:
    """Asked for, it has an empty list of choices; no other chunk has none, and all others have a null usage."""
    async with open_harness() as harness:
        for say, fields in SCRIPTS:
            call = await harness.client.send(
                CHAT, chat({"say": say}, stream=True, stream_options={"include_usage": True}, **fields)
            )
            *others, last = call.chunks
            assert last["choices"] == []
            assert last["usage"] == said(call).usage
            assert all(len(chunk["choices"]) == 1 and chunk["usage"] is None for chunk in others)
            assert others[-1]["choices"][0]["finish_reason"]
            options: dict[str, Any]
            for options in ({}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}):
                call = await harness.client.send(CHAT, chat({"say": say}, stream=True, **options, **fields))
                assert all(len(chunk["choices"]) == 1 for chunk in call.chunks)
                assert sum("usage" in chunk for chunk in call.chunks) <= 1


@pytest.mark.spec("API-154", "API-158", "API-140")
async def test_n_a_stream_counts_what_a_body_counts(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for say, fields in SCRIPTS:
            body = await ask(harness, say, stream=False, **fields)
            stream = await ask(harness, say, stream=True, **fields)
            assert body.usage == stream.usage
            usage = body.usage
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            assert 0 <= counted(body)[1] <= counted(body)[0]
            assert 0 <= usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]


@STREAMED
@pytest.mark.spec("API-169", "API-208", "API-158")
async def test_n07_the_journal_has_the_usage(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Of an answer its client left, of one the limit cut, and of one that failed."""
    async with open_harness() as harness:
        left = harness.client.start(
            CHAT, chat({"say": f"<think>{padded(5)}</think>{padded(50)}", "token_ms": 100}, stream=stream)
        )
        await trio.sleep(2.05)
        left.leave()
        await left.finished.wait()
        await harness.look()
        row = harness.outcomes[-1]
        assert (row.finish_reason, row.reasoning_tokens) == ("abandoned", 7)
        assert row.prompt_tokens
        assert row.completion_tokens in (20, 21)
        cut = await ask(harness, "one two three", stream=stream, max_tokens=2)
        await harness.look()
        row = harness.outcomes[-1]
        assert (row.finish_reason, row.completion_tokens) == ("length", 2)
        assert row.prompt_tokens == cut.usage["prompt_tokens"]
        await harness.client.send(CHAT, chat({"say": "one two three", "fail_at": 2}, stream=stream))
        await harness.look()
        row = harness.outcomes[-1]
        assert (row.finish_reason, row.completion_tokens, row.status) == ("error", 2, 500)


# --- O: errors and comments on a stream -------------------------------------------------------------------------------


@pytest.mark.spec("API-136", "API-141", "API-142", "API-260", "API-138")
async def test_o01_o02_o04_frames_and_comments(autojump_clock: trio.testing.MockClock) -> None:
    """A stream that waits, is read for long and is then silent: comments between events, each a whole frame."""
    async with open_harness() as harness:
        harness.client.start(CHAT, chat({"say": "a b", "token_ms": 12_000}))
        await trio.testing.wait_all_tasks_blocked()
        start = trio.current_time()
        script = {"say": "one two", "token_ms": 25_000, "prefill_ms_per_token": 20}
        body = chat(script, stream=True)
        body["messages"].insert(0, {"role": "system", "content": padded(3000)})
        call = await harness.client.send(CHAT, body)
        check_frames(call)
        kinds = {comment.split()[0].rstrip(",") for _, comment in call.comments}
        assert kinds == {"waiting", "prefill", "ping"}
        assert call.text == "one two"
        assert call.opened_at is not None
        assert call.opened_at - start <= 10
        times = [start, *(at for at, _ in call.pieces)]
        # A chunk of the prefill is one verb, longer than ten seconds here; a comment follows at its end at the latest.
        assert max(later - earlier for earlier, later in pairwise(times)) <= 25


@STREAMED
@pytest.mark.spec("API-136", "API-138", "API-139")
async def test_o_frames_whatever_is_said(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Text that looks like frames, in the answer, the reasoning and a call's arguments."""
    async with open_harness() as harness:
        sly = "data: [DONE]\n\ndata: {}\r\n\r\n: x\n\nevent: y\nid: 1\u2028\u2029\x85\x00\x1b"
        for say in (sly, f"<think>{sly}</think>{sly}", written("ls", path=sly)):
            call = await harness.client.send(CHAT, chat({"say": say}, stream=stream, tools=[LS]))
            answer = said(call)
            if stream:
                assert call.body.count(b"\ndata: [DONE]\n") == 1
                for block in call.body.split(b"\n\n")[:-1]:
                    assert block == b"data: [DONE]" or json.loads(block.removeprefix(b"data: "))
            shown = (answer.content or "") + (answer.reasoning or "") + "".join(c.values["path"] for c in answer.calls)
            assert sly in shown


@pytest.mark.spec("API-145", "API-162", "API-165")
async def test_o05_o07_an_error_in_an_open_stream(autojump_clock: trio.testing.MockClock) -> None:
    """One chunk with the finish `error` and the error at its top, then the end; the ledger has it too."""
    async with open_harness() as harness:
        for say, fields in SCRIPTS:
            call = await harness.client.send(CHAT, chat({"say": say, "fail_at": 1}, stream=True, **fields))
            if call.status == 500:  # nothing of it had gone out
                assert call.json["error"]["type"] == "server_error"
            else:
                check_frames(call)
                failed = [chunk for chunk in call.chunks if "error" in chunk]
                assert failed == [call.chunks[-1]]
                assert failed[0]["choices"][0]["finish_reason"] == "error"
                assert failed[0]["choices"][0]["delta"] == {}
                assert failed[0]["error"].keys() >= {"message", "type", "code", "param", "status"}
                assert failed[0]["error"]["status"] == 500
                reasons = [choice["finish_reason"] for chunk in call.chunks for choice in chunk["choices"]]
                assert [reason for reason in reasons if reason] == ["error"]
            await harness.look()
            assert (harness.outcomes[-1].finish_reason, harness.outcomes[-1].status) == ("error", 500)
            whole = await harness.client.send(CHAT, chat({"say": say, "fail_at": 1}, **fields))
            assert whole.status == 500
            assert whole.json.keys() == {"error"}


@pytest.mark.spec("API-138", "API-137")
async def test_o08_the_role_chunk(autojump_clock: trio.testing.MockClock) -> None:
    """First and once, with an empty content; no delta has a null content."""
    async with open_harness() as harness:
        for say, fields in SCRIPTS:
            call = await harness.client.send(CHAT, chat({"say": say}, stream=True, **fields))
            deltas = [choice["delta"] for chunk in call.chunks for choice in chunk["choices"]]
            assert deltas[0] == {"role": "assistant", "content": ""}
            assert all("role" not in delta for delta in deltas[1:])
            assert all(delta.get("content", "") is not None for delta in deltas)
            assert deltas[-1] == {}


@pytest.mark.spec("API-004", "API-005", "API-023", "API-024")
async def test_o10_every_refusal_has_the_shape(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(max_body_mb=1) as harness:
        for path, method, body, status in (
            (CHAT, "POST", b"{", 400),
            (CHAT, "POST", b"", 400),
            (CHAT, "POST", b'"text"', 400),
            (CHAT, "POST", b"[]", 400),
            (CHAT, "POST", b"\xff", 400),
            (CHAT, "POST", b'{"messages": ' + b"[" * 100_000, 400),
            (TEXT, "POST", b"{}", 400),
            (CHAT, "POST", b"{}", 400),
            (CHAT, "POST", b'{"x": "' + b"x" * 1_100_000 + b'"}', 413),
            ("/v1/chat/completion", "POST", b"{}", 404),
            ("/v1/chat/completions/", "POST", b"{}", 404),
            ("/v1/embeddings", "POST", b"{}", 404),
            (CHAT, "GET", b"", 405),
            (CHAT, "PUT", b"{}", 405),
            (TEXT, "DELETE", b"", 405),
        ):
            call = await harness.client.send(path, body, method=method)
            assert call.status == status, (path, method, body[:20])
            assert call.headers["content-type"] == "application/json"
            error = call.json["error"]
            assert error.keys() >= {"message", "type", "param", "code", "status"}
            assert error["status"] == status
            for trace in (b"Traceback", b"<html", b"<!doctype", b'File "'):
                assert trace not in call.body
        for kind in ("text/plain", "application/x-www-form-urlencoded", "", None):
            call = await harness.client.send(CHAT, chat({"say": "hi"}), headers={"content-type": kind})
            assert call.text == "hi"


@pytest.mark.spec("API-023", "API-027", "API-166")
async def test_o_after_every_refusal_the_next_request_is_served(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        fields: dict[str, Any]
        for fields in (
            {"temperature": "hot"},
            {"messages": 5},
            {"tools": "x"},
            {"response_format": {"type": "json_schema"}},
            {"tools": [tool("f", {"x": {"type": "nope"}})], "tool_choice": "required"},
            {"logit_bias": {"x": 1}},
            {"chat_template_kwargs": {"messages": []}},
        ):
            for stream in (True, False):
                call = await harness.client.send(CHAT, {**chat({"say": "x"}, stream=stream), **fields})
                assert call.status == 400, fields
                param = call.json["error"]["param"]
                assert param is not None
                assert param.split(".")[0].split("[")[0] in fields
                assert (await ask(harness, "hi", stream=stream)).content == "hi"
