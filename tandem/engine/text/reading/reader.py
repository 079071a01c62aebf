"""The reader of one answer: token ids in, deltas out. Its stages are chained in the order of ENG-184.

Log-probabilities do not pass through the stages. Each is kept with the place in the raw text where its token begins,
and rides on the delta that has the character there, however late that goes out and whatever was dropped before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.calls import CallCodec, Piece
from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.text.reading.splitter import Part, Splitter
from tandem.engine.text.reading.stops import StopMatcher
from tandem.engine.verbs import TokenLogprob

__all__ = ["AnswerReader", "PlainReader"]

_BLANK = " \t\n\r\x0b\x0c"
"""White space to a constraint."""


class PlainReader:
    """Reads everything as answer text, at most one `Content` a token: a text completion's reader.

    A token's log-probabilities ride on the delta with the first character that its bytes are part of. A token whose
    text a stop cuts whole, or that has no text, drops them.
    """

    reasoning_tokens = 0
    """Nothing is split off."""
    may_reason = in_reasoning = in_call = False

    def __init__(self, text: TextModel, stops: Sequence[str] = ()) -> None:
        self._source = _Source(text)
        self._stops = StopMatcher(stops) if stops else None
        self._sent = 0

    @property
    def stopped(self) -> bool:
        """A stop string has ended the text."""
        return self._stops is not None and self._stops.stopped

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        return [] if self.stopped else self._send(self._source.feed(token, logprob))

    def end(self) -> list[Delta]:
        """What was held back. A stop string that only the flush completes counts too."""
        return [] if self.stopped else self._send(self._source.end(), is_last=True)

    def close_reasoning(self) -> list[Delta]:
        return []

    def _send(self, text: str, *, is_last: bool = False) -> list[Delta]:
        if self._stops is not None:
            text = self._stops.feed(text)
            if is_last:
                text += self._stops.end()
        if not text:
            return []
        at, self._sent = self._sent, self._sent + len(text)
        return [Content(text, self._source.take(at, self._sent))]


class AnswerReader:
    """Reads a chat answer: reasoning apart, stop strings in all or in the answer, calls where there is a codec.

    Log-probabilities ride as in `PlainReader`, those of the closing tag's tokens on the `ReasoningEnd`. Tokens of call
    blocks and of a consumed `<think>` drop theirs.
    """

    def __init__(
        self,
        text: TextModel,
        *,
        thinking: Thinking,
        stops: Sequence[str] = (),
        stop_scope: Literal["all", "answer"] = "all",
        calls: CallCodec | None = None,
        single_call: bool = False,
        trims: bool = False,
    ) -> None:
        """`thinking` is the prompt's. With `single_call` the first complete call ends the answer (API-119).

        `trims`: white space in front of the answer is no part of it, as before calls or a document (ENG-091).
        """
        self.stopped = False
        """A stop string, or the only call asked for, has ended the text."""
        self._source = _Source(text)
        self._stops = stops
        self._whole = StopMatcher(stops) if stops and stop_scope == "all" else None
        self._splitter = Splitter(thinking)
        # A stop string may keep a tag's end waiting; what the tokens have said so far is told by a splitter of its own.
        self._ahead = self._splitter if self._whole is None else Splitter(thinking)
        self._answer = _Answer(self._source, stops if stop_scope == "answer" else (), calls, single_call, trims)
        self._tokens = 0
        self._closed_at: int | None = None

    @property
    def reasoning_tokens(self) -> int:
        """Tokens read through the closing tag's last; all of them while a block is open, none before (API-158)."""
        if self._closed_at is not None:
            return self._closed_at
        return self._tokens if self._ahead.in_reasoning else 0

    @property
    def may_reason(self) -> bool:
        return self._ahead.may_reason

    @property
    def in_reasoning(self) -> bool:
        return self._ahead.in_reasoning

    @property
    def in_call(self) -> bool:
        return self._ahead.in_call or self._answer.in_call

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        if self.stopped:
            return []
        self._tokens += 1
        text = self._source.feed(token, logprob)
        if self._whole is not None:
            self._ahead.feed(text)
            text = self._whole.feed(text)
            self.stopped = self._whole.stopped
        parts = self._splitter.feed(text)
        if self._closed_at is None and self._ahead.is_closed:
            self._closed_at = self._tokens
        return self._send(parts, is_last=self.stopped)

    def end(self) -> list[Delta]:
        """What was held back. A stop string that only the flush completes counts too."""
        if self.stopped:
            return []
        return self._send(self._splitter.feed(self._flushed()), is_last=True)

    def close_reasoning(self) -> list[Delta]:
        """The open block was closed by ids that are not read: what was held is reasoning, what comes is the answer."""
        if self.stopped or not self.in_reasoning:
            return []
        parts = self._splitter.feed(self._flushed())
        if not self.stopped:
            parts += self._splitter.close()
            if self._whole is not None:
                self._ahead.close()
                self._whole = StopMatcher(self._stops)
        self._closed_at = self._tokens
        return self._send(parts, is_last=self.stopped)

    def _flushed(self) -> str:
        """The last of the raw text, and what the stop matcher held."""
        text = self._source.end()
        if self._whole is None:
            return text
        text = self._whole.feed(text) + self._whole.end()
        self.stopped = self._whole.stopped
        return text

    def _send(self, parts: list[Part], *, is_last: bool) -> list[Delta]:
        if is_last:
            parts += self._splitter.end()
        deltas: list[Delta] = []
        for part in parts:
            match part.kind:
                case "answer":
                    deltas += self._answer.feed(part)
                case "reasoning":
                    deltas.append(Reasoning(part.text, self._entries(part)))
                case "start":
                    deltas.append(ReasoningStart())
                case "end":
                    deltas.append(ReasoningEnd(self._entries(part)))
                case "blank":
                    deltas.append(Blank(part.text, self._entries(part)))
        if is_last:
            deltas += self._answer.end()
        self.stopped = self.stopped or self._answer.stopped
        return deltas

    def _entries(self, part: Part) -> tuple[TokenLogprob, ...]:
        return self._source.take(part.at, part.at + len(part.text))


class _Answer:
    """The answer side: its stop strings, then its calls."""

    def __init__(
        self, source: _Source, stops: Sequence[str], calls: CallCodec | None, single_call: bool, trims: bool
    ) -> None:
        self.stopped = False
        self._source = source
        self._stops = StopMatcher(stops) if stops else None
        self._calls = calls
        self._single_call = single_call
        self._trims = trims
        """White space is dropped, as nothing else has come yet."""
        self._start: int | None = None
        """Where in the raw text the answer begins, `_sent` characters of which went on behind the stop strings."""
        self._sent = 0

    @property
    def in_call(self) -> bool:
        return self._calls is not None and self._calls.inside

    def feed(self, part: Part) -> list[Delta]:
        if self.stopped:
            return []
        text = part.text
        if self._trims:
            text = text.lstrip(_BLANK)
            self._trims = not text
        if self._start is None and text:
            self._start = part.at + len(part.text) - len(text)
        if self._stops is None:
            return self._pass(text)
        deltas = self._pass(self._stops.feed(text))
        if self._stops.stopped and not self.stopped:
            deltas += self._flush()
            self.stopped = True
        return deltas

    def end(self) -> list[Delta]:
        if self.stopped:
            return []
        held = self._pass(self._stops.end()) if self._stops is not None else []
        return held if self.stopped else held + self._flush()

    def _pass(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._calls is not None:
            return self._read(self._calls.feed(text))
        at, self._sent = self._sent, self._sent + len(text)
        return [self._content(at, text)]

    def _flush(self) -> list[Delta]:
        return [] if self._calls is None else self._read(self._calls.end())

    def _read(self, events: Iterable[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        for event in events:
            if not isinstance(event, (CallStart, CallArguments, CallEnd)):
                deltas.append(self._content(event.at, event.text))
                continue
            deltas.append(event)
            if self._single_call and isinstance(event, CallEnd):
                self.stopped = True
                break
        return deltas

    def _content(self, at: int, text: str) -> Content:
        start = (self._start or 0) + at
        return Content(text, self._source.take(start, start + len(text)))


class _Source:
    """Tokens to raw text, and the log-probabilities of those whose first character has not gone out."""

    def __init__(self, text: TextModel) -> None:
        self._piece = text.piece
        self._detokenizer = Detokenizer()
        self._length = 0
        self._entries: deque[tuple[int, TokenLogprob]] = deque()

    def feed(self, token: int, logprob: TokenLogprob | None) -> str:
        piece = self._piece(token)
        if logprob is None or not piece:
            text = self._detokenizer.feed(piece)
        else:
            text = self._detokenizer.feed(piece[:1])
            # The first byte is in the last of these characters, or in the one still waiting behind them.
            start = self._length + max(len(text) - (not self._detokenizer.is_waiting), 0)
            self._entries.append((start, logprob))
            text += self._detokenizer.feed(piece[1:])
        self._length += len(text)
        return text

    def end(self) -> str:
        """The rest of the text; a character that was cut off is U+FFFD."""
        text = self._detokenizer.end()
        self._length += len(text)
        return text

    def take(self, start: int, end: int) -> tuple[TokenLogprob, ...]:
        """Entries of the characters `start` to `end`. Those before them are dropped: their text went nowhere."""
        entries = self._entries
        taken = []
        while entries and entries[0][0] < end:
            at, entry = entries.popleft()
            if at >= start:
                taken.append(entry)
        return tuple(taken)
