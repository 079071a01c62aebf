"""One request under supervision: its tasks are asked at the four safe points, and the first that may act does.

Sans-I/O: events, actions and memory go in and out as values; it holds no channel, clock or file (MON-145). Whatever
fails in here is journaled and changes nothing of the answer (MON-012).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from tandem.conductor.documents.words import Mode
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.asking import inquired
from tandem.conductor.monitor.blocks import block_event, stopped
from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.events import FinishEvent, MonitorEvent, Task, TaskMode, View
from tandem.conductor.monitor.forcing import act
from tandem.conductor.monitor.held_set import open_event
from tandem.conductor.monitor.judging import judge
from tandem.conductor.monitor.leaving import capped, finished, unheard
from tandem.conductor.monitor.pace import Pace, Place
from tandem.conductor.monitor.planned import adopted, planned
from tandem.conductor.monitor.reasoned import reasoned_calls
from tandem.conductor.monitor.state import MonitorDelta
from tandem.engine.decoding.capping import CALL_GRACE
from tandem.engine.decoding.seams import NOTHING, Close, EndNow, SafePoint, Seen, Verdict
from tandem.engine.decoding.work import Answer, Ask
from tandem.engine.text.reading.deltas import Finish
from tandem.engine.text.reading.held import Held
from tandem.engine.text.reading.trace import Trace

__all__ = ["Supervisor"]

FoundT = TypeVar("FoundT")
Look: TypeAlias = Generator[Ask, Answer, Verdict]
OWN = "monitor"
"""Names the rows of the monitor's own faults."""
BACKSTOP = "reasoning_backstop"


class Supervisor:
    """`look`, `answered` and `closed` are for the decode loop; the rest is for whoever serves the request."""

    def __init__(self, case: Case) -> None:
        self._case = case
        # Where the backstop acts, the decode loop closes at its cap, which a look there must not do once more.
        texts = [task for task in case.tasks_at("SP1") if task != self.backstop_task]
        self._paces: dict[Place, Pace] = {
            "reasoning": Pace(texts),
            "answer": Pace(texts),
            "block": Pace(case.tasks_at("SP3", open_blocks=True)),
        }
        self._look: Look | None = None
        """A look that waits for the answer to its question."""
        self._call_from: int | None = None
        """Tokens of reasoning at which the call block that is open in it was seen first."""
        self._is_judged = False
        self._end: EndNow | None = None
        """What the next look ends the generation with."""
        self.holds = self._can_hold()

    @property
    def trace(self) -> Trace:
        """For the reader that is to write it."""
        return self._case.trace

    @property
    def mode(self) -> Mode:
        """The monitor's for this request."""
        return self._case.mode

    @property
    def policy_version(self) -> int:
        """The version that the request began with (MON-022)."""
        return self._case.setup.version

    @property
    def backstop(self) -> int | None:
        """D2's cap in tokens, where it acts; its `why` is the task's id (MON-038)."""
        task = self.backstop_task
        return None if task is None else int(task.params["max_tokens"])

    @property
    def backstop_task(self) -> Task | None:
        acting = (task for task in self._case.tasks if task.mode == "act" and task.rule == BACKSTOP)
        return next(acting, None)

    def closer(self, text: str | None = None) -> tuple[tuple[int, ...], int]:
        """Ids that close the reasoning with `text`, or with the policy's own (MON-037, MON-045), and how many of them
        a history has anyway.
        """
        setup = self._case.setup
        return setup.hidden.closer(setup.texts["vendor_close"] if text is None else text)

    @property
    def view(self) -> View:
        return self._case.view

    def request(self) -> Sequence[Action]:
        """SP4, once, before the queue: what of it is to be done."""
        return self._guarded("SP4", lambda: planned(self._case), [])

    def adopt(self, action: Action, task: str) -> bool:
        """Take over a router's note; False: it is over the cap, and left out (MON-042)."""
        return self._guarded("SP4", lambda: adopted(self._case, action, task), True)

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        if self._end is not None:
            return Verdict(end=self._end)
        if point == "SP1":
            return self._guarded(point, lambda: self._at_border(seen), NOTHING)
        if point == "SP2":
            return self._guarded(point, lambda: self._begun(self._at_end(seen)), NOTHING)
        return self.check_answer(seen.held, seen)

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        """The answer to the question of the look that waits; `seen` is as it was there."""
        look, self._look = self._look, None
        if look is None:
            return NOTHING
        return self._guarded("SP2", lambda: self._moved(look, look.send, answer), NOTHING)

    def closed(self, close: Close) -> None:
        self._end = self._guarded("SP1", lambda: capped(self._case, close), None)

    def check_answer(self, items: Sequence[Held], seen: Seen) -> Verdict:
        """SP3: the verdict about all that the answer holds (MON-144)."""
        self._is_judged = True
        most: TaskMode = "act" if self.holds else "shadow"
        return self._guarded("SP3", lambda: judge(self._case, items, seen, ended=seen.ended, most=most), NOTHING)

    def finished(self, finish: Finish | None, now: float) -> None:
        """The request has ended, None: before anything was generated; `now` is in seconds since 1970."""
        self._guarded("label", lambda: self._ended(finish, now), None)

    def take_events(self) -> list[MonitorEvent]:
        """The events since the last call (MON-146)."""
        return self._case.record.take_events()

    def take_delta(self) -> MonitorDelta | None:
        """What the session is to remember, since the last call."""
        return self._case.record.take_delta()

    def _at_border(self, seen: Seen) -> Verdict:
        trace = self._case.trace
        if seen.in_reasoning:
            if self._waits_for_call(seen, len(trace.reasoning)):
                return NOTHING
            place: Place = "reasoning"
            due = self._paces[place].due(len(trace.reasoning))
        elif (block := trace.block) is not None:
            due = self._paces["block"].due(len(block.ids))
            return self._in_block(due, seen) if due else NOTHING
        else:
            place = "answer"
            due = self._paces[place].due(len(trace.answer_ids))
        return self._in_text(due, place, seen) if due else NOTHING

    def _in_text(self, due: Sequence[Task], place: Place, seen: Seen) -> Verdict:
        case = self._case
        event = block_event(case, seen)
        for task in due:
            before = len(case.record.done)
            finding = case.screened(task, "SP1", case.answered(task, "SP1", event), position=seen.position)
            verdict = act(case, finding, seen) if finding is not None else None
            if verdict is not None:
                return verdict
            if len(case.record.done) > before:  # one row of what is not acted upon is enough
                self._paces[place].mute(task)
        return NOTHING

    def _in_block(self, due: Sequence[Task], seen: Seen) -> Verdict:
        case, block = self._case, self._case.trace.block
        if block is None:
            return NOTHING
        index = case.trace.calls + case.trace.rejected
        event = open_event(block.tool, block.text, index, case.req.tools, seen.position)
        for task in due:
            before = len(case.record.done)
            finding = case.screened(task, "SP3", case.answered(task, "SP3", event), position=seen.position)
            if finding is not None:
                return stopped(case, finding, seen, holds=self.holds)
            if len(case.record.done) > before:
                self._paces["block"].mute(task)
        return NOTHING

    def _at_end(self, seen: Seen) -> Look:
        case, trace = self._case, self._case.trace
        answer = trace.answer_text
        event = FinishEvent(inside=seen.in_reasoning, answer=answer, position=seen.position, has_calls=trace.has_calls)
        if not answer.strip() and not trace.has_calls and case.req.tools and case.tasks_at("SP2"):
            found = reasoned_calls(trace.reasoning, case.setup.tok, case.req.tools, case.setup.codec)
            event = replace(event, reasoned=found)
        for task in case.tasks_at("SP2"):
            action = yield from inquired(case, task, event, seen)
            finding = case.screened(task, "SP2", action, position=seen.position)
            verdict = act(case, finding, seen) if finding is not None else None
            if verdict is not None:
                return verdict
        return NOTHING

    def _begun(self, look: Look) -> Verdict:
        return self._moved(look, lambda _: next(look), None)

    def _moved(self, look: Look, move: Callable[[FoundT], Ask], value: FoundT) -> Verdict:
        """The look goes on until it asks or ends."""
        try:
            ask = move(value)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict
        self._look = look
        return Verdict(works=(ask,))

    def _ended(self, finish: Finish | None, now: float) -> None:
        if finish is None:
            unheard(self._case, now)
            return
        trace = self._case.trace
        items = () if self._is_judged else trace.items
        if items and finish.reason not in ("error", "abandoned"):
            seen = Seen(
                written=len(trace.all_ids),
                position=0,
                room=0,
                left=0,
                in_reasoning=False,
                in_call=False,
                reasoning_tokens=len(trace.reasoning),
                held=items,
            )
            ended = None if finish.reason in ("stop", "tool_calls") else finish.reason
            judge(self._case, items, seen, ended=ended, most="shadow")
        finished(self._case, finish, now)

    def _waits_for_call(self, seen: Seen, count: int) -> bool:
        """A call inside the reasoning is not cut off, for a while (ENG-186)."""
        if not seen.in_call:
            self._call_from = None
            return False
        self._call_from = count if self._call_from is None else self._call_from
        return count - self._call_from < CALL_GRACE

    def _can_hold(self) -> bool:
        """Whether a check of this request may act on its calls (MON-011, MON-074)."""
        case = self._case
        if case.req.constrained or case.mode != "on":
            return False
        for task in case.tasks_at("SP3"):
            holds = case.rule(task).holds
            if task.mode == "act" and (holds is None or self._precondition(task)):
                return True
        return False

    def _precondition(self, task: Task) -> bool:
        holds = self._case.rule(task).holds
        try:
            return holds is not None and holds(task, self._case.view)
        except Exception as error:
            self._case.failed(task, "SP3", error)
            return False

    def _guarded(self, point: str, call: Callable[[], FoundT], otherwise: FoundT) -> FoundT:
        try:
            return call()
        except Exception as error:
            reason = f"error({type(error).__name__})"
            self._case.record.note(self._case.event(task=OWN, sp=point, decision="PASS", reason=reason))
            return otherwise
