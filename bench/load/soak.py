"""`python -m bench soak`: so many requests of all kinds as an hour brings, and what the process holds at the end.

Arrivals are those of an hour at one every `EVERY_S` seconds, sent as fast as the fake engine serves them: turns that
grow, titles in the lane, clients that leave, faults, refusals. After each tenth the process is looked at when it is
idle: memory, threads and file descriptors must be flat after the first tenths.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

import click
import httpx2
import trio
from rich.console import Console

from bench.load.serving import Process, tandem
from tandem.bench.report import RESULTS, Report, keep, machine, render

__all__ = ["Look", "command", "soak"]

EVERY_S, HOUR_S, PARTS, AT_ONCE = 2.0, 3600.0, 10, 12
TITLE = "You are a title generator. You output ONLY a thread title. Nothing else."


@dataclass(frozen=True, slots=True)
class Look:
    """The process at rest, after so many requests."""

    requests: int
    resident: int
    threads: int
    files: int
    waiting: int
    running: int


def _body(random_: random.Random, number: int) -> dict[str, Any]:
    kind = random_.randrange(10)
    if kind < 2:
        messages = [{"role": "system", "content": TITLE}, {"role": "user", "content": f"Name request {number}."}]
        return {"model": "M", "messages": messages, "max_tokens": 32, "stream": kind == 0}
    fault = f', "fail_at": {random_.randrange(20)}' if kind == 2 else ""
    words = "word " * random_.randrange(10, 2_000)
    script = f'{words}@fake {{"say": "r{number} ", "loop": true, "token_ms": 0.2{fault}}}'
    tokens = random_.randrange(1, 120)
    return {"model": "M", "messages": [{"role": "user", "content": script}], "max_tokens": tokens, "stream": kind < 8}


async def _part(base: str, seed: int, count: int) -> None:
    random_ = random.Random(seed)
    limits = httpx2.Limits(max_connections=AT_ONCE * 2)
    gate = trio.CapacityLimiter(AT_ONCE)
    async with httpx2.AsyncClient(base_url=base, timeout=None, limits=limits) as client, trio.open_nursery() as nursery:
        for number in range(count):
            body, leaves = _body(random_, number), random_.random() < 0.1
            await gate.acquire_on_behalf_of(number)
            nursery.start_soon(_one, client, body, leaves, gate, number)


async def _one(
    client: httpx2.AsyncClient, body: dict[str, Any], leaves: bool, gate: trio.CapacityLimiter, number: int
) -> None:
    try:
        # Cancelled inside its read, the client's generators unwind by themselves.
        with trio.CancelScope() as scope:
            async with client.stream("POST", "/v1/chat/completions", json=body) as response:
                async for _ in response.aiter_bytes():
                    if leaves:
                        scope.cancel()
    finally:
        gate.release_on_behalf_of(number)


async def _look(process: Process, requests: int) -> Look:
    async with httpx2.AsyncClient(base_url=process.base, timeout=None) as client:
        deadline = time.monotonic() + 30
        while True:
            health = (await client.get("/health")).json()["inflight"]
            if (not health["running"] and not health["waiting"]) or time.monotonic() > deadline:
                break
            await trio.sleep(0.05)
    await trio.sleep(1.0)  # connections that were left are closed by then
    return Look(requests, process.resident_bytes, process.threads, process.files, health["waiting"], health["running"])


def soak(process: Process, requests: int, parts: int = PARTS) -> list[Look]:
    """The process after each part of so many requests."""
    looks = []
    for part in range(parts):
        count = requests // parts
        trio.run(_part, process.base, part, count)
        looks.append(trio.run(_look, process, (part + 1) * count))
    return looks


@click.command("soak")
@click.option("--requests", type=int, default=int(HOUR_S / EVERY_S), show_default=True)
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
def command(requests: int, write: bool) -> None:
    """An hour's requests of all kinds, and what the process holds after each tenth."""
    console, here = Console(), machine()
    with tandem("--fake", "--parallel", "2") as process:
        looks = soak(process, requests)
    rows = tuple(
        (
            f"{look.requests:,}",
            f"{look.resident / 2**20:.1f}",
            str(look.threads),
            str(look.files),
            f"{look.waiting} / {look.running}",
        )
        for look in looks
    )
    columns = ("requests", "MiB in RAM", "threads", "open files", "waiting / running")
    report = Report("A soak on the fake engine, two slots", columns, rows)
    render(report, console)
    if write:
        keep("soak", [report], here.lines(), RESULTS, here.started.date())
