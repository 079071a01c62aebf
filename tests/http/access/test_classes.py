"""Every route of section 3 has its class."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.http.access.classes import RouteClass, classify, is_completion, normalise

OPEN, API, HEALTH, METRICS, DASHBOARD, BEARER, ADMIN = RouteClass

ROUTES = [
    ("POST", "/v1/chat/completions", API),
    ("POST", "/v1/completions", API),
    ("GET", "/v1/models", API),
    ("GET", "/v1/models/some/model", API),
    ("GET", "/health", HEALTH),
    ("GET", "/readyz", OPEN),
    ("GET", "/metrics", METRICS),
    ("GET", "/metrics/up", OPEN),
    ("GET", "/v1/cache/stats", ADMIN),
    ("POST", "/v1/cache/clear", BEARER),
    ("GET", "/", OPEN),
    ("GET", "/openapi.json", OPEN),
    ("GET", "/docs", OPEN),
    ("GET", "/dashboard", OPEN),
    ("GET", "/dashboard/app.js", OPEN),
    *(("GET", f"/v1/dashboard/{name}", DASHBOARD) for name in ("live", "summary", "usage", "logs", "metrics")),
    ("POST", "/v1/dashboard/summary", ADMIN),
    *((method, "/v1/dashboard/session", OPEN) for method in ("GET", "POST", "DELETE")),
    ("GET", "/v1/library", API),
    ("GET", "/v1/library/search", API),
    ("GET", "/v1/library/a-skill", API),
    ("GET", "/v1/laya", API),
    ("GET", "/v1/laya/kit/laya_drive.py", API),
    ("POST", "/v1/laya/ask", API),
    ("POST", "/v1/laya/drive/end", API),
    ("POST", "/v1/systemone", ADMIN),
    ("POST", "/v1/predict", ADMIN),
    ("GET", "/s/abcdefghijkl/v1/library", API),
    ("POST", "/s/abcdefghijkl/v1/laya/ask", API),
    ("GET", "/v1/conductor/events", DASHBOARD),
    ("GET", "/v1/conductor/router/versions", DASHBOARD),
    ("GET", "/v1/conductor/sessions/k", DASHBOARD),
    ("GET", "/v1/conductor/watch", DASHBOARD),
    ("GET", "/v1/conductor/sessions/k/export", ADMIN),
    ("GET", "/v1/conductor/sessions/a/b/export", ADMIN),
    ("PUT", "/v1/conductor/profiles/coding", ADMIN),
    ("POST", "/v1/conductor/router/restore", ADMIN),
    ("POST", "/v1/conductor/test", ADMIN),
    ("POST", "/v1/conductor/narrator/load", ADMIN),
    ("DELETE", "/v1/conductor/anything", ADMIN),
    ("GET", "/v1/conductor/packages/catalog", DASHBOARD),
    ("POST", "/v1/conductor/packages/tokens", DASHBOARD),
    ("GET", "/v1/conductor/memory/disk", ADMIN),
    ("POST", "/v1/conductor/memory/disk/clear", ADMIN),
    ("GET", "/v1/memory/notes", ADMIN),
    ("GET", "/s/abcdefghijkl/v1/memory/notes", ADMIN),
    ("GET", "/v1/nothing", API),
    ("GET", "/nothing", OPEN),
    ("GET", "/v1", OPEN),
    ("GET", "/V1/cache/stats", OPEN),
]


@pytest.mark.spec("API-237", "API-238")
@pytest.mark.parametrize(("method", "path", "route"), ROUTES)
def test_every_route_has_its_class(method: str, path: str, route: RouteClass) -> None:
    assert classify(method, path) is route
    if method == "GET":
        assert classify("HEAD", path) is classify("OPTIONS", path) is route


@given(st.sampled_from(["GET", "POST", "BREW"]), st.text())
def test_any_path_has_a_class(method: str, path: str) -> None:
    assert classify(method, normalise(path)) in RouteClass
    assert classify(method, "/v1/memory/" + path) is ADMIN


@pytest.mark.parametrize(
    ("path", "root_path", "normal"),
    [
        ("/v1/cache/clear", "", "/v1/cache/clear"),
        ("//v1///cache/clear/", "", "/v1/cache/clear"),
        ("v1/cache", "", "/v1/cache"),
        ("/", "", "/"),
        ("", "", "/"),
        (" ", "", "/ "),
        ("/api/v1/cache/stats", "/api", "/v1/cache/stats"),
        ("/x/api/v1/cache/stats", "/api", "/v1/cache/stats"),  # as Quart reads a websocket's path
        ("/v1/cache/stats", "/api", "/v1/cache/stats"),
    ],
)
def test_paths_are_seen_as_routing_may_see_them(path: str, root_path: str, normal: str) -> None:
    assert normalise(path, root_path) == normal


def test_completions_are_the_two_posts() -> None:
    assert is_completion("POST", "/v1/chat/completions")
    assert is_completion("POST", "/v1/completions")
    assert not is_completion("OPTIONS", "/v1/completions")
    assert not is_completion("POST", "/v1/laya/ask")
