"""What memory and processors this process may use, as the kernel tells it; no state (ENG-016, ENG-189)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "GIB",
    "Board",
    "available",
    "cuda_board",
    "default_floor",
    "default_margin",
    "default_threads",
    "total",
    "used_board",
]

GIB = 1 << 30
_PROC, _SYS = Path("/proc"), Path("/sys")


@dataclass(frozen=True, slots=True)
class Board:
    """The memory of a CUDA device: its own, or, if `shared`, the processor's, of which the kernel knows more."""

    shared: bool
    free: int
    total: int


def cuda_board() -> Board:
    """The current CUDA device; there must be one."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return Board(bool(torch.cuda.get_device_properties(torch.cuda.current_device()).is_integrated), free, total)


def used_board() -> Board | None:
    """The CUDA device of a process that has begun to use one."""
    import torch

    begun = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return cuda_board() if begun else None


def available(proc: Path = _PROC, board: Board | None = None) -> int | None:
    """Bytes that a start can take: MemAvailable, which is what there is without swapping, on the CPU and on boards that
    share its memory; what is free of the device's own on others. None where the system does not say.
    """
    return _meminfo(proc, "MemAvailable") if board is None or board.shared else board.free


def total(proc: Path = _PROC, board: Board | None = None) -> int | None:
    """Bytes of memory there are; None where the system does not say."""
    return _meminfo(proc, "MemTotal") if board is None or board.shared else board.total


def default_margin(proc: Path = _PROC, board: Board | None = None) -> int:
    """Bytes that a load leaves free (ENG-189): 6 GiB of shared memory, else 5 % of all there is, at least 1 GiB."""
    return 6 * GIB if board is not None and board.shared else _twentieth(proc, board)


def default_floor(proc: Path = _PROC, board: Board | None = None) -> int:
    """Bytes below which nothing may ever push the machine: 15 GiB of shared memory, else as the margin."""
    return 15 * GIB if board is not None and board.shared else _twentieth(proc, board)


def _twentieth(proc: Path, board: Board | None) -> int:
    return max(GIB, (total(proc, board) or 0) // 20)


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
