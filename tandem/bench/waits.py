"""How good the estimates of waits are, by a ledger: what a waiter would have been told, over what it would have waited.

Every request of the ledger that held a slot gets a waiter at 10, 25, 50, 75 and 90 % of its hold (SCH-036). The waiter
asks the estimators, which know by then what had ended by then, and would really have waited for the rest of the hold.
How far the holder is comes from its own row: it is taken to read and to write evenly.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.actors.estimates import Finished, HoldTimes, SlotProgress
from tandem.actors.line import Rank
from tandem.bench.report import Report
from tandem.bench.stats import percentile
from tandem.store.files import read_only_uri
from tandem.store.ledger import sqlite_errors

__all__ = ["COLUMNS", "ESTIMATORS", "SHARES", "Hold", "Waiter", "holds", "ratios", "read", "replay", "report"]

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
ESTIMATORS = ("live", "hold time", "told")
"""Told is what a client would read: the live estimate where there is one, else that of the hold times."""
CLASSES = (("under 10 s", 0.0, 10.0), ("10 to 60 s", 10.0, 60.0), ("over 60 s", 60.0, float("inf")))
"""By the real wait: from, and up to but without."""

COLUMNS = (
    "ts_ms",
    "status",
    "lane",
    "queue_ms",
    "prompt_ms",
    "total_ms",
    "forwarded_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "max_tokens",
    "decode_tps",
    "prefill_tps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A request on its slot: seconds, rows it read, tokens it wrote."""

    began: float
    held: float
    prompt: float
    rows: int
    written: int
    limit: int
    thinks: bool
    prefill_rate: float | None
    decode_rate: float | None

    @property
    def ended(self) -> float:
        return self.began + self.held

    def progress(self, share: float) -> SlotProgress:
        """How far it was when so much of its time had gone by."""
        at = share * self.held
        read = 1.0 if at >= self.prompt else at / self.prompt
        writes = self.held - self.prompt
        written = int(self.written * (at - self.prompt) / writes) if at > self.prompt else 0
        return SlotProgress(
            slot=0,
            rows_left=round(self.rows * (1 - read)),
            prefill_rate=self.prefill_rate,
            written=written,
            limit=self.limit,
            thinks=self.thinks,
            decode_rate=self.decode_rate if written > 1 else None,
        )


@dataclass(frozen=True, slots=True)
class Waiter:
    """What it would have waited, and by estimator what it would have been told; None where there was no estimate."""

    real: float
    told: dict[str, float | None]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a ledger, which may be in use. Raises `StoreError`."""
    with sqlite_errors(path), closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection:
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM requests ORDER BY id").fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def holds(rows: Iterable[dict[str, Any]]) -> list[Hold]:
    """Those that ran on a slot of their own to their end."""
    return [
        Hold(
            began=(row["ts_ms"] + row["queue_ms"]) / 1e3,
            held=(row["total_ms"] - row["queue_ms"]) / 1e3,
            prompt=row["prompt_ms"] / 1e3,
            rows=row["forwarded_tokens"] or 0,
            written=row["completion_tokens"],
            limit=row["max_tokens"] or row["completion_tokens"],
            thinks=bool(row["reasoning_tokens"]),
            prefill_rate=row["prefill_tps"],
            decode_rate=row["decode_tps"],
        )
        for row in rows
        if row["status"] == 200 and row["completion_tokens"] and row["prompt_ms"] and not row["lane"]
    ]


def replay(runs: Sequence[Hold]) -> list[Waiter]:
    """Every waiter, with what the estimators knew when it came."""
    moments = [(run.ended, 0, run, 1.0) for run in runs]
    moments += [(run.began + share * run.held, 1, run, share) for run in runs for share in SHARES]
    times, finished = HoldTimes(), Finished()
    waiters = []
    for _, asks, run, share in sorted(moments, key=lambda moment: moment[:2]):
        if not asks:
            times.add(Rank.TURN, run.held)
            finished.add(run.progress(1.0))
            continue
        live, held = finished.left(run.progress(share)), times.left(Rank.TURN, share * run.held)
        told = {"live": live, "hold time": held, "told": held if live is None else live}
        waiters.append(Waiter((1 - share) * run.held, told))
    return waiters


def ratios(waiters: Iterable[Waiter], estimator: str, shortest: float, longest: float) -> list[float]:
    """Estimate over real wait, of the waits between these that had an estimate."""
    asked = (waiter for waiter in waiters if shortest <= waiter.real < longest)
    return [told / waiter.real for waiter in asked if (told := waiter.told[estimator]) is not None]


def report(waiters: Sequence[Waiter]) -> Report:
    """One line for each estimator and class of wait."""
    return Report(
        title="Estimate over real wait",
        columns=("estimator", "real wait", "waiters", "with an estimate", "median", "10 %", "90 %"),
        rows=tuple(_row(waiters, estimator, *span) for estimator in ESTIMATORS for span in CLASSES),
        notes=("1 is exact; below it the client was told less than it waited.",),
    )


def _row(waiters: Sequence[Waiter], estimator: str, name: str, shortest: float, longest: float) -> tuple[str, ...]:
    count = sum(shortest <= waiter.real < longest for waiter in waiters)
    found = ratios(waiters, estimator, shortest, longest)
    figures = [percentile(found, share) for share in (0.5, 0.1, 0.9)] if found else []
    return (estimator, name, str(count), str(len(found)), *([f"{each:.2f}" for each in figures] or ["-"] * 3))
