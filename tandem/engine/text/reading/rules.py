"""What may be added to the reading of one answer: rules that a plan switches on. The defaults add nothing (ENG-184)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["NO_RULES", "ReadingRules", "Shown", "TextMask"]


class Shown(NamedTuple):
    """Text that goes out, and how many characters of the input it stands for."""

    text: str
    length: int
    is_masked: bool = False


class TextMask(Protocol):
    """The last stage of either side: may hold text back, and put other text in its place."""

    def feed(self, text: str) -> Sequence[Shown]:
        """What `text` makes certain; the lengths add up to all that was fed, less what is held."""

    def end(self) -> Sequence[Shown]:
        """What is held. The text ends here; what is fed next begins another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """The rules of one reader."""

    spares_opening: bool = False
    """Stop strings of scope `answer` do not match in the white space that opens it (ANS-001)."""
    refuses_calls: bool = False
    """Calls that are read are not sent (ANS-002)."""
    drops_closers: bool = False
    """A `</think>` alone on a line of the answer is not sent (ANS-003)."""
    holds: bool = False
    """Calls, and blocks that cannot be read, wait for a verdict (MON-074)."""
    mask: TextMask | None = None
    """Of reasoning and content; a call's arguments do not pass through it (MEM-011)."""


NO_RULES = ReadingRules()
