"""Refusals as OpenAI's clients read them: one exception, one body shape, one constructor a known cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from tandem.engine.errors import BadInput

__all__ = [
    "ApiError",
    "body_timeout",
    "busy",
    "context_length_exceeded",
    "draining",
    "foreign_origin",
    "from_bad_input",
    "internal",
    "invalid",
    "live_off",
    "memory",
    "method_not_allowed",
    "misdirected",
    "model_not_found",
    "no_password",
    "not_found",
    "payload_too_large",
    "queue_full",
    "queue_timeout",
    "too_many_readers",
    "too_many_sign_ins",
    "unauthorized",
    "wrong_password",
]

TYPES: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found",
        405: "method_not_allowed",
        409: "conflict",
        429: "rate_limited",
        500: "server_error",
        503: "overloaded",
    }
)
"""Error types by status (API-024); a status not listed is the client's fault below 500, the server's from there."""

QUOTED = 200
"""Characters of a path or model id that a message repeats at most."""


class ApiError(Exception):
    """A refusal or failure with everything its response needs.

    `param` is the path of the field or header at fault, `code` the cause for machines; both None where there is none.
    `retry_after` is in whole seconds, `allow` the methods of a 405, `extra` further members of the error object. The
    message may quote a scalar parameter, never prompt or answer text (API-027).
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        type: str | None = None,
        retry_after: int | None = None,
        allow: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.type = type or TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.retry_after = retry_after
        self.allow = tuple(allow)
        self.extra = dict(extra or {})

    def members(self) -> dict[str, Any]:
        """The error object of API-023."""
        return {
            "message": _scrub(self.message),
            "type": self.type,
            "param": None if self.param is None else _scrub(self.param),
            "code": self.code,
            "status": self.status,
            **self.extra,
        }

    def stream_members(self) -> dict[str, Any]:
        """The same inside an open stream, where `retry_after` stands for the header (API-145)."""
        members = self.members()
        if self.retry_after is not None:
            members["retry_after"] = self.retry_after
        return members

    def body(self) -> bytes:
        """The response body."""
        return msgspec.json.encode({"error": self.members()})

    def headers(self) -> dict[str, str]:
        """`Retry-After` and `Allow` where they apply; a 401 names its scheme (API-012)."""
        headers = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.allow:
            headers["Allow"] = ", ".join(self.allow)
        return headers


def invalid(param: str | None, message: str) -> ApiError:
    """400: the field `param` cannot be served as sent."""
    return ApiError(400, message, param=param)


def from_bad_input(error: BadInput) -> ApiError:
    """400 for what template, tokenizer or engine checks found wrong with the client's input (API-025)."""
    return ApiError(400, str(error), param=error.param, code=error.code)


def context_length_exceeded(n_prompt: int, n_ctx: int, param: str = "messages") -> ApiError:
    """400: `n_prompt` client tokens do not fit a window of `n_ctx` (API-045). `param` is `messages` or `prompt`.

    The wording is OpenAI's: clients look for it to start their compaction.
    """
    return ApiError(
        400,
        f"This model's maximum context length is {n_ctx} tokens. However, your {param} resulted in {n_prompt} tokens. "
        f"Please reduce the length of the {param}.",
        param=param,
        code="context_length_exceeded",
        extra={"n_prompt_tokens": n_prompt, "n_ctx": n_ctx},
    )


def queue_full(retry_after: int = 5) -> ApiError:
    """503: no place is left in the queue (API-195)."""
    return ApiError(503, "the queue is full; try again shortly", code="queue_full", retry_after=retry_after)


def queue_timeout(retry_after: int = 10) -> ApiError:
    """429: the request has waited as long as it may (API-196, API-197)."""
    message = "the request waited too long in the queue; try again later"
    return ApiError(429, message, code="queue_timeout", retry_after=retry_after)


def draining(retry_after: int = 30) -> ApiError:
    """503: the server is shutting down and takes no new work (API-204)."""
    return ApiError(503, "the server is shutting down", code="draining", retry_after=retry_after)


def busy(retry_after: int = 30) -> ApiError:
    """503: a generation holds the engine for longer than this waits (API-063)."""
    return ApiError(503, "the model is at work; try again later", retry_after=retry_after)


def memory(retry_after: int = 10, *, to_read: bool = False) -> ApiError:
    """503: there is no memory for this request now (API-199, API-200, and the bodies in flight of API-004).

    `to_read`: none to read its prompt with, which may be so again.
    """
    message = "not enough memory for this request at the moment; try again shortly"
    if to_read:
        message += "; a shorter prompt needs less, and a higher --mem-peak-gib lets the server take more"
    return ApiError(503, message, code="memory", retry_after=retry_after)


def not_found(path: str) -> ApiError:
    """404: an unknown path."""
    return ApiError(404, f"no route {path[:QUOTED]}")


def no_conductor(path: str) -> ApiError:
    """404: a path that only a server with a conductor answers."""
    return ApiError(404, f"no route {path[:QUOTED]} without a conductor: start the server with --conductor-config DIR")


def method_not_allowed(allow: Sequence[str]) -> ApiError:
    """405: a known path with another method than those in `allow`."""
    return ApiError(405, f"this path answers {', '.join(allow)}", allow=allow)


def body_timeout(seconds: float) -> ApiError:
    """408: the body did not arrive in time."""
    return ApiError(408, f"the request body did not arrive within {seconds:.0f} s")


def payload_too_large(limit: int) -> ApiError:
    """413: the body is larger than `limit` bytes."""
    return ApiError(413, f"the request body is larger than {limit:,} bytes; --max-body-mb sets the limit")


def model_not_found(model: str) -> ApiError:
    """404: no card has this id (API-050)."""
    return ApiError(404, f"there is no model {model[:QUOTED]!r}", param="model", code="model_not_found")


def unauthorized(message: str) -> ApiError:
    """401: the caller has not shown what the route asks for (API-012, API-254)."""
    return ApiError(401, message, param="Authorization")


def foreign_origin(origin: str, cure: str) -> ApiError:
    """403: a page of another origin may not do this (API-015, API-253). `cure` says what would change that."""
    return ApiError(403, f"a page of the origin {origin[:QUOTED]!r} may not do this; {cure}", param="Origin")


def misdirected(host: str) -> ApiError:
    """421: the server does not go by this name (API-252)."""
    message = f"this server does not answer under the host {host[:QUOTED]!r}; --allowed-hosts takes further names"
    return ApiError(421, message, param="Host")


def no_password() -> ApiError:
    """404: there is nothing to sign in to (API-020)."""
    return ApiError(404, "no password is set, so nothing asks for a sign-in; TANDEM_ADMIN_TOKEN sets one")


def wrong_password() -> ApiError:
    """401: a sign-in with another token than the password (API-020)."""
    return ApiError(401, "this token is not the password", param="token")


def too_many_sign_ins(retry_after: int) -> ApiError:
    """429: sign-ins from this address have failed too often (API-020)."""
    return ApiError(429, "too many sign-ins have failed; try again later", retry_after=retry_after)


def too_many_readers(most: int, retry_after: int = 5) -> ApiError:
    """429: no place is left among the readers of a feed (API-247)."""
    return ApiError(429, f"{most} readers are as many as this feed takes; try again later", retry_after=retry_after)


def live_off() -> ApiError:
    """503: the live view has failed too often and stays off (SCH-006)."""
    return ApiError(503, "the live view has failed and stays off until the next start")


def internal() -> ApiError:
    """500: a fault on this side. The cause goes to the log, never to the client."""
    return ApiError(500, "the server failed on this request; the next one is served normally")


def _scrub(text: str) -> str:
    # A path of the URL may hold surrogates, which UTF-8 cannot carry.
    return text.encode("utf-8", "replace").decode("utf-8")
