"""Which routes pages of other origins may read (HTTP API section 25)."""

from __future__ import annotations

import pytest

from tandem.http.access.cors import Sharing
from tandem.http.access.hosts import Origin

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
SHARED = [CHAT, "/v1/completions", MODELS, "/v1/models/TandemLLM"]
PUBLIC = ["/v1/library", "/v1/library/search", "/v1/laya", "/v1/laya/ask", "/s/abcdefghijkl/v1/laya/ask"]
PRIVATE = [
    "/",
    "/health",
    "/metrics",
    "/dashboard/",
    "/v1/dashboard/summary",
    "/v1/dashboard/session",
    "/v1/conductor/router",
    "/v1/cache/clear",
    "/v1/memory/x",
    "/v1/systemone",
    "/v1/libraryx",
    "/openapi.json",
]
PAGE = {"origin": "https://chat.example"}
LISTED = Sharing(origins=frozenset({Origin("https", "chat.example")}))
EVERYONE = Sharing(everyone=True)
STAR = {"Access-Control-Allow-Origin": "*"}


@pytest.mark.spec("API-211")
@pytest.mark.parametrize("path", [*SHARED, *PRIVATE])
def test_no_header_by_default(path: str) -> None:
    assert Sharing().headers(path, PAGE) == {}
    assert Sharing().preflight("OPTIONS", path, PAGE | {"access-control-request-method": "POST"}) is None


@pytest.mark.spec("API-211")
@pytest.mark.parametrize("path", PRIVATE)
def test_private_routes_never_have_one(path: str) -> None:
    for sharing in (EVERYONE, LISTED):
        assert sharing.headers(path, PAGE) == {}
        assert sharing.preflight("OPTIONS", path, PAGE | {"access-control-request-method": "POST"}) is None


@pytest.mark.spec("API-211")
@pytest.mark.parametrize("path", SHARED)
def test_listed_origins_may_read_the_model_routes(path: str) -> None:
    own = {"Access-Control-Allow-Origin": "https://chat.example", "Vary": "Origin"}
    assert LISTED.headers(path, PAGE) == own
    assert LISTED.headers(path, {}) == LISTED.headers(path, {"origin": "http://evil.example"}) == {"Vary": "Origin"}
    assert LISTED.headers(path, {"origin": "null"}) == {"Vary": "Origin"}
    assert EVERYONE.headers(path, {}) == EVERYONE.headers(path, {"origin": "null"}) == STAR


@pytest.mark.spec("API-210")
@pytest.mark.parametrize("path", PUBLIC)
def test_library_and_laya_are_for_every_page(path: str) -> None:
    for sharing in (Sharing(), LISTED, EVERYONE):
        assert sharing.headers(path, {}) == sharing.headers(path, {"origin": "null"}) == STAR
        permits = sharing.preflight("OPTIONS", path, {})
        assert permits is not None
        assert permits["Access-Control-Allow-Headers"] == "Content-Type, Authorization"
        assert permits["Access-Control-Allow-Methods"] == ("GET, POST" if "laya" in path else "GET")
        assert sharing.preflight("GET", path, {}) is None


@pytest.mark.spec("API-211")
def test_preflights() -> None:
    request = PAGE | {"access-control-request-method": "POST"}
    headers = "authorization,content-type,x-stainless-lang"
    permits = LISTED.preflight("OPTIONS", CHAT, request | {"access-control-request-headers": headers})
    assert permits == {
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Allow-Headers": headers,
        "Access-Control-Max-Age": "600",
    }
    usual = LISTED.preflight("OPTIONS", MODELS, request | {"access-control-request-headers": "\xff:"})
    assert usual is not None
    assert usual["Access-Control-Allow-Headers"] == "Content-Type, Authorization"
    assert usual["Access-Control-Allow-Methods"] == "GET"
    assert LISTED.preflight("OPTIONS", CHAT, request | {"origin": "http://evil.example"}) is None
    assert LISTED.preflight("OPTIONS", CHAT, PAGE) is None
    assert EVERYONE.preflight("OPTIONS", CHAT, request | {"origin": "null"}) is not None
