"""Progress of a measurement on stderr: a bar on a terminal, one line where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["bar"]


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Gives a function to be called after each of `total` steps."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if not console.is_terminal:
        console.print(f"{title} …", highlight=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(title, total=total)
        yield lambda: shown.advance(task)
