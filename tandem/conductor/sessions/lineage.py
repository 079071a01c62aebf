"""Which conversation goes on after a compaction: the one whose summary the new head holds (SES-006). Pure.

Only a hash of a summary's beginning is remembered, so the head is searched where one may begin: at a line's start.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

__all__ = ["possible_summaries", "summary_hash"]

BEGINNING = 200
"""Characters of a summary that name it."""
PLACES = 400
"""Lines of a message that are looked at: what a client puts before a summary is short."""
WRITTEN = re.compile(r"\S")


def summary_hash(summary: str) -> str | None:
    """What is remembered of a summary; None where it is too short to name a conversation."""
    beginning = summary.strip()[:BEGINNING]
    return _hash(beginning) if len(beginning) == BEGINNING else None


def possible_summaries(texts: Iterable[str]) -> frozenset[str]:
    """Hashes of all that may be a summary's beginning in `texts`."""
    return frozenset(_hash(text[at : at + BEGINNING]) for text in texts for at in _places(text))


def _places(text: str) -> Iterator[int]:
    at = 0
    for _ in range(PLACES):
        written = WRITTEN.search(text, at)
        if written is None or (at := written.start()) + BEGINNING > len(text):
            return
        yield at
        at = text.find("\n", at) + 1
        if not at:
            return


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
