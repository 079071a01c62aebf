"""The fenced fetch against a TLS server on this machine; resolver, address check and trust are the test's own."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import httpcore2
import pytest
import trio

from tandem.http.images.addresses import is_public
from tandem.http.images.fetch import Fetcher, resolve
from tandem.http.openai.images import BadImage
from tests.http.images.server import HOST, LOCAL, OTHER, Certificate, Names, Server, ok, redirect, serve

BODY = b"any bytes"


class Fence:
    """A server, a fetcher that may reach it, and the names it resolves."""

    def __init__(self, server: Server, certificate: Certificate) -> None:
        self.server = server
        self.names = Names()
        self.certificate = certificate

    def fetcher(self, **options: Any) -> Fetcher:
        chosen = {
            "max_bytes": 1000,
            "timeout": 20.0,
            "is_allowed": lambda address: address == LOCAL,
            "resolve": self.names,
            "tls": self.certificate.client(),
        }
        return Fetcher(**{**chosen, **options})

    async def fetch(self, path: str = "/x.png", host: str = HOST, **options: Any) -> bytes:
        return await self.fetcher(**options).fetch(self.server.url(path, host))

    async def refusal(self, path: str = "/x.png", host: str = HOST, **options: Any) -> str:
        with pytest.raises(BadImage) as bad:
            await self.fetch(path, host, **options)
        for secret in (HOST, OTHER, LOCAL, "x.png", str(self.server.port)):
            assert secret not in str(bad.value)
        assert bad.value.__cause__ is None
        return str(bad.value)


@pytest.fixture
async def fence(certificate: Certificate, nursery: trio.Nursery) -> Fence:
    return Fence(await serve(certificate, nursery), certificate)


@pytest.mark.spec("API-192")
async def test_a_plain_fetch_sends_nothing_of_the_client(fence: Fence) -> None:
    fence.server.answers["/a/x%20y.png?q=1"] = ok(BODY)
    assert await fence.fetch("/a/x y.png?q=1#part") == BODY
    [head] = fence.server.heads
    lines = head.decode().strip().split("\r\n")
    assert lines[0] == "GET /a/x%20y.png?q=1 HTTP/1.1"
    assert sorted(lines[1:]) == [
        "Accept-Encoding: identity",
        "Accept: image/png, image/jpeg, image/webp, image/gif, image/bmp",
        "Connection: close",
        f"Host: {HOST}:{fence.server.port}",
        "User-Agent: Tandem",
    ]
    assert fence.server.names == [HOST]


@pytest.mark.spec("API-192")
async def test_no_proxy_of_the_environment(fence: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    fence.server.answers["/x.png"] = ok(BODY)
    assert await fence.fetch() == BODY


@pytest.mark.spec("API-192")
async def test_tls_verifies_the_host_name(fence: Fence) -> None:
    fence.names.answers["wrong.test"] = [[LOCAL]]
    fence.server.answers["/x.png"] = ok(BODY)
    assert "connection" in await fence.refusal(host="wrong.test")
    assert "connection" in await fence.refusal(host=LOCAL)
    assert "connection" in await fence.refusal(tls=httpcore2.default_ssl_context())  # an unknown authority
    assert fence.server.heads == []


# Where the connection goes


@pytest.mark.spec("API-191")
@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["::ffff:127.0.0.1"], ["::1"]]
)
async def test_one_bad_address_refuses_the_host(fence: Fence, addresses: list[str]) -> None:
    fence.names.answers[HOST] = [addresses]
    assert "not fetched from" in await fence.refusal(is_allowed=is_public)
    assert fence.server.connections == 0


@pytest.mark.spec("API-191")
@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:{}/",
        "https://[::1]:{}/",
        "https://[::ffff:127.0.0.1]:{}/",
        "https://2130706433:{}/",
        "https://0x7f.1:{}/",
        "https://localhost:{}/",
    ],
)
async def test_this_machine_by_any_other_name(fence: Fence, url: str) -> None:
    fetcher = fence.fetcher(is_allowed=is_public, resolve=resolve)
    with pytest.raises(BadImage):
        await fetcher.fetch(url.format(fence.server.port))
    assert fence.server.connections == 0


@pytest.mark.spec("API-192")
async def test_rebinding_reaches_nobody(fence: Fence) -> None:
    """The second answer of the resolver is never asked for: the connection goes to what was checked."""
    fence.names.answers[HOST] = [[LOCAL], ["10.0.0.1"]]
    fence.server.answers["/x.png"] = ok(BODY)
    assert await fence.fetch() == BODY
    assert fence.names.asked == [HOST]


@pytest.mark.spec("API-192")
async def test_a_redirect_is_resolved_and_checked_anew(fence: Fence) -> None:
    fence.names.answers[HOST] = [[LOCAL], ["10.0.0.1"]]
    fence.server.answers["/x.png"] = redirect("/next.png")
    assert "not fetched from" in await fence.refusal()
    assert fence.names.asked == [HOST, HOST]
    assert fence.server.connections == 1


async def test_the_next_address_is_tried(fence: Fence) -> None:
    fence.names.answers[HOST] = [["127.0.0.2", LOCAL]]  # nobody listens at the first
    fence.server.answers["/x.png"] = ok(BODY)
    assert await fence.fetch(is_allowed=lambda _: True) == BODY


async def test_nobody_answers(fence: Fence) -> None:
    fence.names.answers[HOST] = [["127.0.0.2"]]
    assert "connection" in await fence.refusal(is_allowed=lambda _: True)


@pytest.mark.parametrize("host", ["unknown.test", "empty.test", "a" * 64 + ".test"])
async def test_names_that_do_not_resolve(fence: Fence, host: str) -> None:
    fence.names.answers["empty.test"] = [[]]
    assert "does not resolve" in await fence.refusal(host=host)


async def test_a_name_that_cannot_be_encoded(fence: Fence) -> None:
    async def fails(_host: str, _port: int) -> list[str]:
        raise UnicodeError

    assert "does not resolve" in await fence.refusal(resolve=fails)


# Redirects


@pytest.mark.spec("API-192")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_without_cookies(fence: Fence, status: int) -> None:
    server = fence.server
    server.answers["/x.png"] = redirect(server.url("/2", OTHER), status)
    server.answers["/2"] = redirect("3?q", status)
    server.answers["/3?q"] = redirect(f"//{HOST}:{server.port}/4", status)
    server.answers["/4"] = ok(BODY)
    assert await fence.fetch() == BODY
    assert server.names == [HOST, OTHER, OTHER, HOST]
    assert not any(b"ookie" in head or b"eferer" in head for head in server.heads)


@pytest.mark.spec("API-192")
async def test_the_fourth_redirect_is_one_too_many(fence: Fence) -> None:
    for number in range(4):
        fence.server.answers[f"/{number}"] = redirect(f"/{number + 1}")
    fence.server.answers["/4"] = ok(BODY)
    assert await fence.fetch("/1") == BODY
    assert "more than 3" in await fence.refusal("/0")


@pytest.mark.spec("API-191", "API-192")
@pytest.mark.parametrize(
    "location",
    [
        "http://{host}:{port}/y.png",
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "https://inner.test/y.png",
        "https://user:pass@{host}:{port}/y.png",
        "https://2130706433:{port}/y.png",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "https://[",
        "",
    ],
)
async def test_redirects_that_lead_astray(fence: Fence, location: str) -> None:
    fence.names.answers["inner.test"] = [["10.0.0.1"]]
    fence.server.answers["/x.png"] = redirect(location.format(host=HOST, port=fence.server.port))
    fence.server.answers["/y.png"] = ok(BODY)
    await fence.refusal()
    assert fence.server.connections == 1


async def test_a_redirect_in_other_letters_than_utf8(fence: Fence) -> None:
    fence.server.answers["/x.png"] = b"HTTP/1.1 302 X\r\nLocation: https://\xff\xfe/\r\n\r\n"
    await fence.refusal()


# What comes back


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("status", [204, 206, 300, 304, 400, 401, 404, 500, 503])
async def test_any_other_status(fence: Fence, status: int) -> None:
    fence.server.answers["/x.png"] = f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()
    assert f"status {status}" in await fence.refusal()


@pytest.mark.spec("API-184")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000,
    ],
)
async def test_answers_that_are_none(fence: Fence, answer: bytes) -> None:
    fence.server.answers["/x.png"] = answer
    assert "connection" in await fence.refusal()


@pytest.mark.spec("API-193")
async def test_the_limit_itself_is_allowed(fence: Fence) -> None:
    fence.server.answers["/x.png"] = ok(b"a" * 1000)
    assert len(await fence.fetch()) == 1000
    fence.server.answers["/x.png"] = ok(b"a" * 1001)
    assert "larger than 1,000 bytes" in await fence.refusal()


@pytest.mark.spec("API-193")
async def test_a_length_that_says_too_much_is_not_read(fence: Fence) -> None:
    async def stalls(stream: trio.abc.SendStream) -> None:
        await stream.send_all(ok(b"", length=1001))
        await trio.sleep_forever()

    fence.server.answers["/x.png"] = stalls
    assert "larger than" in await fence.refusal()


@pytest.mark.spec("API-193")
@pytest.mark.parametrize("head", [ok(b"", length=-1), ok(b"", "Transfer-Encoding: chunked", length=-1)])
async def test_reading_stops_at_the_limit(fence: Fence, head: bytes) -> None:
    sent = 0

    async def endless(stream: trio.abc.SendStream) -> None:
        nonlocal sent
        await stream.send_all(head)
        while True:
            await stream.send_all(b"400\r\n" + b"a" * 0x400 + b"\r\n")
            sent += 0x400

    fence.server.answers["/x.png"] = endless
    assert "larger than" in await fence.refusal(max_bytes=100_000)
    with trio.fail_after(30):
        while fence.server.open:
            await trio.sleep(0.001)
    assert sent < 20_000_000  # what the sockets' buffers take


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("name", ["gzip", "GZIP", "br", "identity, gzip"])
async def test_compressed_bodies_are_not_taken(fence: Fence, name: str) -> None:
    bomb = gzip.compress(bytes(900_000))
    fence.server.answers["/x.png"] = ok(bomb, f"Content-Encoding: {name}")
    assert "content encoding" in await fence.refusal()


async def test_identity_is_no_encoding(fence: Fence) -> None:
    fence.server.answers["/x.png"] = ok(BODY, "Content-Encoding: Identity")
    assert await fence.fetch() == BODY


# Time


async def _never(stream: trio.abc.SendStream) -> None:
    await trio.sleep_forever()


async def _drips(stream: trio.abc.SendStream) -> None:
    await stream.send_all(ok(b"", length=900))
    while True:
        await stream.send_all(b"a")
        await trio.sleep(0.01)


async def _redirects_late(stream: trio.abc.SendStream) -> None:
    await trio.sleep(0.05)
    await stream.send_all(redirect("/x.png"))


@pytest.mark.spec("API-193")
@pytest.mark.parametrize("answer", [_never, _drips, _redirects_late])
async def test_one_deadline_for_everything(fence: Fence, answer: Callable[..., Any]) -> None:
    fence.server.answers["/x.png"] = answer
    with trio.fail_after(30):
        assert "within 0.1 s" in await fence.refusal(timeout=0.1)


@pytest.mark.spec("API-193")
async def test_the_deadline_holds_for_the_resolver(fence: Fence) -> None:
    async def hangs(_host: str, _port: int) -> list[str]:
        await trio.sleep_forever()
        return []

    with trio.fail_after(30):
        assert "within 0.05 s" in await fence.refusal(timeout=0.05, resolve=hangs)


@pytest.mark.spec("API-193")
async def test_the_deadline_holds_for_the_handshake(fence: Fence, nursery: trio.Nursery) -> None:
    """A port that takes connections and says nothing; no socket is left behind, which would be a warning."""
    [listener] = await trio.open_tcp_listeners(0, host=LOCAL)
    closed = trio.Event()

    async def silent(stream: trio.SocketStream) -> None:
        async for _ in stream:
            pass
        closed.set()

    nursery.start_soon(trio.serve_listeners, silent, [listener])
    port = listener.socket.getsockname()[1]
    with trio.fail_after(30):
        with pytest.raises(BadImage, match=r"within 0\.05 s"):
            await fence.fetcher(timeout=0.05).fetch(f"https://{HOST}:{port}/x.png")
        await closed.wait()


async def test_the_caller_may_leave(fence: Fence) -> None:
    fence.server.answers["/x.png"] = _drips
    with trio.move_on_after(0.05) as scope:
        await fence.fetch()
    assert scope.cancelled_caught
    with trio.fail_after(30):
        while fence.server.open:
            await trio.sleep(0.001)


async def test_the_systems_resolver() -> None:
    assert "127.0.0.1" in await resolve("localhost", 443)
