"""Hosts, origins and peers as they stand in headers: read strictly, since what is misread here lets strangers in."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["Host", "Origin", "is_loopback", "machine_names", "parse_host", "parse_origin"]

HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Za-z:.%]+)\]|(?P<name>[0-9A-Za-z_.-]+))(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
ORIGIN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?#@\s]+)", re.ASCII)
DEFAULT_PORTS = MappingProxyType({"http": 80, "https": 443})
MAX_CHARS = 300
"""No host name is longer than 253 characters."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host as `Host` names it: lower case without a trailing dot; an IP address in its shortest form, no brackets."""

    name: str
    port: int | None = None
    is_ip: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """A page's origin; `port` is None where it is the scheme's own."""

    scheme: str
    host: str
    port: int | None = None

    def is_at(self, host: Host) -> bool:
        """Whether the page comes from `host`: same name and same port.

        Who stands in `Host` says nothing about the scheme, since a proxy may have ended TLS; so a host without a port
        is at the default port of the origin's scheme.
        """
        default = DEFAULT_PORTS.get(self.scheme)
        if default is None or self.host != host.name:
            return False
        return (default if self.port is None else self.port) == (default if host.port is None else host.port)


def parse_host(text: str) -> Host | None:
    """The host of a `Host` header, None for what is none. An IPv6 address needs its brackets."""
    match = HOST.fullmatch(text.strip()) if len(text) <= MAX_CHARS else None
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if port is not None and port > 65_535:
        return None
    if match["ipv6"] is not None:
        address = _address(match["ipv6"])
        return Host(str(address), port, is_ip=True) if address is not None and address.version == 6 else None
    name = match["name"].lower().removesuffix(".")
    if "" in name.split("."):
        return None
    return Host(name, port, is_ip=_address(name) is not None)


def parse_origin(text: str) -> Origin | None:
    """The origin of an `Origin` header. None for `null`, which is every sandboxed page's, and for what is none."""
    match = ORIGIN.fullmatch(text.strip())
    host = parse_host(match["host"]) if match else None
    if match is None or host is None:
        return None
    scheme = match["scheme"].lower()
    return Origin(scheme, host.name, None if host.port == DEFAULT_PORTS.get(scheme) else host.port)


def is_loopback(peer: str | None) -> bool:
    """Whether a connection comes from this machine. An unknown peer (None) does not count as one."""
    address = _address(peer or "")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def machine_names(hostname: str) -> frozenset[str]:
    """The names under which a machine called `hostname` answers: with and without its domain, and with `.local`."""
    host = parse_host(hostname)
    if host is None or host.is_ip:
        return frozenset()
    short = host.name.partition(".")[0]
    return frozenset({host.name, short, f"{short}.local"})


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
