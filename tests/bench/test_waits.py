from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import trio.testing
from click.testing import CliRunner

from tandem.bench.waits import COLUMNS, SHARES, Hold, Waiter, holds, ratios, replay, report
from tandem.cli.bench import command
from tandem.store.inline import open_inline
from tandem.store.outcome import Outcome
from tandem.store.schema import INSERT, row
from tests.bench.record_waits import RECORDED, record
from tests.service.harness import FixedWall

ROWS: list[dict[str, Any]] = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def run(
    began: float,
    held: float,
    *,
    prompt: float = 2.0,
    rows: int = 200,
    written: int = 100,
    thinks: bool = False,
    rates: float | None = 10.0,
) -> Hold:
    return Hold(
        began=began,
        held=held,
        prompt=prompt,
        rows=rows,
        written=written,
        limit=1_000,
        thinks=thinks,
        prefill_rate=rates,
        decode_rate=rates,
    )


@pytest.mark.spec("SCH-036")
def test_the_live_estimate_of_the_recorded_waits_is_near_what_they_were() -> None:
    """And that of the hold times alone is about half, as SCH-036 says."""
    waiters = replay(holds(ROWS))
    live = ratios(waiters, "live", 10.0, 60.0)
    assert len(live) > 150
    assert 0.8 <= statistics.median(live) <= 1.3
    assert 0.35 <= statistics.median(ratios(waiters, "hold time", 10.0, 60.0)) <= 0.65


@pytest.mark.spec("SCH-036")
def test_every_hold_gets_five_waiters() -> None:
    waiters = replay([run(0, 100)])
    assert [waiter.real for waiter in waiters] == pytest.approx([100 * (1 - share) for share in SHARES])
    assert all(told is None for waiter in waiters for told in waiter.told.values())


@pytest.mark.spec("SCH-036")
def test_a_waiter_is_told_what_was_known_when_it_came() -> None:
    runs = [run(100.0 * number, 12) for number in range(5)] + [run(500, 12), run(1_000, 12, rates=None)]
    waiters = replay(runs)
    assert [waiter.told["live"] for waiter in waiters[:25]] == [None] * 25
    known = waiters[25:30]
    assert [waiter.told["hold time"] for waiter in known] == pytest.approx([waiter.real for waiter in known])
    assert [waiter.told["live"] for waiter in known[1:]] == pytest.approx(
        [waiter.real for waiter in known[1:]], abs=0.1
    )
    assert known[0].told["live"] == pytest.approx(8 + 10)  # 80 rows are left to read, at 10 a second
    assert waiters[30].told["live"] is None  # it has no rate to read with
    assert waiters[30].told["told"] == waiters[30].told["hold time"] is not None


def test_holds_are_what_ran_on_a_slot_to_its_end() -> None:
    whole = ROWS[0]
    odd = [
        whole | {"status": 503, "completion_tokens": None, "prompt_ms": None, "queue_ms": None},
        whole | {"lane": "decode"},
        whole | {"completion_tokens": 0},
        whole | {"prompt_ms": None},
        whole | {"status": 499},
    ]
    (hold,) = holds([*odd, whole | {"queue_ms": 1_500.0}])
    assert hold.held == pytest.approx(whole["total_ms"] / 1e3 - 1.5)
    assert hold.began == whole["ts_ms"] / 1e3 + 1.5


def test_the_report_has_a_line_for_each_estimator_and_class() -> None:
    lines = report([Waiter(20.0, {"live": 25.0, "hold time": None, "told": 25.0})]).rows
    assert len(lines) == 9
    assert lines[1] == ("live", "10 to 60 s", "1", "1", "1.25", "1.25", "1.25")
    assert lines[4] == ("hold time", "10 to 60 s", "1", "0", "-", "-", "-")


async def test_the_command_reads_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with open_inline(path, FixedWall().now()) as ledger:
        known: dict[str, Any] = {"request_id": "r", "endpoint": "chat", "stream": False, "finish_reason": "stop"}
        await ledger.write([(INSERT, [row(Outcome(**known, **each)) for each in ROWS])])
    result = CliRunner().invoke(command, ["waits", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.output.count("10 to 60 s") == 3


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_ledger_is_one_line(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["waits", str(tmp_path / name)])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


async def test_the_set_can_be_recorded_again(autojump_clock: trio.testing.MockClock) -> None:
    rows = await record(3)
    assert [tuple(each) for each in rows] == [COLUMNS] * 3
    assert [each["completion_tokens"] for each in rows] == [each["completion_tokens"] for each in ROWS[:3]]
