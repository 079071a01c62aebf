"""What the kernel says about memory and processors, from files like its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tandem.engine.memory import (
    GIB,
    Board,
    available,
    default_floor,
    default_margin,
    default_threads,
    total,
    used_board,
)


def meminfo(directory: Path, total_kib: int, available_kib: int) -> Path:
    (directory / "meminfo").write_text(f"MemTotal: {total_kib} kB\nMemAvailable:  {available_kib} kB\nHugePages: 0\n")
    return directory


def processors(directory: Path, siblings: dict[int, str], quota: str | None = None) -> Path:
    for cpu, threads in siblings.items():
        topology = directory / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(threads)
    if quota is not None:
        (directory / "fs/cgroup").mkdir(parents=True)
        (directory / "fs/cgroup/cpu.max").write_text(quota)
    return directory


@pytest.mark.spec("ENG-189")
def test_available_memory_is_the_kernels_figure_and_the_margin_a_twentieth(tmp_path: Path) -> None:
    proc = meminfo(tmp_path, 64 * GIB // 1024, 10 * GIB // 1024)
    assert (available(proc), total(proc)) == (10 * GIB, 64 * GIB)
    assert default_margin(proc) == 64 * GIB // 20
    assert default_margin(meminfo(tmp_path, 8 * GIB // 1024, 1)) == GIB
    assert available(tmp_path / "none") is None
    assert default_margin(tmp_path / "none") == GIB


@pytest.mark.spec("ENG-189")
def test_a_board_with_memory_of_its_own_counts_that_and_one_without_what_the_kernel_says(tmp_path: Path) -> None:
    proc = meminfo(tmp_path, 128 * GIB // 1024, 40 * GIB // 1024)
    own, shared = Board(False, 70 * GIB, 80 * GIB), Board(True, 3 * GIB, 128 * GIB)
    assert (available(proc, own), total(proc, own)) == (70 * GIB, 80 * GIB)
    assert (available(proc, shared), total(proc, shared)) == (40 * GIB, 128 * GIB)
    assert (default_margin(proc, own), default_floor(proc, own)) == (4 * GIB, 4 * GIB)
    assert (default_margin(proc, shared), default_floor(proc, shared)) == (6 * GIB, 15 * GIB)
    assert default_floor(proc) == default_margin(proc) == 128 * GIB // 20


@pytest.mark.parametrize(
    ("siblings", "quota", "threads"),
    [
        ({0: "0", 1: "1", 2: "2", 3: "3"}, None, 4),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, "max 100000", 2),
        ({0: "0", 1: "1", 2: "2", 3: "3"}, "150000 100000", 2),
        ({0: "0", 1: "1", 2: "2", 3: "3"}, "50000 100000", 1),
        ({}, None, 4),
    ],
)
def test_threads_are_cores_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, siblings: dict[int, str], quota: str | None, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    assert default_threads(processors(tmp_path, siblings, quota)) == threads


def test_a_process_that_uses_no_device_has_no_board() -> None:
    assert used_board() is None
