"""Where the server listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import ClassVar

from tandem.kinds import Text, Whole
from tandem.settings.group import Group, setting

__all__ = ["ServerSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ServerSettings(Group):
    """Where the server listens."""

    __slots__ = ()
    heading: ClassVar = "Server"

    host: str = setting(
        Text("ADDRESS"), "127.0.0.1", help="Address to listen on. Other machines reach it with 0.0.0.0."
    )
    port: int = setting(Whole(0, 65_535), 8000, help="Port to listen on; 0 takes any free one.")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the port. A host name other than `localhost` counts as not."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
