"""Which class of caller a route takes: the table of section 3 of the HTTP API, by path and method.

It also covers routes that do not exist yet: a class is a matter of the path, so a new route is born with its guard.
"""

from __future__ import annotations

import enum
import re

__all__ = ["READS", "RouteClass", "classify", "is_completion", "normalise"]

READS = ("GET", "HEAD", "OPTIONS")
"""Every other method is a write."""


class RouteClass(enum.Enum):
    """Who may call a route (section 4)."""

    OPEN = "open"
    API = "api"
    """An open `/v1` route: open to all, or to those with the API key where one is set."""
    HEALTH = "health"
    METRICS = "metrics"
    DASHBOARD = "dashboard read"
    BEARER = "bearer"
    ADMIN = "admin"


OPEN, API, HEALTH, METRICS, DASHBOARD, BEARER, ADMIN = RouteClass

TABLE = tuple(
    (re.compile(pattern, re.DOTALL), read, write)
    for pattern, read, write in (
        (r"/health", HEALTH, HEALTH),
        (r"/metrics", METRICS, METRICS),
        (r"/v1/dashboard/session", OPEN, OPEN),
        (r"/v1/dashboard(/.*)?", DASHBOARD, ADMIN),
        (r"/v1/cache/clear", BEARER, BEARER),
        (r"/v1/cache(/.*)?", ADMIN, ADMIN),
        (r"/v1/(systemone|predict)(/.*)?", ADMIN, ADMIN),
        (r"(/s/[^/]*)?/v1/memory(/.*)?", ADMIN, ADMIN),
        (r"/v1/conductor/memory(/.*)?", ADMIN, ADMIN),
        (r"/v1/conductor/sessions/.+/export", ADMIN, ADMIN),  # holds hidden text
        (r"/v1/conductor/packages/tokens", DASHBOARD, DASHBOARD),  # a POST that writes nothing
        (r"/v1/conductor(/.*)?", DASHBOARD, ADMIN),
        (r"(/s/[^/]*)?/v1/.*", API, API),
        (r".*", OPEN, OPEN),
    )
)
"""Path, class of reads, class of writes; the first match counts. A path that no route has is open and ends as a 404."""

COMPLETIONS = ("/v1/chat/completions", "/v1/completions")


def classify(method: str, path: str) -> RouteClass:
    """The class of a request; `path` as `normalise` gives it."""
    return next(read if method in READS else write for pattern, read, write in TABLE if pattern.fullmatch(path))


def is_completion(method: str, path: str) -> bool:
    """Whether a request asks the model for something over the OpenAI routes."""
    return method == "POST" and path in COMPLETIONS


def normalise(path: str, root_path: str = "") -> str:
    """The path that routing will see at most: below the server's root, without doubled and trailing slashes.

    Routing may take fewer paths than this for the same route, never more.
    """
    if root_path:
        path = path.partition(root_path)[2] or path
    return "/" + re.sub("/{2,}", "/", path).strip("/")
