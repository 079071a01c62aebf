"""A mask over a fixed set of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["SetMask"]


@dataclass(frozen=True)
class SetMask:
    """Allows the same tokens everywhere; None allows all."""

    allowed: frozenset[int] | None

    def allows(self, path: Sequence[int], token: int) -> bool:
        return self.allowed is None or token in self.allowed

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        if self.allowed is None:
            return None
        return sum(1 << token for token in self.allowed).to_bytes(max(self.allowed, default=0) // 8 + 1, "little")

    def commit(self, ids: Sequence[int]) -> None:
        """Nothing moves."""

    def forced(self) -> tuple[int, ...]:
        return ()
