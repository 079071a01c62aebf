"""Tokens to raw text, with the log-probabilities of those whose text has not gone out."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.verbs import TokenLogprob

__all__ = ["TokenSource"]


class _Entry(NamedTuple):
    """A token's place in the raw text, `end` behind its last character, and its log-probabilities."""

    start: int
    end: int
    logprob: TokenLogprob


class TokenSource:
    """An entry rides on the delta that has its token's first character; where the token reaches into text that may yet
    be masked, on a later one or, with that text, on none (MEM-010).
    """

    def __init__(self, text: TextModel) -> None:
        self._piece = text.piece
        self._detokenizer = Detokenizer()
        self._length = 0
        self._entries: deque[_Entry] = deque()
        self._late: list[_Entry] = []
        """Their first character has gone out, and their last may yet be masked."""

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    def feed(self, token: int, logprob: TokenLogprob | None) -> str:
        piece = self._piece(token)
        if logprob is None or not piece:
            text = self._detokenizer.feed(piece)
        else:
            text = self._detokenizer.feed(piece[:1])
            # The first byte is in the last of these characters, or in the one still waiting behind them.
            start = self._length + max(len(text) - (not self._detokenizer.is_waiting), 0)
            text += self._detokenizer.feed(piece[1:])
            end = self._length + len(text) + self._detokenizer.is_waiting
            self._entries.append(_Entry(start, end, logprob))
        self._length += len(text)
        return text

    def end(self) -> str:
        """The rest of the text; a character that was cut off is U+FFFD."""
        text = self._detokenizer.end()
        self._length += len(text)
        return text

    def take(self, start: int, end: int, *, waits: bool = False) -> tuple[TokenLogprob, ...]:
        """Entries of the characters `start` to `end`. Those before them are dropped: their text went nowhere.

        `waits`: what follows `end` may yet be masked.
        """
        entries = self._entries
        taken, self._late = self._late, []
        while entries and entries[0].start < end:
            entry = entries.popleft()
            if entry.start >= start:
                taken.append(entry)
        if waits and taken and taken[-1].end > end:
            self._late = [entry for entry in taken if entry.end > end]
            taken = [entry for entry in taken if entry.end <= end]
        return tuple(entry.logprob for entry in taken)

    def hide(self, start: int, end: int) -> None:
        """The characters `start` to `end` are masked: no entry of a token that has one of them goes out."""
        while self._entries and self._entries[0].start < end:
            entry = self._entries.popleft()
            if entry.end <= start:
                self._late.append(entry)
        self._late = [entry for entry in self._late if entry.end <= start]
