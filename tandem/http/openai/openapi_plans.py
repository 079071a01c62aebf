"""The operations that show what planning decides, and what the monitor watches (PRF-019, NOTE-011, MON-132)."""

from __future__ import annotations

from typing import Any

from tandem.http.openai.openapi_parts import ONLY, body, in_path, json_answer, parameter, responses

__all__ = ["paths"]


def paths() -> dict[str, Any]:
    """Its routes, with their methods."""
    return {
        "/v1/conductor/test": {"post": _test()},
        "/v1/conductor/sessions/{key}/export": {"get": _export()},
        "/v1/conductor/watch": {"get": _watch()},
    }


def _test() -> dict[str, Any]:
    return {
        "operationId": "conductor-test",
        "summary": "Try a message",
        "description": "What a fresh user message would be routed to; nothing is generated and no session knows of it. "
        f"Takes the password where one is set. {ONLY}",
        "requestBody": body("PlanTest", plain={"text": "Write a parser for CSV files.", "profile": "coding"}),
        "responses": responses(json_answer("The plan.", "ConductorTest"), 400, 401, 403, 404, 408, 413, 503),
    }


def _export() -> dict[str, Any]:
    key = in_path("key", "The session's key.", {"type": "string"}, "c:chat-1")
    wanted = parameter("format", "Markdown if absent.", {"type": "string", "enum": ["md", "json"]})
    content = {"text/markdown": {"schema": {"type": "string"}}, "application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": "conductor-export",
        "summary": "What a session's model read that its client did not send",
        "description": f"Each request with its notes. Takes the password where one is set. {ONLY}",
        "parameters": [key, wanted],
        "responses": responses({"description": "The export.", "content": content}, 400, 401, 404),
    }


def _watch() -> dict[str, Any]:
    return {
        "operationId": "conductor-watch",
        "summary": "How each session stands",
        "description": f"Gates, compaction, progress and client of every session that the monitor remembers. {ONLY}",
        "parameters": [],
        "responses": responses(json_answer("The sessions.", "ConductorWatch"), 400, 401, 404),
    }
