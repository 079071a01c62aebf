"""What the codec says, and what it can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart

__all__ = ["CallCodec", "Piece", "Text"]


@dataclass(frozen=True, slots=True)
class Text:
    """Answer text that is no call. `at`: offset of its first character in all that the codec was fed."""

    at: int
    text: str
    why: str | None = None
    """Of a block that could not be read: why, in a few words that hold nothing of it."""
    complete: bool = True
    """Its closing marker was read."""
    tool: str = ""
    """The name that it gives, if that much could be read."""


Piece: TypeAlias = Text | CallStart | CallArguments | CallEnd


class CallCodec(Protocol):
    """Reads the answer's text and tells its calls from the rest of it; equal output for every split of the input."""

    @property
    def inside(self) -> bool:
        """A call block is open: its opening marker has been read whole."""

    @property
    def calls(self) -> int:
        """Complete calls so far."""

    @property
    def rejected(self) -> int:
        """Blocks so far that could not be read."""

    @property
    def opened(self) -> int:
        """Offset at which the open block began, or the next call of one."""

    @property
    def tool(self) -> str | None:
        """The name of the call that is being written, once it is known."""

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """Offsets of the complete calls, markers included as far as they are read."""

    def new_id(self) -> str:
        """An id for a call that nobody has written."""

    def feed(self, text: str) -> list[Piece]:
        """What `text` makes certain."""

    def end(self) -> list[Piece]:
        """What was held back; the text ends here."""

    def reopen(self) -> None:
        """What is open or held back is dropped, and what is fed next begins another text; offsets and numbers go on."""
