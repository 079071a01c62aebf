"""What all slots of a `FakeEngine` have in common: one simulated device, whose time is that of all (ENG-172)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = ["Call", "Simulation"]

CALLS_KEPT: Final = 10_000


class Call(NamedTuple):
    """One verb: when, in simulated seconds since the load, and its arguments as numbers; never text."""

    verb: str
    at: float
    args: Mapping[str, int]


@dataclass(slots=True)
class Simulation:
    """The clock in seconds, and the newest verbs in order."""

    clock: float = 0.0
    taken: float = 0.0
    opened: int = 0
    """Sequences so far; each has a number of its own."""
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=CALLS_KEPT))

    def record(self, verb: str, **args: int) -> None:
        self.calls.append(Call(verb, self.clock, args))

    def spend(self, milliseconds: float) -> None:
        self.clock += milliseconds / 1000.0

    def take_elapsed(self) -> float:
        """Seconds since the last call."""
        elapsed, self.taken = self.clock - self.taken, self.clock
        return elapsed
