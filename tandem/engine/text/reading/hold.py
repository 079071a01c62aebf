"""The hold: calls, and blocks that cannot be read, wait here for SP3's verdict (MON-075, ENG-184).

It stands behind the codec and the filter of stray closers, and before the mask. Text goes on its way while calls wait,
for a client has the two apart; behind a block, which may yet be text, the text waits with it and keeps its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tandem.engine.text.reading.calls import Text
from tandem.engine.text.reading.closers import Place
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Delta
from tandem.engine.text.reading.held import Held

__all__ = ["Hold", "Way"]


class Way(Protocol):
    """Where the text goes."""

    def feed(self, at: int, text: str) -> list[Delta]:
        """Text that begins at this offset of the raw text."""

    def end(self) -> list[Delta]:
        """Something else comes next, or nothing."""


@dataclass(slots=True)
class _Call:
    held: Held
    id: str


@dataclass(slots=True)
class _Block:
    held: Held
    places: list[Place] = field(default_factory=list)
    """Its text, as far as it goes out."""

    @property
    def end(self) -> int:
        return self.held.at + len(self.held.text)


@dataclass(slots=True)
class _Run:
    """Text behind a block."""

    places: list[Place] = field(default_factory=list)


_Waiting: TypeAlias = _Call | _Block | _Run


class Hold:
    """Of one answer. A call comes as its whole pieces one behind the other."""

    def __init__(self, way: Way, new_id: Callable[[], str]) -> None:
        self.held: tuple[Held, ...] = ()
        self.calls = 0
        """Calls that came, those that were dropped too."""
        self._way = way
        self._new_id = new_id
        self._queue: list[_Waiting] = []
        self._blocks: list[_Block] = []
        self._whole = 0
        """How many of them have all of their text."""
        self._open: CallStart | None = None
        self._arguments: list[str] = []
        self._sent = 0
        """Calls that went out."""

    def block(self, at: int, piece: Text) -> None:
        """A block that begins at this offset of the raw text; its text comes by `text`, what of it goes out at all."""
        block = _Block(
            Held(
                index=len(self.held),
                name=piece.tool,
                text=piece.text,
                why=piece.why,
                complete=piece.complete,
                at=at,
            )
        )
        self._add(block)
        self._blocks.append(block)

    def text(self, at: int, text: str) -> list[Delta]:
        """What of the text goes on; it comes in order, a block's before any that stands behind it."""
        deltas: list[Delta] = []
        while text and self._whole < len(self._blocks):
            block = self._blocks[self._whole]
            if at < block.held.at:
                cut = min(block.held.at - at, len(text))
                deltas += self._pass(at, text[:cut], block)
                at, text = at + cut, text[cut:]
            if text and at < block.end:
                cut = min(block.end - at, len(text))
                block.places.append((at, text[:cut]))
                at, text = at + cut, text[cut:]
            self._whole += at >= block.end
        return deltas + self._pass(at, text, None) if text else deltas

    def call(self, piece: CallStart | CallArguments | CallEnd, at: int, text: str) -> None:
        """A piece of a call, which is written as `text`, at this offset of the raw text."""
        match piece:
            case CallStart():
                self._open, self._arguments = piece, []
            case CallArguments():
                self._arguments.append(piece.text)
            case CallEnd():
                assert self._open is not None
                held = Held(
                    index=len(self.held), name=self._open.name, arguments="".join(self._arguments), text=text, at=at
                )
                self._add(_Call(held, self._open.id))
                self.calls += 1

    def release(self, items: Sequence[Held]) -> list[Delta]:
        """`items` in place of those with their index, and the text that waits, in order; what has no item is gone."""
        deltas: list[Delta] = []
        of_index = defaultdict[int, list[Held]](list)
        for item in items:
            of_index[item.index].append(item)
        for waiting in self._queue:
            if isinstance(waiting, _Run):
                deltas += [delta for place in waiting.places for delta in self._way.feed(*place)]
                continue
            id = waiting.id if isinstance(waiting, _Call) else None
            for item in of_index[waiting.held.index]:
                if item.why is None:
                    deltas += self._way.end() + self._call(item, id)
                    id = None
                elif isinstance(waiting, _Block):
                    deltas += [delta for place in waiting.places for delta in self._way.feed(*place)]
        self.clear()
        return deltas + self._way.end()

    def clear(self) -> None:
        """What waits is dropped."""
        self._queue, self._blocks, self._whole, self.held, self._open = [], [], 0, (), None

    def _add(self, waiting: _Call | _Block) -> None:
        self._queue.append(waiting)
        self.held += (waiting.held,)

    def _pass(self, at: int, text: str, before: _Block | None) -> list[Delta]:
        """Text outside every block, `before` this one: it waits where one stands before it."""
        if not self._blocks or before is self._blocks[0]:
            return self._way.feed(at, text)
        place = len(self._queue)
        if before is not None:
            place = next(at for at in range(place - 1, -1, -1) if self._queue[at] is before)
        run = self._queue[place - 1]
        if not isinstance(run, _Run):
            run = _Run()
            self._queue.insert(place, run)
        run.places.append((at, text))
        return []

    def _call(self, item: Held, id: str | None) -> list[Delta]:
        index, self._sent = self._sent, self._sent + 1
        return [
            CallStart(index, id or self._new_id(), item.name),
            *([CallArguments(index, item.arguments)] if item.arguments else []),
            CallEnd(index),
        ]
