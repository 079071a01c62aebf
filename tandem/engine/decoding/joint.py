"""One verify for the sequences of several slots: weights are read once for all of their rows (ENG-162, SCH-064).

What is said of one sequence here stays its own. A pass that fails as a whole is done again for each alone, so the one
at fault is found; its fault waits in its rows for its own `accept`, and the others have theirs (SCH-068).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tandem.engine.decoding.rounds import Rounds
from tandem.engine.decoding.sequence import Rows, TorchSequence
from tandem.engine.errors import EngineError
from tandem.engine.models.model import Drafts, JointModel, Model
from tandem.engine.verbs import Tree

__all__ = ["Joint", "Party", "broken"]


@dataclass(frozen=True, slots=True)
class Party:
    """What one slot brings; `rounds` are its engine's."""

    rounds: Rounds
    seq: TorchSequence
    tree: Tree


@dataclass(frozen=True, slots=True)
class _Ready:
    """What of it is in the pass."""

    at: int
    party: Party
    tree: Tree
    drafts: Drafts


class Joint:
    """The passes of several slots over `model`; without a joint pass of its own each is verified after the other."""

    def __init__(self, model: Model) -> None:
        self._model = model if isinstance(model, JointModel) else None
        self._counts = dict.fromkeys(("joint_passes", "joint_pairs", "joint_rows", "joint_ms"), 0)

    def verify(self, parties: Sequence[Party]) -> list[Rows]:
        """Rows of each, in their order; no fault is raised."""
        rows: dict[int, Rows] = {}
        for ready, each in self._together(parties, rows):
            rows[ready.at] = each
        return [rows[at] if at in rows else _alone(party) for at, party in enumerate(parties)]

    def state(self) -> Mapping[str, int]:
        return self._counts

    def _together(self, parties: Sequence[Party], rows: dict[int, Rows]) -> list[tuple[_Ready, Rows]]:
        """What the joint pass gives. Into `rows` goes what needs none: a row that is kept, and what fails before it."""
        if self._model is None:
            return []
        ready = list[_Ready]()
        for at, party in enumerate(parties):
            try:
                tree, drafts = party.rounds.drafts(party.seq, party.tree)
            except EngineError as error:
                rows[at] = broken(error)
            else:
                if drafts is not None:
                    ready.append(_Ready(at, party, tree, drafts))
        if len(ready) < 2:
            return []
        started = time.perf_counter()
        try:
            with torch.inference_mode():
                hidden = self._model.verify_joint([each.drafts for each in ready])
                logits = self._model.logits(hidden)
        except (RuntimeError, IndexError, MemoryError):
            return []
        return self._given(ready, hidden, logits, 1e3 * (time.perf_counter() - started))

    def _given(self, ready: list[_Ready], hidden: Tensor, logits: Tensor, ms: float) -> list[tuple[_Ready, Rows]]:
        """`hidden` (rows of all, hidden) and `logits` (rows of all, vocab) are shared out."""
        counts = [len(each.drafts.ids) for each in ready]
        for name, count in (("passes", 1), ("pairs", len(ready)), ("rows", sum(counts)), ("ms", round(ms))):
            self._counts[f"joint_{name}"] += count
        parts = zip(ready, torch.split_with_sizes(hidden, counts), torch.split_with_sizes(logits, counts), strict=True)
        return [(each, _verified(each, own, of_rows, ms, len(ready))) for each, own, of_rows in parts]


def broken(fault: EngineError) -> Rows:
    """Rows that are none."""
    return Rows(torch.empty(0), -1, fault=fault)


def _verified(ready: _Ready, hidden: Tensor, logits: Tensor, ms: float, slots: int) -> Rows:
    try:
        return ready.party.rounds.verified(ready.party.seq, ready.tree, hidden, logits, ms, slots)
    except EngineError as error:
        return broken(error)


def _alone(party: Party) -> Rows:
    try:
        return party.rounds.verify(party.seq, party.tree)
    except EngineError as error:
        return broken(error)
