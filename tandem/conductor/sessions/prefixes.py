"""Conversations without an id, told apart by how their prompts begin, where no router does it (MON-139, MON-140).

A turn's prompt goes on where the one before it ended its last turn, so that prompt's beginning is looked for in the new
one, its first tokens at most. A compaction has another beginning: it belongs to its sender's newest conversation, and
so does the first prompt behind it that nobody knows.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.engine.text.prompt import Prompt

__all__ = ["PREFIX", "Prefixes"]

PREFIX: Final = "p:"
KEPT: Final = 1_000
HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class _Seen:
    client: str
    at: float
    length: int
    digest: str


class Prefixes:
    """The newest conversations. `client` is who sends, and with what kind of client."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._compacted: dict[str, str] = {}
        """By client, the conversation that its next unknown prompt goes on with."""

    def key(
        self, prompt: Prompt, client: str, now: float, *, tokens: int, window_s: float, is_compaction: bool = False
    ) -> str:
        """The key of the prompt's session. `tokens` of its beginning count, and it is continued for `window_s`."""
        length = min(tokens, prompt.turn_ends[-1] + 1 if prompt.turn_ends else len(prompt.ids))
        digest = _digest(prompt.ids, length)
        newest = (key for key, seen in reversed(self._seen.items()) if seen.client == client)
        if is_compaction and (key := next(newest, None)) is not None:
            self._compacted[client] = key
            self._remember(key, self._seen[key].length, self._seen[key].digest, client, now)
            return key
        found = self._known(prompt.ids, length, client, now - window_s)
        if found is None:
            found = self._compacted.pop(client, None) or f"{PREFIX}{digest}"
        self._remember(found, length, digest, client, now)
        return found

    def _known(self, ids: Sequence[int], length: int, client: str, since: float) -> str | None:
        """The newest conversation of the client whose prompt these ids begin with."""
        mine = [
            (key, seen)
            for key, seen in reversed(self._seen.items())
            if seen.client == client and seen.at >= since and seen.length <= length
        ]
        digests = _digests(ids, {seen.length for _, seen in mine})
        return next((key for key, seen in mine if digests[seen.length] == seen.digest), None)

    def _remember(self, key: str, length: int, digest: str, client: str, now: float) -> None:
        self._seen[key] = _Seen(client, now, length, digest)
        self._seen.move_to_end(key)
        while len(self._seen) > self._kept:
            gone, _ = self._seen.popitem(last=False)
            self._compacted = {client: key for client, key in self._compacted.items() if key != gone}


def _digest(ids: Sequence[int], length: int) -> str:
    return _digests(ids, {length})[length]


def _digests(ids: Sequence[int], lengths: Collection[int]) -> dict[int, str]:
    """Of the beginnings of these lengths, in one way through the longest."""
    found: dict[int, str] = {}
    digest, at = hashlib.sha256(), 0
    for length in sorted(lengths):
        digest.update(array("q", ids[at:length]).tobytes())
        found[length], at = digest.copy().hexdigest()[:HASH_DIGITS], length
    return found
