"""Whether a text ends in exact copies of one piece (MON-102): the final characters are looked up in what precedes them.

The closest place where they stand is one unit away; how far the text then repeats itself at that distance is found by
bisection. All is read backwards, because there a search from the front finds the closest place first, and CPython
searches forwards in linear time whatever the text (the two-way algorithm of Crochemore and Perrin, 1991).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["FORM", "PROBE", "Form", "Period", "id_period", "repetition", "shrinkage", "text_period"]

PROBE: Final = 256
"""Characters that are looked up."""
ZLIB_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Period:
    """The end of a sequence: `span` items of which each equals the one `unit` places before it, the first unit too."""

    unit: int
    span: int

    @property
    def copies(self) -> float:
        return self.span / self.unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What makes a period a repetition: it covers the newest `tokens` with `copies` of a unit of so many characters."""

    tokens: int
    copies: float
    shortest: int = 1
    longest: int


FORM: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "tokens": {"type": "integer", "minimum": 1, "description": "The copies cover at least the newest so many."},
        "copies": {"type": "number", "minimum": 2, "description": "Fewest copies."},
        "shortest": {"type": "integer", "minimum": 1, "description": "Shortest unit, in characters."},
        "longest": {"type": "integer", "minimum": 1, "description": "Longest unit, in characters."},
    },
    "required": ["tokens", "copies", "longest"],
    "additionalProperties": False,
}
"""JSON Schema of a form."""


def text_period(text: str, reach: int) -> Period | None:
    """The shortest period at the end of `text`, no longer than `reach` characters."""
    backwards = text[: -(PROBE + reach) - 1 : -1]
    unit = backwards.find(backwards[:PROBE], 1)
    if len(backwards) <= PROBE or unit < 0:
        return None
    return Period(unit, _span(text, unit))


def repetition(pieces: Sequence[str], forms: Sequence[Form]) -> Period | None:
    """The period at the end of the tokens' texts where it has one of the forms."""
    reach = max(form.longest for form in forms)
    # A token has a character or more, save one that ends in the midst of one: so many tokens hold what is looked up.
    near = text_period("".join(pieces[-(PROBE + reach) :]), reach)
    if near is None or all(not form.shortest <= near.unit <= form.longest for form in forms):
        return None
    text = "".join(pieces)
    period = Period(near.unit, _span(text, near.unit))
    return period if any(_has(period, form, pieces) for form in forms) else None


def id_period(ids: Sequence[int], window: int, longest: int) -> Period | None:
    """The shortest period of the newest `window` ids, no longer than `longest`."""
    newest = ids[-window:]
    if len(newest) < window:
        return None
    for unit in range(1, min(longest, window - 1) + 1):
        # Almost every unit fails at the last id.
        if newest[-1] == newest[-1 - unit] and newest[unit:] == newest[:-unit]:
            return Period(unit, window)
    return None


def shrinkage(text: str, newest: int) -> float:
    """How many times shorter zlib makes the newest so many bytes."""
    data = text[-newest:].encode("utf-8", "replace")[-newest:]
    return len(data) / len(zlib.compress(data, ZLIB_LEVEL)) if data else 1.0


def _has(period: Period, form: Form, pieces: Sequence[str]) -> bool:
    return (
        form.shortest <= period.unit <= form.longest
        and period.copies >= form.copies
        and len(pieces) >= form.tokens
        and period.span >= sum(map(len, pieces[-form.tokens :]))
    )


def _span(text: str, unit: int) -> int:
    """Length of the longest end of `text` that has the period. Each step compares only what is not yet known."""
    size = len(text)

    def goes_on(known: int, length: int) -> bool:
        start, end = size - length, size - known
        return text[start:end] == text[start + unit : end + unit]

    good, bad = unit, 2 * unit
    while bad <= size and goes_on(good, bad):
        good, bad = bad, 2 * bad
    bad = min(bad, size + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if goes_on(good, middle):
            good = middle
        else:
            bad = middle
    return good
