"""E2 on scripted sessions: is asked what should be, and is no note false?

Without an engine the answers are a perfect reader's, by the fake engine's `choose`: then what is measured is all that
is structural, and a single false note or missing one is a fault. With an engine its model answers, and the table says
how well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.monitor.claim_sessions import Scripted, scripted_sessions
from tandem.bench.report import Report
from tandem.conductor.monitor.actions import Action, Inquiry
from tandem.conductor.monitor.events import FinishEvent, RequestEvent, Task, View
from tandem.conductor.monitor.hidden import HiddenTurns
from tandem.conductor.monitor.policy import policy_of, shipped_body
from tandem.conductor.monitor.rules.claim_check import VERDICTS, claim_check
from tandem.conductor.router.questions import LETTERS
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.script import Script
from tandem.engine.fake.text import FakePrompt
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.trace import Trace
from tandem.engine.verbs import Engine

__all__ = ["Checked", "check", "faults", "report", "run", "shipped_task"]

SURE: Final = 0.97


@dataclass(frozen=True, slots=True)
class Checked:
    """A session, and what E2 made of it; `action` is None where it was not triggered."""

    session: Scripted
    action: Action | None

    @property
    def note(self) -> str | None:
        acts = self.action is not None and self.action.kind == "CONTINUE_HIDDEN"
        return str(self.action.detail["verdict"]) if acts and self.action is not None else None

    @property
    def is_false(self) -> bool:
        """A note where none is due, or another one than is due."""
        return self.note is not None and self.note != self.session.note

    @property
    def is_missing(self) -> bool:
        return self.session.note is not None and self.note is None

    @property
    def asked_rightly(self) -> bool:
        return self.session.asked == (self.action is not None)


def shipped_task() -> Task:
    """E2 as the shipped policy has it."""
    return next(task for task in policy_of(shipped_body()).tasks if task.id == "E2")


def check(session: Scripted, engine: Engine[Any, Any], turns: HiddenTurns, task: Task) -> Checked:
    """One session's final message, checked; the engine answers."""
    req = RequestEvent(messages=session.messages, tools=session.tools, cls=session.cls)
    event = FinishEvent(inside=False, answer=session.final)
    found = claim_check(event, task, View(req=req, trace=Trace()))
    right = iter((0 if session.claims else 1, VERDICTS.index(session.truth)))
    while isinstance(found, Inquiry):
        found = found.then(_answer(session, engine, turns, found, next(right)), "")
    return Checked(session, found)


def run(
    engine: Engine[Any, Any] | None = None, task: Task | None = None, step: Callable[[], None] = lambda: None
) -> list[Checked]:
    """All sessions; `step` is called behind each."""
    engine = FakeEngine() if engine is None else engine
    task, turns, found = task or shipped_task(), HiddenTurns(engine.text), []
    for session in scripted_sessions():
        found.append(check(session, engine, turns, task))
        step()
    return found


def faults(found: Sequence[Checked]) -> int:
    """What a perfect reader leaves to the structure: false notes, missing ones, wrong triggers."""
    return sum(one.is_false or one.is_missing or not one.asked_rightly for one in found)


def report(found: Sequence[Checked], reader: str) -> Report:
    """One row a family, by what comes before its colon."""
    families = dict.fromkeys(one.session.family.partition(":")[0] for one in found)
    rows = [_row(name, [one for one in found if one.session.family.partition(":")[0] == name]) for name in families]
    columns = ("final message", "sessions", "asked", "notes", "false", "missing")
    return Report(f"E2 on scripted sessions, read by {reader}", columns, (*rows, _row("all", found)))


def _row(name: str, found: Sequence[Checked]) -> tuple[str, ...]:
    counts = (
        len(found),
        sum(one.action is not None for one in found),
        sum(one.note is not None for one in found),
        sum(one.is_false for one in found),
        sum(one.is_missing for one in found),
    )
    return (name, *map(str, counts))


def _answer(
    session: Scripted, engine: Engine[Any, Any], turns: HiddenTurns, inquiry: Inquiry, right: int
) -> tuple[float, ...] | None:
    """What the engine says behind the final message. A fake one is told what is right."""
    question = turns.question(inquiry.text, inquiry.options)
    if question is None:
        return None
    prompt = engine.text.render(Conversation(messages=session.messages, tools=session.tools))
    if isinstance(prompt, FakePrompt):
        prompt = replace(prompt, script=Script(says=((),), choose=((LETTERS[right], SURE),)))
    seq = engine.open(prompt)
    try:
        while engine.prefill(seq, len(prompt.ids)).done < len(prompt.ids):
            pass
        engine.force(seq, engine.text.encode(session.final))
        return engine.ask(seq, *question)
    finally:
        engine.close(seq)
