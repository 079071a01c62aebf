"""A round of several slots at once: each drafts, one pass verifies all, each walks its own rows (ENG-162, SCH-064).

What goes wrong with one slot's draft, rows or walk is that slot's alone; where the one pass itself fails, each block is
verified by itself, for any of them may be the culprit (SCH-068).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tandem.engine.decoding.language import allowed
from tandem.engine.drafting.tree import cut, share
from tandem.engine.verbs import Accepted, Engine, SamplingRules, Tree

__all__ = ["Block", "Outcome", "Together", "perform_together"]

T = TypeVar("T")

Outcome = Accepted | Exception
"""Of one slot; a fault is told apart by who reads it."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one slot brings to a round: its sequence, which commits at most `limit` tokens by `rules`."""

    engine: Engine[Any, Any]
    seq: Any
    limit: int
    rules: SamplingRules


@dataclass(frozen=True, slots=True)
class Together:
    """One outcome a slot, and what the three steps of all of them took."""

    outcomes: Mapping[int, Outcome]
    draft_ms: float = 0.0
    pass_ms: float = 0.0
    post_ms: float = 0.0


def perform_together(first: Engine[Any, Any], blocks: Mapping[int, Block]) -> Together:
    """One round for all `blocks`, by slot; `first` is slot 0's engine. Each tree is cut to its share (SCH-065)."""
    outcomes: dict[int, Outcome] = {}
    begun = time.perf_counter()
    nodes = share(len(blocks))
    trees = _each(blocks, outcomes, lambda slot: _draft(blocks[slot], nodes))
    drafted = time.perf_counter()
    rows = _verify(first, blocks, trees, outcomes)
    passed = time.perf_counter()
    accepted = _each(
        rows, outcomes, lambda slot: blocks[slot].engine.accept(blocks[slot].seq, rows[slot], blocks[slot].rules)
    )
    outcomes |= accepted
    return Together(outcomes, 1e3 * (drafted - begun), 1e3 * (passed - drafted), 1e3 * (time.perf_counter() - passed))


def _draft(block: Block, nodes: int) -> Tree:
    return cut(allowed(block.engine.draft(block.seq, block.limit), block.rules.mask), nodes)


def _verify(
    first: Engine[Any, Any], blocks: Mapping[int, Block], trees: Mapping[int, Tree], outcomes: dict[int, Outcome]
) -> Mapping[int, Any]:
    """Rows by slot. A block that is alone goes its own way."""
    if len(trees) > 1:
        try:
            return dict(
                zip(trees, first.verify([(blocks[slot].seq, tree) for slot, tree in trees.items()]), strict=True)
            )
        except Exception:
            pass

    def alone(slot: int) -> Any:
        [rows] = blocks[slot].engine.verify([(blocks[slot].seq, trees[slot])])
        return rows

    return _each(trees, outcomes, alone)


def _each(
    slots: Mapping[int, Any] | Sequence[int], outcomes: dict[int, Outcome], step: Callable[[int], T]
) -> dict[int, T]:
    """`step` of each slot; the fault of one is its outcome, and the others go on."""
    done: dict[int, T] = {}
    for slot in slots:
        try:
            done[slot] = step(slot)
        except Exception as fault:
            outcomes[slot] = fault
    return done
