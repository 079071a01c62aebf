"""The caches of a side slot: the state store of slot 0, and nothing else (ENG-160, SCH-052)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tandem.engine.caches.hoard import Hoard
from tandem.engine.caches.resident import Anchors, ResidentPrefix
from tandem.engine.caches.settings import NO_CACHES
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.state import State

__all__ = ["SideHoard"]


class SideHoard(Hoard):
    """Between two sequences nothing is resident: what the slot has read is in the store, for every slot's prompts."""

    def __init__(self, first: Hoard, state: State, resident: ResidentPrefix, grid: int) -> None:
        settings = replace(NO_CACHES, pinned=first._settings.pinned)
        super().__init__(
            state, resident, grid, settings, policy=first.policy.beside(), store=first._conversations.store
        )

    def close(self, keys: Sequence[int] | None, anchors: Anchors, keep: Callable[[], Recurrent], asks: bool) -> None:
        super().close(keys, anchors, keep, asks)
        self._conversations.leave()
