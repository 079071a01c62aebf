"""How much of a text is new, by short sequences of token ids: against itself (D1) and against earlier texts (D1b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

__all__ = ["HASHED", "MOST_HASHES", "fresh_share", "rare_share", "sequence_hashes", "shared_share"]

Ids: TypeAlias = tuple[int, ...]
HASHED: Final = 8
"""Ids in a sequence whose hash is kept (MON-047)."""
MOST_HASHES: Final = 32_768
"""That a session is to keep; about 260,000 tokens of reasoning."""
_KEPT_OF: Final = 8
"""One hash of so many is kept, chosen by its own value: the same sequence is kept on both sides, or on neither."""
_FEWEST: Final = 16
"""With fewer kept sequences in a window its share tells nothing."""


def fresh_share(ids: Sequence[int], window: int, length: int, memory: int) -> float:
    """Share of the newest `window` ids at which a sequence of `length` ids ends that never stood before: neither in the
    `memory` ids ahead of the window nor in the window so far.
    """
    newest, before = _parts(ids, window, length, memory)
    return len(set(newest).difference(before)) / window


def rare_share(ids: Sequence[int], window: int, length: int, memory: int, often: int) -> float:
    """The same for sequences that stood there fewer than `often` times: a second draft of a text is none of them."""
    newest, before = _parts(ids, window, length, memory)
    seen = Counter(before)
    rare = 0
    for sequence in newest:
        rare += seen[sequence] < often
        seen[sequence] += 1
    return rare / window


def sequence_hashes(ids: Sequence[int]) -> frozenset[int]:
    """What is remembered of a finished reasoning: hashes of some of its sequences, and no id."""
    return frozenset(_kept_hashes(ids))


def shared_share(ids: Sequence[int], window: int, earlier: Collection[int]) -> float:
    """Share of the newest `window` ids' sequences that `earlier` has; 0.0 where too few can be compared."""
    found = list(_kept_hashes(ids[-window:])) if earlier and len(ids) >= window else []
    return sum(each in earlier for each in found) / len(found) if len(found) >= _FEWEST else 0.0


def _parts(ids: Sequence[int], window: int, length: int, memory: int) -> tuple[Iterator[Ids], Iterator[Ids]]:
    start = len(ids) - window
    newest = _sequences(ids, max(0, start - length + 1), len(ids), length)
    return newest, _sequences(ids, max(0, start - memory), start, length)


def _sequences(ids: Sequence[int], start: int, end: int, length: int) -> Iterator[Ids]:
    part = ids[start:end]
    return zip(*(part[skip:] for skip in range(length)), strict=False)


def _kept_hashes(ids: Sequence[int]) -> Iterator[int]:
    # The hash of a tuple of integers is the same in every run of one Python.
    hashes = map(hash, _sequences(ids, 0, len(ids), HASHED))
    return (each for each in hashes if each % _KEPT_OF == 0)
