"""One request under the session monitor: what its supervisor is given, and what becomes of what it decides.

Deciding is `tandem.conductor.monitor`'s. From here decisions reach journal, log, metrics and session, and at the latest
before the client has the last of its answer, since it may come back at once (SES-020).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tandem.conductor.documents import Mode
from tandem.conductor.monitor.actions import ACTS, Action
from tandem.conductor.monitor.events import MonitorEvent
from tandem.conductor.monitor.modes import task_mode
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.router.plan import Plan
from tandem.conductor.sessions import SessionDelta, SessionView
from tandem.engine.decoding.capping import ReasoningCap
from tandem.engine.decoding.tally import Progress
from tandem.engine.text.reading.deltas import Delta, Finish
from tandem.http.context import Context
from tandem.http.endpoint import Watch
from tandem.http.figures import hidden_in_answer
from tandem.http.record import RequestRecord
from tandem.live.seen import ConductorSeen
from tandem.store.journal import HiddenText, JournalRow

__all__ = ["Monitoring", "Whose", "fault", "planned_facts", "tell_events"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """What rows of the monitor say of the request, or of the session alone, that they belong to."""

    session: str
    request_id: str | None = None
    profile: str | None = None
    client_kind: str | None = None
    class_: str | None = None
    effort: str | None = None
    policy_version: int | None = None
    mode: Mode = "on"


class Monitoring:
    """One request's: from its planned prompt to the end of its first choice."""

    def __init__(
        self,
        here: Context,
        record: RequestRecord,
        supervisor: Supervisor,
        acts: Sequence[Action],
        session: SessionView,
    ) -> None:
        """`acts` are what SP4 wants done; its decisions are told at once."""
        self.supervisor = supervisor
        self.acts = acts
        self._here = here
        self._record = record
        self._session = session
        req = supervisor.view.req
        self._whose = Whose(
            session=session.key,
            request_id=record.request_id,
            profile=record.profile,
            client_kind=record.kind,
            class_=req.cls,
            effort=req.effort,
            policy_version=supervisor.policy_version,
            mode=supervisor.mode,
        )
        self._unshown: list[MonitorEvent] = []
        self._newest: MonitorEvent | None = None
        """The newest finding, acted upon or not."""
        self._has_ended = False
        # What SP4 has decided the session knows from now on, as it does the notes: another request may come meanwhile.
        self._remember()
        self.settle()

    @property
    def watch(self) -> Watch:
        """For the reader of the first choice."""
        return Watch(self.supervisor.trace, self.supervisor.holds)

    @property
    def refusal(self) -> str | None:
        """The sentence that is the whole answer (MON-116)."""
        return next((act.text for act in self.acts if act.kind == "GIVE_UP"), None)

    @property
    def refusal_detail(self) -> str:
        return next((act.reason for act in self.acts if act.kind == "GIVE_UP"), "")

    def settle(self) -> None:
        """What was decided since the last call is told."""
        events = self.supervisor.take_events()
        tell_events(self._here, self._whose, events)
        self._record.acts += [event for event in events if event.acted in ACTS]
        self._newest = next((event for event in reversed(events) if event.decision in ACTS), self._newest)
        self._unshown += events

    def hear(self, deltas: Iterable[Delta]) -> Sequence[MonitorEvent]:
        """A batch of the first choice, before it goes to the client; gives what was decided since the last one."""
        for delta in deltas:
            if isinstance(delta, Finish):
                self.end(delta)
        self.settle()
        shown, self._unshown = self._unshown, []
        return shown

    def end(self, finish: Finish | None) -> None:
        """The first choice has ended, or the request without it. The session learns what is to be remembered."""
        if self._has_ended:
            return
        self._has_ended = True
        self.supervisor.finished(finish, self._now())
        self._remember()
        self.settle()

    def look(self, progress: Progress | None) -> ConductorSeen:
        """What the live view shows of it now (OBS-067)."""
        acts, newest, prompt = self._record.acts, self._newest, self._record.prompt
        return ConductorSeen(
            mode=self.supervisor.mode,
            acts=len(acts),
            hidden_tokens=(prompt.hidden_tokens if prompt else 0) + hidden_in_answer(acts),
            task=newest.task if newest else None,
            decision=newest.decision if newest else None,
            action=newest.acted if newest else None,
            supervising=progress is not None and progress.supervising,
        )

    def cap(self, cap: ReasoningCap | None) -> ReasoningCap | None:
        """The cap on reasoning as it holds here: set by SP4, lowered to the backstop, closed unseen where this acts."""
        if self.supervisor.mode != "on":
            return cap
        closer, shown = self.supervisor.closer()
        budgets = [(act.budget, act.text) for act in self.acts if act.kind == "SET_THINK_BUDGET" and act.budget]
        backstop = self.supervisor.backstop_task
        if budgets and (cap is None or cap.why != "client"):
            tokens, said = min(budgets, key=lambda budget: budget[0])
            closer, shown = self.supervisor.closer(said)
            cap = ReasoningCap(tokens, closer, why=self._budget_task())
        if backstop is not None and (most := self.supervisor.backstop) and (cap is None or cap.tokens > most):
            cap = ReasoningCap(most, closer, why=backstop.id)
        return None if cap is None else replace(cap, closer=closer, shown=shown, visible=False)

    def _remember(self) -> None:
        if (delta := self.supervisor.take_delta()) is not None:
            self._here.sessions.commit(self._session, SessionDelta(monitor=delta, at=self._now()))

    def _now(self) -> float:
        return self._here.wall.now().timestamp()

    def _budget_task(self) -> str:
        return next((event.task for event in self._record.acts if event.acted == "SET_THINK_BUDGET"), "route")


def planned_facts(plan: Plan, session: SessionView) -> dict[str, Any]:
    """Fields of a `RequestEvent` that a plan decides."""
    decided, effort = plan.class_decision, plan.effort
    return {
        "cls": None if decided is None else decided.class_id,
        "effort": None if effort is None else effort.level,
        "compacted": plan.turn == "after_compaction" or session.compacted,
        "escape_noted": plan.effects.sampling.why == "loop_escape",
    }


def tell_events(here: Context, whose: Whose, events: Sequence[MonitorEvent]) -> None:
    """Rows, log lines and counts of what the monitor has decided (MON-146, MON-148)."""
    if not events:
        return
    rows: list[JournalRow] = []
    texts: list[HiddenText] = []
    ts_ms = int(here.wall.now().timestamp() * 1e3)
    for event in events:
        try:
            row, text = _noted(here, whose, event, ts_ms)
        except Exception as error:  # a rule from outside may put anything into its action (MON-012)
            row, text = _noted(here, whose, fault("label", whose.mode, error, event.task), ts_ms)
        rows.append(row)
        texts += [text] if text is not None else []
    here.journal(rows, texts)


def fault(sp: Literal["SP4", "label"], mode: Mode, error: Exception, task: str = "monitor") -> MonitorEvent:
    """The monitor could not go on, and the request does without it."""
    reason = f"error({type(error).__name__})"
    return MonitorEvent(
        task=task, rule=None, tier=0, sp=sp, mode=task_mode(mode, "act"), decision="PASS", acted=None, reason=reason
    )


def _noted(here: Context, whose: Whose, event: MonitorEvent, ts_ms: int) -> tuple[JournalRow, HiddenText | None]:
    text = None if event.text is None else HiddenText.of(event.text, event.hidden_tokens or None)
    row = _row(whose, event, ts_ms, None if text is None else text.hash)
    here.metrics.monitored(event)
    if event.is_decision:
        log.info("%s", _line(whose, event))
    return row, text


def _row(whose: Whose, event: MonitorEvent, ts_ms: int, text_hash: str | None) -> JournalRow:
    return JournalRow(
        ts_ms=ts_ms,
        kind="monitor",
        request_id=whose.request_id,
        session_key=whose.session,
        task=event.task,
        tier=event.tier,
        sp=event.sp,
        rule=event.rule,
        mode=event.mode,
        decision=event.decision,
        action=event.acted,
        reason=event.reason,
        score=event.score,
        text_hash=text_hash,
        hidden_tokens=event.hidden_tokens or None,
        position=event.position,
        reasoning_cut=event.reasoning_cut,
        policy_version=whose.policy_version,
        profile=whose.profile,
        client_kind=whose.client_kind,
        class_=whose.class_,
        effort=whose.effort,
        detail=dict(event.detail) or None,
    )


def _line(whose: Whose, event: MonitorEvent) -> str:
    told = {
        "task": event.task,
        "sp": event.sp,
        "mode": event.mode,
        "decision": event.decision,
        "acted": event.acted,
        "reason": event.reason,
        "hidden": event.hidden_tokens or None,
        "cut": event.reasoning_cut,
    }
    words = " ".join(f"{name}={value}" for name, value in told.items() if value is not None and value != "")
    tag = "argloop" if event.task == "A1" else "conductor"
    would = " would stop" if event.task == "A1" and event.acted is None and event.decision == "GIVE_UP" else ""
    return f"[{tag}] {whose.request_id or whose.session[:14]} {words}{would}"
