"""The operations of packages (API-238)."""

from __future__ import annotations

from typing import Any

from tandem.http.openai.openapi_parts import ONLY, body, in_path, json_answer, parameter, responses

__all__ = ["paths"]

LIMIT = {"type": "integer", "minimum": 1, "maximum": 200, "default": 20}


def paths() -> dict[str, Any]:
    """Its routes, with their methods."""
    return {
        "/v1/conductor/packages/catalog": {"get": _catalog()},
        "/v1/conductor/packages/item/{name}": {"get": _item()},
        "/v1/conductor/packages/usage": {"get": _usage()},
        "/v1/conductor/packages/tokens": {"post": _tokens()},
    }


def _catalog() -> dict[str, Any]:
    return {
        "operationId": "packages-catalog",
        "summary": "Every package of the conductor",
        "description": f"What it is, how many tokens it has, which classes and profiles list it. {ONLY}",
        "responses": responses(json_answer("The packages.", "PackageCatalog"), 400, 401, 404),
    }


def _item() -> dict[str, Any]:
    return {
        "operationId": "packages-item",
        "summary": "One package with its texts",
        "description": f"A 404 for a name that no package has. {ONLY}",
        "parameters": [in_path("name", "The package's name.", {"type": "string", "minLength": 1}, "coding")],
        "responses": responses(json_answer("The package.", "PackageDetail"), 400, 401, 404),
    }


def _usage() -> dict[str, Any]:
    return {
        "operationId": "packages-usage",
        "summary": "How often packages went into prompts",
        "description": f"From the journal's rows of seven days. {ONLY}",
        "parameters": [
            parameter("name", "A package, whose newest turns are answered too.", {"type": "string"}),
            parameter("limit", "How many turns.", LIMIT),
        ],
        "responses": responses(json_answer("The counts.", "PackageUsageReport"), 400, 401, 404),
    }


def _tokens() -> dict[str, Any]:
    return {
        "operationId": "packages-tokens",
        "summary": "Count the tokens of texts",
        "description": f"1 to 20 texts of at most 200,000 characters; nothing is kept. {ONLY}",
        "requestBody": body("TokensAsked", plain={"texts": ["How many tokens?"]}),
        "responses": responses(json_answer("The counts.", "PackageTokens"), 400, 401, 404, 408, 413, 503),
    }
