"""A read of the ledger as data: its statements, and what is made of their rows. Nobody but the store runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

__all__ = ["Query", "Rows", "Statement", "match_columns"]

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


def match_columns(**wanted: str | None) -> tuple[list[str], list[str]]:
    """Conditions of a WHERE and their parameters. What is None does not matter.

    The first column is looked up in its index. The others stand behind a plus, which tells SQLite to look at them only
    while it goes through that index: left to itself it may choose one that it then has to sort.
    """
    named = [(column, value) for column, value in wanted.items() if value is not None]
    return [f"{'+' * bool(place)}{column} = ?" for place, (column, _) in enumerate(named)], [
        value for _, value in named
    ]
