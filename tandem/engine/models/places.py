"""Where captured graphs read and write what recurrent layers remember: two places, which take turns (ENG-029).

A graph has its addresses burnt in, so it cannot make a new value as a forward does: it reads one place and writes the
other. A value that lies in a place stays what it is for the pass that reads it. Before the place is written again the
value is moved into memory of its own, but only where somebody still holds it: an anchor, a snapshot, a verb that may
have to go back. While a text is written nobody does, and nothing is copied.
"""

from __future__ import annotations

from weakref import ReferenceType, ref

import torch

from tandem.engine.models.recurrent import LayerMemory, Recurrent

__all__ = ["Places"]


class Places:
    """Two places for values like `empty`."""

    def __init__(self, empty: Recurrent) -> None:
        self.layers = tuple(
            tuple(LayerMemory(*(torch.empty_like(each) for each in layer)) for layer in empty.layers) for _ in range(2)
        )
        self._lies: list[ReferenceType[Recurrent] | None] = [None, None]

    def put(self, value: Recurrent) -> int:
        """The place that holds the numbers of `value`; they are copied into one where neither does."""
        for place, lies in enumerate(self._lies):
            if lies is not None and lies() is value:
                return place
        place = self.free(0)
        for to, layer in zip(self.layers[place], value.layers, strict=True):
            for target, source in zip(to, layer, strict=True):
                target.copy_(source)
        self._lies[place] = ref(value)
        return place

    def free(self, place: int) -> int:
        """Make ready to write to a place: what lies there moves out where somebody holds it."""
        lies, self._lies[place] = self._lies[place], None
        value = None if lies is None else lies()
        if value is not None and value.layers is self.layers[place]:
            value.moved()
        return place

    def written(self, place: int, row: int, offset: int) -> Recurrent:
        """What a graph has written to a place, as a value."""
        value = Recurrent(row, self.layers[place], offset)
        self._lies[place] = ref(value)
        return value
