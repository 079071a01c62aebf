"""The forwards of an engine: one model over one state, and where they are cut (ENG-035)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.caches.hoard import Hoard
from tandem.engine.decoding.guide import Guide
from tandem.engine.decoding.sight import Eyes
from tandem.engine.errors import EngineError
from tandem.engine.models.model import Drafts, Model
from tandem.engine.models.state import State
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Tree

__all__ = ["Passes"]


class Passes:
    """Every forward tells the caches which rows it writes over, and shows the guide what it has read."""

    def __init__(self, model: Model, state: State, grid: int, hoard: Hoard, guide: Guide, eyes: Eyes | None) -> None:
        self._model = model
        self._state = state
        self._grid = grid
        self._hoard = hoard
        self._guide = guide
        self._eyes = eyes

    @property
    def window(self) -> int:
        """How many rows may be written now."""
        return self._state.writable

    @property
    def room(self) -> str:
        """The window in words."""
        lent = self.window < self._state.max_len
        return f"the {self.window} rows lent to a guest" if lent else f"a window of {self.window}"

    def next_cut(self, start: int) -> int:
        return (start // self._grid + 1) * self._grid

    def prompt(self, prompt: Prompt, start: int, end: int) -> Tensor:
        """Hidden states of rows `start` to below `end` of a prompt, images among them."""
        if prompt.images and self._eyes is not None:
            self._hoard.writing(start, end)
            if (hidden := self._eyes.read(prompt, start, end, self._state)) is not None:
                self._guide.read(start, hidden)
                return hidden
        return self._forward(prompt.ids[start:end], start, guided=True)

    def on(self, ids: Sequence[int], start: int, *, guided: bool = True) -> tuple[Tensor, int]:
        """Forward `ids` from row `start` on, cut as a prefill would be: hidden states of the last cut, and the end.

        What is not `guided` is a question, which the sequence forgets.
        """
        if not ids:
            raise EngineError("there is no token to forward")
        end = start + len(ids)
        cuts = [*range(self.next_cut(start), end, self._grid), end]
        hidden = None
        for low, high in zip([start, *cuts], cuts, strict=False):
            hidden = self._forward(ids[low - start : high - start], low, guided=guided)
        assert hidden is not None
        return hidden, end

    def tree(self, unread: Sequence[int], tree: Tree, start: int) -> Tensor:
        """Verify `tree` behind the newest token, at row `start`: hidden states (rows, hidden), that token's first.

        Where that token is not `unread`, its row is kept already and the tree's nodes are the only rows.
        """
        return self._model.verify(*self.drafts(unread, tree, start))

    def drafts(self, unread: Sequence[int], tree: Tree, start: int) -> Drafts:
        """The same for a pass that is still to come, maybe one of several sequences."""
        ids = [*unread, *tree.tokens]
        self._check_room(start + len(ids))
        # A device fills a tree up to a power of two rows, and those are written as well.
        self._hoard.writing(start, min(start + (1 << (len(ids) - 1).bit_length()), self.window))
        parents = [*range(-1, len(unread) - 1), *(parent + len(unread) for parent in tree.parents)]
        return Drafts(torch.tensor(ids), torch.tensor(parents), start, self._state)

    def rows(self, hidden: Tensor) -> Tensor:
        """Logits (rows, vocab) of all rows of `hidden`, in one call."""
        return self._model.logits(hidden)

    def row(self, hidden: Tensor) -> Tensor:
        """Logits (vocab) of the last of `hidden`'s rows."""
        return self._model.logits(hidden[-1:])[0]

    def _forward(self, ids: Sequence[int], start: int, *, guided: bool) -> Tensor:
        self._check_room(start + len(ids))
        self._hoard.writing(start, start + len(ids))
        hidden = self._model.forward(torch.tensor(ids), start, self._state)
        if guided:
            self._guide.read(start, hidden)
        return hidden

    def _check_room(self, rows: int) -> None:
        if rows > self.window:
            raise EngineError(f"{rows} rows do not fit {self.room}")
