"""Judges two runs that should have written the same: where they part, and whether a near tie excuses it (ENG-066).

The same sums in another order differ in their last bits, so where two tokens are nearly equally good, two exact runs
may take one each. Everything else that makes them part is a defect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["TIE_NATS", "Fork", "Promise", "Run", "Step", "Verdict", "judge"]

TIE_NATS = 0.125
"""The widest gap of a near tie."""

Promise: TypeAlias = Literal["bit", "text"]
"""`bit`: every number is the same, so runner-ups and gaps are as well. `text`: tokens are, but where a near tie is."""


@dataclass(frozen=True, slots=True)
class Step:
    """One token, the one that would have come in its place, and how far that was behind by what chose between them.

    Where nothing chose, as with a token that is forced or the only one a mask allows, there is no runner-up.
    """

    token: int
    runner_up: int | None = None
    gap: float = math.inf
    """Nats."""
    kept: frozenset[int] | None = field(default=None, repr=False)
    """What was chosen among, where truncation left a few; None where there was none."""
    edge: float = math.inf
    """How far the token was above the least of those, or above the floor that cut the others off. Nats."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was written; `end` is the place of the token that ended the answer, the number of steps where none did."""

    steps: tuple[Step, ...]
    end: int

    @classmethod
    def of(cls, steps: Sequence[Step], end_ids: frozenset[int]) -> Run:
        end = next((at for at, step in enumerate(steps) if step.token in end_ids), len(steps))
        return cls(tuple(steps), end)


@dataclass(frozen=True, slots=True)
class Fork:
    """The first position at which two runs differ; None is said by the one that is over."""

    position: int
    one: Step | None
    other: Step | None
    is_near_tie: bool

    @property
    def words(self) -> str:
        """Position, both ids and the gap of each."""
        verdict = "near tie" if self.is_near_tie else "DEFECT"
        return f"position {self.position}: {_told(self.one)} | {_told(self.other)}, {verdict}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`fork` is in the answer, or where the two end; `behind` is after the answer's end, which is nobody's text."""

    compared: int
    """Positions at which both say the same."""
    fork: Fork | None = None
    behind: Fork | None = None

    @property
    def is_defect(self) -> bool:
        return self.fork is not None and not self.fork.is_near_tie


def judge(one: Run, other: Run, promise: Promise = "text", tie_nats: float = TIE_NATS) -> Verdict:
    """Compare up to the first fork: behind it the two read different texts, and nothing can be told."""
    fork = _first_fork(one, other, promise, tie_nats)
    if fork is None:
        return Verdict(len(one.steps))
    if fork.position > one.end and one.end == other.end:  # both have said their end token
        return Verdict(fork.position, behind=fork)
    return Verdict(fork.position, fork)


def _first_fork(one: Run, other: Run, promise: Promise, tie_nats: float) -> Fork | None:
    for at in range(max(len(one.steps), len(other.steps))):
        this, that = (run.steps[at] if at < len(run.steps) else None for run in (one, other))
        if this is None or that is None or this.token != that.token or (promise == "bit" and this != that):
            return Fork(at, this, that, promise == "text" and _is_near_tie(this, that, tie_nats))
    return None


def _is_near_tie(one: Step | None, other: Step | None, tie_nats: float) -> bool:
    """Each one's token is the other's runner-up, and neither is ahead of it by more than `tie_nats`; or one's token was
    cut off by the other's truncation, which it had passed by no more than that, and its runner-up came in its place.
    """
    if one is None or other is None:
        return False
    swapped = one.token == other.runner_up and other.token == one.runner_up
    near = swapped and max(one.gap, other.gap) <= tie_nats
    return near or _is_cut_off(one, other, tie_nats) or _is_cut_off(other, one, tie_nats)


def _is_cut_off(one: Step, other: Step, tie_nats: float) -> bool:
    if other.kept is None or one.token in other.kept:
        return False
    return one.edge <= tie_nats and other.token == one.runner_up


def _told(step: Step | None) -> str:
    if step is None:
        return "nothing"
    behind = "" if step.runner_up is None else f" before {step.runner_up} by {step.gap:.4f}"
    return f"{step.token}{behind}"
