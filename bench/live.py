"""What watching costs: CPU of a tick, and the share of a core that 50 readers of the live view take (OBS-062).

    python -m bench.live [--seconds N] [--write]

A whole service on the fake engine in one process, called as ASGI, on the real clock: 16 streams, of which one runs and
the others wait, and readers of `/v1/dashboard/live?follow=1`. The share is what these add to the same service without
them; no socket is in it. The second table is the hub alone, with 16 requests that all write.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

import click
import trio
from rich.console import Console

from tandem.actors.host import InlineHost
from tandem.actors.kit import Inline, SystemWallClock, supervise
from tandem.actors.live import Began, Live, Reader, Served, Watch
from tandem.actors.store import Store
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import summary
from tandem.config import Settings
from tandem.engine.fake import FakeEngine
from tandem.http.app import create_app
from tandem.live.seen import RequestSeen
from tandem.service import Parts, open_service

__all__ = ["main"]

STREAMS: Final = 16
READERS: Final = (0, 1, 10, 50)
TOKEN_MS: Final = 30
SETTLE_S: Final = 1.0


@dataclass(slots=True)
class Spent:
    """CPU seconds over seconds of one measurement."""

    cpu: float = 0.0
    wall: float = 0.0

    @property
    def share(self) -> float:
        return self.cpu / self.wall


@contextmanager
def measured() -> Iterator[Spent]:
    spent = Spent()
    cpu, wall = time.process_time(), time.perf_counter()
    yield spent
    spent.cpu, spent.wall = time.process_time() - cpu, time.perf_counter() - wall


async def call(app: Any, path: str, query: str = "", body: Any = None) -> None:
    """One request whose client reads everything and never leaves of itself."""
    raw = b"" if body is None else json.dumps(body).encode()
    headers = [(b"host", b"127.0.0.1:8000"), (b"content-length", str(len(raw)).encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST" if raw else "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
        "state": {},
        "extensions": {},
    }
    messages = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await trio.sleep_forever()
        return messages.pop()

    async def send(_message: Any) -> None:
        await trio.lowlevel.checkpoint()

    await app(scope, receive, send)


async def serve(readers: int, seconds: float) -> float:
    """Share of a core that the service takes with this many readers."""
    settings = Settings(max_queue=STREAMS)
    engine = FakeEngine()
    wall = SystemWallClock()
    parts = Parts(engine=engine, host=InlineHost(engine), store=Store(None, wall), blocking=Inline(), wall=wall)
    script = json.dumps({"say": "la ", "loop": True, "token_ms": TOKEN_MS})
    body = {"model": "M", "stream": True, "messages": [{"role": "user", "content": f"@fake {script}"}]}
    async with open_service(settings, parts) as service, trio.open_nursery() as nursery:
        app = create_app(service.context)
        for _ in range(STREAMS):
            nursery.start_soon(call, app, "/v1/chat/completions", "", body)
        for _ in range(readers):
            nursery.start_soon(call, app, "/v1/dashboard/live", "follow=1")
        await trio.sleep(SETTLE_S)
        with measured() as spent:
            await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return spent.share


def shares(seconds: float) -> Report:
    found = {readers: trio.run(serve, readers, seconds) for readers in READERS}
    rows = tuple(
        (str(readers), f"{100 * share:.2f} %", f"{100 * (share - found[0]):.2f} %") for readers, share in found.items()
    )
    columns = ("readers", "share of a core", "more than without readers")
    title = f"{STREAMS} streams, {seconds:.0f} s each, four events a second"
    return Report(title, columns, rows, ("aim: 50 readers under 3 %",))


def seen(index: int, at: float, written: Iterator[int]) -> RequestSeen:
    """A request that writes."""
    tokens = next(written)
    return RequestSeen(
        request_id=f"chatcmpl-{index:024x}",
        endpoint="chat",
        stream=True,
        model="TandemLLM",
        client_kind="opencode",
        client_id="k:1f0e9d8c7b6a",
        mode="raw",
        profile=None,
        thinking="on",
        temperature=0.7,
        max_tokens=4096,
        choices=1,
        choice=0,
        phase="writing",
        ts_ms=1_796_020_000_000,
        arrived_at=at,
        granted_at=at,
        first_at=at,
        last_at=at,
        client_gone_at=None,
        slot=index,
        wait_s=None,
        lane=None,
        missing=0,
        memory_place=0,
        prompt_tokens=2000,
        rows=2000,
        read=2000,
        resumed=1792,
        cache_source="prefix",
        image=None,
        completion=tokens,
        reasoning=tokens,
        in_reasoning=True,
        in_call=False,
        tool=None,
        tool_bytes=0,
        tool_open=False,
        rounds=tokens,
        drafted=0,
        draft_accepted=0,
        is_closed=False,
    )


async def tick(readers: int, seconds: float) -> tuple[float, float]:
    """Mean CPU milliseconds of a tick, and an event's kilobytes."""
    served = Served(model="TandemLLM", base_model="fake", version="0", window=32_768)
    hub = Live(served, hz=4, shows_activity=True, max_readers=64, wall=SystemWallClock())
    size = 0

    async def read(reader: Reader) -> None:
        nonlocal size
        while True:
            size = len((await reader.next()).data)

    async with trio.open_nursery() as nursery:
        await nursery.start(supervise, hub, lambda name, defect: None)
        tokens = count()
        for index in range(STREAMS):
            hub.ref.offer(Began(f"chatcmpl-{index:024x}", partial(seen, index, trio.current_time(), tokens)))
        for _ in range(readers):
            reader = await hub.ref.ask(Watch)
            assert reader is not None
            nursery.start_soon(read, reader)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return hub.tick_cost_ms, size / 1e3


def ticks(seconds: float) -> Report:
    rows = []
    for readers in READERS[1:]:
        costs, sizes = zip(*(trio.run(tick, readers, seconds / 3) for _ in range(3)), strict=True)
        cost = summary(costs)
        rows.append(
            (str(readers), f"{cost.median:.3f} ms", f"{cost.low:.3f} to {cost.high:.3f}", f"{max(sizes):.1f} kB")
        )
    columns = ("readers", "CPU of a tick", "range", "event")
    return Report(f"The hub alone, {STREAMS} requests that write", columns, tuple(rows), ("aim: 1 ms",))


@click.command()
@click.option("--seconds", default=10.0, show_default=True)
@click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
def main(seconds: float, write: bool) -> None:
    """Print what the live view costs."""
    here = machine()
    reports = [shares(seconds), ticks(seconds)]
    console = Console(width=110)
    for report in reports:
        render(report, console)
    lines = here.lines()
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        kept = keep("live", reports, lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
