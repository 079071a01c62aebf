"""Passes over a few rows on a device: what they read from its memory, and the graphs that are captured of them.

A pass of one row, or of a tree of at most 32, is always of one of few shapes: its rows are filled up to a power of two,
and the prefix is given by its length class. So a graph is captured once a shape and replayed ever after (ENG-029). All
that differs from pass to pass, the ids, positions, parents and the length of the prefix, lies in `Inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from tandem.engine.kernels.graphs import Captured, capture
from tandem.engine.kernels.trees import ROWS
from tandem.engine.models.kv import KVCache
from tandem.engine.models.places import Places
from tandem.engine.models.recurrent import Commit, LayerRecords, Recurrent
from tandem.engine.models.state import Lent, State

__all__ = ["DeviceState", "Graphs", "Inputs", "Shape", "depths", "few", "filled"]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape:
    """All that a captured graph is made for. `kind` is `step`, `chain` or `tree`."""

    kind: str
    rows: int
    limit: int
    place: int


class Inputs:
    """What a pass reads: it is filled before every pass and stays where it is."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._all = torch.zeros(4 * rows + 1, dtype=torch.int32, device=device)
        self.ids, self.positions, self.rows, self.parents = self._all[:-1].view(4, rows)  # (N) each
        self.base = self._all[-1]  # ()

    def fill(self, ids: Sequence[int], positions: Sequence[int], start: int, parents: Sequence[int]) -> None:
        """A pass behind the first `start` rows. Lists may be shorter than it; nobody reads its last rows then."""
        count = len(self.ids)
        spare = [0] * (count - len(ids))
        rows = range(start, start + count)
        numbers = [*ids, *spare, *positions, *spare, *rows, *filled(parents, count), start]
        self._all.copy_(torch.tensor(numbers, dtype=torch.int32))


class Graphs:
    """The graphs of one sequence's buffers, by shape. `report` is told how each kind of pass is taken."""

    def __init__(self, device: torch.device, report: dict[str, str]) -> None:
        self._device = device
        self._report = report
        self.forget()

    def forget(self) -> None:
        """Capture anew what is run: the buffers lie elsewhere."""
        self._captured: dict[Shape, Captured[Any]] = {}
        self._inputs: dict[tuple[int, str], Inputs] = {}

    def inputs(self, kind: str, rows: int) -> Inputs:
        """Where passes of a kind and so many rows read."""
        key = (rows, kind)
        if key not in self._inputs:
            self._inputs[key] = Inputs(rows, self._device)
        return self._inputs[key]

    def run(self, shape: Shape, step: Callable[[], T]) -> T:
        """What `step` gives, which is captured the first time. The result is written over by the next of this shape."""
        captured: Captured[T] | None = self._captured.get(shape)
        if captured is None:
            captured = self._captured[shape] = capture(step, self._device)
            self._report[shape.kind] = f"eager: {captured.reason}" if captured.reason else "graph"
        return captured()


class DeviceState(State):
    """The buffers of one sequence on a device, with the graphs that have their addresses in them."""

    def __init__(self, kv: KVCache, empty: Recurrent, commit: Commit, graphs: Graphs) -> None:
        super().__init__(kv, empty, commit)
        self.places = Places(empty)
        self.graphs = graphs

    def put_back(self, recurrent: Recurrent) -> None:
        """What was kept in a file comes back on the CPU."""
        super().put_back(recurrent.at(self.kv.keys.device))

    def renew(self) -> None:
        """Nothing of before is reached any more: the places and the graphs are given up with the rows."""
        self.graphs.forget()
        super().renew()
        self.places = Places(self.empty)

    def lend(self, rows: int) -> Lent:
        """A pending commit's records lie where the guest's verifies write theirs, so they are copied."""
        if self._verified is not None:
            records = tuple(_cloned(each) for each in self._verified.records)
            self._verified = replace(self._verified, records=records)
        return super().lend(rows)


def depths(parents: Sequence[int]) -> list[int]:
    """How many ancestors each row of a tree has."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def filled(parents: Sequence[int], rows: int) -> list[int]:
    """A tree of more rows: a chain goes on as a chain, to any other tree roots are added."""
    chained = all(parent == row - 1 for row, parent in enumerate(parents))
    return [*parents, *(row - 1 if chained else -1 for row in range(len(parents), rows))]


def few(rows: int, room: int) -> int:
    """The power of two that a tree of `rows` is filled up to; the rows themselves where `room` has no more."""
    if rows > ROWS:
        raise ValueError(f"{rows} rows are more than the {ROWS} of the widest tree")
    power = 1 << (rows - 1).bit_length()
    return power if power <= room else rows


def _cloned(records: LayerRecords) -> LayerRecords:
    delta = replace(
        records.delta,
        keys=records.delta.keys.clone(),
        values=records.delta.values.clone(),
        gates=records.delta.gates.clone(),
    )
    return LayerRecords(records.inputs.clone(), delta)
