"""What the service itself costs: time to first byte and CPU a streamed token, on the fake engine.

A real server process (`tandem serve --fake`) answers one client over loopback. CPU is the server process's own, user
and system, read before and after a batch of streams. `paced` streams are one token every few milliseconds, as a model
writes them: every token is a write of its own. `full speed` ones are as fast as the service goes.
"""

from __future__ import annotations

import datetime
import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

__all__ = ["main"]

TICKS = os.sysconf("SC_CLK_TCK")
RESULTS = Path(__file__).parent / "results"


class Server:
    """A running `tandem serve --fake`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._port = port

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)

    def cpu_s(self) -> float:
        """User and system seconds of the process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def serving() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as state, (Path(state) / "log").open("w+") as log:
        command = [sys.executable, "-m", "tandem", "serve", "--fake", "--port", "0", "--state-dir", state]
        process = subprocess.Popen(command, stdout=log)
        try:
            yield Server(process, _port(process, Path(log.name)))
        finally:
            process.terminate()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port the server announces."""
    while process.poll() is None:
        if found := re.search(r"ready at http://[^:]+:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise click.ClickException(f"the server ended: {log.read_text()}")


def ask(connection: http.client.HTTPConnection, script: dict[str, object], max_tokens: int) -> tuple[float, int]:
    """Seconds to the first byte of the stream, and tokens received."""
    body = {
        "messages": [{"role": "user", "content": f"@fake {json.dumps(script)}"}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    start = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    first = response.read(1)
    first_byte_s = time.perf_counter() - start
    return first_byte_s, (first + response.read()).count(b'"content":"') - 1


def measure_first_byte(server: Server, rounds: int) -> list[float]:
    connection = server.connect()
    times = [ask(connection, {"say": "Hello"}, 8)[0] for _ in range(rounds + 20)]
    connection.close()
    return sorted(times[20:])


def measure_tokens(server: Server, script: dict[str, object], tokens: int, streams: int) -> tuple[float, float]:
    """CPU seconds a token, and tokens a second of wall time."""
    connection = server.connect()
    ask(connection, script, 50)
    cpu, start = server.cpu_s(), time.perf_counter()
    received = sum(ask(connection, script, tokens)[1] for _ in range(streams))
    wall = time.perf_counter() - start
    cpu = server.cpu_s() - cpu
    connection.close()
    return cpu / received, received / wall


@click.command()
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
def main(write: bool) -> None:
    """Print what the service costs."""
    table = Table(title="tandem serve --fake, one client")
    for column in ("measure", "value", "aim"):
        table.add_column(column)
    loop: dict[str, object] = {"say": "word ", "loop": True}
    with serving() as server:
        first = measure_first_byte(server, 300)
        table.add_row("first byte, p50", f"{statistics.median(first) * 1e3:.2f} ms", "<= 3 ms")
        table.add_row("first byte, p99", f"{first[int(len(first) * 0.99)] * 1e3:.2f} ms", "")
        for name, script, tokens, streams in (
            ("paced, 1 token every 5 ms", {**loop, "token_ms": 5}, 500, 1),
            ("paced, 1 token every 2 ms", {**loop, "token_ms": 2}, 1000, 1),
            ("full speed", loop, 20_000, 1),
            ("full speed, blocks of 8", {**loop, "block": 8}, 20_000, 1),
        ):
            runs = [measure_tokens(server, script, tokens, streams) for _ in range(3)]
            cpu, rate = (statistics.median(values) for values in zip(*runs, strict=True))
            table.add_row(f"{name}: CPU a token", f"{cpu * 1e6:.1f} us ({rate:,.0f} tokens/s)", "<= 60 us")
    text = Console(width=100)
    text.print(table)
    if write:
        RESULTS.mkdir(exist_ok=True)
        stamp = datetime.datetime.now().astimezone()
        with (RESULTS / f"server-{stamp:%Y-%m-%d}.txt").open("w") as kept:
            Console(file=kept, width=100).print(table)
            kept.write(f"{stamp:%Y-%m-%d %H:%M %Z}, Python {platform.python_version()}, {_hardware()}\n")


def _hardware() -> str:
    models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} x {models[0] if models else platform.machine()}"


if __name__ == "__main__":
    main()
