"""A document's versions as files: what stands in them and how they are called (CFG-002).

`<kind>[/<name>]/v<number>.json` is one version, never written again; `current` beside it holds the number in use.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tandem.conductor.documents.parsing import DocumentError, convert

__all__ = [
    "CURRENT",
    "Version",
    "decode_current",
    "decode_version",
    "encode_current",
    "encode_version",
    "file_name",
    "number_of",
]

CURRENT = "current"
NAME = re.compile(r"v([1-9][0-9]{0,8})\.json")


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stored version."""

    version: int
    created: str
    """ISO 8601 with a time zone."""
    note: str
    body: dict[str, Any]
    restored_from: int | None = None


def file_name(number: int) -> str:
    return f"v{number}.json"


def number_of(name: str) -> int | None:
    """The version that a file of this name holds, None where it holds none."""
    found = NAME.fullmatch(name)
    return int(found[1]) if found else None


def encode_version(version: Version) -> bytes:
    """As a person may read and compare it."""
    return msgspec.json.format(msgspec.json.encode(version), indent=2) + b"\n"


def decode_version(raw: bytes, number: int) -> Version:
    """The version in the file of `number`. Raises `DocumentError`."""
    found: Version = convert(_decode(raw), Version)
    if found.version != number:
        raise DocumentError("version", f"the file of version {number} says {found.version}")
    return found


def encode_current(number: int) -> bytes:
    return b"%d\n" % number


def decode_current(raw: bytes) -> int:
    """Raises `DocumentError` for what is no number."""
    text = raw.strip()
    if not text.isdigit() or len(text) > 9:
        raise DocumentError("", f"{CURRENT} holds no version's number")
    return int(text)


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise DocumentError("", "the file is not valid JSON") from None
