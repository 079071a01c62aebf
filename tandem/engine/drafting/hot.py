"""A drafter's head over the part of the vocabulary that is written most (ENG-052), after FR-Spec (arXiv:2502.14856).

Each token of a chain reads the whole head, which for a small model with a large vocabulary is a third of all weights.
A vocabulary of merges lists them in the order of their frequency, and marks behind all else: so the hot part is its
first ids and its last ones. What is not hot is never drafted, and never missing from the text.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tandem.engine.checkpoints.rows import Stored2d
from tandem.engine.models.formats import CpuWeights, table
from tandem.engine.models.matrix import Table

__all__ = ["HOT", "MARKS", "HotHead"]

HOT = 32_768
"""Ids of a hot head where nothing else is set."""
MARKS = 512
"""So many of them are a vocabulary's last; what it is padded with is among these."""


class HotHead:
    """The rows `ids` (N) of a head, in memory of their own."""

    def __init__(self, head: Table, ids: Tensor, columns: int, cpu_weights: CpuWeights) -> None:
        self.ids = ids
        self._matrix = table(
            Stored2d((len(ids), columns), lambda start, stop: head.take(ids[start:stop])), None, cpu_weights
        )

    @property
    def nbytes(self) -> int:
        return self._matrix.nbytes

    def logits(self, hidden: Tensor) -> Tensor:
        """(rows, hidden) to (rows, N) in fp32; column n is of the token `ids`[n]."""
        return self._matrix(hidden).float()

    @staticmethod
    def ids_of(vocab: int, count: int) -> Tensor | None:
        """The `count` hot ids of a vocabulary; None where they would not be much fewer."""
        if not MARKS < count <= vocab // 2:
            return None
        return torch.cat((torch.arange(count - MARKS), torch.arange(vocab - MARKS, vocab)))
