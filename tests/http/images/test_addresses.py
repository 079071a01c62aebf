"""Which URLs and which addresses an image may come from."""

from __future__ import annotations

import pytest

from tandem.http.images.addresses import check_url, is_public, is_unicast
from tandem.http.openai.images import BadImage

PUBLIC = ["8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::5"]
INSIDE_PUBLIC = ["::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    "127.0.0.1",
    "127.8.9.1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
]
NOWHERE = [
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "ff02::1",
    "::ffff:0.0.0.0",
    "64:ff9b::e000:1",
    "not an address",
    "",
]
SPECIAL = [
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "64:ff9b:1::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "100::1",
    "fec0::1",
    "5f00::1",
    "4000::1",
]


@pytest.mark.spec("API-191")
@pytest.mark.parametrize("address", PUBLIC + INSIDE_PUBLIC)
def test_public(address: str) -> None:
    assert is_public(address)
    assert is_unicast(address)


@pytest.mark.spec("API-191")
@pytest.mark.parametrize("address", PRIVATE + NOWHERE + SPECIAL)
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.spec("API-194")
@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_where_they_are_allowed(address: str) -> None:
    assert is_unicast(address)


@pytest.mark.parametrize("address", NOWHERE)
def test_what_is_no_host_is_never_allowed(address: str) -> None:
    assert not is_unicast(address)


@pytest.mark.spec("API-184", "API-192")
@pytest.mark.parametrize(
    "url",
    [
        "http://public.example/x.png",
        "ftp://public.example/x.png",
        "//public.example/x.png",
        "public.example/x.png",
        "",
        "https:",
        "https:///x.png",
        "https://:443/",
        "https://user@public.example/",
        "https://user:secret@public.example/",
        "https://:secret@public.example/",
        "https://good.example@evil.example/",
        "https://public.example:0/",
        "https://public.example:65536/",
        "https://public.example:-1/",
        "https://public.example:x/",
        "https://public.example\\@evil.example/",
        "https://public.exam ple/",
        "https://public.example\r\nHost: x/",
        "https://public.example\x00/",
        "https://%6c%6fcalhost/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://127.0.0.1./",
        "https://017700000001/",
        "https://1.2.3.4.5/",
        "https://a.0x/",
        "https://[::1/",
        "https://[fe80::1%eth0]/",
        "https://[::1]x/",
        "https://[not-v6]/",
        "https://-x.example/",
        "https://x..example/",
        "https://" + "a" * 300 + "/",
        "https://public.example/" + "a" * 70_000,
        "https://\ud800.example/",
    ],
)
def test_urls_that_are_not_followed(url: str) -> None:
    with pytest.raises(BadImage) as bad:
        check_url(url)
    assert "example" not in str(bad.value)
    assert "secret" not in str(bad.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://public.example/a/b.png?x=1#y", "public.example"),
        ("HTTPS://PUBLIC.example:8443", "public.example"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("https://127.0.0.1/", "127.0.0.1"),  # refused by its address
        ("https://[::1]:8443/", "::1"),
        ("https://my_bucket.s3.example.com./x", "my_bucket.s3.example.com."),
        ("https://1.2.3.example/", "1.2.3.example"),
    ],
)
def test_urls(url: str, host: str) -> None:
    assert check_url(url).raw_host.decode() == host
