"""What the codec says, and what it can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart

__all__ = ["CallCodec", "Piece", "Text"]


@dataclass(frozen=True, slots=True)
class Text:
    """Answer text that is no call. `at`: offset of its first character in all that the codec was fed."""

    at: int
    text: str


Piece: TypeAlias = Text | CallStart | CallArguments | CallEnd


class CallCodec(Protocol):
    """Reads the answer's text and tells its calls from the rest of it; equal output for every split of the input."""

    @property
    def inside(self) -> bool:
        """A call block is open: its opening marker has been read whole."""

    @property
    def calls(self) -> int:
        """Complete calls so far."""

    def feed(self, text: str) -> list[Piece]:
        """What `text` makes certain."""

    def end(self) -> list[Piece]:
        """What was held back; the text ends here."""
