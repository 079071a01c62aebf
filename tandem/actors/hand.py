"""A slot's hand on the GPU turn: takes it, keeps it while it may, meets the others for a round, gives it up.

No actor: a slot's own. All of its waits are for the turn scheduler or one verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tandem.actors.host import EngineHost, as_engine_error
from tandem.actors.kit import ActorGone, Ref, Reply
from tandem.actors.turns import Alone, GiveUp, Hurry, Lead, Meet, Met, Shared, Turn, TurnMessage, Want
from tandem.engine.decoding.together import Block, Together, perform_together
from tandem.engine.errors import EngineError
from tandem.engine.verbs import NOTHING_SPENT, Accepted, Engine

__all__ = ["Hand"]

T = TypeVar("T")


class Hand:
    """Of slot `slot`. Without `first`, slot 0's engine, it is the only slot and no round is shared.

    Once `is_leaving` says that a request is only to end, the turn that it waits for comes at the holder's next safe
    point. With `settles` the device has finished before the turn changes hands (SCH-061).
    """

    def __init__(
        self,
        slot: int,
        engine: Engine[Any, Any],
        host: EngineHost,
        turns: Ref[TurnMessage],
        *,
        is_leaving: Callable[[], bool],
        first: Engine[Any, Any] | None = None,
        settles: bool = True,
        timed: bool = False,
    ) -> None:
        self._slot = slot
        self._engine = engine
        self._host = host
        self._turns = turns
        self._waits = False
        self._ends = False
        """What is waited for is only to end a request."""
        self._is_leaving = is_leaving
        self._first = first
        self._settles = settles
        self._turn: Turn | None = None
        self._decodes = False
        """The turn was given for a round, so the scheduler recalls it when another slot decodes too."""
        self._alone = Alone(0, 0, NOTHING_SPENT) if timed else None

    async def take(self, *, to_end: bool = False) -> None:
        """Have the turn for any work but a round; one that is recalled is given up first.

        To end a request it is kept, or comes at the holder's next safe point: the slot is free the sooner (SCH-077).
        """
        if self._turn is not None and (to_end or not self._turn.recalled.is_set()):
            return
        await self._settle()
        self._turn, self._decodes, self._ends = None, False, to_end
        self._turn = await self._ask(partial(Want, self._slot))

    async def round(self, block: Block) -> Accepted | None:
        """What a shared round made of `block`; None: the turn is in hand, and the round is the slot's own."""
        if self._first is None:
            await self.take()
            return None
        if self._turn is not None and self._decodes and not self._turn.recalled.is_set():
            return None
        await self._settle()
        self._turn, self._ends = None, False
        answer: Turn | Lead | Shared = await self._ask(partial(Meet, self._slot, block))
        if isinstance(answer, Turn):
            self._turn, self._decodes = answer, True
            return None
        if isinstance(answer, Lead):
            outcome = (await self._lead(self._first, answer.blocks)).outcomes[self._slot]
        else:
            outcome = answer.outcome
        if isinstance(outcome, Accepted):
            return outcome
        raise as_engine_error(outcome)

    def note_alone(self, accepted: Accepted) -> None:
        """A round of its own is over; where rounds are timed it counts (SCH-070)."""
        if self._alone is not None and self._decodes:
            rounds, tokens = self._alone.rounds + 1, self._alone.tokens + len(accepted.ids)
            self._alone = Alone(rounds, tokens, self._alone.spent + accepted.spent)

    async def give_up(self) -> None:
        """Leave the meeting and return the turn, whether it has come yet or not."""
        if self._turn is not None:
            await self._settle()
        self._turn, self._decodes = None, False
        with suppress(ActorGone):  # at the service's end the scheduler may be the first to go
            await self._turns.tell(GiveUp(self._slot))

    async def look_again(self) -> None:
        """Something about the slot's requests has changed: where the turn is waited for, it may be wanted sooner."""
        if self._waits and (self._ends or self._is_leaving()):
            self._waits = False
            with suppress(ActorGone):
                await self._turns.tell(Hurry(self._slot))

    async def _ask(self, question: Callable[[Reply[T]], TurnMessage]) -> T:
        reply = Reply[T]()
        try:
            await self._turns.tell(question(reply))
            self._waits = True
            await self.look_again()
            return await reply.wait()
        finally:
            self._waits = False
            reply.close()

    async def _lead(self, first: Engine[Any, Any], blocks: Mapping[int, Block]) -> Together:
        try:
            together: Together = await self._host.run_verb(partial(perform_together, first, blocks))
        except EngineError as fault:
            together = Together(dict.fromkeys(blocks, fault))
        await self._turns.tell(Met(self._slot, together))
        return together

    async def _settle(self) -> None:
        if self._turn is None:
            return
        if self._alone is not None and self._alone.rounds:
            self._turns.offer(self._alone)
            self._alone = Alone(0, 0, NOTHING_SPENT)
        if self._settles and self._first is not None:
            with suppress(EngineError, ActorGone):  # it shows again in the next verb
                await self._host.run_verb(self._engine.synchronise)
