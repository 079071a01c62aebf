"""Version files and migrations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.conductor.documents import DocumentError
from tandem.conductor.documents.migrations import MIGRATIONS, Migration, migrate
from tandem.conductor.documents.versions import (
    Version,
    decode_current,
    decode_version,
    encode_current,
    encode_version,
    file_name,
    number_of,
)


@pytest.mark.spec("CFG-002")
def test_a_version_s_file() -> None:
    version = Version(version=3, created="2026-01-02T03:04:05+00:00", note="why", body={"ä": [1]})
    assert json.loads(encode_version(version)) == {
        "version": 3,
        "created": "2026-01-02T03:04:05+00:00",
        "note": "why",
        "body": {"ä": [1]},
    }
    assert decode_version(encode_version(version), 3) == version
    restored = Version(version=4, created="", note="n", body={}, restored_from=1)
    assert json.loads(encode_version(restored))["restored_from"] == 1
    assert (file_name(12), number_of("v12.json")) == ("v12.json", 12)
    for name in ("v0.json", "v01.json", "v1.json.tmp", "current", "v1", "v9999999999.json"):
        assert number_of(name) is None
    assert decode_current(encode_current(12)) == 12


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"[" * 5000, b"\xff", b'{"version": 1}', encode_version(Version(2, "", "", {})), b'{"body": 3}'],
)
def test_a_damaged_file_is_refused(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        decode_version(raw, 1)


@pytest.mark.parametrize("raw", [b"", b"x", b"-1", b"1.5", b"1" * 20])
def test_a_damaged_pointer_is_refused(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        decode_current(raw)


def stored(*bodies: dict[str, Any], note: str = "n") -> list[Version]:
    return [Version(at + 1, "", note, body) for at, body in enumerate(bodies)]


def same_call(body: Any) -> dict[str, Any] | None:
    return {**body, "toolgate": {**body.get("toolgate", {}), "same_call": "on"}}


def had_it_on(body: Any) -> bool:
    return bool(body.get("toolgate", {}).get("same_call") == "on")


LOOP_GUARD = Migration("coding-loop-guard", ("profiles/coding",), same_call, had_it_on)


@pytest.mark.spec("CFG-011", "CFG-012")
@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([{"mode": "on"}], {"mode": "on", "toolgate": {"same_call": "on"}}),
        ([{"toolgate": {"same_call": "off"}}], {"toolgate": {"same_call": "on"}}),
        ([{"toolgate": {"same_call": "on"}}, {"toolgate": {"same_call": "off"}}], None),
    ],
)
def test_a_migration_respects_its_exception(bodies: list[dict[str, Any]], expected: dict[str, Any] | None) -> None:
    versions = stored(*bodies)
    assert migrate(LOOP_GUARD, versions[-1], versions) == expected


@pytest.mark.spec("CFG-011", "CFG-012", "STA-050")
def test_a_value_that_an_operator_chose_survives() -> None:
    def off(body: Any) -> dict[str, Any] | None:
        return {**body, "ui": {"narrator": "off"}} if body.get("ui") == {"narrator": "on"} else None

    def deviates(body: Any) -> bool:
        return body.get("ui") not in (None, {"narrator": "on"})

    narrator = Migration("narrator-off", ("profiles/chat",), off, deviates)
    shipped, chosen = {"ui": {"narrator": "on"}}, {"ui": {"narrator": "live"}}
    assert migrate(narrator, stored(shipped)[0], stored(shipped)) == {"ui": {"narrator": "off"}}
    assert migrate(narrator, stored(chosen, shipped)[1], stored(chosen, shipped)) is None
    assert migrate(narrator, stored({})[0], stored({})) is None


@pytest.mark.spec("CFG-011")
def test_a_migration_runs_once_and_none_ships() -> None:
    versions = [
        *stored({"mode": "on"}),
        Version(2, "", LOOP_GUARD.note, {"mode": "on", "toolgate": {"same_call": "off"}}),
    ]
    assert migrate(LOOP_GUARD, versions[0], versions) is None
    assert MIGRATIONS == ()
