"""Servers under load, each a process of its own: ours as `tandem serve`, llama.cpp's own through xllamacpp."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tandem.bench.subject import BenchError

__all__ = ["Process", "llama_streams", "tandem"]

READY = re.compile(r"^Tandem serves .+ at (http://127\.0\.0\.1:\d+)/v1$", re.MULTILINE)
START_S = 120.0


class Process:
    """A running `tandem serve`: its address, and what the kernel knows of it."""

    def __init__(self, process: subprocess.Popen[bytes], base: str) -> None:
        self._process = process
        self.base = base

    @property
    def resident_bytes(self) -> int:
        """What the process has in RAM."""
        return int(self._proc("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        """Open file descriptors."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self._process.pid}/{name}").read_text()


@contextmanager
def tandem(*flags: str) -> Iterator[Process]:
    """`tandem serve` with these flags, in a state directory that goes with it."""
    with tempfile.TemporaryDirectory() as home:
        log = Path(home, "log")
        command = [
            sys.executable,
            "-m",
            "tandem",
            "serve",
            "--port",
            "0",
            "--state-dir",
            str(Path(home, "state")),
            *flags,
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            yield Process(process, _address(process, log))
        finally:
            process.terminate()
            process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if ready := READY.search(log.read_text()):
            return ready[1]
        time.sleep(0.05)
    raise BenchError(f"the server did not start:\n{log.read_text()[-2000:]}")


def llama_streams(path: Path, threads: int, streams: int, prompts: Sequence[str], count: int) -> dict[str, Any]:
    """What `bench.load.llama` measured in a process of its own; see there."""
    given = {"path": str(path), "threads": threads, "streams": streams, "prompts": list(prompts), "count": count}
    done = subprocess.run(
        [sys.executable, "-m", "bench.load.llama"],
        input=json.dumps(given).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=600,
    )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured
