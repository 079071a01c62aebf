"""Subjects for tests; importable by a child process in no time."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tandem.bench.subject import SecondTurn

__all__ = ["Steady", "build", "dying", "failing", "fatal"]


class Steady:
    """Takes `step_s` a token, whether it reads or writes."""

    def __init__(self, step_s: float, *, keeps: bool = True, counts: bool = False) -> None:
        self._step_s = step_s
        self._keeps = keeps
        self._counts = counts
        self._rounds = 0
        self.prompts: list[tuple[int, ...]] = []

    def about(self) -> str:
        return f"steady, process {os.getpid()}"

    def prefill(self, ids: Sequence[int]) -> float:
        self.prompts.append(tuple(ids))
        return self._step_s * len(ids)

    def decode(self, ids: Sequence[int], count: int) -> float:
        self.prompts.append(tuple(ids))
        self._rounds += 1 + count // 2
        return self._step_s

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> SecondTurn | None:
        return SecondTurn(2 * self._step_s, self._step_s) if self._keeps else None

    def rounds(self) -> int | None:
        return self._rounds if self._counts else None

    def close(self) -> None:
        """Holds nothing."""


def build() -> Steady:
    return Steady(0.5)


def failing() -> Steady:
    raise RuntimeError("no such\nthing")


def dying() -> Steady:
    os._exit(3)


class Fatal(Steady):
    """Ends its process at the first measurement."""

    def decode(self, ids: Sequence[int], count: int) -> float:
        os._exit(3)


def fatal() -> Steady:
    return Fatal(0.5)
