"""What stands behind the splitter: stop strings, calls, stray closers and mask of the answer; mask of the reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tandem.engine.text.reading.calls import CallCodec, Piece
from tandem.engine.text.reading.closers import CloserFilter
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Content, Delta, Reasoning
from tandem.engine.text.reading.rules import ReadingRules, Shown, TextMask
from tandem.engine.text.reading.source import TokenSource
from tandem.engine.text.reading.splitter import Part
from tandem.engine.text.reading.stops import StopMatcher
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
    ) -> None:
        self.stopped = False
        self.refused: list[str] = []
        """Names of the calls that were not sent."""
        self._stops = StopMatcher(stops) if stops else None
        self._calls = calls
        self._single_call = single_call
        self._trims = trims
        """White space is dropped, as nothing else has come yet."""
        self._spares = rules.spares_opening
        """White space passes the stop strings by, as nothing else has come yet."""
        self._refuses = rules.refuses_calls
        self._closers = CloserFilter() if rules.drops_closers else None
        self._channel = Channel(Content, source, rules.mask)
        self._start: int | None = None
        """Where in the raw text the answer begins, `_sent` characters of which went on behind the stop strings."""
        self._sent = 0

    @property
    def in_call(self) -> bool:
        return self._calls is not None and self._calls.inside

    @property
    def stray_closers(self) -> int:
        return 0 if self._closers is None else self._closers.count

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

    def _pass(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._calls is not None:
            return self._read(self._calls.feed(text))
        at, self._sent = self._sent, self._sent + len(text)
        return self._text(at, text)

    def _flush(self) -> list[Delta]:
        held = [] if self._calls is None else self._read(self._calls.end())
        return held + self._cut()

    def _read(self, pieces: Iterable[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        for piece in pieces:
            if not isinstance(piece, (CallStart, CallArguments, CallEnd)):
                deltas += self._text(piece.at, piece.text)
                continue
            deltas += self._cut()
            if self._refuses:
                if isinstance(piece, CallStart):
                    self.refused.append(piece.name)
                continue
            deltas.append(piece)
            if self._single_call and isinstance(piece, CallEnd):
                self.stopped = True
                break
        return deltas

    def _text(self, at: int, text: str) -> list[Delta]:
        """Text that begins at offset `at` of the answer."""
        start = (self._start or 0) + at
        if self._closers is None:
            return self._channel.feed(start, text)
        return [delta for place in self._closers.feed(start, text) for delta in self._channel.feed(*place)]

    def _cut(self) -> list[Delta]:
        """A call comes next, or nothing: what the stages hold goes out."""
        held = [] if self._closers is None else self._closers.end()
        return [delta for place in held for delta in self._channel.feed(*place)] + self._channel.end()
