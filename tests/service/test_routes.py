"""Routes, refusals and limits before the queue (HTTP API sections 2, 3, 5, 6, 7 and 9)."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.http.context import BodyBudget
from tandem.http.openai.errors import ApiError
from tests.service.harness import Call, chat, fake, open_harness

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
PROBES = [
    "/api/v1/models",
    "/api/tags",
    "/props",
    "/v1/props",
    "/version",
    "/.well-known/serviceinfo",
    "/nothing",
    "/v1",
    "/v1/chat",
    "/v1/models/",
    "/%00",
    "/../etc/passwd",
]


def assert_error(call: Call, status: int, kind: str) -> None:
    assert call.status == status
    assert call.headers["content-type"] == "application/json"
    error = call.json["error"]
    assert set(error) >= {"message", "type", "param", "code", "status"}
    assert (error["type"], error["status"]) == (kind, status)


@pytest.mark.spec("API-005", "API-023", "API-024")
@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unknown_paths_are_quick_404s(autojump_clock: trio.testing.MockClock, path: str, method: str) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(path, b"", method=method)
        assert_error(call, 404, "not_found")


@pytest.mark.spec("API-005")
async def test_a_wrong_method_names_the_right_ones(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(CHAT, method="GET")
        assert_error(call, 405, "method_not_allowed")
        assert call.headers["allow"] == "OPTIONS, POST"
        assert_error(await harness.client.send("/health", {}, method="DELETE"), 405, "method_not_allowed")


@pytest.mark.spec("API-049", "API-050")
async def test_models(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(served_model="my-model") as harness:
        listed = (await harness.client.send("/v1/models")).json
        [card] = listed["data"]
        assert (listed["object"], card["id"], card["object"], card["owned_by"]) == (
            "list",
            "my-model",
            "model",
            "tandem",
        )
        window = harness.engine.card.max_len
        assert card["context_length"] == card["max_model_len"] == card["meta"]["n_ctx"] == window
        assert (await harness.client.send("/v1/models/my-model")).json == card
        assert (await harness.client.send("/v1/models/TandemLLM")).json == card
        missing = await harness.client.send("/v1/models/gpt-5")
        assert_error(missing, 404, "not_found")
        assert missing.json["error"]["code"] == "model_not_found"


@pytest.mark.spec("API-053", "OBS-102", "SCH-103", "API-052")
async def test_health_follows_its_schema(autojump_clock: trio.testing.MockClock) -> None:
    schema = json.loads((Path(tandem.__file__).parent / "contract" / "health.schema.json").read_text())
    async with open_harness() as harness:
        await harness.client.send(CHAT, chat("hi"))
        call = await harness.client.send("/health")
        assert call.status == 200
        jsonschema.validate(call.json, schema)
        assert call.json["inflight"]["served"] == 1
        assert (call.json["status"], call.json["model"], call.json["base_model"]) == ("ok", "TandemLLM", "fake")


@pytest.mark.spec("SCH-005", "SCH-103", "OBS-104")
async def test_health_waits_for_no_generation(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        harness.client.start(CHAT, chat({"say": "x", "prefill_ms_per_token": 1000}, stream=True))
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        call = await harness.client.send("/health")
        assert trio.current_time() == before
        assert call.json["inflight"]["running"] == 1


@pytest.mark.spec("API-004", "API-023")
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"messages": NaN}'])
async def test_a_body_that_is_no_json_object(autojump_clock: trio.testing.MockClock, body: bytes) -> None:
    async with open_harness() as harness:
        assert_error(await harness.client.send(CHAT, body, method="POST"), 400, "invalid_request_error")


@pytest.mark.spec("API-004")
async def test_a_body_too_large_is_a_413(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(max_body_mb=1) as harness:
        call = await harness.client.send(CHAT, chat("x" * 1_100_000))
        assert_error(call, 413, "invalid_request_error")
        assert (await harness.client.send(CHAT, chat("x" * 900_000))).status == 200


@pytest.mark.spec("API-004")
async def test_a_body_of_unknown_size_too_large_is_a_413(autojump_clock: trio.testing.MockClock) -> None:
    """It comes in one piece, which Quart's own limit may see before the route reads: tasks start in any order."""
    async with open_harness(max_body_mb=1) as harness:
        for _ in range(20):
            call = await harness.client.send(CHAT, chat("x" * 1_100_000), headers={"content-length": None})
            assert_error(call, 413, "invalid_request_error")


@pytest.mark.spec("API-004", "SCH-022")
async def test_bodies_in_flight_are_bounded() -> None:
    budget = BodyBudget(100)
    with budget.hold() as first, budget.hold() as second:
        first.grow(60)
        second.grow(40)
        with pytest.raises(ApiError) as refused:
            first.grow(1)
        assert (refused.value.status, refused.value.code, refused.value.retry_after) == (503, "memory", 10)
    with budget.hold() as hold:
        hold.grow(100)


@pytest.mark.spec("API-262")
async def test_a_lone_surrogate_is_replaced(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        body = b'{"messages":[{"role":"user","content":"a\\ud83dz"}]}'
        replaced = '{"messages":[{"role":"user","content":"a\ufffdz"}]}'.encode()
        first = await harness.client.send(CHAT, body, method="POST")
        second = await harness.client.send(CHAT, replaced, method="POST")
        assert first.status == second.status == 200
        assert first.json["usage"] == second.json["usage"]


@pytest.mark.spec("API-045", "API-033", "ENG-015", "SCH-022", "API-027")
@pytest.mark.parametrize("stream", [True, False])
async def test_the_window_is_exact(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    from tandem.engine.fake import FakeEngine

    async with open_harness() as harness:
        usage = (await harness.client.send(CHAT, chat({"say": "a b c"}))).json["usage"]
        prompt = usage["prompt_tokens"]
    for window, status in ((prompt, 400), (prompt + 1, 200), (prompt + 2, 200)):
        async with open_harness(engine=FakeEngine(max_len=window)) as harness:
            call = await harness.client.send(CHAT, chat({"say": "a b c"}, stream=stream, max_tokens=16384))
            assert call.status == status
            if status == 400:
                error = call.json["error"]
                assert error["code"] == "context_length_exceeded"
                assert (error["n_prompt_tokens"], error["n_ctx"], error["param"]) == (prompt, window, "messages")
                assert error["type"] == "invalid_request_error"
                assert "usage" not in call.json
                assert "retry-after" not in call.headers
                assert not harness.engine.calls  # it never came to the queue
            else:
                reason = call.finish if stream else call.json["choices"][0]["finish_reason"]
                assert reason == "length"
                assert call.text == ["a", "a b"][window - prompt - 1]


@pytest.mark.spec("API-027", "OBS-003", "ENG-080")
async def test_a_bad_field_is_refused_while_the_engine_is_busy(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        harness.client.start(CHAT, chat({"say": "x", "token_ms": 60_000}))
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        call = await harness.client.send(CHAT, chat("hi", temperature=9))
        assert trio.current_time() == before
        assert call.json["error"]["param"] == "temperature"
        assert call.headers["x-request-id"].startswith("chatcmpl-")
        await harness.look()
        assert [(row.status, row.finish_reason, row.prompt_tokens) for row in harness.outcomes] == [
            (400, "refused", None)
        ]


@pytest.mark.spec("API-029", "API-030", "API-034", "API-052", "API-006")
async def test_what_has_no_effect_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        plain = (await harness.client.send(CHAT, chat({"say": "x y"}))).json
        more = {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "unknown_field": [1]}
        call = await harness.client.send(
            CHAT, chat({"say": "x y"}, **more) | {"model": "gpt-4o"}, headers={"authorization": "Bearer sk-any"}
        )
        assert call.json["choices"] == plain["choices"]
        assert call.json["usage"] == plain["usage"]
        assert call.json["model"] == "TandemLLM"
        await harness.look()
        assert harness.outcomes[1].model == "gpt-4o"
        assert harness.outcomes[1].client_id.startswith("k:")


@pytest.mark.spec("PRF-020")
async def test_the_row_says_which_client_it_was(autojump_clock: trio.testing.MockClock) -> None:
    hermes = [{"role": "system", "content": "You are Hermes Agent."}, {"role": "user", "content": "hi"}]
    async with open_harness() as harness:
        await harness.client.send(CHAT, chat("hi"), headers={"user-agent": "opencode/1.1"})
        await harness.client.send(CHAT, {"messages": hermes}, headers={"user-agent": "OpenAI/Python 2.3"})
        await harness.client.send(TEXT, {"prompt": "hi"}, headers={"user-agent": "curl/8.5"})
        await harness.client.send(CHAT, chat("hi", temperature=9), headers={"x-tandem-client": "chat-app"})
        await harness.look()
        assert [row.client_kind for row in harness.outcomes] == ["opencode", "hermes", "curl", "chat-app"]


MARKED_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "MARKEDARGUMENT"}'}}
MARKED_TURNS = [
    {"role": "system", "content": "MARKEDSYSTEM"},
    {"role": "user", "content": "MARKEDQUESTION"},
    {"role": "assistant", "content": "MARKEDEARLIER", "reasoning": "MARKEDTHOUGHT", "tool_calls": [MARKED_CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "MARKEDRESULT"},
    {"role": "user", "content": [{"type": "text", "text": fake(say="MARKEDANSWER")}]},
]
MARKED_IMAGE = {"type": "image_url", "image_url": {"url": "https://MARKED.example/a.png"}}
MARKED: list[tuple[str, object]] = [
    (CHAT, {"messages": MARKED_TURNS}),
    (CHAT, {"messages": MARKED_TURNS, "stream": True, "logprobs": True, "user": "MARKEDUSER"}),
    (CHAT, {"messages": [{"role": "user", "content": [MARKED_IMAGE]}]}),
    (CHAT, chat({"say": "MARKEDANSWER", "fail_at": 0})),
    (CHAT, chat({"say": "a MARKEDANSWER", "fail_at": 1}, stream=True)),
    (CHAT, chat("MARKEDPROMPT", stop=["MARKEDSTOP"] * 17)),
    (CHAT, chat("@fake {MARKEDSCRIPT")),
    (CHAT, b'{"messages": "MARKEDBODY'),
    (TEXT, {"prompt": "MARKEDPROMPT" + fake(say="MARKEDANSWER")}),
    (TEXT, {"prompt": "MARKEDPROMPT" + fake(say="MARKEDANSWER"), "stream": True}),
    (TEXT, {"prompt": ["MARKEDPROMPT", "b"]}),
]
MARKED_HEADERS = {"authorization": "Bearer MARKEDKEY", "cookie": "a=MARKEDCOOKIE", "x-forwarded-for": "203.0.113.9"}


@pytest.mark.spec("API-206", "API-207", "OBS-048", "SCH-107")
async def test_neither_log_nor_row_holds_text(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with open_harness() as harness:
        for path, body in MARKED:
            await harness.client.send(path, body, method="POST", headers=MARKED_HEADERS)
        for path in ("/health", "/v1/models", "/v1/models/TandemLLM", "/nothing"):
            shown = await harness.client.send(path, headers=MARKED_HEADERS)
            assert b"MARKED" not in shown.body
        await harness.look()
        lines = [record.getMessage() for record in caplog.records]
        assert sum(line.startswith("[req] ") for line in lines) == len(harness.outcomes) == len(MARKED)
        assert {outcome.status for outcome in harness.outcomes} == {200, 400, 500}
        for sink in (caplog.text, repr(harness.outcomes)):
            assert "MARKED" not in sink
            assert "203.0.113.9" not in sink


@pytest.mark.spec("API-207")
async def test_request_keys_are_logged_where_it_is_asked_for(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    body = chat("MARKEDPROMPT", temperature=0.5, stop=["MARKEDSTOP"], user="MARKEDUSER", MARKEDFIELD=1)
    async with open_harness() as harness:
        await harness.client.send(CHAT, body)
    assert "temperature" not in caplog.text
    async with open_harness(log_request_keys=True) as harness:
        await harness.client.send(CHAT, body)
    assert "model='M' messages=list temperature=0.5 stop=list user=str others=1" in caplog.text
    assert "MARKED" not in caplog.text


@pytest.mark.spec("API-053", "API-003")
@pytest.mark.parametrize("ticks", range(12))
async def test_a_loop_that_stalls_while_health_is_asked_is_no_failure(
    mock_clock: trio.testing.MockClock, ticks: int
) -> None:
    async with open_harness() as harness:
        call = harness.client.start("/health")
        for _ in range(ticks):
            await trio.lowlevel.checkpoint()
        mock_clock.jump(0.3)  # nobody ran meanwhile
        await call.finished.wait()
        assert (call.status, call.json["status"]) == (200, "ok")
        assert "inflight" in call.json
