"""The OpenAPI document and what its page shows of it; that the service keeps to it is tested with the service."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from markupsafe import Markup

from tandem.http.openai.docs_view import code, operations, shapes
from tandem.http.openai.field_table import CHAT, COMPLETIONS, Field
from tandem.http.openai.fields import DISPOSITION, request_schema
from tandem.http.openai.schema_words import takes
from tests.http.openai.documents import described, validator

QUESTION = [{"role": "user", "content": "hi"}]


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from nodes(member)
    elif isinstance(value, list):
        for member in value:
            yield from nodes(member)


@pytest.mark.spec("API-265")
def test_the_document_is_whole() -> None:
    document = described()
    assert document["openapi"].startswith("3.1.")
    assert json.loads(json.dumps(document)) == document
    schemas = document["components"]["schemas"]
    used = {node["$ref"].removeprefix("#/components/schemas/") for node in nodes(document) if "$ref" in node}
    assert used == schemas.keys()
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    ids = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("shape", "rows"), [("ChatRequest", CHAT), ("CompletionRequest", COMPLETIONS)])
def test_every_row_is_in_the_schema_of_its_request(shape: str, rows: tuple[Field, ...]) -> None:
    schema = described()["components"]["schemas"][shape]
    for row in rows:
        member = schema
        for name in row.name.split("."):
            member = member["properties"][name]
        assert (member["description"], member[DISPOSITION]) == (row.meaning, row.disposition.value)


@pytest.mark.spec("API-028", "API-029")
def test_null_and_unknown_fields_fit_the_schemas() -> None:
    nulls: dict[str, Any] = {row.name: None for row in (*CHAT, *COMPLETIONS) if "." not in row.name}
    assert validator("ChatRequest").is_valid({**nulls, "messages": QUESTION, "cache_prompt": 5})
    assert validator("CompletionRequest").is_valid({**nulls, "prompt": "once", "x": {}})
    inner = {name: {"x": None} for name in ("reasoning", "thinking", "chat_template_kwargs", "stream_options")}
    assert validator("ChatRequest").is_valid({"messages": QUESTION, **inner})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
        {"role": "assistant", "reasoning_content": "r", "content": "a", "name": None, "x": 1},
        {"role": "tool", "tool_call_id": "c", "content": "a"},
    ],
)
def test_messages_fit_the_schema(message: Any) -> None:
    validator("ChatRequest").validate({"messages": [message]})


@pytest.mark.parametrize(
    "message",
    [
        {"role": "robot", "content": "a"},
        {"content": "a"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "video_url"}]},
        {"role": "system", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]},
        {"role": "assistant", "content": 5},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"role": "tool", "content": "a", "tool_call_id": 5},
    ],
)
def test_wrong_messages_do_not(message: Any) -> None:
    assert not validator("ChatRequest").is_valid({"messages": [message]})


def test_examples_are_of_their_shape() -> None:
    found = 0
    for methods in described()["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for example in content["examples"].values():
                    validator(content["schema"]["$ref"].rpartition("/")[2]).validate(example["value"])
                    found += 1
    assert found >= 4


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "anything"),
        ({"type": "null"}, "nothing"),
        ({"enum": [False, None]}, "`false`"),
        ({"const": ["text"]}, '`["text"]`'),
        ({"type": ["boolean", "null"]}, "`true` or `false`"),
        ({"type": "integer"}, "an integer"),
        ({"type": "integer", "minimum": 1}, "an integer of at least 1"),
        ({"type": "number", "exclusiveMinimum": 0}, "a number above 0"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "a number above 0, at most 1"),
        ({"type": "number", "minimum": -2, "maximum": 2.5}, "a number from -2 to 2.5"),
        ({"type": "string", "minLength": 1}, "a string that is not empty"),
        ({"type": "string", "enum": ["a", "b", None]}, '`"a"` or `"b"`'),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Tool"}}, "a list of `Tool`"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "a list of strings, at least one"),
        ({"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]}, "an object or a string"),
        ({"title": "an odd thing", "type": "object"}, "an odd thing"),
    ],
)
def test_schemas_in_words(schema: dict[str, Any], words: str) -> None:
    assert takes(schema, null=False) == words


def test_null_in_words() -> None:
    assert takes({"type": ["string", "null"]}) == "a string or `null`"
    assert takes({"anyOf": [{"$ref": "#/x/Usage"}, {"type": "null"}]}) == "`Usage` or `null`"


@pytest.mark.spec("API-265")
def test_the_view_shows_all_there_is() -> None:
    document = described()
    shown = operations(document, "http://box:8000")
    assert {(each.path, each.method.lower()) for each in shown} == {
        (path, method) for path, methods in document["paths"].items() for method in methods
    }
    by_id = {each.id: each for each in shown}
    assert [row.name for row in by_id["chat"].fields if "." not in row.name] == [*request_schema(CHAT)["properties"]]
    assert {row.name for row in by_id["completions"].fields} == {row.name for row in COMPLETIONS}
    assert {answer.status for answer in by_id["chat"].answers} >= {"200", "400", "401", "429", "503"}
    assert "ChatRequest" not in [shape.name for shape in shapes(document)]
    assert all(shape.rows or shape.takes != "anything" for shape in shapes(document))


def test_commands_survive_a_shell() -> None:
    base = "http://a'b$(touch x) c"
    for each in operations(described(), base):
        for command in each.commands:
            words = shlex.split(command)
            assert words[0] == "curl"
            [address] = [word for word in words if word.startswith(base)]
            assert "{" not in address
            if "-d" in words:
                json.loads(words[words.index("-d") + 1])


def test_code_escapes_everything() -> None:
    names = frozenset({"Tool"})
    assert code("a < `b<i>` & `Tool`", names) == Markup(
        'a &lt; <code>b&lt;i&gt;</code> &amp; <a href="#Tool"><code>Tool</code></a>'
    )
    assert code("a ` b") == "a ` b"
