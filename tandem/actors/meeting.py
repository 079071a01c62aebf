"""The meeting of the slots that decode: who belongs to it, whose block is in, when a round starts (SCH-064 to SCH-068).

Plain decisions over the times it is given. Seconds throughout.
1. A slot is a member from the block it hands in until it leaves; between two rounds members are waited for.
2. A round takes every block once all members have handed in, or once the GPU turn has been unused for the timeout:
   members that are late then are members no more, until their next block.
3. What a round takes may be one block: its slot decodes alone.
"""

from __future__ import annotations

import math
from typing import Generic, TypeVar

__all__ = ["Meeting"]

T = TypeVar("T")


class Meeting(Generic[T]):
    """Members by slot number, and the blocks `T` that wait."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout = timeout_s
        self._members: set[int] = set()
        self._blocks: dict[int, T] = {}

    @property
    def members(self) -> frozenset[int]:
        return frozenset(self._members)

    @property
    def late(self) -> frozenset[int]:
        """Members whose block is not in."""
        return frozenset(self._members - self._blocks.keys())

    @property
    def has_blocks(self) -> bool:
        return bool(self._blocks)

    def hand_in(self, slot: int, block: T) -> None:
        self._members.add(slot)
        self._blocks.pop(slot, None)  # the newest is the last
        self._blocks[slot] = block

    def leave(self, slot: int) -> None:
        self._members.discard(slot)
        self._blocks.pop(slot, None)

    def due(self, unused_since: float) -> float:
        """When a round starts that not all have handed in for; `unused_since` is when the GPU turn became free."""
        return unused_since + self._timeout if self.late else -math.inf

    def take(self, now: float, unused_since: float) -> dict[int, T] | None:
        """The blocks of a round that starts now, in the order they came in; None while it waits for somebody.

        Empty: those who were waited for have not come, and the meeting is over.
        """
        if now < self.due(unused_since):
            return None
        self._members &= self._blocks.keys()
        taken, self._blocks = self._blocks, {}
        return taken

    def __repr__(self) -> str:
        return f"<Meeting of {sorted(self._members)}, blocks of {sorted(self._blocks)}>"
