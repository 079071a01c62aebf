"""Cases D to F: calls on the wire, the types of their arguments, and what `tool_choice` asks for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import trio.testing

from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    STREAMED,
    TEXT,
    Recording,
    ask,
    ask_all,
    counted,
    only_call,
    refused,
    returned,
    shared,
    take_turn,
    tool,
    written,
)
from tests.service.harness import Harness, chat, fake, open_harness
from tests.service.said import Said, said

LS = tool("ls", {"path": "string"})
ADD = tool("add", {"a": "integer", "b": "integer"})
TOOLS = [LS, ADD]
CALL = written("ls", path="/tmp")
JSON_CALL = '<tool_call>\n{"name": "ls", "arguments": {"path": "/tmp"}}\n</tool_call>'
OFF: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
FORMS = pytest.mark.parametrize("form", [CALL, JSON_CALL], ids=["xml", "json"])


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


async def read_value(harness: Harness, schema: Any, value: str, *, stream: bool, block: int = 1) -> Any:
    """What the client gets of a parameter of this schema that the model writes as `value`."""
    offered = tool("f", {"p": schema})
    answer = await ask(harness, written("f", p=value), stream=stream, block=block, tools=[offered])
    [(name, arguments)] = [(call.name, call.values) for call in answer.calls]
    assert (name, list(arguments), answer.finish) == ("f", ["p"], "tool_calls")
    return arguments["p"]


# --- D: calls on a stream ---------------------------------------------------------------------------------------------


@FORMS
@BLOCK
@pytest.mark.spec("API-110", "API-105")
async def test_d01_d02_d04_deltas_for_a_strict_accumulator(
    autojump_clock: trio.testing.MockClock, block: int, form: str
) -> None:
    """Whatever joins the strings of all deltas of an index gets the call; nothing is said twice."""
    async with open_harness() as harness:
        say = f"I look.\n{form}\n{written('add', a=1, b=2)}"
        call = await harness.client.send(CHAT, chat({"say": say, "block": block}, stream=True, tools=TOOLS))
        assert said(call).finish == "tool_calls"
        pieces = [
            piece
            for chunk in call.chunks
            for choice in chunk["choices"]
            for piece in choice["delta"].get("tool_calls", ())
        ]
        assert all(type(piece["index"]) is int for piece in pieces)
        for index, name, arguments in ((0, "ls", {"path": "/tmp"}), (1, "add", {"a": 1, "b": 2})):
            own = [piece for piece in pieces if piece["index"] == index]
            assert own[0].keys() == {"index", "id", "type", "function"}
            assert own[0]["function"] == {"name": name, "arguments": ""}
            assert all(piece.keys() == {"index", "function"} for piece in own[1:])
            assert all(piece["function"].keys() == {"arguments"} for piece in own[1:])
            assert "".join(piece.get("type", "") for piece in own) == "function"
            assert json.loads("".join(piece["function"]["arguments"] for piece in own)) == arguments


@STREAMED
@BLOCK
@pytest.mark.spec("API-108", "API-110")
async def test_d05_arguments_before_the_name(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        say = '<tool_call>{"arguments": {"path": "/a b"}, "name": "ls"}</tool_call>'
        for pieces in (say, list(say)):
            answer = await ask(harness, pieces, stream=stream, block=block, tools=TOOLS)
            assert only_call(answer) == ("ls", {"path": "/a b"})
            assert (answer.content, answer.finish) == (None, "tool_calls")


@STREAMED
@FORMS
@pytest.mark.spec("API-105", "API-042")
async def test_d07_arguments_are_a_string_out_and_either_in(
    autojump_clock: trio.testing.MockClock, stream: bool, form: str
) -> None:
    """And the turn after the call finds all of the first."""
    async with open_harness(engine=Recording()) as harness:
        asked = {"role": "user", "content": fake(say=form, turns=[{"say": "done"}])}
        first = await take_turn(harness, [asked], stream=stream, tools=TOOLS)
        [call] = first.said.calls
        assert isinstance(call.arguments, str)
        result = {"role": "tool", "tool_call_id": call.id, "content": "a.py"}
        as_string = returned(first.said)
        as_object = returned(first.said)
        as_object["tool_calls"][0]["function"]["arguments"] = call.values
        second = await take_turn(harness, [asked, as_string, result], stream=stream, tools=TOOLS)
        other = await take_turn(harness, [asked, as_object, result], stream=stream, tools=TOOLS)
        assert (second.said.content, second.said.finish) == ("done", "stop")
        assert second.prompt == other.prompt
        assert shared(first.prompt, second.prompt) == len(first.prompt)
        if form == CALL:  # written as the template writes it
            assert shared(first.whole, second.prompt) == len(first.whole)


@STREAMED
@BLOCK
@pytest.mark.spec("API-105", "API-112", "API-042")
async def test_d07_thinking_text_and_two_calls_are_found_whole(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness(engine=Recording()) as harness:
        say = f"<think>\nwhy\n</think>\n\nI look.\n{CALL}\n{written('add', a=1, b=2)}"
        asked = {"role": "user", "content": fake(say=say, block=block, turns=[{"say": "done"}])}
        first = await take_turn(harness, [asked], stream=stream, tools=TOOLS)
        assert [call.name for call in first.said.calls] == ["ls", "add"]
        results = [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in first.said.calls]
        second = await take_turn(harness, [asked, returned(first.said), *results], stream=stream, tools=TOOLS)
        assert second.said.content == "done"
        assert shared(first.whole, second.prompt) == len(first.whole)


@STREAMED
@BLOCK
@FORMS
@pytest.mark.spec("API-105", "API-163", "API-117")
async def test_d08_the_finish_is_tool_calls(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int, form: str
) -> None:
    async with open_harness() as harness:
        for say in (form, f"text {form}", f"{form}\ntext", f"<think>w</think>{form}"):
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS)
            assert (answer.calls[0].name, answer.finish) == ("ls", "tool_calls")
        for choice in ("auto", "required", named("ls")):
            answer = await ask(harness, CALL, stream=stream, block=block, tools=TOOLS, tool_choice=choice)
            assert (only_call(answer), answer.finish) == (("ls", {"path": "/tmp"}), "tool_calls")


@STREAMED
@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.spec("API-121", "API-122", "API-163", "API-164", "API-111")
async def test_d08_cut_at_every_token(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    """Thinking, text, a call, text and a second call, cut by the limit behind every one of their tokens."""
    async with open_harness(engine=Recording()) as harness:
        say = f"<think>why so</think>\n\nI look.\n{CALL}\nand\n{written('add', a=1, b=2)}"
        fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS}
        whole = await ask(harness, say, **fields)
        total = counted(whole)[0]
        assert (whole.reasoning, whole.content, whole.finish) == ("why so", "I look.and", "tool_calls")
        for limit in range(1, total + 2):
            answer = await ask(harness, say, max_tokens=limit, **fields)
            assert answer.finish == ("length" if limit < total else "tool_calls")
            assert counted(answer)[0] == min(limit, total)
            check_cut(answer, whole, said_so_far(harness), is_live=stream)


def said_so_far(harness: Harness) -> str:
    """The text of the tokens that the last sequence wrote."""
    assert isinstance(harness.engine, Recording)
    return b"".join(map(harness.engine.text.piece, harness.engine.opened[-1].output)).decode()


def check_cut(answer: Said, whole: Said, text: str, *, is_live: bool) -> None:
    """What a cut answer has of the `text` written; `whole` is the answer that is not cut.

    A block that is open goes out live as far as it got, and otherwise as text.
    """
    reasoning, _, rest = text.removeprefix("<think>").partition("</think>")
    assert (answer.reasoning or "") == reasoning
    content = re.sub(r"\s*<tool_call>.*?</tool_call>\s*", "", rest.lstrip("\n"), flags=re.DOTALL)
    if is_live:
        content = re.sub(r"\s*<tool_call>.*", "", content, flags=re.DOTALL)
    assert (answer.content or "") == content
    assert answer.content is not None or answer.calls
    closed = rest.count("</tool_call>")
    assert answer.calls[:closed] == [
        replace(call, id=answer.calls[at].id) for at, call in enumerate(whole.calls[:closed])
    ]
    for call in answer.calls[closed:]:
        assert is_live
        assert (call.name, len(answer.calls)) == (whole.calls[closed].name, closed + 1)
        assert whole.calls[closed].arguments.startswith(call.arguments)
        with pytest.raises(ValueError):  # nobody can run it
            json.loads(call.arguments)


@STREAMED
@pytest.mark.spec("API-120", "API-121", "API-163", "API-083")
async def test_d08_a_stop_string_at_every_place(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Streamed and not the same: a call whole, or its text as far as the stop string."""
    async with open_harness() as harness:
        say = f"I look.\n{CALL}\nand\n{written('add', a=1, b=2)} END"
        whole = await ask(harness, say, stream=stream, tools=TOOLS)
        for at in range(len(say) - 4):
            stop = say[at : at + 5]
            text = say[: say.index(stop)]
            answer = await ask(harness, say, stream=stream, block=3, tools=TOOLS, stop=[stop])
            check_cut(answer, whole, f"</think>{text}", is_live=False)
            assert answer.finish == ("tool_calls" if "</tool_call>" in text else "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-108", "API-112")
async def test_d10_bare_json_is_text(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        for say in (
            '{"name":"ls","arguments":{"path":"/"}}',
            '```json\n{"name":"ls","arguments":{"path":"/"}}\n```',
            '[{"name":"ls","arguments":{"path":"/"}}]',
            '{"tool_calls":[{"name":"ls","arguments":{}}]}',
            "ls(path='/')",
        ):
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS)
            assert (answer.content, answer.calls, answer.finish) == (say, [], "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-107", "API-111")
async def test_d11_prose_behind_a_value(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    """The value goes up to the next tag, as written; text may not be lost or become a call."""
    async with open_harness() as harness:
        head = "<tool_call>\n<function=ls>\n<parameter=path>\n/tmp\nNow let me explain"
        for tail in (
            "\n</function>\n</tool_call>",
            "\n</tool_call>",
            "\n<parameter=other>\nx\n</parameter>\n</function>\n</tool_call>",
        ):
            answer = await ask(harness, head + tail, stream=stream, block=block, tools=TOOLS)
            [call] = answer.calls
            assert call.values["path"] == "/tmp\nNow let me explain"
            assert answer.finish == "tool_calls"
        # Never closed at all: no call to run, and on the JSON path nothing is lost.
        answer = await ask(harness, head, stream=stream, block=block, tools=TOOLS)
        if stream:
            [call] = answer.calls
            assert call.arguments == '{"path":"/tmp\\nNow let me explain'
            assert (answer.content, answer.finish) == (None, "stop")
        else:
            assert (answer.content, answer.calls, answer.finish) == (head, [], "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-115", "API-117", "API-042")
async def test_d13_a_tool_of_another_name(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness(engine=Recording()) as harness:
        call = {"id": "c1", "type": "function", "function": {"name": "unknown", "arguments": "{}"}}
        history: list[dict[str, Any]] = [
            {
                "role": "user",
                "content": fake(say="ignored", turns=[{"say": written("unknown", x="1"), "block": block}]),
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "no such tool"},
        ]
        free = await take_turn(harness, history, stream=stream, tools=TOOLS)
        assert only_call(free.said) == ("unknown", {"x": "1"})
        assert free.said.finish == "tool_calls"
        for choice, names in (("required", {"ls", "add"}), (named("add"), {"add"})):
            forced = await take_turn(harness, history, stream=stream, tools=TOOLS, tool_choice=choice, max_tokens=400)
            assert {each.name for each in forced.said.calls} <= names
            assert forced.said.calls


@STREAMED
@pytest.mark.parametrize("arguments", ['{"a":', "not json", "[1]", "", '{"a": NaN}', '{"a": 1}{', "null", '"x"'])
@pytest.mark.spec("API-042")
async def test_d14_broken_arguments_keep_the_prefix(
    autojump_clock: trio.testing.MockClock, arguments: str, stream: bool
) -> None:
    """The prompt of the next turn begins with that of the turn before, wherever the broken call stands."""
    async with open_harness(engine=Recording()) as harness:
        call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": arguments}}
        history: list[dict[str, Any]] = [
            {"role": "user", "content": fake(say="a", turns=[{"say": "one"}])},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "error"},
        ]
        first = await take_turn(harness, history, stream=stream, tools=TOOLS)
        assert first.said.content == "one"
        more = [*history, returned(first.said), {"role": "user", "content": "go on"}]
        second = await take_turn(harness, more, stream=stream, tools=TOOLS)
        assert shared(first.whole, second.prompt) == len(first.whole)


@STREAMED
@pytest.mark.spec("API-121", "API-122", "API-042")
async def test_d14_a_call_cut_by_the_limit_comes_back(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Whatever a client got of a cut answer can be sent back, cut arguments too, wherever the limit fell."""
    async with open_harness(engine=Recording()) as harness:
        say = f"<think>\nwhy\n</think>\n\nI look.\n{CALL}"
        asked = {"role": "user", "content": fake(say=say, turns=[{"say": "done"}])}
        for limit in range(1, 40):
            first = await take_turn(harness, [asked], stream=stream, tools=TOOLS, max_tokens=limit)
            results = [{"role": "tool", "tool_call_id": each.id, "content": "cut"} for each in first.said.calls]
            later = await take_turn(harness, [asked, returned(first.said), *results], stream=stream, tools=TOOLS)
            assert later.said.content == "done"
            assert shared(first.prompt, later.prompt) == len(first.prompt)


@pytest.mark.spec("API-105", "ENG-083")
async def test_d_ids_are_unique_in_a_response_and_between_responses(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        ids = [
            call.id
            for _ in range(3)
            for answer in await ask_all(harness, f"{CALL}\n{CALL}\n{JSON_CALL}", n=3, tools=TOOLS)
            for call in answer.calls
        ]
        assert len(ids) == len(set(ids)) == 27


@STREAMED
@pytest.mark.spec("API-047")
async def test_d_the_completions_route_reads_no_calls(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness() as harness:
        say = f"<think>w</think>\n\n{CALL}"
        body = {"prompt": fake(say=say), "stream": stream, "tools": TOOLS, "tool_choice": "required"}
        assert (await harness.client.send(TEXT, body)).text == say


# --- E: argument types ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        ("integer", "130", 130),
        ("integer", " 130 ", 130),
        ("integer", "-7", -7),
        ("number", "1.5", 1.5),
        ("integer", "many", "many"),
        ("integer", "", ""),
        ({"$ref": "#/properties/p/$defs/n", "$defs": {"n": {"type": "integer"}}}, "130", 130),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "130", 130),
        ({"enum": [10, 20]}, "10", 10),
    ],
)
@STREAMED
@pytest.mark.spec("API-109", "ENG-190", "API-111")
async def test_e01_numbers(
    autojump_clock: trio.testing.MockClock, schema: Any, value: str, read: Any, stream: bool
) -> None:
    async with open_harness() as harness:
        for block in BLOCKS:
            got = await read_value(harness, schema, value, stream=stream, block=block)
            assert (got, type(got)) == (read, type(read))


@STREAMED
@BLOCK
@pytest.mark.spec("API-109", "ENG-190")
async def test_e02_an_object_where_a_string_is_expected(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for value in ('{"a": 1}', "[1, 2]", "12", "true", "null", '"quoted"', "{'a': 1}", '{"a":\n  1}'):
            assert await read_value(harness, "string", value, stream=stream, block=block) == value
            assert await read_value(harness, {}, value, stream=stream, block=block) == value


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        ("boolean", "True", True),
        ("boolean", "False", False),
        ("boolean", "true", True),
        ({"type": ["boolean", "null"]}, "None", None),
        ({"type": ["integer", "null"]}, "None", None),
        ({"type": ["integer", "null"]}, "null", None),
        ("boolean", "None", "None"),
        ("boolean", "TRUE", "TRUE"),
        ("string", "'x'", "'x'"),
        ("string", "None", "None"),
        ({"type": ["string", "null"]}, "None", "None"),
        ({"type": ["string", "null"]}, "null", None),
    ],
)
@STREAMED
@pytest.mark.spec("API-109", "ENG-190")
async def test_e04_python_literals(
    autojump_clock: trio.testing.MockClock, schema: Any, value: str, read: Any, stream: bool
) -> None:
    async with open_harness() as harness:
        got = await read_value(harness, schema, value, stream=stream)
        assert (got, type(got)) == (read, type(read))


@pytest.mark.parametrize(
    ("schema", "value", "read"),
    [
        ("string", "02134", "02134"),
        ("integer", "02134", 2134),
        ({"type": ["integer", "string"]}, "007", "007"),
        ({"type": ["integer", "string"]}, "42", 42),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "42", 42),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "0", 0),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "-0", "-0"),
        ({"type": ["number", "string"]}, "1.50", "1.50"),
        ("integer", "000", 0),
        ("integer", "-007", -7),
        ("number", "007.5", 7.5),
    ],
)
@STREAMED
@pytest.mark.spec("API-109", "ENG-190")
async def test_e05_leading_zeros(
    autojump_clock: trio.testing.MockClock, schema: Any, value: str, read: Any, stream: bool
) -> None:
    async with open_harness() as harness:
        got = await read_value(harness, schema, value, stream=stream)
        assert (got, type(got)) == (read, type(read))


@STREAMED
@BLOCK
@pytest.mark.spec("API-106", "API-109", "API-111")
async def test_e07_whitespace_of_a_string_is_kept(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness(engine=Recording()) as harness:
        for value in ("  two and one\n", "\n\n", "\n", "", " ", "\ta\r\nb\r\n", "a\n\n\nb", "\r", "é\n한 \U0001f600"):
            assert await read_value(harness, "string", value, stream=stream, block=block) == value
        # And stands in the prompt of the next turn as it was written.
        value = "  two and one\n"
        asked = {"role": "user", "content": fake(say=written("ls", path=value), block=block, turns=[{"say": "done"}])}
        first = await take_turn(harness, [asked], stream=stream, tools=TOOLS)
        result = {"role": "tool", "tool_call_id": first.said.calls[0].id, "content": "ok"}
        second = await take_turn(harness, [asked, returned(first.said), result], stream=stream, tools=TOOLS)
        assert shared(first.whole, second.prompt) == len(first.whole)


@STREAMED
@pytest.mark.spec("API-109")
async def test_e08_no_silent_change_of_an_enum(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness() as harness:
        order = {"enum": ["asc", "desc"]}
        for schema in (order, {"type": "string", **order}, {"const": "asc"}):
            assert await read_value(harness, schema, "ASC", stream=stream) == "ASC"
            assert await read_value(harness, schema, "asc", stream=stream) == "asc"
        # Where the call is forced, the mask leaves the listed values alone.
        offered = tool("sort", {"order": order})
        answer = await ask(
            harness,
            written("sort", order="ASC"),
            stream=stream,
            tools=[offered],
            tool_choice="required",
            max_tokens=200,
        )
        assert answer.calls[0].values["order"] in order["enum"]


# --- F: tool_choice ---------------------------------------------------------------------------------------------------


@STREAMED
@BLOCK
@pytest.mark.spec("API-117", "ENG-090", "ENG-188")
async def test_f01_required_gives_a_valid_call(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for say in ("hello", "", "<tool_call>", "```json", "<function=rm>", "\n\n"):
            for choice, names in (("required", {"ls", "add"}), (named("add"), {"add"})):
                fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": choice, "max_tokens": 400, **OFF}
                answer = await ask(harness, say, stream=stream, block=block, **fields)
                assert answer.calls
                assert (answer.content, answer.finish) == (None, "tool_calls")
                for call in answer.calls:
                    assert call.name in names
                    [offered] = [each["function"] for each in TOOLS if each["function"]["name"] == call.name]
                    jsonschema.validate(call.values, offered["parameters"])


@pytest.mark.parametrize("choice", ["required", named("ls")], ids=["required", "named"])
@STREAMED
@BLOCK
@pytest.mark.spec("API-117", "ENG-087", "API-105")
async def test_f02_thinking_comes_first(
    autojump_clock: trio.testing.MockClock, choice: Any, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for say in (f"<think>first {{}} I think</think>\n\n{CALL}", f"first {{}} I think</think>\n\n{CALL}"):
            answer = await ask(harness, say, stream=stream, block=block, tools=TOOLS, tool_choice=choice)
            assert answer.reasoning == "first {} I think"
            assert only_call(answer) == ("ls", {"path": "/tmp"})
            assert (answer.content, answer.finish) == (None, "tool_calls")


@STREAMED
@pytest.mark.spec("API-116", "API-118")
async def test_f04_f05_f07_without_tools(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    fields: dict[str, Any]
    tools: dict[str, Any]
    async with open_harness(engine=Recording()) as harness:
        asked = [{"role": "user", "content": fake(say="hi")}]
        plain = await take_turn(harness, asked, stream=stream)
        for fields in (
            {"tool_choice": "none"},
            {"tool_choice": "auto"},
            {"tools": []},
            {"tools": None, "tool_choice": None},
            {"tools": [], "tool_choice": "auto"},
            {"tools": [], "tool_choice": "none", "parallel_tool_calls": True},
            {"parallel_tool_calls": False},
        ):
            turn = await take_turn(harness, asked, stream=stream, **fields)
            assert (turn.said.content, turn.said.finish, turn.prompt) == ("hi", "stop", plain.prompt)
        for choice in ("required", named("ls"), "any", {"type": "function"}, {"type": "none"}, 1, ["auto"]):
            for tools in ({}, {"tools": []}):
                assert (await refused(harness, chat("hi", stream=stream, tool_choice=choice, **tools)))["param"] == (
                    "tool_choice"
                )
        error = await refused(harness, chat("hi", stream=stream, tools=TOOLS, tool_choice=named("rm")))
        assert error["param"] == "tool_choice"


@STREAMED
@pytest.mark.spec("API-042", "API-039")
async def test_f08_an_empty_list_of_calls_in_history(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(engine=Recording()) as harness:
        asked = {"role": "user", "content": fake(say="hi")}
        answered = {"role": "assistant", "content": "hi"}
        more = {"role": "user", "content": "more"}
        first = await take_turn(harness, [asked], stream=stream, tools=TOOLS)
        ways: list[dict[str, Any]] = [
            answered,
            {**answered, "tool_calls": []},
            {**answered, "tool_calls": None},
            {**answered, "tool_calls": [], "reasoning_content": "", "reasoning": None},
        ]
        prompts = [
            (await take_turn(harness, [asked, message, more], stream=stream, tools=TOOLS)).prompt for message in ways
        ]
        assert len(set(prompts)) == 1
        assert shared(first.whole, prompts[0]) == len(first.whole)


@STREAMED
@BLOCK
@pytest.mark.spec("API-119", "ENG-090")
async def test_f_parallel_calls(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        add = written("add", a=1, b=2)
        fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS}
        for choice, parallel, names in (
            ("auto", None, ["ls", "add"]),
            ("auto", False, ["ls"]),
            ("required", None, ["ls", "add"]),
            ("required", False, ["ls"]),
            (named("ls"), None, ["ls"]),
            (named("ls"), False, ["ls"]),
        ):
            answer = await ask(harness, f"{CALL}\n{add}", tool_choice=choice, parallel_tool_calls=parallel, **fields)
            assert [call.name for call in answer.calls] == names
            assert answer.finish == "tool_calls"
        many = await ask(harness, "\n".join([CALL] * 30), tool_choice="required", **fields)
        assert len(many.calls) == 16
        twice = await ask(harness, f"{CALL}\n{CALL}", tool_choice=named("ls"), parallel_tool_calls=True, **fields)
        assert [call.name for call in twice.calls] == ["ls", "ls"]
        assert (await refused(harness, chat("x", tools=TOOLS, parallel_tool_calls="yes")))["param"] == (
            "parallel_tool_calls"
        )


@STREAMED
@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.spec("API-117", "API-121", "API-122", "API-163")
async def test_f_a_forced_call_cut_at_every_token(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness(engine=Recording()) as harness:
        say = f"<think>why so</think>\n\n{CALL}"
        fields: dict[str, Any] = {"stream": stream, "block": block, "tools": TOOLS, "tool_choice": "required"}
        whole = await ask(harness, say, **fields)
        total = counted(whole)[0]
        for limit in range(1, total + 1):
            answer = await ask(harness, say, max_tokens=limit, **fields)
            assert answer.finish == ("length" if limit < total else "tool_calls"), limit
            assert counted(answer)[0] == limit
            check_cut(answer, whole, said_so_far(harness), is_live=stream)


@STREAMED
@pytest.mark.spec("API-121", "API-163", "API-164")
async def test_d08_cut_by_the_deadline(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """As by the limit, with the finish `timeout` also behind a complete call."""
    say = f"I look.\n{CALL}\n{written('add', a=1, b=2)}"
    async with open_harness() as harness:
        whole = await ask(harness, say, stream=stream, tools=TOOLS)
    for seconds in range(1, 6):
        async with open_harness(engine=Recording(), request_timeout=seconds) as harness:
            call = await harness.client.send(CHAT, chat({"say": say, "token_ms": 110}, stream=stream, tools=TOOLS))
            assert said(call).finish == "timeout"
            check_cut(said(call), whole, f"</think>{said_so_far(harness)}", is_live=stream)


@pytest.mark.spec("API-104", "API-109", "API-118", "API-025")
async def test_e_odd_tool_schemas(autojump_clock: trio.testing.MockClock) -> None:
    """Offered freely they are served, whatever they say; where a call is forced they are served or named."""
    odd: list[Any] = [
        None,
        {},
        {"type": "string"},
        {"properties": []},
        {"properties": {"p": 5}},
        {"properties": {"p": False}},
        {"properties": {"p": {"type": ["integer", 5]}}},
        {"properties": {"p": {"$ref": 5}}},
        {"properties": {"p": {"$ref": "#/properties/p"}}},
        {"properties": {"p": {"anyOf": "x"}}},
        {"properties": {"p": {"enum": 5}}},
        {"properties": {"p": {"type": "integer"}}, "required": "p"},
        {"properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"patternProperties": {"(": {"type": "integer"}}},
        {"properties": {"p": {"type": "number", "multipleOf": 0}}},
    ]
    async with open_harness() as harness:
        for parameters in odd:
            offered = {"type": "function", "function": {"name": "f", "parameters": parameters}}
            for value in ("5", "x", "", '{"q": 1}', "9" * 5000):
                say = ["<tool_call>", written("f", p=value)[len("<tool_call>") : -len("</tool_call>")], "</tool_call>"]
                for stream in (True, False):
                    answer = await ask(harness, say, stream=stream, tools=[offered])
                    assert (answer.calls[0].name, answer.finish) == ("f", "tool_calls")
                    assert answer.calls[0].values.keys() == {"p"}
                    call = await harness.client.send(
                        CHAT,
                        chat({"say": say}, stream=stream, tools=[offered], tool_choice="required", max_tokens=60),
                    )
                    assert call.status in (200, 400)
                    if call.status == 400:
                        assert call.json["error"]["param"] == "tools"
                    elif said(call).finish == "tool_calls":
                        assert all(isinstance(each.values, dict) for each in said(call).calls)
