"""When a task looks at what is being written: every so many tokens of the place it is written at (MON-028).

Most borders between two rounds are none of these, and cost one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from tandem.conductor.monitor.events import Task

__all__ = ["EVERY", "Pace", "Place"]

Place: TypeAlias = Literal["reasoning", "answer", "block"]
EVERY: Final = 64
"""Tokens between two looks of a task whose parameter `every` says nothing else."""


class Pace:
    """The looks of `tasks` at one place. A count that falls begins the place anew: another block."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = [(task, max(1, int(task.params.get("every", EVERY)))) for task in tasks]
        self._seen = 0
        self._next = self._next_after(0)

    def due(self, count: int) -> tuple[Task, ...]:
        """The tasks for which `count` tokens are on or behind another of their marks."""
        if count < self._seen:
            self._seen, self._next = 0, self._next_after(0)
        if count < self._next:
            return ()
        found = tuple(task for task, every in self._tasks if count // every > self._seen // every)
        self._seen, self._next = count, self._next_after(count)
        return found

    def mute(self, task: Task) -> None:
        """It has been heard here and looks no more."""
        self._tasks = [each for each in self._tasks if each[0].id != task.id]
        self._next = self._next_after(self._seen)

    def _next_after(self, count: int) -> float:
        return min((count // every + 1) * every for _, every in self._tasks) if self._tasks else float("inf")
