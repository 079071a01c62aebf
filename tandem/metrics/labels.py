"""Every value a label may have: small fixed sets, so nothing of a request can become one (OBS-035, OBS-038).

The sets are closed by `one_of`. A word that is not in its set would be a defect of ours; it is counted as the set's
last member instead of opening a series of its own.
"""

from __future__ import annotations

import re

__all__ = ["ERRORS", "FINISH_REASONS", "LANES", "REFUSALS", "ROUTES", "SUCCESSES", "one_of", "route_of"]

SUCCESSES = ("stop", "length", "tool_calls")
"""Finish reasons of a request that got its answer."""
FINISH_REASONS = (*SUCCESSES, "timeout", "abandoned", "refused", "error")
REFUSALS = ("draining", "queue_full", "queue_timeout", "memory")
"""Codes of a refusal for want of room (API-263). A rejection has none of them and is no refusal in this sense."""
ERRORS = ("server_error", "other")
LANES = ("decode", "prefill", "self")
"""Where a lane guest was served (SCH-046)."""
ROUTES = (
    "chat",
    "completions",
    "models",
    "health",
    "metrics",
    "cache",
    "dashboard",
    "conductor",
    "library",
    "laya",
    "systemone",
    "static",
    "other",
)
"""API-060."""

TABLE = tuple(
    (re.compile(pattern), route)
    for pattern, route in (
        (r"/v1/chat/completions", "chat"),
        (r"/v1/completions", "completions"),
        (r"/v1/models(/.*)?", "models"),
        (r"/health|/readyz", "health"),
        (r"/metrics(/up)?", "metrics"),
        (r"/v1/cache/.*", "cache"),
        (r"/v1/dashboard/.*", "dashboard"),
        (r"/v1/conductor/.*", "conductor"),
        (r"(/s/[^/]*)?/v1/library(/.*)?", "library"),
        (r"(/s/[^/]*)?/v1/laya(/.*)?", "laya"),
        (r"/v1/(systemone|predict)", "systemone"),
        (r"/|/dashboard(/.*)?|/docs|/openapi\.json", "static"),
    )
)
"""The first that matches the whole path."""


def route_of(path: str) -> str:
    """The `route` label of a request's path, which has no doubled and no trailing slashes."""
    return next((route for pattern, route in TABLE if pattern.fullmatch(path)), "other")


def one_of(known: tuple[str, ...], word: str | None) -> str:
    """`word` where it is known, else the last of what is."""
    return word if word in known else known[-1]
