"""The JSON Schemas in the contract (CFG-015)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tandem.conductor.documents import DocumentError, parse, shipped_documents
from tandem.conductor.documents.documents import split_key
from tools.conductor_schemas import FOLDER, schemas, text


def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((FOLDER / f"{kind}.schema.json").read_text("utf-8")))


@pytest.mark.spec("CFG-015")
def test_the_schemas_are_current() -> None:
    """`make docs` writes them."""
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert (FOLDER / name).read_text("utf-8") == text(schema), f"{name} is out of date: make docs"


@pytest.mark.spec("CFG-015")
@pytest.mark.parametrize("key", sorted(shipped_documents()))
def test_the_shipped_documents_keep_them(key: str) -> None:
    validator(split_key(key)[0]).validate(shipped_documents()[key])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("profiles", {"mode": "on", "x": 1}),
        ("profiles", {"mode": "on", "routing": {"classes": {"chat": {"effort": "huge"}}}}),
        ("settings", {"memory": {"disk_cache": {"budget_gb": -1}}}),
        ("roles", {"roles": {"a": {"window": "always"}}}),
        ("router", {"classes": []}),
    ],
)
def test_schema_and_types_refuse_the_same(kind: Any, body: Any) -> None:
    assert not validator(kind).is_valid(body)
    with pytest.raises(DocumentError):
        parse(kind, body)


def described(schema: dict[str, Any]) -> list[str]:
    """Keys of a document without a help text, which the dashboard shows (OBS-093)."""
    return [
        f"{name}.{key}"
        for name, part in schema.get("$defs", {}).items()
        for key, value in part.get("properties", {}).items()
        if "description" not in value
    ]


@pytest.mark.parametrize("kind", ["profiles", "router", "packages", "settings", "roles", "deciders", "residency"])
def test_every_key_has_a_help_text(kind: str) -> None:
    assert described(schemas()[f"{kind}.schema.json"]) == []
