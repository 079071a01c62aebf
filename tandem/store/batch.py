"""Rows that wait to be written, and what of them is written next. Sans-I/O: no clock, no await."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tandem.store import buckets
from tandem.store.journal import FILL_CHECKER, FILL_OUTCOME, INSERT_EVENT, INSERT_TEXT, RING
from tandem.store.ledger import BadRow, Step
from tandem.store.outcome import Outcome
from tandem.store.schema import INSERT, Row, row

__all__ = ["Batch", "Entry", "Pending"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What belongs together: it is written in one transaction or lost."""

    outcomes: tuple[Outcome, ...] = ()
    texts: tuple[Row, ...] = ()
    events: tuple[Row, ...] = ()
    fills: tuple[Row, ...] = ()
    """Values of `FILL_OUTCOME`."""
    checks: tuple[Row, ...] = ()
    """Values of `FILL_CHECKER`."""

    @property
    def rows(self) -> int:
        return max(1, len(self.outcomes) + len(self.events) + len(self.fills) + len(self.checks))


class Batch:
    """The entries of one transaction."""

    def __init__(self, entries: Sequence[Entry], *, is_ring: bool) -> None:
        self.entries = entries
        self._is_ring = is_ring
        self._steps: list[Step] | None = None

    @property
    def rows(self) -> int:
        return _rows(self.entries)

    @property
    def requests(self) -> int:
        return sum(len(entry.outcomes) for entry in self.entries)

    def steps(self) -> list[Step]:
        """The same list at each call, by which a ledger knows what it is asked again. Raises `BadRow`."""
        if self._steps is None:
            try:
                self._steps = [(sql, rows) for sql, rows in self._all_steps() if rows]
            except (TypeError, ValueError, ArithmeticError) as error:
                raise BadRow(type(error).__name__) from error
        return self._steps

    def _all_steps(self) -> Iterable[Step]:
        outcomes = [outcome for entry in self.entries for outcome in entry.outcomes]
        yield INSERT, [row(outcome) for outcome in outcomes]
        yield from buckets.upserts(outcomes)
        yield INSERT_TEXT, [each for entry in self.entries for each in entry.texts]
        events = [each for entry in self.entries for each in entry.events]
        yield INSERT_EVENT, events
        # Behind the rows that it fills, which may be of this very batch.
        yield FILL_OUTCOME, [each for entry in self.entries for each in entry.fills]
        yield FILL_CHECKER, [each for entry in self.entries for each in entry.checks]
        if self._is_ring and events:
            yield from RING


class Pending:
    """The waiting entries, oldest first, `most` rows in all: the oldest make room for the newest."""

    def __init__(self, most: int, batch_rows: int) -> None:
        self._most = most
        self._batch_rows = batch_rows
        self._limit = batch_rows
        self._entries: deque[Entry] = deque()
        self.rows = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, entry: Entry) -> int:
        """Put an entry at the end; how many rows had to go."""
        self._entries.append(entry)
        self.rows += entry.rows
        return self._drop()

    def take(self, *, is_ring: bool) -> Batch | None:
        """The next entries to write, one at least."""
        taken: list[Entry] = []
        room = self._limit
        while self._entries and (not taken or self._entries[0].rows <= room):
            entry = self._entries.popleft()
            taken.append(entry)
            room -= entry.rows
        self.rows -= self._limit - room
        return Batch(taken, is_ring=is_ring) if taken else None

    def put_back(self, batch: Batch) -> int:
        """Wait again with what could not be written now; how many rows had to go."""
        self._entries.extendleft(reversed(batch.entries))
        self.rows += batch.rows
        return self._drop()

    def split(self, batch: Batch) -> int:
        """Wait again with what holds a row that can never be written, and write half of it next.

        How many rows had to go: those of the bad entry, once it stands alone.
        """
        if len(batch.entries) == 1:
            self._limit = self._batch_rows
            return batch.rows
        self._limit = max(1, batch.rows // 2)
        return self.put_back(batch)

    def _drop(self) -> int:
        dropped = 0
        while self.rows > self._most:
            gone = self._entries.popleft().rows
            self.rows -= gone
            dropped += gone
        return dropped


def _rows(entries: Iterable[Entry]) -> int:
    return sum(entry.rows for entry in entries)
