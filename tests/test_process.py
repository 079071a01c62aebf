"""What the kernel tells of the process's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.process import memory_of


@pytest.mark.spec("OBS-103")
def test_memory(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    status = tmp_path / "self" / "status"
    status.write_text("Name:\ttandem\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t7\n")
    assert memory_of(tmp_path) == {"resident": 1024 * 1024, "peak": 2048 * 1024}
    status.write_text("VmRSS:\t    1 kB\n")
    assert memory_of(tmp_path) == {"resident": 1024}


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert memory_of(tmp_path) == {}
