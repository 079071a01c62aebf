from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.reading.calls.schemas import ToolSchemas, types_of
from tandem.engine.text.reading.calls.values import escaped, is_text, quoted, retyped, typed
from tests.engine.reading.calls.reading import tool

INTEGER, NUMBER, BOOLEAN, STRING = ({"type": name} for name in ("integer", "number", "boolean", "string"))
OBJECT, ARRAY, NULL = ({"type": name} for name in ("object", "array", "null"))
UNION = {"type": ["integer", "string"]}
ANY_OF = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
ROOT = {
    "$defs": {
        "count": INTEGER,
        "a/b~c": BOOLEAN,
        "loop": {"$ref": "#/$defs/loop"},
        "tree": {"anyOf": [{"$ref": "#/$defs/tree"}, INTEGER]},
    }
}


@pytest.mark.spec("API-109", "ENG-190")
@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        # Strings are ruled out.
        (INTEGER, "150", "150"),
        (INTEGER, " 150\n", "150"),
        (INTEGER, "02134", "2134"),
        (INTEGER, "-007", "-7"),
        (INTEGER, "000", "0"),
        (INTEGER, "5.0", "5"),
        (INTEGER, "5.5", '"5.5"'),
        (INTEGER, "1e3", '"1e3"'),
        (INTEGER, "True", '"True"'),
        (INTEGER, "None", '"None"'),
        (INTEGER, "٣", '"٣"'),
        (INTEGER, "", '""'),
        (NUMBER, "1.50", "1.50"),
        (NUMBER, "1.0", "1.0"),
        (NUMBER, "42", "42"),
        (NUMBER, "007.5", "7.5"),
        (NUMBER, "-1e999", "-1e999"),
        (NUMBER, "NaN", '"NaN"'),
        (NUMBER, "Infinity", '"Infinity"'),
        (NUMBER, ".5", '".5"'),
        (BOOLEAN, "true", "true"),
        (BOOLEAN, "True", "true"),
        (BOOLEAN, "False", "false"),
        (BOOLEAN, "yes", '"yes"'),
        (NULL, "None", "null"),
        ({"type": "integer", "nullable": True}, "None", "null"),
        ({"type": ["boolean", "null"]}, "null", "null"),
        (ARRAY, '[1, "a", {"b": null}]', '[1, "a", {"b": null}]'),
        (ARRAY, '{"a": 1}', '"{\\"a\\": 1}"'),
        (ARRAY, "[1,", '"[1,"'),
        (ARRAY, "[NaN]", '"[NaN]"'),
        (OBJECT, '{\n "a": 1\n}', '{\n "a": 1\n}'),
        ({"properties": {"a": INTEGER}}, '{"a": 1}', '{"a": 1}'),
        ({"items": INTEGER}, "[1]", "[1]"),
        ({"enum": [1, 2]}, "02", "2"),
        ({"const": True}, "True", "true"),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "null"]}]}, "7", "7"),
        ({"oneOf": [INTEGER, BOOLEAN]}, "False", "false"),
        ({"$ref": "#/$defs/count"}, "07", "7"),
        ({"$ref": "#/$defs/a~1b~0c"}, "True", "true"),
        ({"$ref": "#/$defs/tree"}, "07", "7"),
        # A union with string: canonical JSON alone.
        (UNION, "42", "42"),
        (UNION, "-3", "-3"),
        (UNION, "007", '"007"'),
        (UNION, "-0", '"-0"'),
        (UNION, " 42", '" 42"'),
        (UNION, "1.0", '"1.0"'),
        (UNION, "true", '"true"'),
        (ANY_OF, "1.5", "1.5"),
        (ANY_OF, "1.50", '"1.50"'),
        (ANY_OF, "1.0", '"1.0"'),
        (ANY_OF, "1e5", '"1e5"'),
        (ANY_OF, "true", "true"),
        (ANY_OF, "True", '"True"'),
        (ANY_OF, "null", "null"),
        (ANY_OF, "None", '"None"'),
        ({"enum": ["auto", 1]}, "1", "1"),
        ({"enum": ["auto", 1]}, "auto", '"auto"'),
        ({"type": "string", "nullable": True}, "null", "null"),
        ({"type": ["object", "string"]}, '{"a": 1}', '{"a": 1}'),
        ({"type": ["object", "string"]}, '{"a":1}', '{"a":1}'),
        ({"type": ["object", "string"]}, '{\n "a": 1\n}', '"{\\n \\"a\\": 1\\n}"'),
        # Strings.
        (STRING, "02134", '"02134"'),
        (STRING, '{"a": 1}', '"{\\"a\\": 1}"'),
        (STRING, "'x'", "\"'x'\""),
        (STRING, "  a\n", '"  a\\n"'),
        ({"enum": ["asc", "desc"]}, "ASC", '"ASC"'),
        ({"enum": ["1", "2"]}, "1", '"1"'),
        ({"type": ["string", "integer"], "enum": ["1", "2"]}, "1", '"1"'),
        (None, "42", '"42"'),
        ({}, "42", '"42"'),
        (True, "42", '"42"'),
        ({"anyOf": [INTEGER, {}]}, "42", '"42"'),
        ({"$ref": "#/$defs/loop"}, "42", '"42"'),
        ({"$ref": "#/$defs/none"}, "42", '"42"'),
        ({"$ref": "https://x.invalid/s"}, "42", '"42"'),
        ({"type": 7}, "42", '"42"'),
        ({"type": ["float", {}]}, "42", '"42"'),
    ],
)
def test_value_gets_its_schema_s_type(schema: Any, value: str, expected: str) -> None:
    assert typed(value, schema, ROOT) == expected


def test_numbers_of_any_length_are_read_in_one_pass() -> None:
    zeros, digits = "0" * 300_000, "9" * 300_000
    assert typed(zeros + "x", INTEGER, None) == f'"{zeros}x"'
    assert typed("-0" + digits[:3999], INTEGER, None) == "-" + digits[:3999]
    for value in (zeros + digits, digits, f"{digits}.5"):
        assert typed(value, INTEGER, None) == typed(value, UNION, None) == f'"{value}"', "more than clients can read"
    assert typed(f"[{digits}]", ARRAY, None) == f'"[{digits}]"'
    assert typed("[" * 100_000, ARRAY, None) == json.dumps("[" * 100_000)


SCHEMAS = st.recursive(
    st.sampled_from([{"type": t} for t in ["string", "integer", "number", "boolean", "null", "object", "array"]])
    | st.sampled_from([{}, {"enum": [1, "a", None]}, {"const": 1.5}, {"$ref": "#/$defs/d"}, {"$ref": "#"}]),
    lambda inner: st.dictionaries(
        st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=6,
)
WRITTEN = st.sampled_from(
    ["007", "42", "1.50", "True", "None", "null", '{"a": 1}', "[1, 2]", "NaN", "1e999", '"x"', "-0"]
)


@pytest.mark.spec("API-109", "ENG-190")
@given(schema=SCHEMAS, definition=SCHEMAS, value=WRITTEN | st.text(max_size=8))
def test_every_value_is_json_and_a_string_is_unchanged(schema: Any, definition: Any, value: str) -> None:
    root = {**schema, "$defs": {"d": definition}}
    read = json.loads(typed(value, schema, root), parse_constant=lambda name: pytest.fail(name))
    if isinstance(read, str):
        assert read == value
    if is_text(types_of(schema, root)):
        assert read == value


@given(definitions=st.integers(1, 25))
def test_references_that_fork_are_each_followed_once(definitions: int) -> None:
    fork = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(definitions)}
    root = {"$defs": {**fork, f"d{definitions}": INTEGER}}
    assert typed("7", {"$ref": "#/$defs/d0"}, root) == "7"


@given(text=st.text(), border=st.integers(0, 50))
def test_escaped_pieces_join_to_the_string(text: str, border: int) -> None:
    assert f'"{escaped(text[:border])}{escaped(text[border:])}"' == quoted(text)


@pytest.mark.spec("API-109")
@pytest.mark.parametrize(
    ("schema", "raw", "expected"),
    [
        (INTEGER, '"130"', "130"),
        (BOOLEAN, '"True"', "true"),
        (INTEGER, '"\\ud800"', '"\\ud800"'),
        (UNION, '"42"', '"42"'),
        (STRING, "5", '"5"'),
        (STRING, '{"a": 1}', '"{\\"a\\": 1}"'),
        (STRING, "null", "null"),
        ({}, "5", "5"),
        (INTEGER, "5.5", "5.5"),
    ],
)
def test_a_value_that_is_json_already(schema: Any, raw: str, expected: str) -> None:
    assert retyped(raw, types_of(schema, None)) == expected


@pytest.mark.spec("API-104")
def test_the_first_of_two_tools_with_one_name_counts() -> None:
    schemas = ToolSchemas([tool("f", a="integer"), tool("f", a="boolean")])
    assert schemas.types("f", "a") == frozenset({"integer"})
    assert schemas.types("f", "b") is None
    assert schemas.types("g", "a") is None


def test_properties_are_found_behind_references_and_branches() -> None:
    parameters = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"allOf": [{"properties": {"a": INTEGER}}, {"anyOf": [{"properties": {"b": BOOLEAN}}]}]}},
    }
    schemas = ToolSchemas([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    assert schemas.types("f", "a") == frozenset({"integer"})
    assert schemas.types("f", "b") == frozenset({"boolean"})


@pytest.mark.parametrize("parameters", [None, True, {"properties": []}, {"properties": {"a": 1}}, {"anyOf": 3}])
def test_a_schema_that_makes_no_sense_says_nothing(parameters: Any) -> None:
    schemas = ToolSchemas([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    assert schemas.types("f", "a") is None
