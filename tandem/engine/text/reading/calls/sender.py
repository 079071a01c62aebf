"""Calls and text on their way out: live, or each call whole."""

from __future__ import annotations

from collections.abc import Callable

from tandem.engine.text.reading.calls.pieces import Piece, Text
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart

__all__ = ["Sender"]


class Sender:
    """Numbers the calls, and joins what one `take` would hand out in several pieces of a kind."""

    def __init__(self, *, live: bool, new_id: Callable[[], str]) -> None:
        self.live = live
        self.calls = 0
        """Complete calls."""
        self.rejected = 0
        """Blocks that could not be read."""
        self.new_id = new_id
        self._name: str | None = None
        self._index = 0
        self._out: list[Piece] = []
        self._arguments: list[str] = []
        self._text: list[str] = []
        self._text_at = 0
        self._text_end = 0

    @property
    def tool(self) -> str | None:
        """The open call's name."""
        return self._name

    @property
    def has_sent(self) -> bool:
        """Something of the open call has gone out, so its block can no longer become text."""
        return self.live and self._name is not None

    def text(self, at: int, text: str) -> None:
        """Text of the answer that begins at this offset."""
        if not text:
            return
        if self._text and at != self._text_end:
            self._flush_text()
        if not self._text:
            self._text_at = at
        self._text.append(text)
        self._text_end = at + len(text)

    def reject(self, at: int, text: str, why: str, *, complete: bool, tool: str) -> None:
        """A block that is text after all."""
        self._flush_text()
        self._out.append(Text(at, text, why, complete, tool))

    def open(self, name: str) -> None:
        """A call's name is known. Live it goes out at once."""
        self._name = name
        if self.live:
            self._start(name)

    def arguments(self, text: str) -> None:
        """The next piece of the open call's JSON."""
        self._arguments.append(text)

    def finish(self) -> None:
        """The open call is complete."""
        assert self._name is not None
        if not self.live:
            self._start(self._name)
        self._flush_arguments(is_whole=True)
        self._out.append(CallEnd(self._index))
        self._index += 1
        self.calls += 1
        self._name = None

    def drop(self) -> None:
        """Nothing more goes out of the open call."""
        self._arguments.clear()
        self._index += self.has_sent
        self._name = None

    def take(self) -> list[Piece]:
        """What can go out."""
        self._flush_text()
        if self.has_sent:
            self._flush_arguments(is_whole=False)
        out, self._out = self._out, []
        return out

    def _start(self, name: str) -> None:
        self._flush_text()
        self._out.append(CallStart(self._index, self.new_id(), name))

    def _flush_arguments(self, *, is_whole: bool) -> None:
        """The brace that may be the last waits for the call's end: of a call that is cut they never close (API-121)."""
        text = "".join(self._arguments)
        border = len(text) if is_whole else len(text.removesuffix("}"))
        if border:
            self._out.append(CallArguments(self._index, text[:border]))
        self._arguments = [text[border:]] if border < len(text) else []

    def _flush_text(self) -> None:
        if self._text:
            self._out.append(Text(self._text_at, "".join(self._text)))
            self._text.clear()
