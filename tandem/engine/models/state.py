"""What one sequence keeps between two forwards, and how every verb of an engine moves it (ENG-182).

Two things of different kinds. The *rows* of attention layers lie in one buffer, one a token: a sequence is cut by
writing over them. The *recurrent* part has no rows: it stands after so many tokens and nowhere else, and is copied,
replaced or put back as a whole (`recurrent.py`). A model without recurrent layers is the case where the second is
empty, and every verb is the same.

A verify of several drafted rows changes neither: its keys and values lie in scratch rows behind the sequence, and what
its recurrences would add is kept as records. `commit` takes a path of it and leaves it pending; the next forward, or
`settle`, makes it part of the sequence without reading a weight (ENG-039, ENG-058).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.models.kv import KVCache, KVRows
from tandem.engine.models.placement import CPU, Placement
from tandem.engine.models.recurrent import Commit, LayerRecords, Recurrent, by_twins

__all__ = ["Lent", "State", "StateCopy"]


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A sequence's state at one point, by value."""

    rows: KVRows = field(repr=False)
    recurrent: Recurrent


@dataclass(frozen=True, slots=True)
class _Verified:
    """A verify whose rows lie behind the first `start` rows, and the path of it that is taken, once one is."""

    start: int
    records: tuple[LayerRecords, ...] = field(repr=False)
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lent:
    """All of a state that a guest may overwrite, a pending commit as it is (ENG-134). Only rows are ever written, so
    of the rest a reference is enough.
    """

    rows: KVRows = field(repr=False)
    recurrent: Recurrent
    verified: _Verified | None

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


class State:
    """The buffers of one sequence. `empty` is its recurrent part where nothing has been read, `commit` what takes a
    path of a verify into it.
    """

    def __init__(self, kv: KVCache, empty: Recurrent, commit: Commit = by_twins) -> None:
        self.kv = kv
        self.empty = empty
        self.writable = kv.max_len
        """Rows that a pass may write to now, those that it is only filled up with among them."""
        self._commit = commit
        self._recurrent = empty
        self._verified: _Verified | None = None

    @staticmethod
    def of(config: ModelConfig, max_len: int) -> State:
        """The state of a sequence of at most `max_len` rows."""
        layers = config.layers_of("full_attention")
        kv = KVCache(layers, config.num_key_value_heads, max_len, config.head_dim)
        return State(kv, Recurrent.empty(config))

    @staticmethod
    def bytes_for(config: ModelConfig, max_len: int, placement: Placement = CPU) -> int:
        """What a state of these sizes takes, anchors apart."""
        layers = config.layers_of("full_attention")
        rows = KVCache.bytes_for(layers, config.num_key_value_heads, max_len, config.head_dim, placement)
        # A forward holds the old memory until it has the new one; on a device two more lie where graphs write.
        return rows + (2 if placement == CPU else 4) * Recurrent.bytes_for(config, placement)

    @property
    def max_len(self) -> int:
        return self.kv.max_len

    @property
    def nbytes(self) -> int:
        return self.kv.nbytes + self.bytes_per_anchor

    @property
    def bytes_per_token(self) -> int:
        return self.kv.bytes_per_token

    @property
    def bytes_per_anchor(self) -> int:
        """What it costs to keep the recurrent part of one point."""
        return self.empty.nbytes

    def keep(self) -> Recurrent:
        """The recurrent part of this point, for `put_back`; a pending commit is settled first."""
        self.settle()
        return self._recurrent

    def put_back(self, recurrent: Recurrent) -> None:
        """Stand where `recurrent` was kept, the rows below it being those of then; what is pending is dropped."""
        self.discard()
        self._recurrent = recurrent

    def standing_at(self, row: int) -> Recurrent:
        """The recurrent part, for a pass from `row` on. `RuntimeError` where it stands elsewhere."""
        recurrent = self.keep()
        if recurrent.layers and recurrent.row != row:
            raise RuntimeError(f"the recurrent state stands at row {recurrent.row}, not at {row}")
        return recurrent

    def copy(self, length: int) -> StateCopy:
        """A copy of the first `length` rows and of the recurrent part, which must stand there."""
        recurrent = self.standing_at(length)  # what is pending moves rows
        return StateCopy(self.kv.copy(length), recurrent)

    def load(self, copy: StateCopy) -> None:
        """Put a copy back where it came from; it stays as it is."""
        self.kv.load(copy.rows)
        self.put_back(copy.recurrent)

    def lend(self, rows: int) -> Lent:
        """What is here before a guest writes to the first `rows` rows; nothing is settled."""
        lent = Lent(self.kv.copy(rows), self._recurrent, self._verified)
        self.writable = rows
        return lent

    def take_back(self, lent: Lent) -> None:
        """Stand as at `lend`."""
        self.kv.load(lent.rows)
        self.writable = self.max_len
        self._recurrent, self._verified = lent.recurrent, lent.verified

    def renew(self) -> None:
        """Other memory for all of it, where nothing has been read. Without any it has no rows."""
        self.put_back(self.empty)
        self.writable = 0
        self.kv.renew()
        self.writable = self.kv.max_len

    def verified(self, start: int, records: tuple[LayerRecords, ...]) -> None:
        """A pass over a tree has written scratch rows from `start` on, and `records` of its recurrent layers."""
        self._verified = _Verified(start, records)

    def commit(self, path: Sequence[int]) -> None:
        """Take these rows of the last verify, root first; pending until `settle` or the next pass."""
        if self._verified is None:
            raise RuntimeError("there is no verify to commit a path of")
        self._verified = replace(self._verified, path=tuple(path))

    def trim(self, count: int) -> None:
        """Keep the first `count` rows of what is pending."""
        if self._verified is not None:
            self.commit(self._verified.path[:count])

    def discard(self) -> None:
        """Drop what is pending: the state is the one before the verify."""
        self._verified = None

    def settle(self) -> None:
        """Make what is pending part of the sequence now; without a path the verify is dropped."""
        verified, self._verified = self._verified, None
        if verified is None or not verified.path:
            return
        self.kv.gather(verified.start, verified.path)
        if self._recurrent.layers:
            self._recurrent = self._recurrent.after(verified.records, verified.path, self._commit)
