"""A drafter on the checkpoint's own prediction layer, run as a chain and widened to a tree (ENG-052).

The layer predicts one token behind the newest; fed its own hidden state and that token it predicts the next, as EAGLE
(arXiv:2401.15077) and DeepSeek-V3 (arXiv:2412.19437) draft. Beside each token of the chain stand its runners-up, as
leaves. A node's score is the product of the probabilities on its path, and the best-scored ones are proposed.

Its state is one row of keys and values a row of the sequence, each made of a hidden state of the decoder's and of the
token behind it. So the newest row that was read waits until that token is known; and where a prompt was cut the hidden
state is kept, for a later sequence may go on from there with another token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.drafting.calibration import Depths
from tandem.engine.drafting.drafter import Draw, Drawn
from tandem.engine.drafting.hot import HotHead
from tandem.engine.drafting.routing import NARROW, WIDE
from tandem.engine.drafting.tree import Trie, chain, cut
from tandem.engine.models.model import DraftLayer
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["BUDGET", "DEPTH", "MtpDrafter"]

BUDGET = 16
"""Nodes of a round (ENG-056)."""
DEPTH = 4
"""How long a chain is (ENG-052)."""
_RUNNERS_UP = 7
"""Of each step at most so many are thought of."""
_WAITING = 4096
"""Rows that may wait for a proposal; with more of them the drafter begins anew behind them."""
_PARTS = 32
"""Tensors that they may wait in: joined at every round, each of them would be copied thousands of times."""


class MtpDrafter:
    """A `Drafter`. Where rows of the sequence were never read, its attention begins behind them.

    Of an image it has the ids of its rows, and it counts positions as in a text: a guess there is worth less.
    """

    name = "mtp"
    reads_hidden = True
    widths = (NARROW, WIDE)

    def __init__(
        self,
        layer: DraftLayer,
        max_len: int,
        *,
        hot: HotHead | None = None,
        budget: int = BUDGET,
        depth: int = DEPTH,
    ) -> None:
        """`max_len` is the window of the sequences it drafts for. Without a `hot` head it drafts any token."""
        self._layer = layer
        self._hot = hot
        self._budget, self._depth = budget, depth
        self._cache = layer.new_cache(max_len)
        self._prompt: Sequence[int] = ()
        self._first = 0  # the sequence's row that the cache's row 0 is of; rotations are relative, so any will do
        self._held = 0  # rows in the cache
        self._waiting: list[Tensor] = []  # hidden states (rows, hidden) of the rows behind them
        self._newest: Tensor | None = None  # (1, hidden): the layer's own state of the last row held
        self._cuts: dict[int, Tensor] = {}  # (1, hidden) of the row before each row at which the prompt was cut
        self._taken_by_depth = Depths()
        self._chain: tuple[int, ...] = ()  # the last one that was drawn

    @property
    def nbytes(self) -> int:
        """Bytes of its rows."""
        return self._cache.nbytes

    def start(self, ids: Sequence[int], valid: int) -> None:
        self._prompt = tuple(ids)  # the ids may be a list that grows
        self._forget(valid)

    def read(self, start: int, hidden: Tensor) -> None:
        if start < self._end:
            self._forget(start)
        if start != self._end or self._end - self._known > _WAITING:
            self._begin_at(start)
        self._waiting.append(hidden)
        if self._end <= len(self._prompt):
            self._cuts[self._end] = hidden[-1:].clone()
        with torch.inference_mode():
            # The newest row waits for a proposal, whether the token behind it is known or not.
            if ready := min(self._ready(self._prompt), self._end - self._known - 1):
                self._layer.keep(*self._taken(self._prompt, ready), self._cache)
                self._take(ready)
                self._newest = None
            elif len(self._waiting) > _PARTS:
                self._waiting = [torch.cat(self._waiting)]
            else:
                self._waiting[-1] = hidden.clone()  # it may lie in a buffer that the next pass writes to

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        nodes, depth = min(nodes, self._budget), min(depth, self._depth)
        if nodes < 1 or depth < 1:
            return EMPTY_TREE
        with torch.inference_mode():
            state = self._state(ids)
            return EMPTY_TREE if state is None else self._drawn(state, nodes, depth)

    def chances(self, nodes: int, depth: int) -> tuple[float, ...]:
        """The probability that the walk reaches each token of the longest chain that may be drawn."""
        return self._taken_by_depth.chances(max(0, min(nodes, depth, self._depth)))

    def draw(self, ids: Sequence[int], nodes: int, depth: int, draw: Draw) -> Drawn:
        with torch.inference_mode():
            chances, state = self.chances(nodes, depth), self._state(ids)
            return Drawn(EMPTY_TREE) if state is None or not chances else self._sampled(state, chances, draw)

    def learn(self, tree: Tree, accepted: int) -> None:
        if self._chain and tree.tokens == self._chain:
            self._taken_by_depth.saw(len(self._chain), accepted)
        self._chain = ()

    def end(self) -> None:
        """What it holds may serve the next sequence."""

    @property
    def _known(self) -> int:
        """The first row of the sequence that is not in the cache."""
        return self._first + self._held

    @property
    def _end(self) -> int:
        """The first row of the sequence that has not been read."""
        return self._known + sum(len(hidden) for hidden in self._waiting)

    def _begin_at(self, row: int) -> None:
        self._first, self._held, self._waiting, self._newest, self._cuts = row, 0, [], None, {}

    def _forget(self, row: int) -> None:
        """What is known of rows from `row` on, and of the token there."""
        if row > self._known:
            if self._waiting:
                self._waiting = [torch.cat(self._waiting)[: row - self._known]]
            return
        self._held, self._waiting, self._newest = max(row - self._first, 0), [], None
        self._cuts = {cut: state for cut, state in self._cuts.items() if cut <= row}
        if self._held and row in self._cuts:
            self._held, self._waiting = self._held - 1, [self._cuts[row]]

    def _ready(self, ids: Sequence[int]) -> int:
        """How many waiting rows have the token behind them in `ids`."""
        return max(0, min(self._end, len(ids) - 1, self._first + self._cache.max_len) - self._known)

    def _taken(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor, int]:
        """What the layer reads of the next `count` rows: tokens, hidden states, and where they go in the cache."""
        tokens = torch.tensor(ids[self._known + 1 : self._known + 1 + count])
        return tokens, torch.cat(self._waiting)[:count], self._held

    def _take(self, count: int) -> None:
        """The cache holds the next `count` rows. The rest is copied: a whole chunk need not stay for its last row."""
        rest = torch.cat(self._waiting)[count:].clone()
        self._held, self._waiting = self._held + count, [rest] if len(rest) else []

    def _state(self, ids: Sequence[int]) -> Tensor | None:
        """The hidden state (1, hidden) that predicts what comes behind `ids`, all rows read; None where none does."""
        if ready := self._ready(ids):
            self._newest = self._layer.forward(*self._taken(ids, ready), self._cache)
            self._take(ready)
        if self._known != len(ids) - 1:
            return None
        # Where the newest token has been read itself, the decoder's own state predicts what comes next.
        return self._newest if self._end == self._known else self._waiting[0][:1]

    def _drawn(self, state: Tensor, nodes: int, depth: int) -> Tree:
        """A tree behind the token that `state` predicts the successor of. What it writes into the cache is scratch."""
        trie, parent, reach = Trie(), -1, 1.0
        scores: list[float] = []
        steps = min(depth, self._cache.max_len - self._held + 1)
        for step in range(steps):
            tokens, shares = self._best(state, min(1 + _RUNNERS_UP, nodes))
            reached = [reach * share for share in shares]
            if not math.isfinite(reached[0]):
                break
            added = [trie.add(parent, *node, self.name) for node in zip(tokens, reached, strict=True)]
            parent, reach = added[0], reached[0]
            scores = sorted((*scores, *reached), reverse=True)[:nodes]
            if step + 1 == steps or (len(scores) == nodes and scores[-1] >= reach):
                break  # nothing deeper is better than what there is
            state = self._layer.forward(torch.tensor(tokens[:1]), state, self._held + step, self._cache)
        return cut(trie.tree(), nodes)

    def _sampled(self, state: Tensor, chances: Sequence[float], draw: Draw) -> Drawn:
        """As many tokens as there are `chances`, each drawn behind those before it."""
        tokens, shares = list[int](), list[Tensor]()
        for step in range(min(len(chances), self._cache.max_len - self._held + 1)):
            logits = (self._layer if self._hot is None else self._hot).logits(state)[0].double()
            if not logits.isfinite().all():
                break
            if not draw.temperature:
                at = int(logits.argmax().item())
                shares.append(torch.zeros_like(logits).index_fill_(0, torch.tensor(at), 1.0))
            else:
                shares.append(torch.softmax(logits / draw.temperature, dim=0))
                at = int((logits / draw.temperature + draw.noise(len(logits))).argmax().item())
            tokens.append(at if self._hot is None else int(self._hot.ids[at].item()))
            if step + 1 < len(chances):
                state = self._layer.forward(torch.tensor(tokens[-1:]), state, self._held + step, self._cache)
        if not tokens:
            return Drawn(EMPTY_TREE)
        self._chain = tuple(tokens)
        tree = chain(tokens, chances[: len(tokens)], self.name)
        return Drawn(tree, torch.stack(shares), None if self._hot is None else self._hot.ids)

    def _best(self, state: Tensor, count: int) -> tuple[list[int], list[float]]:
        """The likeliest tokens that `state` predicts, the likeliest first, and their probabilities."""
        logits = (self._layer if self._hot is None else self._hot).logits(state)[0]
        shares, at = torch.softmax(logits, dim=0).topk(min(count, len(logits)))
        return (at if self._hot is None else self._hot.ids[at]).tolist(), shares.tolist()
