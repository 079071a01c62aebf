"""The language of tool calls, read back by the codec and held against the tool's schema."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tandem.engine.errors import BadInput
from tandem.engine.grammar.calls import call_grammar
from tandem.engine.grammar.constraints import Calls
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.matcher import GuidedMatcher
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart
from tests.engine.grammar.vocabularies import listed

MARKERS = ("<tool_call>", "</tool_call>")
BYTES = [bytes([byte]) for byte in range(256)]
TEXT = listed(*BYTES, markers=MARKERS)
PLAIN = listed(*BYTES)
"""A model without call markers: it spells them."""


def tool(
    name: str, properties: Mapping[str, Any], required: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
    }
    return {"type": "function", "function": {"name": name, "parameters": schema | more}}


def language(
    *tools: dict[str, Any], names: Sequence[str] | None = None, limit: int = 16, text: TextModel = TEXT
) -> GuidedMatcher:
    compiled = Grammars(text).compile(Calls(tools, None if names is None else tuple(names), limit))
    return compiled.matcher.copy()


def ids_of(data: str, text: TextModel = TEXT) -> list[int]:
    """One id a byte, and one for a marker that the model has."""
    ids: list[int] = []
    while data:
        name = next((name for name in text.markers if data.startswith(name)), "")
        ids += [text.markers[name]] if name else list(data[0].encode())
        data = data[len(name or data[0]) :]
    return ids


def takes(matcher: GuidedMatcher, data: str, text: TextModel = TEXT) -> bool:
    """Whether `data` is a whole answer of the language."""
    [end] = text.end_ids
    path: list[int] = []
    for token in ids_of(data, text):
        if not matcher.allows(path, token):
            return False
        path.append(token)
    return matcher.allows(path, end)


def call(name: str, **values: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def value(schema: Any, text: str, **more: Any) -> bool:
    """Whether a parameter of this schema may be written so."""
    return takes(language(tool("f", {"k": schema}, **more), limit=1), call("f", k=text))


def read(tools: Sequence[Mapping[str, Any]], data: str) -> list[tuple[str, Any]]:
    """The calls that the codec reads, and nothing else but blanks."""
    numbers = count()
    codec = xml_calls(tools, live=False, new_id=lambda: f"call-{next(numbers)}")
    calls: list[tuple[str, Any]] = []
    name, arguments = "", ""
    for piece in [*codec.feed(data), *codec.end()]:
        match piece:
            case CallStart():
                name, arguments = piece.name, ""
            case CallArguments():
                arguments += piece.text
            case CallEnd():
                calls.append((name, json.loads(arguments)))
            case _:
                assert not piece.text.strip()
    return calls


WEATHER = tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}, ["city"])
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.mark.parametrize("text", [TEXT, PLAIN], ids=["markers", "spelled"])
@pytest.mark.spec("ENG-090", "API-117")
def test_calls_are_written_in_the_strict_form(text: TextModel) -> None:
    matcher = language(WEATHER, NOW, text=text)
    assert takes(matcher, call("now"), text)
    assert takes(matcher, call("get_weather", city="Rome"), text)
    assert takes(matcher, call("get_weather", city="Rome\n", days="12"), text)
    assert takes(matcher, "\n".join((call("now"), call("get_weather", city=""), call("now"))), text)
    for wrong in (
        "",
        "The weather",
        call("get"),
        call("get_weather"),
        call("get_weather", days="1", city="Rome"),
        call("get_weather", city="Rome", days="1", more="2"),
        call("get_weather", city="Rome", days="0"),
        call("get_weather", city="Rome", days="soon"),
        call("now", city="Rome"),
        call("now") + call("now"),
        call("now") + "\n",
        call("now") + " and",
        call("now").replace("\n", ""),
    ):
        assert not takes(matcher, wrong, text)


@pytest.mark.spec("ENG-090")
def test_a_marker_is_its_token_and_never_spelled() -> None:
    matcher = language(NOW)
    spelled = list(call("now").encode())
    assert matcher.allows((), TEXT.markers["<tool_call>"])
    assert not matcher.allows((), spelled[0])
    inside = ids_of(call("now"))[:-1]
    assert matcher.allows(inside, TEXT.markers["</tool_call>"])
    assert not matcher.allows(inside, ord("<"))


@pytest.mark.spec("API-119", "ENG-090")
def test_the_number_of_calls_is_limited() -> None:
    for limit in (1, 2, 16):
        matcher = language(NOW, limit=limit)
        assert takes(matcher, "\n".join([call("now")] * limit))
        assert not takes(matcher, "\n".join([call("now")] * (limit + 1)))


@pytest.mark.spec("API-117")
def test_a_named_function_alone_may_be_called_and_the_first_of_a_name_gives_the_schema() -> None:
    twin = tool("now", {"zone": {"type": "string"}})
    matcher = language(WEATHER, NOW, twin, names=["now"])
    assert takes(matcher, call("now"))
    assert not takes(matcher, call("get_weather", city="Rome"))
    assert not takes(matcher, call("now", zone="UTC"))


@pytest.mark.spec("API-117")
def test_parameters_come_once_in_the_schemas_order_and_optional_ones_may_be_left_out() -> None:
    matcher = language(tool("f", {"a": {}, "b": {}, "c": {}}, ["b", "d"]))
    for good in ("bd", "abd", "bcd", "abcd"):
        assert takes(matcher, call("f", **dict.fromkeys(good, "x")))
    for wrong in ("a", "b", "d", "db", "bdc", "cbd"):
        assert not takes(matcher, call("f", **dict.fromkeys(wrong, "x")))
    assert not takes(matcher, call("f", a="1", b="2", d="3").replace("=b>", "=a>"))


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "good", "wrong"),
    [
        (STRING, ["", "42", "a\n\nb", '"q"', "<b>\t", "</para", "é😀"], ["a</parameter>", "\n</function>", "\r"]),
        ({}, ["", "42", "[1"], ["<parameter=x>"]),
        ({"type": "integer"}, ["0", "-12", "7"], ["", "007", "1.5", "x", '"1"', "1 "]),
        ({"type": "number"}, ["0", "-1.5", "1e3"], ["", ".5", "NaN"]),
        ({"type": "boolean"}, ["true", "false"], ["True", "yes", ""]),
        ({"type": "null"}, ["null"], ["None", ""]),
        ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1, 2]", "[\n  1\n]"], ["[a]", "1", "[1"]),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}}, ["{}", '{"a": true}'], ['{"a": 1}', "a"]),
        ({"enum": ["a", "b\nc", 'q"\\']}, ["a", "b\nc", 'q"\\'], ["", "b", '"a"', "ab"]),
        ({"const": "x"}, ["x"], ["", "xx"]),
        ({"enum": ["a", 1, None, True]}, ["a", "1", "null", "true"], ["2", "false", "b"]),
        ({"enum": [1, 2.5]}, ["1", "2.5"], ["2", "a"]),
        ({"enum": ["1", 2]}, ["2"], ["1", "x"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["", "ab1", "a\n"]),
        ({"type": "string", "pattern": "b|^c|/$"}, ["abc", "cx", "x/"], ["xc", "", "/x"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "é😀a"], ["a", "abcd"]),
        ({"type": ["string", "null"]}, ["", "x", "null"], []),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, ["a", "null"], ["b", "", "nul"]),
        ({"type": ["string", "integer"]}, ["5", "x", "007"], []),
        ({"anyOf": [STRING, {"type": "integer", "minimum": 10}]}, ["x", "5a", "007"], ["5"]),
        ({"anyOf": [{"enum": ["x"]}, {"type": "number"}]}, ["x", "5", "-0.25"], ["y", "1.50", "0.00001", "1e5"]),
        ({"anyOf": [STRING, {"type": "array", "items": STRING}]}, ["x", "", '["a", "b"]', "[]"], ["[a", "[1]"]),
        ({"anyOf": [{"enum": ["x"]}, {"type": "object"}]}, ["x"], ["{}", "{a"]),
        ({"anyOf": [{"type": "string", "pattern": "^abc$", "maxLength": 2}, {"const": "y"}]}, ["y"], ["abc", "a"]),
        ({"type": ["string", "object"]}, ["x", '{"a":1}', "{"], []),
        ({"allOf": [{"type": "string", "minLength": 1}, {"pattern": "^a"}]}, ["a", "ab"], ["", "b"]),
        ({"type": "string", "format": "no-such", "title": "t", "default": 1}, ["x"], []),
        ({"type": "integer", "nullable": True}, ["5"], ["x"]),
    ],
    ids=lambda case: json.dumps(case) if isinstance(case, dict) else "",
)  # fmt: skip
@pytest.mark.spec("ENG-090", "API-117")
def test_values_have_their_declared_types(schema: Any, good: Sequence[str], wrong: Sequence[str]) -> None:
    tools = [tool("f", {"k": schema})]
    matcher = language(*tools, limit=1)
    for text in good:
        assert takes(matcher, call("f", k=text)), text
        [(name, arguments)] = read(tools, call("f", k=text))
        assert name == "f"
        Draft202012Validator(tools[0]["function"]["parameters"]).validate(arguments)
    for text in wrong:
        assert not takes(matcher, call("f", k=text)), text


@pytest.mark.spec("ENG-090")
def test_references_are_followed_into_the_tools_schema() -> None:
    """Cases G-08 and G-13: into definitions, into a property's path, and back to themselves."""
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": False}
    definitions = {"$defs": {"tree": tree, "unit": {"enum": ["c", "f"]}, "again": {"$ref": "#/$defs/unit"}}}
    assert value({"$ref": "#/$defs/tree"}, '{"next": {"next": {}}}', **definitions)
    assert not value({"$ref": "#/$defs/tree"}, '{"last": {}}', **definitions)
    assert value({"$ref": "#/$defs/again"}, "c", **definitions)
    assert not value({"$ref": "#/$defs/again"}, "k", **definitions)
    looped = tool("f", {"k": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/properties/k"}}]}})
    assert takes(language(looped), call("f", k="[1, [2, []]]"))
    assert not takes(language(looped), call("f", k="[1, [x]]"))
    root = {"$ref": "#/$defs/Args", "$defs": {"Args": tool("f", {"n": {"type": "integer"}})["function"]["parameters"]}}
    matcher = language({"type": "function", "function": {"name": "f", "parameters": root}})
    assert takes(matcher, call("f", n="3"))
    assert not takes(matcher, call("f"))


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}, True])
@pytest.mark.spec("ENG-090")
def test_a_function_without_parameters_has_an_empty_body(parameters: Any) -> None:
    function = {"name": "f"} if parameters is None else {"name": "f", "parameters": parameters}
    assert takes(language({"type": "function", "function": function}), call("f"))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (tool("f", {"k": {"not": {}}}), "`not`"),
        (tool("f", {"k": {"type": "array", "uniqueItems": True}}), "`uniqueItems`"),
        (tool("f", {"k": {"type": "string", "pattern": "(?=a)b"}}), "`pattern`"),
        (tool("f", {"k": {"type": "string", "pattern": "("}}), "`pattern`"),
        (tool("f", {"k": {"$ref": "https://example.com/x"}}), "nothing is fetched"),
        (tool("f", {"k": {"oneOf": [{"minLength": 1}, {"maxLength": 5}]}}), "`oneOf`"),
        (tool("f", {"k": {"enum": ["</parameter>"]}}), "no value"),
        (tool("f", {"k": {"type": "string", "minLength": 3, "maxLength": 2}}), "no value"),
        (tool("f", {"k": {"type": "string", "pattern": "^abc$", "maxLength": 2}}), "no value"),
        (tool("f", {"k": False}), "no value"),
        (tool("f", {"a>b": {}}), "cannot carry"),
        (tool("f", {"a\nb": {}}), "cannot carry"),
        (tool("f", {" a": {}}), "cannot carry"),
        (tool("f", {}, ["x"], additionalProperties=False), "no value"),
        (tool("f<", {}), "cannot carry"),
        (tool("", {}), "cannot carry"),
        (tool("f", {"k": {}}, anyOf=[{"required": ["k"]}]), "`anyOf`"),
        (tool("f", {"k": {}}, minProperties=2), "`minProperties`"),
        (tool("f", {"k": {}}, patternProperties={"^k": {"type": "integer"}}), "`patternProperties`"),
        ({"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}, "object"),
        ({"type": "function", "function": {"name": "f", "parameters": 3}}, "schema"),
    ],
)
@pytest.mark.spec("API-118")
def test_what_cannot_be_expressed_is_refused_by_name(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        call_grammar([NOW, bad], names=None, limit=16, markers={})
    assert refused.value.param == "tools"
    assert said in str(refused.value)
    assert "tools[1]" in str(refused.value)


@pytest.mark.parametrize("name", ["tool.name-1", "naïve", "a b", "x" * 64, "{}", "a&|b", "a#b/c", "f0", "start", "$&^"])
def test_odd_names_do_not_break_the_grammar(name: str) -> None:
    matcher = language(tool(name, {name: STRING, f"{name}x": {"type": "integer"}}))
    assert takes(matcher, call(name, **{name: "v", f"{name}x": "1"}))
    assert not takes(matcher, call(f"{name}x", **{name: "v", f"{name}x": "1"}))


def test_of_names_that_begin_alike_each_is_itself() -> None:
    matcher = language(*(tool(name, {name: {}}) for name in ("get", "get_weather", "get_weather_now")))
    for name in ("get", "get_weather", "get_weather_now"):
        assert takes(matcher, call(name, **{name: "x"}))
    assert not takes(matcher, call("get_w", get_w="x"))


WIDE = [
    tool(
        "edit",
        {
            "path": {"type": "string", "pattern": r"^/\w+(\.\w+)?$"},
            "mode": {"enum": ["read", "write", None, 3]},
            "text": STRING,
            "count": {"anyOf": [STRING, {"type": "integer", "maximum": 5}, {"type": "boolean"}]},
            "tags": {"anyOf": [STRING, {"type": "array", "items": {"enum": ["a", 1]}}, {"type": "null"}]},
            "limits": {"type": "array", "items": {"type": "number"}, "maxItems": 2},
            "deep": {"$ref": "#/$defs/deep"},
        },
        ["mode", "count", "tags"],
        **{"$defs": {"deep": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}}},
    ),
    NOW,
    WEATHER,
]
CHUNKS = (
    "now>\n", "get", "\n</parameter>\n", "</parameter>", "\n", "</function>\n", "<parameter=", "<", "true", "null",
    "None", "1", "0", "-", ".5", "e", "[", "]", "{", "}", '"', "a", "read", "é", " ", ", ", ": ", "/", "\r", "\r\n",
    '"n"', "<tool_call>",
)  # fmt: skip


def walk(matcher: GuidedMatcher, draw: random.Random) -> str:
    """A random answer of the language: pieces of text where they fit, else any token that is allowed."""
    [end] = TEXT.end_ids
    written = ""
    path: list[int] = []
    for step in range(1_000):
        if matcher.allows(path, end) and draw.random() < 0.6:
            break
        # Towards the end the pieces that finish something come first.
        chunks = draw.sample(CHUNKS, len(CHUNKS)) if step < 60 or step % 3 else list(CHUNKS)
        for chunk in chunks:
            ids = ids_of(chunk)
            if all(matcher.allows([*path, *ids[:at]], ids[at]) for at in range(len(ids))):
                break
        else:
            bits = matcher.bits(path)
            allowed = [token for token in range(TEXT.vocab_size) if bits[token // 8] >> token % 8 & 1]
            if allowed == [end]:
                break
            token = draw.choice([token for token in allowed if token != end])
            chunk = next((name for name, own in TEXT.markers.items() if own == token), "") or chr(token)
            ids = [token]
        path += ids
        written += chunk
    assert matcher.allows(path, end), written
    return written


@pytest.mark.spec("ENG-090", "API-117", "API-126")
def test_whatever_the_mask_lets_through_is_read_as_valid_calls() -> None:
    matcher = language(*WIDE, limit=3)
    schemas = {each["function"]["name"]: each["function"].get("parameters", {}) for each in WIDE}
    names = set()
    for seed in range(25):
        calls = read(WIDE, walk(matcher, random.Random(seed)))
        assert 1 <= len(calls) <= 3
        for name, arguments in calls:
            names.add(name)
            Draft202012Validator(schemas[name]).validate(arguments)
            assert list(arguments) == [key for key in schemas[name].get("properties", {}) if key in arguments]
    assert names == set(schemas)


def test_a_large_toolset_compiles_quickly() -> None:
    tools = [tool(f"tool_{at}", {f"p{key}": {"type": kind} for key, kind in enumerate(KINDS * 2)}) for at in range(40)]
    matcher = language(*tools)
    assert takes(matcher, call("tool_39", **{f"p{at}": TEXTS[kind] for at, kind in enumerate(KINDS * 2)}))


KINDS = ["string", "integer", "boolean", "array", "object"]
TEXTS = {"string": "x", "integer": "1", "boolean": "true", "array": "[]", "object": "{}"}
