"""Case G: constrained answers."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import jsonschema
import pytest
import trio.testing

from tandem.engine.fake import FakeText
from tandem.engine.grammar.constraints import JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    JSON_OBJECT,
    STREAMED,
    TEXT,
    Recording,
    ask,
    ask_all,
    counted,
    only_call,
    refused,
    returned,
    schema_format,
    shared,
    take_turn,
    tool,
    written,
)
from tests.service.harness import chat, fake, open_harness
from tests.service.said import said

OFF: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
T = {
    "type": "object",
    "properties": {"t": {"type": "integer"}},
    "required": ["t"],
    "additionalProperties": False,
}
WEATHER = tool("get_weather", {"city": "string"})


def one(schema: Any) -> dict[str, Any]:
    """An object whose only member has this schema."""
    return {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}


@STREAMED
@BLOCK
@pytest.mark.spec("API-132", "API-133", "ENG-091", "API-105", "OBS-043")
async def test_g01_calls_first_and_the_document_after_their_results(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The same settings on both turns; the second finds all of the first."""
    caplog.set_level("INFO")
    async with open_harness(engine=Recording()) as harness:
        fields: dict[str, Any] = {"stream": stream, "tools": [WEATHER], **schema_format(T)}
        call = written("get_weather", city="Rome")
        for lead in ("", "<think>\nlook it up\n</think>\n\n"):
            script = fake(say=f"{lead}{call}", block=block, turns=[{"say": f'{lead}{{"t": 21}}', "block": block}])
            asked = {"role": "user", "content": script}
            first = await take_turn(harness, [asked], **fields)
            assert only_call(first.said) == ("get_weather", {"city": "Rome"})
            assert (first.said.content, first.said.finish) == (None, "tool_calls")
            result = {"role": "tool", "tool_call_id": first.said.calls[0].id, "content": "21 degrees"}
            second = await take_turn(harness, [asked, returned(first.said), result], **fields)
            assert (second.said.content, second.said.calls, second.said.finish) == ('{"t": 21}', [], "stop")
            assert shared(first.whole, second.prompt) == len(first.whole)
    lines = [message.split()[2] for message in caplog.messages if message.startswith("[structured]")]
    assert lines == ["branch=calls", "branch=document"] * 2


@STREAMED
@pytest.mark.spec("API-127", "ENG-086", "ENG-087")
async def test_g02_one_brace_whatever_a_round_holds(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Rounds of every size from the closer on; the doubled brace gives way once, as it does one token at a time."""
    async with open_harness() as harness:
        for say in ('<think>so {{</think>{{"t": 1}', '<think>so</think>\n\n{{"t": 1}', 'so</think>{{"t": 1}'):
            for fields in ({}, {"logprobs": True}):
                shown = [
                    await ask(harness, say, stream=stream, block=block, max_tokens=200, **schema_format(T), **fields)
                    for block in (1, 2, 3, 4, 5, 8, 32)
                ]
                assert len({(answer.content, answer.reasoning, counted(answer)) for answer in shown}) == 1
                assert (shown[0].content or "").count("{") == 1
                jsonschema.validate(json.loads(shown[0].content or ""), T)


@STREAMED
@BLOCK
@pytest.mark.spec("API-126", "ENG-087")
async def test_g04_thinking_is_free(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        thought = 'Hm, {"t": "x"} would be wrong! ```json <tool_call> 5'
        for say in (f'<think>{thought}</think>{{"t": 5}}', f'{thought}</think>\n\n{{"t": 5}}'):
            for fields in (schema_format(T), JSON_OBJECT, {"structured_outputs": {"json": T}}):
                answer = await ask(harness, say, stream=stream, block=block, **fields)
                assert (answer.reasoning, answer.content, answer.finish) == (thought, '{"t": 5}', "stop")
            choice = {"structured_outputs": {"choice": ["yes", '{"t": 5}']}}
            answer = await ask(harness, say, stream=stream, block=block, **choice)
            assert (answer.reasoning, answer.content, answer.finish) == (thought, '{"t": 5}', "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-126", "ENG-087", "ENG-188")
async def test_g05_with_thinking_off_it_starts_at_the_first_token(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for off in (OFF, {"enable_thinking": False}, {"reasoning_effort": "none"}):
            for say in ("Sure, here it is", '{"t": 5}', "\n\n{", "<tool_call>"):
                fields: dict[str, Any] = {"stream": stream, "block": block, "max_tokens": 200, **off}
                answer = await ask(harness, say, **fields, **schema_format(T))
                assert (answer.reasoning, answer.finish) == (None, "stop")
                assert (answer.content or "").startswith("{")
                jsonschema.validate(json.loads(answer.content or ""), T)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 4000},
        {"type": "string", "maxLength": 100_000},
        {"type": "string", "pattern": "^(([a-z]{1,40}-){1,40}[a-z]{1,40})$"},
        {"type": "string", "pattern": "^(a|b|ab)*c(d|e|de)*$"},
        {"type": "array", "maxItems": 500, "items": {"type": "string", "maxLength": 100}},
        {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
        {"enum": [f"value {at}" for at in range(1000)]},
    ],
)
@pytest.mark.spec("API-128", "ENG-089")
async def test_g07_large_bounds_compile_quickly_or_are_refused(
    autojump_clock: trio.testing.MockClock, schema: Any
) -> None:
    text = FakeText()
    spent = []
    for _ in range(3):
        grammars = Grammars(text)
        grammars.compile(JsonSchema(T, "x"))  # builds the vocabulary
        start = time.process_time()
        grammars.compile(JsonSchema(one(schema), "x"))
        spent.append(time.process_time() - start)
    assert min(spent) < 0.25, "50 ms on a quiet machine; what explodes takes seconds"
    async with open_harness() as harness:
        answer = await ask(harness, "x", stream=False, max_tokens=40, **OFF, **schema_format(one(schema)))
        assert (answer.content or "").startswith('{"v"')
        assert (await harness.client.send("/health")).status == 200


@pytest.mark.parametrize(
    ("schema", "say"),
    [
        (
            {
                "type": "object",
                "properties": {
                    "tree": {
                        "type": "object",
                        "properties": {
                            "l": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                            "r": {"$ref": "#/properties/tree/properties/l/anyOf/0"},
                        },
                        "required": ["l", "r"],
                        "additionalProperties": False,
                    }
                },
                "required": ["tree"],
                "additionalProperties": False,
            },
            '{"tree": {"l": null, "r": 3}}',
        ),
        (
            {"$defs": {"a/b~c": {"type": "integer"}}, **one({"$ref": "#/$defs/a~1b~0c"})},
            '{"v": 3}',
        ),
        (
            {
                "$ref": "#/$defs/node",
                "$defs": {
                    "node": {
                        "type": "object",
                        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                        "required": ["next"],
                        "additionalProperties": False,
                    }
                },
            },
            '{"next": {"next": {"next": null}}}',
        ),
        (one({"$ref": "#"}) | {"required": []}, '{"v": {"v": {}}}'),
    ],
)
@STREAMED
@pytest.mark.spec("API-128", "ENG-089")
async def test_g08_references_inside_the_schema(
    autojump_clock: trio.testing.MockClock, schema: Any, say: str, stream: bool
) -> None:
    async with open_harness() as harness:
        for block in BLOCKS:
            answer = await ask(harness, say, stream=stream, block=block, **schema_format(schema))
            assert (answer.content, answer.finish) == (say, "stop")
        wrong = say.replace("3", '"x"').replace("null", "7").replace("{}", "[]")
        answer = await ask(harness, wrong, stream=stream, max_tokens=300, **schema_format(schema), **OFF)
        assert answer.content != wrong
        if answer.finish == "stop":
            jsonschema.validate(json.loads(answer.content or ""), schema)


@pytest.mark.parametrize(
    ("schema", "keyword", "good", "bad"),
    [
        (
            {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            "patternProperties",
            '{"xa": 1}',
            '{"xa": "s"}',
        ),
        ({"type": "object", "propertyNames": {"pattern": "^x"}}, "propertyNames", '{"xa": 1}', '{"ya": 1}'),
        ({"type": "object", "minProperties": 1}, "minProperties", '{"a": 1}', "{}"),
        (one({"type": "array", "uniqueItems": True}), "uniqueItems", '{"v": [1]}', '{"v": [1, 1]}'),
        (one({"not": {"type": "integer"}}), "not", '{"v": "x"}', '{"v": 1}'),
        (one({"type": "integer", "multipleOf": 5}), "multipleOf", '{"v": 10}', '{"v": 11}'),
        (one({"if": {"type": "integer"}, "then": {"minimum": 5}}), "if", '{"v": 7}', '{"v": 3}'),
        (one({"type": "array", "contains": {"const": 1}}), "contains", '{"v": [1]}', '{"v": [2]}'),
        (
            {**one({"type": "integer"}), "dependentRequired": {"v": ["w"]}},
            "dependentRequired",
            '{"v": 1}',
            '{"v": 1}',
        ),
        (one({"type": "integer", "minimum": 5}), "minimum", '{"v": 7}', '{"v": 3}'),
        (one({"type": "string", "minLength": 3}), "minLength", '{"v": "abc"}', '{"v": "ab"}'),
        (one({"type": "string", "pattern": "^a+$"}), "pattern", '{"v": "aa"}', '{"v": "ab"}'),
        (one({"oneOf": [{"type": "integer"}, {"const": 5}]}), "oneOf", '{"v": 7}', '{"v": 5}'),
        (
            one({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}),
            "items",
            '{"v": [1]}',
            '{"v": [1, 2]}',
        ),
    ],
)
@pytest.mark.spec("API-128", "ENG-089")
async def test_g10_a_keyword_is_enforced_or_named(
    autojump_clock: trio.testing.MockClock, schema: Any, keyword: str, good: str, bad: str
) -> None:
    async with open_harness() as harness:
        fields: dict[str, Any] = {**OFF, **schema_format(schema), "max_tokens": 200}
        call = await harness.client.send(CHAT, chat({"say": good}, **fields))
        if call.status == 400:
            error = call.json["error"]
            assert error["param"] == "response_format.json_schema.schema"
            assert f"`{keyword}`" in error["message"]
            return
        assert said(call).content == good
        answer = await ask(harness, bad, stream=False, **fields)
        assert answer.content != bad
        if answer.finish == "stop":
            jsonschema.validate(json.loads(answer.content or ""), schema)


@pytest.mark.spec("API-128")
async def test_g11_no_reference_leaves_the_schema(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something wants the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    async with open_harness() as harness:
        for target in (
            "https://example.com/schema.json",
            "http://169.254.169.254/latest/meta-data",
            "file:///etc/passwd",
            "other.json#/x",
            "//host/x",
            "#/nowhere",
            "#anchor",
            "urn:x",
            "",
        ):
            for fields in (
                schema_format(one({"$ref": target})),
                {"structured_outputs": {"json": one({"$ref": target})}},
                {"tools": [tool("f", {"v": {"$ref": target}})], "tool_choice": "required"},
            ):
                call = await harness.client.send(CHAT, chat("hi", max_tokens=20, **fields))
                if target == "":  # the schema itself
                    assert call.status in (200, 400)
                    continue
                assert call.status == 400, (target, fields)
                assert call.json["error"]["param"].split(".")[0] in ("response_format", "structured_outputs", "tools")
        auto = [tool("f", {"v": {"$ref": "https://example.com/schema.json"}})]
        answer = await ask(harness, written("f", v="1"), stream=False, tools=auto)
        assert only_call(answer) == ("f", {"v": "1"})


@STREAMED
@BLOCK
@pytest.mark.spec("API-117", "API-109", "ENG-090")
async def test_g13_a_strict_recursive_tool_schema(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    node = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["n"],
        "additionalProperties": False,
    }
    offered = tool(
        "plan",
        {"root": {"$ref": "#/$defs/node"}, "count": "integer", "note": "string"},
        required=["root"],
        additionalProperties=False,
        **{"$defs": {"node": node}},
    )
    offered["function"]["strict"] = True
    schema = offered["function"]["parameters"]
    async with open_harness() as harness:
        tree = '{"n": 1, "kids": [{"n": 2}, {"n": 3, "kids": []}]}'
        fields: dict[str, Any] = {"stream": stream, "block": block, "tools": [offered], "max_tokens": 400, **OFF}
        for choice in ("auto", "required"):
            answer = await ask(harness, written("plan", root=tree), tool_choice=choice, **fields)
            assert only_call(answer) == ("plan", {"root": json.loads(tree)})
            answer = await ask(harness, written("plan", root=tree, count="007", note="x"), tool_choice=choice, **fields)
            jsonschema.validate(answer.calls[0].values, schema)
        for say in (
            "prose",
            written("plan", count=1),
            written("plan", root="x", other="y"),
            written("plan", root='{"n": "1"}'),
        ):
            answer = await ask(harness, say, tool_choice="required", **fields)
            for call in answer.calls:
                jsonschema.validate(call.values, schema)
            assert answer.calls


@STREAMED
@BLOCK
@pytest.mark.spec("API-129", "API-126", "ENG-188")
async def test_g14_no_code_fence(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        for say in ('```json\n{"a": 1}\n```', 'Here:\n{"a": 1}', '<think>w</think>```json\n{"a": 1}\n```'):
            for off in (OFF, {}) if say.startswith("<") else (OFF,):
                answer = await ask(harness, say, stream=stream, block=block, max_tokens=200, **JSON_OBJECT, **off)
                assert isinstance(json.loads(answer.content or ""), dict)
                assert answer.finish == "stop"
        prose_after = await ask(harness, '{"a": 1} and so on', stream=stream, block=block, **JSON_OBJECT)
        assert (prose_after.content, prose_after.finish) == ('{"a": 1}', "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-125", "API-126", "ENG-084", "API-127")
async def test_g16_choice_and_regex(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        fields: dict[str, Any] = {"stream": stream, "block": block, "max_tokens": 60, **OFF}

        async def constrained(say: Any, **wanted: Any) -> str | None:
            answer = await ask(harness, say, structured_outputs=wanted, **fields)
            assert answer.finish == "stop"
            return answer.content

        for say in ("no", ["n", "o"], [{"bytes": "6e"}, {"bytes": "6f"}]):
            assert await constrained(say, choice=["yes", "no"]) == "no"
        assert await constrained("maybe", choice=["yes", "no"]) in ("yes", "no")
        assert await constrained("ab", choice=["a", "ab", "abc"]) == "ab"
        assert await constrained([{"bytes": "ed95"}, {"bytes": "9c"}], choice=["한", "é"]) == "한"
        assert await constrained("123", regex=r"\d{3}") == "123"
        assert re.fullmatch(r"\d{3}", await constrained("12x4", regex=r"\d{3}") or "")
        assert await constrained('{"v": 7}', json=one({"type": "integer"})) == '{"v": 7}'
        text = await harness.client.send(
            TEXT, {"prompt": fake(say="12x", block=block), "structured_outputs": {"regex": r"\d{3}"}, "stream": stream}
        )
        assert re.fullmatch(r"\d{3}", text.text)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {"choice": ["a"], "regex": "b"}}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"grammar": "root ::= x"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": "yes"}}, "structured_outputs.choice"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "(?=a)b"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": r"(a)\1"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{}"}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": {"type": "strnig"}}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": {"type": "string", "pattern": "("}}}, "structured_outputs.json"),
        ({"structured_outputs": {"choice": ["a"]}, **JSON_OBJECT}, "structured_outputs"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": "json_object"}, "response_format"),
        (schema_format({"type": "object", "properties": []}), "response_format.json_schema.schema"),
        (schema_format({"type": 5}), "response_format.json_schema.schema"),
        (schema_format({"allOf": {}}), "response_format.json_schema.schema"),
        (schema_format({"enum": []}), "response_format.json_schema.schema"),
        (
            schema_format({"type": "object", "required": ["a"], "properties": {"a": False}}),
            "response_format.json_schema.schema",
        ),
    ],
)
@pytest.mark.spec("API-125", "API-128", "API-025", "ENG-089")
async def test_g16_what_cannot_be_asked_for(
    autojump_clock: trio.testing.MockClock, fields: dict[str, Any], param: str
) -> None:
    async with open_harness() as harness:
        for stream in (True, False):
            assert (await refused(harness, chat("hi", stream=stream, **fields)))["param"] == param
        if "structured_outputs" in fields and "response_format" not in fields:
            assert (await refused(harness, {"prompt": "hi", **fields}, TEXT))["param"] == param


@STREAMED
@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.spec("API-126", "ENG-088", "API-131")
async def test_g17_cut_at_every_token_nothing_is_invented(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness(answer_reserve=0) as harness:
        document = '{"t": [1, {"a": "b c"}]}'
        say = f"<think>so be it</think>\n\n{document}"
        whole = await ask(harness, say, stream=stream, block=block, **JSON_OBJECT)
        total = counted(whole)[0]
        contents = []
        for limit in range(1, total + 1):
            answer = await ask(harness, say, stream=stream, block=block, max_tokens=limit, **JSON_OBJECT)
            assert answer.finish == ("length" if limit < total else "stop")
            assert answer.content is not None
            assert document.startswith(answer.content)
            contents.append(answer.content)
        assert contents == sorted(contents, key=len)
        assert contents[-2] == contents[-1] == document  # the last token is the end


@STREAMED
@pytest.mark.spec("API-083", "API-126")
async def test_g_a_stop_string_at_every_place(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness() as harness:
        document = '{"t": [1, {"a": "b c"}]}'
        for at in range(len(document) - 1):
            stop = document[at : at + 2]
            for block in (1, 32):
                answer = await ask(harness, document, stream=stream, block=block, stop=[stop], **JSON_OBJECT)
                assert (answer.content, answer.finish) == (document[: document.index(stop)], "stop")


@pytest.mark.spec("API-126", "ENG-083")
async def test_g_each_choice_is_a_document(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for say in ('<think>w</think>\n\n{"t": 5}', '<think>w</think>{"u": 5}', 'w</think>```json {"t": 5}'):
            for answer in await ask_all(harness, say, n=3, max_tokens=100, **schema_format(T)):
                assert (answer.reasoning, answer.finish) == ("w", "stop")
                jsonschema.validate(json.loads(answer.content or ""), T)


@STREAMED
@pytest.mark.spec("API-127", "ENG-095")
async def test_g_a_character_over_tokens_inside_a_document(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_harness() as harness:
        say = ['{"t', '": "', {"bytes": "f09f"}, {"bytes": "9880"}, {"bytes": "ed"}, {"bytes": "959c"}, '"}']
        for block in BLOCKS:
            answer = await ask(harness, say, stream=stream, block=block, **JSON_OBJECT)
            assert (answer.content, answer.finish) == ('{"t": "\U0001f600한"}', "stop")
        broken = ['{"t', '": "', {"bytes": "f09f"}, '"}']
        answer = await ask(harness, broken, stream=stream, max_tokens=100, **JSON_OBJECT)
        assert "\ufffd" not in (answer.content or "") or answer.finish == "length"


@STREAMED
@pytest.mark.spec("API-126", "API-117", "ENG-088")
async def test_g_the_end_inside_the_reasoning_is_no_answer(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """A constrained answer that has not begun is not complete, so the model cannot end there."""
    async with open_harness() as harness:
        for say in ("<think>I give up", ["<think>", "I"]):
            for fields in (
                schema_format(T),
                JSON_OBJECT,
                {"structured_outputs": {"choice": ["yes", "no"]}},
                {"tools": [WEATHER], "tool_choice": "required"},
                {"tools": [WEATHER], **schema_format(T)},
            ):
                answer = await ask(harness, say, stream=stream, max_tokens=60, **fields)
                assert answer.finish != "stop" or answer.content


@STREAMED
@BLOCK
@pytest.mark.spec("API-126", "API-133", "ENG-091")
async def test_g_white_space_before_calls_or_a_document_is_no_part_of_it(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    """It decides nothing and may come first, but a choice with blank lines in front would be no choice."""
    async with open_harness() as harness:
        call = written("get_weather", city="Rome")
        for lead in ("\n\n", " ", "\n \n", "<think>w</think>\n\n", "<think>w</think>\n  "):
            fields: dict[str, Any] = {"stream": stream, "block": block, "tools": [WEATHER], "max_tokens": 90}
            for wanted, say in (
                ({"structured_outputs": {"choice": ["yes", "no"]}}, "no"),
                ({"structured_outputs": {"regex": r"\d{3}"}}, "123"),
                (schema_format(T), '{"t": 5}'),
            ):
                for more in ({}, {"stop": ["zz"]}, {"logprobs": True}):
                    answer = await ask(harness, lead + say, **wanted, **fields, **more)
                    assert (answer.content, answer.calls, answer.finish) == (say, [], "stop")
                    called = await ask(harness, lead + call, **wanted, **fields, **more)
                    assert only_call(called) == ("get_weather", {"city": "Rome"})
                    assert called.content is None
