"""The turn scheduler: hands the GPU turn, the right to run engine work, to one slot at a time (SCH-057 to SCH-062).

Owns: the GPU turn, the device time of each slot, the meeting of those that decode. Never runs engine work itself.
Slots that decode hand in a block each; when all are in, the last one leads: it runs the round of all under one turn,
and the others get their outcomes (SCH-064 to SCH-069). A block that is alone gets its slot the turn, as any work does.

| message in | from | answer or effect                                                                      |
|------------|------|---------------------------------------------------------------------------------------|
| `Want`     | slot | a `Turn` on `reply` when it is the slot's; what it held is given up, the meeting left |
| `Meet`     | slot | as `Want`, for a round: a `Turn` alone, else `Lead` or, after the round, its `Shared` |
| `Met`      | slot | the round it led is over: each slot of it has its outcome, the turn is free           |
| `Hurry`    | slot | it waits only to end its request: it leaves the meeting and has the turn next         |
| `Alone`    | slot | counted: rounds it had alone, where they are timed                                    |
| `GiveUp`   | slot | the meeting is left; the turn goes to the waiting slot with the least device time     |
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import trio

from tandem.actors.fairness import FairShare
from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.meeting import Meeting
from tandem.actors.timing import TurnFigures
from tandem.actors.watchdog import WatchdogMessage
from tandem.engine.decoding.together import Block, Outcome, Together
from tandem.engine.errors import EngineError
from tandem.engine.verbs import Spent

__all__ = ["Alone", "GiveUp", "Hurry", "Lead", "Meet", "Met", "Shared", "Turn", "TurnMessage", "Turns", "Want"]

REPORT_EVERY_S = 1.0


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
class Lead:
    """The turn is the slot's for one round of all `blocks`, its own among them; `Met` ends it."""

    blocks: Mapping[int, Block]


@dataclass(frozen=True, slots=True)
class Shared:
    """What a round that another slot led made of this one's block."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Meet:
    slot: int
    block: Block
    reply: Reply[Turn | Lead | Shared]


@dataclass(frozen=True, slots=True)
class Met:
    slot: int
    """The slot that led."""
    together: Together


@dataclass(frozen=True, slots=True)
class Hurry:
    slot: int


@dataclass(frozen=True, slots=True)
class Alone:
    rounds: int
    tokens: int
    spent: Spent


@dataclass(frozen=True, slots=True)
class GiveUp:
    slot: int


TurnMessage: TypeAlias = Want | Meet | Met | Hurry | Alone | GiveUp


@dataclass(frozen=True, slots=True)
class _Round:
    """A joint round under way."""

    leader: int
    slots: Collection[int]
    begun: float


class Turns(Actor[TurnMessage]):
    name = "turns"

    def __init__(
        self,
        *,
        quantum_s: float,
        batch_timeout_s: float = 0.002,
        watchdog: Ref[WatchdogMessage] | None = None,
        timed: bool = False,
    ) -> None:
        """Without a `watchdog`, as where no side slot is, nothing is reported."""
        super().__init__()
        self._share = FairShare(quantum_s)
        self._meeting = Meeting[Block](batch_timeout_s)
        self._wants: dict[int, Reply[Turn] | Reply[Turn | Lead | Shared]] = {}
        self._meets: dict[int, Reply[Turn | Lead | Shared]] = {}
        self._turn: Turn | None = None
        self._round: _Round | None = None
        self._unused_since = 0.0
        self._together: Collection[int] = ()
        """The slots of the last hold, if it was a joint round."""
        self._figures = TurnFigures(timed=timed)
        self._watchdog = watchdog
        self._reported_at = -math.inf
        self._is_reported = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            message = self.inbox.receive_nowait()
            if message is None:
                with trio.move_on_at(min(self._recall_at(), self._round_at(), self._report_at())):
                    message = await self.inbox.receive()
            now = trio.current_time()
            if message is not None:
                self._take(message, now)
            self._hand_over(now)
            if now >= self._recall_at():
                self._recall()
            self._report(now)

    def _recall_at(self) -> float:
        if self._turn is None or self._turn.recalled.is_set():
            return math.inf
        due = self._share.recall_at()
        # One that decodes alone joins a round as soon as another has handed in its block.
        is_awaited = self._turn.slot in self._meeting.members and self._meeting.has_blocks
        return -math.inf if is_awaited else math.inf if due is None else due

    def _round_at(self) -> float:
        """When the meeting stops waiting for those who are late."""
        if self._share.holders or not self._meeting.late:
            return math.inf
        return self._meeting.due(self._unused_since)

    def _recall(self) -> None:
        if self._turn is not None:
            self._turn.recalled.set()

    def _take(self, message: TurnMessage, now: float) -> None:
        match message:
            case Want(slot, reply):
                self._wants[slot] = reply
                self._share.want(slot, now)  # before it gives up, for it goes on being busy
                self._leave(slot, now)
            case Meet(slot, block, reply):
                self._share.want(slot, now)
                self._return(slot, now)
                self._meets[slot] = reply
                self._meeting.hand_in(slot, block)
                self._figures.hand_in(slot, now)
            case Met(slot, together):
                if self._round is not None and self._round.leader == slot:
                    self._end_round(together, now)
            case Hurry(slot):
                self._hurry(slot)
            case Alone():
                self._figures.count_alone(message.rounds, message.tokens, message.spent)
            case GiveUp(slot):
                self._leave(slot, now)
            case _:
                assert_never(message)

    def _hurry(self, slot: int) -> None:
        """Unless it has what it waits for, or is in the round that runs."""
        if self._round is not None and slot in self._round.slots:
            return
        if (reply := self._meets.pop(slot, None)) is not None:
            self._meeting.leave(slot)
            self._wants[slot] = reply
        self._share.hurry(slot)

    def _leave(self, slot: int, now: float) -> None:
        self._return(slot, now)
        if slot in self._meeting.members:
            self._meeting.leave(slot)
            self._meets.pop(slot, None)
            if slot not in self._wants:
                self._share.withdraw(slot)

    def _return(self, slot: int, now: float) -> None:
        """The turn is free again, if it was the slot's."""
        if self._round is not None and self._round.leader == slot:  # it ends without having led
            fault = EngineError("the slot that led the round has failed")
            self._end_round(Together(dict.fromkeys(self._round.slots, fault)), now)
        elif self._turn is not None and self._turn.slot == slot:
            self._share.give_up(slot, now)
            self._turn, self._unused_since = None, now

    def _end_round(self, together: Together, now: float) -> None:
        assert self._round is not None
        round_, self._round = self._round, None
        for slot in round_.slots:  # until it says otherwise each goes on
            self._share.want(slot, now)
        self._share.release(now)
        self._unused_since = now
        for slot in round_.slots:
            reply = self._meets.pop(slot, None)
            if slot != round_.leader and (reply is None or not reply.send(Shared(together.outcomes[slot]))):
                self._meeting.leave(slot)
            if slot not in self._meeting.members and slot not in self._wants:
                self._share.withdraw(slot)
        self._figures.count_round(together, round_.slots, round_.begun, now)

    def _hand_over(self, now: float) -> None:
        while (slot := self._share.first(self._together)) is not None:
            if slot not in self._meeting.members:
                self._give(slot, self._wants.pop(slot), now)
                continue
            late = self._meeting.late
            blocks = self._meeting.take(now, self._unused_since)
            if blocks is None:
                return
            for absent in late:
                self._share.withdraw(absent)
            if len(blocks) > 1:
                self._start(blocks, now)
            elif blocks:
                [alone] = blocks
                self._give(alone, self._meets.pop(alone), now)

    def _give(self, slot: int, reply: Reply[Turn] | Reply[Turn | Lead | Shared], now: float) -> None:
        turn = Turn(slot)
        if reply.send(turn):
            self._share.hold((slot,), now)
            self._turn, self._together = turn, ()
            self._note_hold(slot)
        else:  # the asker has gone
            self._share.withdraw(slot)
            self._meeting.leave(slot)

    def _start(self, blocks: dict[int, Block], now: float) -> None:
        """The last to come leads; one that has gone meanwhile is left out, and the others hand in again."""
        leader = list(blocks)[-1]
        ordered = {slot: blocks[slot] for slot in sorted(blocks)}
        if not self._meets.pop(leader).send(Lead(ordered)):
            self._meeting.leave(leader)
            self._share.withdraw(leader)
            for slot, block in blocks.items():
                if slot != leader:
                    self._meeting.hand_in(slot, block)
            return
        self._share.hold(ordered, now)
        self._round = _Round(leader, tuple(ordered), now)
        self._together = self._round.slots
        self._note_hold(min(ordered))

    def _note_hold(self, slot: int) -> None:
        self._figures.hold(slot)
        self._is_reported = False

    def _report_at(self) -> float:
        return math.inf if self._is_reported or self._watchdog is None else self._reported_at + REPORT_EVERY_S

    def _report(self, now: float) -> None:
        if now < self._report_at() or self._watchdog is None:
            return
        holders = self._share.holders
        seen = self._figures.seen(holders, self._share.seconds())
        self._reported_at = now
        self._is_reported = self._watchdog.offer(seen) and not holders

    def __repr__(self) -> str:
        return f"<Turns holder {self._share.holder}, seconds {self._share.seconds()}>"
