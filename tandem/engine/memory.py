"""What memory and processors this process may use, as the kernel tells it; no state (ENG-016, ENG-189)."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["GIB", "available", "default_margin", "default_threads", "total"]

GIB = 1 << 30
_PROC, _SYS = Path("/proc"), Path("/sys")


def available(proc: Path = _PROC) -> int | None:
    """Bytes that a start can take without swapping: MemAvailable. None where the system does not say."""
    return _meminfo(proc, "MemAvailable")


def total(proc: Path = _PROC) -> int | None:
    """Bytes of memory there are; None where the system does not say."""
    return _meminfo(proc, "MemTotal")


def default_margin(proc: Path = _PROC) -> int:
    """Bytes to leave free: 5 % of the memory, at least 1 GiB (ENG-189; the CPU's)."""
    return max(GIB, (total(proc) or 0) // 20)


def default_threads(sys: Path = _SYS) -> int:
    """Threads that do not get into each other's way: the cores this process may run on, each counted once.

    Two hardware threads of a core share the units that multiply. A container's quota of processor time counts too: with
    more threads than it pays for, all of them are stopped in the middle of a product.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_siblings(sys, cpu) for cpu in allowed}
    return max(1, min(len(cores), _quota(sys) or len(cores)))


def _siblings(sys: Path, cpu: int) -> str:
    """A name for the core of a hardware thread: the list of its threads."""
    try:
        return (sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return str(cpu)


def _quota(sys: Path) -> int | None:
    """Whole processors that the control group pays for (cgroup v2, as a container sees it), rounded up."""
    try:
        quota, period = (sys / "fs/cgroup/cpu.max").read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return None


def _meminfo(proc: Path, name: str) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    values = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
    return int(values[name][0]) * 1024 if name in values else None
