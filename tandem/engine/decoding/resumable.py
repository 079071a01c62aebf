"""A text that is written in pieces, over sequences that are closed between them and opened again (SCH-081, SCH-083).

Sans-I/O, as `Generation`: `next` says what work comes, `feed` takes what came of it. What is closed leaves its rows to
the caches; a next sequence resumes there, reads what is missing of the prompt and is forced what was written so far.

Such a text must not cost the conversation its rows. `displaces` tells when it would: the next turn resumes at the end
of the last one, whose anchor stays where the prompt goes on from it, and is spared while at most three newer ones come:
two grid lines and the text's own end (ENG-108, ENG-110).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tandem.engine.decoding.work import Force, Forced, Prefill, Result, Round, Work
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, Prefilled, SamplingRules

__all__ = ["LINES", "Resumable"]

LINES = 2
"""Grid lines at most in what such a prompt adds to the conversation."""


class Resumable:
    """At most `limit` tokens over `prompt`; `ids` are what is written, without the end token."""

    def __init__(self, prompt: Prompt, rules: SamplingRules, *, limit: int, grid: int) -> None:
        self.prompt = prompt
        self.rules = replace(rules, mask=None, logprobs=None)
        self.keys = prompt.keys
        self.ids: tuple[int, ...] = ()
        self.done = False
        self._limit = limit
        self._grid = grid
        self._base: int | None = None
        """Rows of the conversation when it was first opened."""
        self._read = 0
        self._stands = 0

    def displaces(self, resident: Sequence[int]) -> bool:
        """Whether opening it now could cost the conversation that is held: it goes on from elsewhere, or too far."""
        mine = (*self.keys, *self.ids)
        base = len(resident) if self._base is None else self._base
        if not 0 < base <= len(self.keys) - 1 or len(self.keys) - base > LINES * self._grid:
            return True
        return len(resident) < base or tuple(resident) != mine[: len(resident)]

    def open(self, resident: Sequence[int]) -> None:
        """A new sequence begins; nothing is read or written in it yet."""
        if self._base is None:
            self._base = len(resident)
        self._read = self._stands = 0

    def next(self) -> Work | None:
        """The work at hand; None once the text is whole."""
        if self.done:
            return None
        rows = len(self.keys)
        if self._read < rows:
            return Prefill(min(rows, (self._read // self._grid + 1) * self._grid))
        if self._stands < len(self.ids):
            return Force(self.ids, visible=True)
        return Round(self._limit - len(self.ids))

    def feed(self, result: Result) -> None:
        match result:
            case Prefilled(done):
                self._read = done
            case Forced():
                self._stands = len(self.ids)
            case Accepted(ids):
                at_end = ids[-1] in self.rules.end_ids
                self.ids += ids[:-1] if at_end else ids
                self._stands = len(self.ids)
                self.done = at_end or len(self.ids) >= self._limit
            case _:
                raise TypeError(f"{type(result).__name__} answers no work of a text")
