"""Where a state line stands in an answer: between the deltas of a stream, or in a body's texts (STA-013 to STA-019).

A line never changes a text that comes back. Clients cut a stream into parts and trim them, so a line waits while the
text before it ends in white space, and one that would cut the answer's own text in two waits for that text's end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tandem.conductor.lines.frame import framed
from tandem.engine.text.reading.deltas import (
    Blank,
    CallStart,
    Content,
    Delta,
    Finish,
    Line,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.http.openai.formats import ReasoningFormat

__all__ = ["Channel", "LineWay", "Place", "Placed", "Placer", "Spot"]

Channel: TypeAlias = Literal["reasoning", "content", "inline"]
Place: TypeAlias = Literal["reasoning", "content", "title", "status"]
"""A delta of the reasoning, of the content, a reasoning part's first line in bold, or a status event."""
Spot: TypeAlias = Literal["now", "inside", "outside", "end"]
"""At once; in the tags of the open block; not in them; behind the answer."""

EARLY: Final = ("queue", "queue_eta", "prefill")
"""Kinds of lines that are said before it can be known whether a block opens."""


@dataclass(frozen=True, slots=True)
class LineWay:
    """How the lines of one request reach its client."""

    channel: Channel
    format: ReasoningFormat
    is_plain: bool = False
    """A plain API client (STA-018)."""
    status: bool = False
    """Until the first token they are status events (STA-019)."""

    def spots(self, kind: str) -> tuple[tuple[Place, Spot], ...]:
        """Where a line of this kind goes, each place with what it waits for; none where it goes nowhere."""
        if kind == "memory":
            titled = self._channel == "inline" and not self.is_plain
            return (("title" if titled else "content", "end"),)
        if self.is_plain:
            return () if self.format == "tags" else (("reasoning", "now"),)
        match self._channel:
            case "inline":
                return (("title", "now"),)
            case "content":
                return (("content", "now" if self.format == "reasoning_content" else "outside"),)
            case "reasoning":
                apart: tuple[tuple[Place, Spot], ...] = () if self.format == "tags" else (("reasoning", "now"),)
                # Nobody knows yet whether there will be a block to stand in (STA-027).
                is_lost = self.format == "reasoning_content" or kind in EARLY
                return apart if is_lost else (*apart, ("content", "inside"))

    def shows(self, kind: str) -> bool:
        """Whether such a line is seen by anybody."""
        return self.status or bool(self.spots(kind))

    @property
    def _channel(self) -> Channel:
        """`inline` never has the content's tags to stand in (STA-016)."""
        return "content" if self.channel == "inline" and self.format != "reasoning_content" else self.channel


@dataclass(frozen=True, slots=True)
class Placed:
    """A line in its place: `text` with its frame, or bare where it is a status event's."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class _Held:
    line: Line
    place: Place
    spot: Spot


class Placer:
    """Puts the lines of a stream between its other deltas."""

    def __init__(self, way: LineWay) -> None:
        self._way = way
        self._held: list[_Held] = []
        self._block: Literal["none", "open", "over"] = "none"
        self._answers = False
        """The answer's own text is being written."""
        self._is_cut = False
        """The text sent last ends in white space, which a client may trim."""
        self._before_token = way.status

    def feed(self, deltas: Iterable[Delta]) -> list[Delta | Placed]:
        """The same deltas, and the lines where they go."""
        out: list[Delta | Placed] = []
        for delta in deltas:
            if isinstance(delta, Line):
                out += self._line(delta)
            else:
                self._before_token = False
                out += self._other(delta)
        return out

    def _line(self, line: Line) -> list[Placed]:
        if self._before_token:
            return [Placed("status", line.text)]
        if line.kind == "thinking" and self._block == "open":  # among those that wait for the tag only the latest
            self._held = [each for each in self._held if (each.line.kind, each.spot) != ("thinking", "outside")]
        self._held += [_Held(line, place, spot) for place, spot in self._way.spots(line.kind)]
        return self._due()

    def _other(self, delta: Delta) -> list[Delta | Placed]:
        match delta:
            case ReasoningStart():
                self._block, self._is_cut = "open", False
            case ReasoningEnd():
                before = self._due(cut=True)
                self._block, self._is_cut = "over", False
                return [*before, delta, *self._due()]
            case Reasoning(text) | Content(text):
                self._answers = self._answers or (isinstance(delta, Content) and bool(text))
                self._is_cut = text[-1].isspace() if text else self._is_cut
            case Blank():  # every template drops white space at the answer's beginning
                self._is_cut = False
            case CallStart():  # text may follow it, so a line that would cut the answer's in two waits on
                return [*self._due(cut=True), delta]
            case Finish(reason):
                if reason in ("error", "abandoned"):
                    return [delta]
                self._answers = False
                return [*self._due(cut=True, end=True), delta]
            case _:
                pass
        return [delta, *self._due()]

    def _due(self, *, cut: bool = False, end: bool = False) -> list[Placed]:
        """Those whose place is here. `cut`: the text ends here, so what is trimmed of it is no loss."""
        if not self._held or (self._is_cut and not cut):
            return []
        due, self._held = (
            [each for each in self._held if self._is_due(each, end)],
            [each for each in self._held if not self._is_due(each, end)],
        )
        return [Placed(each.place, framed(each.line.text, title=each.place == "title")) for each in due]

    def _is_due(self, held: _Held, end: bool) -> bool:
        match held.spot:
            case "now":
                return held.place == "content" or not self._answers
            case "inside":
                return self._block == "open"
            case "outside":
                return self._block != "open"
            case "end":
                return end
