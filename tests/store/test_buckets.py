"""Sums and histograms a quarter of an hour: what counts, and how near the percentiles are."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.store.buckets import (
    METRICS,
    PRUNE,
    QUARTER_S,
    RATIO,
    STEPS,
    SUMS,
    TABLES,
    percentiles,
    step,
    unpack,
    upserts,
)
from tandem.store.spans import moment_ms
from tests.store.ledgers import new_ledger
from tests.store.samples import outcome

NOON = moment_ms(datetime(2026, 1, 2, 12, tzinfo=UTC))
SPEED: dict[str, Any] = {"decode_tps": 40.0, "ttft_ms": 300.0, "prefill_tps": 900.0}


def exact(values: list[float], percent: int) -> float:
    """The value at or below which so many lie, by sorting."""
    return sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]


@pytest.mark.spec("OBS-088")
@given(
    values=st.lists(st.floats(0.01, 1e8, allow_nan=False), min_size=1, max_size=300),
    percent=st.sampled_from((1, 10, 50, 90, 99, 100)),
)
@settings(deadline=None)
def test_a_percentile_lies_within_one_step(values: list[float], percent: int) -> None:
    ((found,),) = percentiles(unpack([bytes(map(step, values))], [0], 1), percent)
    assert found is not None
    assert 1 / RATIO <= found / exact(values, percent) <= RATIO


def test_an_empty_histogram_has_no_percentile() -> None:
    counts = unpack([b"", bytes([7]), b""], [0, 1, 2], 4)
    assert counts.shape == (4, STEPS)
    assert [found is None for found in percentiles(counts, 50)[0]] == [True, False, True, True]
    assert unpack([], [], 2).sum() == 0


def test_what_lies_beyond_the_scale_goes_to_its_ends() -> None:
    assert (step(1e-9), step(1e300)) == (0, STEPS - 1)


def cells(*outcomes: Any, batch: int = 3) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of the table, by their keys."""
    connection = new_ledger(*outcomes, batch=batch)
    connection.row_factory = lambda cursor, row: dict(zip((name for name, *_ in cursor.description), row, strict=True))
    rows = connection.execute("SELECT * FROM usage").fetchall()
    return {(row["by_what"], row["model"], row["client"], row["quarter"]): row for row in rows}


def test_a_request_counts_in_four_series() -> None:
    found = cells(outcome(ts_ms=NOON, model="a", client_id="k:1"), outcome(ts_ms=NOON + 1, client_id="k:2"))
    quarter = NOON // 1000 // QUARTER_S
    counts = {key[:3]: row["requests"] for key, row in found.items() if key[3] == quarter}
    assert counts == {
        (0, "", ""): 2,
        (1, "a", ""): 1,
        (1, "", ""): 1,
        (2, "", "k:1"): 1,
        (2, "", "k:2"): 1,
        (3, "a", "k:1"): 1,
        (3, "", "k:2"): 1,
    }


@pytest.mark.spec("OBS-013")
@pytest.mark.parametrize(
    "without",
    [
        {"conductor_acted": True},
        {"lane": "decode"},
        {"lane": "prefill"},
        {"lane": "self"},
        {"finish_reason": "error", "status": 500},
        {"finish_reason": "refused", "status": 503},
        {"cache_source": "response"},
    ],
)
def test_rows_that_stay_out_of_speed_count_in_sums(without: dict[str, Any]) -> None:
    found = cells(outcome(ts_ms=NOON, **SPEED), outcome(ts_ms=NOON, **SPEED, **without))
    row = found[0, "", "", NOON // 1000 // QUARTER_S]
    assert [len(row[name]) for name in METRICS] == [1, 1, 1]
    assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (2, 24, 68)


def test_a_figure_that_is_missing_or_zero_is_no_speed() -> None:
    found = cells(outcome(ts_ms=NOON, decode_tps=0.0, ttft_ms=300.0))
    row = found[0, "", "", NOON // 1000 // QUARTER_S]
    assert [len(row[name]) for name in METRICS] == [0, 1, 0]


def test_groups_add_up() -> None:
    chance = random.Random(5)
    rows = [
        outcome(
            number,
            ts_ms=NOON + chance.randrange(5_000_000),
            model=chance.choice(("a", "b", None)),
            client_id=chance.choice(("k:1", "k:2")),
            finish_reason=chance.choice(("stop", "tool_calls", "refused")),
            decode_tps=chance.lognormvariate(4, 1),
            conductor_hidden_tokens=chance.choice((None, 3)),
        )
        for number in range(60)
    ]
    singly, whole = cells(*rows, batch=1), cells(*rows, batch=60)
    for found in (singly, whole):
        for row in found.values():
            row.update({name: sorted(row[name]) for name in METRICS})
    assert singly == whole
    total = {name: sum(row[name] for key, row in whole.items() if key[0] == 0) for name in SUMS}
    assert total["requests"] == 60
    assert total["hidden_tokens"] == sum(row.conductor_hidden_tokens or 0 for row in rows)
    assert total["stop"] + total["tool_calls"] + total["refused"] == 60


def test_nothing_written_is_no_statement() -> None:
    assert upserts([]) == []


def test_pruning_leaves_whole_quarters() -> None:
    connection = new_ledger(outcome(ts_ms=NOON - 1), outcome(ts_ms=NOON), outcome(ts_ms=NOON + 900_000))
    for sql in PRUNE:
        connection.execute(sql, (NOON + 5,))
        (_, _, _, plan) = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (NOON,)).fetchone()
        assert "USING INDEX" in plan or "COVERING INDEX" in plan
    quarters = connection.execute("SELECT quarter FROM usage WHERE by_what = 0 ORDER BY quarter").fetchall()
    assert quarters == [(NOON // 900_000,), (NOON // 900_000 + 1,)]


def test_the_tables_may_be_made_twice() -> None:
    connection = new_ledger()
    for sql in TABLES:
        connection.execute(sql)
