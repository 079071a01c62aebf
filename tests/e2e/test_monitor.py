"""The monitor in a process of its own, as the openai SDK sees it: one server, and the embedded model once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.conductor.monitor.calling import called, declare
from tests.e2e.conftest import Start, link_model
from tests.e2e.process import Server
from tests.e2e.wire import Connection, fake
from tests.service.cases.asking import written

TOOLS: Any = [declare("bash", "command"), declare("write", "path", "content")]
SENTENCE = "[TandemLLM ended this answer, because one piece of "
LOOK = written("bash", command="ls")
LOOPED: Any = [{"role": "user", "content": "Write a poem with a thousand lines, all of them the same."}]
"""What the embedded model does as it is told."""


@pytest.fixture
def watched(start: Start) -> Iterator[OpenAI]:
    server = start("--conductor-config", "conductor")
    with OpenAI(
        base_url=f"{server.base}/v1",
        api_key="sk-local",
        max_retries=0,
        timeout=60,
        default_headers={"X-Tandem-Profile": "coding"},
    ) as client:
        yield client


def streamed(client: OpenAI, script: dict[str, Any], *before: Any, **more: Any) -> Any:
    """What the SDK's own accumulator makes of a stream."""
    rounds = sum(message["role"] == "assistant" for message in before)
    content = fake(choose={"code_edit": 0.9}, **script, turns=[script] * rounds)
    messages: Any = [{"role": "user", "content": content}, *before]
    with client.chat.completions.stream(model="any", messages=messages, max_tokens=2_000, **more) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion().choices[0]


def findings(client: OpenAI, count: int) -> list[tuple[str, str]]:
    """Task and act of the journal's rows, oldest first, once there are so many: they are written in groups."""
    deadline = time.monotonic() + 30
    while True:
        with Connection(client.base_url.port or 0) as line:
            events = line.ask("GET", "/v1/conductor/events?kind=monitor&limit=100").json["events"]
        found = [(row["task"], row["action"]) for row in reversed(events) if row["action"]]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


@pytest.mark.spec("MON-045", "MON-054", "MON-077", "MON-108", "MON-156")
def test_what_the_sdk_makes_of_each_act(watched: OpenAI) -> None:
    loop = "items " * 1_200
    choice = streamed(watched, {"say": f"<think>{loop}</think>Five.", "block": 32})
    assert (choice.message.content, choice.finish_reason) == ("Five.", "stop")
    assert choice.message.model_extra["reasoning_content"].count("items") < 700
    choice = streamed(watched, {"say": loop, "block": 32})
    assert choice.message.content.startswith("items ")
    assert (SENTENCE in choice.message.content, choice.finish_reason) == (True, "stop")
    choice = streamed(watched, {"say": "<think>Hm.</think>", "then": ["Five."]})
    assert (choice.message.content, choice.finish_reason) == ("Five.", "stop")
    before = called(*[("bash", '{"command": "ls"}', "nothing")] * 2)
    other = written("write", path="a", content="b")
    choice = streamed(watched, {"say": LOOK, "then": [other]}, *before, tools=TOOLS)
    [call] = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("write", '{"path":"a","content":"b"}')
    assert choice.finish_reason == "tool_calls"
    endless = (
        "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n" + "very " * 1_900
    )
    choice = streamed(watched, {"say": endless, "block": 32}, tools=TOOLS)
    [call] = choice.message.tool_calls
    assert 1_000 < call.function.arguments.count("very") < 1_100
    assert not call.function.arguments.endswith("}")
    assert choice.finish_reason == "tool_calls"
    assert findings(watched, 5) == [
        ("D1", "CLOSE_REASONING"),
        ("D3", "GIVE_UP"),
        ("E1", "CONTINUE_HIDDEN"),
        ("C3", "REGENERATE_CALL"),
        ("A1", "GIVE_UP"),
    ]


@pytest.mark.slow
@pytest.mark.spec("MON-156", "MON-028")
def test_a_small_model_that_repeats_itself_is_ended(tmp_path: Path) -> None:
    link_model(tmp_path / ".tandem")
    server = Server.tandem(tmp_path, "--conductor", "on")
    try:
        with OpenAI(base_url=f"{server.base}/v1", api_key="sk-local", max_retries=0, timeout=300) as client:
            stream = client.chat.completions.create(
                model="any", messages=LOOPED, max_tokens=3_000, temperature=0, stream=True
            )
            chunks = [chunk for chunk in stream if chunk.choices]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert SENTENCE in text[-200:]
        assert chunks[-1].choices[0].finish_reason == "stop"
    finally:
        assert server.stop() == 0, server.shown_log
