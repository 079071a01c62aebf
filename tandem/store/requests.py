"""The ledger's rows, newest end first: a page of them, one by its request's id, and the export (OBS-113, API-243).

Rows are numbered as their requests end, so a page begins below the last number of the one before it and nothing that
ends meanwhile moves it. Each filter has an index (`tandem.store.buckets`) in the order of these numbers, which also
holds the columns of the filters that may come with it: what does not match is passed over without a look at its row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tandem.store.query import Query, Rows, Statement, match_columns
from tandem.store.schema import COLUMNS

__all__ = ["EXPORT_ROWS", "NAMES", "Page", "Wanted", "csv_page", "json_page", "page_query"]

EXPORT_ROWS = 100_000
"""The most rows of one export."""
NEWEST = 2**63 - 1

NAMES = ("id", *(column.name for column in COLUMNS))
SWITCHES = tuple(NAMES.index(name) for name in ("stream", "conductor_acted") if name in NAMES)
"""Columns that SQLite keeps as 0 and 1."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet compute a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows; what is None does not matter."""

    model: str | None = None
    client: str | None = None
    finish: str | None = None
    request_id: str | None = None
    before: int | None = None
    """Rows below this number."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first, and the `before` of the next page; None where there is none."""

    rows: Rows
    next_before: int | None

    @property
    def named(self) -> list[dict[str, Any]]:
        return [dict(zip(NAMES, row, strict=True)) for row in self.rows]


def page_query(wanted: Wanted, limit: int) -> Query[Page]:
    """The newest `limit` rows of these. One row more is read, which tells whether there is another page."""
    matches, values = match_columns(
        request_id=wanted.request_id, client_id=wanted.client, finish_reason=wanted.finish, model=wanted.model
    )
    ids = f"SELECT id FROM requests WHERE {' AND '.join(('id < ?', *matches))} ORDER BY id DESC LIMIT ?"
    sql = f"SELECT {', '.join(NAMES)} FROM requests WHERE id IN ({ids}) ORDER BY id DESC"
    before = NEWEST if wanted.before is None else wanted.before
    return Query((Statement(sql, (before, *values, limit + 1)),), lambda answers: _page(answers[0], limit))


def json_page(page: Page, *, first: bool) -> bytes:
    """The rows as items of an array that is open, behind those of earlier pages."""
    items = [msgspec.json.encode(row) for row in page.named]
    return (b"" if first or not items else b",\n") + b",\n".join(items)


def csv_page(page: Page, *, first: bool) -> bytes:
    """The rows as RFC 4180 has them, behind a head of names on the first page."""
    text = io.StringIO()
    writer = csv.writer(text)
    if first:
        writer.writerow(NAMES)
    writer.writerows(map(_cells, page.rows))
    return text.getvalue().encode("utf-8", "replace")


def _page(rows: Rows, limit: int) -> Page:
    shown = [_with_switches(row) for row in rows[:limit]]
    return Page(shown, shown[-1][0] if len(rows) > limit else None)


def _with_switches(row: Sequence[Any]) -> tuple[Any, ...]:
    values = list(row)
    for place in SWITCHES:
        values[place] = bool(values[place])
    return tuple(values)


def _cells(row: Iterable[Any]) -> list[Any]:
    """Text that a spreadsheet would compute gets an apostrophe, which makes it text there; model names come from
    anybody."""
    return [f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value for value in row]
