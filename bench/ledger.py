"""How fast the ledger answers (OBS-100): each question of the dashboard over ledgers of half a million and of a million
requests in 90 days.

    python -m bench ledger [--rows N] [--rounds N] [--write]

A ledger is built in a temporary directory as the store builds it, a thousand rows a transaction, with a journal of a
fifth as many rows over the newest 30 days. An answer goes the way of a route without HTTP: the store actor reads
through aiosqlite, a worker thread makes figures of the rows, and they are encoded.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import click
import msgspec
import trio
from rich.console import Console

from tandem.actors.kit import Ref, SystemWallClock, Threads
from tandem.actors.store import Read, Store, StoreMessage
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.store.aio import open_aio
from tandem.store.buckets import upserts
from tandem.store.journal_reads import Events, decisions_query, events_query, session_query, sessions_query
from tandem.store.ledger import StoreError, file_bytes, open_writer
from tandem.store.outcome import Outcome
from tandem.store.query import Query, Rows
from tandem.store.requests import EXPORT_ROWS, Page, Wanted, csv_page, page_query
from tandem.store.schema import EVENTS, INSERT, insert, row, transaction
from tandem.store.spans import day_spans, hour_spans, moment_ms
from tandem.store.usage import Filters, summary_query, usage_query

__all__ = ["command"]

NOW: Final = datetime(2026, 11, 30, 14, 5, tzinfo=UTC)
DAYS: Final = 90
JOURNAL_DAYS: Final = 30
SIZES: Final = (500_000, 1_000_000)
BATCH: Final = 1000
ZONE: Final = ZoneInfo("Europe/Berlin")
HALF: Final = ZoneInfo("Asia/Kathmandu")
"""A zone whose days are made of quarters of an hour."""
AIM_MS: Final = 300
MODELS: Final = {"TandemLLM": 8, "gpt-4o": 2, "qwen3-coder": 1}
CLIENTS: Final = {"k:000000000001": 10, "k:000000000002": 5, "k:000000000003": 3, "k:000000000004": 2, "anon": 1}
FINISHES: Final = {"stop": 66, "tool_calls": 26, "length": 2, "abandoned": 1, "timeout": 0.1, "error": 1, "refused": 4}

Question = tuple[str, Query[Any]]


def build(path: Path, rows: int) -> None:
    """A ledger with `rows` requests, the same each time."""
    chance = random.Random(rows)
    with closing(open_writer(path, NOW)) as connection:
        for group in _batches(_outcomes(rows, chance)):
            with transaction(connection):
                connection.executemany(INSERT, map(row, group))
                for sql, values in upserts(group):
                    connection.executemany(sql, values)
        for events in _batches(_events(rows // 5, chance)):
            with transaction(connection):
                connection.executemany(insert("conductor_events", EVENTS), events)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    while group := list(islice(items, BATCH)):
        yield group


def _outcomes(rows: int, chance: random.Random) -> Iterator[Outcome]:
    """Most by day and few by night."""
    start = NOW - timedelta(DAYS)
    for number in range(rows):
        days, part = divmod(number * DAYS / rows, 1)
        moment = start + timedelta(days=days + (part + 0.1 * chance.random()) ** 0.8)
        yield _outcome(number, moment_ms(min(moment, NOW)), chance)


def _outcome(number: int, ts_ms: int, chance: random.Random) -> Outcome:
    finish = _pick(FINISHES, chance)
    outcome = Outcome(
        request_id=f"req_{number:024x}",
        ts_ms=ts_ms,
        endpoint="chat",
        stream=True,
        status=503 if finish == "refused" else 200,
        finish_reason=finish,
        model=_pick(MODELS, chance),
        client_id=_pick(CLIENTS, chance),
        client_kind="opencode",
        total_ms=5_000.0,
        max_tokens=4096,
    )
    if finish == "refused":
        return replace(outcome, error_type="queue_full")
    prompt = int(chance.lognormvariate(8, 1))
    return replace(
        outcome,
        thinking="on",
        prompt_tokens=prompt,
        cached_tokens=prompt * 7 // 10,
        completion_tokens=int(chance.lognormvariate(5, 1)),
        reasoning_tokens=40,
        engine_cached=prompt * 7 // 10,
        forwarded_tokens=prompt * 3 // 10,
        queue_ms=chance.expovariate(0.01),
        prompt_ms=chance.lognormvariate(6, 1),
        ttft_ms=chance.lognormvariate(6.2, 1),
        decode_ms=4_000.0,
        decode_tps=chance.lognormvariate(3.8, 0.3),
        prefill_tps=chance.lognormvariate(7, 0.4),
        blocks=100,
        draft_tokens=300,
        draft_accepted=110,
        tool_calls=0,
        cache_source="resident",
        slot=0,
        engine_version="0.1.0",
        code_sha="f5e037d1c2ab",
    )


def _pick(weights: dict[str, Any], chance: random.Random) -> str:
    (found,) = chance.choices(list(weights), list(weights.values()))
    return str(found)


def _events(rows: int, chance: random.Random) -> Iterator[list[Any]]:
    """A routed request and four findings in turn; a session has some forty rows."""
    start = moment_ms(NOW - timedelta(JOURNAL_DAYS))
    names = [column.name for column in EVENTS]
    for number in range(rows):
        kind = "monitor" if number % 5 else chance.choice(("route", "route", "route", "side"))
        values = {
            "ts_ms": start + number * JOURNAL_DAYS * 86_400_000 // rows,
            "request_id": f"req_{number // 5:024x}",
            "session_key": f"c:{number // 200 * 5 + chance.randrange(5):016x}",
            "kind": kind,
            "task": f"C{number % 7}" if kind == "monitor" else None,
            "mode": chance.choice(("on", "shadow")),
            "hidden_tokens": 20,
            "detail": '{"thinking":"on","stages":[{"label":"code","probabilities":[0.9,0.1],"ms":3.1}]}',
            "extra": '{"size":"small"}',
        }
        yield [values.get(name) for name in names]


def questions(rows: int) -> Iterator[Question]:
    """What the screens ask, and the dearest that anybody may ask."""
    today = NOW.date()
    for zone in (ZONE, HALF):
        days = day_spans(today - timedelta(DAYS - 1), today, zone)
        yield f"usage, {DAYS} days, {zone.key}", usage_query(days, zone, Filters())
    hours = hour_spans(NOW - timedelta(31), NOW, ZONE)
    yield "usage, 31 days by the hour", usage_query(hours, ZONE, Filters())
    days = day_spans(today - timedelta(DAYS - 1), today, ZONE)
    for filters in (Filters(model="TandemLLM"), Filters(client="anon"), Filters(model="qwen3-coder", client="anon")):
        yield f"usage, {DAYS} days, {_words(filters)}", usage_query(days, ZONE, filters)
    yield "usage, a year", usage_query(day_spans(date(2025, 12, 1), today, ZONE), ZONE, Filters())
    yield "usage, three years", usage_query(day_spans(today - timedelta(1099), today, ZONE), ZONE, Filters())
    yield "summary", summary_query(NOW, ZONE)
    pages = {
        "newest": Wanted(),
        "deep": Wanted(before=rows // 2),
        "of a model": Wanted(model="qwen3-coder"),
        "of a client": Wanted(client="anon"),
        "of a finish reason": Wanted(finish="timeout"),
        "of all three": Wanted(model="qwen3-coder", client="anon", finish="timeout"),
        "of a model without a row, that stopped": Wanted(model="nobody's", finish="stop"),
        "by request id": Wanted(request_id=f"req_{rows // 3:024x}"),
    }
    for name, wanted in pages.items():
        yield f"requests, {name}", _named(page_query(wanted, 50))
    yield "export, first piece", _csv(page_query(Wanted(), 1000))
    yield "journal, newest", events_query(Events(), 50)
    yield "journal, of a kind and mode", events_query(Events(kind="monitor", mode="shadow"), 50)
    yield "journal, of a mode without a row", events_query(Events(mode="nobody's"), 50)
    yield "journal, of a task, last hour", events_query(Events(task="C3", since=moment_ms(NOW) - 3_600_000), 50)
    yield "decisions", decisions_query(None, None, 50)
    yield "sessions", sessions_query(50)
    yield "a session", session_query(f"c:{0:016x}", 2000)


def _words(filters: Filters) -> str:
    return ", ".join(f"{name} {value}" for name in ("model", "client") if (value := getattr(filters, name)))


def _named(query: Query[Page]) -> Query[Any]:
    return Query(query.statements, lambda answers: query.fold(answers).named)


def _csv(query: Query[Page]) -> Query[bytes]:
    return Query(query.statements, lambda answers: csv_page(query.fold(answers), first=True))


async def measure(path: Path, rows: int, rounds: int) -> Report:
    """Each question `rounds` times in turn, the first of which finds nothing cached."""
    store = Store(partial(open_aio, path), SystemWallClock())
    blocking = Threads.with_limits({"usage": 1})
    table: list[tuple[str, ...]] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        for name, query in questions(rows):
            times: list[float] = []
            size = 0
            for _ in range(rounds):
                begun = time.perf_counter()
                size = len(await _answer(store.ref, blocking, query))
                times.append((time.perf_counter() - begun) * 1e3)
            table.append(_shown(name, times, size))
        begun = time.perf_counter()
        written = await _export(store.ref, blocking)
        whole = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    notes = (
        f"an export of {EXPORT_ROWS:,} rows took {whole:.1f} s, {written / 1e6:.0f} MB",
        *_sizes(path),
    )
    return Report(
        f"{rows:,} requests in {DAYS} days", ("question", "first", "median", "worst", "answer"), (*table,), notes
    )


async def _answer(store: Ref[StoreMessage], blocking: Threads, query: Query[Any]) -> bytes:
    found = await _ask(store, blocking, query)
    return found if isinstance(found, bytes) else msgspec.json.encode(found)


async def _ask(store: Ref[StoreMessage], blocking: Threads, query: Query[Any]) -> Any:
    rows: list[Rows] | StoreError = await store.ask(lambda reply: Read(query.statements, reply))
    if isinstance(rows, StoreError):
        raise rows
    return await blocking.run("usage", query.fold, rows)


async def _export(store: Ref[StoreMessage], blocking: Threads) -> int:
    """The bytes of a whole export."""
    size, before, left = 0, None, EXPORT_ROWS
    while left > 0:
        page = await _ask(store, blocking, page_query(Wanted(before=before), min(left, 1000)))
        size += len(await blocking.run("usage", partial(csv_page, page, first=before is None)))
        before, left = page.next_before, left - len(page.rows)
        if before is None:
            break
    return size


def _shown(name: str, times: Sequence[float], size: int) -> tuple[str, ...]:
    middle, worst = sorted(times)[len(times) // 2], max(times)
    late = " !" if worst > AIM_MS else ""
    return (name, f"{times[0]:.1f} ms", f"{middle:.1f} ms", f"{worst:.1f} ms{late}", f"{size / 1e3:.1f} kB")


def _sizes(path: Path) -> tuple[str, ...]:
    with closing(sqlite3.connect(path)) as connection:
        (cells,) = connection.execute("SELECT count(*) FROM usage").fetchone()
    return (f"the file has {file_bytes(path) / 1e6:.0f} MB; the table of sums and histograms {cells:,} rows",)


@click.command()
@click.option("--rows", type=click.IntRange(10_000, 10_000_000), multiple=True, help="Requests of a ledger.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=15, show_default=True, help="Times of each question.")
@click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
def command(rows: tuple[int, ...], rounds: int, write: bool) -> None:
    """How fast the ledger answers the dashboard, with 500,000 and 1,000,000 requests of 90 days."""
    here, console = machine(), Console()
    reports: list[Report] = []
    for size in rows or SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.sqlite3"
            with console.status(f"writing a ledger of {size:,} requests"):
                begun = time.perf_counter()
                build(path, size)
                each_us = (time.perf_counter() - begun) / size * 1e6
            report = trio.run(measure, path, size, rounds)
        note = f"writing took {each_us:.0f} us a request, with what made it up and its part of the journal"
        reports.append(replace(report, notes=(*report.notes, note)))
        render(reports[-1], console)
    aim = f"aim: below {AIM_MS} ms, and below 200 ms with 500,000 requests; ! marks what was slower"
    load = f"load average at the end {machine().load:.2f}"
    lines = (aim, f"sqlite {sqlite3.sqlite_version}", *here.lines(), load)
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        kept = keep("ledger", reports, lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)
