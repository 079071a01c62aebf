"""The dashboard's files over HTTP: what is served, with which headers, and that nothing else is."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
import trio.testing

import tandem
from tandem.secrets import Secrets
from tests.service.harness import open_harness

FOLDER = Path(tandem.__file__).parent / "http/dashboard"
MOST_BYTES = 150_000
SECRETS = Secrets(admin_token="a password of thirty-two characters")
REMOTE = {"peer": "192.0.2.7"}


def files() -> list[Path]:
    return [path for path in FOLDER.rglob("*") if path.is_file()]


@pytest.mark.spec("API-240", "OBS-073")
async def test_page_and_all_its_files_are_served(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        page = await harness.client.send("/dashboard/")
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        kinds = set()
        for path in files():
            call = await harness.client.send(f"/dashboard/{path.relative_to(FOLDER).as_posix()}")
            assert (call.status, call.body) == (200, path.read_bytes()), path
            assert call.headers["content-length"] == str(path.stat().st_size)
            kinds.add((path.suffix, call.headers["content-type"].partition(";")[0]))
    assert kinds == {
        (".html", "text/html"),
        (".css", "text/css"),
        (".js", "text/javascript"),
        (".svg", "image/svg+xml"),
    }


@pytest.mark.spec("API-240", "OBS-076", "API-022")
async def test_files_are_public_whatever_is_asked_for_elsewhere(autojump_clock: trio.testing.MockClock) -> None:
    """They hold no data. No path of theirs is a sign-in screen, and what they read stays open with the login off."""
    async with open_harness(secrets=SECRETS, dashboard_login=True, host="0.0.0.0") as harness:
        assert (await harness.client.send("/dashboard/", **REMOTE)).status == 200
        assert (await harness.client.send("/v1/dashboard/system", **REMOTE)).status == 401
        session = await harness.client.send("/v1/dashboard/session", **REMOTE)
        assert session.json == {"password_set": True, "login": True, "session_ends": None}
    async with open_harness(secrets=SECRETS, host="0.0.0.0") as harness:
        assert (await harness.client.send("/v1/dashboard/system", **REMOTE)).status == 200
        assert (await harness.client.send("/v1/dashboard/system", {}, method="PUT", **REMOTE)).status == 401


@pytest.mark.spec("API-240", "OBS-073")
@pytest.mark.parametrize("path", ["/", "/dashboard"])
async def test_redirect_is_relative(path: str, autojump_clock: trio.testing.MockClock) -> None:
    """`https://box/tandem/` behind a proxy leads to `https://box/tandem/dashboard/`."""
    async with open_harness() as harness:
        call = await harness.client.send(path)
        assert (call.status, call.headers["location"]) == (302, "dashboard/")


@pytest.mark.spec("API-240")
@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "js",
        "js/",
        "index.htm",
        "../routes/dashboard.py",
        "js/../../routes/dashboard.py",
        "..%2froutes%2fdashboard.py",
        "/etc/passwd",
        "js\\app.js",
        "app.css\0",
        "\u00e9.js",
    ],
)
async def test_other_paths_are_a_404_in_json(name: str, autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send(f"/dashboard/{name}")
        if call.status == 308:  # doubled slashes are merged before a route is looked for
            call = await harness.client.send("/dashboard/etc/passwd")
        assert call.status == 404
        assert call.json["error"]["type"] == "not_found"


async def test_nothing_can_be_written_there(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send("/dashboard/app.css", {}, method="PUT")
        assert call.status == 405


async def test_file_that_did_not_change_is_not_sent_again(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        first = await harness.client.send("/dashboard/app.css")
        assert first.headers["cache-control"] == "no-cache"
        etag = first.headers["etag"]
        again = await harness.client.send("/dashboard/app.css", headers={"if-none-match": etag})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        other = await harness.client.send("/dashboard/app.css", headers={"if-none-match": '"other"'})
        assert other.status == 200


async def test_files_are_sent_packed_to_who_takes_that(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        plain = await harness.client.send("/dashboard/app.css")
        packed = await harness.client.send("/dashboard/app.css", headers={"accept-encoding": "br, gzip;q=0.5"})
        refused = await harness.client.send("/dashboard/app.css", headers={"accept-encoding": "gzip;q=0"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body == refused.body
    assert len(packed.body) < len(plain.body) / 2
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert {"content-encoding"}.isdisjoint(plain.headers.keys() | refused.headers.keys())


async def test_policy_is_strict(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        headers = (await harness.client.send("/dashboard/")).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.spec("OBS-074")
async def test_page_is_small(autojump_clock: trio.testing.MockClock) -> None:
    """Every file there is, in the bytes that a browser is sent."""
    sent = 0
    async with open_harness() as harness:
        for path in files():
            name = path.relative_to(FOLDER).as_posix()
            call = await harness.client.send(f"/dashboard/{name}", headers={"accept-encoding": "gzip"})
            assert call.status == 200
            sent += len(call.body)
    assert sent < MOST_BYTES


@pytest.mark.spec("OBS-073")
def test_page_loads_nothing_from_elsewhere() -> None:
    """No other host, no address from the root, no markup made of strings, no style that the policy would refuse."""
    for path in files():
        source = path.read_text("utf-8")
        code = source.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert not re.search(r"""(src|href|from|import|url)\s*[=(:]?\s*["'(]*(https?:)?//\w""", code), path
        assert not re.search(r"""(src|href)=["']/""", code), path
        assert not re.search(r"\.(innerHTML|outerHTML|insertAdjacentHTML)\b|document\.write|\beval\(", code), path
        assert path.suffix != ".html" or not re.search(r"<style|\bstyle=|\bon\w+=|<script>", code), path
