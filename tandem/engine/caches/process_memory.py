"""The CPU's allocator as the memory gate sees it: this process's memory, and what it may take at most (ENG-132)."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass
from pathlib import Path

from tandem.engine.memory import total

__all__ = ["ProcessMemory", "memory_limit"]


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """What is resident counts as reserved and in use: the C library gives a freed tensor's pages back at once."""

    proc: Path = Path("/proc")

    def reserved(self) -> int:
        """Nothing where the system does not say: no cache is given up for a guess."""
        try:
            lines = (self.proc / "self/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)

    def allocated(self) -> int:
        return self.reserved()

    def pooled(self) -> int:
        return 0

    def empty_cache(self) -> None:
        """There is none."""

    def collect(self) -> None:
        gc.collect()


def memory_limit(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> int | None:
    """Bytes this process may take: the machine's, or less where its control group (v2) has a limit."""
    known = [total(proc)]
    with contextlib.suppress(OSError, ValueError):  # no file, or "max"
        known.append(int((sys / "fs/cgroup/memory.max").read_text()))
    return min((each for each in known if each is not None), default=None)
