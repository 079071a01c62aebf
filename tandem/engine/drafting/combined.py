"""Several drafters as one: their trees merged by shared prefix, and no more of it than pays (ENG-046, ENG-061)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median_high, median_low

from torch import Tensor

from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.prices import Prices, expected
from tandem.engine.drafting.store import Run, SuffixStore
from tandem.engine.drafting.tree import cut, merged
from tandem.engine.verbs import Tree

__all__ = ["Combined"]

_RECENT = 9


class Combined:
    """Proposes what `drafters` propose together, cut to what is expected to pay for its verify.

    Those that read hidden states run a model of their own, so they come last, and not at all where the others expect
    more by themselves than all of them did of late: a running copy needs no model. They still read every row.
    """

    def __init__(
        self, drafters: Sequence[Drafter], prices: Prices | None = None, *, store: SuffixStore | None = None
    ) -> None:
        """`store` is told of what sequences read and wrote; a lookup among `drafters` may read it."""
        self._drafters = tuple(drafters)
        self._light = tuple(each for each in drafters if not each.reads_hidden)
        self._heavy = tuple(each for each in drafters if each.reads_hidden)
        self._store = store
        self._prices = prices or Prices()
        self._drafts: deque[float] = deque(maxlen=_RECENT)
        self._hopes: deque[float] = deque(maxlen=_RECENT)
        """What the heavy ones alone expected when they were asked."""
        self._all_asked = False
        self.name = "+".join(each.name for each in drafters)
        self.reads_hidden = any(each.reads_hidden for each in drafters)

    def start(self, ids: Sequence[int], valid: int) -> None:
        for each in self._drafters:
            each.start(ids, valid)

    def read(self, start: int, hidden: Tensor) -> None:
        for each in self._heavy:
            each.read(start, hidden)

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        tree = _together([each.propose(ids, nodes, depth) for each in self._light])
        self._all_asked = bool(self._heavy) and expected(tree) <= median_high(self._hopes or (float("inf"),))
        if self._all_asked:
            more = _together([each.propose(ids, nodes, depth) for each in self._heavy])
            self._hopes.append(expected(more))
            tree = merged([more, tree])
        draft_ms = median_low(self._drafts or (0.0,)) if self._all_asked else 0.0
        return self._prices.worth(cut(tree, nodes), draft_ms=draft_ms, context=len(ids))

    def learn(self, tree: Tree, accepted: int) -> None:
        for each in self._drafters:
            each.learn(tree, accepted)

    def paid(self, rows: int, draft_ms: float, verify_ms: float, context: int) -> None:
        """What the last round took: the draft, and the verify of `rows` rows behind `context` tokens."""
        if self._all_asked:
            self._drafts.append(draft_ms)
        self._prices.saw(rows, verify_ms, context)

    def remember(self, history: Sequence[int], read: Sequence[Run], written: Sequence[Run]) -> None:
        if self._store is not None:
            self._store.remember(history, read, written)

    def state(self) -> Mapping[str, int]:
        return {} if self._store is None else self._store.state()

    def end(self) -> None:
        for each in self._drafters:
            each.end()


def _together(trees: Sequence[Tree]) -> Tree:
    return trees[0] if len(trees) == 1 else merged(trees)
