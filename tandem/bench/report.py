"""Tables of results: on the terminal, and as text files that say what they were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["BUSY", "RESULTS", "Machine", "Report", "keep", "machine", "render"]

RESULTS = Path("bench/results")
"""Where results are kept, below the directory the command runs in: a checkout."""
BUSY = 0.5
"""A load average of the last minute from which on figures are not to be trusted."""
WIDTH = 110


@dataclass(frozen=True, slots=True)
class Report:
    """One table, and the lines below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures were taken on. `load` is the mean number of running processes in the minute before."""

    cpu: str
    cores: int
    python: str
    load: float
    started: datetime.datetime

    @property
    def busy(self) -> bool:
        return self.load >= BUSY

    def lines(self, threads: int | None = None) -> tuple[str, ...]:
        """For the end of a result file; `threads` where something computed with a set number of them."""
        used = "" if threads is None else f", {threads} threads"
        warning = "; the machine was busy: do not trust these figures" if self.busy else ""
        return (
            f"{self.started:%Y-%m-%d %H:%M %Z}, {self.cores} x {self.cpu}{used}, Python {self.python}",
            f"load average at the start {self.load:.2f}{warning}",
        )


def machine() -> Machine:
    """This machine, now."""
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        load=os.getloadavg()[0],
        started=datetime.datetime.now().astimezone(),
    )


def render(report: Report, console: Console) -> None:
    """Print the table and its notes."""
    table = Table(title=report.title, title_justify="left")
    for index, column in enumerate(report.columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    for note in report.notes:
        console.print(note, markup=False, highlight=False)


def keep(name: str, reports: Sequence[Report], lines: Sequence[str], directory: Path, day: datetime.date) -> Path:
    """Write `directory`/NAME-DATE.txt, over an earlier one of the same day, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{day:%Y-%m-%d}.txt"
    with path.open("w", encoding="utf-8") as file:
        console = Console(file=file, width=WIDTH, color_system=None)
        for report in reports:
            render(report, console)
        for line in lines:
            file.write(f"{line}\n")
    return path


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else platform.machine()
