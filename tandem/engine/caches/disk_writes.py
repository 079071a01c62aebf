"""What is still to be written to the disk tier, and one file of it (ENG-116)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from tandem.engine.caches.disk_index import Entry
from tandem.engine.caches.disk_prefix import Missing
from tandem.engine.caches.pieces import write_piece

__all__ = ["PendingWrites", "WriteJob", "write"]


class PendingWrites:
    """Pieces of the one sequence in the buffer, in order. Their rows are copied when a piece is taken, none before.

    Rows that are about to be overwritten end it there (ENG-116): of what stands behind them nothing could be used
    without them.
    """

    def __init__(self) -> None:
        self._ids: tuple[int, ...] = ()
        self._missing: deque[Missing] = deque()

    def __len__(self) -> int:
        return len(self._missing)

    @property
    def ids(self) -> tuple[int, ...]:
        """Key ids of the sequence."""
        return self._ids

    def plan(self, ids: tuple[int, ...], missing: Iterable[Missing]) -> None:
        """These, and nothing of what was planned before: it is among them, or its rows are no more."""
        self._ids, self._missing = ids, deque(missing)

    def take(self) -> Missing | None:
        """The next to copy and write; None where nothing is left."""
        return self._missing.popleft() if self._missing else None

    def overwritten(self, row: int) -> None:
        """Rows from `row` on are about to be written."""
        self._missing = deque(each for each in self._missing if each.row <= row)

    def drop(self) -> None:
        """Nothing more of it: there is no room, or a write has failed."""
        self._missing.clear()


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One file to be written, by value."""

    path: Path
    entry: Entry
    before: tuple[str, ...]
    """Files of the chain up to it, which count as used with it."""
    facts: Mapping[str, object] = field(repr=False)
    parts: Sequence[tuple[str, Tensor]] = field(repr=False)
    stale: tuple[str, ...] = ()
    """Files that go once it is there."""


def write(job: WriteJob) -> int | OSError:
    """Blocking; in any thread. The size of the file, or why there is none."""
    try:
        return write_piece(job.path, job.entry.kind, job.entry.fingerprint, job.facts, job.parts)
    except OSError as error:
        return error
