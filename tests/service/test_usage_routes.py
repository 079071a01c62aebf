"""What the ledger says over HTTP: summary, usage, pages of requests, exports."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio.testing

import tandem
from tandem.actors.store import Flush, Record
from tandem.http.routes import usage
from tandem.store.outcome import Outcome
from tandem.store.requests import NAMES
from tandem.store.spans import moment_ms
from tests.service.harness import Harness, chat, open_harness
from tests.store.samples import outcome

CONTRACT = Path(tandem.__file__).parent / "contract"
SUMMARY, USAGE, REQUESTS = (f"/v1/dashboard/{name}" for name in ("summary", "usage", "requests"))
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When the harness starts."""


def validate(name: str, body: Any) -> None:
    schema = json.loads((CONTRACT / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(body)


async def get(harness: Harness, path: str, status: int = 200) -> Any:
    call = await harness.client.send(path)
    assert call.status == status, call.json
    return call.json


async def fill(harness: Harness, outcomes: Iterable[Outcome]) -> None:
    """Rows of the ledger, in the file."""
    for row in outcomes:
        await harness.service.context.store.tell(Record(row))
    await harness.service.context.store.ask(Flush)


def ago(hours: float, number: int = 0, **fields: Any) -> Outcome:
    return outcome(number, ts_ms=moment_ms(NOW - timedelta(hours=hours)), **fields)


@pytest.mark.spec("OBS-075", "API-241")
@pytest.mark.parametrize("name", ["summary", "usage", "requests"])
def test_examples_keep_the_contract(name: str) -> None:
    validate(name, json.loads((CONTRACT / "examples" / f"{name}.json").read_text("utf-8")))


@pytest.mark.spec("API-243", "OBS-087", "OBS-075", "API-241")
async def test_the_ledger_says_what_was_asked(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(ledger=tmp_path / "ledger.sqlite3") as harness:
        for _ in range(3):
            assert (await harness.client.send("/v1/chat/completions", chat("hi"))).status == 200
        await harness.client.send("/v1/chat/completions", chat("hi", max_tokens=-1))
        await harness.service.context.store.ask(Flush)
        summary = await get(harness, f"{SUMMARY}?tz=Asia/Kathmandu")
        validate("summary", summary)
        assert (summary["tz"], summary["today"]) == ("Asia/Kathmandu", "2026-01-02")
        assert summary["totals"]["today"]["requests"] == 4
        assert summary["totals"]["all"]["finishes"]["refused"] == 1
        assert summary["totals"]["today"]["completion_tokens"] > 0
        assert summary["streaks"] == {"current": 1, "longest": 1, "active_days": 1}
        assert (summary["ledger"]["enabled"], summary["ledger"]["rows"]) == (True, 4)
        assert summary["live"] == {"state": "idle", "running": 0, "waiting": 0}
        by_hour = await get(harness, f"{USAGE}?bucket=hour&from=2026-01-02&to=2026-01-02&tz=UTC&model=M")
        validate("usage", by_hour)
        assert len(by_hour["buckets"]) == 24
        # What was refused before its model was read has none.
        assert by_hour["buckets"][3]["requests"] == by_hour["totals"]["requests"] == 3
        assert {model["name"]: model["requests"] for model in by_hour["dimensions"]["models"]} == {"M": 3, None: 1}
        assert by_hour["filters"] == {"model": "M", "client": None}
        page = await get(harness, f"{REQUESTS}?limit=2&finish=stop&model=M&client=anon")
        validate("requests", page)
        assert [row["finish_reason"] for row in page["requests"]] == ["stop", "stop"]
        rest = await get(harness, f"{REQUESTS}?limit=2&finish=stop&before={page['next_before']}")
        assert (len(rest["requests"]), rest["next_before"]) == (1, None)
        wanted = rest["requests"][0]
        found = await get(harness, f"{REQUESTS}?request_id={wanted['request_id']}")
        assert found["requests"] == [wanted]


@pytest.mark.spec("API-243", "OBS-088")
async def test_days_follow_the_zone(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(ledger=tmp_path / "ledger.sqlite3") as harness:
        # 22:34 and 23:34 of the day before: Berlin's day begins between the two.
        await fill(harness, [ago(4.5), ago(3.5)])
        for zone, requests in (("UTC", [2, 0]), ("Europe/Berlin", [1, 1]), ("Asia/Kathmandu", [0, 2])):
            found = await get(harness, f"{USAGE}?from=2026-01-01&to=2026-01-02&tz={zone}")
            assert [bucket["requests"] for bucket in found["buckets"]] == requests, zone


@pytest.mark.spec("API-243", "OBS-088")
async def test_without_a_span_the_newest_days_are_shown(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        by_day = await get(harness, USAGE)
        assert (by_day["bucket"], by_day["tz"], len(by_day["buckets"])) == ("day", "UTC", 30)
        assert by_day["buckets"][-1]["start"] == "2026-01-02T00:00:00+00:00"
        by_hour = await get(harness, f"{USAGE}?bucket=hour")
        assert len(by_hour["buckets"]) == 24 + 4
        assert by_hour["buckets"][-1]["start"] == "2026-01-02T03:00:00+00:00"
        # Both ends are included, and a time means its bucket.
        narrow = await get(harness, f"{USAGE}?bucket=hour&from=2026-01-01T10:20&to=2026-01-01T13:00:00%2B02:00")
        starts = [bucket["start"][11:16] for bucket in narrow["buckets"]]
        assert starts == ["10:00", "11:00"]
        assert len((await get(harness, f"{USAGE}?from=2026-01-01T23:59&to=2026-01-02T00:00"))["buckets"]) == 2


@pytest.mark.spec("OBS-088", "OBS-101", "API-243")
async def test_bad_values_name_their_parameter(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path, param in (
            (f"{USAGE}?bucket=hour&from=2026-01-01&to=2026-02-01", "bucket"),
            (f"{USAGE}?bucket=hour&from=2026-10-01T12:00&to=2026-11-01T12:30&tz=Europe/Berlin", "bucket"),
            (f"{USAGE}?from=2020-01-01&to=2026-01-01", "from"),
            (f"{USAGE}?from=2026-01-02&to=2026-01-01", "from"),
            (f"{USAGE}?from=2026-01-03", "from"),
            (f"{USAGE}?from=0001-01-01&to=2026-01-01", "from"),
            (f"{USAGE}?to=9999-12-31", "to"),
            (f"{USAGE}?to=yesterday", "to"),
            (f"{USAGE}?bucket=week", "bucket"),
            (f"{USAGE}?tz=Europe/Atlantis", "tz"),
            (f"{USAGE}?tz=../../etc/passwd", "tz"),
            (f"{USAGE}?tz=America", "tz"),
            (f"{SUMMARY}?tz=%00", "tz"),
            (f"{SUMMARY}?zone=UTC", "zone"),
            (f"{USAGE}?models=a", "models"),
            (f"{REQUESTS}?limit=201", "limit"),
            (f"{REQUESTS}?limit=0", "limit"),
            (f"{REQUESTS}?before=x", "before"),
            (f"{REQUESTS}?finish=nicely", "finish"),
            (f"{REQUESTS}?format=xlsx", "format"),
            (f"{REQUESTS}?format=csv&limit=100001", "limit"),
            (f"{REQUESTS}?model=a&model=b", "model"),
        ):
            assert (await get(harness, path, 400))["error"]["param"] == param, path


@pytest.mark.spec("OBS-088")
async def test_31_days_of_hours_are_served(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for span, hours in (("from=2026-10-01&to=2026-10-31", 745), ("from=2026-03-01&to=2026-03-31", 743)):
            found = await get(harness, f"{USAGE}?bucket=hour&{span}&tz=Europe/Berlin")
            assert len(found["buckets"]) == hours


@pytest.mark.spec("OBS-075")
async def test_without_a_ledger_all_is_zero(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        assert (await harness.client.send("/v1/chat/completions", chat("hi"))).status == 200
        summary, days, page = [await get(harness, path) for path in (SUMMARY, USAGE, REQUESTS)]
        for name, body in (("summary", summary), ("usage", days), ("requests", page)):
            validate(name, body)
            assert body["ledger"]["enabled"] is False
        assert summary["totals"]["all"]["requests"] == days["totals"]["requests"] == 0
        assert (page["requests"], page["next_before"]) == ([], None)
        table = await harness.client.send(f"{REQUESTS}?format=csv")
        assert table.body.decode().strip() == ",".join(NAMES)
        assert (await get(harness, f"{REQUESTS}?format=json")) == []


@pytest.mark.spec("OBS-113")
async def test_an_export_streams_all_rows(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "EXPORT_PAGE", 10)
    async with open_harness(ledger=tmp_path / "ledger.sqlite3") as harness:
        await fill(harness, (ago(1, n, finish_reason="stop" if n % 5 else "error") for n in range(1, 36)))
        table = await harness.client.send(f"{REQUESTS}?format=csv")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        assert table.headers["content-disposition"] == 'attachment; filename="tandem-requests-2026-01-02.csv"'
        assert len(table.pieces) == 4  # none of them holds all rows
        head, *lines = csv.reader(io.StringIO(table.body.decode(), newline=""))
        assert head == list(NAMES)
        assert [int(line[0]) for line in lines] == list(range(35, 0, -1))
        errors = await get(harness, f"{REQUESTS}?format=json&finish=error")
        assert [row["request_id"] for row in errors] == [f"req-{n}" for n in (35, 30, 25, 20, 15, 10, 5)]
        assert len(await get(harness, f"{REQUESTS}?format=json&limit=13")) == 13
        nothing = await harness.client.send(f"{REQUESTS}?format=json", method="HEAD")
        assert (nothing.status, nothing.body) == (200, b"")


@pytest.mark.spec("OBS-113")
async def test_an_export_ends_with_its_client(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "EXPORT_PAGE", 2)
    async with open_harness(ledger=tmp_path / "ledger.sqlite3") as harness:
        await fill(harness, (ago(1, n) for n in range(30)))
        before = harness.service.context.store.handled
        call = harness.client.start(f"{REQUESTS}?format=csv")
        await call.wait_for_piece()
        call.stall()
        await trio.testing.wait_all_tasks_blocked()
        call.leave()
        await call.finished.wait()
        assert harness.service.context.store.handled - before < 6


async def test_a_ledger_that_cannot_be_read_is_an_error(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(ledger=tmp_path / "ledger.sqlite3") as harness:
        await harness.service.context.store.ask(Flush)
        with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
            connection.execute("DROP TABLE usage")
            connection.execute("ALTER TABLE requests RENAME TO gone")
        connection.close()
        for path in (SUMMARY, USAGE, REQUESTS, f"{REQUESTS}?format=csv"):
            assert (await get(harness, path, 500))["error"]["type"] == "server_error"
