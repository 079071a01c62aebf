"""The pair matrix of the cases: every two features of an answer together, streamed and not.

Drafted rounds stand for speculation: the fake drafts its script, so `block` tokens are verified and walked at once.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import jsonschema
import pytest
import trio.testing

from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    STREAMED,
    ask,
    ask_all,
    counted,
    only_call,
    schema_format,
    tool,
    written,
)
from tests.service.harness import Call, Harness, chat, open_harness
from tests.service.said import all_said, said

TOOLS = [tool("ls", {"path": "string"}), tool("add", {"a": "integer", "b": "integer"})]
LS = written("ls", path="/tmp")
ADD = written("add", a=1, b=2)
SCHEMA = {
    "type": "object",
    "properties": {"t": {"type": "integer"}},
    "required": ["t"],
    "additionalProperties": False,
}
DOCUMENT = schema_format(SCHEMA)
JSON = '{"t": 5}'
NAMED = {"type": "function", "function": {"name": "add"}}


async def leave_inside(harness: Harness, say: str, pieces: int, **fields: Any) -> Call:
    """Leave once `pieces` of the stream have come; the slot is free and the row tells it."""
    call = harness.client.start(CHAT, chat({"say": say, "token_ms": 100}, stream=True, **fields))
    await call.wait_for_piece(pieces)
    sent = len(call.pieces)
    call.leave()
    await call.finished.wait()
    assert len(call.pieces) == sent
    sight = await harness.look()
    assert (sight.running, sight.waiting) == (0, 0)
    assert harness.outcomes[-1].finish_reason == "abandoned"
    after = await ask(harness, "ok", stream=False)
    assert (after.content, after.finish) == ("ok", "stop")
    return call


class TestThinking:
    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-257", "API-258", "ENG-185")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            answer = await ask(harness, "<think>easy one</think>\n\n4", stream=stream, block=block)
            assert (answer.reasoning, answer.content, answer.finish) == ("easy one", "4", "stop")
            cut = [*"<th", "ink>", "ea", "sy</", "thi", "nk>", "\n", "\n4"]
            call = await harness.client.send(CHAT, chat({"say": cut, "block": block}, stream=stream))
            assert (said(call).reasoning, said(call).content) == ("easy", "4")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-105", "API-112")
    async def test_tools_auto(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>I call {LS} perhaps</think>\n\n{LS}"
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS)
            assert answer.reasoning == f"I call {LS} perhaps"
            assert only_call(answer) == ("ls", {"path": "/tmp"})
            assert (answer.content, answer.finish) == (None, "tool_calls")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-117", "ENG-087")
    async def test_tools_forced(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>free text here</think>\n\n{LS}"
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS, tool_choice="required")
            assert answer.reasoning == "free text here"
            assert only_call(answer) == ("ls", {"path": "/tmp"})
            assert answer.finish == "tool_calls"

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-126", "API-130", "ENG-087")
    async def test_schema(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            answer = await ask(harness, f"<think>so {{b}}</think>\n\n{JSON}", stream=stream, block=block, **DOCUMENT)
            assert (answer.reasoning, answer.content) == ("so {b}", JSON)
            assert answer.finish == "stop"

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-086")
    async def test_stop(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = "<think>The Question: is</think>Blue"
            answer = await ask(harness, say, stream=stream, block=block, stop=["Question:"])
            assert (answer.reasoning, answer.content, answer.finish) == ("The Question: is", "Blue", "stop")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-095", "ENG-097")
    async def test_budget(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            free = await ask(harness, "<think>a b c</think>x", stream=stream, block=block, max_reasoning_tokens=9)
            assert (free.reasoning, free.content) == ("a b c", "x")
            say = f"<think>{'w ' * 40}</think>x"
            capped = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=9)
            assert capped.reasoning is not None
            assert capped.content == "x"
            assert capped.reasoning.startswith("w w w w")
            assert capped.reasoning.count("w ") < 9
            plain = await ask(harness, say, stream=stream, max_reasoning_tokens=9)
            assert (capped.reasoning, *counted(capped)) == (plain.reasoning, *counted(plain))

    @pytest.mark.spec("API-032", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            for answer in await ask_all(harness, "<think>why</think>\n\nso"):
                assert (answer.reasoning, answer.content, answer.finish) == ("why", "so", "stop")

    @pytest.mark.spec("API-167")
    async def test_leaving(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            await leave_inside(harness, f"<think>{'w ' * 90}</think>x", 10)


class TestToolsAuto:
    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-105", "API-110", "API-111")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            answer = await ask(harness, f"I look.\n{LS}\n{ADD}", stream=stream, block=block, tools=TOOLS)
            assert [(call.name, call.values) for call in answer.calls] == [
                ("ls", {"path": "/tmp"}),
                ("add", {"a": 1, "b": 2}),
            ]
            assert len({call.id for call in answer.calls}) == 2
            assert (answer.content, answer.finish) == ("I look.", "tool_calls")

    @STREAMED
    @pytest.mark.spec("API-116", "API-117")
    async def test_forced_the_same(self, autojump_clock: trio.testing.MockClock, stream: bool) -> None:
        async with open_harness() as harness:
            shown = [
                await ask(harness, ADD, stream=stream, tools=TOOLS, tool_choice=choice)
                for choice in ("auto", "required", NAMED)
            ]
            assert {only_call(answer)[0] for answer in shown} == {"add"}
            assert {answer.calls[0].arguments for answer in shown} == {'{"a":1,"b":2}'}
            assert {answer.finish for answer in shown} == {"tool_calls"}
            other = await ask(harness, LS, stream=stream, tools=TOOLS, tool_choice=NAMED, max_tokens=200)
            assert {call.name for call in other.calls} <= {"add"}

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-132", "API-133", "ENG-091")
    async def test_schema(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS, **DOCUMENT}
            called = await ask(harness, f"<think>hm</think>\n\n{LS}", **fields)
            assert only_call(called) == ("ls", {"path": "/tmp"})
            assert (called.content, called.finish) == (None, "tool_calls")
            document = await ask(harness, f"<think>hm</think>\n\n{JSON}", **fields)
            assert (document.content, document.calls, document.finish) == (JSON, [], "stop")
            fenced = await ask(harness, f"```json\n{JSON}\n```", **fields, max_tokens=64)
            assert not fenced.calls

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-120")
    async def test_stop(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS, "stop": ["b>"]}
            cut = await ask(harness, ADD, **fields)
            assert cut.content == ADD[: ADD.index("b>")]
            assert (cut.calls, cut.finish) == ([], "stop")
            after = await ask(harness, f"{LS}\n{ADD}", **fields)
            assert only_call(after) == ("ls", {"path": "/tmp"})
            assert (after.content or "").strip() == ADD[: ADD.index("b>")]
            assert after.finish == "tool_calls"

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-261", "ENG-186")
    async def test_budget(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>a b c {LS} d e f g h i j k l m n</think>x"
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS, thinking_token_budget=6)
            assert answer.reasoning is not None
            assert answer.reasoning.startswith(f"a b c {LS}")
            assert "d" not in answer.reasoning.removeprefix(f"a b c {LS}")[:2]
            assert (answer.calls, answer.content) == ([], "x")

    @pytest.mark.spec("API-105", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            answers = await ask_all(harness, f"{LS}\n{ADD}", tools=TOOLS)
            assert [[call.name for call in answer.calls] for answer in answers] == [["ls", "add"]] * 2
            assert len({call.id for answer in answers for call in answer.calls}) == 4

    @pytest.mark.spec("API-111")
    async def test_blocks_change_nothing(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            say = f"First {LS} then\n{written('ls', path='a <b> c </param')}"
            shown = [await ask(harness, say, stream=True, block=block, tools=TOOLS) for block in BLOCKS]
            assert len({(answer.content, *(call.arguments for call in answer.calls)) for answer in shown}) == 1

    @pytest.mark.spec("API-167")
    async def test_leaving(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            call = await leave_inside(harness, written("ls", path="word " * 60), 12, tools=TOOLS)
            deltas = [choice["delta"] for chunk in call.chunks for choice in chunk["choices"]]
            assert any("tool_calls" in delta for delta in deltas)


class TestToolsForced:
    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-117", "ENG-090")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS, "max_tokens": 400}
            answer = await ask(harness, "Hello there, I say prose!", tool_choice="required", **fields)
            assert answer.calls
            for call in answer.calls:
                [offered] = [each["function"] for each in TOOLS if each["function"]["name"] == call.name]
                jsonschema.validate(call.values, offered["parameters"])
            assert (answer.content, answer.finish) == (None, "tool_calls")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-117")
    async def test_ending_inside_the_reasoning(
        self, autojump_clock: trio.testing.MockClock, stream: bool, block: int
    ) -> None:
        async with open_harness() as harness:
            fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": NAMED, "max_tokens": 400}
            answer = await ask(harness, "<think>I am done", stream=stream, block=block, **fields)
            assert answer.reasoning == "I am done"
            name, values = only_call(answer)
            assert (name, values.keys(), answer.finish) == ("add", {"a", "b"}, "tool_calls")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-135", "ENG-090")
    async def test_schema(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS, **DOCUMENT}
            answer = await ask(harness, ADD, tool_choice="required", **fields)
            assert only_call(answer) == ("add", {"a": 1, "b": 2})
            assert answer.content is None

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-120")
    async def test_stop(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            answer = await ask(
                harness, ADD, stream=stream, block=block, tools=TOOLS, tool_choice="required", stop=["b>"]
            )
            assert (answer.content, answer.calls, answer.finish) == (ADD[: ADD.index("b>")], [], "stop")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-095", "ENG-087")
    async def test_budget(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>{'w ' * 40}</think>\n\n{LS}"
            fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required", "max_reasoning_tokens": 7}
            answer = await ask(harness, say, stream=stream, block=block, **fields)
            assert answer.reasoning is not None
            assert answer.reasoning.count("w ") < 7
            assert only_call(answer) == ("ls", {"path": "/tmp"})

    @pytest.mark.spec("API-117", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            for answer in await ask_all(harness, LS, tools=TOOLS, tool_choice="required"):
                assert only_call(answer) == ("ls", {"path": "/tmp"})

    @pytest.mark.spec("API-167")
    async def test_leaving(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            say = written("ls", path="word " * 60)
            await leave_inside(harness, say, 12, tools=TOOLS, tool_choice="required")


class TestSchema:
    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-126", "ENG-188")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            for say in (JSON, "Here you are: ```json", '{"u": 1}'):
                answer = await ask(harness, say, stream=stream, block=block, max_tokens=300, **DOCUMENT)
                assert answer.finish == "stop"
                assert answer.content is not None
                jsonschema.validate(json.loads(answer.content), SCHEMA)

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-083", "ENG-088")
    async def test_stop(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            answer = await ask(harness, JSON, stream=stream, block=block, stop=[" 5"], **DOCUMENT)
            assert (answer.content, answer.finish) == ('{"t":', "stop")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-101", "API-131")
    async def test_budget(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>{'w ' * 400}</think>\n\n{JSON}"
            answer = await ask(harness, say, stream=stream, block=block, max_tokens=100, **DOCUMENT)
            assert answer.reasoning is not None
            assert (answer.content, answer.finish) == (JSON, "stop")

    @pytest.mark.spec("API-126", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            for answer in await ask_all(harness, JSON, **DOCUMENT):
                assert (answer.content, answer.finish) == (JSON, "stop")

    @pytest.mark.spec("API-127", "ENG-086")
    async def test_blocks_change_nothing(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            say = "<think>so {{</think>{{" + JSON[1:]
            shown = [await ask(harness, say, stream=True, block=block, max_tokens=200, **DOCUMENT) for block in BLOCKS]
            assert len({answer.content for answer in shown}) == 1
            jsonschema.validate(json.loads(shown[0].content or ""), SCHEMA)

    @pytest.mark.spec("API-167")
    async def test_leaving(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            long = {"response_format": {"type": "json_object"}}
            await leave_inside(harness, json.dumps({"a": "word " * 60}), 12, **long)


class TestStop:
    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-083", "API-084", "ENG-093")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            for say, content in ((["a E", "N", "D b"], "a "), (["a E", "N", "X b"], "a ENX b")):
                call = await harness.client.send(CHAT, chat({"say": say, "block": block}, stream=stream, stop=["END"]))
                assert (said(call).content, said(call).finish) == (content, "stop")

    @STREAMED
    @BLOCK
    @pytest.mark.spec("API-086", "API-095")
    async def test_budget(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
        async with open_harness() as harness:
            say = f"<think>{'w ' * 40}</think>one now two"
            answer = await ask(
                harness, say, stream=stream, block=block, max_reasoning_tokens=5, stop=["w w", "now", "think"]
            )
            assert (answer.content, answer.finish) == ("one ", "stop")

    @pytest.mark.spec("API-083", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            for answer in await ask_all(harness, "one two three", stop=[" two"]):
                assert (answer.content, answer.finish) == ("one", "stop")

    @STREAMED
    @pytest.mark.spec("API-083", "ENG-093")
    async def test_inside_a_block(self, autojump_clock: trio.testing.MockClock, stream: bool) -> None:
        async with open_harness() as harness:
            shown = [
                await ask(harness, "one two three four", stream=stream, block=block, stop=["two"]) for block in BLOCKS
            ]
            assert {answer.content for answer in shown} == {"one "}
            assert {answer.usage["completion_tokens"] for answer in shown} == {2}


class TestBudget:
    @STREAMED
    @BLOCK
    @pytest.mark.parametrize("cap", [1, 2, 9, 1000])
    @pytest.mark.spec("API-088", "API-095", "ENG-097")
    async def test_alone(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int, cap: int) -> None:
        async with open_harness() as harness:
            say = f"<think>{'w ' * 2000}</think>x"
            fields: dict[str, Any] = {"stream": stream, "max_reasoning_tokens": cap, "max_tokens": 9000}
            answer = await ask(harness, say, block=block, **fields)
            plain = await ask(harness, say, **fields)
            assert (answer.reasoning, *counted(answer)) == (plain.reasoning, *counted(plain))
            assert answer.content == "x"
            assert cap < counted(answer)[1] < cap + 20

    @STREAMED
    @pytest.mark.spec("API-090", "API-102")
    async def test_zero_is_no_cap_of_its_own(self, autojump_clock: trio.testing.MockClock, stream: bool) -> None:
        async with open_harness() as harness:
            say = f"<think>{'w ' * 200}</think>x"
            roomy = await ask(harness, say, stream=stream, max_reasoning_tokens=0, max_tokens=9000)
            assert roomy.reasoning == "w " * 200
            tight = await ask(harness, say, stream=stream, max_reasoning_tokens=0, max_tokens=100)
            assert (tight.content, tight.finish) == ("x", "stop")

    @pytest.mark.spec("API-095", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            first, second = await ask_all(harness, f"<think>{'w ' * 50}</think>x", max_reasoning_tokens=5)
            assert first == second
            assert first.content == "x"


class TestTwoChoices:
    @pytest.mark.spec("API-032", "ENG-083")
    async def test_alone(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            one = await harness.client.send(CHAT, chat({"say": "one two"}))
            call = await harness.client.send(CHAT, chat({"say": "one two"}, n=2))
            assert [choice["index"] for choice in call.json["choices"]] == [0, 1]
            assert [answer.finish for answer in all_said(call)] == ["stop", "stop"]
            assert call.json["usage"]["completion_tokens"] == 2 * one.json["usage"]["completion_tokens"]

    @pytest.mark.spec("ENG-083")
    async def test_blocks_change_nothing(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            single = await ask(harness, "one two three", stream=False)
            for block in BLOCKS:
                call = await harness.client.send(CHAT, chat({"say": "one two three", "block": block}, n=2))
                assert all_said(call)[0].content == single.content

    @pytest.mark.spec("API-167", "API-168")
    async def test_leaving(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            call = harness.client.start(CHAT, chat({"say": "word " * 90, "token_ms": 100}, n=2))
            with trio.move_on_after(1):
                await call.finished.wait()
            call.leave()
            await call.finished.wait()
            assert (await harness.look()).running == 0


class TestOneCall:
    """`parallel_tool_calls: false`: the generation ends at the first complete call, whatever else was asked."""

    OTHERS: ClassVar[dict[str, dict[str, Any]]] = {
        "alone": {},
        "forced": {"tool_choice": "required"},
        "named": {"tool_choice": {"type": "function", "function": {"name": "ls"}}},
        "schema": DOCUMENT,
        "stop": {"stop": ["nothing of it"]},
        "budget": {"max_reasoning_tokens": 50},
        "logprobs": {"logprobs": True},
    }

    @STREAMED
    @BLOCK
    @pytest.mark.parametrize("other", OTHERS)
    @pytest.mark.spec("API-119", "ENG-090")
    async def test_with(self, autojump_clock: trio.testing.MockClock, stream: bool, block: int, other: str) -> None:
        async with open_harness() as harness:
            answer = await ask(
                harness,
                f"<think>why</think>\n\n{LS}\n{ADD}\nand prose",
                stream=stream,
                block=block,
                tools=TOOLS,
                parallel_tool_calls=False,
                **self.OTHERS[other],
            )
            assert only_call(answer) == ("ls", {"path": "/tmp"})
            assert (answer.reasoning, answer.content, answer.finish) == ("why", None, "tool_calls")

    @pytest.mark.spec("API-119", "ENG-083")
    async def test_two_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with open_harness() as harness:
            for answer in await ask_all(harness, f"{LS}\n{ADD}", tools=TOOLS, parallel_tool_calls=False):
                assert only_call(answer) == ("ls", {"path": "/tmp"})
