"""Writes a watched answer's trace: after each token, where it ended (the monitor's safe points look at it)."""

from __future__ import annotations

from collections.abc import Sequence

from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.answer import AnswerSide
from tandem.engine.text.reading.deltas import CallEnd, Delta
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.text.reading.splitter import Part, Splitter
from tandem.engine.text.reading.trace import OpenBlock, Trace

__all__ = ["Tracer"]


class Tracer:
    """`ahead` knows what the tokens have said of the reasoning so far."""

    def __init__(self, trace: Trace, text: TextModel, ahead: Splitter, answer: AnswerSide) -> None:
        self._trace = trace
        self._piece = text.piece
        self._thoughts = Detokenizer()
        self._ahead = ahead
        self._answer = answer
        self._was_reasoning = ahead.in_reasoning
        self._opened: int | None = None
        """Offset at which the block began that is open."""
        self._taken = 0
        """How many of the pieces that the codec was fed are in its text."""

    def token(self, token: int, start: int, parts: Sequence[Part]) -> None:
        """The newest, whose text begins at offset `start` of the raw text and has said `parts`."""
        trace, was = self._trace, self._was_reasoning
        trace.all_ids.append(token)
        self._was_reasoning = inside = self._ahead.in_reasoning
        if inside:
            if was:
                trace.reasoning.append(token)
                trace.thoughts.append(self._thoughts.feed(self._piece(token)))
        elif was:
            for part in parts:
                if part.kind == "end":
                    self._uncount(start - part.at)
        elif not self._block(token) and self._ahead.in_answer:
            trace.answer_ids.append(token)

    def sent(self, deltas: Sequence[Delta]) -> None:
        self._trace.has_sent_call |= any(isinstance(delta, CallEnd) for delta in deltas)

    def dropped(self) -> None:
        """No block is open any more."""
        self._trace.block, self._opened = None, None

    def restarted(self) -> None:
        """The text goes on behind an end, or behind a block that was dropped."""
        self.dropped()
        self._trace.first_block = None

    def _block(self, token: int) -> bool:
        """Whether the token belongs to a call block, or closes one."""
        codec, fed, was_open = self._answer.codec, self._answer.fed, self._opened is not None
        if codec is None or fed is None or not codec.inside:
            self.dropped()
            return was_open
        trace = self._trace
        if trace.block is None or codec.opened != self._opened:
            trace.block, self._opened = OpenBlock([fed.from_on(codec.opened)]), codec.opened
            if trace.first_block is None:
                trace.first_block = len(trace.all_ids) - 1
        else:
            trace.block.pieces += fed.pieces[self._taken :]
        self._taken = len(fed.pieces)
        trace.block.ids.append(token)
        trace.block.tool = codec.tool
        return True

    def _uncount(self, chars: int) -> None:
        """The last tokens, of so many characters, were the closing tag's."""
        reasoning = self._trace.reasoning
        while chars > 0 and reasoning:
            chars -= len(self._piece(reasoning.pop()))
            self._trace.thoughts.pop()
