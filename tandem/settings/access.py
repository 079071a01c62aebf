"""Who reaches the server, under which names, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tandem.kinds import Names, OnOff, Real, Text
from tandem.settings.group import DAY_S, Group, setting

__all__ = ["AccessSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AccessSettings(Group):
    """Who reaches the server, under which names, and what is asked of them."""

    __slots__ = ()
    heading: ClassVar = "Access"

    url: str | None = setting(
        Text("URL"),
        None,
        shown="the request's own address",
        help="Address under which clients reach the server; its host is one of the hosts that are answered.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        Names("HOST,…"),
        (),
        help="Further names under which clients may reach the server; a request to any other name gets a 421.",
    )
    cors_origins: tuple[str, ...] = setting(
        Names("ORIGIN,…"),
        (),
        help="Origins whose pages may use chat, completions and models from a browser; * takes every one.",
    )
    api_key_loopback: bool = setting(
        OnOff(),
        True,
        help="Ask callers on this machine for the API key too, where TANDEM_API_KEY is set.",
    )
    dashboard_login: bool = setting(
        OnOff(), False, help="Ask for the password before the dashboard is read, where one is set."
    )
    session_s: float = setting(Real(1, 4000 * DAY_S), 400 * DAY_S, help="How long a sign-in of the dashboard lasts.")
