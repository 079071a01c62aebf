"""What of an engine's caches the memory gate may give up, level by level (ENG-126)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tandem.engine.caches.conversations import Conversations
from tandem.engine.caches.gate import Level
from tandem.engine.caches.resident import Anchor, Anchors

__all__ = ["levels_of"]


def levels_of(conversations: Conversations, running: Callable[[], Anchors | None]) -> tuple[Level, ...]:
    """`running` gives the anchors of the sequence that is open. The one at which it was taken up stays, as do its rows
    and the stash beneath it.
    """
    resident = conversations.resident

    def recurrent(nbytes: int, chosen: Callable[[tuple[Anchor, ...], frozenset[int]], Iterable[Anchor]]) -> int:
        live = running()
        ids, anchors = resident.held
        pinned = conversations.heads.pinned(ids)
        if live is not None:
            anchors, pinned = live.all[:-1], live.pinned
        given, rows = 0, list[int]()
        for anchor in chosen(anchors, pinned):
            if given >= nbytes:
                break
            given += anchor.recurrent.nbytes
            rows.append(anchor.row)
        if given:
            resident.give_up(rows)
            if live is not None:
                live.give_up(rows)
        return given

    def lines(anchors: tuple[Anchor, ...], pinned: frozenset[int]) -> Iterable[Anchor]:
        newest = -1 if running() is None else len(anchors)  # the end is a level of its own
        return (anchor for anchor in anchors[:newest] if anchor.row not in pinned)

    def end(anchors: tuple[Anchor, ...], pinned: frozenset[int]) -> Iterable[Anchor]:
        return () if running() is not None else (each for each in anchors[-1:] if each.row not in pinned)

    def heads(anchors: tuple[Anchor, ...], pinned: frozenset[int]) -> Iterable[Anchor]:
        return (anchor for anchor in anchors if anchor.row in pinned)

    def parked(nbytes: int) -> int:
        return conversations.drop_parked()

    def stash(nbytes: int) -> int:
        return conversations.drop_stash() if running() is None else 0

    levels = [
        Level("grid_anchors", lambda nbytes: recurrent(nbytes, lines)),
        Level("end_anchor", lambda nbytes: recurrent(nbytes, end)),
        Level("stash", stash),
        Level("parked", parked),
        Level("pinned", lambda nbytes: recurrent(nbytes, heads)),
    ]
    if (store := conversations.store) is not None:
        levels.append(Level("state_store", store.shed))
    return tuple(levels)
