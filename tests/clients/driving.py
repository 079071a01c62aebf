"""How a test drives a client of its own process: an empty HOME, stdin closed or fed whole, a time limit, no orphan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.process import Server, clean_env
from tests.e2e.wire import until

__all__ = ["Client", "Log", "written"]

TIMEOUT_S = 120.0
END_S = 10.0
SHOWN = 4_000


class Client:
    """Runs commands in a folder of its own with a HOME of its own, and without our settings; `env` comes on top."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder / "work"
        self.home = folder / "home"
        for each in (self.folder, self.home):
            each.mkdir()
        self._env = clean_env(self.home, **env)
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):  # a client in Python sees its own packages and nothing of Tandem's
            self._env.pop(name, None)

    def run(self, *command: str | Path, typed: str | None = None, timeout_s: float = TIMEOUT_S, **env: str) -> str:
        """What it prints, once it has ended with 0. `typed` is its whole stdin."""
        with self.started(*command, fed=typed is not None, **env) as process:
            try:
                out, err = process.communicate(typed, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                out, err = process.communicate()
                shown = f"{out[-SHOWN:]}\n{err[-SHOWN:]}"
                raise AssertionError(f"{command[0]} did not end in {timeout_s} s\n{shown}") from None
        assert process.returncode == 0, f"{command[0]} ended with {process.returncode}\n{out[-SHOWN:]}\n{err[-SHOWN:]}"
        return out

    @contextmanager
    def started(self, *command: str | Path, fed: bool = False, **env: str) -> Iterator[subprocess.Popen[str]]:
        """The process, with those it started itself, until the end of the block."""
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=self.folder,
            env={**self._env, **env},
            stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _kill(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_S)


class Log:
    """The request lines that a server writes from here on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen = len(server.request_lines())

    def lines(self, count: int) -> list[dict[str, str]]:
        """The lines so far, once there are `count`: a line comes after the response, maybe after its client's end."""
        until(lambda: len(self._server.request_lines()) >= self._seen + count)
        return self._server.request_lines()[self._seen :]


def written(name: str, **values: object) -> str:
    """A tool call as the model writes it."""
    shown = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in shown.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"
