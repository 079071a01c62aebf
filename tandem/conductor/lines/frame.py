"""The frame of a state line, and the exact way back: text with lines in, the text that the model wrote out (STA-008 to
STA-012).

A frame is a line break, U+203A and a space, the text and a blank line. What clients do to it on the way back is known:
they trim a part at its ends, and they join parts without anything or with a line break. So a line is taken for one
where it stands alone on its line and its text is of the list (or ends in the sentinel), and as much of its frame goes
as is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tandem.conductor.lines.templates import ANY

__all__ = ["MARK", "SENTINEL", "framed", "without_lines"]

MARK: Final = "\u203a "
SENTINEL: Final = "\u2060"
"""Word joiner: it is seen by nobody, and no client trims it."""

LONGEST: Final = 1_000
"""Characters within which a line ends: hostile text may not be searched for a line's end again and again, nor a whole
megabyte at once, for the search keeps the interpreter's lock.
"""
_BOLD = "**"
_BODY = rf"{MARK}(?:{ANY}|[^\n{SENTINEL}]+{SENTINEL})"
_LINE = re.compile(rf"{_BODY}|\*\*{_BODY}\*\*")
_LISTED = re.compile(ANY)


def framed(text: str, *, title: bool = False) -> str:
    """A line as it is sent; `title`: in bold, as the first line of a part (channel `inline`)."""
    whole = text if _LISTED.fullmatch(text) else text + SENTINEL
    return f"\n**{MARK}{whole}**\n\n" if title else f"\n{MARK}{whole}\n\n"


def without_lines(text: str) -> str:
    """The text without its framed lines; itself where it has none."""
    kept: list[str] = []
    at = 0
    for start, end in _lines(text):
        # Where two lines follow each other the break between them is of both frames.
        kept.append(text[at : max(start - 1, 0)])
        at = end + (2 if text.startswith("\n\n", end) else text.startswith("\n", end))
    return "".join([*kept, text[at:]]) if kept else text


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where lines stand, without the breaks around them; in time that grows with the text alone."""
    mark = text.find(MARK)
    while mark >= 0:
        start = mark - len(_BOLD) if text.startswith(_BOLD, max(mark - len(_BOLD), 0), mark) else mark
        end = text.find("\n", mark, mark + LONGEST)
        end = min(len(text), mark + LONGEST) if end < 0 else end
        is_alone = start == 0 or text[start - 1] == "\n"
        if is_alone and _LINE.fullmatch(text, start, end) and text[end : end + 1] in ("", "\n"):
            yield start, end
            mark = end
        mark = text.find(MARK, mark + 1)
