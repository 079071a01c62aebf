"""Rules that say what a test has them say, and a supervisor that asks them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tandem.conductor.documents.profiles import Profile
from tandem.conductor.monitor import tier0
from tandem.conductor.monitor.actions import SafePoint
from tandem.conductor.monitor.events import MonitorEvent, RequestEvent
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import Policy, policy_of, shipped_body
from tandem.conductor.monitor.state import NOTHING_SEEN, Monitored
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.monitor.tier0 import register
from tandem.conductor.sessions.view import SessionView
from tandem.engine.decoding.seams import Seen
from tandem.engine.fake.text import FakeText
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.held import Held

__all__ = ["TEXT", "Scripted", "call", "policy_with", "prompt_of", "rows", "seen"]

TEXT = FakeText()


def policy_with(*tasks: dict[str, Any], **changes: Any) -> Policy:
    """The shipped policy with these tasks in place of its own."""
    body = shipped_body()
    entries = [{"mode": "act", "tier": 0, "rule": each["id"], **each} for each in tasks]
    return policy_of({**body, "tasks": entries, **changes})


def prompt_of(text: str = "hi", turn: FakeText = TEXT) -> Prompt:
    return turn.render(Conversation(messages=[{"role": "user", "content": text}]))


class Scripted:
    """Registers rules for one test, and begins requests under them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tier0, "_RULES", dict(tier0._RULES))
        self.tasks: list[dict[str, Any]] = []
        self.looks: list[tuple[str, Any]] = []
        """Which task was asked, and the event."""

    def rule(
        self, name: str, point: SafePoint, *answers: Any, task: dict[str, Any] | None = None, **further: Any
    ) -> None:
        """A rule, and a task of the same name, that gives these answers one after another and then the last again."""
        left = list(answers)

        def fn(event: Any, task: Any, view: Any) -> Any:
            self.looks.append((name, event))
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer(event, task, view) if callable(answer) else answer

        fn.__qualname__ = f"{name}_{id(self)}"
        register(name, point, {"every": {"type": "integer"}}, doc="Of a test.", **further)(fn)
        self.tasks.append({"id": name, **(task or {})})

    def begin(
        self,
        mode: Any = "on",
        *,
        session: Monitored = NOTHING_SEEN,
        profile: Profile | None = None,
        caps: tuple[int, int] = (4, 20),
        window: int = 0,
        journal: str = "off",
        **req: Any,
    ) -> Supervisor:
        policy = policy_with(
            *self.tasks,
            caps={"acts_per_request": caps[0], "acts_per_session_hour": caps[1]},
            journal={"tool_passes": journal},
        )
        monitor = Monitor("on", policy, TEXT, window=window)
        view = SessionView(key="k", first_date=datetime.date(2026, 11, 30), monitor=session)
        request = RequestEvent(**{"messages": [{"role": "user", "content": "hi"}], "now": 10_000.0, **req})
        supervisor = monitor.begin(mode, request, prompt_of(), view, profile=profile)
        assert supervisor is not None
        return supervisor


def seen(**facts: Any) -> Seen:
    known = {
        "written": 0,
        "position": 100,
        "room": 1_000,
        "left": 500,
        "in_reasoning": False,
        "in_call": False,
        "reasoning_tokens": 0,
    }
    return Seen(**{**known, **facts})


def call(index: int, name: str = "ls", **facts: Any) -> Held:
    return Held(**{"index": index, "name": name, "arguments": "{}", **facts})


def rows(supervisor: Supervisor) -> list[tuple[Any, ...]]:
    """Task, what was due, what was done and why, of the events since the last call."""
    return [_row(event) for event in supervisor.take_events()]


def _row(event: MonitorEvent) -> tuple[Any, ...]:
    return event.task, event.decision, event.acted, event.reason
