"""Several drafters as one: their trees merged by shared prefix, and no more of it than pays (ENG-046, ENG-061)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_high, median_low
from typing import Final, Literal, TypeAlias

from torch import Tensor

from tandem.engine.drafting.drafter import Chaining, Drafter, Draw, Drawn, TwoWidths
from tandem.engine.drafting.prices import Prices, Shape, expected, shape_of
from tandem.engine.drafting.routing import NARROW, FixedRows, LengthRouter, Trial
from tandem.engine.drafting.store import Run, SuffixStore
from tandem.engine.drafting.tree import chain, cut, merged, walked
from tandem.engine.verbs import Tree

__all__ = ["Combined", "Proposing", "SampledTree"]

_RECENT = 9

SampledTree: TypeAlias = Literal["chain", "det"]
"""The values of `--sampled-tree`."""


@dataclass(frozen=True, slots=True)
class Proposing:
    """What the settings say of it."""

    sampled_tree: SampledTree = "chain"
    """Whether a drafter that can be drawn from draws a chain for a text that is drawn, or proposes its likeliest."""
    len_fixed: FixedRows | None = None
    """Rows of a draft where a drafter has two widths; None decides it by what each request commits."""
    block: Path | None = None
    """Directory of a block drafter that drafts beside the others."""


_PROPOSING: Final = Proposing()


class Combined:
    """Proposes what `drafters` propose together, cut to what is expected to pay for its verify.

    Those that read hidden states run a model of their own, so they come last, and not at all where the others expect
    more by themselves than all of them did of late: a running copy needs no model. They still read every row.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter],
        prices: Prices | None = None,
        *,
        store: SuffixStore | None = None,
        proposing: Proposing = _PROPOSING,
    ) -> None:
        """`store` is told of what sequences read and wrote; a lookup among `drafters` may read it."""
        self._drafters = tuple(drafters)
        self._light = tuple(each for each in drafters if not each.reads_hidden)
        self._heavy = tuple(each for each in drafters if each.reads_hidden)
        draws = (each for each in self._heavy if isinstance(each, Chaining))
        self._drawing = next(draws, None) if proposing.sampled_tree == "chain" else None
        self._has_widths = any(isinstance(each, TwoWidths) for each in self._heavy)
        self._store = store
        self._prices = prices or Prices()
        self._proposing = proposing
        self._router = LengthRouter(proposing.len_fixed)
        self._last: tuple[Tree, int] | None = None
        """The tree of all, and the ids before it: what the router has yet to hear of."""
        self._drafts: deque[float] = deque(maxlen=_RECENT)
        self._hopes: deque[float] = deque(maxlen=_RECENT)
        """What the heavy ones alone expected when they were asked."""
        self._all_asked = False
        self.name = "+".join(each.name for each in drafters)
        self.reads_hidden = any(each.reads_hidden for each in drafters)

    def start(self, ids: Sequence[int], valid: int) -> None:
        self._router, self._last = LengthRouter(self._proposing.len_fixed), None
        for each in self._drafters:
            each.start(ids, valid)

    def read(self, start: int, hidden: Tensor) -> None:
        for each in self._heavy:
            each.read(start, hidden)

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        self._note(ids)
        return self._tree(_together([each.propose(ids, nodes, depth) for each in self._light]), ids, nodes, depth)

    def draw(self, ids: Sequence[int], nodes: int, depth: int, draw: Draw) -> Drawn:
        """The chain or what the others propose, whichever is expected to commit more; never both in one tree."""
        self._note(ids)
        light = _together([each.propose(ids, nodes, depth) for each in self._light])
        if (drawing := self._drawing) is None:
            return Drawn(self._tree(light, ids, nodes, depth))
        # How long the chain is has to be known before its first token is.
        chances = drawing.chances(nodes, depth)
        pays = self._worth(chain((0,) * len(chances), chances), len(ids), self._draft_ms)
        self._all_asked = expected(pays) > expected(light)
        if self._all_asked:
            return drawing.draw(ids, len(pays.tokens), depth, draw)
        return Drawn(self._worth(cut(light, nodes), len(ids)))

    def learn(self, tree: Tree, accepted: int) -> None:
        for each in self._drafters:
            each.learn(tree, accepted)

    def paid(self, rows: int, draft_ms: float, verify_ms: float, context: int, shape: Shape) -> None:
        """What the last round took: the draft, and the verify of `rows` rows behind `context` tokens."""
        if self._all_asked:
            self._drafts.append(draft_ms)
        self._prices.saw(rows, verify_ms, context, shape)

    def remember(self, history: Sequence[int], read: Sequence[Run], written: Sequence[Run]) -> None:
        if self._store is not None:
            self._store.remember(history, read, written)

    def state(self) -> Mapping[str, int]:
        return {} if self._store is None else self._store.state()

    def end(self) -> None:
        for each in self._drafters:
            each.end()

    def _tree(self, light: Tree, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        tree = light
        self._all_asked = bool(self._heavy) and expected(light) <= median_high(self._hopes or (float("inf"),))
        if self._all_asked:
            narrow = self._has_widths and self._router.width == NARROW
            room = min(nodes, NARROW) if narrow else nodes
            more = _together([each.propose(ids, room, depth) for each in self._heavy])
            self._hopes.append(expected(more))
            tree = merged([more, light])
        tree = self._worth(cut(tree, nodes), len(ids), self._draft_ms if self._all_asked else 0.0)
        if self._all_asked and self._has_widths and not self._router.decided:
            self._last = (tree, len(ids))
        return tree

    def _worth(self, tree: Tree, context: int, draft_ms: float = 0.0) -> Tree:
        return self._prices.worth(tree, draft_ms=draft_ms, context=context)

    @property
    def _draft_ms(self) -> float:
        """What a draft of all takes."""
        return median_low(self._drafts or (0.0,))

    def _note(self, ids: Sequence[int]) -> None:
        """Tell the router what its last round came to: `ids` hold what was written since."""
        if self._last is None:
            return
        (tree, before), self._last = self._last, None
        self._router.saw(self._trial(tree, ids, before), self._trial(cut(tree, NARROW), ids, before))

    def _trial(self, tree: Tree, ids: Sequence[int], before: int) -> Trial:
        cost = self._prices.verify(1 + len(tree.tokens), before, shape_of(tree)) + self._draft_ms
        return Trial(1 + walked(tree, ids[before:]), cost)


def _together(trees: Sequence[Tree]) -> Tree:
    return trees[0] if len(trees) == 1 else merged(trees)
