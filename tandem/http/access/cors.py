"""Which pages of other origins may read which routes (API-210, API-211)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tandem.http.access.hosts import Origin, parse_origin

__all__ = ["Sharing"]

PUBLIC = re.compile(r"(/s/[^/]*)?/v1/(?P<what>library|laya)(/.*)?", re.DOTALL)
"""Routes that a page of any origin may use, since a page that the model builds calls them."""
LISTED = re.compile(r"/v1/(?P<what>chat/completions|completions|models)(/.*)?", re.DOTALL)
"""Routes that the pages of `--cors-origins` may use."""
METHODS = {
    "library": "GET",
    "laya": "GET, POST",
    "models": "GET",
    "chat/completions": "POST",
    "completions": "POST",
}
HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}")
USUAL_HEADERS = "Content-Type, Authorization"
PREFLIGHT_AGE_S = 600


@dataclass(frozen=True, slots=True)
class Sharing:
    """`--cors-origins`."""

    everyone: bool = False
    origins: frozenset[Origin] = frozenset()

    def allows(self, origin: str) -> bool:
        """Whether the origin of an `Origin` header is listed."""
        return self.everyone or parse_origin(origin) in self.origins

    def headers(self, path: str, request: Mapping[str, str]) -> dict[str, str]:
        """What a response of `path` carries, whatever its status; empty where the route is not shared."""
        if PUBLIC.fullmatch(path):
            return {"Access-Control-Allow-Origin": "*"}
        if not LISTED.fullmatch(path) or not (self.everyone or self.origins):
            return {}
        if self.everyone:
            return {"Access-Control-Allow-Origin": "*"}
        origin = request.get("origin")
        if origin is None or not self.allows(origin):
            return {"Vary": "Origin"}
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    def preflight(self, method: str, path: str, request: Mapping[str, str]) -> dict[str, str] | None:
        """The further headers of the 204 for a preflight; None for what is none, or is answered with a refusal."""
        if method != "OPTIONS":
            return None
        if match := PUBLIC.fullmatch(path):
            return _permits(METHODS[match["what"]], USUAL_HEADERS)
        match = LISTED.fullmatch(path)
        is_preflight = "access-control-request-method" in request and "origin" in request
        if match is None or not is_preflight or not self.allows(request["origin"]):
            return None
        # A client may send headers of its own (X-Stainless-*, X-Session-Id); none of them is dangerous here.
        wanted = request.get("access-control-request-headers", "")
        return _permits(METHODS[match["what"]], wanted if HEADER_NAMES.fullmatch(wanted) else USUAL_HEADERS)


def _permits(methods: str, headers: str) -> dict[str, str]:
    return {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": headers,
        "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
    }
