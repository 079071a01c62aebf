"""The fenced fetch of an image: https only, to checked addresses only, nothing of the client's along (API-191 … 193).

A host name is resolved once for each hop, every address is checked, and the connection goes to one of these very
addresses while TLS verifies the name: what a later answer of the resolver says reaches nobody. httpcore2 is used below
its client, which would follow redirects, decode, keep cookies and read proxy settings.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

import httpcore2
import httpx2
import trio

from tandem.http.images.addresses import check_url, is_literal, is_public
from tandem.http.openai.images import BadImage, too_large

__all__ = ["Fetcher", "Resolver", "resolve"]

MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)
CONNECT_S = 3.0
"""How long one address may take to connect: a host's next address is tried then."""
HTTPS_PORT = 443
HEADERS = (
    (b"Accept", b"image/png, image/jpeg, image/webp, image/gif, image/bmp"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", b"Tandem"),
    (b"Connection", b"close"),
)

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host and port, as text. Raises `OSError` or `UnicodeError` where there are none."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The system's resolver."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches images within bounds. Holds no connection: each hop has its own."""

    max_bytes: int
    timeout: float
    """Seconds for one image: resolving, connecting, redirects and reading together."""
    is_allowed: Callable[[str], bool] = is_public
    """Whether an address may be connected to; one that may not refuses its host."""
    resolve: Resolver = resolve
    tls: ssl.SSLContext = field(default_factory=httpcore2.default_ssl_context)

    async def fetch(self, url: str) -> bytes:
        """The body behind an https URL, whatever it holds. Raises `BadImage`, which quotes nothing of the URL."""
        with trio.move_on_after(self.timeout):
            return await self._follow(url)
        raise BadImage(f"was not fetched within {self.timeout:g} s")

    async def _follow(self, url: str) -> bytes:
        for _ in range(1 + MAX_REDIRECTS):
            found = await self._get(check_url(url))
            if isinstance(found, bytes):
                return found
            url = found
        raise BadImage(f"is redirected more than {MAX_REDIRECTS} times")

    async def _get(self, url: httpx2.URL) -> bytes | str:
        """The body, or the URL of a redirect."""
        host, port = url.raw_host.decode("ascii"), url.port or HTTPS_PORT
        backend = _Pinned(await self._addresses(host, port))
        connection = httpcore2.AsyncHTTPConnection(
            httpcore2.Origin(b"https", url.raw_host, port), ssl_context=self.tls, network_backend=backend
        )
        target = httpcore2.URL(scheme=b"https", host=url.raw_host, port=port, target=url.raw_path)
        headers = [(b"Host", url.netloc), *HEADERS]
        try:
            async with connection, connection.stream("GET", target, headers=headers) as response:
                return await self._read(response, url)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError):
            # Their texts name the host.
            raise BadImage("could not be fetched: the connection to its host failed") from None
        finally:
            backend.close()

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = [host] if is_literal(host) else await self.resolve(host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise BadImage("could not be fetched: the name of its host does not resolve")
        if not all(map(self.is_allowed, addresses)):
            raise BadImage("leads to an address that images are not fetched from")
        return addresses

    async def _read(self, response: httpcore2.Response, url: httpx2.URL) -> bytes | str:
        headers = {name.lower(): value for name, value in response.headers}
        if response.status in REDIRECTS:
            return _redirect(url, headers.get(b"location", b""))
        if response.status != httpx2.codes.OK:
            raise BadImage(f"could not be fetched: its host answered with status {response.status}")
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise BadImage("was sent in a content encoding, which was not asked for")
        if int(headers.get(b"content-length", b"0")) > self.max_bytes:  # h11 has checked that it is a number
            raise too_large(self.max_bytes)
        body = bytearray()
        async with aclosing(response.aiter_stream()) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > self.max_bytes:
                    raise too_large(self.max_bytes)
        return bytes(body)


def _redirect(url: httpx2.URL, location: bytes) -> str:
    try:
        return str(url.join(location.decode("utf-8"))) if location else ""
    except (ValueError, httpx2.InvalidURL):
        return ""  # which is no valid URL, as the next hop finds


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that were checked, whatever host it is told."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._opened: list[httpcore2.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore2 asks for it)
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        backend = httpcore2.TrioBackend()
        for address in self._addresses:
            try:
                stream = await backend.connect_tcp(address, port, timeout=CONNECT_S)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
            self._opened.append(stream)
            return stream
        raise httpcore2.ConnectError

    def close(self) -> None:
        """httpcore2 leaves a socket open when its TLS handshake is cancelled."""
        for stream in self._opened:
            stream.get_extra_info("socket").close()
