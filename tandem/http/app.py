"""The Quart app: blueprints, limits, and every error as the JSON body OpenAI's clients read."""

from __future__ import annotations

import logging

from quart import Response, has_request_context, request, websocket
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from tandem.http.body import BODY_TIMEOUT_S
from tandem.http.context import CONTEXT_KEY, Context
from tandem.http.edge import Edge
from tandem.http.gate import Gate
from tandem.http.openai import errors
from tandem.http.openai.errors import ApiError
from tandem.http.paths import MatchedPath
from tandem.http.responses import refusal
from tandem.http.routes import (
    cache,
    chat,
    completions,
    conductor,
    dashboard,
    disk,
    docs,
    documents,
    health,
    live,
    logs,
    metrics,
    models,
    packages,
    plans,
    session,
    system,
    usage,
    watch,
)

__all__ = ["create_app"]

log = logging.getLogger(__name__)

ROOMS = (
    chat,
    completions,
    models,
    health,
    metrics,
    cache,
    docs,
    dashboard,
    session,
    live,
    usage,
    system,
    logs,
    conductor,
    documents,
    packages,
    disk,
    plans,
    watch,
)


def create_app(context: Context) -> QuartTrio:
    """The app of one service."""
    app = QuartTrio("tandem", static_folder=None)
    app.url_rule_class = MatchedPath
    app.config[CONTEXT_KEY] = context
    app.config["MAX_CONTENT_LENGTH"] = context.settings.max_body_mb * 1024 * 1024
    app.config["BODY_TIMEOUT"] = BODY_TIMEOUT_S
    app.config["RESPONSE_TIMEOUT"] = None
    for room in ROOMS:
        app.register_blueprint(room.blueprint)
    app.register_error_handler(ApiError, _refuse)
    app.register_error_handler(HTTPException, _refuse_http)
    app.register_error_handler(Exception, _fail)
    gate = Gate(app.asgi_app, context.access, lambda: context.wall.now().timestamp())
    app.asgi_app = Edge(gate, context.traffic, context.metrics.answered)  # type: ignore[method-assign]
    return app


async def _refuse(error: ApiError) -> Response:
    return refusal(error)


async def _refuse_http(error: HTTPException) -> Response:
    """What Quart and Werkzeug refuse on their own: routing, sizes, malformed requests."""
    match error:
        case NotFound():
            return refusal(errors.not_found((request if has_request_context() else websocket).path))
        case MethodNotAllowed():
            return refusal(errors.method_not_allowed(sorted(error.valid_methods or ())))
        case RequestEntityTooLarge():
            return refusal(errors.payload_too_large(request.max_content_length or 0))
        case _:
            return refusal(ApiError(error.code or 500, error.description or "the request was refused"))


async def _fail(error: Exception) -> Response:
    log.error("[http] a request failed", exc_info=error)
    return refusal(errors.internal())
