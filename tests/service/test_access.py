"""Access through the whole service: bodies and headers of refusals, sign-in, CORS (HTTP API sections 4 and 25)."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.http.access.rules import Access
from tandem.http.access.signin import COOKIE
from tandem.http.edge import Edge
from tandem.http.gate import Gate
from tandem.secrets import Secrets
from tests.service.harness import Call, Client, Harness, chat, open_harness

CHAT, MODELS, SESSION = "/v1/chat/completions", "/v1/models", "/v1/dashboard/session"
PASSWORD = "correct horse battery staple SECRETS"
KEY = "sk-SECRETS"
SECRETS = Secrets(admin_token=PASSWORD, api_key=KEY, metrics_token="mt-SECRETS")
REMOTE = "192.0.2.7"
PAGE = "https://chat.example"
EVIL = "http://evil.example"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def assert_error(call: Call, status: int, kind: str, param: str | None) -> None:
    assert call.status == status
    assert call.headers["content-type"] == "application/json"
    assert int(call.headers["content-length"]) == len(call.body)
    error = call.json["error"]
    assert list(error) == ["message", "type", "param", "code", "status"]
    assert (error["type"], error["param"], error["code"], error["status"]) == (kind, param, None, status)


@pytest.mark.spec("API-252", "API-023")
@pytest.mark.parametrize("path", [CHAT, MODELS, "/health", "/nothing", SESSION, "/v1/cache/clear", "/v1/library"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_dns_rebinding_is_a_421(autojump_clock: trio.testing.MockClock, path: str, method: str) -> None:
    """A page of evil.example, whose name has been pointed at 127.0.0.1, has the peer and the origin of a local one."""
    async with open_harness() as harness:
        headers = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
        call = await harness.client.send(path, chat("hi"), method=method, headers=headers)
        assert_error(call, 421, "invalid_request_error", "Host")
        assert "--allowed-hosts" in call.json["error"]["message"]
        assert not harness.engine.calls


@pytest.mark.spec("API-252")
async def test_the_service_goes_by_its_names(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(allowed_hosts=("llm.example",), url="https://proxy.example/tandem") as harness:
        for host in ("localhost", "tandem-box", "LLM.example:1", "proxy.example", "[::1]:8000", "192.0.2.1", None):
            assert (await harness.client.send("/health", headers={"host": host})).status == 200, host


@pytest.mark.spec("API-254", "API-012", "API-023", "API-024")
@pytest.mark.parametrize("stream", [True, False])
async def test_the_api_key(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness(secrets=Secrets(api_key=KEY)) as harness:
        for more in ({}, {"peer": REMOTE}):
            refused = await harness.client.send(CHAT, chat("hi", stream=stream), headers=bearer("wrong"), **more)
            assert_error(refused, 401, "authentication_error", "Authorization")
            assert refused.headers["www-authenticate"] == "Bearer"
            served = await harness.client.send(CHAT, chat({"say": "yes"}, stream=stream), headers=bearer(KEY), **more)
            assert (served.status, served.text) == (200, "yes")
        for path in ("/health", SESSION):
            assert (await harness.client.send(path, peer=REMOTE)).status == 200
        assert (await harness.client.send("/v1/nothing", peer=REMOTE)).status == 401
        assert (await harness.client.send("/nothing", peer=REMOTE)).status == 404
        await harness.look()
        assert len(harness.outcomes) == 2  # who is refused at the gate has no row
    async with open_harness(secrets=SECRETS, api_key_loopback=False) as harness:
        assert (await harness.client.send(MODELS)).status == 200
        assert (await harness.client.send(MODELS, headers={"x-forwarded-for": REMOTE})).status == 401
        assert (await harness.client.send(MODELS, headers=bearer(PASSWORD), peer=REMOTE)).status == 200


@pytest.mark.spec("API-012", "API-013", "API-014", "API-015", "API-018")
async def test_guarded_paths_are_guarded_before_there_are_routes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=SECRETS) as harness:
        for path in ("/v1/cache/clear", "/v1/conductor/nothing", "/v1/memory/x", "//v1/cache//clear", "/v1/systemone"):
            refused = await harness.client.send(path, {}, peer=REMOTE)
            assert_error(refused, 401, "authentication_error", "Authorization")
            foreign = await harness.client.send(path, {}, headers={"origin": EVIL})
            assert_error(foreign, 403, "permission_error", "Origin")
            proxied = await harness.client.send(path, {}, headers={"via": "1.1 box"})
            assert proxied.status == 401
            for more in ({}, {"peer": REMOTE, "headers": bearer(PASSWORD)}):
                served = await harness.client.send(path, {}, **more)
                assert served.status in ((200,) if path == "/v1/cache/clear" else (308, 404))
        assert (await harness.client.send("/metrics", peer=REMOTE)).status == 401


@pytest.mark.spec("API-253")
async def test_a_foreign_page_cannot_ask_the_model(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        refused = await harness.client.send(CHAT, chat("hi"), headers={"origin": EVIL})
        assert_error(refused, 403, "permission_error", "Origin")
        assert "--cors-origins" in refused.json["error"]["message"]
        own = await harness.client.send(CHAT, chat("hi"), headers={"origin": "http://127.0.0.1:8000"})
        assert own.status == 200
        assert not [name for call in (refused, own) for name in call.headers if name.startswith("access-control")]


@pytest.mark.spec("API-017", "API-053", "OBS-102")
async def test_health_is_short_for_strangers(autojump_clock: trio.testing.MockClock) -> None:
    schema = json.loads((Path(tandem.__file__).parent / "contract" / "health.schema.json").read_text())
    async with open_harness(secrets=SECRETS) as harness:
        short = await harness.client.send("/health", peer=REMOTE)
        assert (short.status, short.json) == (200, {"status": "ok", "model": "TandemLLM"})
        wrong = await harness.client.send("/health", peer=REMOTE, headers=bearer(KEY))
        assert wrong.json == short.json
        for more in (
            {},
            {"peer": REMOTE, "headers": bearer(PASSWORD)},
            {"peer": REMOTE, "headers": bearer("mt-SECRETS")},
        ):
            jsonschema.validate((await harness.client.send("/health", **more)).json, schema)
    async with open_harness() as harness:
        jsonschema.validate((await harness.client.send("/health", peer=REMOTE)).json, schema)


async def sign_in(harness: Harness, token: Any = PASSWORD, **more: Any) -> Call:
    return await harness.client.send(SESSION, {"token": token}, **{"peer": REMOTE, **more})


@pytest.mark.spec("API-020", "API-021", "API-242", "API-241", "API-012", "API-013", "OBS-077")
async def test_a_session(autojump_clock: trio.testing.MockClock) -> None:
    schema = json.loads((Path(tandem.__file__).parent / "contract" / "session.schema.json").read_text())
    async with open_harness(secrets=SECRETS, session_s=100, dashboard_login=True) as harness:
        send = harness.client.send
        before = await send(SESSION, peer=REMOTE)
        assert before.json == {"password_set": True, "login": True, "session_ends": None}
        started = harness.service.context.wall.now().timestamp()
        signed = await sign_in(harness)
        assert signed.status == 200
        assert signed.headers["cache-control"] == "no-store"
        assert signed.json["session_ends"] == started + 100
        cookie = SimpleCookie(signed.headers["set-cookie"])[COOKIE]
        assert (cookie["httponly"], cookie["samesite"], cookie["secure"]) == (True, "Strict", "")
        assert (cookie["max-age"], cookie["path"]) == ("100", "/")
        session = {"cookie": f"{COOKIE}={cookie.value}"}
        state = await send(SESSION, headers=session, peer=REMOTE)
        assert state.json == signed.json
        for body in (before.json, signed.json):
            jsonschema.validate(body, schema)
        for path in ("/v1/dashboard/summary", "/v1/cache/stats", "/v1/conductor/memory/disk", "/metrics"):
            assert (await send(path, headers=session, peer=REMOTE)).status in (200, 404), path
            assert (await send(path, peer=REMOTE)).status == 401, path
        own = session | {"origin": "http://127.0.0.1:8000"}
        assert (await send("/v1/conductor/nothing", {}, headers=own, peer=REMOTE)).status == 404
        assert (await send("/v1/conductor/router", {}, headers=session | {"origin": EVIL}, peer=REMOTE)).status == 403
        assert (await send("/v1/cache/clear", {}, headers=own, peer=REMOTE)).status == 401
        assert (await send(MODELS, headers=session, peer=REMOTE)).status == 401
        await trio.sleep(100)
        assert (await send("/v1/cache/stats", headers=session, peer=REMOTE)).status == 401
        assert (await send(SESSION, headers=session, peer=REMOTE)).json == before.json


@pytest.mark.spec("API-021")
async def test_the_cookie_is_secure_over_https(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=SECRETS) as harness:
        for more in ({"scheme": "https"}, {"headers": {"x-forwarded-proto": "HTTPS, http"}}):
            assert "; Secure" in (await sign_in(harness, **more)).headers["set-cookie"]
        assert "Secure" not in (await sign_in(harness, headers={"x-forwarded-proto": "http"})).headers["set-cookie"]


@pytest.mark.spec("API-020")
async def test_signing_out_clears_the_cookie(autojump_clock: trio.testing.MockClock) -> None:
    for secrets in (SECRETS, None):
        async with open_harness(secrets=secrets) as harness:
            call = await harness.client.send(SESSION, method="DELETE", peer=REMOTE)
            assert call.status == 200
            cookie = SimpleCookie(call.headers["set-cookie"])[COOKIE]
            assert (cookie.value, cookie["max-age"], cookie["httponly"]) == ("", "0", True)
            assert call.json == {"password_set": secrets is not None, "login": False, "session_ends": None}


@pytest.mark.spec("API-020", "API-016", "OBS-077")
async def test_failed_sign_ins(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=SECRETS) as harness:
        for _ in range(5):
            refused = await sign_in(harness, "wrong")
            assert_error(refused, 401, "authentication_error", "token")
            assert "set-cookie" not in refused.headers
        await trio.sleep(20)
        limited = await sign_in(harness)
        assert_error(limited, 429, "rate_limited", None)
        assert limited.headers["retry-after"] == "40"
        assert (await sign_in(harness, peer="192.0.2.8")).status == 200
        await trio.sleep(40)
        assert (await sign_in(harness)).status == 200


@pytest.mark.spec("API-020")
async def test_sign_ins_that_are_none(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=SECRETS) as harness:
        for body in (b"", b"[]", b'{"token": 1}', b"{}", b'{"token": null}'):
            call = await harness.client.send(SESSION, body, method="POST", peer=REMOTE)
            assert call.status == 400, body
        assert (await harness.client.send(SESSION, b'{"token": "\\ud800"}', method="POST")).status == 401
        assert (await harness.client.send(SESSION, {}, method="PUT")).status == 405
    async with open_harness() as harness:
        assert_error(await sign_in(harness), 404, "not_found", None)
        assert (await harness.client.send(SESSION)).json == {
            "password_set": False,
            "login": False,
            "session_ends": None,
        }


@pytest.mark.spec("API-016", "API-207")
async def test_no_token_is_logged_or_answered(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with open_harness(secrets=SECRETS) as harness:
        calls = [
            await harness.client.send(path, headers=bearer(token), peer=REMOTE)
            for token in (PASSWORD, KEY, "mt-SECRETS", "wrong SECRETS")
            for path in (MODELS, "/health", "/metrics", "/v1/cache/stats", "/nothing", SESSION)
        ]
        calls += [await sign_in(harness, token) for token in (PASSWORD, "wrong SECRETS")]
        assert all(b"SECRETS" not in call.body + repr(call.headers).encode() for call in calls)
        assert "SECRETS" not in repr(harness.service.context)
    assert "[access] a sign-in failed" in caplog.text
    assert "SECRETS" not in caplog.text
    assert REMOTE not in caplog.text


@pytest.mark.spec("API-211")
async def test_listed_origins_read_streams_and_errors(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=Secrets(api_key=KEY), cors_origins=(PAGE,)) as harness:
        page = {"origin": PAGE, **bearer(KEY)}
        calls = [
            await harness.client.send(CHAT, chat({"say": "a b"}, stream=True), headers=page),
            await harness.client.send(CHAT, chat({"say": "a b"}), headers=page),
            await harness.client.send(CHAT, chat("x", temperature=9), headers=page),
            await harness.client.send(CHAT, chat({"fail_at": 0}), headers=page),
            await harness.client.send(CHAT, chat("x"), headers={"origin": PAGE}),
            await harness.client.send(CHAT, headers=page),
            await harness.client.send(MODELS, headers=page),
            await harness.client.send("/v1/models/none", headers=page),
        ]
        assert [call.status for call in calls] == [200, 200, 400, 500, 401, 405, 200, 404]
        for call in calls:
            assert call.headers["access-control-allow-origin"] == PAGE
            assert call.headers["vary"] == "Origin"
        assert calls[0].text == "a b"
        stranger = await harness.client.send(MODELS, headers=bearer(KEY))
        assert stranger.headers["vary"] == "Origin"
        for call in (stranger, await harness.client.send("/health", headers=page), await sign_in(harness)):
            assert "access-control-allow-origin" not in call.headers


@pytest.mark.spec("API-254", "API-211")
async def test_a_preflight_passes_before_the_key_is_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with open_harness(secrets=SECRETS, cors_origins=(PAGE,)) as harness:
        call = await harness.client.send(CHAT, method="OPTIONS", headers={"origin": PAGE, **wanted}, peer=REMOTE)
        assert (call.status, call.body) == (204, b"")
        assert call.headers["access-control-allow-origin"] == PAGE
        assert call.headers["access-control-allow-methods"] == "POST"
        assert call.headers["access-control-allow-headers"] == "authorization"
        foreign = await harness.client.send(CHAT, method="OPTIONS", headers={"origin": EVIL, **wanted}, peer=REMOTE)
        assert foreign.status == 200
        assert "access-control-allow-origin" not in foreign.headers
    async with open_harness(cors_origins=("*",)) as harness:
        call = await harness.client.send(CHAT, method="OPTIONS", headers={"origin": EVIL, **wanted})
        assert (call.status, call.headers["access-control-allow-origin"]) == (204, "*")
        served = await harness.client.send(CHAT, chat("hi"), headers={"origin": EVIL})
        assert (served.status, served.headers["access-control-allow-origin"]) == (200, "*")


@pytest.mark.spec("API-210", "API-211")
async def test_pages_may_call_library_and_laya(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=Secrets(api_key=KEY)) as harness:
        for path in ("/v1/library/search", "/v1/laya/ask", "/s/abcdefghijkl/v1/laya/ask"):
            preflight = await harness.client.send(path, method="OPTIONS", headers={"origin": "null"}, peer=REMOTE)
            assert preflight.status == 204
            assert preflight.headers["access-control-allow-origin"] == "*"
            assert preflight.headers["access-control-allow-headers"] == "Content-Type, Authorization"
            refused = await harness.client.send(path, {}, headers={"origin": "null"}, peer=REMOTE)
            assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, "*")


@pytest.mark.parametrize(("pieces", "start_s", "end_s"), [(1, 1, 1), (4, 4, 4), (8, 5, 8)])
async def test_a_refused_upload_is_dropped_and_reaches_no_route(
    autojump_clock: trio.testing.MockClock, pieces: int, start_s: float, end_s: float
) -> None:
    """Its sender gets the 401 and not a reset, and the connection stays of use."""
    received: list[str] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append("app")

    async def receive() -> Any:
        await trio.sleep(1)
        received.append("piece")
        return {"type": "http.request", "body": b"x" * 1000, "more_body": len(received) < pieces}

    async def send(message: Any) -> None:
        sent.append((message["type"], trio.current_time()))

    tokens = [(b"authorization", b"Bearer " + token) for token in (b"\xff", KEY.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": CHAT,
        "headers": [(b"Host", b"localhost"), *tokens],
        "client": (REMOTE, 1),
    }
    async with open_harness() as harness:
        gate = Gate(app, Access(Secrets(api_key=KEY)), lambda: 0.0)
        start = trio.current_time()
        await Edge(gate, harness.service.context.traffic, lambda _path, _status: None)(scope, receive, send)
    assert received == ["piece"] * pieces
    assert sent == [("http.response.start", start + start_s), ("http.response.body", start + end_s)]


@pytest.mark.spec("API-247")
async def test_websockets_pass_the_gate_or_get_a_response() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append("app")

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def upgrade(origin: str, path: str = "/v1/dashboard/live", **more: Any) -> list[Any]:
        sent.clear()
        headers = [(b"host", b"localhost:8000"), (b"origin", origin.encode())]
        scope = {"type": "websocket", "path": path, "headers": headers, "client": (REMOTE, 1), **more}
        await Gate(app, Access(Secrets(admin_token=PASSWORD)), lambda: 0.0)(scope, receive, send)
        return sent

    extension: dict[str, Any] = {"extensions": {"websocket.http.response": {}}}
    assert await upgrade("http://localhost:8000") == ["app"]
    assert await upgrade(EVIL) == [{"type": "websocket.close", "code": 1008}]
    start, body = await upgrade(EVIL, **extension)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 403)
    assert json.loads(body["body"])["error"]["param"] == "Origin"
    start, _ = await upgrade("http://localhost:8000", "/api/v1/memory/x", root_path="/api", **extension)
    assert start["status"] == 401


async def test_what_is_neither_http_nor_websocket_passes() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await Gate(app, Access(), lambda: 0.0)({"type": "lifespan"}, Client, Client)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
