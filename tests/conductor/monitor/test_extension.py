"""The extension interface, used from outside the package as it may be: a rule, a sink and a policy entry (MON-142 to
MON-147). Whatever makes this test change breaks what others have written.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from tandem.conductor.monitor import tier0
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.counting import Growth, on_conductor_event
from tandem.conductor.monitor.events import (
    BlockEvent,
    FinishEvent,
    MonitorEvent,
    RequestEvent,
    Task,
    ToolCallEvent,
    View,
)
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import policy_of, shipped_body
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.sessions import Sessions
from tandem.conductor.sessions.view import SessionDelta, SessionFacts, SessionView
from tandem.engine.fake import FakeEngine
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.deltas import CallArguments, Delta
from tandem.engine.text.reading.rules import ReadingRules
from tests.conductor.monitor.generating import generation_under
from tests.engine.decoding.driving import drive, finish_of, reasoning_of, text_of

DAY = datetime.date(2026, 11, 30)
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("ls", "rm")]
RM = '<tool_call>\n{"name": "rm", "arguments": {"path": "/"}}\n</tool_call>'
LS = '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>'
SIZED = {"every": {"type": "integer", "minimum": 1}, "most": {"type": "integer", "minimum": 1}}


def too_long(event: BlockEvent, task: Task, view: View) -> Action | None:
    with pytest.raises(FrozenInstanceError):
        view.req = view.req  # type: ignore[misc]
    assert (event.arm, event.history_share, event.answer_tokens) == (None, 0.0, 0)
    if event.inside and event.reasoning_tokens >= task.params["most"]:
        return Action(kind="CLOSE_REASONING", reason=f"long({task.params['most']})", delta={"position": event.position})
    return Action(kind="PASS", delta={"last": event.reasoning_tokens})


def no_rm(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    assert (event.final, event.schema) == (True, {"type": "object"})
    if event.name != "rm":
        return None
    arguments = json.loads(event.arguments)
    if arguments.get("path") == "~":
        return Action(kind="REPAIR_CALL", reason="home", detail={"arguments": '{"path": "/home"}'})
    return Action(kind="REGENERATE_CALL", reason="rm", text=task.params["reminder"].format(tool=event.name))


def silent(event: FinishEvent, task: Task, view: View) -> Action | None:
    assert view.kept(task.id) in ({}, {"times": 1})
    return None if event.answer or event.has_calls else Action(kind="GIVE_UP", text="[Nothing.]", delta={"times": 1})


@dataclass
class Sink:
    """Whatever is offered the events."""

    events: list[MonitorEvent] = field(default_factory=list)

    def __call__(self, event: MonitorEvent) -> None:
        self.events.append(event)


@dataclass
class Ran:
    deltas: Sequence[Delta]
    supervisor: Supervisor | None
    output: Sequence[int]

    @property
    def said(self) -> tuple[str, str, list[str], str]:
        calls = [delta.text for delta in self.deltas if isinstance(delta, CallArguments)]
        return reasoning_of(self.deltas), text_of(self.deltas), calls, finish_of(self.deltas).reason


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A policy with entries for the rules of somebody else."""
    monkeypatch.setattr(tier0, "_RULES", dict(tier0._RULES))
    reminder = tier0.text("tool")
    tier0.register("too_long", "SP1", SIZED, ("every", "most"), "Closes what is too long.")(too_long)
    tier0.register("no_rm", "SP3", {"reminder": reminder}, ("reminder",), "Has no rm.")(no_rm)
    tier0.register("silent", "SP2", {}, (), "Ends a silent turn.")(silent)
    entries = [
        {"id": "X1", "rule": "too_long", "mode": "act", "tier": 0, "every": 4, "most": 12},
        {"id": "X2", "rule": "no_rm", "mode": "act", "tier": 0, "reminder": "No {tool}."},
        {"id": "X3", "rule": "silent", "mode": "act", "tier": 0},
    ]
    return {**shipped_body(), "tasks": entries}


def ran(
    script: dict[str, Any],
    body: dict[str, Any] | None,
    *,
    mode: Any = "on",
    view: SessionView | None = None,
    sinks: Sequence[Callable[[MonitorEvent], None]] = (),
) -> Ran:
    """One request on the fake engine; without a body nobody watches."""
    engine = FakeEngine()
    messages = [{"role": "user", "content": f"hi @fake {json.dumps(script)}"}]
    prompt = engine.text.render(Conversation(messages=messages, tools=TOOLS))
    supervisor = None
    if body is not None:
        monitor = Monitor("on", policy_of(body), engine.text, window=engine.card.max_len)
        request = RequestEvent(messages=messages, tools=TOOLS, now=50.0)
        supervisor = monitor.begin(mode, request, prompt, view or SessionView(key="k", first_date=DAY))
        assert supervisor is not None
        assert supervisor.request() == []
    rules = ReadingRules(holds=supervisor is not None and supervisor.holds)
    generation = generation_under(supervisor, engine, prompt, TOOLS, rules, limit=300)
    seq = engine.open(prompt)
    deltas = drive(engine, seq, generation)
    if supervisor is not None:
        supervisor.finished(finish_of(deltas), 60.0)
        for event in supervisor.take_events():
            for sink in sinks:
                sink(event)
    return Ran(deltas, supervisor, tuple(seq.output))


@pytest.mark.spec("MON-015", "MON-031", "MON-142", "MON-143", "MON-145", "MON-146", "MON-147")
def test_a_rule_from_outside_closes_the_reasoning_and_is_remembered(extended: dict[str, Any]) -> None:
    sink, sessions = Sink(), Sessions()
    facts = SessionFacts(key="c:one", today=DAY)
    view = sessions.open(facts)
    script = {"say": "<think>" + "a b c d e f " * 10 + "</think>Right.", "block": 3}
    found = ran(script, extended, view=view, sinks=[sink])
    reasoning, answer, _, reason = found.said
    assert (answer, reason) == ("Right.", "stop")
    assert len(reasoning) < 30, "the rest was never written"
    first, last = sink.events
    assert (first.task, first.rule, first.acted, first.reason) == ("X1", "too_long", "CLOSE_REASONING", "long(12)")
    assert (last.decision, last.detail["acts"]) == ("OUTCOME", 1)
    assert found.supervisor is not None
    delta = found.supervisor.take_delta()
    sessions.commit(view, SessionDelta(monitor=delta, at=60.0))
    known = sessions.open(facts).monitor
    assert known.acts == (60.0,)
    assert known.kept["X1"]["last"] in (4, 5, 6, 8, 9, 10, 11)
    assert known.kept["X1"]["position"] == first.position
    assert (known.asked_at, known.ended_at) == (50.0, 60.0)


@pytest.mark.spec("MON-074", "MON-077", "MON-144", "MON-147")
def test_a_check_from_outside_has_a_call_written_again(extended: dict[str, Any]) -> None:
    sink = Sink()
    found = ran({"say": f"Now.{RM}", "then": [LS]}, extended, sinks=[sink])
    reasoning, answer, [call], reason = found.said
    assert (reasoning, answer, json.loads(call), reason) == ("", "Now.", {"path": "/"}, "tool_calls")
    assert [(event.task, event.acted, event.text) for event in sink.events[:1]] == [("X2", "REGENERATE_CALL", "No rm.")]
    home = ran({"say": RM.replace('"/"', '"~"')}, extended)
    assert home.said[2] == ['{"path": "/home"}']


@pytest.mark.spec("MON-033", "MON-142", "MON-146")
def test_an_end_from_outside_and_its_counts(extended: dict[str, Any]) -> None:
    sink = Sink()
    found = ran({"say": "<think>Hm.</think>"}, extended, sinks=[sink])
    assert found.said == ("Hm.", "[Nothing.]", [], "stop")
    assert finish_of(found.deltas).detail == "monitor_X3"
    assert on_conductor_event(sink.events[0]) == (
        Growth("decisions", {"task": "X3", "decision": "GIVE_UP", "mode": "act"}),
        Growth("actions", {"task": "X3", "action": "GIVE_UP"}),
        Growth("gave_up", {"task": "X3"}),
    )
    assert on_conductor_event(sink.events[-1]) == ()


SCRIPTS = [
    {"say": "<think>" + "a b c d e f " * 10 + "</think>Right.", "block": 3},
    {"say": f"Now.{RM}", "block": 1},
    {"say": f"<think>Hm.</think>{LS}{RM}<tool_call>broken", "block": 5},
    {"say": "<think>Hm.</think>"},
]


@pytest.mark.spec("MON-002", "MON-003", "MON-028")
@pytest.mark.parametrize("script", SCRIPTS)
def test_in_shadow_every_token_and_delta_is_the_unwatched_ones(
    extended: dict[str, Any], script: dict[str, Any]
) -> None:
    plain, sink = ran(script, None), Sink()
    shadow = ran(script, extended, mode="shadow", sinks=[sink])
    assert shadow.output == plain.output
    assert shadow.deltas == plain.deltas
    assert all(event.acted is None for event in sink.events)
    assert any(event.decision not in ("PASS", "OUTCOME") for event in sink.events), "each would have been acted on"


@pytest.mark.spec("MON-028", "MON-075")
def test_without_a_finding_it_is_the_same_too(extended: dict[str, Any]) -> None:
    script = {"say": f"<think>Hm.</think>Now.{LS}"}
    assert ran(script, extended).output == ran(script, None).output
    assert ran(script, extended).said == ran(script, None).said


@pytest.mark.spec("MON-146")
def test_what_grows_with_a_question_and_a_cut() -> None:
    about: dict[str, Any] = {"rule": "r", "tier": 1, "sp": "SP2", "mode": "act", "reason": ""}
    asked = MonitorEvent(
        task="E2", decision="PASS", acted=None, detail={"questions": 2, "question_failures": 1}, **about
    )
    assert [(each.series, each.by) for each in on_conductor_event(asked)] == [
        ("decisions", 1),
        ("questions", 2),
        ("question_failures", 1),
    ]
    kind: Any = "CLOSE_REASONING"
    cut = MonitorEvent(task="D1", decision=kind, acted=kind, reasoning_cut=700, hidden_tokens=9, **about)
    assert [(each.series, each.by) for each in on_conductor_event(cut)] == [
        ("decisions", 1),
        ("actions", 1),
        ("hidden_tokens", 9),
        ("reasoning_tokens_cut", 700),
    ]
