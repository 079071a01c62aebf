"""What the router and the monitor did in a span of time, counted from the journal (OBS-086).

Side rows are no turns of a person, so no figure counts them. A turn whose thinking a field of the client turned off did
not run with its class's level, and counts as that (OBS-116).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tandem.store.journal import FOUND
from tandem.store.query import Query, Rows, Statement

__all__ = ["SPANS", "overview_query"]

SPANS: Final = {"day": 24 * 3_600_000, "week": 7 * 24 * 3_600_000}
"""Milliseconds back from now, by name; the longest last."""
OFF_BY_CLIENT: Final = "off (client)"

_ROUTES = """
SELECT ts_ms >= ?, mode, class,
  CASE WHEN json_valid(extra) AND json_extract(extra, '$.client_thinking') IS NOT NULL THEN ? ELSE effort END,
  count(*), sum(coalesce(hidden_tokens, 0))
FROM conductor_events WHERE kind = 'route' AND ts_ms >= ? AND profile IS coalesce(?, profile) GROUP BY 1, 2, 3, 4
"""
_FINDINGS = f"""
SELECT ts_ms >= ?, mode, task, action, count(*), sum(coalesce(hidden_tokens, 0))
FROM conductor_events WHERE kind = 'monitor' AND {FOUND} AND ts_ms >= ? AND profile IS coalesce(?, profile)
GROUP BY 1, 2, 3, 4
"""


def overview_query(now_ms: int, profile: str | None = None) -> Query[Mapping[str, Any]]:
    """Figures of each of `SPANS`, under one profile where it is named."""
    day, week = (now_ms - span for span in SPANS.values())

    def fold(answers: Sequence[Rows]) -> Mapping[str, Any]:
        routes, findings = answers
        recent = ([row for row in rows if row[0]] for rows in (routes, findings))
        return {"day": _figures(*recent), "week": _figures(routes, findings)}

    found = Statement(_ROUTES, (day, OFF_BY_CLIENT, week, profile)), Statement(_FINDINGS, (day, week, profile))
    return Query(found, fold)


def _figures(routes: Rows, findings: Rows) -> dict[str, Any]:
    """`routes` have mode, class and effort behind the span, `findings` mode, task and action; then count and tokens."""
    return {
        "requests": sum(row[4] for row in routes),
        "modes": _counted((row[1], row[4]) for row in routes),
        "classes": _counted((row[2], row[4]) for row in routes),
        "efforts": _counted((row[3], row[4]) for row in routes),
        "hidden_tokens": sum(row[5] for row in (*routes, *findings)),
        "findings": sum(row[4] for row in findings),
        "acted": sum(row[4] for row in findings if _acted(row)),
        "gave_up": sum(row[4] for row in findings if row[3] == "GIVE_UP"),
        "tasks": _tasks(findings),
    }


def _tasks(findings: Rows) -> list[dict[str, Any]]:
    """By task: what was found, and what of it was done."""
    names = sorted({row[2] for row in findings if row[2]})
    of = {name: [row for row in findings if row[2] == name] for name in names}
    return [
        {
            "task": name,
            "findings": sum(row[4] for row in rows),
            "acted": sum(row[4] for row in rows if _acted(row)),
            "shadow": sum(row[4] for row in rows if row[1] == "shadow"),
            "hidden_tokens": sum(row[5] for row in rows),
        }
        for name, rows in of.items()
    ]


def _acted(row: Sequence[Any]) -> bool:
    """In shadow nothing is done, whatever was due."""
    return row[1] != "shadow" and row[3] not in (None, "PASS")


def _counted(rows: Iterable[tuple[Any, int]]) -> list[dict[str, Any]]:
    """The most first; what a row does not say counts nowhere."""
    counts: Counter[str] = Counter()
    for name, count in rows:
        if name is not None:
            counts[str(name)] += count
    return [{"name": name, "count": count} for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]
