"""What a schema becomes: every keyword enforced or refused by name, and the documents that follow from it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tandem.engine.errors import BadInput
from tandem.engine.fake import FakeText
from tandem.engine.grammar.constraints import JsonObject, JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.matcher import GuidedMatcher
from tandem.engine.grammar.schemas import FORMATS, MAX_LEVELS, REFUSED

TEXT = FakeText()
GRAMMARS = Grammars(TEXT, cached=4)
PARAM = "response_format.json_schema.schema"


def compiled(schema: Any) -> GuidedMatcher:
    return GRAMMARS.compile(JsonSchema(schema, PARAM)).matcher


def accepts(schema: Any, document: str) -> bool:
    state = compiled(schema).copy()
    state.commit_bytes(document.encode())
    return state.accepting


def refusal(schema: Any) -> str:
    with pytest.raises(BadInput) as caught:
        compiled(schema)
    assert caught.value.param == PARAM
    return str(caught.value)


@pytest.mark.spec("API-128", "ENG-089")
@pytest.mark.parametrize("keyword", sorted(REFUSED))
@pytest.mark.parametrize("place", ["properties", "items", "anyOf", "$defs"])
def test_a_keyword_that_cannot_be_enforced_is_refused_by_name(keyword: str, place: str) -> None:
    inner = {"type": "string", keyword: {"const": 1}}
    places: dict[str, Any] = {
        "properties": {"properties": {"a": inner}},
        "items": {"items": inner},
        "anyOf": {"anyOf": [{"type": "null"}, inner]},
        "$defs": {"$ref": "#/$defs/a", "$defs": {"a": inner}},
    }
    assert f"`{keyword}`" in refusal(places[place])
    assert accepts({"const": {keyword: 1}, "default": inner, "examples": [inner]}, json.dumps({keyword: 1}))


@pytest.mark.spec("API-128", "ENG-089")
def test_what_the_library_would_leave_out_is_enforced_or_refused() -> None:
    """Each of these it ignores, or lets the schema switch off."""
    loose = {"x-guidance": {"lenient": True, "coerce_one_of": True}}
    assert "`not`" in refusal({**loose, "not": {}})
    assert "`oneOf`" in refusal({**loose, "oneOf": [{"type": "string"}, {"maxLength": 3}]})
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}
    assert not accepts({**old, "const": 5}, "4")
    assert "`if`" in refusal({**old, "if": {}})
    assert not accepts({**old, "exclusiveMinimum": True, "minimum": 3}, "3")
    assert not accepts({**old, "type": "array", "items": [{"type": "null"}], "additionalItems": False}, "[null, 1]")


@pytest.mark.spec("API-128")
def test_annotations_and_unknown_formats_pass_without_effect() -> None:
    plain = {"type": "object", "properties": {"a": {"type": "string"}}}
    noted = {
        "type": "object",
        "title": "T",
        "$comment": "c",
        "x-order": 1,
        "markdownDescription": "d",
        "properties": {"a": {"type": "string", "format": "iban", "deprecated": True, "contentMediaType": "text/x"}},
    }
    for document in ('{"a": "anything"}', '{"b": 1}', "{}", '{"a": 1}'):
        assert accepts(noted, document) == accepts(plain, document)
    assert not accepts({"type": "string", "format": "date"}, '"tomorrow"')
    assert accepts({"type": "string", "format": "date"}, '"2026-11-30"')
    assert not {"iban", "regex", "json-pointer"} & FORMATS


@pytest.mark.spec("API-128")
@pytest.mark.parametrize(
    ("schema", "no_effect"),
    [({"type": "array"}, {"uniqueItems": False}), ({"type": "object"}, {"propertyNames": {"type": "string"}})],
)
def test_a_keyword_that_forbids_nothing_is_no_reason_to_refuse(schema: Any, no_effect: Any) -> None:
    assert accepts({**schema, **no_effect}, json.dumps({"array": [1, 1], "object": {"a": 1}}[schema["type"]]))


@pytest.mark.spec("API-128", "ENG-089")
@pytest.mark.parametrize(
    ("reference", "schema"),
    [
        ("#", {"type": "object", "properties": {"x": {"$ref": "#"}}, "additionalProperties": False}),
        (
            "#/$defs/a%25b~1c",
            {"properties": {"x": {"$ref": "#/$defs/a%25b~1c"}}, "$defs": {"a%b/c": {"type": "object"}}},
        ),
        (
            "#/properties/tree/properties/l/anyOf/0",
            {
                "properties": {
                    "tree": {"properties": {"l": {"anyOf": [{"type": "object"}, {"type": "null"}]}}},
                    "x": {"$ref": "#/properties/tree/properties/l/anyOf/0"},
                }
            },
        ),
        ("#node", {"properties": {"x": {"$ref": "#node"}}, "$defs": {"n": {"$anchor": "node", "type": "object"}}}),
        ("tree", {"$id": "https://x.example/tree", "type": "object", "properties": {"x": {"$ref": "tree"}}}),
        (
            "#/$defs/b in a resource of its own",
            {
                "$ref": "#/$defs/a",
                "$defs": {
                    "a": {
                        "$id": "https://x.example/a",
                        "properties": {"x": {"$ref": "#/$defs/b"}},
                        "$defs": {"b": {"type": "object"}},
                    },
                    "b": {"type": "null"},
                },
            },
        ),
        ("a keyword of no draft", {"properties": {"x": {"$ref": "#/shapes/a"}}, "shapes": {"a": {"type": "object"}}}),
    ],
)
def test_every_local_reference_is_served(reference: str, schema: Any) -> None:
    """G-08 is the third: llama.cpp#16790."""
    assert accepts(schema, '{"x": {}}')
    assert not accepts(schema, '{"x": null}')


@pytest.mark.spec("API-128")
@pytest.mark.parametrize(
    "reference", ["https://x.example/schema", "other.json", "file:///etc/passwd", "//x.example/a#/b"]
)
def test_no_reference_leads_out_and_nothing_is_fetched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G-11."""
    import socket

    def no_network(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", no_network)
    assert "$ref" in (why := refusal({"properties": {"a": {"$ref": reference}}}))
    assert "nothing is fetched" in why
    assert "leads nowhere" in refusal({"$ref": "#/$defs/none"})
    assert "leads nowhere" in refusal({"$ref": "#none", "properties": 5})


@pytest.mark.spec("API-128", "ENG-089")
def test_recursion_with_optional_properties_validates() -> None:
    """G-13."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer"},
            "kids": {"type": "array", "items": {"$ref": "#"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    document = {"name": "a", "kids": [{"name": "b", "size": 2, "kids": []}, {"name": "c"}]}
    Draft202012Validator(schema).validate(document)
    assert accepts(schema, json.dumps(document))
    assert accepts(schema, json.dumps(document, indent=4))
    for wrong in ({"size": 1}, {"name": "a", "more": 1}, {"kids": [], "name": "a"}, {"name": "a", "kids": [{}]}):
        assert not accepts(schema, json.dumps(wrong))


@pytest.mark.spec("API-128")
def test_pattern_properties_are_enforced() -> None:
    """G-10; `propertyNames` is refused above."""
    schema = {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False}
    assert accepts(schema, '{"n_a": 1, "n_b": 2}')
    assert not accepts(schema, '{"n_a": "1"}')
    assert not accepts(schema, '{"a": 1}')


@pytest.mark.spec("API-128", "ENG-089")
def test_keys_come_in_the_schema_order() -> None:
    schema = {"type": "object", "properties": {"b": {}, "a": {}, "c": {}}, "required": ["c", "a"]}
    assert accepts(schema, '{"a": 1, "c": 2}')
    assert accepts(schema, '{"b": 0, "a": 1, "c": 2, "z": 3}')
    assert not accepts(schema, '{"a": 1, "b": 0, "c": 2}')
    assert not accepts(schema, '{"c": 2, "a": 1}')


@pytest.mark.spec("API-128")
def test_a_listed_name_has_one_spelling() -> None:
    r"""Else `"\u0061"` would be another name, and `a` twice in the document."""
    open_names = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert not accepts(open_names, r'{"\u0061": "x"}')
    assert not accepts(open_names, '{"b": 1, "a": 2}')
    closed = {**open_names, "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    assert accepts(closed, r'{"a": "\u001b[1m"}')
    assert not accepts(closed, r'{"\u0061": "x"}')
    listed_twice = {"type": "object", "minProperties": 3, "required": ["a"]}
    assert "`minProperties`" in refusal(listed_twice)
    assert not accepts({**listed_twice, "minProperties": 2}, '{"a": 1}')


@pytest.mark.spec("API-128", "API-129")
def test_blanks_are_free_and_bounded() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    for document in ('{"a":[1,2]}', '{"a": [1, 2]}', '{ "a" : [ 1 , 2 ] }', '{\n  "a": [\n    1,\n    2\n  ]\n}'):
        for kind in (compiled(schema), GRAMMARS.compile(JsonObject()).matcher):
            state = kind.copy()
            state.commit_bytes(document.encode())
            assert state.accepting, document
    state = compiled(schema).copy()
    state.commit_bytes(b"{\n" + b" " * 60)
    assert state.allows_bytes(b'"')
    assert not any(state.allows_bytes(blank) for blank in (b" ", b"\n", b"\t"))
    assert not accepts(schema, "{} ")
    assert not accepts(schema, " {}")


@pytest.mark.spec("API-129")
@pytest.mark.parametrize("document", ["{}", '{"a": {"b": [{"c": null}, -1.5e-3, "é\\n"]}}'])
def test_json_object_is_one_object(document: str) -> None:
    state = GRAMMARS.compile(JsonObject()).matcher.copy()
    state.commit_bytes(document.encode())
    assert state.accepting
    assert not any(state.allows_bytes(bytes((byte,))) for byte in range(256))
    for other in (b"[", b'"', b"1", b"n", b" ", b"`"):
        assert not GRAMMARS.compile(JsonObject()).matcher.allows_bytes(other)


@pytest.mark.spec("API-128")
def test_alternatives_that_exclude_each_other_are_served() -> None:
    """`oneOf` with a constant in each, as generators write it, also through references and recursion."""
    tagged = {
        "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
        "$defs": {
            "cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
            "dog": {
                "type": "object",
                "properties": {
                    "kind": {"enum": ["dog", "wolf"]},
                    "friend": {"oneOf": [{"$ref": "#"}, {"type": "null"}]},
                },
                "required": ["kind"],
            },
        },
    }
    assert accepts(tagged, '{"kind": "dog", "friend": {"kind": "cat"}}')
    assert not accepts(tagged, '{"kind": "bird"}')
    closed = [{"type": "object", "properties": {k: {}}, "required": [k], "additionalProperties": False} for k in "ab"]
    assert accepts({"oneOf": closed}, '{"b": 1}')
    for both in (
        [{"type": "object"}, {"type": "object", "required": ["a"]}],
        [{"type": "integer"}, {"type": "number", "minimum": 1}],
        [{"enum": [1, 2]}, {"enum": [2, 3]}],
        [{}, {"type": "null"}],
        [
            {"properties": {"k": {"const": "a"}}, "required": ["k"]},
            {"properties": {"k": {"const": "b"}}, "required": ["k"]},
        ],
    ):
        assert "`oneOf`" in refusal({"oneOf": both})


@pytest.mark.spec("ENG-084", "API-128")
def test_what_never_ends_cannot_be_begun() -> None:
    endless = {"type": "object", "properties": {"x": {"$ref": "#/$defs/endless"}}, "required": ["x"]}
    assert "no document" in refusal({"$ref": "#/$defs/endless", "$defs": {"endless": endless}})
    for way_out in (
        {"anyOf": [{"$ref": "#/$defs/endless"}, {"type": "null"}]},
        {"type": ["array", "null"], "items": {"$ref": "#/$defs/endless"}, "minItems": 1},
    ):
        schema = {"$defs": {"endless": endless}, "properties": {"a": way_out}, "type": "object"}
        assert accepts(schema, '{"a": null}')
        state = compiled(schema).copy()
        state.commit_bytes(b'{"a": ')
        assert not state.allows_bytes(b"{")
        assert not state.allows_bytes(b"[{")
    optional = {"type": "object", "properties": {"x": {"$ref": "#/$defs/endless"}}, "$defs": {"endless": endless}}
    assert not accepts(optional, '{"x": 1}')


@pytest.mark.spec("API-128")
@pytest.mark.parametrize(
    ("keyword", "value", "inside", "outside"),
    [
        ("maximum", 2**63 - 1, "9223372036854774784", "9223372036854775808"),
        ("minimum", -(2**63), "-9223372036854774784", "-9223372036854775809"),
        ("maximum", 2**53 + 1, "9007199254740992", "9007199254740994"),
        ("exclusiveMaximum", 10, "9", "10"),
        ("const", 2**53, "9007199254740992", "9007199254740993"),
    ],
)
def test_bounds_beyond_exact_floats_allow_no_more(keyword: str, value: int, inside: str, outside: str) -> None:
    assert accepts({"type": "integer", keyword: value}, inside)
    assert not accepts({"type": "integer", keyword: value}, outside)


@pytest.mark.spec("API-128")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"type": 5},
        {"properties": []},
        {"properties": {"a": 5}},
        {"anyOf": {}},
        {"items": 5},
        {"required": "a"},
        {"required": [1]},
        {"enum": 5},
        {"minLength": -1},
        {"maxItems": 1.5},
        {"maxItems": 10**9},
        {"minimum": "1"},
        {"minimum": 10**400},
        {"multipleOf": 0},
        {"pattern": 5},
        {"pattern": "("},
        {"pattern": "(?=a)"},
        {"pattern": "a", "format": 5, "$ref": 5},
        {"const": 2**53 + 1},
        {"enum": [math.inf]},
        {"$id": "http://[", "$ref": "#/$defs/a"},
        {"$schema": 5, "properties": {"a": {"$id": 5, "$ref": "b"}}},
        {"patternProperties": {"a": {}, "b": {}}},
        {"properties": {"a": {}, "b": {}}, "type": "object", "maxProperties": 1},
        False,
    ],
)
def test_a_broken_schema_is_refused(schema: Any) -> None:
    assert len(refusal(schema)) < 300


@pytest.mark.spec("API-128", "ENG-089")
def test_size_and_depth_are_bounded() -> None:
    """A chain of references as long as the last would overflow the stack inside the library, and end the process."""
    assert "larger" in refusal({"description": "x" * 600_000})
    assert "10000 schemas" in refusal({"anyOf": [{"minLength": n} for n in range(10_001)]})
    nested: Any = {"type": "string"}
    for _ in range(100):
        nested = {"type": "object", "properties": {"a": nested}, "required": ["a"]}
    assert accepts(nested, '{"a": ' * 100 + '"x"' + "}" * 100)
    for _ in range(MAX_LEVELS):
        nested = {"items": nested}
    assert "levels" in refusal(nested)
    for _ in range(5_000):
        nested = {"items": nested}
    assert "deep" in refusal(nested)
    for kind in ("items", "allOf", "$ref"):
        links = [{"$ref": f"#/$defs/d{at + 1}"} for at in range(3_000)]
        bodies = [link if kind == "$ref" else {kind: [link] if kind == "allOf" else link} for link in links]
        definitions = {f"d{at}": body for at, body in enumerate(bodies)} | {"d3000": {}}
        assert "levels" in refusal({"$ref": "#/$defs/d0", "$defs": definitions})


SCALARS: st.SearchStrategy[Any] = st.sampled_from([None, True, 0, 7, -1.5, "", "a", "ä\n"])
VALUES = st.recursive(SCALARS, lambda deep: st.lists(deep, max_size=2) | st.dictionaries(st.sampled_from("ab"), deep))


def schemas() -> st.SearchStrategy[Any]:
    leaves: st.SearchStrategy[Any] = st.one_of(
        st.booleans(),
        st.builds(lambda kinds: {"type": kinds}, st.lists(st.sampled_from(["null", "number", "string"]), min_size=1)),
        st.builds(lambda value: {"const": value}, SCALARS),
        st.builds(lambda low: {"minimum": low, "maxLength": 1}, st.integers(-2, 7)),
        st.just({"$ref": "#/$defs/d"}),
    )
    return st.recursive(
        leaves,
        lambda deep: st.one_of(
            st.builds(
                lambda key, parts: {key: parts},
                st.sampled_from(["anyOf", "allOf", "oneOf"]),
                st.lists(deep, min_size=1, max_size=2),
            ),
            st.builds(lambda part: {"items": part, "type": ["array", "null"]}, deep),
            st.builds(
                lambda parts, needed, others: {"properties": parts, "required": needed, "additionalProperties": others},
                st.dictionaries(st.sampled_from("ab"), deep),
                st.lists(st.sampled_from("ab"), max_size=1),
                deep,
            ),
        ),
        max_leaves=5,
    )


@pytest.mark.spec("API-126", "API-128")
@settings(deadline=None, max_examples=150)
@given(schemas(), schemas(), st.lists(VALUES, min_size=1, max_size=8))
def test_no_accepted_document_is_invalid(schema: Any, other: Any, values: list[Any]) -> None:
    root = {"$ref": "#/$defs/root", "$defs": {"root": schema, "d": other}}
    try:
        matcher = compiled(root)
    except BadInput:
        return
    validator = Draft202012Validator(root)
    for value in values:
        state = matcher.copy()
        state.commit_bytes(json.dumps(value, ensure_ascii=False).encode())
        try:
            assert not state.accepting or validator.is_valid(value)
        except RecursionError:  # the validator's, over a reference that leads to itself and nowhere else
            return
