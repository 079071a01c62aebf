"""The documents of a new install: package data, never edited in place (CFG-001, PRF-023).

A package without `text` and `source` in `shipped/packages.json` has its text in `conductor/packages/texts/<name>.md`.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from tandem.conductor.documents.documents import PROFILES, DocumentKey

__all__ = ["NOTE", "shipped_documents"]

NOTE = "as shipped"
"""The note of a version that a start has stored."""
CONDUCTOR = files("tandem.conductor")


def shipped_documents() -> dict[DocumentKey, dict[str, Any]]:
    """Every shipped document by its key: the JSON object a new install stores as version 1."""
    folder = CONDUCTOR / "documents" / "shipped"
    found = {_stem(one): _read(one) for one in folder.iterdir() if one.is_file()}
    found |= {f"{PROFILES}/{_stem(one)}": _read(one) for one in (folder / PROFILES).iterdir()}
    for package in found["packages"]["packages"]:
        if not {"text", "source"} & set(package):
            package["text"] = (CONDUCTOR / "packages" / "texts" / f"{package['name']}.md").read_text("utf-8")
    return dict(sorted(found.items()))


def _stem(entry: Traversable) -> str:
    return entry.name.removesuffix(".json")


def _read(entry: Traversable) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(entry.read_bytes())
    return found
