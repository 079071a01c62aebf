"""The state store: whole snapshots of sequences by their key ids, one LRU under one byte budget (ENG-114, ENG-115).

Snapshots at grid lines that a prefill wrote are for every prompt with that prefix and bit class; those at a prompt's
end or an answer's are for the session's next turn and text class (ENG-073). What a snapshot holds is its maker's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from tandem.engine.caches.resident import Exactness

__all__ = ["Kept", "StateStore", "Use"]

T = TypeVar("T")
Use: TypeAlias = Literal["prefix", "session"]

_SHARE: Final = 4
"""No snapshot takes more than this part of the budget: one long conversation must not cost all others theirs."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """A snapshot that reads on behind `ids`."""

    ids: tuple[int, ...] = field(repr=False)
    use: Use
    nbytes: int
    snapshot: T = field(repr=False)

    @property
    def row(self) -> int:
        return len(self.ids)

    @property
    def exactness(self) -> Exactness:
        return "bit" if self.use == "prefix" else "text"


class StateStore(Generic[T]):
    """At most `budget` bytes of snapshots. `may_grow` is the memory policy's word on so many more bytes (ENG-129)."""

    def __init__(
        self,
        budget: int,
        *,
        prefix: bool = True,
        session: bool = True,
        may_grow: Callable[[int], bool] = lambda nbytes: True,
    ) -> None:
        self._budget = budget
        self._uses = {use for use, on in (("prefix", prefix), ("session", session)) if on}
        self._may_grow = may_grow
        self._kept: OrderedDict[tuple[int, ...], Kept[T]] = OrderedDict()
        self._bytes = 0
        self._counts = dict.fromkeys(("hits", "misses", "saved_tokens", "evictions", "refused"), 0)

    @property
    def nbytes(self) -> int:
        return self._bytes

    @property
    def snapshots(self) -> tuple[T, ...]:
        """All of them, the longest unused first."""
        return tuple(kept.snapshot for kept in self._kept.values())

    def find(self, ids: tuple[int, ...], beyond: int = 0) -> Kept[T] | None:
        """The longest snapshot that a prompt of `ids` can read on behind, longer than `beyond` rows.

        All its ids are compared (ENG-105), and the last token is left to be read. It counts as used now.
        """
        best: Kept[T] | None = None
        for kept in self._kept.values():
            row = kept.row
            longer = row > (beyond if best is None else best.row)
            # Most entries end in another token: only the others are compared whole.
            if longer and row < len(ids) and kept.ids[-1] == ids[row - 1] and kept.ids == ids[:row]:
                best = kept
        if best is None:
            self._counts["misses"] += 1
            return None
        self._kept.move_to_end(best.ids)
        self._counts["hits"] += 1
        self._counts["saved_tokens"] += best.row - beyond
        return best

    def put(self, ids: tuple[int, ...], use: Use, nbytes: int, make: Callable[[], T]) -> bool:
        """Keep what `make` copies, which takes `nbytes`; whether it is there now. Room is made before it is called."""
        if use not in self._uses or not ids:
            return False
        there = self._kept.get(ids)
        if there is not None and (there.use == "prefix" or use == "session"):
            self._kept.move_to_end(ids)
            return True
        if nbytes > self._budget // _SHARE:
            self._counts["refused"] += 1
            return False
        self._remove(ids)
        self._evict(self._budget - nbytes)
        if not self._may_grow(nbytes):
            self._counts["refused"] += 1
            return False
        self._kept[ids] = Kept(ids, use, nbytes, make())
        self._bytes += nbytes
        return True

    def resize(self, budget: int) -> int:
        """Another budget, at once: the bytes given up for it."""
        self._budget = budget
        return self._evict(budget)

    def shed(self, nbytes: int) -> int:
        """Give up at least so many bytes, the longest unused first, where there are as many: how many were."""
        return self._evict(max(self._bytes - nbytes, 0))

    def clear(self) -> int:
        """Forget everything: the bytes given up."""
        held, self._bytes = self._bytes, 0
        self._kept.clear()
        return held

    def state(self) -> Mapping[str, int]:
        """What is held now, and what has come of it since the load."""
        held = {"bytes": self._bytes, "budget_bytes": self._budget, "entries": len(self._kept)}
        return {f"state_store_{name}": count for name, count in (held | self._counts).items()}

    def _evict(self, limit: int) -> int:
        before = self._bytes
        while self._bytes > limit:
            self._remove(next(iter(self._kept)))
            self._counts["evictions"] += 1
        return before - self._bytes

    def _remove(self, ids: tuple[int, ...]) -> None:
        if (kept := self._kept.pop(ids, None)) is not None:
            self._bytes -= kept.nbytes
