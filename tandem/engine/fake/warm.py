"""The fake engine with caches, by arithmetic on ids (ENG-172): where a prompt resumes, who is a guest, what is refused.

It holds one conversation as the real engines do: grid lines of its prompt, and the end of its answer. A guest lies over
it until another prompt comes. Nothing has a size but what a test gives one: `caches` are the bytes that the gate may
give up, by level, and `reserved` those it may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tandem.engine.caches.caching import CacheStats, MemoryRefused, MemoryView
from tandem.engine.caches.gate import ORDER, RETRY_AFTER, Event
from tandem.engine.caches.places import GUEST_MAX
from tandem.engine.fake.engine import FakeEngine
from tandem.engine.fake.sequence import FakeSeq
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.replay import Written
from tandem.engine.verbs import Prefilled

__all__ = ["WarmFakeEngine"]


@dataclass(frozen=True, slots=True)
class _Held:
    """A conversation: the ids of its rows, of which the first `prompt` were read."""

    ids: tuple[int, ...] = ()
    prompt: int = 0
    written: tuple[Written, ...] = ()
    """Where answers of sessions ended in them."""

    def after(self, seq: FakeSeq) -> _Held:
        """What a sequence leaves; the ends that it went on from are there still."""
        keys, whose = seq.keys, seq.whose
        written = [each for each in self.written if each.keys == keys[: len(each.keys)]]
        if whose is not None:
            written.append(Written(keys, whose))
        return _Held(keys, min(seq.read, len(seq.prompt.ids)), tuple(written))

    def shared(self, keys: tuple[int, ...]) -> int:
        pairs = enumerate(zip(self.ids, keys, strict=False))
        return next((at for at, (own, other) in pairs if own != other), min(len(self.ids), len(keys)))

    def resumes(self, keys: tuple[int, ...], grid: int) -> tuple[int, str]:
        """The row at which a prompt goes on, and what is there; it leaves the last token to be read."""
        shared = min(self.shared(keys), len(keys) - 1)
        if self.ids and shared == len(self.ids):
            return shared, "end"
        line = min(shared, self.prompt) // grid * grid
        return line, "resident" if line else ""


class WarmFakeEngine(FakeEngine):
    """`workspace` is what a prefill takes, `peak` what may be in use; None: anything."""

    def __init__(
        self, *, guest_max: int = GUEST_MAX, workspace: int = 0, peak: int | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._guest_max = guest_max
        self._workspace = workspace
        self._peak = peak
        self._held = _Held()
        self._under: _Held | None = None
        self._found: dict[int, tuple[int, str]] = {}
        self._refusals = 0
        self._events: list[Event] = []
        self._counts = dict.fromkeys(("resident_hits", "resident_misses", "resident_guests", "resumed_tokens"), 0)
        self.reserved = 0
        self.levels: dict[str, int] = {}

    def open(self, prompt: Prompt) -> FakeSeq:
        if self._loan is not None:
            return super().open(prompt)
        grid, keys = self.card.anchor_grid, prompt.keys
        if self._under is not None and self._under.resumes(keys, grid)[0] >= self._held.resumes(keys, grid)[0]:
            self._held, self._under = self._under, None
        row, source = self._held.resumes(keys, grid)
        guest = row == 0 and self._held.shared(keys) < grid and len(keys) <= self._guest_max
        seq = super().open(prompt)
        if guest and self._held.ids and self._under is None:
            self._held, self._under = _Held(), self._held
            self._counts["resident_guests"] += 1
        self._counts["resident_hits" if row else "resident_misses"] += 1
        self._counts["resumed_tokens"] += row
        seq.read, self._found[seq.number] = row, (row, source)
        return seq

    def prefill(self, seq: FakeSeq, upto: int) -> Prefilled:
        row, source = self._found.get(seq.number, (0, ""))
        if seq.read == row and not seq.closed:
            self._admit()
        return replace(super().prefill(seq, upto), resumed=row, source=source)

    def close(self, seq: FakeSeq) -> None:
        if not seq.closed and self._found.pop(seq.number, None) is not None and seq.read:
            self._held = self._held.after(seq)
        super().close(seq)

    def rebuild(self) -> None:
        super().rebuild()
        self._held, self._under, self._found = _Held(), None, {}

    def resident(self) -> tuple[Sequence[int], int]:
        """A conversation under a guest waits for its next turn."""
        if self._under is not None:
            return self._under.ids, self._under.prompt
        return super().resident() if self._opened else (self._held.ids, self._held.prompt)

    def written(self) -> Sequence[Written]:
        return (*self._held.written, *(() if self._under is None else self._under.written))

    def caches(self) -> Mapping[str, CacheStats]:
        """The resident conversation, in rows for bytes."""
        counts = self._counts
        hits, misses, rows = counts["resident_hits"], counts["resident_misses"], len(self._held.ids)
        return {"resident": CacheStats(hits=hits, misses=misses, entries=int(rows > 0), bytes=rows)}

    def clear(self, caches: Any = None) -> Mapping[str, int]:
        given = super().clear(caches)
        if "resident" in given:
            self._held, self._under = _Held(), None
        return given

    def memory(self) -> MemoryView:
        reserved = self.reserved + sum(self.levels.values())
        return MemoryView(reserved=reserved, allocated=reserved, peak=self._peak, events=tuple(self._events))

    def state(self) -> Mapping[str, int]:
        return {**super().state(), **self._counts, "resident_rows": len(self._held.ids)}

    def _admit(self) -> None:
        """Give up levels in the gate's order until a prefill fits; `MemoryRefused` where all are not enough."""
        if self._peak is None:
            return
        given = {}
        for level in sorted(self.levels, key=ORDER.index):
            if self.memory().reserved + self._workspace <= self._peak:
                break
            given[level] = self.levels.pop(level)
        reserved = self.memory().reserved
        if given:
            self._events.append(Event("shed", self._device.clock, self._workspace, reserved, reserved, given))
        if reserved + self._workspace <= self._peak:
            self._refusals = 0
            return
        self._refusals += 1
        self._events.append(Event("refuse", self._device.clock, self._workspace, reserved, reserved))
        told = {"allocated": reserved, "reserved": reserved, "need": self._workspace, "peak": self._peak}
        numbers = {**told, "in_a_row": self._refusals, "retry_after": RETRY_AFTER}
        raise MemoryRefused(f"no memory for a prompt: {told}", numbers=numbers)
