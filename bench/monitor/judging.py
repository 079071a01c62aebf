"""Runs the guards along a text as the supervisor does: every 64 tokens the rule of the place it is written in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bench.monitor.loops import Loop
from bench.monitor.outputs import Output, Place
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import BlockEvent, RequestEvent, Task, ToolCallEvent, View
from tandem.conductor.monitor.rules import answer_loop, argument_loop, reasoning_loop
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.text.reading.trace import OpenBlock, Trace

__all__ = ["Judge", "Vocabulary", "Walk"]

EVERY: Final = 64
RULES: Final[Mapping[Place, Any]] = {
    "reasoning": reasoning_loop,
    "answer": answer_loop,
    "call": argument_loop,
}
REQUEST: Final = RequestEvent(messages=({"role": "user", "content": "Write it."},))


class Vocabulary(Protocol):
    """What a text is cut with."""

    def encode(self, text: str) -> list[int]: ...

    def piece(self, token: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Walk:
    """What became of one text at one place."""

    kind: str
    place: Place
    tokens: int
    """Read until something fired, or in all."""
    reason: str | None
    late: int = 0
    """Tokens behind the beginning of a loop, at the firing."""
    within: int = 0
    """By when it had to come."""
    costs: tuple[float, ...] = ()
    """Seconds of each check."""


class Judge:
    """The guards with one policy's tasks, over texts cut with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, tasks: Sequence[Task], texts: Mapping[str, str]) -> None:
        self._vocabulary = vocabulary
        self._tasks = {task.rule: task for task in tasks}
        self._texts = texts

    def normal(self, output: Output) -> Iterator[Walk]:
        """The text at each of its places."""
        ids = self._vocabulary.encode(output.text)
        for place in output.places:
            found, costs = self._first(place, ids)
            tokens, reason = found or (len(ids), None)
            yield Walk(output.kind, place, tokens, reason, costs=costs)

    def endless(self, loop: Loop) -> Walk:
        """The units are cut one by one, as a model writes the same tokens again."""
        head = self._vocabulary.encode(loop.head)
        units = {unit: self._vocabulary.encode(unit) for unit in loop.units}
        ids = [*head, *(token for unit in loop.units for token in units[unit])]
        found, costs = self._first(loop.place, ids)
        tokens, reason = found or (len(ids), None)
        within = loop.within(max(len(units[unit]) for unit in loop.units[:12]))
        return Walk(loop.kind, loop.place, tokens, reason, tokens - len(head), within, costs)

    def _first(self, place: Place, ids: Sequence[int]) -> tuple[tuple[int, str] | None, tuple[float, ...]]:
        """Where it fires first, and why; and what each check took."""
        trace, pieces, detokenizer = Trace(), [], Detokenizer()
        pieces = [detokenizer.feed(self._vocabulary.piece(token)) for token in ids]
        look, costs = self._look(place), []
        for end in range(EVERY, len(ids) + 1, EVERY):
            _write(trace, place, ids[end - EVERY : end], pieces[end - EVERY : end])
            before = time.thread_time()
            found = look(trace, end)
            costs.append(time.thread_time() - before)
            if found is not None:
                return (end, found.reason), tuple(costs)
        return None, tuple(costs)

    def _look(self, place: Place) -> Callable[[Trace, int], Action | None]:
        name = RULES[place].__name__.rpartition(".")[2]
        fn, task = getattr(RULES[place], name), self._tasks[name]

        def look(trace: Trace, tokens: int) -> Action | None:
            view = View(req=REQUEST, trace=trace, texts=self._texts)
            event: BlockEvent | ToolCallEvent
            if place == "call":
                event = ToolCallEvent(name="write", arguments="", final=False)
            else:
                inside = place == "reasoning"
                event = BlockEvent(
                    reasoning_tokens=tokens if inside else 0, answer_tokens=0 if inside else tokens, inside=inside
                )
            found: Action | None = fn(event, task, view)
            return found

        return look


def _write(trace: Trace, place: Place, ids: Sequence[int], pieces: Sequence[str]) -> None:
    match place:
        case "reasoning":
            trace.reasoning.extend(ids)
            trace.thoughts.extend(pieces)
        case "answer":
            trace.answer_ids.extend(ids)
            trace.answer.extend(pieces)
        case "call":
            trace.block = trace.block or OpenBlock(tool="write")
            trace.block.ids.extend(ids)
            trace.block.pieces.extend(pieces)
