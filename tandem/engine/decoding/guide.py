"""An engine's drafter behind one promise: no fault of it becomes one of the engine's (ENG-046).

Text never depends on a drafter, so one that raises is counted and left alone for the rest of the sequence, whose rounds
go on plainly. The guide also keeps count of the rows that the drafter's own state is good for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from tandem.engine.decoding.counters import NO_DRAFTER
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.drafting.drafter import Drafter, Draw, Drawing, Drawn, Priced, Remembering
from tandem.engine.drafting.prices import Shape
from tandem.engine.drafting.store import read_runs
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["Guide"]

T = TypeVar("T")


class Guide:
    """`drafter` None proposes nothing. Everything here is quick and harmless where the drafter is off or resting."""

    def __init__(self, drafter: Drafter | None) -> None:
        self.name = NO_DRAFTER if drafter is None else drafter.name
        self.faults = 0
        self._drafter = drafter
        self._reads = drafter is not None and drafter.reads_hidden
        # Asked once: what a protocol wants is looked up anew each time, which is work a token would pay.
        self._priced = drafter if isinstance(drafter, Priced) else None
        self._draws = drafter if isinstance(drafter, Drawing) else None
        self._on = False
        self._rests = False
        self._valid = 0
        """Rows from the first one on that the drafter knows, as they stand in the buffer."""

    @property
    def is_on(self) -> bool:
        return self._ready is not None

    def start(self, ids: Sequence[int], shared: int) -> None:
        """A sequence begins with `ids`, or goes on from them; its first `shared` rows are those of the one before."""
        if self._rests or (drafter := self._drafter) is None:
            return
        self._on = True
        self._valid = valid = min(shared, self._valid)
        self._safely(lambda: drafter.start(ids, valid), None)
        if self._on and not self._reads:
            self._valid = len(ids)

    def read(self, start: int, hidden: Tensor) -> None:
        """Rows from `start` on belong to the sequence; `hidden` (rows, hidden)."""
        if self._reads and (drafter := self._ready) is not None:
            self._safely(lambda: drafter.read(start, hidden), None)
            if self._on and start <= self._valid:
                self._valid = start + hidden.shape[0]

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        if (drafter := self._ready) is None:
            return EMPTY_TREE
        tree = self._safely(lambda: drafter.propose(ids, nodes, depth), EMPTY_TREE)
        if self._on and not self._reads:
            self._valid = len(ids)
        return tree

    def draw(self, ids: Sequence[int], nodes: int, depth: int, draw: Draw | None) -> Drawn:
        """As `propose`, drawn where the drafter can draw and the text is drawn itself."""
        if draw is None or self._draws is None or self._ready is None:
            return Drawn(self.propose(ids, nodes, depth))
        drafter, nothing = self._draws, Drawn(EMPTY_TREE)
        return self._safely(lambda: drafter.draw(ids, nodes, depth, draw), nothing)

    def learn(self, tree: Tree, accepted: int) -> None:
        if (drafter := self._ready) is not None:
            self._safely(lambda: drafter.learn(tree, accepted), None)

    def paid(self, rows: int, draft_ms: float, verify_ms: float, context: int, shape: Shape) -> None:
        """A pass over `rows` rows of that shape behind `context` tokens took so long, and the draft before it."""
        if (drafter := self._priced) is not None and self._ready is not None:
            self._safely(lambda: drafter.paid(rows, draft_ms, verify_ms, context, shape), None)

    def cut(self, length: int) -> None:
        """Rows from `length` on no longer belong to the sequence."""
        if not self._rests:
            self._valid = min(self._valid, length)

    def lose(self) -> None:
        """The buffer is another one: no row of it is known."""
        self._rests = self._on = False
        self._valid = 0

    def end(self, seq: TorchSequence) -> None:
        if (drafter := self._ready) is not None:
            if isinstance(drafter, Remembering) and seq.sound:
                read = read_runs(seq.prompt, seq.resumed, min(seq.length, len(seq.prompt.ids)))
                self._safely(lambda: drafter.remember(seq.history.ids, read, seq.written), None)
            self._safely(drafter.end, None)
        if not self._rests:
            self._on = False

    def state(self) -> Mapping[str, int]:
        """Counters of the drafter and of its faults."""
        kept: Mapping[str, int] = self._drafter.state() if isinstance(self._drafter, Remembering) else {}
        return {"draft_faults": self.faults, **kept}

    def rest(self) -> None:
        """A guest has the engine: the drafter and its state are left as they are until `wake` (ENG-136)."""
        self._rests = True

    def wake(self) -> None:
        self._rests = False

    @property
    def _ready(self) -> Drafter | None:
        return self._drafter if self._on and not self._rests else None

    def _safely(self, verb: Callable[[], T], otherwise: T) -> T:
        try:
            with torch.inference_mode():
                return verb()
        except Exception:
            # Whatever a drafter gets wrong, the text does not need it.
            self.faults += 1
            self._on = False
            self._valid = 0
            return otherwise
