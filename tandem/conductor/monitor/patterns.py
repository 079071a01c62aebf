"""What is wrong with a policy's own regular expression: it does not compile, or one text can keep it busy for ever.

Patterns are run between two rounds of everybody's decoding, and Python stops no search. The search that never ends is
the one of a repeat around a repeat, both without a bound, which tries every way to share a text between the two. That
is told from the pattern alone; a pattern that is merely slow is not.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["pattern_problem"]

SKIPPED: Final = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
"""An escape, or a set of characters: neither opens anything."""
TOKEN: Final = re.compile(rf"(?s){SKIPPED}|(\((?:\?(?:>|[=!]|<[=!]))?)|(\))|([*+]|\{{\d*,\}})([+?]?)|.")
BOUNDED: Final = ("(?>", "(?=", "(?!", "(?<=", "(?<!")
"""Groups that give nothing back once they have matched."""


def pattern_problem(pattern: str) -> str | None:
    """None: nothing is."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"it is no regular expression: {error}"
    if _repeats_a_repeat(pattern):
        return "a repeat without a bound around another: bound one of them, {0,9} for example"
    return None


def _repeats_a_repeat(pattern: str) -> bool:
    opened = [""]
    repeats = [False]
    """Of each open group, the pattern itself first, whether something in it is repeated without a bound."""
    closed = False
    """A group with such a repeat in it has just ended."""
    for match in TOKEN.finditer(pattern):
        group, end, repeat, manner = match[1], match[2], match[3], match[4]
        is_repeat = bool(repeat) and manner != "+"
        if is_repeat and closed:
            return True
        repeats[-1] |= is_repeat
        closed = False
        if group:
            opened.append(group)
            repeats.append(False)
        elif end:
            gives_back = opened.pop() not in BOUNDED
            closed = repeats.pop() and gives_back
            repeats[-1] |= closed
    return False
