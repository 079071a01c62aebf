"""The JSON-Schema-Test-Suite: no invalid instance is accepted, and what is refused is refused by name."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.engine.errors import BadInput
from tandem.engine.fake import FakeText
from tandem.engine.grammar.constraints import JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.matcher import GuidedMatcher
from tests.embedded import embedded_checkpoint
from tests.engine.grammar.suite import Case, cases

ACCEPTED_WRONGLY = {
    # U+FEFF is a blank to ECMA 262 and none to Unicode.
    "ecmascript-regex.json: ECMA 262 \\S matches everything but whitespace": {"zero-width whitespace does not match"},
}
REJECTED_WRONGLY = {
    "ecmascript-regex.json: ECMA 262 \\s matches whitespace": {"zero-width whitespace matches"},
    # A document has its keys in one order.
    "allOf.json: allOf": {"allOf"},
    "allOf.json: allOf with base schema": {"valid"},
    "const.json: const with object": {"same object with different property order is valid"},
    # An integer is written without an exponent.
    "float-overflow.json: all integers are multiples of 0.5, if overflow is handled": {
        "valid if optional overflow handling is implemented"
    },
    # A bound beyond 2**63 is drawn in to it.
    "bignum.json: maximum integer comparison": {"comparison works for high numbers"},
    "bignum.json: minimum integer comparison": {"comparison works for very negative numbers"},
    # `$schema` switches no keyword off.
    "vocabulary.json: schema that uses custom metaschema with with no validation vocabulary": {
        "no validation: invalid number, but it still validates"
    },
}
"""Valid documents that a model cannot write; beside these, those that break a known `format`, which is enforced."""

REFUSED = {
    "$dynamicRef": 12,
    "$ref": 22,
    "contains": 19,
    "dependentRequired": 4,
    "dependentSchemas": 7,
    "else": 2,
    "if": 17,
    "maxContains": 1,
    "minContains": 1,
    "no document": 6,
    "not": 12,
    "oneOf": 8,
    "pattern": 2,
    "patternProperties": 3,
    "propertyNames": 7,
    "then": 3,
    "too complex": 1,
    "unevaluatedItems": 20,
    "unevaluatedProperties": 33,
    "uniqueItems": 3,
}
"""Schemas that are refused, by the keyword that the message names. A number may fall, and then it is lowered here."""


def refused_for(error: BadInput) -> str:
    """The keyword in the message."""
    named = re.search(r"`([^`]+)`|/(\$ref) |(no document|too complex)", str(error))
    assert named, error
    return str(next(filter(None, named.groups())))


def canonical(value: Any) -> Any:
    """Numbers as ECMA 262 writes them: an integer has no fraction."""
    match value:
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(value)
        case list():
            return [canonical(each) for each in value]
        case dict():
            return {key: canonical(each) for key, each in value.items()}
        case _:
            return value


def document(instance: Any) -> str:
    return json.dumps(canonical(instance), ensure_ascii=False)


def wrong(case: Case, matcher: GuidedMatcher) -> Iterator[tuple[str, bool]]:
    """The tests that come out otherwise than the suite says, and what they came out as."""
    for description, instance, valid in case.tests:
        state = matcher.copy()
        state.commit_bytes(document(instance).encode())
        if state.accepting != valid:
            yield description, state.accepting


@pytest.mark.spec("API-126", "API-128", "ENG-084", "ENG-089")
def test_the_suite() -> None:
    grammars = Grammars(FakeText(), cached=1)
    refused: Counter[str] = Counter()
    accepted_wrongly: dict[str, set[str]] = {}
    rejected_wrongly: dict[str, set[str]] = {}
    compiled = 0
    for case in cases():
        try:
            matcher = grammars.compile(JsonSchema(case.schema, "schema")).matcher
        except BadInput as error:
            refused[refused_for(error)] += 1
            continue
        compiled += 1
        for description, accepted in wrong(case, matcher):
            (accepted_wrongly if accepted else rejected_wrongly).setdefault(case.name, set()).add(description)
    formats = {name for name in rejected_wrongly if name.startswith("format.json: ")}
    assert accepted_wrongly == ACCEPTED_WRONGLY
    assert {name: tests for name, tests in rejected_wrongly.items() if name not in formats} == REJECTED_WRONGLY
    assert all(test.endswith("only an annotation by default") for name in formats for test in rejected_wrongly[name])
    assert compiled > 200
    assert dict(refused) == REFUSED


@pytest.mark.spec("ENG-084", "API-127")
def test_documents_of_the_suite_token_by_token() -> None:
    """A part of it over a real vocabulary: each token is allowed where the document goes on with it."""
    text = embedded_checkpoint().text
    grammars = Grammars(text, cached=1)
    checked = 0
    for case in list(cases())[::4]:
        try:
            matcher = grammars.compile(JsonSchema(case.schema, "schema")).matcher
        except BadInput:
            continue
        expected = dict(wrong(case, matcher))
        for description, instance, valid in case.tests:
            ids = text.encode(document(instance))
            allows = all(matcher.allows(ids[:at], token) for at, token in enumerate(ids))
            whole = allows and all(matcher.allows(ids, end) for end in text.end_ids)
            assert whole == expected.get(description, valid), (case.name, description)
            checked += 1
    assert checked > 100
