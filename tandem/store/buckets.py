"""Sums of the ledger for each quarter of an hour, kept while rows are written: usage sorts no rows (OBS-088).

A quarter of an hour in UTC is the largest span of which all local hours and days are made: some zones are off by 30 or
45 minutes. A row of `usage` belongs to a quarter and a series: all requests, those of a model, of a client, of both.
Each request counts in four series, and each question reads the rows of one, which lie side by side in the table.

A histogram is kept as it grows: a blob with one byte a request, the step that its figure falls into. So the sum of two
histograms is the one behind the other, in plain SQL, and a sparse one is small. The bounds of the steps are the same
for all metrics and for ever: each is `RATIO` times the one below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import add, attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tandem.store.outcome import Outcome

__all__ = [
    "FINISHES",
    "METRICS",
    "PRUNE",
    "QUARTER_S",
    "RATIO",
    "STEPS",
    "SUMS",
    "TABLES",
    "By",
    "is_timed",
    "percentiles",
    "step",
    "unpack",
    "upserts",
]

QUARTER_S = 900
LOWEST = 0.01
"""The lower bound of step 0. With `RATIO` and `STEPS` the scale ends beyond 10^8, whatever the metric's unit."""
RATIO = 1.1
STEPS = 256
VALUES = (*(float(f"{LOWEST * RATIO ** (place + 0.5):.4g}") for place in range(STEPS)), None)
"""What is shown for a step: its middle, so that the exact value is about half a step away at most."""

FINISHES = ("stop", "length", "tool_calls", "timeout", "abandoned", "error", "refused")
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "hidden_tokens")
SUMS = ("requests", *FINISHES, *TOKENS)
"""The columns of sums, in their order."""
METRICS = ("decode_tps", "ttft_ms", "prefill_tps")
"""The columns of histograms, in their order: those figures of a request of which percentiles are shown."""


class By(IntEnum):
    """What a series holds the requests of. Its `model` and `client` are empty where it does not tell them apart."""

    ALL = 0
    MODEL = 1
    CLIENT = 2
    BOTH = 3


_KEY = ("by_what", "model", "client", "quarter")

TABLES: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS usage (by_what INTEGER NOT NULL, model TEXT NOT NULL, client TEXT NOT NULL, "
    "quarter INTEGER NOT NULL, "
    f"{', '.join(f'{name} INTEGER NOT NULL' for name in SUMS)}, "
    f"{', '.join(f'{name} BLOB NOT NULL' for name in METRICS)}, "
    f"PRIMARY KEY ({', '.join(_KEY)})) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS usage_quarter ON usage (quarter)",
    # Those of `tandem.store.requests`.
    "CREATE INDEX IF NOT EXISTS requests_name ON requests (request_id)",
    "CREATE INDEX IF NOT EXISTS requests_client ON requests (client_id, id, model, finish_reason)",
    "CREATE INDEX IF NOT EXISTS requests_finish ON requests (finish_reason, id, model)",
    "CREATE INDEX IF NOT EXISTS requests_model ON requests (model, id)",
    # Those of `tandem.store.journal_reads`.
    "CREATE INDEX IF NOT EXISTS conductor_events_kind ON conductor_events (kind, id, task, mode)",
    "CREATE INDEX IF NOT EXISTS conductor_events_of_task ON conductor_events (task, id, mode)",
    "CREATE INDEX IF NOT EXISTS conductor_events_mode ON conductor_events (mode, id)",
)
"""Run once the tables `requests` and `conductor_events` are there. `model` of `usage` is empty for a request that named
none; `quarter` counts them since 1970."""

PRUNE: tuple[str, ...] = (f"DELETE FROM usage WHERE quarter < ? / {QUARTER_S * 1000}",)
"""Each takes a time in milliseconds since 1970; what ended before its quarter goes."""

_ADD = (
    f"INSERT INTO usage ({', '.join((*_KEY, *SUMS, *METRICS))}) "
    f"VALUES ({', '.join('?' * (len(_KEY) + len(SUMS) + len(METRICS)))}) "
    f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
    + ", "
    + ", ".join(f"{name} = CAST({name} || excluded.{name} AS BLOB)" for name in METRICS)
)

_tokens = attrgetter(*("conductor_hidden_tokens" if name == "hidden_tokens" else name for name in TOKENS))
_metrics = attrgetter(*METRICS)

Key = tuple[int, str, str, int]


def upserts(outcomes: Iterable[Outcome]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """What adds these requests to the table: SQL and its rows, for the transaction that writes the requests' own."""
    cells: dict[Key, _Cell] = {}
    for outcome in outcomes:
        quarter = outcome.ts_ms // (QUARTER_S * 1000)
        model, client = outcome.model or "", outcome.client_id
        sums, timed = _summands(outcome), _steps(outcome)
        for key in (
            (By.ALL.value, "", "", quarter),
            (By.MODEL.value, model, "", quarter),
            (By.CLIENT.value, "", client, quarter),
            (By.BOTH.value, model, client, quarter),
        ):
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = _Cell()
            cell.add(sums, timed)
    # In the key's order the table's pages are visited once.
    rows = [(*key, *cell.sums, *map(bytes, cell.histograms)) for key, cell in sorted(cells.items())]
    return [(_ADD, rows)] if rows else []


def is_timed(outcome: Outcome) -> bool:
    """Whether the request's speed counts (OBS-013)."""
    return not (
        outcome.conductor_acted
        or outcome.lane is not None
        or outcome.finish_reason in ("error", "refused")
        or outcome.cache_source == "response"
    )


def step(value: float) -> int:
    """The step that a value above zero falls into; what lies beyond the scale goes into its first or last one."""
    return min(max(int(math.log(value / LOWEST) // math.log(RATIO)), 0), STEPS - 1)


def percentiles(counts: npt.NDArray[np.int64], *percents: int) -> list[list[float | None]]:
    """For each percentage, and for each histogram, a row of counts: the value at or below which so many of a hundred
    lie, within one step. None where the histogram is empty.
    """
    reached = counts.cumsum(axis=1)
    total = reached[:, -1:]
    ranks = [np.maximum(-(-percent * total // 100), 1) for percent in percents]  # rounded up
    # An empty one reaches no rank and gets the place behind the last step.
    return [[VALUES[place] for place in (reached < rank).sum(axis=1).tolist()] for rank in ranks]


def unpack(blobs: Sequence[bytes], rows: Sequence[int] | npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """`most` histograms as rows of counts; the blob at each place is added to the row that `rows` has there."""
    steps = np.frombuffer(b"".join(blobs), np.uint8)
    of_step = np.repeat(np.asarray(rows, np.int64), [len(blob) for blob in blobs])
    return np.bincount(of_step * STEPS + steps, minlength=most * STEPS).reshape(most, STEPS)


class _Cell:
    """What is to be added to one row."""

    def __init__(self) -> None:
        self.sums = [0] * len(SUMS)
        self.histograms = [bytearray() for _ in METRICS]

    def add(self, sums: Sequence[int], timed: Sequence[int | None]) -> None:
        self.sums = list(map(add, self.sums, sums))
        for histogram, place in zip(self.histograms, timed, strict=True):
            if place is not None:
                histogram.append(place)


def _summands(outcome: Outcome) -> list[int]:
    """What the request adds to `SUMS`."""
    tokens = [count or 0 for count in _tokens(outcome)]
    return [1, *(int(outcome.finish_reason == finish) for finish in FINISHES), *tokens]


def _steps(outcome: Outcome) -> list[int | None]:
    """The step of each metric; None where the request has no such figure, or none that counts."""
    if not is_timed(outcome):
        return [None] * len(METRICS)
    return [step(value) if value is not None and value > 0 else None for value in _metrics(outcome)]
