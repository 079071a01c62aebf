"""What the disk tier decides, without a disk: what is admitted, what goes, and when (ENG-116). Time is a value.

Entries of one prefix stand in a chain: without one nothing behind it can be used. A use counts for the whole chain, so
none is older than what stands behind it, and of equally old ones the last of the chain goes first.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

__all__ = ["OFF", "DiskIndex", "DiskSettings", "Entry", "Kind", "Mode"]

Mode: TypeAlias = Literal["off", "read", "on"]
Kind: TypeAlias = Literal["rows", "anchor", "text", "end"]
"""What a piece holds: see `disk_prefix`."""

_GB: Final = 10**9
_DAY: Final = 86_400.0
_SEEN: Final = 1 << 16
_NAME: Final = re.compile(r"([0-9a-f]{16})-(\d{8})-([0-9a-f]{32})\.(rows|anchor|text|end)")
_KINDS: Final[Mapping[str, Kind]] = {"rows": "rows", "anchor": "anchor", "text": "text", "end": "end"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSettings:
    """The document's `memory.disk_cache`, in bytes and seconds; its defaults, but for the mode."""

    mode: Mode = "off"
    budget: int = 100 * _GB
    ttl: float = 14 * _DAY
    """How long an entry that is not used stays."""
    admit_after: int = 2
    """How many prompts must have held a chunk before it is written."""
    min_free: int = 50 * _GB
    """What stays free on the disk, whoever fills it."""

    @staticmethod
    def of(document: Mapping[str, Any]) -> DiskSettings:
        """Of a checked document; what it leaves out is the default."""
        base = DiskSettings()
        return replace(
            base,
            mode=document.get("mode", base.mode),
            budget=int(document.get("budget_gb", base.budget / _GB) * _GB),
            ttl=document.get("ttl_days", base.ttl / _DAY) * _DAY,
            admit_after=document.get("admit_after", base.admit_after),
            min_free=int(document.get("min_free_gb", base.min_free / _GB) * _GB),
        )


OFF: Final = DiskSettings()


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: the piece of `kind` that ends at `row`, in the chain called `name`."""

    fingerprint: str
    row: int
    name: str
    kind: Kind
    size: int = 0
    used: float = 0.0

    @property
    def file(self) -> str:
        return f"{self.fingerprint[:16]}-{self.row:08d}-{self.name}.{self.kind}"

    @staticmethod
    def named(file: str) -> Entry | None:
        """The entry that a file of this name holds, its fingerprint shortened; None where it is none of ours."""
        match = _NAME.fullmatch(file)
        if match is None:
            return None
        fingerprint, row, name, kind = match.groups()
        return Entry(fingerprint, int(row), name, _KINDS[kind])


class DiskIndex:
    """The entries there are and those that are being written, and the prefixes that prompts have held."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.writing = set[str]()
        """Files that will be there."""
        self._entries = {entry.file: entry for entry in entries}
        self._bytes = sum(entry.size for entry in self._entries.values())
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._hits: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        return self._bytes

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, file: str) -> bool:
        return file in self._entries

    def has(self, entry: Entry) -> bool:
        """Whether it is there, or will be."""
        return entry.file in self._entries or entry.file in self.writing

    def ends(self, above: int, upto: int) -> list[int]:
        """The rows of ends from above `above` up to `upto`, of all conversations, the highest first."""
        rows = {each.row for each in self._entries.values() if each.kind == "end" and above < each.row <= upto}
        return sorted(rows, reverse=True)

    def add(self, entry: Entry) -> None:
        self.remove(entry.file)
        self._entries[entry.file] = entry
        self._bytes += entry.size

    def remove(self, file: str) -> None:
        entry = self._entries.pop(file, None)
        self._hits.pop(file, None)
        if entry is not None:
            self._bytes -= entry.size

    def use(self, files: Iterable[str], now: float, *, hit: bool = False) -> None:
        """These were read, or something behind them was written; with `hit` it counts in `top`."""
        for file in files:
            if file in self._entries:
                self._entries[file] = replace(self._entries[file], used=now)
                self._hits[file] = self._hits.get(file, 0) + hit

    def saw(self, names: Iterable[str]) -> None:
        """A prompt has held these prefixes."""
        for name in names:
            self._count(name, self._seen.pop(name, 0) + 1)

    def ended(self, end: Entry, before: Entry | None, after: int) -> None:
        """A conversation has got another turn, which went on at the end `before`; one of which an end was written has
        had `after` of them.
        """
        turns = 0
        if before is not None:
            turns = after if before.file in self._entries else self._seen.get(before.name, 0)
        self._count(end.name, turns + 1)

    def admits(self, name: str, after: int) -> bool:
        return self._seen.get(name, 0) >= after

    def _count(self, name: str, times: int) -> None:
        self._seen[name] = times
        while len(self._seen) > _SEEN:
            self._seen.popitem(last=False)

    def expired(self, now: float, ttl: float) -> tuple[str, ...]:
        return tuple(entry.file for entry in self._entries.values() if entry.used + ttl < now)

    def over(self, budget: int) -> tuple[str, ...]:
        """What has to go for the rest to fit."""
        return self._oldest(self._bytes - budget, frozenset()) or ()

    def room(self, size: int, free: int, settings: DiskSettings, spare: Collection[str]) -> tuple[str, ...] | None:
        """What has to go so that `size` bytes fit budget and free space, none of `spare`; None where nothing helps."""
        return self._oldest(max(self._bytes + size - settings.budget, settings.min_free + size - free), spare)

    def top(self, count: int) -> tuple[tuple[Entry, int], ...]:
        """The entries most used, with how often, since the start."""
        # A copy at once: another thread may look while this one's owner changes it.
        used = [(self._entries.get(file), hits) for file, hits in self._hits.copy().items() if hits]
        there = [(entry, hits) for entry, hits in used if entry is not None]
        return tuple(sorted(there, key=lambda each: (-each[1], each[0].file))[:count])

    def _oldest(self, needed: int, spare: Collection[str]) -> tuple[str, ...] | None:
        """The files to give up for `needed` bytes; None where all of them are not enough."""
        victims: list[str] = []
        if needed <= 0:
            return ()
        for entry in sorted(self._entries.values(), key=lambda each: (each.used, -each.row, each.kind)):
            if entry.file not in spare:
                victims.append(entry.file)
                needed -= entry.size
                if needed <= 0:
                    return tuple(victims)
        return None
