"""The operations that read the conductor's journal (OBS-030, API-236, API-250)."""

from __future__ import annotations

from typing import Any

from tandem.http.openai.openapi_parts import (
    BEFORE,
    ONLY,
    POSITIVE,
    TEXT,
    in_path,
    json_answer,
    parameter,
    responses,
)

__all__ = ["paths"]

LIMIT = parameter("limit", "Rows at most; 50 if absent.", {**POSITIVE, "maximum": 500})


def paths() -> dict[str, Any]:
    """Its routes, with their methods."""
    return {
        "/v1/conductor/events": {"get": _events()},
        "/v1/conductor/decisions": {"get": _decisions()},
        "/v1/conductor/overview": {"get": _overview()},
        "/v1/conductor/sessions": {"get": _sessions()},
        "/v1/conductor/sessions/{key}": {"get": _timeline()},
    }


def _events() -> dict[str, Any]:
    return {
        "operationId": "conductor-events",
        "summary": "Rows of the conductor's journal",
        "description": f"All of them, newest first, by the page. {ONLY}",
        "parameters": [
            parameter("kind", "A kind of rows, such as `route`.", TEXT),
            parameter("task", "A task of the monitor.", TEXT),
            parameter("session", "The key of a session.", TEXT),
            parameter("mode", "The mode that the row was written in.", TEXT),
            parameter("request_id", "The id of one request.", TEXT),
            parameter("since", "Rows from then on: milliseconds since 1970.", {**POSITIVE, "minimum": 0}),
            parameter("findings", "1: without the monitor's bookkeeping.", {"enum": [0, 1], "default": 0}),
            LIMIT,
            BEFORE,
        ],
        "responses": responses(json_answer("The rows.", "ConductorEvents"), 400, 401, 404),
    }


def _decisions() -> dict[str, Any]:
    return {
        "operationId": "conductor-decisions",
        "summary": "What the router decided",
        "description": f"Rows of kind `route` and `side`, newest first. {ONLY}",
        "parameters": [parameter("session", "The key of a session.", TEXT), LIMIT, BEFORE],
        "responses": responses(json_answer("The rows.", "ConductorDecisions"), 400, 401, 404),
    }


def _overview() -> dict[str, Any]:
    return {
        "operationId": "conductor-overview",
        "summary": "What the conductor did in 24 hours and in 7 days",
        "description": f"Counted from the journal, without side requests. {ONLY}",
        "parameters": [parameter("profile", "Under this profile alone.", TEXT)],
        "responses": responses(json_answer("The figures.", "ConductorOverview"), 400, 401, 404),
    }


def _sessions() -> dict[str, Any]:
    return {
        "operationId": "conductor-sessions",
        "summary": "Sessions of the journal",
        "description": f"Those that wrote last first, without their side rows. {ONLY}",
        "parameters": [LIMIT],
        "responses": responses(json_answer("The sessions.", "ConductorSessions"), 400, 401, 404),
    }


def _timeline() -> dict[str, Any]:
    key = in_path("key", "The session's key.", {"type": "string", "minLength": 1}, "c:7f3e")
    return {
        "operationId": "conductor-session",
        "summary": "One session's timeline",
        "description": "Its newest 2,000 rows in the order of time, without hidden text.",
        "parameters": [key],
        "responses": responses(json_answer("The rows.", "ConductorSession"), 400, 401, 404),
    }
