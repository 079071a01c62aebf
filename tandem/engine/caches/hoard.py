"""All caches of one engine as one object, which the engine calls where its own work touches them (ENG-105 to ENG-133).

The buffer holds the rows of one conversation; `Conversations` knows where others are, `Shelf` what lies on the disk.
`open` looks through all of them for what brings a prompt furthest; `writing` is told of rows before they change;
`prompt_read` and `close` say what there is to keep. Whatever goes wrong here is a miss and costs time, never a token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import torch

from tandem.engine.caches.caching import CacheStats, MemoryView
from tandem.engine.caches.conversations import Conversations
from tandem.engine.caches.copies import Copied, Held
from tandem.engine.caches.disk import DiskTier
from tandem.engine.caches.disk_writes import WriteJob
from tandem.engine.caches.levels import levels_of
from tandem.engine.caches.opening import Opening, source_of
from tandem.engine.caches.policy import Policy
from tandem.engine.caches.prompts import Prompts
from tandem.engine.caches.resident import Anchor, Anchors, ResidentPrefix
from tandem.engine.caches.settings import NO_CACHES, CacheSettings
from tandem.engine.caches.shelf import Shelf
from tandem.engine.caches.sides import Side, Writing, side_stats, stats_of
from tandem.engine.caches.snapshots import StateStore
from tandem.engine.errors import EngineError
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.state import State
from tandem.engine.text.replay import Written

__all__ = ["Hoard"]


class Hoard:
    """`sides` are caches by the name that clears them. Without a `fingerprint` nothing is written to a disk."""

    def __init__(
        self,
        state: State,
        resident: ResidentPrefix,
        grid: int,
        settings: CacheSettings = NO_CACHES,
        fingerprint: str = "",
        policy: Policy | None = None,
        sides: Mapping[str, Side] | None = None,
        *,
        store: StateStore[Copied] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`store` is slot 0's where this is a side slot's."""
        self._state = state
        self._resident = resident
        self._settings = settings
        self._policy = policy or Policy()
        self._shelf = Shelf(state, grid, settings, fingerprint, clock()) if fingerprint else None
        self._sides = dict(sides or {})
        self._clock = clock
        self._conversations = Conversations(state, resident, grid, settings, self._policy.may_grow, store)
        self._prompts = Prompts()
        self._running: Anchors | None = None
        self._lent: Held | None = None
        self._policy.over(levels_of(self._conversations, lambda: self._running))

    def open(self, keys: tuple[int, ...], head: int) -> Opening:
        """Where a prompt of these key ids goes on; its rows up to there are in the buffer. `head` rows are its head."""
        try:
            with torch.inference_mode():
                opening = self._opened(keys, head)
        except (RuntimeError, MemoryError):
            self._lose_buffer()
            opening = Opening(self._resident.taken_up(()))
        self._conversations.moved = False
        self._running = opening.anchors
        self._prompts.asked(len(keys))
        return opening

    def lost(self) -> None:
        """The buffer is another one, with nothing in it; a sequence or a loan over the old one is over."""
        self._running, self._lent = None, None
        self._lose_buffer()

    def conversation(self) -> tuple[Sequence[int], int]:
        """Ids of the conversation that goes on from the buffer, the one under a guest if there is one, and how many
        rows its last prompt had.
        """
        stash = self._conversations.stash
        held = self._lent or (self._resident.held if stash is None else stash.held)
        return held[0], self._prompts.of(held)

    def written(self) -> tuple[Written, ...]:
        return tuple(self._conversations.written())

    @property
    def hosts(self) -> bool:
        """Whether a guest lies over a conversation."""
        return self._conversations.stash is not None

    def admit(self, rows: int, resumed: int) -> None:
        """A prompt is about to be read (ENG-125)."""
        self._policy.admit(rows, resumed, self._clock())

    def writing(self, start: int, end: int) -> None:
        """Rows from `start` to below `end` are about to be overwritten. Of a loan's rows there is a copy."""
        if self._lent:
            return
        self._conversations.writing(end)
        if self._shelf is not None:
            self._shelf.overwritten(start)

    def prompt_read(self, keys: tuple[int, ...], anchors: Anchors) -> None:
        """All of a prompt is in the buffer."""
        self._policy.was_read()
        if self._shelf is not None and not self._lent:
            self._shelf.plan(keys, anchors.all)

    def close(self, keys: Sequence[int] | None, anchors: Anchors, keep: Callable[[], Recurrent], asks: bool) -> None:
        """A sequence ends with rows of `keys` in the buffer; None: with rows that are not to be trusted.

        Where it wrote none, what was resident before still is. One that `asks` is no conversation's end (RTR-021).
        """
        self._running = None
        if keys is None:
            self._overwritten()
        elif not self._resident.rows:
            self._resident.keep(keys, anchors, keep())
            self._prompts.left(self._resident.held)
            if self._shelf is not None and not asks:
                self._shelf.ended(*self._resident.held)

    def lend(self) -> Held:
        """The buffer is a guest's until `take_back` (ENG-138)."""
        self._lent = self._resident.lend()
        return self._lent

    def take_back(self, held: Held) -> None:
        self._lent = None
        self._resident.take_back(held)

    def upkeep(self, now: float) -> WriteJob | None:
        """See `Caching`."""
        self._policy.settle(now)
        try:
            with torch.inference_mode():
                return None if self._shelf is None else self._shelf.upkeep(self._conversations.stash)
        except (RuntimeError, MemoryError):
            self._overwritten()  # there is no memory for a copy, so nothing of it is written
            return None

    def kept(self, job: WriteJob, outcome: int | OSError, now: float) -> None:
        if self._shelf is not None:
            self._shelf.kept(job, outcome, now)

    @property
    def tier(self) -> DiskTier | None:
        return None if self._shelf is None else self._shelf.tier

    def resize(self, settings: CacheSettings) -> None:
        """Other budgets, at once; the disk's are `configure`'s (ENG-132)."""
        self._settings = settings
        self._conversations.resize(settings)

    def spill(self) -> Mapping[str, int]:
        """See `Caching`. Of a guest and what it came upon the longer one is resident then."""
        if self._shelf is None or self._settings.spill_folder is None:
            return {}
        with torch.inference_mode():
            self._conversations.part()
            resident = self._conversations.view_of(self._resident.held) if self._resident.rows else None
            told = self._shelf.spill("resident", resident)
            return {**told, **self._shelf.spill("parked", self._conversations.parked)}

    def read_spill(self) -> None:
        """What the last drain wrote is there again. The parked one passes through the buffer."""
        if self._shelf is None:
            return
        with torch.inference_mode():
            if (parked := self._shelf.read_spill("parked")) is not None and self._settings.park:
                self._conversations.parked = self._conversations.copy_of((parked.ids, parked.anchors))
            if (resident := self._shelf.read_spill("resident")) is not None:
                self._resident.take_back((resident.ids, resident.anchors))

    def leave(self) -> None:
        """Give up the folders' locks."""
        if self._shelf is not None:
            self._shelf.close()

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        """See `Caching`; the engine has looked that no sequence is open."""
        there = self.caches()
        if unknown := sorted(set(caches or ()) - set(there)):
            raise EngineError(f"no cache is called {unknown[0]}; there is: {', '.join(there)}")
        return {name: self._cleared(name) for name in (there if caches is None else caches)}

    def caches(self) -> Mapping[str, CacheStats]:
        """See `Caching`."""
        counts, settings = self.state(), self._settings
        stats = {name: side_stats(name, side.state()) for name, side in self._sides.items()}
        stats["resident"] = CacheStats(
            hits=counts["resident_hits"],
            misses=counts["resident_misses"],
            entries=counts["resident_anchors"],
            bytes=counts["resident_bytes"],
        )
        if self._conversations.store is not None:
            stats["sessions"] = stats_of(counts, "state_store_", settings.store)
        if settings.park:
            stats["parked"] = stats_of(counts, "parked_", settings.park, entries=int(counts["parked_rows"] > 0))
        if self.tier is not None:
            stats["disk"] = stats_of(counts, "disk_", self.tier.settings.budget)
        return dict(sorted(stats.items()))

    @property
    def policy(self) -> Policy:
        return self._policy

    def memory(self) -> MemoryView:
        """See `Caching`."""
        troubles = (side.trouble for side in self._sides.values() if isinstance(side, Writing))
        shelved = () if self._shelf is None else self._shelf.notes
        return self._policy.view((*shelved, *(trouble for trouble in troubles if trouble)))

    def state(self) -> Mapping[str, int]:
        """Plain counters; from any thread."""
        return {
            **self._resident.state(),
            "resident_bytes": self._held(),
            **self._conversations.state(),
            **({} if self._shelf is None else self._shelf.state()),
        }

    def _opened(self, keys: tuple[int, ...], head: int) -> Opening:
        conversations = self._conversations
        conversations.heads.saw(keys, head)
        if self._shelf is not None:
            self._shelf.saw(keys)
        swapped = conversations.place(keys)
        if conversations.moved:
            self._overwritten()
        pinned = conversations.heads.pinned(keys)
        anchors = self._resident.resume(keys, pinned)
        source = source_of(anchors.last) if not swapped else "parked"
        found = Opening(anchors, source, 0 if conversations.moved else anchors.newest)
        return self._from_disk(keys, self._from_store(keys, found), pinned)

    def _from_store(self, keys: tuple[int, ...], found: Opening) -> Opening:
        if (kept := self._conversations.find(keys, found.row)) is None:
            return found
        self.writing(0, kept.row)
        self._conversations.load(kept.snapshot)
        return Opening(self._resident.taken_up(kept.snapshot.anchors, found.anchors.pinned), "store")

    def _from_disk(self, keys: tuple[int, ...], found: Opening, pinned: frozenset[int]) -> Opening:
        """Files of bit class continue rows of bit class, an end continues any; what stands above those is given up."""
        have = found.exact
        if self._shelf is None or (reach := self._shelf.reach(keys, have, found.row)) <= found.row:
            return found
        self.writing(have, reach)
        restored = self._shelf.read(keys, have, found.row, self._clock())
        start = have if restored is None else restored.start
        known = [anchor for anchor in found.anchors.all if anchor.row <= start]
        source = source_of(known[-1] if known else None)
        if restored is not None:
            known.append(Anchor(restored.row, restored.exactness, restored.recurrent))
            source = "disk" if restored.exactness == "bit" else "disk_end"
        return Opening(self._resident.taken_up(known, pinned), source, min(found.valid, start))

    def _cleared(self, name: str) -> int:
        if self._shelf is not None and name in ("resident", "parked", "disk"):
            self._shelf.discard_spill()
        match name:
            case "resident":
                held = self._held() + self._conversations.drop_stash()
                self._resident.drop()
                self._overwritten()
                return held
            case "parked":
                return self._conversations.drop_parked()
            case "sessions":
                return 0 if self._conversations.store is None else self._conversations.store.clear()
            case "disk":
                return 0 if self._shelf is None else self._shelf.clear()
            case _:
                return self._sides[name].clear()

    def _overwritten(self) -> None:
        """The buffer holds other rows than those that were to be written to the disk."""
        if self._shelf is not None:
            self._shelf.overwritten(0)

    def _lose_buffer(self) -> None:
        self._conversations.lose_buffer()
        self._overwritten()

    def _held(self) -> int:
        """Bytes that the resident prefix uses."""
        state = self._state
        return self._resident.rows * state.bytes_per_token + self._resident.anchors_held * state.bytes_per_anchor
