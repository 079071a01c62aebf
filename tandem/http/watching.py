"""What a sweep of the monitor finds reaches session, journal, log and metrics, and where it is due a push (MON-126 to
MON-129)."""

from __future__ import annotations

from dataclasses import replace

from tandem.actors.kit import Ref
from tandem.actors.notifier import Push
from tandem.conductor.monitor.events import MonitorEvent
from tandem.conductor.monitor.state import MonitorDelta
from tandem.conductor.monitor.watch import watched
from tandem.conductor.sessions import SessionDelta
from tandem.http.context import Context
from tandem.http.monitoring import Whose, tell_events

__all__ = ["sweep", "tell_push"]

NO_NOTIFIER = "failed: fake engine"
BUSY = "failed: busy"


def sweep(here: Context, notifier: Ref[Push] | None, _now: float) -> None:
    """Look at every session. A push's event is told when its result is known; without a notifier none is sent."""
    monitor = here.monitor
    if monitor is None:
        return
    now = here.wall.now().timestamp()
    states = {state.view.key: state for state in here.sessions.states()}
    for key, event in monitor.sweep([state.view for state in states.values()], now):
        view, client = states[key].view, states[key].client
        rules = watched(view.monitor, event.task)
        delta = {} if event.action is None else event.action.delta
        here.sessions.commit(view, SessionDelta(monitor=MonitorDelta(kept={event.task: delta}), at=now))
        push = Push(
            session=key,
            profile=None if rules is None else rules.profile,
            client_kind=client.rpartition("|")[2] or None,
            event=event,
            target=monitor.policy.notify,
        )
        if event.decision != "NOTIFY" or event.mode != "act":
            _tell(here, push, event)
        elif notifier is None:
            tell_push(here, push, NO_NOTIFIER)
        elif not notifier.offer(push):
            tell_push(here, push, BUSY)


def tell_push(here: Context, push: Push, result: str) -> None:
    """A push was tried: `sent <status>`, or why not."""
    was_sent = result.startswith("sent")
    detail = {**push.event.detail, "notify": result}
    _tell(here, push, replace(push.event, acted="NOTIFY" if was_sent else None, detail=detail))


def _tell(here: Context, push: Push, event: MonitorEvent) -> None:
    version = None if here.monitor is None else here.monitor.version
    whose = Whose(session=push.session, profile=push.profile, client_kind=push.client_kind, policy_version=version)
    tell_events(here, whose, [event])
