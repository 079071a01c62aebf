"""A read of the ledger as data: its statements, and what is made of their rows. Nobody but the store runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

__all__ = ["Query", "Rows", "Statement"]

T = TypeVar("T")

Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT and its parameters."""

    sql: str
    params: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """Statements that are run one after the other, and `fold`, which gets the rows of each."""

    statements: tuple[Statement, ...]
    fold: Callable[[Sequence[Rows]], T]
