"""What verifies cost, measured once at the load (ENG-062). The clock comes in; on a device its logits come back, so a
pass has ended when the clock is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median_low
from typing import Final, TypeAlias

import torch

from tandem.engine.drafting.prices import Shape, Table, context_class
from tandem.engine.drafting.tree import Trie, chain
from tandem.engine.models.model import Model
from tandem.engine.models.state import State
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["CONTEXTS", "ROWS", "Clock", "measured"]

Clock: TypeAlias = Callable[[], float]
"""Seconds."""

CONTEXTS: Final = (1_024, 4_096, 16_384)
"""One of each class of context; longer ones are taken to cost as the last until they have been paid for."""
ROWS: Final = (8, 16, 24, 32)
"""And a single one."""
_TIMES: Final = 3
"""Passes that are timed of each; one before them may compile something."""


def measured(model: Model, window: int, clock: Clock) -> Table:
    """Prices of `model` for sequences of at most `window` tokens, chains and trees apart.

    It runs over a state of its own, whose rows nobody has written: what a pass costs does not depend on what they hold.
    """
    contexts = [each for each in CONTEXTS if each + max(ROWS) <= window]
    if not contexts:
        contexts = [max(0, window - max(ROWS))]
    state = model.new_state(min(window, contexts[-1] + max(ROWS)))
    table = dict[tuple[int, Shape], dict[int, float]]()
    with torch.inference_mode():
        for context in contexts:
            state.put_back(replace(state.empty, row=context))
            one = _price(lambda at=context: _step(model, at, state), clock)  # type: ignore[misc]
            for shape, grown in _GROWN.items():
                trees = {rows: grown(rows - 1) for rows in ROWS if context + rows <= window}
                paid = {rows: _price(_verify(model, tree, context, state), clock) for rows, tree in trees.items()}
                table[context_class(context), shape] = {1: one, **paid}
    return table


def _price(run: Callable[[], None], clock: Clock) -> float:
    """Milliseconds of a pass."""
    run()
    taken = list[float]()
    for _ in range(_TIMES):
        started = clock()
        run()
        taken.append(clock() - started)
    return 1e3 * median_low(taken)


def _step(model: Model, context: int, state: State) -> None:
    """A pass over one row, which moves the state."""
    stood = state.keep()
    model.logits(model.forward(torch.tensor([0]), context, state))
    state.put_back(stood)


def _verify(model: Model, tree: Tree, context: int, state: State) -> Callable[[], None]:
    """A pass over a tree behind its root, which leaves the state where it is."""
    ids = torch.tensor((0, *tree.tokens))
    parents = torch.tensor((-1, *(parent + 1 for parent in tree.parents)))

    def run() -> None:
        model.logits(model.verify(ids, parents, context, state))
        state.discard()

    return run


def _comb(nodes: int) -> Tree:
    """A path, with a leaf beside each of its nodes."""
    if nodes < 1:
        return EMPTY_TREE
    trie, at = Trie(), -1
    while len(trie) < nodes:
        behind = trie.add(at, 0)
        if len(trie) < nodes:
            trie.add(at, 1)
        at = behind
    return trie.tree()


_GROWN: Final[dict[Shape, Callable[[int], Tree]]] = {"chain": lambda nodes: chain((0,) * nodes), "tree": _comb}
