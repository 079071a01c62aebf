"""The bench of the ledger runs: its figures are not for a test."""

from __future__ import annotations

from pathlib import Path

from bench.ledger import build, measure, questions


async def test_every_question_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    build(path, 600)
    report = await measure(path, 600, rounds=1)
    assert [row[0] for row in report.rows] == [name for name, _ in questions(600)]
    assert all(row[1].endswith(" ms") for row in report.rows)
