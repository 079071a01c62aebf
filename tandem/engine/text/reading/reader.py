"""The reader of one answer: token ids in, deltas out. Its stages are chained in the order of ENG-184.

Log-probabilities do not pass through the stages. Each is kept with the place in the raw text where its token begins,
and rides on the delta that has the character there, however late that goes out and whatever was dropped before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.answer import AnswerSide, Channel
from tandem.engine.text.reading.calls import CallCodec
from tandem.engine.text.reading.deltas import Blank, Content, Delta, Reasoning, ReasoningEnd, ReasoningStart
from tandem.engine.text.reading.held import Held
from tandem.engine.text.reading.rules import NO_RULES, ReadingRules
from tandem.engine.text.reading.source import TokenSource
from tandem.engine.text.reading.splitter import Part, Splitter
from tandem.engine.text.reading.stops import StopMatcher
from tandem.engine.text.reading.trace import Trace
from tandem.engine.text.reading.tracing import Tracer
from tandem.engine.verbs import TokenLogprob

__all__ = ["AnswerReader", "PlainReader"]


class PlainReader:
    """Reads everything as answer text, at most one `Content` a token: a text completion's reader.

    A token's log-probabilities ride on the delta with the first character that its bytes are part of. A token whose
    text a stop cuts whole, or that has no text, drops them.
    """

    reasoning_tokens = 0
    """Nothing is split off."""
    may_reason = in_reasoning = in_call = ended_by_call = False
    held: tuple[Held, ...] = ()

    def __init__(self, text: TextModel, stops: Sequence[str] = ()) -> None:
        self._source = TokenSource(text)
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

    def release(self, items: Sequence[Held]) -> list[Delta]:
        """Nothing is ever held."""
        return []

    def reopen(self) -> None:
        """The text goes on behind an end that was none; a stop string does not reach across."""
        if self._stops is not None:
            self._stops.restart()

    def drop_block(self) -> None:
        """Calls are text here."""

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
        rules: ReadingRules = NO_RULES,
        trace: Trace | None = None,
    ) -> None:
        """`thinking` is the prompt's. With `single_call` the first complete call ends the answer (API-119).

        `trims`: white space in front of the answer is no part of it, as before calls or a document (ENG-091).
        `rules`: what a plan adds; its mask is this reader's alone. `trace`: where somebody watches, what he sees.
        """
        self.stopped = False
        """A stop string, or the only call asked for, has ended the text."""
        self._source = TokenSource(text)
        self._stops = stops
        self._whole = StopMatcher(stops) if stops and stop_scope == "all" else None
        self._splitter = Splitter(thinking)
        # A stop string may keep a tag's end waiting; what the tokens have said so far is told by a splitter of its own.
        self._ahead = self._splitter if self._whole is None else Splitter(thinking)
        self._reasoning = Channel(Reasoning, self._source, rules.mask)
        self._answer = AnswerSide(
            self._source,
            stops=stops if stop_scope == "answer" else (),
            calls=calls,
            single_call=single_call,
            trims=trims,
            rules=rules,
            trace=trace,
        )
        self._tracer = None if trace is None else Tracer(trace, text, self._ahead, self._answer)
        self._tokens = 0
        self._closed_at: int | None = None

    @property
    def ended_by_call(self) -> bool:
        return self._answer.ended_by_call

    @property
    def held(self) -> tuple[Held, ...]:
        return self._answer.held

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

    @property
    def refused_calls(self) -> tuple[str, ...]:
        """Names of the calls that were written and not sent (ANS-002)."""
        return tuple(self._answer.refused)

    @property
    def stray_closers(self) -> int:
        """Closing tags that were written and not sent (ANS-003)."""
        return self._answer.stray_closers

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        if self.stopped:
            return []
        self._tokens += 1
        start = self._source.length
        text = self._source.feed(token, logprob)
        if self._whole is None:
            ahead = parts = self._splitter.feed(text)
        else:
            ahead = self._ahead.feed(text)
            text = self._whole.feed(text)
            self.stopped = self._whole.stopped
            parts = self._splitter.feed(text)
        if self._closed_at is None and self._ahead.is_closed:
            self._closed_at = self._tokens
        deltas = self._send(parts, is_last=self.stopped)
        if self._tracer is not None:
            self._tracer.token(token, start, ahead)
            self._tracer.sent(deltas)
        return deltas

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

    def release(self, items: Sequence[Held]) -> list[Delta]:
        """`items` go out in place of all that is held: calls numbered on from 0 without gaps, blocks as content."""
        deltas = self._answer.release(items)
        if self._tracer is not None:
            self._tracer.sent(deltas)
        return deltas

    def reopen(self) -> None:
        """What is held is dropped, and the text goes on behind an end that was none."""
        self.stopped = False
        self._answer.reopen()
        self._restart()

    def drop_block(self) -> None:
        """The open block is dropped; of one that streams nothing more goes out."""
        self._answer.drop_block()
        self._restart()

    def _restart(self) -> None:
        """What has not come through the stages in front of the answer's is dropped too."""
        self._source.end()
        if self._whole is not None:
            self._whole.restart()
        if self._tracer is not None:
            self._tracer.restarted()

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
                    deltas += self._reasoning.feed(part.at, part.text)
                case "start":
                    deltas.append(ReasoningStart())
                case "end":
                    deltas += self._reasoning.end()
                    deltas.append(ReasoningEnd(self._entries(part)))
                case "blank":
                    deltas.append(Blank(part.text, self._entries(part)))
        if is_last:
            # The mask is one of both sides, and only the side that was fed last holds anything.
            deltas += self._reasoning.end() if self._splitter.in_reasoning else self._answer.end()
        self.stopped = self.stopped or self._answer.stopped
        return deltas

    def _entries(self, part: Part) -> tuple[TokenLogprob, ...]:
        return self._source.take(part.at, part.at + len(part.text))
