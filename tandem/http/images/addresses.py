"""Where an image may be fetched from: which URLs, and which addresses (API-191, API-192). No I/O."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import httpx2

from tandem.http.openai.images import BadImage

__all__ = ["check_url", "is_literal", "is_public", "is_unicast"]

NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, the metadata services of clouds among it
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",  # documentation, as 198.51.100 and 203.0.113
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
"""IANA's registry of special addresses, written out: `is_global` differs between Python's patch releases."""

GLOBAL_6 = IPv6Network("2000::/3")
NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols, Teredo among them, which holds an IPv4 address
            "2001:db8::/32",  # documentation, as 3fff::/20
            "2002::/16",  # 6to4, which holds an IPv4 address
            "3fff::/20",
        ),
    )
)
"""What is not public inside the only range of IPv6 that is."""

IPV4_INSIDE = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Mapped addresses and NAT64: whoever connects to one of these reaches the IPv4 address in its last four bytes."""

HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
MAX_NAME = 254


def is_public(address: str) -> bool:
    """Whether the address belongs to the public Internet; what cannot be read does not."""
    ip = _read(address)
    if isinstance(ip, IPv4Address):
        return ip.is_global and not any(ip in network for network in NOT_PUBLIC_4)
    return ip is not None and ip in GLOBAL_6 and ip.is_global and not any(ip in network for network in NOT_PUBLIC_6)


def is_unicast(address: str) -> bool:
    """Whether one host has the address, public or private: what `--image-https-private` allows."""
    ip = _read(address)
    if ip is None or ip.is_multicast or ip.is_unspecified:
        return False
    if isinstance(ip, IPv4Address):
        return not ip.is_reserved and ip not in NOT_PUBLIC_4[0]
    return ip in GLOBAL_6 or ip.is_loopback or ip.is_link_local or ip.is_private


def _read(address: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(ip, IPv6Address) and any(ip in network for network in IPV4_INSIDE):
        return IPv4Address(ip.packed[-4:])
    return ip


def is_literal(host: str) -> bool:
    """Whether the host is an address itself and needs no resolver."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_url(url: str) -> httpx2.URL:
    """The URL of an image, or of a redirect on the way to it, parsed once. Raises `BadImage`."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise BadImage("has no valid URL") from None
    if parsed.scheme != "https":
        raise BadImage("leads to an address that is not https")
    if parsed.userinfo:
        raise BadImage("has a user name or password in its URL")
    if not _is_host(parsed.raw_host.decode("ascii")) or not (parsed.port is None or 0 < parsed.port < 65_536):
        raise BadImage("has no valid host in its URL")
    return parsed


def _is_host(host: str) -> bool:
    if is_literal(host):
        return "%" not in host  # a zone is this machine's own business
    # C libraries read a name that ends in a number as an IPv4 address: 2130706433, 0x7f.1, 127.1.
    last = host.removesuffix(".").rpartition(".")[2]
    return len(host) <= MAX_NAME and HOST_NAME.fullmatch(host) is not None and NUMBER.fullmatch(last) is None
