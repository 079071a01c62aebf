"""Hosts, origins and peers as they stand in headers."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.http.access.hosts import Host, Origin, is_loopback, machine_names, parse_host, parse_origin

LABELS = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,10}[A-Za-z0-9_])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.none() | st.integers(0, 65_535)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", Host("localhost")),
        ("localhost:8000", Host("localhost", 8000)),
        ("LocalHost.:8000", Host("localhost", 8000)),
        ("box.example:", Host("box.example")),
        (" box ", Host("box")),
        ("127.0.0.1:80", Host("127.0.0.1", 80, is_ip=True)),
        ("127.0.0.1.", Host("127.0.0.1", is_ip=True)),
        ("[::1]:8000", Host("::1", 8000, is_ip=True)),
        ("[0:0:0:0:0:0:0:1]", Host("::1", is_ip=True)),
        ("[FE80::1%eth0]", Host("fe80::1%eth0", is_ip=True)),
        ("[::ffff:10.0.0.1]", Host("::ffff:a00:1", is_ip=True)),
        ("2130706433", Host("2130706433")),  # 127.0.0.1 as one number: a name like any other
        ("127.1", Host("127.1")),
        ("xn--bcher-kva.example", Host("xn--bcher-kva.example")),
    ],
)
def test_hosts(text: str, host: Host) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8000",
        ".",
        "..",
        ".a",
        "a..b",
        "a..",
        "a:b",
        "a:65536",
        "a:-1",
        "a:1:2",
        "::1",
        "[::1",
        "[127.0.0.1]",
        "[box]",
        "[]",
        "[::1]x",
        "a b",
        "a,b",
        "localhost, evil.example",
        "user@localhost",
        "localhost/x",
        "localhost#x",
        "local\u017fhost",
        "bücher.example",
        "%%%",
        "a" * 301,
        "a\nb",
        "localhost\x00",
    ],
)
def test_what_is_no_host(text: str) -> None:
    assert parse_host(text) is None


@given(NAMES, PORTS, st.booleans())
def test_a_name_is_read_whatever_its_case_dot_and_port(name: str, port: int | None, dotted: bool) -> None:
    text = f"{name}{'.' if dotted else ''}{'' if port is None else f':{port}'}"
    host = parse_host(text)
    assert host is not None
    assert (host.name, host.port) == (name.lower(), port)
    assert parse_host(text.swapcase()) == host


@given(st.ip_addresses(), PORTS)
def test_every_address_is_read(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> None:
    literal = f"[{address.exploded}]" if address.version == 6 else str(address)
    assert parse_host(literal if port is None else f"{literal}:{port}") == Host(str(address), port, is_ip=True)


@given(st.text(max_size=40) | st.text("lochst[]:.%@127/ \n", max_size=20))
@example("localhost\n")
def test_what_is_read_is_a_plain_name_or_an_address(text: str) -> None:
    host = parse_host(text)
    parse_origin(text)
    if host is None:
        return
    assert host.name == host.name.lower()
    assert not set(host.name) & set("/@#?[], \n\t\0")
    assert host.port is None or 0 <= host.port <= 65_535
    if host.is_ip:
        ipaddress.ip_address(host.name)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost:8000", Origin("http", "localhost", 8000)),
        ("HTTPS://Box.Example", Origin("https", "box.example")),
        ("https://box.example:443", Origin("https", "box.example")),
        ("http://box.example:443", Origin("http", "box.example", 443)),
        ("http://[::1]:80", Origin("http", "::1")),
        ("chrome-extension://abcdef", Origin("chrome-extension", "abcdef")),
        ("null", None),
        ("", None),
        ("localhost", None),
        ("http://", None),
        ("http://a/b", None),
        ("http://user@a", None),
        ("http://a, http://b", None),
        ("http://a http://b", None),
        ("file://", None),
    ],
)
def test_origins(text: str, origin: Origin | None) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://box", "box", True),
        ("https://box", "box", True),  # a proxy may have ended TLS
        ("https://box", "box:443", True),
        ("http://box:80", "box", True),
        ("http://box:8000", "box:8000", True),
        ("http://box:8000", "box:8001", False),  # another service of the machine
        ("http://box:8000", "box", False),
        ("https://box", "box:80", False),
        ("https://box:8443", "box", False),
        ("http://box:0", "box", False),
        ("http://box.evil.example", "box", False),
        ("http://localhost:8000", "127.0.0.1:8000", False),
        ("http://[0::1]:8000", "[::1]:8000", True),
        ("chrome-extension://box", "box", False),
    ],
)
@pytest.mark.spec("API-015")
def test_an_origin_is_the_servers_own_by_name_and_port(origin: str, host: str, same: bool) -> None:
    parsed, at = parse_origin(origin), parse_host(host)
    assert parsed is not None
    assert at is not None
    assert parsed.is_at(at) is same


@pytest.mark.parametrize(
    ("peer", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.1", False),
        ("192.0.2.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost", False),
        ("", False),
        ("<local>", False),
        (None, False),
    ],
)
@pytest.mark.spec("API-014")
def test_loopback(peer: str | None, loopback: bool) -> None:
    assert is_loopback(peer) is loopback


@pytest.mark.parametrize(
    ("hostname", "names"),
    [
        ("Box", {"box", "box.local"}),
        ("box.lan.example", {"box.lan.example", "box", "box.local"}),
        ("box.local", {"box.local", "box"}),
        ("", set()),
        ("10.0.0.1", set()),
        ("not a name", set()),
    ],
)
@pytest.mark.spec("API-252")
def test_names_of_the_machine(hostname: str, names: set[str]) -> None:
    assert machine_names(hostname) == names
