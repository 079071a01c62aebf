"""What the service itself costs: time to first byte and CPU a streamed token, on the fake engine.

A real server process (`tandem serve --fake`) answers over loopback. CPU is that process's own, user and system, read
before and after a batch of streams. `paced` streams are one token every few milliseconds, as a model writes them: every
token is a write of its own. `full speed` ones are as fast as the service goes; the aim is theirs, since a paced token
is paid mostly by waking up: the table has what a bare `trio.sleep` costs on the same machine beside them.
"""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from tandem.bench.progress import bar
from tandem.bench.report import Report
from tandem.bench.stats import percentile, summary
from tandem.bench.subject import BenchError

__all__ = ["LOADS", "Load", "Server", "ask", "costs", "serving"]

LOOP: dict[str, object] = {"say": "word ", "loop": True}
MANY = 16
WARM_UP = 20
REPEATS = 3
FIRST_BYTE_AIM, CPU_AIM = "<= 3 ms", "<= 60 us"


@dataclass(frozen=True, slots=True)
class Load:
    """Streams of `tokens` tokens each, `streams` of them at once."""

    name: str
    script: dict[str, object]
    tokens: int
    streams: int = 1

    @property
    def is_paced(self) -> bool:
        return "token_ms" in self.script


LOADS = (
    Load("paced, 1 token every 5 ms", {**LOOP, "token_ms": 5}, 400),
    Load("paced, 1 token every 2 ms", {**LOOP, "token_ms": 2}, 800),
    Load("full speed", LOOP, 20_000),
    Load("full speed, blocks of 8", {**LOOP, "block": 8}, 20_000),
    Load(f"{MANY} streams, 1 token every 2 ms", {**LOOP, "token_ms": 2}, 60, MANY),
    Load(f"{MANY} streams, full speed", LOOP, 1_500, MANY),
)


class Server:
    """A running `tandem serve --fake`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._port = port

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)

    def cpu_s(self) -> float:
        """User and system seconds of the process so far."""
        # The clock of another process as the kernel numbers it (clock_getcpuclockid(3)); /proc counts in 10 ms.
        return time.clock_gettime((~self._process.pid << 3) | 2)


@contextmanager
def serving() -> Iterator[Server]:
    """A server of its own STATE on a free port; `BenchError` where it does not start."""
    with tempfile.TemporaryDirectory() as state, (Path(state) / "log").open("w+") as log:
        command = [sys.executable, "-m", "tandem", "serve", "--fake", "--port", "0", "--state-dir", state]
        process = subprocess.Popen([*command, "--max-queue", str(2 * MANY)], stdout=log)
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
    raise BenchError(f"the server ended with exit code {process.returncode}")


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


def costs(*, asks: int = 300, loads: tuple[Load, ...] = LOADS) -> Report:
    """The table: first byte over `asks` short answers, then CPU a token under each of `loads`."""
    rows = []
    with bar("server", 1 + REPEATS * len(loads)) as done, serving() as server:
        first = _first_bytes(server, asks)
        done()
        rows.append(("first byte, p50", f"{statistics.median(first) * 1e3:.2f} ms", "", "", FIRST_BYTE_AIM))
        rows.append(("first byte, p99", f"{percentile(first, 0.99) * 1e3:.2f} ms", "", "", ""))
        for load in loads:
            runs = []
            for _ in range(REPEATS):
                runs.append(_tokens(server, load))
                done()
            cpu, rate = (summary(values) for values in zip(*runs, strict=True))
            spread = f"{cpu.low * 1e6:.1f} to {cpu.high * 1e6:.1f}"
            aim = "" if load.is_paced else CPU_AIM
            rows.append((load.name, f"{cpu.median * 1e6:.1f} us", spread, f"{rate.median:,.0f}", aim))
        rows.append(("waking up every 2 ms, and nothing else", f"{trio.run(_wake_ups) * 1e6:.1f} us", "", "", ""))
    return Report(
        "The service: tandem serve --fake, first byte to one client and CPU a token",
        ("measure", "value", "lowest to highest", "tokens/s", "aim"),
        tuple(rows),
        ("One slot: of several streams one is written and the others wait in line. The clients share the cores.",),
    )


async def _wake_ups(sleeps: int = 500) -> float:
    """CPU seconds of one short sleep in a trio program that does nothing else."""
    before = time.process_time()
    for _ in range(sleeps):
        await trio.sleep(0.002)
    return (time.process_time() - before) / sleeps


def _first_bytes(server: Server, asks: int) -> list[float]:
    with closing(server.connect()) as connection:
        return [ask(connection, {"say": "Hello"}, 8)[0] for _ in range(asks + WARM_UP)][WARM_UP:]


def _tokens(server: Server, load: Load) -> tuple[float, float]:
    """CPU seconds a token, and tokens a second of wall time."""
    with ThreadPoolExecutor(load.streams) as clients:
        _streams(server, load, 5, clients)
        cpu, start = server.cpu_s(), time.perf_counter()
        received = _streams(server, load, load.tokens, clients)
        return (server.cpu_s() - cpu) / received, received / (time.perf_counter() - start)


def _streams(server: Server, load: Load, tokens: int, clients: ThreadPoolExecutor) -> int:
    """All streams of a load at once: tokens received."""

    def one(_: int) -> int:
        with closing(server.connect()) as connection:
            return ask(connection, load.script, tokens)[1]

    return sum(clients.map(one, range(load.streams)))
