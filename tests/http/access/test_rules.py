"""Access: class by credential, peer, password and origin (HTTP API section 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.config import SettingError, Settings
from tandem.http.access.hosts import Origin
from tandem.http.access.rules import PROXY_HEADERS, Access, Asked
from tandem.http.access.signin import COOKIE, Tickets
from tandem.http.openai.errors import ApiError
from tandem.secrets import Secrets
from tests.http.access.asking import (
    API_KEY,
    LOCAL,
    METRICS_TOKEN,
    NOW,
    PASSWORD,
    REMOTE,
    access,
    asked,
    bearer,
)

SESSION = {"cookie": f"a=b; {COOKIE}={Tickets(PASSWORD, 100.0).issue(NOW).cookie}"}
CREDENTIALS: dict[str, dict[str, str]] = {
    "nothing": {},
    "wrong": bearer("x" * 40),
    "password": bearer(PASSWORD),
    "api key": bearer(API_KEY),
    "metrics token": bearer(METRICS_TOKEN),
    "session": SESSION,
    "basic": {"authorization": f"Basic {PASSWORD}"},
}
ROUTES = {
    "open": ("GET", "/readyz"),
    "api": ("GET", "/v1/models"),
    "completion": ("POST", "/v1/chat/completions"),
    "health": ("GET", "/health"),
    "metrics": ("GET", "/metrics"),
    "dashboard": ("GET", "/v1/dashboard/summary"),
    "session": ("POST", "/v1/dashboard/session"),
    "admin read": ("GET", "/v1/cache/stats"),
    "admin write": ("PUT", "/v1/conductor/router"),
    "bearer": ("POST", "/v1/cache/clear"),
}
EVERYBODY = frozenset(CREDENTIALS)


def status(rules: Access, request: Asked) -> int:
    refused = rules.refusal(request)
    return 200 if refused is None else refused.status


def admitted(rules: Access, route: str, peer: str | None = REMOTE) -> set[str]:
    """The credentials with which a route opens; every other gets a 401."""
    method, path = ROUTES[route]
    statuses = {name: status(rules, asked(path, method, given, peer=peer)) for name, given in CREDENTIALS.items()}
    assert set(statuses.values()) <= {200, 401}
    return {name for name, found in statuses.items() if found == 200}


@pytest.mark.spec("API-010", "API-019", "API-006")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("login", [True, False])
def test_without_a_password_every_route_is_open(route: str, login: bool) -> None:
    assert admitted(access(password=False, dashboard_login=login), route) == EVERYBODY


ADMIN = {"password", "session"}


@pytest.mark.spec("API-012", "API-013", "API-017", "API-018", "API-019", "API-022")
@pytest.mark.parametrize(
    ("route", "takes"),
    [
        ("open", EVERYBODY),
        ("api", EVERYBODY),
        ("completion", EVERYBODY),
        ("health", EVERYBODY),
        ("session", EVERYBODY),
        ("metrics", ADMIN),
        ("dashboard", EVERYBODY),
        ("admin read", ADMIN),
        ("admin write", ADMIN),
        ("bearer", {"password"}),
    ],
)
@pytest.mark.parametrize("peer", [REMOTE, None, ""])
def test_with_a_password(route: str, takes: set[str], peer: str | None) -> None:
    assert admitted(access(), route, peer) == takes


@pytest.mark.spec("API-019")
def test_the_login_closes_the_dashboard() -> None:
    assert admitted(access(dashboard_login=True), "dashboard") == ADMIN


@pytest.mark.spec("API-018")
@pytest.mark.parametrize("password", [True, False])
def test_the_metrics_token_closes_metrics_and_opens_nothing_else(password: bool) -> None:
    rules = access(password=password, metrics=True)
    assert admitted(rules, "metrics") == ({"metrics token", *ADMIN} if password else {"metrics token"})
    assert admitted(rules, "admin read") == (ADMIN if password else EVERYBODY)
    assert admitted(rules, "metrics", LOCAL) == EVERYBODY


@pytest.mark.spec("API-017", "API-010")
def test_who_reads_all_of_health() -> None:
    def full(rules: Access, peer: str = REMOTE) -> set[str]:
        return {
            name
            for name, given in CREDENTIALS.items()
            if rules.may_read_health(asked("/health", "GET", given, peer=peer))
        }

    assert full(access(password=False)) == full(access(password=False, metrics=True)) == EVERYBODY
    assert full(access()) == ADMIN
    assert full(access(metrics=True)) == {"metrics token", *ADMIN}
    assert full(access(), LOCAL) == EVERYBODY


@pytest.mark.spec("API-014")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_needs_no_token(route: str, peer: str) -> None:
    rules = access(metrics=True, dashboard_login=True)
    assert admitted(rules, route, peer) == EVERYBODY


@pytest.mark.spec("API-014")
@pytest.mark.parametrize("header", PROXY_HEADERS)
@pytest.mark.parametrize("value", ["", "127.0.0.1"])
def test_a_proxy_on_the_box_makes_nobody_local(header: str, value: str) -> None:
    rules = access(dashboard_login=True, api_key=True, key_on_loopback=False)
    for route in ("admin read", "admin write", "bearer", "metrics", "dashboard", "api"):
        method, path = ROUTES[route]
        assert status(rules, asked(path, method, {header: value}, peer=LOCAL)) == 401
        assert status(rules, asked(path, method, peer=LOCAL)) == 200


@pytest.mark.spec("API-254", "API-006")
@pytest.mark.parametrize("password", [True, False])
@pytest.mark.parametrize("peer", [REMOTE, LOCAL])
def test_the_api_key_closes_the_open_v1_routes(password: bool, peer: str) -> None:
    rules = access(password=password, api_key=True)
    key = {"api key", "password"} if password else {"api key"}
    assert admitted(rules, "api", peer) == admitted(rules, "completion", peer) == key
    for path in ("/v1/library/x", "/s/abcdefghijkl/v1/laya", "/v1/nothing"):
        assert status(rules, asked(path, peer=peer)) == 401
        assert status(rules, asked(path, headers=bearer(API_KEY), peer=peer)) == 200
    for route in ("open", "health", "session"):
        assert admitted(rules, route, peer) == EVERYBODY
    assert status(rules, asked("/v1/chat/completions", "OPTIONS", peer=peer)) == 200


@pytest.mark.spec("API-254")
def test_loopback_may_be_spared_the_api_key() -> None:
    rules = access(api_key=True, key_on_loopback=False)
    assert admitted(rules, "completion", LOCAL) == EVERYBODY
    assert admitted(rules, "completion") == {"api key", "password"}


@pytest.mark.spec("API-012", "API-254", "API-024")
@pytest.mark.parametrize("path", ["/v1/models", "/v1/cache/stats", "/metrics"])
def test_a_401_names_its_scheme(path: str) -> None:
    refused = access(api_key=True, metrics=True).refusal(asked(path))
    assert refused is not None
    assert refused.headers() == {"WWW-Authenticate": "Bearer"}
    assert (refused.type, refused.param, refused.code) == ("authentication_error", "Authorization", None)


OWN = {"origin": "http://localhost:8000"}
FOREIGN = ["http://evil.example", "http://localhost:3000", "null", "", "http://localhost:8000, http://evil.example"]


@pytest.mark.spec("API-015")
@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("password", [True, False])
@pytest.mark.parametrize("peer", [REMOTE, LOCAL])
def test_a_foreign_page_cannot_write(origin: str, password: bool, peer: str) -> None:
    rules = access(password=password)
    for route in ("admin write", "bearer"):
        method, path = ROUTES[route]
        foreign = {"origin": origin, **SESSION}
        refused = rules.refusal(asked(path, method, foreign, peer=peer))
        assert refused is not None
        assert (refused.status, refused.type, refused.param) == (403, "permission_error", "Origin")
        assert status(rules, asked(path, method, foreign | bearer(PASSWORD), peer=peer)) == 200
    assert status(rules, asked("/v1/cache/stats", headers={"origin": origin, **SESSION}, peer=peer)) == 200


@pytest.mark.spec("API-015")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        OWN,
        {"origin": "https://box.example", "x-forwarded-host": "box.example"},
        {"origin": "https://box.example:8443", "x-forwarded-host": "BOX.example:8443, inner"},
    ],
)
def test_the_servers_own_page_can_write(headers: dict[str, str]) -> None:
    assert status(access(), asked("/v1/conductor/router", "PUT", headers | SESSION)) == 200
    assert status(access(password=False), asked("/v1/cache/clear", "POST", headers)) == 200


@pytest.mark.spec("API-253")
def test_a_foreign_page_cannot_ask_the_model() -> None:
    chat = "/v1/chat/completions"
    for origin in FOREIGN:
        for more in ({}, bearer(PASSWORD)):
            refused = access().refusal(asked(chat, "POST", {"origin": origin, **more}, peer=LOCAL))
            assert refused is not None
            assert (refused.status, refused.param) == (403, "Origin")
            assert "--cors-origins" in refused.message
    listed = Access.from_settings(Settings(cors_origins=("https://chat.example",)), Secrets())
    for origin, found in [
        ("https://chat.example", 200),
        ("https://CHAT.example:443", 200),
        ("http://chat.example", 403),
    ]:
        assert status(listed, asked(chat, "POST", {"origin": origin})) == found
        assert status(listed, asked("/v1/completions", "POST", {"origin": origin})) == found
    everyone = Access.from_settings(Settings(cors_origins=("*",)), Secrets())
    assert {status(everyone, asked(chat, "POST", {"origin": origin})) for origin in FOREIGN} == {200}
    assert status(access(), asked(chat, "POST", OWN)) == 200
    assert status(access(), asked("/v1/models", "GET", {"origin": "http://evil.example"})) == 200


@pytest.mark.spec("API-247", "API-015")
def test_a_websocket_of_a_foreign_page_is_refused() -> None:
    def upgrade(**headers: str) -> int:
        return status(access(password=False), asked("/v1/dashboard/live", "GET", headers, is_websocket=True))

    assert upgrade(origin="http://evil.example") == upgrade(origin="null") == 403
    assert upgrade() == upgrade(origin="http://localhost:8000") == 200


@pytest.mark.spec("API-252", "API-024")
@pytest.mark.parametrize("path", ["/", "/health", "/v1/chat/completions", "/v1/cache/clear", "/dashboard/", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_another_host_is_a_421_on_every_route(path: str, method: str) -> None:
    rules = access(password=False)
    for peer in (LOCAL, REMOTE):
        headers = {"host": "evil.example:8000", "origin": "http://evil.example:8000", **bearer(PASSWORD)}
        refused = rules.refusal(asked(path, method, headers, peer=peer))
        assert refused is not None
        assert (refused.status, refused.type, refused.param) == (421, "invalid_request_error", "Host")
        assert "--allowed-hosts" in refused.message
        assert "evil.example" in refused.message


@pytest.mark.spec("API-252")
@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("localhost", 200),
        ("LOCALHOST.:1", 200),
        ("127.0.0.1:8000", 200),
        ("203.0.113.9", 200),
        ("[2001:db8::1]:8000", 200),
        ("box", 200),
        ("box.local:8000", 200),
        ("tandem.example", 200),
        ("proxy.example:9000", 200),
        (None, 200),  # HTTP/1.0
        ("", 421),
        ("other", 421),
        ("box.local.evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example#localhost", 421),
        ("127.0.0.1, evil.example", 421),
        ("::1", 421),
    ],
)
def test_hosts(host: str | None, found: int) -> None:
    settings = Settings(allowed_hosts=("Tandem.Example",), url="https://proxy.example:8443/base")
    rules = Access.from_settings(settings, Secrets(), {"box", "box.local"})
    assert status(rules, asked("/health", "GET", {"host": host})) == found
    assert status(rules, asked("/health", "GET", {"host": host, "x-forwarded-host": "evil.example"})) == found


@pytest.mark.spec("API-252", "API-008")
@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (Settings(allowed_hosts=("https://box.example",)), "--allowed-hosts"),
        (Settings(allowed_hosts=("*",)), "--allowed-hosts"),
        (Settings(url="box.example:8000"), "--url"),
        (Settings(url="https://"), "--url"),
        (Settings(url="http://[::1"), "--url"),
        (Settings(cors_origins=("chat.example",)), "--cors-origins"),
        (Settings(cors_origins=("https://chat.example/page",)), "--cors-origins"),
        (Settings(cors_origins=("null",)), "--cors-origins"),
    ],
)
def test_lists_are_checked_at_the_start(settings: Settings, flag: str) -> None:
    with pytest.raises(SettingError, match=f"^{flag}: "):
        Access.from_settings(settings, Secrets())


def test_lists_are_read() -> None:
    rules = Access.from_settings(Settings(cors_origins=("https://a.example/", "*", "app://obsidian.md")), Secrets())
    assert rules.sharing.everyone
    assert rules.sharing.origins == {Origin("https", "a.example"), Origin("app", "obsidian.md")}


LATIN_1 = st.text(st.characters(max_codepoint=255), max_size=30)
HEADERS = ["host", "origin", "x-forwarded-host", "authorization", "cookie", "access-control-request-method"]


@given(
    st.dictionaries(st.sampled_from(HEADERS), LATIN_1 | LATIN_1.map(lambda text: f"Bearer {text}; {COOKIE}={text}")),
    st.sampled_from(list(ROUTES.values())),
    st.none() | LATIN_1,
)
def test_any_headers_are_decided_on(headers: dict[str, str], route: tuple[str, str], peer: str | None) -> None:
    rules = Access(Secrets(PASSWORD, API_KEY, METRICS_TOKEN), dashboard_login=True)
    request = asked(route[1], route[0], headers, peer=peer)
    refused = rules.refusal(request)
    assert refused is None or refused.status in (401, 403, 421)
    if refused is None and not request.is_local:  # nobody guesses a token
        assert route[1] in ("/readyz", "/health", "/v1/dashboard/session")
    rules.sharing.headers(route[1], headers)


@pytest.mark.spec("API-016")
@pytest.mark.parametrize(
    "token", ["pässwört", "\xff\xfe", "", " ", "\u20ac", "x" * 100_000, PASSWORD[:-1], PASSWORD + "x"]
)
def test_odd_tokens_are_wrong_tokens(token: str) -> None:
    assert status(access(api_key=True), asked("/v1/cache/stats", "GET", bearer(token))) == 401
    assert status(access(api_key=True), asked("/v1/models", "GET", bearer(token))) == 401
    assert access().sign_in(token, NOW) is None
    assert access().sign_in("\ud800", NOW) is None


@pytest.mark.spec("API-016")
def test_a_password_need_not_be_ascii() -> None:
    password = "pässwört-" * 4
    rules = Access(Secrets(admin_token=password))
    on_the_wire = password.encode().decode("latin-1")
    assert status(rules, asked("/v1/cache/stats", "GET", bearer(on_the_wire))) == 200
    assert status(rules, asked("/v1/cache/stats", "GET", {"authorization": f"bEARER   {on_the_wire} "})) == 200
    assert rules.sign_in(password, NOW) is not None


@pytest.mark.spec("API-016")
def test_tokens_are_in_no_repr_and_no_error() -> None:
    rules = access(api_key=True, metrics=True)
    held = [rules, rules._secrets, rules._tickets, rules.sign_in(PASSWORD, NOW)]
    refusals = [
        rules.refusal(asked(path, "GET", bearer("SECRETS" + PASSWORD)))
        for path in ("/v1/models", "/metrics", "/v1/cache")
    ]
    assert all(isinstance(each, ApiError) and b"SECRETS" not in each.body() for each in refusals)
    assert "SECRETS" not in repr(held) + repr(refusals)
    assert repr(rules._secrets) == "Secrets(admin_token=set, api_key=set, metrics_token=set)"
