"""Documents that tests start from."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from tandem.conductor.documents import DocumentKey, Documents, Profile, parse, shipped_documents
from tandem.conductor.documents.documents import split_key

__all__ = ["documents", "shipped"]


@cache
def _shipped() -> dict[DocumentKey, dict[str, Any]]:
    return shipped_documents()


def shipped(key: DocumentKey, **changes: Any) -> dict[str, Any]:
    """A shipped body of one's own, with other values at its top."""
    return {**copy.deepcopy(_shipped()[key]), **changes}


@cache
def documents() -> Documents:
    """What a new install serves."""
    bodies = {key: parse(split_key(key)[0], body) for key, body in _shipped().items()}
    profiles = {key.partition("/")[2]: body for key, body in bodies.items() if isinstance(body, Profile)}
    rest: dict[str, Any] = {key: body for key, body in bodies.items() if "/" not in key}
    versions = {"monitor": 0, **dict.fromkeys(bodies, 1)}
    return Documents(profiles=profiles, monitor=None, versions=versions, **rest)
