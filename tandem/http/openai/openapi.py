"""The OpenAPI 3.1 document of the routes there are, made from the field table and the shapes on the wire (API-265)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tandem.http.openai import cache_shapes, document_shapes, package_shapes, parts, plan_shapes, wire
from tandem.http.openai.field_table import CHAT, COMPLETIONS, Field
from tandem.http.openai.fields import request_schema
from tandem.http.openai.openapi_parts import KEY, reference
from tandem.http.openai.openapi_paths import paths

__all__ = ["CONTRACTS", "document"]

CONTRACTS: Mapping[str, str] = MappingProxyType(
    {
        "ConductorDecisions": "conductor-decisions.schema.json",
        "ConductorEvents": "conductor-events.schema.json",
        "ConductorOverview": "conductor-overview.schema.json",
        "ConductorSession": "conductor-session.schema.json",
        "ConductorSessions": "conductor-sessions.schema.json",
        "ConductorWatch": "conductor-watch.schema.json",
        "Health": "health.schema.json",
        "Live": "live.schema.json",
        "Logs": "logs.schema.json",
        "Requests": "requests.schema.json",
        "Session": "session.schema.json",
        "Summary": "summary.schema.json",
        "System": "system.schema.json",
        "UsageFigures": "usage.schema.json",
    }
)
"""Shapes that have a file of their own in `tandem/contract`."""

ABOUT = (
    "An LLM server that speaks the OpenAI HTTP API: any client of it works with its base URL changed. Errors have one "
    "shape on every route. A null field counts as absent, and a field that is not named here passes without effect."
)
BEARER = "Needed where TANDEM_API_KEY is set; otherwise any header or none is taken."


def document(*, version: str, contracts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The document of this version. `contracts` are the JSON Schemas of `CONTRACTS`, by their names there."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tandem", "version": version, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths(),
        "components": {
            "schemas": _shapes()
            | {
                "ChatRequest": _request("ChatRequest", "A chat completion to be made.", CHAT),
                "CompletionRequest": _request("CompletionRequest", "A text completion to be made.", COMPLETIONS),
                "ChatEvent": _event("ChatChunk"),
                "TextEvent": _event("TextChunk"),
            }
            | {name: _embedded(contracts[name]) for name in CONTRACTS},
            "securitySchemes": {KEY: {"type": "http", "scheme": "bearer", "description": BEARER}},
        },
    }


def _shapes() -> dict[str, Any]:
    """Schemas of what is sent, and of the parts of requests, by the names of their types."""
    named = {
        name: getattr(module, name)
        for module in (wire, parts, cache_shapes, document_shapes, package_shapes, plan_shapes)
        for name in module.__all__
    }
    template = reference("{name}")["$ref"]
    schemas, shapes = msgspec.json.schema_components(named.values(), ref_template=template)
    unions = {name: schema for name, schema in zip(named, schemas, strict=True) if name not in shapes}
    return shapes | unions


def _embedded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of a file, without what says that it is one."""
    return {name: value for name, value in schema.items() if name != "$schema"}


def _request(name: str, description: str, rows: tuple[Field, ...]) -> dict[str, Any]:
    return {"title": name, "description": description, **request_schema(rows)}


def _event(chunk: str) -> dict[str, Any]:
    """One server-sent event, as a parser of streams gives it."""
    sent = {"type": "string", "contentMediaType": "application/json", "contentSchema": reference(chunk)}
    data = {
        "title": f"`{chunk}` as a string of JSON, or `[DONE]`",
        "description": "`[DONE]` comes last, and comes always.",
        "anyOf": [{"const": "[DONE]"}, sent],
    }
    return {
        "title": chunk.replace("Chunk", "Event"),
        "description": "One event of a stream. Between two there may be comments: lines that start with a colon.",
        "type": "object",
        "properties": {"data": data},
        "required": ["data"],
    }
