"""How often packages went into prompts, read from the journal's rows of seven days (LIB-017).

A row of kind `route` names the parts of the note that its turn added (`detail.notes`), or, in shadow, of the one it
would have added (`extra.shadow.notes`). Notes that are put back on later turns do not count again. The library picks
nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from tandem.store.query import Query, Rows, Statement

__all__ = ["DAY_MS", "PackageRow", "PackageUsage", "UsageReport", "usage_query"]

T = TypeVar("T")

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
PART = "package:"

# The notes alone are read: a row's digest and stages are long, and a week has many rows.
_NOTES = "iif(json_valid(detail), json_extract(detail, '$.notes'), NULL)"
_SHADOW = "iif(json_valid(extra), json_extract(extra, '$.shadow.notes'), NULL)"
_ROWS = f"""
SELECT id, ts_ms, request_id, session_key, profile, class, {_NOTES} AS notes, {_SHADOW} AS shadow
FROM conductor_events
WHERE kind = 'route' AND id >= (SELECT min(id) FROM conductor_events WHERE ts_ms >= ?) AND +ts_ms >= ?
AND (notes IS NOT NULL OR shadow IS NOT NULL) ORDER BY id DESC
"""


@dataclass(slots=True)
class PackageUsage:
    """Counts of one package, of a day and of the week."""

    inserted_day: int = 0
    inserted_week: int = 0
    would_day: int = 0
    """Times it would have gone in, had the plan been on."""
    would_week: int = 0


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A turn that the package went into, or in shadow would have."""

    id: int
    ts_ms: int
    request_id: str | None
    session: str | None
    profile: str | None
    class_id: str | None
    how: Literal["inserted", "shadow"]


@dataclass(slots=True)
class UsageReport:
    packages: dict[str, PackageUsage] = field(default_factory=dict)
    rows: list[PackageRow] = field(default_factory=list)
    """Of the package that was asked for, newest first."""


class _Note(msgspec.Struct, frozen=True):
    kind: str = ""
    parts: tuple[str, ...] = ()


def usage_query(now_ms: int, name: str | None = None, limit: int = 20) -> Query[UsageReport]:
    """The counts of all packages and the newest `limit` rows of the package `name`."""
    since = now_ms - WEEK_MS

    def fold(answers: Sequence[Rows]) -> UsageReport:
        report = UsageReport()
        for row in answers[0]:
            _add(report, row, now_ms - DAY_MS, name, limit)
        return report

    return Query((Statement(_ROWS, (since, since)),), fold)


def _add(report: UsageReport, row: Sequence[Any], day: int, name: str | None, limit: int) -> None:
    id, ts_ms, request_id, session, profile, class_id, notes, shadow = row
    inserted = {one for note in _read(notes, tuple[_Note, ...]) if note.kind == "new" for one in _packages(note.parts)}
    would = set(_packages(_read(shadow, tuple[str, ...]))) - inserted
    for one in inserted:
        usage = report.packages.setdefault(one, PackageUsage())
        usage.inserted_week += 1
        usage.inserted_day += ts_ms >= day
    for one in would:
        usage = report.packages.setdefault(one, PackageUsage())
        usage.would_week += 1
        usage.would_day += ts_ms >= day
    if name in inserted | would and len(report.rows) < limit:
        how: Literal["inserted", "shadow"] = "inserted" if name in inserted else "shadow"
        report.rows.append(PackageRow(id, ts_ms, request_id, session, profile, class_id, how))


def _packages(parts: Iterable[str]) -> Iterable[str]:
    return (part.removeprefix(PART) for part in parts if part.startswith(PART))


def _read(text: str | None, shape: type[T]) -> T:
    """A column of JSON; one of another shape says nothing."""
    try:
        return msgspec.json.decode(text or "[]", type=shape)
    except (msgspec.DecodeError, TypeError):
        return shape()
