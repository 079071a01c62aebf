"""The conversations an engine holds: one in the buffer, one under a guest, one parked, and snapshots of others.

`decide` says what becomes of the one in the buffer when a prompt comes; here its rows are moved. What loses its place
goes down to the state store, and what does not fit there is gone (ENG-109, ENG-113, ENG-114).

A guest stays over the conversation it came upon until another prompt comes. If that is the guest's own next turn, the
conversation waits on; a guest that outgrows `guest_max` has become a conversation, and the one beneath is parked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tandem.engine.caches.copies import Copied, Held, newest, usable
from tandem.engine.caches.heads import Heads
from tandem.engine.caches.places import Conversation, Guest, InPlace, PlaceRules, Prompted, TakeOver, decide
from tandem.engine.caches.resident import Anchor, ResidentPrefix
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.caches.snapshots import Kept, StateStore, Use
from tandem.engine.caches.stash import Stash
from tandem.engine.models.state import State
from tandem.engine.text.replay import Written

__all__ = ["Conversations"]


class Conversations:
    """`may_grow` is the memory policy's word on so many more bytes (ENG-129)."""

    def __init__(
        self,
        state: State,
        resident: ResidentPrefix,
        grid: int,
        settings: CacheSettings,
        may_grow: Callable[[int], bool],
        store: StateStore[Copied] | None = None,
    ) -> None:
        """`store`: one that is there already, for a side slot (ENG-160)."""
        self._kv = state.kv
        self._may_grow = may_grow
        self._rules = PlaceRules(
            grid=grid,
            bytes_per_token=state.bytes_per_token,
            guest_max=settings.guest_max,
            stash=settings.stash or 0,
            park=settings.park or 0,
        )
        self.resident = resident
        self.heads = Heads(grid, settings.pinned)
        self.stash: Stash | None = None
        self.parked: Copied | None = None
        self.store = store
        if settings.store and (settings.prefix_cache or settings.session_cache):
            self.store = StateStore(
                settings.store, prefix=settings.prefix_cache, session=settings.session_cache, may_grow=may_grow
            )
        self.moved = False
        """Whether the buffer's rows are others than the last sequence left there."""
        self.counts = dict.fromkeys(
            (
                "resident_guests",
                "stash_cuts",
                "parked_hits",
                "parked_misses",
                "parked_saved_tokens",
                "parked_evictions",
            ),
            0,
        )

    def place(self, keys: tuple[int, ...]) -> bool:
        """Make place for a prompt; whether a parked conversation came back for it."""
        if self.stash is not None and self._goes_on_as_guest(keys):
            return False
        resident, parked = _seen(self.resident.held, keys), _seen(self._parked_held, keys)
        if self.parked is not None and resident.resumes == 0:
            self.counts["parked_misses"] += parked.resumes == 0
        match decide(Prompted(len(keys), 0, resident, parked), self._rules):
            case Guest():
                self.stash = Stash(self.resident.lend(), self._kv, self._rules.stash, self._may_grow)
                self.counts["resident_guests"] += 1
            case TakeOver(park, swap):
                self._take_over(park=park, swap=swap)
                self.counts["parked_saved_tokens"] += parked.resumes if swap else 0
                return swap
            case InPlace():
                pass
        return False

    def writing(self, end: int) -> None:
        """Rows below `end` are about to be overwritten."""
        self.resident.drop()
        if self.stash is not None:
            self.stash.writing(end)

    def put_back(self) -> None:
        """The guest is gone, and what it came upon is in the buffer again."""
        if (stash := self.stash) is None:
            return
        self.stash = None
        self._store_resident()
        self.counts["stash_cuts"] += stash.cuts
        self.resident.take_back(stash.put_back())
        self.moved = True

    def written(self) -> Iterator[Written]:
        """Where sessions' answers ended, of all conversations that are held in memory (ENG-111)."""
        held = [self.resident.held, self._parked_held]
        held += [] if self.stash is None else [self.stash.held]
        held += [] if self.store is None else [(each.ids, each.anchors) for each in self.store.snapshots]
        for ids, anchors in held:
            yield from (Written(ids[: each.row], each.whose) for each in anchors if each.whose is not None)

    def part(self) -> None:
        """No prompt comes any more: the longer of guest and conversation has the buffer, and the other makes place."""
        if self.stash is not None and self.resident.rows > self.stash.rows:
            self._host_guest()
        else:
            self.put_back()

    def leave(self) -> None:
        """What is in the buffer goes to the state store, and nothing is resident."""
        self._store_resident()
        self.resident.drop()

    def lose_buffer(self) -> None:
        """Nobody knows what the buffer holds."""
        self.resident.drop()
        self.stash, self.moved = None, True

    def find(self, keys: tuple[int, ...], beyond: int) -> Kept[Copied] | None:
        """The longest snapshot of more than `beyond` rows that a prompt goes on from."""
        return None if self.store is None else self.store.find(keys, beyond)

    def load(self, copied: Copied) -> None:
        """Into the buffer; whoever calls has told of the rows."""
        self._kv.load(copied.rows)
        self.moved = True

    def copy_of(self, held: Held) -> Copied:
        """Of the conversation in the buffer, with the anchors that go with it."""
        ids, anchors = held
        return Copied(ids, newest(anchors, self.heads.pinned(ids)), self._kv.copy(len(ids)))

    def view_of(self, held: Held) -> Copied:
        """The same where it lies."""
        return Copied(*held, self._kv.span(0, len(held[0])))

    def resize(self, settings: CacheSettings) -> None:
        """Other budgets; what is above them goes (ENG-132)."""
        stash, park = settings.stash or 0, settings.park or 0
        self._rules = replace(self._rules, guest_max=settings.guest_max, stash=stash, park=park)
        if self.store is not None:
            self.store.resize(settings.store or 0)
        if self.parked is not None and self.parked.nbytes > park:
            self.counts["parked_evictions"] += 1
            self.drop_parked()
        if self.stash is not None and self.stash.nbytes > stash:
            self.drop_stash()

    def drop_parked(self) -> int:
        """The bytes given up."""
        given, self.parked = 0 if self.parked is None else self.parked.nbytes, None
        return given

    def drop_stash(self) -> int:
        """Keep the guest in the place of what it came upon: the bytes given up."""
        given, self.stash = 0 if self.stash is None else self.stash.nbytes, None
        return given

    def state(self) -> Mapping[str, int]:
        """Counters; of the parked one and of the one under a guest what they take."""
        stash, parked = self.stash, self.parked  # one look: the engine's thread may move them meanwhile
        return {
            **self.counts,
            "parked_bytes": 0 if parked is None else parked.nbytes,
            "parked_rows": 0 if parked is None else len(parked.ids),
            "stash_bytes": 0 if stash is None else stash.nbytes,
            "stash_budget_bytes": self._rules.stash,
            **({} if self.store is None else self.store.state()),
        }

    @property
    def _parked_held(self) -> Held:
        return ((), ()) if self.parked is None else (self.parked.ids, self.parked.anchors)

    def _goes_on_as_guest(self, keys: tuple[int, ...]) -> bool:
        """Whether a prompt is the guest's next turn. If not, the guest makes place."""
        assert self.stash is not None
        others = max(_seen(held, keys).resumes for held in (self.stash.held, self._parked_held))
        if _seen(self.resident.held, keys).resumes <= others:
            self.put_back()
            return False
        if len(keys) > self._rules.guest_max:
            self._host_guest()
        return True

    def _host_guest(self) -> None:
        """The guest keeps the buffer, and what it came upon is parked."""
        stash, self.stash = self.stash, None
        if stash is not None and stash.held[1] and self._fits(stash.rows * self._rules.bytes_per_token):
            self._park(stash.copied())

    def _take_over(self, *, park: bool, swap: bool) -> None:
        """Another conversation gets the buffer: the parked one if `swap`."""
        out, held = None, self.resident.held
        if park and held[1] and self._fits(len(held[0]) * self._rules.bytes_per_token):
            out = self.copy_of(held)
        else:
            self._store_resident()
        if swap and self.parked is not None:
            back, self.parked = self.parked, None
            self.load(back)
            self.resident.take_back((back.ids, back.anchors))
            self.counts["parked_hits"] += 1
        if out is not None:
            self._park(out)

    def _fits(self, nbytes: int) -> bool:
        return nbytes <= self._rules.park and self._may_grow(nbytes)

    def _park(self, copied: Copied) -> None:
        if self.parked is not None:
            self.counts["parked_evictions"] += 1
            self._store(self.parked, in_place=True)
        self.parked = copied

    def _store_resident(self) -> None:
        if self.resident.rows:
            self._store(self.view_of(self.resident.held), in_place=False)

    def _store(self, whole: Copied, *, in_place: bool) -> None:
        """Keep snapshots of a conversation that loses its place; `in_place`: its rows may become the snapshot's."""
        if self.store is None:
            return
        for use, row in self._points(whole):
            part = whole.cut(row)
            own = in_place and row == len(whole.ids)
            try:
                self.store.put(part.ids, use, part.nbytes, part.itself if own else part.cloned)
            except (RuntimeError, MemoryError):
                return  # what there is no memory for is not kept

    def _points(self, whole: Copied) -> list[tuple[Use, int]]:
        """Where snapshots are worth their memory: at the end for the next turn, and at the line to which other prompts
        go back: the last one in a head that is known, else the last of bit class.
        """
        points: list[tuple[Use, int]] = []
        lines = [anchor.row for anchor in whole.anchors if anchor.exactness == "bit"]
        heads = [row for row in lines if row in self.heads.pinned(whole.ids)]
        if lines:
            points.append(("prefix", (heads or lines)[-1]))
        if whole.anchors and (last := whole.anchors[-1].row) not in lines:
            points.append(("session", last))
        return points


def _seen(held: Held, keys: tuple[int, ...]) -> Conversation:
    """A conversation as a prompt sees it. One without an anchor is none: nobody can go on with it."""
    if not held[1]:
        return Conversation()
    shared, anchors = usable(held, keys)
    size = sum(anchor.recurrent.nbytes for anchor in newest(held[1]))
    return Conversation(len(held[0]), shared, _row(anchors), size)


def _row(anchors: tuple[Anchor, ...]) -> int:
    return anchors[-1].row if anchors else 0
