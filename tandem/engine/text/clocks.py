"""Text that clients put into prompts and change from one turn to the next: clocks, and blocks of reminders (ENG-177).

Every search takes time in proportion to the text, whatever a client writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["clock_at", "reminder_at", "without_moving"]

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = r"(?:mon|tues?|wed(?:nes)?|thur?s?|fri|sat(?:ur)?|sun)(?:day)?\.?"
_CLOCK = re.compile(
    rf"""
    (?: \b\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}      # 2026-01-31
      | \b\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}\b  # 31.01.2026, 1/31/26
      | \d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?
      | \b{_MONTH}\s{{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}}\b)?
      | \b\d{{1,2}}\.?\s{_MONTH}(?:,?\s\d{{4}}\b)?
      | \b{_DAY}\b
      | \b1[5-9]\d{{8}}(?:\d{{3}})?\b              # seconds or milliseconds since 1970
      | \b\d{{1,2}}\s?[ap]\.?m\b
    )(?:\s?[ap]\.?m\b)?(?:\s?(?:Z|UTC|GMT|[+-]\d{{2}}:?\d{{2}})\b)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_JOINT = re.compile(r"[\sT,]{0,2}(?:at\s)?", re.IGNORECASE)
"""What may stand between a date and a time of one clock."""
_LOOKED_AT = 200
"""Characters on either side of a place in which a clock is looked for; every one is shorter."""

_SPACE = re.compile(r"\s*")
_OPENING = re.compile(r"<(system[-_]reminder|reminder|environment_details|environment_context|env)>")


def clock_at(text: str, at: int) -> int | None:
    """Where the date or the time of day begins that the character at `at` is of, or stands right behind."""
    start = max(0, at - _LOOKED_AT)
    spans = _clocks(text[start : at + _LOOKED_AT])
    return next((start + low for low, high in spans if low <= at - start <= high), None)


def reminder_at(text: str, at: int) -> int | None:
    """Where the reminder block begins that the character at `at` is of; the white space around it is of it too."""
    return next((start for start, low, high in _reminders(text) if low <= at < high), None)


def without_moving(text: str) -> str:
    """The text without clocks, reminders and white space: what tells a conversation that comes again."""
    kept, at = [], 0
    for _, low, high in _reminders(text):
        kept.append(text[at:low])
        at = high
    return "".join(_CLOCK.sub("", "".join([*kept, text[at:]])).split())


def _clocks(text: str) -> list[tuple[int, int]]:
    """Start and end of each; a date and a time with a joint between them are one."""
    found: list[tuple[int, int]] = []
    for match in _CLOCK.finditer(text):
        if found and _JOINT.fullmatch(text, found[-1][1], match.start()):
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
    return found


def _reminders(text: str) -> Iterator[tuple[int, int, int]]:
    """Of each block where it begins, and start and end with the white space around it."""
    end, unclosed = 0, set[str]()
    for opening in _OPENING.finditer(text):
        closing = f"</{opening[1]}>"
        if opening.start() < end or closing in unclosed:
            continue
        closed = text.find(closing, opening.end())
        if closed < 0:
            unclosed.add(closing)
            continue
        low = end + len(text[end : opening.start()].rstrip())
        behind = _SPACE.match(text, closed + len(closing))
        assert behind is not None  # it may be empty
        end = behind.end()
        yield opening.start(), low, end
