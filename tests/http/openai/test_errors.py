from __future__ import annotations

import json

import pytest

from tandem.engine.errors import BadInput
from tandem.http.openai import errors
from tandem.http.openai.errors import ApiError

KNOWN = [
    (errors.queue_full(), 503, "overloaded", "queue_full", {"Retry-After": "5"}),
    (errors.queue_timeout(), 429, "rate_limited", "queue_timeout", {"Retry-After": "10"}),
    (errors.draining(), 503, "overloaded", "draining", {"Retry-After": "30"}),
    (errors.memory(), 503, "overloaded", "memory", {"Retry-After": "10"}),
    (errors.context_length_exceeded(10, 9), 400, "invalid_request_error", "context_length_exceeded", {}),
    (errors.not_found("/x"), 404, "not_found", None, {}),
    (errors.method_not_allowed(["GET", "HEAD"]), 405, "method_not_allowed", None, {"Allow": "GET, HEAD"}),
    (errors.payload_too_large(64 << 20), 413, "invalid_request_error", None, {}),
    (errors.model_not_found("m"), 404, "not_found", "model_not_found", {}),
    (errors.internal(), 500, "server_error", None, {}),
    (errors.invalid("n", "n is wrong"), 400, "invalid_request_error", None, {}),
]


@pytest.mark.spec("API-023", "API-263", "API-026")
@pytest.mark.parametrize(("error", "status", "kind", "code", "headers"), KNOWN)
def test_known_refusals(error: ApiError, status: int, kind: str, code: str | None, headers: dict[str, str]) -> None:
    body = json.loads(error.body())
    assert list(body) == ["error"]
    assert list(body["error"])[:5] == ["message", "type", "param", "code", "status"]
    assert (body["error"]["status"], body["error"]["type"], body["error"]["code"]) == (status, kind, code)
    assert isinstance(body["error"]["message"], str)
    assert error.headers() == headers
    assert error.stream_members().get("retry_after") == error.retry_after


@pytest.mark.spec("API-199")
def test_a_prompt_without_room_learns_what_would_help() -> None:
    known, prompt = errors.memory(10), errors.memory(10, to_read=True)
    assert (prompt.status, prompt.code, prompt.retry_after) == (known.status, known.code, known.retry_after)
    assert "shorter prompt" in prompt.message
    assert "--mem-peak-gib" in prompt.message
    assert "prompt" not in known.message, "of a body or an image that is no help"


@pytest.mark.spec("API-024")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *[(status, "invalid_request_error") for status in (400, 413, 421, 422)],
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (409, "conflict"),
        (429, "rate_limited"),
        (500, "server_error"),
        (503, "overloaded"),
    ],
)
def test_types_by_status(status: int, kind: str) -> None:
    assert ApiError(status, "x").type == kind


@pytest.mark.spec("API-045")
def test_a_prompt_too_long_speaks_as_clients_expect() -> None:
    error = json.loads(errors.context_length_exceeded(8193, 8192).body())["error"]
    assert "maximum context length is 8192 tokens" in error["message"]
    assert "8193" in error["message"]
    assert "Please reduce the length of the messages" in error["message"]
    assert (error["n_prompt_tokens"], error["n_ctx"], error["param"]) == (8193, 8192, "messages")
    assert errors.context_length_exceeded(2, 1, "prompt").param == "prompt"


@pytest.mark.spec("API-025")
def test_bad_input_of_the_engine_is_a_400_with_its_field() -> None:
    error = errors.from_bad_input(BadInput("messages[2]", "the template refuses it", code="c"))
    assert (error.status, error.param, error.code) == (400, "messages[2]", "c")


def test_a_path_that_is_no_unicode_is_answered() -> None:
    assert json.loads(errors.not_found("/\udcff").body())["error"]["status"] == 404
