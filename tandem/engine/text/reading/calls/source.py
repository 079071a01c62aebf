"""Text that arrives in pieces, read by generators that yield whenever they need more of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

__all__ = ["SPACE", "Source", "Steps"]

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A reader under way: it yields for more text and returns what it read. After `ended` it may yield for ever."""

SPACE = " \t\r\n"


class Source:
    """The unread text. Readers move `at`; what they leave is there again, with more behind it, after a yield."""

    def __init__(self, text: str = "", *, ended: bool = False, start: int = 0) -> None:
        self.text = text
        self.ended = ended
        self.at = 0
        """Index in `text` of the first unread character; a yield may move both."""
        self.seen = 0
        """Index up to which a reader has looked ahead, at least `at`. Moves with `at`."""
        self._start = start

    @property
    def offset(self) -> int:
        """Characters of the whole input before `at`."""
        return self._start + self.at

    @property
    def fed(self) -> int:
        """Characters of the whole input."""
        return self._start + len(self.text)

    def feed(self, text: str) -> None:
        self._start += self.at
        self.seen = max(self.seen - self.at, 0)
        self.text = self.text[self.at :] + text
        self.at = 0

    def take(self, upto: int) -> str:
        """The unread text up to the index, read."""
        piece = self.text[self.at : upto]
        self.at = upto
        self.seen = max(self.seen, upto)
        return piece

    def find_tag(self) -> tuple[int, int]:
        """The index of the next `<`, -1 where there is none yet, and that up to which what stands before it is text
        for good: white space at its end may belong to a call. Looks ahead from `seen`, and moves it.
        """
        start = self.seen
        at = self.text.find("<", start)
        self.seen = at if at >= 0 else len(self.text)
        return at, start + len(self.text[start : self.seen].rstrip(SPACE))

    def unread(self, piece: str) -> None:
        """Put back what was read last."""
        self._start = self.offset - len(piece)
        self.text = piece + self.text[self.at :]
        self.at = self.seen = 0

    def skip(self, chars: str = SPACE) -> None:
        """Read over these characters, as far as they are there."""
        text, at = self.text, self.at
        while at < len(text) and text[at] in chars:
            at += 1
        self.take(at)

    def peek(self, chars: str = SPACE) -> Steps[str]:
        """Skip these characters; the one behind them, unread."""
        while True:
            self.skip(chars)
            if self.at < len(self.text):
                return self.text[self.at]
            yield

    def expect(self, char: str) -> Steps[bool]:
        """Whether the next character, past white space, is this one; it is read if so."""
        found = (yield from self.peek()) == char
        if found:
            self.take(self.at + 1)
        return found
