"""What stands behind the splitter: stop strings, calls, stray closers and mask of the answer; mask of the reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tandem.engine.text.reading.calls import CallCodec, Piece, Text
from tandem.engine.text.reading.closers import CloserFilter, Place
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from tandem.engine.text.reading.fed import Fed
from tandem.engine.text.reading.held import Held
from tandem.engine.text.reading.hold import Hold
from tandem.engine.text.reading.rules import ReadingRules, Shown, TextMask
from tandem.engine.text.reading.source import TokenSource
from tandem.engine.text.reading.splitter import Part
from tandem.engine.text.reading.stops import StopMatcher
from tandem.engine.text.reading.trace import Trace
from tandem.engine.verbs import TokenLogprob

__all__ = ["AnswerSide", "Channel"]

_BLANK = " \t\n\r\x0b\x0c"
"""White space to a constraint."""


class Channel:
    """Text of one kind on its way out, through the mask if there is one, with the log-probabilities of its tokens."""

    def __init__(self, kind: type[Reasoning | Content], source: TokenSource, mask: TextMask | None) -> None:
        self._kind = kind
        self._source = source
        self._mask = mask
        self._at = 0
        """Where in the raw text the `_held` characters begin that the mask holds."""
        self._held = 0

    def feed(self, at: int, text: str) -> list[Delta]:
        """Text that begins at offset `at` of the raw text."""
        if self._mask is None:
            return [self._kind(text, self._source.take(at, at + len(text)))]
        if not self._held:
            self._at = at
        self._held += len(text)
        return self._give(self._mask.feed(text))

    def end(self) -> list[Delta]:
        """What was held: something else comes next, or nothing."""
        return [] if self._mask is None else self._give(self._mask.end())

    def _give(self, runs: Sequence[Shown]) -> list[Delta]:
        texts: list[str] = []
        entries: list[TokenLogprob] = []
        for run in runs:
            start, self._at = self._at, self._at + run.length
            self._held -= run.length
            texts.append(run.text)
            if run.is_masked:
                self._source.hide(start, self._at)
            else:
                entries += self._source.take(start, self._at, waits=self._held > 0)
        return [self._kind("".join(texts), tuple(entries))] if texts else []


class AnswerSide:
    """Everything behind the reasoning."""

    def __init__(
        self,
        source: TokenSource,
        *,
        stops: Sequence[str],
        calls: CallCodec | None,
        single_call: bool,
        trims: bool,
        rules: ReadingRules,
        trace: Trace | None = None,
    ) -> None:
        self.stopped = False
        self.ended_by_call = False
        """It has stopped, at the only call asked for."""
        self.refused: list[str] = []
        """Names of the calls that were not sent."""
        self.codec = calls
        self._stops = StopMatcher(stops) if stops else None
        self._single_call = single_call
        self._trims = trims
        """White space is dropped, as nothing else has come yet."""
        self._spares = rules.spares_opening
        """White space passes the stop strings by, as nothing else has come yet."""
        self._refuses = rules.refuses_calls
        self._closers = CloserFilter() if rules.drops_closers else None
        self._channel = Channel(Content, source, rules.mask)
        self._hold: Hold | None = None
        if rules.holds and calls is not None and not self._refuses:
            self._hold = Hold(self._channel, calls.new_id)
        self._trace = trace
        self._noted: Hold | None = None
        """What would be held, where somebody watches and nothing is."""
        if trace is not None and self._hold is None and calls is not None and not self._refuses:
            self._noted = Hold(self._channel, calls.new_id)
        self.fed: Fed | None = None if self._hold is None and trace is None else Fed()
        """All that the codec was fed, where a block's text will be asked for."""
        self._start: int | None = None
        """Where in the raw text the answer begins, `_sent` characters of which went on behind the stop strings."""
        self._sent = 0

    @property
    def in_call(self) -> bool:
        return self.codec is not None and self.codec.inside

    @property
    def stray_closers(self) -> int:
        return 0 if self._closers is None else self._closers.count

    @property
    def held(self) -> tuple[Held, ...]:
        return () if self._hold is None else self._hold.held

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
        opening = ""
        if self._spares:
            body = text.lstrip()
            opening, text = text[: len(text) - len(body)], body
            self._spares = not body
        deltas = self._pass(opening) + self._pass(self._stops.feed(text))
        if self._stops.stopped and not self.stopped:
            deltas += self._flush()
            self.stopped = True
        return deltas

    def end(self) -> list[Delta]:
        if self.stopped:
            return []
        held = self._pass(self._stops.end()) if self._stops is not None else []
        return held if self.stopped else held + self._flush()

    def release(self, items: Sequence[Held]) -> list[Delta]:
        return [] if self._hold is None else self._hold.release(items)

    def reopen(self) -> None:
        """What is held is dropped, and the next text begins another piece of answer."""
        self.stopped = self.ended_by_call = False
        if self._hold is not None:
            self._forget(self._hold.held)
            self._hold.clear()
        self.drop_block()

    def drop_block(self) -> None:
        """What is on its way to the codec, or open in it, is dropped."""
        if self._stops is not None:
            self._stops.restart()
        if self.codec is not None:
            self.codec.reopen()

    def _forget(self, held: Sequence[Held]) -> None:
        if self._trace is not None:
            self._trace.calls -= sum(each.why is None for each in held)
            self._trace.rejected -= sum(each.why is not None for each in held)

    def _pass(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self.codec is not None:
            if self.fed is not None:
                self.fed.add(text)
            return self._read(self.codec.feed(text))
        at, self._sent = self._sent, self._sent + len(text)
        return self._text(Text(at, text))

    def _flush(self) -> list[Delta]:
        held = [] if self.codec is None else self._read(self.codec.end())
        return held + self._cut()

    def _read(self, pieces: Iterable[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        pieces = pieces if self._noted is None else self._note(self._noted, list(pieces))
        for piece in pieces if self._hold is not None else _joined(pieces):
            if isinstance(piece, Text):
                deltas += self._text(piece)
                continue
            deltas += self._cut()
            if self._refuses:
                if isinstance(piece, CallStart):
                    self.refused.append(piece.name)
                continue
            if self._hold is not None:
                self._keep(self._hold, piece)
            else:
                deltas.append(piece)
            if isinstance(piece, CallEnd):
                if self._trace is not None:
                    self._trace.calls += 1
                if self._single_call:
                    self.stopped = self.ended_by_call = True
                    break
        return deltas

    def _note(self, noted: Hold, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """`pieces`, of which the calls and the rejected blocks are noted (MON-094: a check that only journals)."""
        assert self._trace is not None
        for piece in pieces:
            if not isinstance(piece, Text):
                self._keep(noted, piece)
                if self._single_call and isinstance(piece, CallEnd):
                    break
            elif piece.why is not None:
                noted.block((self._start or 0) + piece.at, piece)
                self._trace.rejected += 1
        self._trace.items = noted.held
        return pieces

    def _keep(self, hold: Hold, piece: CallStart | CallArguments | CallEnd) -> None:
        assert self.codec is not None
        assert self.fed is not None
        start, end = self.codec.spans[hold.calls] if isinstance(piece, CallEnd) else (0, 0)
        hold.call(piece, (self._start or 0) + start, self.fed.between(start, end))

    def _text(self, piece: Text) -> list[Delta]:
        start = (self._start or 0) + piece.at
        if self._trace is not None:
            if piece.why is None:
                self._trace.answer.append(piece.text)
            else:
                self._trace.rejected += 1
        if self._hold is not None and piece.why is not None:
            self._hold.block(start, piece)
        places = [(start, piece.text)] if self._closers is None else self._closers.feed(start, piece.text)
        return self._on(places)

    def _cut(self) -> list[Delta]:
        """A call comes next, or nothing: what the stages hold goes out."""
        return self._on([] if self._closers is None else self._closers.end()) + self._channel.end()

    def _on(self, places: Iterable[Place]) -> list[Delta]:
        """Text on its way behind the filter of stray closers."""
        way = self._channel.feed if self._hold is None else self._hold.text
        return [delta for place in places for delta in way(*place)]


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbouring texts as one, where nobody asks which of them is a block."""
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        if isinstance(piece, Text) and isinstance(last, Text) and last.at + len(last.text) == piece.at:
            out[-1] = Text(last.at, last.text + piece.text)
        else:
            out.append(piece)
    return out
