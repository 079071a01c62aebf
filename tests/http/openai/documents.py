"""The OpenAPI document as tests use it: built once, with validators of its shapes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

import tandem
from tandem.http.openai.openapi import CONTRACTS, document

__all__ = ["check", "described", "validator"]


@cache
def described() -> dict[str, Any]:
    """The document of this version."""
    folder = Path(tandem.__file__).parent / "contract"
    contracts = {name: json.loads((folder / file).read_text("utf-8")) for name, file in CONTRACTS.items()}
    return document(version=tandem.__version__, contracts=contracts)


@cache
def validator(shape: str) -> jsonschema.Draft202012Validator:
    """A validator of one shape of the document."""
    found = described()["components"]["schemas"][shape]
    return jsonschema.Draft202012Validator({**found, "components": described()["components"]})


def check(value: Any, shape: str) -> None:
    """Raises `ValidationError` where `value` is not of the shape."""
    validator(shape).validate(value)
