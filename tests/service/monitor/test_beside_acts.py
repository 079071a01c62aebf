"""An act beside everything else that a request may have: what it counts, how it ends, who leaves amid it (MON-133)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.service.cases.asking import Recording, schema_format, written
from tests.service.harness import fake, open_harness
from tests.service.monitor.fixtures import ENDLESS, FIXTURES, LS
from tests.service.monitor.stage import open_stage, row_of, rows, send
from tests.service.said import all_said, said
from tests.service.test_plan import CHAT

CALL = written("bash", command="ls")
WRONG = written("look", path="a")
EMPTY = {"say": "<think>\nHm.\n</think>\n\n", "then": ["Five."]}


@pytest.mark.spec("MON-133", "MON-134", "MON-039")
async def test_no_hidden_token_is_counted(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """Whatever acts: completion is what was written less what was forced unseen, and the prompt is raw's."""
    engine = Recording()
    async with open_stage(tmp_path, engine=engine) as harness:
        for each in FIXTURES:
            if not each.rows:
                continue
            raw = said(await send(harness, each.script, *each.before, mode="raw", max_tokens=8)).usage
            call = await send(harness, each.script, *each.before, **each.more)
            seq, usage = engine.opened[-1], said(call).usage
            hidden = sum(row["hidden_tokens"] or 0 for row in await rows(harness, call))
            assert usage["completion_tokens"] == len(seq.output) - hidden, each.name
            assert usage["prompt_tokens"] == raw["prompt_tokens"], each.name
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            details = usage["prompt_tokens_details"]
            assert details.get("hidden_tokens", 0) == seq.prompt.hidden_tokens
            assert "hidden_tokens" not in raw["prompt_tokens_details"]


@pytest.mark.spec("MON-159", "MON-107", "MON-078", "MON-079")
@pytest.mark.parametrize("stream", [False, True])
async def test_the_first_finish_reason_that_applies(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool
) -> None:
    async with open_stage(tmp_path) as harness:
        # A call was sent, and then the turn is given up.
        answer = said(await send(harness, {"say": f"{CALL}\n{ENDLESS}", "block": 32}, stream=stream, max_tokens=1_900))
        assert ([each.name for each in answer.calls], answer.finish) == (["bash"], "tool_calls")
        # A block that the limit has cut: given up, and cut.
        call = await send(harness, {"say": CALL}, stream=stream, max_tokens=8)
        answer = said(call)
        assert (answer.calls, answer.finish) == ([], "length")
        assert (answer.content or "").startswith("[TandemLLM ended this turn")
        assert row_of(await rows(harness, call), "C4") == [("GIVE_UP", "GIVE_UP", "cut(length)")]
        # A block that a stop string has cut is text, as in raw.
        cut = [
            await send(harness, {"say": CALL}, stream=stream, stop=["parameter"], mode=mode) for mode in ("raw", "on")
        ]
        raw, answer = map(said, cut)
        assert (answer.content, answer.calls, answer.finish) == (raw.content, raw.calls, raw.finish)
        assert answer.finish == "stop"
        assert row_of(await rows(harness, cut[1]), "C4") == [("PASS", None, "cut_by_stop")]


@pytest.mark.spec("MON-077", "MON-078", "MON-052", "MON-006")
async def test_calls_one_at_a_time_stop_strings_choices_and_log_probabilities(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as harness:
        one = {"say": f"{WRONG}\n{CALL}", "then": [f"{CALL}\n{WRONG}"]}
        for stream in (False, True):
            answer = said(await send(harness, one, stream=stream, parallel_tool_calls=False))
            assert [(each.name, each.values) for each in answer.calls] == [LS]
            assert answer.finish == "tool_calls"
            stopped = {**EMPTY, "then": ["Green, Blue, red"]}
            answer = said(await send(harness, stopped, stream=stream, stop=["Blue"]))
            assert (answer.content, answer.finish) == ("Green, ", "stop")
            # An end that a stop string has made is not the model's own: nothing comes behind it.
            answer = said(await send(harness, {**EMPTY, "say": "Blue"}, stream=stream, stop=["Blue"]))
            assert (answer.content or "", answer.finish) == ("", "stop")
        call = await send(harness, EMPTY, n=2)
        assert [each.content or "" for each in all_said(call)] == ["", ""]
        assert call.headers["x-tandem"] == "on"
        assert row_of(await rows(harness, call), "E1") == [("CONTINUE_HIDDEN", None, "empty(B)")]
        call = await send(harness, {"say": "", "then": ["It is five."]}, logprobs=True)
        [choice] = call.json["choices"]
        assert "".join(each["token"] for each in choice["logprobs"]["content"]) == choice["message"]["content"]


@pytest.mark.spec("MON-011", "MON-045", "MON-156", "API-095")
async def test_an_answer_that_is_held_to_a_form(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """The reasoning is closed unseen and the form holds behind it; what is inside the form is nobody's loop."""
    loop, long = "items " * 300, json.dumps({"a": "items " * 300})
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    document = schema_format(schema)
    async with open_stage(tmp_path) as harness:
        for stream in (False, True):
            script = {"say": f'<think>{loop}</think>{{"a": "b"}}', "block": 32}
            call = await send(harness, script, stream=stream, **document)
            assert json.loads(said(call).content or "") == {"a": "b"}
            assert row_of(await rows(harness, call), "D1") == [("CLOSE_REASONING", "CLOSE_REASONING", "loop(period)")]
            call = await send(harness, {"say": long, "block": 32}, stream=stream, **document)
            assert (said(call).content, row_of(await rows(harness, call), "D3")) == (long, [])
            script = {"say": f"<think>{loop}</think>{WRONG}", "block": 32}
            call = await send(harness, script, stream=stream, tool_choice="required", max_tokens=400)
            [made] = said(call).calls
            assert made.name in ("bash", "write", "send")
            assert row_of(await rows(harness, call), "D1") == [("CLOSE_REASONING", "CLOSE_REASONING", "loop(period)")]


@pytest.mark.spec("MON-135")
async def test_an_answer_with_an_act_is_not_remembered(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(conductor="on", response_cache=True) as harness:
        for script in ({"say": "Five."}, {"say": "", "then": ["Five."]}):
            body = {"model": "M", "messages": [{"role": "user", "content": fake(**script)}], "temperature": 0}
            answers = [await harness.client.send(CHAT, body) for _ in range(2)]
            assert [each.text for each in answers] == ["Five."] * 2
    assert [each.cache_source == "response" for each in harness.outcomes] == [False, True, False, False]


@pytest.mark.spec("API-167", "SCH-077", "MON-146", "MON-159")
async def test_who_leaves_amid_an_act_and_whose_time_is_up(autojump_clock: trio.testing.MockClock) -> None:
    """The hidden turn takes more than 20 seconds here. The act is told, and the slot is free behind it."""
    slow = {**EMPTY, "prefill_ms_per_token": 1_000}
    body = {"model": "M", "messages": [{"role": "user", "content": fake(**slow)}], "stream": True}
    async with open_harness(conductor="on") as harness:
        start = trio.current_time()
        raw = await harness.client.send(CHAT, body, headers={"x-tandem": "raw"})
        read_s = trio.current_time() - start
        call = harness.client.start(CHAT, body, headers={"x-session-id": "left"})
        await trio.sleep(read_s + 5)
        call.leave()
        await harness.client.send(CHAT, {**body, "messages": [{"role": "user", "content": "hi"}]})
        assert harness.outcomes[1].finish_reason == "abandoned"
        [state] = [each.view for each in harness.service.context.sessions.states() if each.view.key == "c:left"]
        assert (len(state.monitor.acts), state.monitor.ended_at is not None) == (1, True)
    async with open_harness(conductor="on", request_timeout=read_s + 5) as harness:
        late = said(await harness.client.send(CHAT, body))
        assert (late.content or "", late.finish) == ("", "timeout")
        assert late.usage["completion_tokens"] == said(raw).usage["completion_tokens"] - 1
        assert (await harness.look()).running == 0
