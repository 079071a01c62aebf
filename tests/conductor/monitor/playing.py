"""A session that is played through the shipped policy at SP4: what each request adds is remembered for the next."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.documents import parse
from tandem.conductor.documents.profiles import Profile
from tandem.conductor.documents.shipped import shipped_documents
from tandem.conductor.monitor.events import MonitorEvent, RequestEvent
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import Policy
from tandem.conductor.monitor.state import NOTHING_SEEN, Monitored, remembered
from tandem.conductor.sessions.view import SessionView
from tandem.engine.text.reading.deltas import Finish, Timings, Usage
from tests.conductor.monitor.calling import declare, round_of, shipped
from tests.conductor.monitor.scripted import TEXT, prompt_of

__all__ = ["AGENT", "START", "TOOLS", "Play", "profile"]

START = 1_000_000.0
AGENT: Mapping[str, Any] = {"role": "system", "content": "You are an agent. Your state is in PROGRESS.yaml."}
TOOLS = [
    declare("read", "path"),
    declare("write", "path", "content"),
    declare("edit", "path", "old_string", "new_string"),
    declare("bash", "command"),
]


def profile(name: str, **context: Any) -> Profile:
    """A shipped profile, these keys set in its section `context`."""
    body = shipped_documents()[f"profiles/{name}"]
    found = parse("profiles", {**body, "context": {**body.get("context", {}), **context}})
    assert isinstance(found, Profile)
    return found


class Play:
    """One session."""

    def __init__(
        self, *head: Mapping[str, Any], under: Profile | None = None, policy: Policy | None = None, mode: Any = "on"
    ) -> None:
        self.messages: list[Mapping[str, Any]] = list(head)
        self.under = under
        self.monitor = Monitor("on", policy or shipped(), TEXT)
        self.mode = mode
        self.state: Monitored = NOTHING_SEEN
        self._calls = 0

    def view(self, key: str = "c:one") -> SessionView:
        return SessionView(key=key, first_date=datetime.date(2026, 11, 30), monitor=self.state)

    def says(self, role: str, text: str) -> None:
        self.messages.append({"role": role, "content": text})

    def calls(self, tool: str, arguments: str, result: str = "ok", said: str = "") -> None:
        """The model calls, and its client brings the result."""
        self._calls += 1
        made, *results = round_of((tool, arguments, result), id=f"k{self._calls}-")
        self.messages += [{**made, "content": said}, *results]

    def ask(
        self, minutes: float, *, tools: Sequence[Mapping[str, Any]] = TOOLS, ends: float | None = None, **req: Any
    ) -> list[str]:
        """The request at that minute; the reasons of the session tasks' findings. `ends`: the minute at which its
        answer ends."""
        found = self.events(minutes, tools=tools, ends=ends, **req)
        return [event.reason for event in found if event.task.startswith("S")]

    def events(
        self, minutes: float, *, tools: Sequence[Mapping[str, Any]] = TOOLS, ends: float | None = None, **req: Any
    ) -> list[MonitorEvent]:
        now = START + 60 * minutes
        asked = RequestEvent(messages=tuple(self.messages), tools=tools, now=now, **req)
        supervisor = self.monitor.begin(self.mode, asked, prompt_of(), self.view(), profile=self.under)
        assert supervisor is not None
        supervisor.request()
        found = supervisor.take_events()
        end = now if ends is None else START + 60 * ends
        supervisor.finished(Finish("stop", Usage(), Timings()), end)
        delta = supervisor.take_delta()
        assert delta is not None
        self.state = remembered(self.state, delta, end)
        return found

    def sweep(self, minutes: float) -> list[MonitorEvent]:
        """The watch at that minute; what it reports is remembered."""
        found = self.monitor.sweep([self.view()], START + 60 * minutes)
        for key, event in found:
            assert key == "c:one"
            assert event.action is not None
            kept = {event.task: {**self.state.kept.get(event.task, {}), **event.action.delta}}
            self.state = Monitored(
                progress=self.state.progress,
                asked_at=self.state.asked_at,
                ended_at=self.state.ended_at,
                kept={**self.state.kept, **kept},
            )
        return [event for _, event in found]
