"""The memory policy of one engine: its gate, its estimate of a prefill, and what may be given up (ENG-124 to ENG-130).

Every cache asks `may_grow` first. On a CUDA device the allocator tells what a prefill took at most, which corrects the
estimate; on the CPU the process's memory has other owners too, and the estimate stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from tandem.engine.caches.budget import Limits, WorkspaceEstimate
from tandem.engine.caches.caching import MemoryRefused, MemoryView
from tandem.engine.caches.gate import Allocator, Level, MemoryGate

__all__ = ["Policy"]


class Policy:
    """Without an allocator everything is admitted and every cache may grow."""

    def __init__(
        self,
        estimate: WorkspaceEstimate | None = None,
        limits: Limits | None = None,
        allocator: Allocator | None = None,
        measured: Callable[[], int] | None = None,
    ) -> None:
        """`measured` gives the most that was in use since it was asked last, beyond what was then."""
        self._estimate = estimate or WorkspaceEstimate(1, per_row=0)
        self._limits = limits
        self._allocator = allocator
        self._measured = measured
        self._gate: MemoryGate | None = None
        self._asked: tuple[int, int] | None = None

    def beside(self) -> Policy:
        """A side slot's: the same gate and estimate, without the measure, which cannot tell slots apart."""
        policy = Policy(self._estimate)
        policy._gate = self._gate
        return policy

    def widen(self, nbytes: int) -> None:
        """A side slot has taken so many bytes (ENG-124)."""
        if self._gate is not None:
            self._gate.limits = self._gate.limits.beside(nbytes)

    def workspace(self, prompt: int, resumed: int = 0) -> int:
        """Bytes that reading a prompt may take."""
        return self._estimate.of(prompt, resumed)

    def over(self, levels: tuple[Level, ...]) -> None:
        """These can be given up."""
        if self._limits is not None and self._allocator is not None:
            self._gate = MemoryGate(self._limits, self._allocator, levels)

    def admit(self, prompt: int, resumed: int, now: float) -> None:
        """`MemoryRefused` where a prompt of so many rows, of which `resumed` are in place, has no room."""
        if self._gate is None:
            return
        if (refused := self._gate.admit(self._estimate.of(prompt, resumed), now)) is not None:
            raise MemoryRefused(str(refused), numbers=asdict(refused))
        if self._measured is not None:
            self._measured()
            self._asked = prompt, resumed

    def was_read(self) -> None:
        """The prompt that was admitted is read."""
        if self._asked is not None and self._measured is not None:
            self._estimate.measured(*self._asked, self._measured())
            self._asked = None

    def settle(self, now: float) -> None:
        """Between two requests."""
        if self._gate is not None:
            self._gate.settle(now)

    def may_grow(self, nbytes: int) -> bool:
        return self._gate is None or self._gate.may_grow(nbytes)

    def view(self, notes: tuple[str, ...]) -> MemoryView:
        if self._gate is None or self._allocator is None:
            return MemoryView(notes=notes)
        return MemoryView(
            reserved=self._allocator.reserved(),
            allocated=self._allocator.allocated(),
            ceiling=self._gate.limits.ceiling,
            peak=self._gate.limits.peak,
            events=tuple(self._gate.events.copy()),
            sheds=self._gate.sheds,
            notes=notes,
        )

    def state(self) -> Mapping[str, int]:
        return self._estimate.state()
