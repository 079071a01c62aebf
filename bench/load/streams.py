"""The load: a number of streams at once over loopback, and what each of them saw. Times in seconds.

The generator shares the machine with the server, so it only stamps what arrives and counts afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import trio

from tandem.bench.stats import percentile

__all__ = ["Seen", "Sight", "jain", "run_streams", "watch_health"]

NO_LIMIT = httpx2.Timeout(None)
HEALTH_EVERY_S = 0.05


@dataclass(slots=True)
class Seen:
    """One stream: when it was asked, and when each piece of its answer came."""

    asked: float
    at: list[float] = field(default_factory=list)
    tokens: int = 0
    finish: str | None = None

    @property
    def first_s(self) -> float:
        return self.at[0] - self.asked

    @property
    def rate(self) -> float:
        """Tokens a second after the first."""
        return (self.tokens - 1) / (self.at[-1] - self.at[0])


@dataclass(slots=True)
class Sight:
    """What /health took while the streams ran."""

    times: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def p99_ms(self) -> float:
        return 1e3 * percentile(self.times, 0.99)


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are equal, 1/n where one has everything (Jain, Chiu and Hawe 1984)."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


async def run_streams(base: str, bodies: Sequence[Mapping[str, Any]], sight: Sight) -> list[Seen]:
    """All of them asked at the same moment; back when the last has ended."""
    limits = httpx2.Limits(max_connections=len(bodies) + 4)
    async with httpx2.AsyncClient(base_url=base, timeout=NO_LIMIT, limits=limits) as client:
        seen: list[Seen] = []
        async with trio.open_nursery() as watching:
            watching.start_soon(watch_health, client, sight)
            async with trio.open_nursery() as streams:
                for body in bodies:
                    seen.append(Seen(time.perf_counter()))
                    streams.start_soon(_read, client, body, seen[-1])
            watching.cancel_scope.cancel()
    return seen


async def _read(client: httpx2.AsyncClient, body: Mapping[str, Any], seen: Seen) -> None:
    full = {**body, "stream": True, "stream_options": {"include_usage": True}}
    seen.asked = time.perf_counter()
    async with client.stream("POST", "/v1/chat/completions", json=full) as response:
        if response.status_code != 200:
            raise RuntimeError(f"{response.status_code}: {(await response.aread()).decode()[:300]}")
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                _note(json.loads(line.removeprefix("data: ")), seen)


def _note(chunk: Mapping[str, Any], seen: Seen) -> None:
    if usage := chunk.get("usage"):
        seen.tokens = usage["completion_tokens"]
    for choice in chunk.get("choices", ()):
        delta = choice["delta"]
        if delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"):
            seen.at.append(time.perf_counter())
        seen.finish = choice["finish_reason"] or seen.finish


async def watch_health(client: httpx2.AsyncClient, sight: Sight) -> None:
    """Ask again and again until cancelled."""
    while True:
        asked = time.perf_counter()
        response = await client.get("/health")
        sight.times.append(time.perf_counter() - asked)
        sight.failed += response.status_code != 200
        await trio.sleep(HEALTH_EVERY_S)
