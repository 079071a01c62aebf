"""The live view of a whole service: what is seen of real requests, and that watching changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.live import Look, Reader, Watch
from tandem.draining import drain
from tests.live.samples import valid
from tests.service.harness import Call, Harness, chat, open_harness

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
SLOW_READ = {"say": "x", "prefill_ms_per_token": 1}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = "<tool_call>\n<function=get_weather>\n<parameter=city>\nMARKER-ARGUMENT\n</parameter>\n</function>\n</tool_call>"


async def look(harness: Harness) -> Any:
    await wait_all_tasks_blocked()
    document: bytes = await harness.service.context.live.ask(Look)
    return valid(document)


@dataclass
class Watching:
    """A reader that keeps all it gets, with the times."""

    events: list[tuple[float, Any]] = field(default_factory=list)

    async def run(self, reader: Reader) -> None:
        while True:
            event = await reader.next()
            self.events.append((trio.current_time(), valid(event.data)))

    def rows(self, place: int = 0) -> list[Any]:
        """One request's rows, as they came."""
        return [event["requests"][place] for _, event in self.events if len(event["requests"]) > place]


@asynccontextmanager
async def watching(harness: Harness) -> AsyncIterator[Watching]:
    reader: Reader | None = await harness.service.context.live.ask(Watch)
    assert reader is not None
    found = Watching()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run, reader)
        yield found
        nursery.cancel_scope.cancel()


def long_prompt(script: dict[str, Any], words: int, **more: Any) -> dict[str, Any]:
    body = chat(script, **more)
    body["messages"].insert(0, {"role": "system", "content": "word " * words})
    return body


@pytest.mark.spec("OBS-064", "OBS-065", "OBS-068", "OBS-072")
async def test_a_request_is_seen_from_its_arrival_to_its_end(autojump_clock: MockClock) -> None:
    say = f"<think>{'hmm ' * 20}</think>{'la ' * 10}{CALL}"
    script = {"say": say, "token_ms": 100, "prefill_ms_per_token": 1}
    async with open_harness() as harness, watching(harness) as watched:
        body = long_prompt(script, 3000, stream=True, tools=[TOOL])
        call = await harness.client.send(CHAT, body, headers={"user-agent": "opencode/1.0"})
        await trio.sleep(1)
        assert call.finish == "tool_calls"
    states = list(dict.fromkeys(row["activity"]["state"] for row in watched.rows()))
    assert states == ["prefilling", "thinking", "writing", "tool_call", "done"]
    labels = [row["activity"]["label"] for row in watched.rows()]
    assert any(label.startswith("reads the prompt: 2,048 of 3,") for label in labels)
    assert any(label.startswith("calls get_weather (") for label in labels)
    assert labels[-1].startswith("done: tool_calls, called get_weather, ")
    last = watched.rows()[-1]
    assert [step["state"] for step in last["timeline"]] == ["arriving", *states]
    assert (last["client_kind"], last["slot"]) == ("opencode", 0)
    assert last["activity"]["tool"]["bytes"] > 0
    assert "MARKER" not in json.dumps(watched.events)


@pytest.mark.spec("OBS-065", "OBS-068")
async def test_it_is_told_why_a_request_waits(autojump_clock: MockClock) -> None:
    async with open_harness() as harness:
        endless = chat({"say": "la ", "loop": True, "token_ms": 100}, stream=True)
        harness.client.start(CHAT, endless, headers={"user-agent": "opencode/1.0"})
        await trio.sleep(1)
        harness.client.start(CHAT, chat("hi"))
        await wait_all_tasks_blocked()
        harness.client.start(COMPLETIONS, {"model": "M", "prompt": "hi"})
        await trio.sleep(11.5)
        event = await look(harness)
        labels = [row["activity"]["label"] for row in event["requests"]]
        assert labels[1] == "waits: next in line behind opencode's chat, which has been writing for 12 s"
        assert labels[2] == "waits: 2nd in line behind opencode's chat, which has been writing for 12 s"
        counts = event["counts"]
        assert (counts["in_flight"], counts["queued"], counts["decoding"]) == (3, 2, 1)


@pytest.mark.spec("OBS-071")
@pytest.mark.parametrize(("streamed", "choices"), [(True, 1), (False, 1), (False, 2)])
async def test_final_figures_equal_those_of_the_response(
    autojump_clock: MockClock, streamed: bool, choices: int
) -> None:
    script = {"say": f"<think>{'hmm ' * 7}</think>{'la ' * 9}", "token_ms": 30, "prefill_ms_per_token": 0.5, "block": 2}
    async with open_harness() as harness:
        await harness.client.send(CHAT, chat(script, max_tokens=5))
        body = chat(script, stream=streamed, n=choices, stream_options={"include_usage": True} if streamed else None)
        call = await harness.client.send(CHAT, body)
        answer = next(chunk for chunk in call.chunks if chunk.get("usage")) if streamed else call.json
        usage, timings = answer["usage"], answer["timings"]
        row = (await look(harness))["requests"][0]
        assert row["prompt_tokens"] == usage["prompt_tokens"]
        assert row["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
        assert row["completion_tokens"] == usage["completion_tokens"]
        assert row["reasoning_tokens"] == usage["completion_tokens_details"]["reasoning_tokens"]
        same = {
            "forwarded_tokens": "prompt_n",
            "queue_ms": "queue_ms",
            "prompt_ms": "prompt_ms",
            "ttft_ms": "ttft_ms",
            "decode_ms": "predicted_ms",
            "prefill_tps": "prompt_per_second",
            "decode_tps": "predicted_per_second",
            "blocks": "blocks",
            "tokens_per_block": "tokens_per_block",
            "cache_source": "cache_source",
        }
        assert {name: row[name] for name in same} == {name: timings[theirs] for name, theirs in same.items()}


@pytest.mark.spec("OBS-069")
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_departed_client_shows_while_the_slot_is_in_the_middle_of_a_verb(
    autojump_clock: MockClock, streamed: bool
) -> None:
    async with open_harness() as harness, watching(harness) as watched:
        call = harness.client.start(CHAT, long_prompt(SLOW_READ, 3000, stream=streamed))
        await trio.sleep(0.1)
        call.leave()
        await trio.sleep(0.5)
        [(at, event), *_] = [(at, event) for at, event in watched.events if event["requests"]]
        assert at == 0.25
        [row] = event["requests"]
        assert (row["phase"], row["activity"]["client"]) == ("prefilling", {"connected": False, "gone_ms": 150})
        assert row["activity"]["label"].endswith("; its client has left")
        await trio.sleep(1)
        last = watched.rows()[-1]
        assert (last["finish_reason"], last["status"]) == ("abandoned", 499)
        assert last["activity"]["client"]["connected"] is False


@pytest.mark.spec("OBS-069")
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_leaves_the_queue_is_gone_at_the_next_tick(
    autojump_clock: MockClock, streamed: bool
) -> None:
    async with open_harness() as harness, watching(harness) as watched:
        harness.client.start(CHAT, long_prompt(SLOW_READ, 3000))
        await trio.sleep(0.01)
        waiting = harness.client.start(CHAT, chat("hi", stream=streamed))
        await trio.sleep(0.5)
        assert watched.rows(1)[-1]["phase"] == "queued"
        waiting.leave()
        await trio.sleep(0.25)
        row = watched.rows(1)[-1]
        assert (row["phase"], row["finish_reason"]) == ("done", "abandoned")
        assert row["sentence"].startswith("its client left after ")


@pytest.mark.spec("OBS-069")
async def test_a_failure_inside_the_server_is_no_departed_client(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_harness() as harness, watching(harness) as watched:

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("tandem.http.answering.Answering._note", broken)
        call = harness.client.start(CHAT, chat({"say": "la ", "loop": True, "token_ms": 1000}))
        await trio.sleep(5)
        await call.finished.wait()
        assert call.status == 500
        assert all(row["activity"]["client"]["connected"] for row in watched.rows())
        assert watched.rows()[-1]["tone"] == "bad"


@pytest.mark.spec("OBS-048", "OBS-072", "API-245")
async def test_no_event_holds_a_word_of_a_prompt_or_an_answer(autojump_clock: MockClock) -> None:
    secret = {"authorization": "Bearer MARKER-TOKEN", "user-agent": "curl/MARKER-AGENT"}
    async with open_harness() as harness, watching(harness) as watched:
        for body in (
            chat({"say": f"<think>MARKER-THOUGHT</think>MARKER-ANSWER {CALL}", "token_ms": 40}, tools=[TOOL]),
            chat({"say": "MARKER-ANSWER " * 3, "fail_at": 2, "token_ms": 40}, stream=True),
            chat("MARKER-PROMPT", temperature="MARKER-FIELD"),
        ):
            await harness.client.send(CHAT, body, headers=secret)
        await trio.sleep(1)
    events = json.dumps([event for _, event in watched.events])
    assert "get_weather" in events
    assert "MARKER" not in events
    assert {row["finish_reason"] for row in watched.rows()} >= {"refused"}


@pytest.mark.spec("OBS-060", "API-245")
@pytest.mark.parametrize("settings", [{"live_activity": False}, {"live_hz": "0"}])
async def test_activity_can_be_switched_off(autojump_clock: MockClock, settings: dict[str, Any]) -> None:
    async with open_harness(**settings) as harness:
        harness.client.start(CHAT, chat({"say": "la ", "loop": True, "token_ms": 100}))
        await trio.sleep(1.05)
        event = await look(harness)
        [row] = event["requests"]
        assert (row["activity"], row["completion_tokens"]) == (None, 10)
        assert event["now"]["decode_tps"] > 0


@pytest.mark.spec("OBS-063")
async def test_a_drain_shows(autojump_clock: MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        harness.client.start(CHAT, chat({"say": "one two three", "token_ms": 1000}, stream=True))
        await trio.sleep(0.5)
        nursery.start_soon(drain, harness.service.context)
        engine = (await look(harness))["engine"]
        assert engine["state"] == "draining"
        assert engine["label"] == "drains, takes no more requests; an unnamed client's chat begins to write"


async def answers(readers: int) -> list[Any]:
    """What three requests get that run into each other, less what no two runs share."""
    scripts: list[dict[str, Any]] = [
        {"say": f"<think>{'hmm ' * 9}</think>{'la ' * 30}", "token_ms": 13},
        {"say": f"Well. {CALL}", "token_ms": 17, "block": 3},
        {"say": "la ", "loop": True, "token_ms": 11},
    ]
    async with open_harness() as harness, trio.open_nursery() as nursery:
        found = [Watching() for _ in range(readers)]
        for each in found:
            reader: Reader | None = await harness.service.context.live.ask(Watch)
            assert reader is not None
            nursery.start_soon(each.run, reader)
        calls: list[Call] = []
        for index, script in enumerate(scripts):
            body = chat(script, stream=index != 1, tools=[TOOL], max_tokens=90, seed=7, temperature=0.8)
            calls.append(harness.client.start(CHAT, body))
            await trio.sleep(0.1)
        for call in calls:
            await call.finished.wait()
        assert all(len(each.events) > 4 for each in found)
        nursery.cancel_scope.cancel()
    return [
        [_lasting(chunk) for chunk in (call.chunks if index != 1 else [call.json])] for index, call in enumerate(calls)
    ]


def _lasting(chunk: Any) -> Any:
    """Without ids and times."""
    if isinstance(chunk, dict):
        return {name: _lasting(each) for name, each in chunk.items() if name not in ("id", "created", "timings")}
    return [_lasting(each) for each in chunk] if isinstance(chunk, list) else chunk


@pytest.mark.spec("API-247")
async def test_open_watchers_change_no_token(autojump_clock: MockClock) -> None:
    assert await answers(3) == await answers(0)


@pytest.mark.spec("OBS-067")
async def test_what_the_monitor_does_is_seen_while_it_does_it(autojump_clock: MockClock) -> None:
    """An answer that is empty: the model is told so in a hidden turn."""
    async with open_harness(conductor="on") as harness, watching(harness) as watched:
        script = {
            "say": "<think>hmm</think>",
            "then": ["There it is. " * 20],
            "token_ms": 100,
            "prefill_ms_per_token": 40,
        }
        body = chat(script, stream=True)
        call = await harness.client.send(CHAT, body)
        await trio.sleep(1)
        assert call.status == 200
    found = [row["activity"]["conductor"] for row in watched.rows() if "conductor" in row["activity"]]
    assert [found[0][name] for name in ("mode", "acts", "task")] == ["on", 0, None]
    assert (found[-1]["acts"], found[-1]["task"], found[-1]["action"]) == (1, "E1", "CONTINUE_HIDDEN")
    assert found[-1]["hidden_tokens"] > 0
    assert found[-1]["label"].startswith("monitor: E1 had the turn go on, ")
    assert {one["supervising"] for one in found} == {True, False}
    assert not found[-1]["supervising"]
