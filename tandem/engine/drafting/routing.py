"""Which of its two widths a drafter gets for the rest of a request (ENG-060). Sans-I/O: rounds in, a width out.

Four wide rounds show what either width commits, for the narrow tree is the best part of the wide one. Where narrow
could win, up to four rounds are drafted so, because a shorter draft may also cost less than was thought. Then one
decision holds: a drafter that is switched in has context to catch up, so nothing ever goes back and forth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["NARROW", "PROBES", "WIDE", "WIDE_ROUNDS", "FixedRows", "LengthRouter", "Trial"]

NARROW, WIDE = 7, 15
"""Nodes, with the root 8 and 16 rows; a wide draft may branch, and have more of them."""
WIDE_ROUNDS, PROBES = 4, 4

FixedRows: TypeAlias = Literal[8, 16]
"""The values of `--len-fixed`."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a round committed, and what it cost."""

    tokens: int
    ms: float


class LengthRouter:
    """The decision of one request."""

    def __init__(self, fixed: FixedRows | None = None) -> None:
        self._decided = None if fixed is None else fixed - 1
        self._wide: list[Trial] = []
        self._as_narrow: list[Trial] = []
        self._narrow: list[Trial] = []

    @property
    def width(self) -> int:
        """Nodes of the next draft."""
        return self._decided or (WIDE if len(self._wide) < WIDE_ROUNDS else NARROW)

    @property
    def decided(self) -> bool:
        return self._decided is not None

    def saw(self, taken: Trial, as_narrow: Trial) -> None:
        """A round at `width` was `taken`; with the narrow part of its draft alone it would have been `as_narrow`."""
        if self.decided:
            return
        if self.width == WIDE:
            self._wide.append(taken)
            self._as_narrow.append(as_narrow)
            # Each width has a rate now: the narrow one's is a guess, which is enough to give it up.
            if len(self._wide) == WIDE_ROUNDS and _rate(self._as_narrow) <= _rate(self._wide):
                self._decided = WIDE
            return
        self._narrow.append(taken)
        left = PROBES - len(self._narrow)
        cheapest = min(each.ms for each in self._narrow)
        at_best = _rate([*self._narrow, *[Trial(NARROW + 1, cheapest)] * left])
        if at_best <= _rate(self._wide):
            self._decided = WIDE
        elif not left:
            self._decided = NARROW


def _rate(trials: Iterable[Trial]) -> float:
    """Tokens a millisecond."""
    trials = list(trials)
    return sum(each.tokens for each in trials) / max(sum(each.ms for each in trials), 1e-9)
