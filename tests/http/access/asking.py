"""Requests as access sees them, with the defaults of a remote caller without credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.http.access.rules import Access, Asked
from tandem.secrets import Secrets

__all__ = ["API_KEY", "LOCAL", "METRICS_TOKEN", "NOW", "PASSWORD", "REMOTE", "access", "asked", "bearer"]

PASSWORD = "correct horse battery staple SECRETS"
API_KEY = "sk-SECRETS-of-the-api"
METRICS_TOKEN = "mt-SECRETS"
NOW = 1_767_000_000.0
LOCAL, REMOTE = "127.0.0.1", "192.0.2.7"


def access(*, password: bool = True, api_key: bool = False, metrics: bool = False, **more: Any) -> Access:
    secrets = Secrets(
        admin_token=PASSWORD if password else None,
        api_key=API_KEY if api_key else None,
        metrics_token=METRICS_TOKEN if metrics else None,
    )
    return Access(secrets, **more)


def asked(
    path: str,
    method: str = "GET",
    headers: Mapping[str, str | None] | None = None,
    *,
    peer: str | None = REMOTE,
    now: float = NOW,
    is_websocket: bool = False,
) -> Asked:
    """A header of None is left out."""
    fields = {"host": "localhost:8000", **(headers or {})}
    return Asked(
        method=method,
        path=path,
        headers={name: value for name, value in fields.items() if value is not None},
        peer=peer,
        now=now,
        is_websocket=is_websocket,
    )


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
