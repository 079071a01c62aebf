"""Drafting without a model: what came after the last tokens where they stood before (ENG-049, ENG-051).

Related: prompt lookup decoding (Saxena, 2023), REST (He et al., 2023), SuffixDecoding (Oliaro et al., 2024).

Matches are weighted by their length, and a path's probability is the product of two at each token: how often matches
of that length have gone on (`calibration`), and the share that the token has among the matches that still hold.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from tandem.engine.drafting.calibration import Calibration
from tandem.engine.drafting.matches import Match, OwnText, Source
from tandem.engine.drafting.suffixes import CONTEXT
from tandem.engine.drafting.tree import NODES, Trie, depths
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["BUDGET", "LookupDrafter"]

BUDGET = 16
"""Nodes of a round that is not deep (ENG-056)."""
_MATCHES = 16
"""Matches looked at in each source."""
_FLOOR = 0.02
"""Nodes that the walk reaches more rarely are not worth the thought."""
_BASE, _LONGEST = 3.0, 16
"""A match weighs `_BASE` times one that is a token shorter, up to `_LONGEST`."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A match that may still hold: where it is from, and its weight."""

    kind: str
    match: Match
    weight: float


@dataclass(order=True, slots=True)
class _Front:
    """A node that may come into the tree next; the likeliest first."""

    rank: float
    serial: int
    parent: int = field(compare=False)
    token: int = field(compare=False)
    depth: int = field(compare=False)
    held: list[_Held] = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Guess:
    """What was said of the token behind one node: to be compared with the one that came."""

    kind: str
    length: int
    nodes: Mapping[int, int]
    """By token; -1 where the token is among the matches' and not in the tree."""


class LookupDrafter:
    """Proposes from the request's own ids and from `sources`. It is for one sequence at a time."""

    name = "lookup"
    reads_hidden = False

    def __init__(
        self,
        sources: Mapping[str, Source] | None = None,
        *,
        barred: Container[int] = frozenset(),
        deep: int = NODES + 1,
        deep_after: int = 2,
        calibration: Calibration | None = None,
    ) -> None:
        """`barred` ids are never proposed. `deep` rows make the chain that follows `deep_after` rounds which committed
        their whole width; 0 rows turn it off.
        """
        self._own = OwnText()
        self._sources: dict[str, Source] = {"own": self._own, **(sources or {})}
        self._barred = barred
        self._deep, self._deep_after = min(deep - 1, NODES), deep_after
        self._whole = 0
        self._calibration = calibration or Calibration()
        self._guesses: dict[int, _Guess] = {}

    def start(self, ids: Sequence[int], valid: int) -> None:
        # What of the index still holds, the index sees for itself: `valid` is about rows, this is about ids.
        self._own.start(ids)
        self._calibration.reset()
        self._guesses, self._whole = {}, 0

    def read(self, start: int, hidden: Tensor) -> None:
        """Hidden states are not looked at."""

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        self._compare(ids)
        self._own.extend(ids)
        self._guesses = {}
        nodes = min(nodes, NODES)
        if nodes < 1 or depth < 1 or not ids:
            return EMPTY_TREE
        deep = self._whole >= self._deep_after and self._deep > 0
        held = self._held(list(ids[-CONTEXT:]), min(depth, self._deep if deep else BUDGET))
        if deep:
            return self._tree(held, min(nodes, self._deep), depth, branches=1)
        return self._tree(held, min(nodes, BUDGET), depth, branches=BUDGET)

    def learn(self, tree: Tree, accepted: int) -> None:
        if tree.tokens:
            self._whole = self._whole + 1 if accepted >= max(depths(tree)) else 0

    def end(self) -> None:
        self._guesses, self._whole = {}, 0

    def _held(self, last: list[int], depth: int) -> list[_Held]:
        found = []
        for kind, source in self._sources.items():
            for match in source.matches(last, _MATCHES, depth):
                weight = _BASE ** min(match.length, _LONGEST) * (1 + match.late)
                found.append(_Held(match.kind or kind, match, weight))
        return found

    def _tree(self, held: list[_Held], nodes: int, depth: int, *, branches: int) -> Tree:
        """The likeliest `nodes` nodes of what the matches say, at most `branches` behind each."""
        trie, front, serial = Trie(), list[_Front](), 0
        at, score, deep = -1, 1.0, 0
        while True:
            if deep < depth:
                for token, likely, behind in self._guess(at, held, deep)[:branches]:
                    if score * likely >= _FLOOR and token not in self._barred:
                        heapq.heappush(front, _Front(-score * likely, serial, at, token, deep + 1, behind))
                        serial += 1
            if not front or len(trie) == nodes:
                return trie.tree()
            best = heapq.heappop(front)
            at = trie.add(best.parent, best.token, -best.rank, self.name)
            if guess := self._guesses.get(best.parent):
                self._guesses[best.parent] = _Guess(guess.kind, guess.length, {**guess.nodes, best.token: at})
            held, score, deep = best.held, -best.rank, best.depth

    def _guess(self, node: int, held: list[_Held], depth: int) -> list[tuple[int, float, list[_Held]]]:
        """Tokens behind `node` with their probability after it and the matches that say so, the likeliest first."""
        ahead: dict[int, list[_Held]] = {}
        for each in held:
            if depth < len(each.match.follow):
                ahead.setdefault(each.match.follow[depth], []).append(each)
        if not ahead:
            return []
        longest = max((each for group in ahead.values() for each in group), key=lambda each: each.match.length)
        length = longest.match.length + depth
        rate = self._calibration.rate(longest.kind, length)
        self._guesses[node] = _Guess(longest.kind, length, dict.fromkeys(ahead, -1))
        weights = {token: sum(each.weight for each in group) for token, group in ahead.items()}
        total = sum(weights.values())
        shares = [(token, rate * weights[token] / total, group) for token, group in ahead.items()]
        return sorted(shares, key=lambda share: -share[1])

    def _compare(self, ids: Sequence[int]) -> None:
        """Count what the last tree said against what has been written since, proposed or not."""
        node = -1
        for token in ids[len(self._own.ids) :]:
            guess = self._guesses.get(node)
            if guess is None:
                return
            self._calibration.saw(guess.kind, guess.length, token in guess.nodes)
            node = guess.nodes.get(token, -1)
            if node < 0:
                return
