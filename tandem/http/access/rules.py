"""Access (section 4 of the HTTP API): one plain decision from what a request shows of itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

from tandem.config import SettingError, Settings
from tandem.http.access.classes import READS, RouteClass, classify, is_completion
from tandem.http.access.cors import Sharing
from tandem.http.access.hosts import Origin, is_loopback, parse_host, parse_origin
from tandem.http.access.signin import COOKIE, Ticket, Tickets
from tandem.http.openai import errors
from tandem.http.openai.errors import ApiError
from tandem.secrets import Secrets

__all__ = ["PROXY_HEADERS", "Access", "Asked"]

PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded", "via")
"""One of them, and a loopback peer is a proxy that speaks for somebody else (API-014)."""
NEEDS_PASSWORD = "this route takes the password as Authorization: Bearer <password>"
NEEDS_METRICS_TOKEN = "this route takes the metrics token as Authorization: Bearer <token>"
NEEDS_API_KEY = "this server takes an API key as Authorization: Bearer <key>"
USE_OWN_PAGE = "only pages of this server's own host may, or callers with a bearer header"
USE_CORS_ORIGINS = "--cors-origins lists the origins that may"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as far as access goes. Header names are lower case, values as in ASGI: bytes read as Latin-1."""

    method: str
    path: str
    """As `normalise` gives it."""
    headers: Mapping[str, str]
    peer: str | None
    """The address of the connection's other end, where it is known."""
    now: float
    """Seconds since 1970."""
    is_websocket: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it comes from this machine and through no proxy (API-014)."""
        return is_loopback(self.peer) and not any(name in self.headers for name in PROXY_HEADERS)

    @property
    def has_bearer(self) -> bool:
        """Whether there is a bearer header, right or wrong: no page of another origin can send one unasked."""
        return self._authorization()[0] == "bearer"

    @property
    def bearer(self) -> bytes:
        """The token of the bearer header, empty where there is none."""
        scheme, token = self._authorization()
        return token.encode("latin-1", "replace") if scheme == "bearer" else b""

    def _authorization(self) -> tuple[str, str]:
        scheme, _, token = self.headers.get("authorization", "").strip().partition(" ")
        return scheme.lower(), token.strip()

    @property
    def is_own_page(self) -> bool:
        """Whether it comes from no page, or from one of the host that it names in `Host` or `X-Forwarded-Host`.

        Of several forwarded hosts the first counts, which is the client's.
        """
        if "origin" not in self.headers:
            return True
        origin = parse_origin(self.headers["origin"])
        named = (self.headers.get("host", ""), self.headers.get("x-forwarded-host", "").partition(",")[0])
        return origin is not None and any(host and origin.is_at(host) for host in map(parse_host, named))


class Access:
    """Decides for one service; keeps nothing of what it has seen."""

    def __init__(
        self,
        secrets: Secrets | None = None,
        *,
        hosts: Collection[str] = (),
        sharing: Sharing | None = None,
        key_on_loopback: bool = True,
        dashboard_login: bool = False,
        session_s: float = 86_400.0,
    ) -> None:
        """`hosts` are the names, in lower case, that are answered besides `localhost` and addresses."""
        self._secrets = secrets or Secrets()
        self._hosts = frozenset(hosts) | {"localhost"}
        self.sharing = sharing or Sharing()
        self._key_on_loopback = key_on_loopback
        self.dashboard_login = dashboard_login
        password = self._secrets.admin_token
        self._tickets = None if password is None else Tickets(password, session_s)

    @classmethod
    def from_settings(cls, settings: Settings, secrets: Secrets, machine_names: Collection[str] = ()) -> Access:
        """Raises `SettingError` for a host, origin or address that is none."""
        return cls(
            secrets,
            hosts={*machine_names, *_allowed_hosts(settings)},
            sharing=_sharing(settings.cors_origins),
            key_on_loopback=settings.api_key_loopback,
            dashboard_login=settings.dashboard_login,
            session_s=settings.session_s,
        )

    @property
    def has_password(self) -> bool:
        return self._secrets.admin_token is not None

    def refusal(self, asked: Asked) -> ApiError | None:
        """Why the request is not served: a 421, 403 or 401. None where access has nothing against it."""
        return self._wrong_host(asked) or self._foreign_page(asked) or self._lacks_token(asked)

    def may_read_health(self, asked: Asked) -> bool:
        """Whether the caller gets the full body of `/health` (API-017)."""
        return self._is_admin(asked) or self._secrets.is_metrics_token(asked.bearer)

    def session_ends(self, asked: Asked) -> int | None:
        """When the caller's dashboard session ends, in seconds since 1970; None without one."""
        if self._tickets is None or COOKIE not in asked.headers.get("cookie", ""):
            return None
        return self._tickets.ends(asked.headers["cookie"], asked.now)

    def watch_ends(self, asked: Asked) -> int | None:
        """When the caller may no longer watch the dashboard's feeds: at the end of its session, where nothing else lets
        it in (OBS-058). In seconds since 1970; None for never."""
        if not self.dashboard_login or self._is_admin(asked, by_session=False):
            return None
        return self.session_ends(asked)

    def sign_in(self, token: str, now: float) -> Ticket | None:
        """A session for the right password, else None."""
        if self._tickets is None or not self._secrets.is_password(token.encode("utf-8", "surrogatepass")):
            return None
        return self._tickets.issue(now)

    def _wrong_host(self, asked: Asked) -> ApiError | None:
        """API-252. HTTP/1.0 may leave `Host` out; no browser does, and they are whom the rule is about."""
        text = asked.headers.get("host")
        if text is None:
            return None
        host = parse_host(text)
        if host is not None and (host.is_ip or host.name in self._hosts):
            return None
        return errors.misdirected(text)

    def _foreign_page(self, asked: Asked) -> ApiError | None:
        """API-015, API-247, API-253."""
        if asked.is_own_page:
            return None
        origin = asked.headers["origin"]
        if is_completion(asked.method, asked.path):
            return None if self.sharing.allows(origin) else errors.foreign_origin(origin, USE_CORS_ORIGINS)
        guarded = classify(asked.method, asked.path) in (RouteClass.ADMIN, RouteClass.BEARER)
        is_write = guarded and asked.method not in READS and not asked.has_bearer
        return errors.foreign_origin(origin, USE_OWN_PAGE) if is_write or asked.is_websocket else None

    def _lacks_token(self, asked: Asked) -> ApiError | None:
        route = classify(asked.method, asked.path)
        match route:
            case RouteClass.OPEN | RouteClass.HEALTH:
                return None
            case RouteClass.API:
                # Browsers send no key with a preflight, and an OPTIONS reaches no model.
                is_free = asked.method == "OPTIONS" or self._may_use_api(asked)
                return None if is_free else errors.unauthorized(NEEDS_API_KEY)
            case RouteClass.METRICS:
                needs = NEEDS_METRICS_TOKEN if self._secrets.metrics_token else NEEDS_PASSWORD
                return None if self._may_read_metrics(asked) else errors.unauthorized(needs)
            case RouteClass.DASHBOARD:
                is_free = not self.dashboard_login or self._is_admin(asked)
                return None if is_free else errors.unauthorized(NEEDS_PASSWORD)
            case RouteClass.BEARER:
                is_free = self._is_admin(asked, by_session=False)
                return None if is_free else errors.unauthorized(NEEDS_PASSWORD)
            case RouteClass.ADMIN:
                return None if self._is_admin(asked) else errors.unauthorized(NEEDS_PASSWORD)
            case _:
                assert_never(route)

    def _is_admin(self, asked: Asked, *, by_session: bool = True) -> bool:
        """API-010, API-012, API-013, API-014."""
        return not self.has_password or self._has_shown_who(asked, by_session=by_session)

    def _has_shown_who(self, asked: Asked, *, by_session: bool = True) -> bool:
        return (
            asked.is_local
            or self._secrets.is_password(asked.bearer)
            or (by_session and self.session_ends(asked) is not None)
        )

    def _may_read_metrics(self, asked: Asked) -> bool:
        """API-018: the metrics token closes the page even where no password is set."""
        if self._secrets.metrics_token is None:
            return self._is_admin(asked)
        return self._secrets.is_metrics_token(asked.bearer) or self._has_shown_who(asked)

    def _may_use_api(self, asked: Asked) -> bool:
        """API-254."""
        secrets = self._secrets
        if secrets.api_key is None or (asked.is_local and not self._key_on_loopback):
            return True
        return secrets.is_api_key(asked.bearer) or secrets.is_password(asked.bearer)


def _allowed_hosts(settings: Settings) -> set[str]:
    names = set()
    for text in settings.allowed_hosts:
        host = parse_host(text)
        if host is None:
            raise SettingError(f"--allowed-hosts: {text[:60]!r} is no host name; it takes names such as box.example")
        names.add(host.name)
    if settings.url is not None:
        names.add(_host_of(settings.url))
    return names


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parse_host(parts.netloc.rpartition("@")[2]) if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    if host is None:
        raise SettingError(f"--url: {url[:60]!r} is no address; it takes one such as https://box.example")
    return host.name


def _sharing(texts: Collection[str]) -> Sharing:
    origins: set[Origin] = set()
    for text in texts:
        origin = parse_origin(text.removesuffix("/"))
        if origin is not None:
            origins.add(origin)
        elif text != "*":
            raise SettingError(
                f"--cors-origins: {text[:60]!r} is no origin; it takes those such as https://chat.example, or *"
            )
    return Sharing(everyone="*" in texts, origins=frozenset(origins))
