"""The operations of OpenAPI's document: one function a route and method."""

from __future__ import annotations

from typing import Any

from tandem.http.openai import openapi_dashboard, openapi_documents, openapi_packages, openapi_plans
from tandem.http.openai.openapi_parts import (
    OPTIONAL_KEY,
    body,
    completed,
    headers,
    in_path,
    json_answer,
    page,
    reference,
    responses,
)

__all__ = ["paths"]

CLIENT = {
    "X-Tandem": ("Lowers the mode; a request runs raw while there is no conductor.", ("raw", "shadow", "on", "off")),
    "X-Tandem-Profile": ("The conductor's profile it runs under; a 400 for one that there is not.", ()),
    "X-Tandem-Client": ("Which client sends, where its other headers do not tell; an unknown kind is ignored.", ()),
    "X-Tandem-Regenerate": (
        "Whether it asks for another answer; in mode raw it has one computed that `--response-cache` would repeat.",
        ("0", "1"),
    ),
    "Cache-Control": ("With `--response-cache`: no-cache has it computed, no-store keeps its answer nowhere.", ()),
    "X-Session-Id": ("Tells one session from another.", ()),
}
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def paths() -> dict[str, Any]:
    """Every route there is, with its methods."""
    return {
        "/v1/chat/completions": {"post": _chat()},
        "/v1/completions": {"post": _completions()},
        "/v1/models": {"get": _models()},
        "/v1/models/{id}": {"get": _model()},
        "/health": {"get": _health()},
        "/v1/cache/stats": {"get": _cache_stats()},
        "/v1/cache/clear": {"post": _cache_clear()},
        **openapi_dashboard.paths(),
        **openapi_documents.paths(),
        **openapi_packages.paths(),
        **openapi_plans.paths(),
        "/openapi.json": {"get": _openapi()},
        "/docs": {"get": _docs()},
    }


def _chat() -> dict[str, Any]:
    plain = {"messages": QUESTION, "max_tokens": 64}
    return {
        "operationId": "chat",
        "summary": "Chat completion",
        "description": "The model's next message of a conversation, as one JSON body or as a stream of events.",
        "security": OPTIONAL_KEY,
        "parameters": headers(CLIENT),
        "requestBody": body("ChatRequest", plain=plain, streamed={**plain, "stream": True}),
        "responses": completed("ChatCompletion", "ChatEvent"),
    }


def _completions() -> dict[str, Any]:
    return {
        "operationId": "completions",
        "summary": "Text completion",
        "description": "The model's continuation of a text: no template, no tools, no reasoning split.",
        "security": OPTIONAL_KEY,
        "parameters": headers(CLIENT),
        "requestBody": body("CompletionRequest", plain={"prompt": "Once upon a time", "max_tokens": 64}),
        "responses": completed("TextCompletion", "TextEvent"),
    }


def _models() -> dict[str, Any]:
    return {
        "operationId": "models",
        "summary": "Served models",
        "description": "There is one.",
        "security": OPTIONAL_KEY,
        "responses": responses(json_answer("The list.", "ModelList"), 401),
    }


def _model() -> dict[str, Any]:
    return {
        "operationId": "model",
        "summary": "One model's card",
        "description": "The window that is served, among other things.",
        "security": OPTIONAL_KEY,
        "parameters": [in_path("id", "The model's id.", {"type": "string", "minLength": 1}, "TandemLLM")],
        "responses": responses(json_answer("The card.", "ModelCard"), 401, 404),
    }


def _health() -> dict[str, Any]:
    content = {"application/json": {"schema": {"anyOf": [reference("Health"), reference("ShortHealth")]}}}
    return {
        "operationId": "health",
        "summary": "State of the server",
        "description": "It never waits for a generation. Where a password is set, strangers get the short body.",
        "responses": {
            **responses({"description": "The server is well.", "content": content}),
            "503": {"description": "It is shutting down, or the engine can no longer serve.", "content": content},
        },
    }


def _cache_stats() -> dict[str, Any]:
    return {
        "operationId": "cache-stats",
        "summary": "Counts of the caches",
        "description": "Takes the password where one is set.",
        "responses": responses(json_answer("Those that are on.", "CachesShown"), 400, 401),
    }


def _cache_clear() -> dict[str, Any]:
    sent = body("ClearRequest", resident={"caches": ["resident"]})
    return {
        "operationId": "cache-clear",
        "summary": "Empty the caches",
        "description": "Waits at most 30 s for the generation that runs. Takes the password where one is set.",
        "requestBody": {**sent, "required": False},
        "responses": responses(json_answer("What was given up.", "CachesCleared"), 400, 401, 403, 408, 413, 503),
    }


def _openapi() -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}}
    return {
        "operationId": "openapi",
        "summary": "This description",
        "description": "For programs.",
        "responses": responses({"description": "An OpenAPI 3.1 document.", "content": content}),
    }


def _docs() -> dict[str, Any]:
    return {
        "operationId": "docs",
        "summary": "This page",
        "description": "For people.",
        "responses": responses(page("A page that loads and runs nothing.")),
    }
