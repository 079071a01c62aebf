"""What the parts of one request's supervision share: its facts, its tasks, its acts so far and its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tandem.conductor.documents.words import Mode
from tandem.conductor.monitor.actions import PERMITTED, Action, Inquiry, SafePoint
from tandem.conductor.monitor.acts import Acts
from tandem.conductor.monitor.call_runs import new_records
from tandem.conductor.monitor.events import Event, MonitorEvent, RequestEvent, Task, TaskMode, View
from tandem.conductor.monitor.hidden import HiddenTurns
from tandem.conductor.monitor.modes import task_mode
from tandem.conductor.monitor.policy import Policy
from tandem.conductor.monitor.progress import progressed
from tandem.conductor.monitor.reasoned import Codec
from tandem.conductor.monitor.record import Finding, Record
from tandem.conductor.monitor.state import Monitored
from tandem.conductor.monitor.tier0 import Rule
from tandem.engine.decoding.seams import EndNow, Verdict
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.trace import Trace

__all__ = ["Case", "Setup"]

FoundT = TypeVar("FoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What all requests under one version of the policy share."""

    policy: Policy
    rules: Mapping[str, Rule]
    texts: Mapping[str, str]
    """The policy's, the model's own closing phrase in place of None."""
    tok: TextModel
    hidden: HiddenTurns
    codec: Codec
    """Reads the model's calls."""
    window: int
    """Rows of the context; 0: nobody says."""
    version: int


class Case:
    """One request. `tasks` are in the policy's order, and in the mode that the request's monitor leaves them."""

    def __init__(
        self,
        setup: Setup,
        mode: Mode,
        req: RequestEvent,
        session: Monitored,
        tasks: tuple[Task, ...],
        acts: Acts,
        *,
        has_plan: bool,
    ) -> None:
        self.setup = setup
        self.mode = mode
        self.req = req
        self.session = session
        self.tasks = tasks
        self.acts = acts
        self.has_plan = has_plan
        self.trace = Trace()
        self.silent: Counter[tuple[TaskMode, str]] = Counter()
        """Checks that found nothing, by mode and task: they have no row of their own (OBS-023)."""
        self.progress = progressed(session, req)
        new = None if self.progress == session.progress else self.progress
        self.record = Record(new_records(req.messages, session, req.now), req.now, new)

    @property
    def view(self) -> View:
        """What a rule may read, as it is now."""
        return View(
            req=self.req,
            trace=self.trace,
            session=self.session,
            progress=self.progress,
            texts=self.setup.texts,
            done=self.record.done,
        )

    def rule(self, task: Task) -> Rule:
        return self.setup.rules[task.rule]

    def tasks_at(self, point: SafePoint, *, open_blocks: bool = False) -> tuple[Task, ...]:
        """Those whose rules look there: at complete calls, or at the block that is being written."""
        rules = ((task, self.rule(task)) for task in self.tasks)
        return tuple(task for task, rule in rules if rule.safe_point == point and rule.open_blocks == open_blocks)

    def asked(self, task: Task, point: str, event: Event) -> Action | Inquiry | None:
        """What the task's rule says."""
        return self.guarded(task, point, lambda: self.rule(task).fn(event, task, self.view))

    def requested(self, task: Task) -> Action | None:
        """The same at SP4, by the rule or by its half there (MON-158)."""
        rule = self.rule(task)
        half = rule.fn if rule.safe_point == "SP4" else rule.at_request
        if half is None:
            return None
        found = self.guarded(task, "SP4", lambda: half(self.req, task, self.view))
        return found if isinstance(found, Action) else None

    def answered(self, task: Task, point: str, event: Event) -> Action | None:
        """The same where nobody can be asked: a question hears so."""
        found = self.asked(task, point, event)
        while isinstance(found, Inquiry):
            found = self.guarded(task, point, partial(found.then, None, "no_place"))
        return found

    def guarded(self, task: Task, point: str, call: Callable[[], FoundT]) -> FoundT | None:
        """What `call` gives; a fault in it is journaled, and the request goes on (MON-012)."""
        try:
            found = call()
            if found is not None and not isinstance(found, Action | Inquiry):
                raise TypeError(f"{task.rule} gave a {type(found).__name__}")
        except Exception as error:
            self.failed(task, point, error)
            return None
        self.silent[task.mode, task.id] += found is None
        return found

    def failed(self, task: Task, point: str, error: Exception) -> None:
        finding = Finding(task=task, sp=point, action=Action(kind="PASS"), mode=task.mode)
        self.record.passed(finding, f"error({type(error).__name__})")

    def screened(
        self, task: Task, point: SafePoint, action: Action | None, most: TaskMode = "act", **about: Any
    ) -> Finding | None:
        """The finding where it is one to act on. Everything else is journaled here, as far as it has a reason.

        `most` lowers the mode once more.
        """
        if action is None:
            return None
        self.record.remember(task.id, action.delta)
        mode = task_mode(self.mode, task_mode("on", task.mode, most), action.detail.get("mode"))
        finding = Finding(task=task, sp=point, action=action, mode=mode)
        if action.kind not in PERMITTED[point]:
            self.record.passed(finding, "bad_action")
        elif action.kind == "PASS":
            if action.reason:
                self.record.found(finding, **about)
        elif mode == "act":
            return finding
        elif mode == "shadow":
            cap = self.acts.reached
            would = {"would_cap": cap} if cap is not None and action.kind != "GIVE_UP" else {}
            self.record.found(finding, text=action.text, detail={**action.detail, **would}, **about)
        return None

    def give_up(self, finding: Finding, why: str | None = None, **about: Any) -> Verdict:
        """The generation ends with the policy's sentence: the finding says so, or `why` forbids what it says."""
        action = finding.action
        is_wanted = action.kind == "GIVE_UP"
        sentence = action.text if is_wanted and action.text is not None else self.setup.texts["give_up"]
        detail = {**action.detail, **({} if why is None else {"finding": action.reason})}
        known = {"acted": "GIVE_UP", "reason": why or action.reason, "text": sentence, "detail": detail}
        self.record.found(finding, **{**about, **known})
        return Verdict(end=EndNow(sentence, self.stop_detail(finding)))

    def stop_detail(self, finding: Finding) -> str:
        """The ledger's word for a turn that the monitor ended."""
        return str(finding.action.detail.get("stop_detail", f"monitor_{finding.task.id}"))

    def event(self, **fields: Any) -> MonitorEvent:
        """A row that is no rule's."""
        mode = task_mode(self.mode, "act")
        known: dict[str, Any] = {"rule": None, "tier": 0, "mode": mode, "acted": None, "reason": ""}
        return MonitorEvent(**{**known, **fields})
