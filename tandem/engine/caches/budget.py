"""What caches may take at most, and the two numbers the engine's memory keeps to (ENG-108 to 114, ENG-124, ENG-132)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tandem.engine.memory import GIB

__all__ = ["CPU_BUDGETS", "DEVICE_BUDGETS", "CacheBudgets", "Limits", "WorkspaceEstimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBudgets:
    """Bytes of the caches in memory beside the resident prefix and the images, where nothing else is set."""

    stash: int
    parked: int
    state_store: int


DEVICE_BUDGETS: Final = CacheBudgets(stash=2 * GIB, parked=4 * GIB, state_store=8 * GIB)
CPU_BUDGETS: Final = CacheBudgets(stash=GIB // 8, parked=GIB // 2, state_store=GIB // 2)
"""With the response cache below 2 GiB in all: a machine without a device is shared with what people do on it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes the allocator may hold: between two requests at most `ceiling`, and never more than `peak`."""

    ceiling: int
    peak: int
    most: int | None = None
    """What the machine allows; side slots never raise the two above it."""

    @staticmethod
    def of(ceiling: int, peak: int, set_ceiling: int | None = None, set_peak: int | None = None) -> Limits:
        """As set, else as derived; the peak is never below the ceiling."""
        ceiling = ceiling if set_ceiling is None else set_ceiling
        return Limits(ceiling, max(peak if set_peak is None else set_peak, ceiling))

    def beside(self, nbytes: int) -> Limits:
        """With side slots of so many bytes: slot 0 does not pay for them with its caches."""
        ceiling, peak = self.ceiling + nbytes, self.peak + nbytes
        if self.most is not None:  # a setting above it stands
            ceiling, peak = max(min(ceiling, self.most), self.ceiling), max(min(peak, self.most), self.peak)
        return replace(self, ceiling=ceiling, peak=peak)


class WorkspaceEstimate:
    """Bytes a prefill takes beside what it writes (ENG-130): for each row of its widest pass, for each pair of a row
    and one it reads where a kernel keeps the scores, and at least so many.

    A measured peak beyond the estimate is counted and raises all later ones by as much, for the process's life.
    """

    def __init__(self, grid: int, *, per_row: int, per_pair: int = 0, least: int = 0) -> None:
        self._grid = grid
        self._per_row = per_row
        self._per_pair = per_pair
        self._least = least
        self._factor = 1.0
        self._exceeded = 0

    def of(self, prompt: int, resumed: int = 0) -> int:
        """For a prompt of so many rows of which `resumed` are in place."""
        rows = min(self._grid, max(prompt - resumed, 1))
        return round(self._factor * max(rows * self._per_row + rows * prompt * self._per_pair, self._least))

    def measured(self, prompt: int, resumed: int, peak: int) -> None:
        """A prefill has taken `peak` bytes."""
        if peak > (estimate := self.of(prompt, resumed)):
            self._exceeded += 1
            self._factor *= peak / max(estimate, 1)

    def state(self) -> Mapping[str, int]:
        return {"workspace_exceeded": self._exceeded, "workspace_percent": round(100 * self._factor)}
