"""When a guard looks: at fixed counts of tokens, whatever the sizes of the rounds."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["first_pieces", "newest_check"]


def newest_check(count: int, first: int, every: int) -> int | None:
    """The newest of `first`, `first + every` … that `count` has reached: what is found depends on it alone."""
    return None if count < first else count - (count - first) % every


def first_pieces(pieces: Sequence[str], tokens: int, count: int) -> Sequence[str]:
    """The pieces of the first `count` of `tokens` tokens; where some came without a piece, as near as can be told."""
    return pieces[: max(0, len(pieces) - (tokens - count))]
