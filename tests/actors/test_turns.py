from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.kit import Ref, Reply, open_mailbox, supervise
from tandem.actors.turns import Alone, GiveUp, Hurry, Lead, Meet, Met, Shared, Turn, Turns, Want
from tandem.actors.watchdog import TurnsSeen, WatchdogMessage
from tandem.engine.decoding.together import Block, Outcome, Together
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.verbs import Accepted, SamplingRules, Spent

QUANTUM = 0.05


@asynccontextmanager
async def open_turns(watchdog: Ref[WatchdogMessage] | None = None, *, timed: bool = False) -> AsyncIterator[Turns]:
    async with trio.open_nursery() as nursery:
        turns = Turns(quantum_s=QUANTUM, watchdog=watchdog, timed=timed)
        await nursery.start(partial(supervise, turns, lambda name, defect: pytest.fail(name)))
        yield turns
        nursery.cancel_scope.cancel()


@dataclass
class Bench:
    """Scripted slots, and who worked when."""

    turns: Turns
    used: dict[int, float] = field(default_factory=dict)
    holding: list[int] = field(default_factory=list)
    hand_overs: int = 0

    async def want(self, slot: int) -> Turn:
        turn: Turn = await self.turns.ref.ask(lambda reply: Want(slot, reply))
        assert turn.slot == slot
        assert self.holding == []
        self.holding.append(slot)
        self.hand_overs += 1
        return turn

    async def give_up(self, slot: int) -> None:
        self.holding.remove(slot)
        await self.turns.ref.tell(GiveUp(slot))

    async def work(self, slot: int, step_s: float, until: float) -> None:
        """As a slot does: one piece of work after the other, and the turn back when it is recalled."""
        turn = await self.want(slot)
        while trio.current_time() < until:
            if turn.recalled.is_set():
                await self.give_up(slot)
                turn = await self.want(slot)
            await trio.sleep(step_s)
            self.used[slot] = self.used.get(slot, 0.0) + step_s
        await self.give_up(slot)


@pytest.mark.spec("SCH-057", "SCH-058")
async def test_a_slot_alone_keeps_the_turn(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await bench.work(0, 0.01, until=5.0)
        assert bench.hand_overs == 1


@pytest.mark.spec("SCH-057", "SCH-058", "SCH-059")
@pytest.mark.parametrize("steps", [(0.01, 0.01), (0.02, 0.5), (1.3, 0.004)])
async def test_two_busy_slots_share_the_device(autojump_clock: MockClock, steps: tuple[float, float]) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        worst = 0.0
        async with trio.open_nursery() as nursery:
            for slot, step in enumerate(steps):
                nursery.start_soon(bench.work, slot, step, 20.0)
            while trio.current_time() < 20.0:
                await trio.sleep(0.1)
                if len(bench.used) == 2:
                    worst = max(worst, abs(bench.used[0] - bench.used[1]))
        # Half a step more: the bench counts a step at its end, the scheduler as it goes.
        assert worst <= QUANTUM + 2 * max(steps)
        assert sum(bench.used.values()) == pytest.approx(20.0, abs=2 * max(steps))
        assert bench.hand_overs > 4


@pytest.mark.spec("SCH-058")
async def test_the_recall_comes_a_quantum_after_the_other_has_come(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        turn = await bench.want(0)
        await trio.sleep(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 1)
            await trio.sleep(0.049)
            assert not turn.recalled.is_set()
            await trio.sleep(0.002)
            assert turn.recalled.is_set()
            await trio.sleep(4)  # a long piece of work: the other waits for its end
            assert bench.holding == [0]
            await bench.give_up(0)
            await wait_all_tasks_blocked()
            assert bench.holding == [1]
        assert repr(turns) == "<Turns holder 1, seconds {0: 7.051, 1: 3.0}>"


@pytest.mark.spec("SCH-002", "SCH-062")
async def test_the_turn_is_not_lost_to_a_slot_that_has_gone(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await bench.want(0)
        gone = Reply[Turn]()
        await turns.ref.tell(Want(1, gone))
        gone.close()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 2)
            await wait_all_tasks_blocked()
            await bench.give_up(0)
            await wait_all_tasks_blocked()
            assert bench.holding == [2]
        await bench.give_up(2)
        await wait_all_tasks_blocked()
        with trio.fail_after(1):
            await bench.want(1)


@pytest.mark.spec("SCH-062")
async def test_giving_up_what_one_does_not_hold_changes_nothing(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        await turns.ref.tell(GiveUp(1))
        turn = await bench.want(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.want, 1)
            await turns.ref.tell(GiveUp(1))
            await trio.sleep(1)
            assert bench.holding == [0]
            assert turn.recalled.is_set()
            await bench.give_up(0)


@pytest.mark.spec("SCH-059")
async def test_ties_go_to_the_lower_number(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        replies = {slot: Reply[Turn]() for slot in (3, 1, 2)}
        await turns.ref.tell(Want(0, Reply()))
        for slot, reply in replies.items():
            await turns.ref.tell(Want(slot, reply))
        await turns.ref.tell(GiveUp(0))
        for slot in (1, 2, 3):
            assert (await replies[slot].wait()).slot == slot
            await turns.ref.tell(GiveUp(slot))


BLOCK = Block(FakeEngine(), None, 1, SamplingRules())
ROUND_S = 0.03


@dataclass
class Decoder:
    """A scripted slot that decodes: meets the others, leads where it is told to."""

    turns: Turns
    slot: int
    rounds: list[int] = field(default_factory=list)
    """By how many each round was shared."""
    ended_at: list[float] = field(default_factory=list)

    async def meet(self) -> Turn | Lead | Shared:
        return await self.turns.ref.ask(lambda reply: Meet(self.slot, BLOCK, reply))

    async def decode(self, until: float, *, late_s: float = 0.0) -> None:
        turn: Turn | None = None
        while trio.current_time() < until:
            if turn is None or turn.recalled.is_set():
                turn = await self.round()
            if turn is not None:
                await trio.sleep(ROUND_S)
                self.note(1)
            await trio.sleep(late_s)
        await self.turns.ref.tell(GiveUp(self.slot))

    async def round(self) -> Turn | None:
        """A shared one; where it is alone, its turn for one."""
        match await self.meet():
            case Turn() as turn:
                return turn
            case Lead(blocks):
                await trio.sleep(ROUND_S)
                outcomes: dict[int, Outcome] = {slot: Accepted((slot,) * 4) for slot in blocks}
                await self.turns.ref.tell(Met(self.slot, Together(outcomes, 1.0, 2.0, 3.0)))
                self.note(len(blocks))
            case Shared(outcome):
                assert outcome == Accepted((self.slot,) * 4)
                self.note(2)
        return None

    def note(self, slots: int) -> None:
        self.rounds.append(slots)
        self.ended_at.append(trio.current_time())


@pytest.mark.spec("SCH-064", "SCH-067")
async def test_slots_that_decode_share_each_round_from_the_next_safe_point_on(autojump_clock: MockClock) -> None:
    async with open_turns() as turns, trio.open_nursery() as nursery:
        first, second = Decoder(turns, 0), Decoder(turns, 1)
        nursery.start_soon(first.decode, 2.995)
        await trio.sleep(1.0)
        assert set(first.rounds) == {1}
        nursery.start_soon(second.decode, 1.995)
        await trio.sleep(5.0)
        # 1 s alone, about 1 s shared, 1 s alone; all without a gap.
        assert first.rounds == [1] * 34 + [2] * 33 + [1] * 33
        assert second.rounds == [2] * 33
        assert first.ended_at[-1] == pytest.approx(100 * ROUND_S)
        assert turns._meeting.members == frozenset()
        assert turns._share.holder is None
        seconds = turns._share.seconds()
        assert seconds == {0: pytest.approx(83.5 * ROUND_S), 1: pytest.approx(1.0 + 16.5 * ROUND_S)}


@pytest.mark.spec("SCH-066", "SCH-068")
async def test_a_late_slot_holds_up_a_round_by_no_more_than_the_timeout(autojump_clock: MockClock) -> None:
    async with open_turns() as turns, trio.open_nursery() as nursery:
        decoder, other = Decoder(turns, 0), Decoder(turns, 1)
        nursery.start_soon(decoder.decode, 1.0)
        await trio.sleep(0.01)
        nursery.start_soon(partial(other.decode, 1.0, late_s=0.5))
        await trio.sleep(3.0)
        gaps = [later - sooner for sooner, later in zip(decoder.ended_at, decoder.ended_at[1:], strict=False)]
        assert max(gaps) <= ROUND_S + 0.002 + 1e-9
        assert decoder.rounds.count(2) == len(other.rounds) == 2


@pytest.mark.spec("SCH-059", "SCH-058")
async def test_a_slot_that_reads_has_its_part_beside_two_that_decode(autojump_clock: MockClock) -> None:
    async with open_turns() as turns, trio.open_nursery() as nursery:
        bench = Bench(turns)
        pair = [Decoder(turns, 0), Decoder(turns, 1)]
        for decoder in pair:
            nursery.start_soon(decoder.decode, 12.0)
        await trio.sleep(1.0)
        nursery.start_soon(bench.work, 2, 0.2, 12.0)
        await trio.sleep(1.0)
        before, had = turns._share.seconds(), bench.used.get(2, 0.0)
        await trio.sleep(10.0)
        after = turns._share.seconds()
        gained = {slot: after[slot] - before[slot] for slot in (0, 1)} | {2: bench.used[2] - had}
        assert max(gained.values()) - min(gained.values()) <= QUANTUM + 2 * 0.2 + ROUND_S
        assert sum(gained.values()) == pytest.approx(10.0, abs=0.4)


@pytest.mark.spec("SCH-068", "SCH-062")
async def test_a_leader_that_fails_leaves_nobody_waiting(autojump_clock: MockClock) -> None:
    async with open_turns() as turns, trio.open_nursery() as nursery:
        answers: list[object] = []

        async def meet(slot: int) -> None:
            answers.append(await Decoder(turns, slot).meet())

        await turns.ref.tell(Want(7, Reply()))
        for slot in (0, 1, 2):
            nursery.start_soon(meet, slot)
            await wait_all_tasks_blocked()
        await turns.ref.tell(GiveUp(7))
        await wait_all_tasks_blocked()
        assert answers == [Lead(dict.fromkeys(range(3), BLOCK))]
        await turns.ref.tell(GiveUp(2))  # it was the last to come
        await wait_all_tasks_blocked()
        assert [type(answer) for answer in answers[1:]] == [Shared, Shared]
        assert all(isinstance(answer, Shared) and isinstance(answer.outcome, EngineError) for answer in answers[1:])
        assert turns._share.holder is None


@pytest.mark.spec("SCH-002", "SCH-068")
@pytest.mark.parametrize("gone", [0, 1])
async def test_a_slot_that_has_gone_is_left_out_of_the_round(autojump_clock: MockClock, gone: int) -> None:
    async with open_turns() as turns:
        await turns.ref.tell(Want(7, Reply()))
        replies = [Reply[Turn | Lead | Shared]() for _ in range(2)]
        for slot, reply in enumerate(replies):
            await turns.ref.tell(Meet(slot, BLOCK, reply))
        replies[gone].close()
        await turns.ref.tell(GiveUp(7))
        await wait_all_tasks_blocked()
        match await replies[1 - gone].wait():
            case Lead(blocks):  # slot 0 is found to be gone when its outcome is told
                await turns.ref.tell(Met(1, Together(dict.fromkeys(blocks, Accepted((1,))))))
            case answer:
                assert isinstance(answer, Turn)
        await wait_all_tasks_blocked()
        assert turns._meeting.members == {1 - gone}


@pytest.mark.spec("SCH-068", "SCH-062")
async def test_a_slot_that_leaves_a_round_which_runs_has_the_turn_after_it(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        await turns.ref.tell(Want(7, Reply()))
        replies = [Reply[Turn | Lead | Shared]() for _ in range(2)]
        for slot, reply in enumerate(replies):
            await turns.ref.tell(Meet(slot, BLOCK, reply))
        await turns.ref.tell(GiveUp(7))
        lead = await replies[1].wait()
        assert isinstance(lead, Lead)
        wanted = Reply[Turn]()
        await turns.ref.tell(Want(0, wanted))
        await turns.ref.tell(Met(1, Together(dict.fromkeys(lead.blocks, Accepted((1,))))))
        await turns.ref.tell(GiveUp(1))
        await wait_all_tasks_blocked()
        assert wanted.take_nowait() is not None


@pytest.mark.spec("SCH-070", "SCH-103")
async def test_what_is_told_once_a_second_and_at_the_end(autojump_clock: MockClock) -> None:
    ref: Ref[WatchdogMessage]
    ref, box = open_mailbox("watchdog", 100)
    async with open_turns(ref, timed=True) as turns, trio.open_nursery() as nursery:
        for slot in (0, 1):
            nursery.start_soon(Decoder(turns, slot).decode, 2.995)
        await trio.sleep(3.5)
        await turns.ref.tell(Alone(2, 6, Spent(1.0, 5.0, 2.0)))
        await turns.ref.ask(lambda reply: Want(0, reply))
        await turns.ref.tell(GiveUp(0))
        await trio.sleep(10)
        seen = [message for message in iter(box.receive_nowait, None) if isinstance(message, TurnsSeen)]
        assert 4 <= len(seen) <= 7
        last = seen[-1]
        assert (last.holder, last.rounds) == (None, {2: 99})
        assert sum(last.seconds.values()) == pytest.approx(3.0)
        assert last.meeting[2] == {
            "rounds": 99,
            "round_ms": pytest.approx(30.3, abs=0.01),
            "draft_ms": 1.0,
            "post_ms": 3.0,
            "verify_wait_ms": pytest.approx(0.3, abs=0.01),  # the second came while the first was alone
            "pass_ms": 2.0,
            "accept": 4.0,
        }
        assert last.meeting[1]["round_ms"] == 4.0
        assert last.meeting[1]["accept"] == 3.0


@pytest.mark.spec("SCH-062", "SCH-077")
async def test_who_only_ends_its_request_has_the_turn_at_the_holders_next_safe_point(
    autojump_clock: MockClock,
) -> None:
    async with open_turns() as turns:
        bench = Bench(turns)
        turn = await bench.want(0)
        await trio.sleep(1)
        replies = [Reply[Turn]() for _ in range(3)]
        for slot, reply in enumerate(replies[1:], 1):
            await turns.ref.tell(Want(slot, reply))
        await turns.ref.tell(Hurry(2))
        await wait_all_tasks_blocked()
        assert turn.recalled.is_set()  # long before a quantum is over
        await bench.give_up(0)
        assert (await replies[2].wait()).slot == 2
        assert replies[1].take_nowait() is None


@pytest.mark.spec("SCH-068", "SCH-079")
async def test_who_hurries_leaves_the_meeting_unless_its_round_runs(autojump_clock: MockClock) -> None:
    async with open_turns() as turns:
        await turns.ref.tell(Want(7, Reply()))
        replies = [Reply[Turn | Lead | Shared]() for _ in range(3)]
        for slot, reply in enumerate(replies):
            await turns.ref.tell(Meet(slot, BLOCK, reply))
        await turns.ref.tell(Hurry(1))
        await turns.ref.tell(GiveUp(7))
        assert isinstance(await replies[1].wait(), Turn)
        await turns.ref.tell(GiveUp(1))
        assert await replies[2].wait() == Lead(dict.fromkeys((0, 2), BLOCK))
        await turns.ref.tell(Hurry(0))
        await wait_all_tasks_blocked()
        assert replies[0].take_nowait() is None
        await turns.ref.tell(Met(2, Together(dict.fromkeys((0, 2), Accepted((1,))))))
        assert await replies[0].wait() == Shared(Accepted((1,)))
