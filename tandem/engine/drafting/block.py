"""A drafter that guesses a whole block of tokens in one pass over what the target's layers made of the text (ENG-054).

It is narrow or wide, 7 slots or as many as it was made for, and gives of each slot the 16 likeliest tokens, out of
which a tree is grown (`lattice`). Its state is a row of keys and values for each row of the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from tandem.engine.drafting.block_layers import BlockLayers
from tandem.engine.drafting.lattice import grown, lattice_of
from tandem.engine.drafting.routing import NARROW
from tandem.engine.models.tapped import Tapped
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["BUDGET", "CANDIDATES", "LATE_BUDGET", "BlockDrafter"]

CANDIDATES: Final = 16
BUDGET, LATE_BUDGET, _LATE = 16, 24, 32
"""Nodes of a round; of a wide one more, once the request has committed 32 tokens (ENG-056)."""


class BlockDrafter:
    """A `Drafter`. Where rows of the sequence were never read, its context begins behind them."""

    name = "block"
    reads_hidden = True

    def __init__(self, layers: BlockLayers, target: Tapped, max_len: int) -> None:
        """`max_len` is the window of the sequences it drafts for."""
        self._layers = layers
        self._target = target
        self._cache = layers.new_cache(max_len)
        self._max_len = max_len
        self._prompt = 0
        self._first = 0  # the sequence's row that the cache's row 0 is of
        self._held = 0  # rows in the cache

    @property
    def widths(self) -> tuple[int, int]:
        return (NARROW, self._layers.config.block_width)

    @property
    def nbytes(self) -> int:
        """Bytes of its rows."""
        return self._cache.nbytes

    def start(self, ids: Sequence[int], valid: int) -> None:
        self._prompt = len(ids)
        self._forget(valid)

    def read(self, start: int, hidden: Tensor) -> None:
        """`hidden` (rows, hidden + taps): what is tapped stands behind the last state."""
        self._forget(start)
        if start != self._first + self._held:
            self._first, self._held = start, 0
        taps = hidden[: self._max_len - self._held, self._layers.config.hidden_size :]
        with torch.inference_mode():
            self._layers.keep(taps.contiguous(), self._held, self._cache)
        self._held += taps.shape[0]

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        narrow = nodes <= NARROW
        slots = min(depth, NARROW if narrow else self._layers.config.block_width)
        late = not narrow and len(ids) - self._prompt >= _LATE
        nodes = min(nodes, LATE_BUDGET if late else BUDGET)
        # The newest token has been read itself or has not; without the rows before it nothing is known.
        if nodes < 1 or slots < 1 or self._first + self._held not in (len(ids) - 1, len(ids)):
            return EMPTY_TREE
        with torch.inference_mode():
            return self._grown(ids[-1], len(ids) - 1 - self._first, slots, nodes)

    def learn(self, tree: Tree, accepted: int) -> None:
        """It has nothing to learn from."""

    def end(self) -> None:
        """What it holds may serve the next sequence."""

    def _forget(self, row: int) -> None:
        self._held = min(self._held, max(0, row - self._first))

    def _grown(self, newest: int, position: int, slots: int, nodes: int) -> Tree:
        embed = self._target.inner.embed
        root = embed(torch.tensor([newest]))
        hidden = self._layers.forward(root, slots, self._held, position, self._cache)
        logits = self._target.inner.logits(hidden)  # (slots, vocab)
        if not logits.isfinite().all():
            return EMPTY_TREE
        best, ids = logits.topk(min(CANDIDATES, logits.shape[1]), dim=1)
        candidates = embed(ids.flatten()).view(*ids.shape, -1)
        own = best - logits.logsumexp(dim=1, keepdim=True)
        return grown(lattice_of(ids, own, self._layers.joins(root, candidates)), nodes, self.name)
