"""Tables as files, and the machine they name."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

from rich.console import Console

from tandem.bench.report import Machine, Report, keep, machine, render

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
REPORT = Report("Title", ("what", "value"), (("first", "1"), ("second", "22")), ("A note.",))


def test_render() -> None:
    out = io.StringIO()
    render(REPORT, Console(file=out, width=60))
    lines = out.getvalue().splitlines()
    assert lines[0].rstrip() == "Title"
    assert any("second" in line and "22" in line for line in lines)
    assert lines[-1] == "A note."


def test_a_result_file_has_name_date_table_and_lines(tmp_path: Path) -> None:
    path = keep("decode", [REPORT], ["ran here"], tmp_path / "results", NOON.date())
    assert path == tmp_path / "results/decode-2026-11-30.txt"
    text = path.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert text.endswith("A note.\nran here\n")


def test_this_machine_is_described() -> None:
    here = machine()
    first, second = here.lines(threads=2)
    assert f"{here.cores} x {here.cpu}, 2 threads, Python 3." in first
    assert f"{here.load:.2f}" in second


def test_a_busy_machine_is_told_of() -> None:
    quiet = Machine(cpu="cpu", cores=2, python="3.11", load=0.1, started=NOON)
    busy = Machine(cpu="cpu", cores=2, python="3.11", load=1.7, started=NOON)
    assert "do not trust" not in " ".join(quiet.lines())
    assert "do not trust" in " ".join(busy.lines())
