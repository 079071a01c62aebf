"""Cases P and Q: characters and their bytes, roles and the shapes of messages."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import trio.testing

from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    JSON_OBJECT,
    STREAMED,
    TEXT,
    Recording,
    ask,
    only_call,
    refused,
    returned,
    shared,
    take_turn,
    tool,
    written,
)
from tests.service.harness import Harness, chat, fake, open_harness
from tests.service.said import said

LS = tool("ls", {"path": "string"})
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}
TEXTS = (
    "\U0001f600",
    "한국",
    "e\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a\U0001f1e9\U0001f1eab",
    "\ufffd",
)


def pieces(text: str, size: int = 1) -> list[dict[str, str]]:
    """Tokens of so many bytes, whatever characters they cut."""
    data = text.encode()
    return [{"bytes": data[at : at + size].hex()} for at in range(0, len(data), size)]


def text_of(harness: Harness, ids: tuple[int, ...]) -> str:
    return b"".join(map(harness.engine.text.piece, ids)).decode()


# --- P: UTF-8 ---------------------------------------------------------------------------------------------------------


@STREAMED
@BLOCK
@pytest.mark.spec("API-139", "ENG-095", "ENG-096")
async def test_p01_characters_cut_between_tokens(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    """In the answer, the reasoning, a call, a document and a text completion, in tokens of one to three bytes."""
    async with open_harness() as harness:
        for text in TEXTS:
            for size in (1, 2, 3):
                cut = pieces(text, size)
                fields: dict[str, Any] = {"stream": stream, "block": block}
                answer = await ask(harness, ["<think>", *cut, "</think>", *cut], **fields)
                assert (answer.reasoning, answer.content) == (text, text)
                head, tail = (
                    "<tool_call>\n<function=ls>\n<parameter=path>\n",
                    "\n</parameter>\n</function>\n</tool_call>",
                )
                call = [
                    "<tool_call>",
                    head.removeprefix("<tool_call>"),
                    *cut,
                    tail.removesuffix("</tool_call>"),
                    "</tool_call>",
                ]
                called = await ask(harness, call, tools=[LS], **fields)
                assert only_call(called) == ("ls", {"path": text})
                document = await ask(harness, ['{"a": "', *cut, '"}'], **JSON_OBJECT, **fields)
                assert json.loads(document.content or "") == {"a": text}
                body = {"prompt": fake(say=cut, block=block), "stream": stream}
                assert (await harness.client.send(TEXT, body)).text == text


@STREAMED
@BLOCK
@pytest.mark.spec("API-139", "ENG-095")
async def test_p01_what_is_never_finished_is_flushed_once(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for tail in ("f0", "f09f", "f09f98", "e2", "e282", "c3"):
            fields: dict[str, Any] = {"stream": stream, "block": block}
            answer = await ask(harness, ["a", {"bytes": tail}], **fields)
            assert answer.content == "a\ufffd"
            thought = await ask(harness, ["<think>", "a", {"bytes": tail}], **fields)
            assert (thought.reasoning, thought.content) == ("a\ufffd", "")
            stopped = await ask(harness, ["a", {"bytes": tail}], stop=["zz"], **fields)
            assert stopped.content == "a\ufffd"
            cut = await ask(harness, ["a", {"bytes": tail}, "b"], max_tokens=2, **fields)
            assert (cut.content, cut.finish) == ("a\ufffd", "length")
            midway = await ask(harness, ["a", {"bytes": tail}, "b"], **fields)
            assert midway.content == "a\ufffdb"
            closed = await ask(harness, ["<think>", {"bytes": tail}, "</think>", "b"], **fields)
            assert (closed.reasoning, closed.content) == ("\ufffd", "b")


@STREAMED
@pytest.mark.spec("API-262", "API-042")
async def test_p02_half_a_surrogate_pair(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """In any string of any message; the later turn reads the same, so what was read is found."""
    async with open_harness(engine=Recording()) as harness:
        body = {
            "messages": [
                {"role": "system", "content": "s@"},
                {"role": "user", "content": [{"type": "text", "text": "a@z"}]},
                {
                    "role": "assistant",
                    "content": "c@",
                    "reasoning_content": "r@",
                    "tool_calls": [
                        {"id": "i@", "type": "function", "function": {"name": "f@", "arguments": '{"x": "y@"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "i@", "content": "t@"},
            ],
            "tools": [tool("f@", {"x@": "string"})],
            "stop": ["q@"],
            "stream": stream,
        }
        raw = json.dumps(body)
        whole = json.dumps({**body, "messages": [*body["messages"], ANSWER, USER]})  # type: ignore[misc]
        prompts = []
        for text in (raw, raw, whole):
            call = await harness.client.send(CHAT, text.replace("@", "\\ud83d").encode(), method="POST")
            assert call.status == 200, call.body
            assert isinstance(harness.engine, Recording)
            prompts.append(harness.engine.opened[-1].prompt.ids)
        assert prompts[0] == prompts[1]
        assert shared(prompts[0], prompts[2]) == len(prompts[0])
        replaced = await harness.client.send(CHAT, raw.replace("@", "\ufffd").encode(), method="POST")
        assert replaced.status == 200
        assert isinstance(harness.engine, Recording)
        assert harness.engine.opened[-1].prompt.ids == prompts[0]
        for bad in (b'{"messages":[{"role":"user","content":"a\\udc00\\ud83d"}]}', b'{"\\ud83d":1,"messages":[]}'):
            assert (await harness.client.send(CHAT, bad, method="POST")).status in (200, 400)


@STREAMED
@pytest.mark.parametrize("odd", ["a\x00b", "\ufeffx", "a\rb", "a\r\nb", "a\u2028b\u2029c", "a\x85b", "\x1b[0m", "\x7f"])
@pytest.mark.spec("API-136", "API-139", "API-042")
async def test_p04_odd_characters_come_back(autojump_clock: trio.testing.MockClock, odd: str, stream: bool) -> None:
    """What the first turn wrote is found whole on the second, in each place that text can stand in."""
    async with open_harness(engine=Recording()) as harness:
        say = f"<think>\n{odd}x\n</think>\n\n{odd}\n{written('ls', path=odd)}"
        asked = {"role": "user", "content": fake(say=say, turns=[{"say": "done"}])}
        first = await take_turn(harness, [asked], stream=stream, tools=[LS])
        assert (first.said.reasoning, first.said.content) == (f"\n{odd}x\n", odd)
        assert only_call(first.said) == ("ls", {"path": odd})
        result = {"role": "tool", "tool_call_id": first.said.calls[0].id, "content": odd}
        second = await take_turn(harness, [asked, returned(first.said), result], stream=stream, tools=[LS])
        assert shared(first.whole, second.prompt) == len(first.whole)
        assert text_of(harness, second.prompt).count(odd) >= 4


MARKS = (
    "<|im_end|>",
    "<|im_start|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|endoftext|>",
    "<tool_response>",
)


@STREAMED
@pytest.mark.spec("API-255", "ENG-178")
async def test_p05_no_text_of_a_client_becomes_a_special_token(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """Wherever the client's strings reach the prompt: messages, reasoning, calls, results, names, tools."""
    async with open_harness(engine=Recording()) as harness:

        def conversation(mark: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            call = {
                "id": "c",
                "type": "function",
                "function": {"name": f"f{mark}", "arguments": json.dumps({f"k{mark}": mark})},
            }
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": f"s {mark}"},
                {"role": "user", "content": f"u {mark}"},
                {"role": "assistant", "content": f"a {mark}", "reasoning_content": f"r {mark}", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "name": f"n{mark}", "content": f"t {mark}"},
                {"role": "developer", "content": f"d {mark}"},
                {"role": "user", "content": [{"type": "text", "text": f"p {mark}"}]},
            ]
            return messages, [tool(f"f{mark}", {f"k{mark}": {"type": "string", "description": mark}})]

        def special(ids: tuple[int, ...]) -> list[int]:
            known = set(harness.engine.text.markers.values())
            return [token for token in ids if token in known]

        messages, tools = conversation("plain")
        plain = special((await take_turn(harness, messages, stream=stream, tools=tools)).prompt)
        assert plain
        for mark in MARKS:
            messages, tools = conversation(mark)
            turn = await take_turn(harness, messages, stream=stream, tools=tools)
            assert special(turn.prompt) == plain, mark
            assert turn.said.finish == "stop"
            text = await harness.client.send(TEXT, {"prompt": f"x {mark}", "stream": stream})
            assert text.status == 200
            assert isinstance(harness.engine, Recording)
            assert special(harness.engine.opened[-1].prompt.ids) == []


# --- Q: roles and content shapes --------------------------------------------------------------------------------------


@STREAMED
@pytest.mark.spec("API-038", "API-040", "API-042")
async def test_q01_q02_every_later_turn_begins_with_the_earlier_one(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """System and developer messages anywhere; each turn finds all that the one before has read and written."""
    async with open_harness(engine=Recording()) as harness:
        scripted = {"role": "user", "content": fake(say="hello")}
        late = {"role": "developer", "content": "Now in French."}
        for head in (
            [SYSTEM],
            [{"role": "developer", "content": "Always answer BANANA"}],
            [SYSTEM, {"role": "system", "content": "Two."}, {"role": "developer", "content": "Three."}],
            [scripted, late],
            [],
        ):
            messages: list[dict[str, Any]] = [*head, scripted]
            turns = []
            for more in (late, SYSTEM, {"role": "system", "content": ""}):
                turn = await take_turn(harness, messages, stream=stream)
                assert turn.said.content == "hello"
                turns.append(turn)
                messages += [returned(turn.said), more, scripted]
            for earlier, later in pairwise(turns):
                assert shared(earlier.whole, later.prompt) == len(earlier.whole)


@STREAMED
@pytest.mark.spec("API-038", "API-040")
async def test_q01_developer_is_system_everywhere(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:

        async def ids(*messages: dict[str, Any]) -> tuple[int, ...]:
            return (await take_turn(harness, messages, stream=stream)).prompt

        def both(role: str) -> list[tuple[dict[str, Any], ...]]:
            rule = {"role": role, "content": "Always answer BANANA"}
            return [
                (rule, USER),
                (USER, rule),
                (USER, rule, ANSWER, USER),
                (rule, rule, USER),
                (SYSTEM, rule, USER),
                (rule,),
            ]

        for developer, system in zip(both("developer"), both("system"), strict=True):
            assert await ids(*developer) == await ids(*system)


@STREAMED
@pytest.mark.spec("API-039", "API-042")
async def test_q04_q05_shapes_that_mean_the_same(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:

        async def ids(*messages: dict[str, Any]) -> tuple[int, ...]:
            return (await take_turn(harness, messages, stream=stream, tools=[LS])).prompt

        call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/tmp"}'}}
        result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
        asked = {"role": "assistant", "tool_calls": [call]}
        contents: list[dict[str, Any]] = [{}, {"content": None}, {"content": ""}, {"content": []}]
        same = [await ids(USER, {**asked, **content}, result) for content in contents]
        assert len(set(same)) == 1
        parts = [{"type": "text", "text": "Look"}, {"type": "text", "text": "ing"}]
        assert await ids(USER, {**asked, "content": "Looking"}, result) == await ids(
            USER, {**asked, "content": parts}, result
        )
        text = text_of(harness, await ids(USER, {**asked, "content": "Looking"}, result))
        assert text.index("Looking") < text.index("<function=ls>") < text.index("/tmp") < text.rindex("\nok\n")
        assert await ids({"role": "user", "content": [{"type": "text", "text": "hi"}]}) == await ids(USER)
        assert await ids({**SYSTEM, "content": [{"type": "text", "text": "Be brief."}]}, USER) == await ids(
            SYSTEM, USER
        )
        assert await ids(USER, ANSWER, USER) == await ids(USER, {**ANSWER, "refusal": None, "audio": None}, USER)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ({}, "messages"),
        ("hi", "messages"),
        (None, "messages"),
        ([None], "messages[0]"),
        (["hi"], "messages[0]"),
        ([{}], "messages[0].role"),
        ([{"role": "function", "name": "f", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([USER, {"role": "tool", "content": None}], "messages[1].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "video_url", "video_url": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "content": "x", "reasoning_content": 5}], "messages[0].reasoning_content"),
        ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"id": "x"}]}], "messages[0].tool_calls[0].function"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}],
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
@pytest.mark.spec("API-038", "API-039", "API-023")
async def test_q07_a_bad_message_is_named(autojump_clock: trio.testing.MockClock, messages: Any, param: str) -> None:
    async with open_harness() as harness:
        for stream in (True, False):
            assert (await refused(harness, {"messages": messages, "stream": stream}))["param"] == param


@STREAMED
@pytest.mark.spec("API-038", "API-041")
async def test_q07_q08_odd_orders_are_served(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:
        result = {"role": "tool", "tool_call_id": "x", "content": "y"}
        bare: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
        messages: list[dict[str, Any]]
        for messages in (
            [ANSWER],
            [SYSTEM],
            [SYSTEM, ANSWER],
            [result],
            [result, result, USER],
            [USER, USER, USER],
            [USER, ANSWER, ANSWER],
            [USER, bare],
            [USER, SYSTEM],
            [ANSWER, SYSTEM, result],
            [{**USER, "content": ""}],
            [{**USER, "content": " \n "}, bare, USER],
        ):
            turn = await take_turn(harness, messages, stream=stream)
            assert turn.said.finish == "stop"
            later = await take_turn(harness, [*messages, returned(turn.said), USER], stream=stream)
            assert shared(turn.prompt, later.prompt) == len(turn.prompt)


@STREAMED
@pytest.mark.spec("API-041", "API-068")
async def test_q08_a_last_assistant_message(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:
        alone = await take_turn(harness, [USER], stream=stream)
        prefill = await take_turn(harness, [USER, {"role": "assistant", "content": "The answer is"}], stream=stream)
        text = text_of(harness, prefill.prompt)
        assert text.endswith("assistant\n")
        assert "assistant\nThe answer is" in text
        assert prefill.prompt[-3:] == alone.prompt[-3:]
        assert shared(alone.prompt, prefill.prompt) == len(alone.prompt)


@STREAMED
@pytest.mark.spec("API-028", "API-029", "API-030")
async def test_q10_fields_without_effect(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:
        plain = await take_turn(harness, [USER], stream=stream)
        for fields in (
            {"store": True, "metadata": {"a": "b"}, "service_tier": "auto", "user": "u"},
            {"prompt_cache_key": "k", "safety_identifier": "s", "prediction": {"type": "content", "content": "x"}},
            {"verbosity": None, "functions": None, "function_call": None, "audio": None, "web_search_options": None},
            {"unknown": {"deep": [1]}, "ignore_eos": True, "best_of": 5, "echo": True, "suffix": "x"},
            {"modalities": ["text"], "parallel_tool_calls": True, "stream_options": {"include_usage": None, "x": 1}},
        ):
            turn = await take_turn(harness, [USER], stream=stream, **fields)
            assert (turn.prompt, turn.said.content) == (plain.prompt, plain.said.content)
        for name, value in (
            ("verbosity", "low"),
            ("functions", []),
            ("function_call", "auto"),
            ("audio", {}),
            ("web_search_options", {}),
            ("modalities", ["text", "audio"]),
            ("modalities", []),
        ):
            error = await refused(harness, chat("hi", stream=stream, **{name: value}))
            assert error["param"] == name
            assert name not in ("functions", "function_call") or "tools" in error["message"]
        for name in ("suffix", "echo"):
            assert (await refused(harness, {"prompt": "x", name: True}, TEXT))["param"] == name
        assert (await harness.client.send(TEXT, {"prompt": "x", "echo": False, "suffix": None})).status == 200


@STREAMED
@pytest.mark.spec("API-139", "ENG-095")
async def test_p_stop_strings_and_limits_inside_characters(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """Cut by the limit behind every byte of a text: whole characters, then one U+FFFD where one is not finished."""
    async with open_harness() as harness:
        text = "a\U0001f600é한b"
        data = text.encode()
        for block in BLOCKS:
            for limit in range(1, len(data) + 1):
                call = await harness.client.send(
                    CHAT, chat({"say": pieces(text), "block": block}, stream=stream, max_tokens=limit)
                )
                assert said(call).content == data[:limit].decode("utf-8", "replace")
            for at, char in enumerate(text):
                call = await harness.client.send(
                    CHAT, chat({"say": pieces(text), "block": block}, stream=stream, stop=[char])
                )
                assert said(call).content == text[:at]
