"""Where one decoded token's time goes, and the floor under it: the bytes it reads over the memory's bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tandem.bench.bandwidth import read_bandwidth
from tandem.bench.ops import GROUPS, OpTimer
from tandem.bench.ours import read, write
from tandem.bench.progress import bar
from tandem.bench.prompts import Prompts
from tandem.bench.report import Report
from tandem.engine.verbs import Engine

__all__ = ["Floor", "bytes_read", "profile"]

MIB = 1 << 20
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time a token can take: every weight and every cached row is read once."""

    weight_bytes: int
    cache_bytes: int
    bytes_per_s: float

    @property
    def seconds(self) -> float:
        return (self.weight_bytes + self.cache_bytes) / self.bytes_per_s


def bytes_read(loaded: Mapping[str, int]) -> int:
    """Bytes of the weights that a token reads: all of the layers and the head, of an embedding of its own one row, no
    copies for many rows.

    `loaded` is `Model.nbytes`; a `head` of 0 means that the embedding is the head.
    """
    total = sum(loaded.values()) - loaded.get("copies", 0)
    return total - loaded.get("embedding", 0) if loaded.get("head") else total


def profile(engine: Engine[Any, Any], prompts: Prompts, *, context: int = 128, tokens: int = 48) -> Report:
    """The table for one token after `context` others: `tokens` of them, timed and untimed in turn."""
    timer, times = OpTimer(), []
    with bar("profile", 2 * ROUNDS + 1) as done:
        for _ in range(ROUNDS):
            times.append(_token_s(engine, prompts.fresh(context), tokens, nullcontext()))
            done()
            _token_s(engine, prompts.fresh(context), tokens, timer)
            done()
        floor = _floor(engine, context + tokens // 2)
        done()
    title = f"One token: mean of {tokens} after {context}, {ROUNDS} rounds"
    return _report(statistics.median(times), timer, ROUNDS * tokens, floor, title)


def _token_s(engine: Engine[Any, Any], ids: list[int], tokens: int, timed: AbstractContextManager[object]) -> float:
    seq = read(engine, ids)
    write(engine, seq, 1)
    with timed:
        start = time.perf_counter()
        for _ in range(tokens):
            write(engine, seq, 1)  # a round of one token has no draft
        elapsed = time.perf_counter() - start
    engine.close(seq)
    return elapsed / tokens


def _floor(engine: Engine[Any, Any], rows: int) -> Floor:
    loaded = engine.card.weights["loaded_bytes"]
    assert isinstance(loaded, Mapping)
    weights, cache = bytes_read(loaded), engine.cost()["bytes_per_token"] * rows
    return Floor(weights, cache, read_bandwidth(weights + cache))


def _report(whole_s: float, timer: OpTimer, tokens: int, floor: Floor, title: str) -> Report:
    seconds = {group: timer.seconds[group] / tokens for group in GROUPS if timer.calls[group]}
    calls = {group: f"{timer.calls[group] / tokens:,.0f}" for group in seconds}
    # The timer stretches what lies between the calls, so Python's own share is what an untimed token leaves for it.
    seconds["Python"] = max(whole_s - sum(seconds.values()), 0.0)
    rows = [
        (group, f"{value * 1e3:.2f} ms", f"{value / whole_s:.0%}", calls.get(group, ""))
        for group, value in seconds.items()
    ]
    rows.append(("one token, untimed", f"{whole_s * 1e3:.2f} ms", "100%", f"{1 / whole_s:,.1f} tokens/s"))
    rows.append(("floor", f"{floor.seconds * 1e3:.2f} ms", f"{floor.seconds / whole_s:.0%}", ""))
    return Report(
        title,
        ("group", "time", "share", "calls"),
        tuple(rows),
        (
            f"Floor: {floor.weight_bytes / MIB:,.1f} MiB of weights and {floor.cache_bytes / MIB:,.1f} MiB of cache "
            f"at {floor.bytes_per_s / 1e9:.1f} GB/s, the best rate of torch over a buffer of that size.",
        ),
    )
