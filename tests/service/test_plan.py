"""A planned request: what the model reads, what the client is told, what is journaled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.actors.store import Flush
from tandem.engine.fake import FakeEngine
from tandem.engine.text.prompt import Prompt
from tests.service.harness import Call, Harness, chat, open_harness
from tests.service.said import said

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CODE = {"say": "done", "choose": {"code_edit": 0.9}}
TALK = {"say": "hello", "choose": {"chat": 0.9}}
SECRET = "sk-ant-api03-" + "aB3dE5gH7jK9mN2pQ4rS6tU8vW"


class SeenFake(FakeEngine):
    """Keeps the prompts that were opened."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.prompts: list[Prompt] = []

    def open(self, prompt: Prompt) -> Any:
        self.prompts.append(prompt)
        return super().open(prompt)


async def decisions(harness: Harness) -> list[dict[str, Any]]:
    """The router's rows, oldest first."""
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send("/v1/conductor/decisions")
    assert call.status == 200, call.body
    return list(reversed(call.json["decisions"]))


async def put(harness: Harness, path: str, document: Mapping[str, Any]) -> None:
    call = await harness.client.send(f"/v1/conductor/{path}", {"document": document, "note": "a test's"}, method="PUT")
    assert call.status == 200, call.body


async def profile(harness: Harness, name: str) -> dict[str, Any]:
    call = await harness.client.send(f"/v1/conductor/profiles/{name}")
    return dict(call.json["document"])


def bare(call: Call) -> dict[str, Any]:
    """The body without what is new each time."""
    return {name: value for name, value in call.json.items() if name not in ("id", "timings")}


@pytest.mark.spec(
    "PRF-005", "RTR-006", "RTR-008", "RTR-028", "JRN-002", "JRN-004", "NOTE-005", "OBS-022", "OBS-037", "RTR-014"
)
async def test_a_turn_is_classed_and_gets_its_note(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        raw = await harness.client.send(CHAT, chat(CODE), headers={"x-tandem": "raw"})
        call = await harness.client.send(CHAT, chat(CODE))
        (row,) = await decisions(harness)
        page = (await harness.client.send("/metrics")).body.decode()
    assert 'tandem_conductor_decisions_total{decision="code_edit",mode="on",task="route"} 1.0' in page
    assert 'tandem_conductor_questions_total{task="class"} 1.0' in page
    assert 'tandem_conductor_question_failures_total{task="class"} 0.0' in page
    assert (call.headers["x-tandem"], call.headers["x-tandem-profile"]) == ("on", "general")
    question, prompt = engine.prompts[1:]
    assert question.client_tokens == 0
    hidden = prompt.hidden_tokens
    assert hidden > 100
    assert call.json["usage"]["prompt_tokens"] == raw.json["usage"]["prompt_tokens"]
    assert call.json["usage"]["prompt_tokens_details"]["hidden_tokens"] == hidden
    assert "hidden_tokens" not in raw.json["usage"]["prompt_tokens_details"]
    assert (row["kind"], row["mode"], row["profile"], row["class"]) == ("route", "on", "general", "code_edit")
    assert (row["reason"], row["effort"], row["hidden_tokens"]) == ("engine", "xhigh", hidden)
    assert row["outcome"] == "stop, 2 tokens"
    (stage, *_) = row["detail"]["stages"]
    assert stage["stage"] == "engine"
    assert sum(stage["probabilities"].values()) == pytest.approx(1)
    assert row["detail"]["notes"][0]["kind"] == "new"
    outcome = harness.outcomes[-1]
    assert (outcome.conductor_mode, outcome.profile, outcome.conductor_hidden_tokens) == ("on", "general", hidden)
    assert (outcome.model_served, outcome.model) == ("TandemLLM", "M")


@pytest.mark.spec("PRF-008", "PRF-009", "PRF-010", "PRF-024", "API-064", "API-065")
@pytest.mark.parametrize("stream", [False, True])
async def test_raw_and_shadow_change_no_byte(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool
) -> None:
    plain, on = SeenFake(), SeenFake()
    body = chat({"say": "<think>why</think>so", "choose": {"code_edit": 1}}, stream=stream, temperature=0)
    async with open_harness(engine=plain) as harness:
        expected = said(await harness.client.send(CHAT, body))
    async with open_harness(engine=on, conductor_config=tmp_path) as harness:
        for mode, told in (("raw", "raw"), ("off", "raw"), ("shadow", "shadow"), ("Shadow", "shadow")):
            call = await harness.client.send(CHAT, body, headers={"x-tandem": mode})
            assert call.headers["x-tandem"] == told
            assert said(call) == expected
            assert on.prompts[-1] == plain.prompts[0]
        rows = await decisions(harness)
        assert [row["mode"] for row in rows] == ["shadow", "shadow"]
        shadow = rows[0]["extra"]["shadow"]
        assert shadow["notes"]
        assert shadow["effort"]["effort"] if isinstance(shadow["effort"], dict) else shadow["effort"]
        raw = await harness.client.send(CHAT, body, headers={"x-tandem-profile": "bench"})
        assert (raw.headers["x-tandem"], raw.headers["x-tandem-profile"]) == ("raw", "bench")
        assert said(raw) == expected


@pytest.mark.spec("PRF-006", "PRF-008", "API-066", "RTR-017")
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Tandem", "fast"),
        ("X-Tandem-Profile", "nobody"),
        ("X-Tandem-Profile", ""),
        ("X-Tandem-Profile", "../router"),
        ("X-Tandem-Profile", "é" * 300),
        ("X-Tandem-Profile", "a\x00b"),
    ],
)
async def test_a_header_that_names_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, header: str, value: str
) -> None:
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        for path, body in ((CHAT, chat(TALK)), (TEXT, {"prompt": "hi"})):
            call = await harness.client.send(path, body, headers={header.lower(): value})
            assert (call.status, call.json["error"]["param"]) == (400, header)
        assert not engine.prompts


@pytest.mark.spec("PRF-002", "PRF-003", "PRF-004", "API-049", "API-051")
async def test_one_model_is_listed(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path, served_model="qwen") as harness:
        listed = await harness.client.send("/v1/models")
        assert [card["id"] for card in listed.json["data"]] == ["TandemLLM"]
        alias = await harness.client.send("/v1/models/qwen")
        assert alias.json == listed.json["data"][0]
        assert (await harness.client.send("/v1/models/other")).status == 404
        call = await harness.client.send(CHAT, {**chat(TALK), "model": "gpt-4"})
        assert (call.json["model"], call.headers["x-tandem"]) == ("TandemLLM", "on")


@pytest.mark.spec("RTR-028", "RTR-009", "PRF-001", "SCH-023")
async def test_a_question_that_nobody_answers_costs_its_time_alone(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The engine is busy with a turn that lends nothing."""
    async with open_harness(conductor_config=tmp_path, side_lane="off") as harness:
        long = harness.client.start(
            CHAT, chat({"say": "word " * 600, "token_ms": 100, "eos": True}), headers={"x-tandem": "raw"}
        )
        await trio.sleep(1)
        call = await harness.client.send(CHAT, chat(CODE))
        await long.finished.wait()
        (row,) = await decisions(harness)
    assert call.status == 200
    assert row["detail"]["stages"][0]["error"] == "engine_busy"
    assert (row["class"], row["reason"]) == ("chat", "default")
    assert row["detail"]["ms"] == pytest.approx(500)
    assert [outcome.finish_reason for outcome in harness.outcomes] == ["stop", "stop"], "a question is no request"


@pytest.mark.spec("SCH-023", "RTR-009")
async def test_a_question_that_no_safe_point_takes_ends_by_its_own_time(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        slow = chat({"say": "a b", "token_ms": 60_000})
        long = harness.client.start(CHAT, slow, headers={"x-tandem": "raw"})
        await trio.sleep(1)
        await harness.client.send(CHAT, chat(CODE))
        await long.finished.wait()
        (row,) = await decisions(harness)
    assert row["detail"]["ms"] == pytest.approx(8_000)
    assert [outcome.finish_reason for outcome in harness.outcomes] == ["stop", "stop"]


@pytest.mark.spec("RTR-009", "SCH-041", "SCH-023")
async def test_a_holder_answers_a_question_between_two_steps(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        long = harness.client.start(
            CHAT, chat({"say": "word " * 600, "token_ms": 100}, stream=True), headers={"x-tandem": "raw"}
        )
        await trio.sleep(1)
        call = harness.client.start(CHAT, chat(CODE))
        await trio.sleep(5)
        (row,) = await decisions(harness)
        assert (row["class"], row["reason"]) == ("code_edit", "engine")
        assert not long.finished.is_set()
        await call.finished.wait()


@pytest.mark.spec("SES-012", "SES-013", "SES-015", "SES-011")
async def test_a_side_request_is_small_and_leaves_its_session_alone(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    title = {
        "messages": [{"role": "user", "content": "### Task:\nGenerate a concise title of what was said."}],
        "max_tokens": 1000,
    }
    headers = {"x-openwebui-chat-id": "one", "x-openwebui-user-name": "x"}
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, chat(TALK), headers=headers)
        before = [state.view for state in harness.service.context.sessions.states()]
        call = await harness.client.send(CHAT, title, headers=headers)
        assert [state.view for state in harness.service.context.sessions.states()] == before
        turn, side = await decisions(harness)
    assert call.status == 200
    assert engine.prompts[-1].thinking == "off"
    assert (side["kind"], side["decision"], side["action"]) == ("side", "openwebui-title", "SIDE_REQUEST")
    assert (side["extra"]["side"]["cap"], side["extra"]["side"]["first"]) == (256, True)
    assert (turn["profile"], side["profile"]) == ("chat", "chat")
    assert harness.outcomes[-1].max_tokens == 256


@pytest.mark.spec("MEM-010", "MEM-013", "JRN-006")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_secret_of_a_result_is_masked(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    body = chat({"turns": [{"say": f"It is {SECRET} then"}]}, stream=stream, tools=[tool])
    body["messages"] += [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": f"key: {SECRET}"},
    ]
    async with open_harness(conductor_config=tmp_path) as harness:
        answers = {}
        for mode in ("raw", "shadow", "on"):
            headers = {"x-tandem": mode, "x-tandem-profile": "chat"}
            answers[mode] = (await harness.client.send(CHAT, body, headers=headers)).text
        shadow, on = await decisions(harness)
    assert SECRET in answers["raw"]
    assert answers["shadow"] == answers["raw"]
    assert SECRET not in answers["on"]
    assert "[redacted] then" in answers["on"]
    assert sum(shadow["extra"]["secret_mask_shadow"].values()) == sum(on["extra"]["secret_mask"].values()) == 1
    assert SECRET not in json.dumps([shadow, on])
    assert SECRET not in caplog.text


@pytest.mark.spec("ANS-002", "JRN-006")
async def test_calls_go_to_nobody_who_offered_no_tools(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    call_text = "so<tool_call>\n<function=run>\n</function>\n</tool_call>"
    body = chat({"say": call_text, "choose": {"chat": 0.9}})
    async with open_harness(conductor_config=tmp_path) as harness:
        raw = await harness.client.send(CHAT, body, headers={"x-tandem": "raw"})
        on = await harness.client.send(CHAT, body)
        (row,) = await decisions(harness)
    assert raw.text == call_text
    assert on.text == "so"
    assert on.json["choices"][0]["finish_reason"] == "stop"
    assert row["extra"]["calls_refused"] == ["run"]


@pytest.mark.spec("JRN-003")
async def test_a_digest_with_a_secret_is_in_no_row(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, chat(f"my key is {SECRET}, what now?"))
        (row,) = await decisions(harness)
    assert SECRET not in json.dumps(row)
    assert row["detail"]["digest"]


@pytest.mark.spec("JRN-003", "RTR-012")
async def test_a_secret_that_the_digests_cut_goes_through_is_in_no_row(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    lines = [f"{number:04}" + "aB3/" * 15 for number in range(25)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    async with open_harness(conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, chat(f"{'Look at this. ' * 60}{key}{' What is it?' * 20}"))
        (row,) = await decisions(harness)
    assert row["detail"]["digest"]
    assert not [line for line in lines if line in json.dumps(row)]


@pytest.mark.spec("OBS-022")
async def test_a_checkers_verdict_goes_to_the_row_before(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
    body = chat(CODE, tools=[tool], conversation_id="one")
    headers = {"x-tandem-profile": "coding"}
    call = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    async with open_harness(conductor_config=tmp_path) as harness:
        await harness.client.send(CHAT, body, headers=headers)
        body["messages"] += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "RESULT: FAIL <- page-check: contrast"},
        ]
        await harness.client.send(CHAT, body, headers=headers)
        first, second = await decisions(harness)
    assert (first["next_checker"], second["next_checker"]) == ("FAIL page-check", None)
