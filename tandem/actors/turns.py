"""The turn scheduler: hands the GPU turn, the right to run engine work, to one slot at a time (SCH-057 to SCH-062).

Owns: the GPU turn and the device time of each slot. Never runs engine work itself.

| message in | from | answer or effect                                             |
|------------|------|--------------------------------------------------------------|
| `Want`     | slot | a `Turn` on `reply` when it is the slot's                    |
| `GiveUp`   | slot | the turn goes to the waiting slot with the least device time |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import trio

from tandem.actors.fairness import FairShare
from tandem.actors.kit import Actor, Reply

__all__ = ["GiveUp", "Turn", "TurnMessage", "Turns", "Want"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The GPU turn in a slot's hand. `recalled` is set when it is to be given up at the next safe point."""

    slot: int
    recalled: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class Want:
    slot: int
    reply: Reply[Turn]


@dataclass(frozen=True, slots=True)
class GiveUp:
    slot: int


TurnMessage: TypeAlias = Want | GiveUp


class Turns(Actor[TurnMessage]):
    name = "turns"

    def __init__(self, *, quantum_s: float) -> None:
        super().__init__()
        self._share = FairShare(quantum_s)
        self._replies: dict[int, Reply[Turn]] = {}
        self._turn: Turn | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            message: TurnMessage | None = None
            with trio.move_on_at(self._recall_at()):
                message = await self.inbox.receive()
            if message is None:
                self._recall()
            else:
                self._take(message, trio.current_time())
                self._hand_over(trio.current_time())

    def _recall_at(self) -> float:
        if self._turn is None or self._turn.recalled.is_set():
            return math.inf
        due = self._share.recall_at()
        return math.inf if due is None else due

    def _recall(self) -> None:
        if self._turn is not None:
            self._turn.recalled.set()

    def _take(self, message: TurnMessage, now: float) -> None:
        match message:
            case Want(slot, reply):
                self._share.want(slot, now)
                self._replies[slot] = reply
            case GiveUp(slot):
                self._share.give_up(slot, now)
                self._turn = None if self._share.holder is None else self._turn
            case _:
                assert_never(message)

    def _hand_over(self, now: float) -> None:
        while (slot := self._share.grant(now)) is not None:
            turn = Turn(slot)
            if self._replies.pop(slot).send(turn):
                self._turn = turn
            else:  # the asker has gone
                self._share.give_up(slot, now)

    def __repr__(self) -> str:
        return f"<Turns holder {self._share.holder}, seconds {self._share.seconds()}>"
