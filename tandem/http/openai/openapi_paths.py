"""The operations of OpenAPI's document: one function a route and method, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["KEY", "paths", "reference"]

SCHEMAS = "#/components/schemas/"
KEY = "apiKey"
"""The security scheme of the open routes."""
OPTIONAL_KEY: list[dict[str, list[str]]] = [{}, {KEY: []}]

ID = {"X-Request-Id": "The id that body and log line carry too.", "X-Tandem": "The mode it was served in."}
RETRY = {"Retry-After": "Seconds after which to try again."}
CAUSES: Mapping[int, tuple[str, Mapping[str, str]]] = {
    400: ("The request cannot be served as sent; `param` names the field or header.", {}),
    401: ("The key or the password is missing or wrong.", {"WWW-Authenticate": "Bearer."}),
    403: ("A page of an origin that is not allowed has sent it.", {}),
    404: ("There is no such thing here.", {}),
    408: ("The body did not arrive in time.", {}),
    413: ("The body is larger than `--max-body-mb`.", {}),
    421: ("The host in the Host header is none that `--allowed-hosts` lists.", {}),
    429: ("It waited too long, or too many came.", RETRY),
    500: ("The server failed; the next request is served normally.", {}),
    503: ("No room now: a full queue, no memory, or a server that is shutting down.", RETRY),
}
"""What each status of a refusal says, and its headers."""
ALWAYS = (421, 500)
BODY = (400, 408, 413, 503)

CLIENT = {
    "X-Tandem": ("Lowers the mode; a request runs raw while there is no conductor.", ("raw", "shadow", "on", "off")),
    "X-Tandem-Client": ("Which client sends, where its other headers do not tell; an unknown kind is ignored.", ()),
    "X-Tandem-Regenerate": ("Whether it asks for another answer; without effect in mode raw.", ("0", "1")),
    "X-Session-Id": ("Tells one session from another.", ()),
}
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def reference(shape: str) -> dict[str, str]:
    """A reference to a schema of the document."""
    return {"$ref": SCHEMAS + shape}


def paths() -> dict[str, Any]:
    """Every route there is, with its methods."""
    return {
        "/v1/chat/completions": {"post": _chat()},
        "/v1/completions": {"post": _completions()},
        "/v1/models": {"get": _models()},
        "/v1/models/{id}": {"get": _model()},
        "/health": {"get": _health()},
        "/v1/dashboard/session": {"get": _session(), "post": _sign_in(), "delete": _sign_out()},
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
        "parameters": _headers(CLIENT),
        "requestBody": _body("ChatRequest", plain=plain, streamed={**plain, "stream": True}),
        "responses": _completed("ChatCompletion", "ChatEvent"),
    }


def _completions() -> dict[str, Any]:
    return {
        "operationId": "completions",
        "summary": "Text completion",
        "description": "The model's continuation of a text: no template, no tools, no reasoning split.",
        "security": OPTIONAL_KEY,
        "parameters": _headers(CLIENT),
        "requestBody": _body("CompletionRequest", plain={"prompt": "Once upon a time", "max_tokens": 64}),
        "responses": _completed("TextCompletion", "TextEvent"),
    }


def _models() -> dict[str, Any]:
    return {
        "operationId": "models",
        "summary": "Served models",
        "description": "There is one.",
        "security": OPTIONAL_KEY,
        "responses": _responses(_json("The list.", "ModelList"), 401),
    }


def _model() -> dict[str, Any]:
    name = {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The model's id.",
        "schema": {"type": "string", "minLength": 1},
        "example": "TandemLLM",
    }
    return {
        "operationId": "model",
        "summary": "One model's card",
        "description": "The window that is served, among other things.",
        "security": OPTIONAL_KEY,
        "parameters": [name],
        "responses": _responses(_json("The card.", "ModelCard"), 401, 404),
    }


def _health() -> dict[str, Any]:
    content = {"application/json": {"schema": {"anyOf": [reference("Health"), reference("ShortHealth")]}}}
    return {
        "operationId": "health",
        "summary": "State of the server",
        "description": "It never waits for a generation. Where a password is set, strangers get the short body.",
        "responses": {
            **_responses({"description": "The server is well.", "content": content}),
            "503": {"description": "It is shutting down, or the engine can no longer serve.", "content": content},
        },
    }


def _session() -> dict[str, Any]:
    return {
        "operationId": "session",
        "summary": "State of the sign-in",
        "description": "Whether there is a password, whether the dashboard asks for it, and whether you are signed in.",
        "responses": _responses(_json("The state.", "Session")),
    }


def _sign_in() -> dict[str, Any]:
    cookie = {"Set-Cookie": "The session; scripts of a page cannot read it."}
    return {
        "operationId": "sign-in",
        "summary": "Sign in",
        "description": "Gives a session cookie for the password. A 404 where no password is set.",
        "requestBody": _body("SignIn", plain={"token": "the password of the server, TANDEM_ADMIN_TOKEN"}),
        "responses": _responses(_json("Signed in.", "Session", cookie), 401, 404, 429, *BODY),
    }


def _sign_out() -> dict[str, Any]:
    cookie = {"Set-Cookie": "An empty one."}
    return {
        "operationId": "sign-out",
        "summary": "Sign out",
        "description": "Takes the cookie back.",
        "responses": _responses(_json("Signed out.", "Session", cookie)),
    }


def _openapi() -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}}
    return {
        "operationId": "openapi",
        "summary": "This description",
        "description": "For programs.",
        "responses": _responses({"description": "An OpenAPI 3.1 document.", "content": content}),
    }


def _docs() -> dict[str, Any]:
    content = {"text/html": {"schema": {"type": "string"}}}
    return {
        "operationId": "docs",
        "summary": "This page",
        "description": "For people.",
        "responses": _responses({"description": "A page that loads and runs nothing.", "content": content}),
    }


def _headers(meanings: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """Optional headers of a request, with the words they take where that is checked."""
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": meaning,
            "schema": {"type": "string", **({"enum": list(words)} if words else {})},
        }
        for name, (meaning, words) in meanings.items()
    ]


def _body(shape: str, **examples: Any) -> dict[str, Any]:
    content = {"schema": reference(shape), "examples": {name: {"value": value} for name, value in examples.items()}}
    return {"required": True, "content": {"application/json": content}}


def _completed(whole: str, event: str) -> dict[str, Any]:
    answer = _json("The answer; with `stream` its events, one a chunk.", whole, ID)
    answer["content"]["text/event-stream"] = {"schema": reference(event)}
    return _responses(answer, 401, 403, 429, *BODY, headers=ID)


def _responses(success: Mapping[str, Any], *causes: int, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"200": success, **_refusals((*causes, *ALWAYS), headers or {})}


def _refusals(causes: Iterable[int], headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        str(status): _json(CAUSES[status][0], "ErrorBody", {**CAUSES[status][1], **headers})
        for status in sorted(causes)
    }


def _json(description: str, shape: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    described = {name: {"description": text, "schema": {"type": "string"}} for name, text in (headers or {}).items()}
    return {
        "description": description,
        **({"headers": described} if described else {}),
        "content": {"application/json": {"schema": reference(shape)}},
    }
