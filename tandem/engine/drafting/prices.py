"""What a verify costs by its rows, and how much of a tree pays for itself (ENG-061, ENG-062).

The engine measures, the clock's figures come in as values. A price is the median of recent rounds with that many rows,
about that much context and the same shape, for a tree that branches may cost more than a chain. Between known prices it
is drawn straight, and beyond them flat, as everywhere before the first measurement: a width that nobody has tried is
worth a try. What is old is forgotten, for a price that once was bad would never be tried again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from statistics import median_low
from typing import Literal, TypeAlias

from tandem.engine.drafting.tree import cut
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["CUTS", "Prices", "Shape", "Table", "context_class", "expected", "shape_of"]

Shape: TypeAlias = Literal["chain", "tree"]
"""One path, or one that branches. A single row is a chain."""
Table: TypeAlias = Mapping[tuple[int, Shape], Mapping[int, float]]
"""Milliseconds by rows, by class of context and shape."""

CUTS = (0, 3, 7, 15, 23, 31)
"""Nodes that are tried, and all of the tree."""
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32)
"""A measurement counts for the least of these that holds its rows."""
_RECENT, _OLD = 9, 256
"""Measurements of a width that count, and rounds after which they do no more."""
_ENOUGH = 2
"""Measurements below which a price is not known: a first pass of its shape may have compiled something."""
_TRIAL = 0.5
"""Tokens that a tree must be expected to add while the price of a plain step is not known."""


def expected(tree: Tree) -> float:
    """Tokens that a round with `tree` is expected to commit."""
    return 1.0 + sum(tree.scores)


def shape_of(tree: Tree) -> Shape:
    return "chain" if all(parent == node - 1 for node, parent in enumerate(tree.parents)) else "tree"


def context_class(context: int) -> int:
    """Contexts of one class differ by less than four times: up to 2,047 tokens, up to 8,191, …"""
    return (max(context, 512).bit_length() - 10) // 2


class Prices:
    """Milliseconds of a verify, learned while serving."""

    def __init__(self, table: Table | None = None) -> None:
        """`table`: what is known of this model on this device, until enough is measured."""
        self._table = table or {}
        self._seen: dict[tuple[int, Shape], dict[int, deque[tuple[int, float]]]] = {}
        self._rounds = 0

    def saw(self, rows: int, ms: float, context: int = 0, shape: Shape = "chain") -> None:
        """A verify of `rows` rows behind `context` tokens took `ms`; not to be told of a pass shared with others."""
        if ms > 0 and rows > 0:
            self._rounds += 1
            paid = self._seen.setdefault((context_class(context), shape), {})
            paid.setdefault(_bucket(rows), deque(maxlen=_RECENT)).append((self._rounds, ms))

    def verify(self, rows: int, context: int = 0, shape: Shape = "chain") -> float:
        """What a verify of `rows` rows costs; 1 where nothing is known, for only ratios count then."""
        return _price(self._known(context, shape), rows)

    def worth(self, tree: Tree, *, draft_ms: float = 0.0, context: int = 0) -> Tree:
        """The best-scored part of `tree` that commits the most tokens a millisecond, the draft being paid for."""
        if not tree.scores:
            return tree
        plain = self._known(context, "chain")
        known = {"chain": plain, "tree": plain if shape_of(tree) == "chain" else self._known(context, "tree")}
        if (not plain or plain[0][0] > 1) and expected(tree) < 1 + _TRIAL:
            return EMPTY_TREE
        draft = draft_ms if plain else 0.0
        best, most = EMPTY_TREE, 0.0
        for nodes in sorted({*(each for each in CUTS if each < len(tree.tokens)), len(tree.tokens)}):
            part = cut(tree, nodes)
            rate = min(expected(part), 1.0 + nodes) / (_price(known[shape_of(part)], nodes + 1) + draft)
            if rate > most:
                best, most = part, rate
        return best

    def _known(self, context: int, shape: Shape) -> list[tuple[int, float]]:
        """Prices by rows. A single row has no shape; of a shape that nobody has paid for the other's are a guess."""
        at = context_class(context)
        chains = self._recent(at, "chain")
        prices = (chains if shape == "chain" else {}) or self._recent(at, "tree") or chains
        if not prices:
            return self._tabled(at, shape)
        return sorted({**prices, **({1: chains[1]} if 1 in chains else {})}.items())

    def _recent(self, at: int, shape: Shape) -> dict[int, float]:
        seen, since = self._seen.get((at, shape), {}), self._rounds - _OLD
        recent = {rows: [ms for when, ms in paid if when > since] for rows, paid in seen.items()}
        return {rows: median_low(paid) for rows, paid in recent.items() if len(paid) >= _ENOUGH}

    def _tabled(self, at: int, shape: Shape) -> list[tuple[int, float]]:
        """The table's prices of that class of context, else of the longest one below it."""
        below = [each for each, kind in self._table if kind == shape and each <= at]
        return sorted(self._table[max(below), shape].items()) if below else []


def _price(known: list[tuple[int, float]], rows: int) -> float:
    if not known:
        return 1.0
    at = bisect_left(known, (rows, 0.0))
    if at == len(known):
        return known[-1][1]
    if known[at][0] == rows or not at:
        return known[at][1]
    (low, less), (high, more) = known[at - 1], known[at]
    return less + (more - less) * (rows - low) / (high - low)


def _bucket(rows: int) -> int:
    at = bisect_left(_ROWS, rows)
    return _ROWS[at] if at < len(_ROWS) else rows
