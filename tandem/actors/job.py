"""A request in a slot's hand: its run, what is to end it, and what its task is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import trio

from tandem.actors.kit import Reply
from tandem.actors.outbox import Deltas, Item, Kept
from tandem.engine.decoding.generation import Generation
from tandem.engine.text.reading.deltas import Finish

if TYPE_CHECKING:
    from tandem.actors.slots import Run

__all__ = ["Job"]


@dataclass(slots=True)
class Job:
    """`deadline` is on trio's clock. Marks are set as messages come, and looked at between two works."""

    run: Run
    deadline: float
    cancels: list[Reply[tuple[Finish, ...]]] = field(default_factory=list)
    finishes: list[Finish] = field(default_factory=list)
    """Of the choices so far."""
    abort: str | None = None
    client_gone: bool = False
    marked: trio.Event = field(default_factory=trio.Event)
    """Set with the first mark, for whoever waits with nothing in hand."""

    @property
    def current(self) -> Generation:
        """The choice in hand, or the last."""
        generations = self.run.generations
        return generations[min(len(self.finishes), len(generations) - 1)]

    def end_by(self, *, cancel: Reply[tuple[Finish, ...]] | None = None, abort: str | None = None) -> None:
        """Mark it; it ends at the next safe point."""
        if cancel is not None:
            self.cancels.append(cancel)
        self.abort = abort or self.abort
        self.marked.set()

    @property
    def is_leaving(self) -> bool:
        """It is to end at the next safe point."""
        return bool(self.cancels) or self.client_gone or self.abort is not None

    def put(self, item: Item) -> None:
        """Hand something over; whoever takes too little of it counts as gone (SCH-063)."""
        self.client_gone |= not self.run.outbox.put(item, trio.current_time())

    def hand_out(self, generation: Generation) -> None:
        deltas = generation.take_deltas()
        if not deltas:
            return
        choice = len(self.finishes)
        self.finishes.extend(delta for delta in deltas if isinstance(delta, Finish))
        self.put(Deltas(choice, deltas))

    def is_over(self, generation: Generation) -> bool:
        """Whether something ends the request at this safe point; then `generation` has ended."""
        now = trio.current_time()
        if self.cancels or self.client_gone:
            generation.stop("abandoned", now)
        elif self.abort is not None:
            generation.stop("error", now, self.abort)
        elif now >= self.deadline:
            generation.stop("timeout", now)
        else:
            return False
        return True

    def end_rest(self, reason: Literal["error", "timeout", "abandoned"], detail: str | None) -> None:
        """End the choice in hand and those that would have come; what was handed out stands."""
        for generation in self.run.generations[len(self.finishes) :]:
            generation.stop(reason, trio.current_time(), detail)
            self.hand_out(generation)

    def is_kept(self) -> bool:
        """Whether the request, told so, goes on in its slot; nobody has ended it."""
        if not self.is_leaving:
            self.put(Kept())
        return not self.is_leaving

    def answer(self) -> None:
        """Tell those who cancelled how each choice ended."""
        for reply in self.cancels:
            reply.send(tuple(self.finishes))
