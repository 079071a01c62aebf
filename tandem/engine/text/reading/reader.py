"""The reader of one answer: token ids in, deltas out.

This one is detokenizer and stop matcher. The reasoning splitter, the call codec, the hold and the secret mask join it
as stages with the same two verbs, `feed` and `end`, in the order of ENG-184.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.deltas import Content, Delta
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.text.reading.stops import StopMatcher
from tandem.engine.verbs import TokenLogprob

__all__ = ["PlainReader"]


class PlainReader:
    """Reads everything as answer text; at most one `Content` a token.

    A token's log-probabilities ride on the delta with the first character that its bytes are part of. A token whose
    text a stop cuts whole, or that has no text, drops them.
    """

    reasoning_tokens = 0
    """Nothing is split off."""

    def __init__(self, text: TextModel, stops: Sequence[str] = ()) -> None:
        self._piece = text.piece
        self._detokenizer = Detokenizer()
        self._stops = StopMatcher(stops) if stops else None
        self._read = 0
        self._sent = 0
        self._entries: deque[tuple[int, TokenLogprob]] = deque()

    @property
    def stopped(self) -> bool:
        """A stop string has ended the text."""
        return self._stops is not None and self._stops.stopped

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        if self.stopped:
            return []
        piece = self._piece(token)
        if logprob is None or not piece:
            return self._send(self._detokenizer.feed(piece))
        head = self._detokenizer.feed(piece[:1])
        # The first byte is in the last of these characters, or in the one still waiting behind them.
        start = self._read + max(len(head) - (not self._detokenizer.is_waiting), 0)
        self._entries.append((start, logprob))
        return self._send(head + self._detokenizer.feed(piece[1:]))

    def end(self) -> list[Delta]:
        """What was held back. A stop string that only the flush completes counts too."""
        if self.stopped:
            return []
        deltas = self._send(self._detokenizer.end(), is_last=True)
        self._entries.clear()
        return deltas

    def _send(self, text: str, *, is_last: bool = False) -> list[Delta]:
        self._read += len(text)
        if self._stops is not None:
            text = self._stops.feed(text)
            if is_last:
                text += self._stops.end()
        if not text:
            return []
        self._sent += len(text)
        return [Content(text, self._take_entries())]

    def _take_entries(self) -> tuple[TokenLogprob, ...]:
        entries = self._entries
        taken = []
        while entries and entries[0][0] < self._sent:
            taken.append(entries.popleft()[1])
        return tuple(taken)
