"""The side lane: a slot's engine is lent to short requests at its safe points (SCH-038 to SCH-047).

No actor: slot 0's own. It learns that a job waits, and takes one at a safe point where mode, memory and the lane's
share of the holder's time allow it; the guest is served to its end, and then the holder goes on bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import trio

from tandem.actors.job import Job
from tandem.actors.kit import Ref
from tandem.actors.lane_share import LaneShare
from tandem.actors.outbox import LaneEnded, LaneServed
from tandem.actors.queue import QueueMessage, TakeLane
from tandem.engine.caches.caching import Caching
from tandem.engine.verbs import Engine

if TYPE_CHECKING:
    from tandem.actors.hand import Hand
    from tandem.actors.slots import Run

__all__ = ["Guest", "Lane", "LaneMode", "LaneRules", "Lender"]

LaneMode = Literal["on", "decode", "off"]


class Lender(Engine[Any, Any], Caching, Protocol):
    """An engine that can be lent."""


class Guest(Protocol):
    """A request that is served on a lent engine."""

    async def be_guest(self, holder: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class LaneRules:
    """When to lend, and how much a job may want at most."""

    mode: LaneMode = "on"
    prompt_max: int = 2048
    new_max: int = 64


class Lane:
    """`begin` makes a run the slot's job, `end` answers and forgets it."""

    def __init__(
        self,
        rules: LaneRules,
        engine: Lender,
        hand: Hand,
        queue: Ref[QueueMessage],
        begin: Callable[[Run], tuple[Job, Guest]],
        end: Callable[[Job], None],
    ) -> None:
        self._rules = rules
        self._engine = engine
        self._hand = hand
        self._queue = queue
        self._begin = begin
        self._end = end
        self._share = LaneShare()
        self.is_wanted = False
        """The queue has told of a job that waits."""

    async def lend(self, holder: Any, *, is_prefill: bool) -> None:
        """Serve one job at this safe point, where there is one and nothing speaks against it."""
        if not self.is_wanted or not self._allows(is_prefill):
            return
        await self._hand.take()
        self.is_wanted = False  # what comes from here on is told again
        run: Run | None = await self._queue.ask(TakeLane)
        if run is None:
            return
        self.is_wanted = True  # there may be another
        begun = trio.current_time()
        job, guest = self._begin(run)
        job.put(LaneServed("prefill" if is_prefill else "decode"))
        try:
            await guest.be_guest(holder)
        finally:
            ended = trio.current_time()
            self._share.count(begun, ended)
            job.put(LaneEnded(ended - begun))
            self._end(job)

    async def serve_itself(self, job: Job, guest: Guest) -> None:
        """A job that no holder took: a guest of the rows that are resident (SCH-043)."""
        job.put(LaneServed("self"))
        await guest.be_guest(None)
        job.put(LaneEnded(0.0))

    def _allows(self, is_prefill: bool) -> bool:
        if self._rules.mode == "off" or (is_prefill and self._rules.mode == "decode"):
            return False
        return self._share.allows(trio.current_time()) and self._has_room()

    def _has_room(self) -> bool:
        """Whether the largest job there may be stays under the declared peak (SCH-041)."""
        view = self._engine.memory()
        if view.peak is None:
            return True
        rules, cost = self._rules, self._engine.cost()
        copy = cost["bytes_per_anchor"] + cost["bytes_per_token"] * (rules.prompt_max + rules.new_max + 64)
        return view.reserved + copy + self._engine.worst_case(rules.prompt_max, rules.new_max) <= view.peak
