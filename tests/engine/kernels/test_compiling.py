"""Every kernel compiles for the GPU it is meant for, at the shapes it is meant for."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.spec("ENG-028")
def test_every_kernel_compiles_for_sm_90(tmp_path: Path) -> None:
    """In a process of its own, since Triton either interprets or compiles for a process's life."""
    if not importlib.util.find_spec("triton"):
        pytest.skip("triton is not installed (the extra `gpu`)")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-m", "tests.engine.kernels.compiling"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split()[0].split(".")[0] for line in done.stdout.splitlines()} >= {"attention", "delta", "linear"}
