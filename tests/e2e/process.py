"""Server processes for the end-to-end tests: started on a free port, watched, stopped by their pid."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ROOT", "Server", "clean_env", "finish", "free_port", "is_open"]

ROOT = Path(__file__).parents[2]
START_S = 120.0
STOP_S = 20.0
LOG_SHOWN = 8_000
READY = re.compile(r"^Tandem serves (.+) at http://127\.0\.0\.1:(\d+)/v1$", re.MULTILINE)


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """An environment with its own HOME, no setting of Tandem and no proxy."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV") if name in os.environ}
    return {**kept, "HOME": str(home), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), **more}


def free_port() -> int:
    """A port that is free at the moment, below those that the system gives to the connections of other tests."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def is_open(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def finish(command: Sequence[str], env: Mapping[str, str], timeout_s: float = 60) -> tuple[int, str, str]:
    """Run a command that ends by itself: exit code, stdout, stderr."""
    done = subprocess.run(
        command, env=dict(env), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
    )
    return done.returncode, done.stdout, done.stderr


class Server:
    """One process that serves. Its stdout and stderr go to a file, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, home: Path) -> None:
        self.process = process
        self.home = home
        self._log = log
        self.port = 0
        self.refused_before_ready = 0
        """Connections that were tried and refused until the start was announced, where the port was known."""

    @classmethod
    def launch(cls, command: Sequence[str], home: Path, env: Mapping[str, str]) -> Server:
        """Start without waiting for anything. SIGINT reaches it as it would from a terminal."""
        log = home / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, log, home)

    @classmethod
    def tandem(cls, home: Path, *flags: str, env: Mapping[str, str] | None = None, port: int = 0) -> Server:
        """`tandem serve` with these flags; back once it has announced itself.

        It computes on one thread: two tests may have a server each, and teams of threads that share two cores wait for
        each other at every product.
        """
        command = [sys.executable, "-m", "tandem", "serve", "--port", str(port), *flags]
        server = cls.launch(command, home, clean_env(home, **{"TANDEM_THREADS": "1", **(env or {})}))
        try:
            server._wait_ready(port)
        except BaseException:
            server.kill()
            raise
        return server

    def _wait_ready(self, port: int) -> None:
        deadline = time.monotonic() + START_S
        while (ready := READY.search(self.log)) is None:
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.shown_log}"
            assert time.monotonic() < deadline, f"the server did not start:\n{self.shown_log}"
            if port and READY.search(self.log) is None:
                self.refused_before_ready += not is_open(port)
            time.sleep(0.02)
        self.port = int(ready[2])

    def wait_open(self, port: int, timeout_s: float = START_S) -> None:
        """For servers that announce nothing: back once `port` answers."""
        deadline = time.monotonic() + timeout_s
        while not is_open(port):
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.shown_log}"
            assert time.monotonic() < deadline, f"port {port} does not answer:\n{self.shown_log}"
            time.sleep(0.05)
        self.port = port

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def shown_log(self) -> str:
        return self.log[-LOG_SHOWN:]

    def request_lines(self) -> list[dict[str, str]]:
        """The fields of the `[req]` lines so far, in order, the id under `id`."""
        found = re.findall(r"\[req\] (\S+) (.*)\n", self.log)
        return [{"id": each, **dict(pair.split("=", 1) for pair in rest.split())} for each, rest in found]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_exit(self, timeout_s: float = STOP_S) -> int:
        """The exit code, once it has ended by itself."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end in {timeout_s} s:\n{self.shown_log}") from None

    def stop(self) -> int:
        """SIGTERM, and the exit code; killed when it does not end."""
        try:
            if self.process.poll() is None:
                self.signal(signal.SIGTERM)
            return self.wait_exit()
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends whatever is left of it, the children that it made included."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)
