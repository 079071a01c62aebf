"""What a stream looks like from its first byte to `[DONE]` (HTTP API sections 12, 16, 18 and 19)."""

from __future__ import annotations

import itertools

import pytest
import trio
import trio.testing

from tests.service.harness import Call, Harness, chat, fake, open_harness

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


async def stream(harness: Harness, script: object, **more: object) -> Call:
    return await harness.client.send(CHAT, chat(script, stream=True, **more))


@pytest.mark.spec("API-136", "API-137", "API-138", "API-007")
async def test_order_headers_and_constant_members(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await stream(harness, {"say": "one two"})
        assert call.headers["content-type"] == "text/event-stream"
        assert call.headers["cache-control"] == "no-cache"
        assert call.headers["x-accel-buffering"] == "no"
        first, *_, last = call.chunks
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert last["choices"][0]["delta"] == {}
        assert last["choices"][0]["finish_reason"] == "stop"
        assert call.is_done
        await harness.look()
        constant = [(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in call.chunks]
        assert len(set(constant)) == 1
        assert constant[0][0] == call.headers["x-request-id"] == harness.outcomes[0].request_id
        assert constant[0][1::2] == ("chat.completion.chunk", "TandemLLM")


@pytest.mark.spec("API-139")
async def test_each_token_is_a_chunk_at_its_time_and_each_block_is_a_write(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_harness() as harness:
        call = await stream(harness, {"say": "a b c d e f", "token_ms": 10, "block": 3})
        texts = [chunk["choices"][0]["delta"].get("content") for chunk in call.chunks[1:7]]
        assert texts == ["a", " b", " c", " d", " e", " f"]
        times = [round(at * 1e3) for at, _ in call.pieces]
        assert [b - a for a, b in itertools.pairwise(times)] == [30, 10]


@pytest.mark.spec("API-139")
async def test_no_replacement_character_stands_in_for_a_partial_one(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        say = [{"bytes": "f09f"}, {"bytes": "9880"}, {"bytes": "ed"}, {"bytes": "959c"}, "e\u0301", {"bytes": "e282"}]
        call = await stream(harness, {"say": say})
        texts = [choice["delta"].get("content") for chunk in call.chunks for choice in chunk["choices"]]
        assert [text for text in texts if text] == ["😀", "한", "e\u0301", "\ufffd"]


@pytest.mark.spec("API-140")
@pytest.mark.parametrize(
    ("options", "default", "where"),
    [
        ({"include_usage": True}, True, "own"),
        ({"include_usage": True}, False, "own"),
        ({"include_usage": False}, True, None),
        (None, True, "finish"),
        (None, False, None),
        ({}, True, "finish"),
    ],
)
async def test_where_the_usage_is(
    autojump_clock: trio.testing.MockClock, options: object, default: bool, where: str | None
) -> None:
    async with open_harness(usage_default=default) as harness:
        call = await stream(harness, {"say": "x"}, stream_options=options)
        carriers = [chunk for chunk in call.chunks if chunk.get("usage")]
        if where is None:
            assert carriers == []
            return
        [carrier] = carriers
        assert carrier["usage"]["completion_tokens"] == 2
        assert "timings" in carrier
        if where == "own":
            assert carrier["choices"] == []
            assert all("usage" in chunk for chunk in call.chunks)
        else:
            assert carrier["choices"][0]["finish_reason"] == "stop"


@pytest.mark.spec("API-141", "SCH-029")
async def test_a_long_prefill_tells_how_far_it_is(autojump_clock: trio.testing.MockClock) -> None:
    words = "word " * 30_000
    script = {"say": "x", "prefill_ms_per_token": 0.4}
    async with open_harness() as harness:
        body = chat(script, stream=True)
        body["messages"].insert(0, {"role": "system", "content": words})
        start = trio.current_time()
        call = await harness.client.send(CHAT, body)
        assert call.opened_at is not None
        assert 5 <= call.opened_at - start < 6
        assert len(call.comments) >= 5
        assert all(text.startswith("prefill ") for _, text in call.comments)
        done = [int(text.split()[1].split("/")[0]) for _, text in call.comments]
        assert done == sorted(done)
        gaps = [b - a for (a, _), (b, _) in itertools.pairwise(call.comments)]
        assert min(gaps) >= 0.999
        assert call.text == "x"
    async with open_harness(prefill_heartbeat_s=0) as harness:
        call = await harness.client.send(CHAT, body)
        assert [text for _, text in call.comments if text.startswith("prefill")] == []


@pytest.mark.spec("API-260", "SCH-115")
async def test_a_silent_stream_gets_a_ping(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        start = trio.current_time()
        call = await stream(harness, {"say": "a b", "token_ms": 25_000})
        assert [(round(at - start), text) for at, text in call.comments] == [
            (10, "ping"),
            (20, "ping"),
            (35, "ping"),
            (45, "ping"),
            (60, "ping"),
            (70, "ping"),
        ]
        assert call.text == "a b"


@pytest.mark.spec("API-145", "API-162", "API-165", "API-166", "SCH-078", "ENG-043")
async def test_a_failure_ends_a_stream_with_an_error_chunk(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await stream(harness, {"say": "a b c d", "fail_at": 2, "token_ms": 1})
        assert call.status == 200
        assert call.text == "a b"
        last = call.chunks[-1]
        assert last["choices"][0]["finish_reason"] == "error"
        assert last["error"]["status"] == 500
        assert last["error"]["type"] == "server_error"
        assert last["usage"]["completion_tokens"] == 2
        assert call.is_done
        assert (await stream(harness, {"say": "fine"})).text == "fine"
        await harness.look()
        assert [outcome.finish_reason for outcome in harness.outcomes] == ["error", "stop"]
        assert harness.outcomes[0].status == 500
        assert harness.outcomes[0].completion_tokens == 2


@pytest.mark.spec("API-165", "API-166")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_byte_keeps_its_status(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat({"say": "a b", "fail_at": 0}, stream=stream))
        assert call.status == 500
        assert call.json["error"]["type"] == "server_error"
        assert (await harness.client.send(CHAT, chat({"say": "fine"}))).text == "fine"


@pytest.mark.spec("API-165")
async def test_an_unstreamed_failure_is_a_500_without_text(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat({"say": "secret words here", "fail_at": 2}))
        assert call.status == 500
        assert b"secret" not in call.body


@pytest.mark.spec("API-163", "API-164", "SCH-020")
async def test_the_request_timeout_ends_a_generation_with_its_text(autojump_clock: trio.testing.MockClock) -> None:
    script = {"say": "la ", "loop": True, "token_ms": 1000}
    async with open_harness(request_timeout=5) as harness:
        call = await stream(harness, script)
        assert call.finish == "timeout"
        assert call.text == "la la la"
        call = await harness.client.send(CHAT, chat(script))
        assert call.status == 200
        assert call.json["choices"][0]["finish_reason"] == "timeout"
        assert call.text == "la la la"
        held = harness.client.start(CHAT, chat(script, stream=True))
        await trio.testing.wait_all_tasks_blocked()
        call = await harness.client.send(CHAT, chat(script))  # its clock starts at the grant, five seconds later
        assert (held.text, call.text) == ("la la la", "la la la")
        assert (await harness.look()).timeouts == 4


@pytest.mark.spec("API-083", "API-084", "API-163")
@pytest.mark.parametrize("streamed", [True, False])
async def test_stop_strings(autojump_clock: trio.testing.MockClock, streamed: bool) -> None:
    async with open_harness() as harness:

        async def said(say: object, stop: object, **more: object) -> tuple[str, str]:
            call = await harness.client.send(CHAT, chat({"say": say, **more}, stop=stop, stream=streamed))
            reason = call.finish if streamed else call.json["choices"][0]["finish_reason"]
            return call.text, str(reason)

        assert await said(["a E", "N", "D b"], ["END"]) == ("a ", "stop")
        assert await said(["a E", "N", "X"], ["END"]) == ("a ENX", "stop")
        assert await said(["a", " E", "N", "D", " b"], "END", block=5) == ("a ", "stop")
        assert await said(["x EN"], ["END"]) == ("x EN", "stop")
        assert await said("Hello world", []) == ("Hello world", "stop")


@pytest.mark.spec("API-083")
async def test_a_bad_stop_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for stop in ("", [""], [1], ["a"] * 17):
            call = await harness.client.send(CHAT, chat("hi", stop=stop))
            assert call.status == 400
            assert call.json["error"]["param"].startswith("stop")


@pytest.mark.spec("API-032", "ENG-083")
async def test_several_choices_read_the_prompt_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat({"say": "a b c"}, n=3))
        assert [choice["index"] for choice in call.json["choices"]] == [0, 1, 2]
        assert [choice["message"]["content"] for choice in call.json["choices"]] == ["a b c"] * 3
        usage = call.json["usage"]
        single = (await harness.client.send(CHAT, chat({"say": "a b c"}))).json["usage"]
        assert usage["completion_tokens"] == 3 * single["completion_tokens"]
        assert usage["prompt_tokens"] == single["prompt_tokens"]
        assert [call.verb for call in harness.engine.calls].count("prefill") == 2
        for bad in ({"n": 0}, {"n": 17}, {"n": 2, "stream": True}):
            refused = await harness.client.send(CHAT, chat("hi", **bad))
            assert (refused.status, refused.json["error"]["param"]) == (400, "n")


@pytest.mark.spec("API-163", "API-033")
async def test_the_limit_ends_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, chat({"say": "a b c d"}, max_tokens=2))
        assert call.json["choices"][0]["finish_reason"] == "length"
        assert call.text == "a b"
        assert call.json["usage"]["completion_tokens"] == 2
        call = await harness.client.send(CHAT, chat({"say": "a b c d"}, max_tokens=2, max_completion_tokens=3))
        assert call.text == "a b c"


@pytest.mark.spec("API-046", "API-047", "API-048", "API-007")
@pytest.mark.parametrize("streamed", [True, False])
async def test_text_completions(autojump_clock: trio.testing.MockClock, streamed: bool) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(TEXT, {"prompt": fake(say="once upon"), "stream": streamed})
        assert call.text == "once upon"
        assert call.headers["x-tandem"] == "raw"
        body = call.chunks[0] if streamed else call.json
        assert body["object"] == "text_completion"
        assert body["id"].startswith("cmpl-")
        assert body["id"] == call.headers["x-request-id"]
        last = call.chunks[-1] if streamed else call.json
        assert last["choices"][0]["finish_reason"] == "stop"
        assert last["usage"]["completion_tokens"] == 3
        cut = await harness.client.send(
            TEXT, {"prompt": fake(say="once upon a time"), "stream": streamed, "stop": " a", "seed": 1}
        )
        assert cut.text == "once upon"
        refused = await harness.client.send(TEXT, {"prompt": ["one", "two"], "stream": streamed})
        assert (refused.status, refused.json["error"]["param"]) == (400, "prompt")


@pytest.mark.spec("API-154", "API-155", "API-160", "API-161", "API-156")
async def test_usage_and_timings_are_measured(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        script = {"say": "a b c d", "token_ms": 100, "prefill_ms_per_token": 10}
        body = (await harness.client.send(CHAT, chat(script))).json
        usage, timings = body["usage"], body["timings"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert timings["prompt_n"] == usage["prompt_tokens"]
        assert timings["prompt_ms"] == pytest.approx(10 * usage["prompt_tokens"] + 100)
        assert timings["predicted_n"] == usage["completion_tokens"] == 5
        assert timings["predicted_per_second"] == pytest.approx(10)
        assert timings["ttft_ms"] == pytest.approx(timings["queue_ms"] + timings["prompt_ms"])
        assert timings["cache_source"] == "none"
        assert "hidden_tokens" not in usage["prompt_tokens_details"]
