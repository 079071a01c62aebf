"""The loop guards in the decode loop on the fake engine: what the client gets of an endless text (MON-151)."""

from __future__ import annotations

import datetime
import json
from typing import Literal

import pytest

from tandem.conductor.documents.words import Mode
from tandem.conductor.monitor.events import MonitorEvent, RequestEvent
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import policy_of, shipped_body
from tandem.conductor.sessions.view import SessionView
from tandem.engine.decoding.generation import ReasoningCap
from tandem.engine.fake import FakeEngine
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.deltas import CallArguments, CallEnd
from tandem.engine.text.reading.rules import ReadingRules
from tests.conductor.monitor.calling import declare
from tests.conductor.monitor.generating import generation_under
from tests.engine.decoding.driving import drive, finish_of, reasoning_of, text_of

TOOLS = [declare("write", "path", "content")]
POLICY = policy_of(shipped_body())
DAY = datetime.date(2026, 11, 30)


class Run:
    """An answer of up to 4,000 tokens under the shipped policy."""

    def __init__(
        self,
        say: str,
        *,
        mode: Mode = "on",
        argloop: Literal["on", "log", "off"] = "on",
        holds: bool = True,
        cap: int | None = None,
        block: int = 3,
    ) -> None:
        engine = FakeEngine()
        messages = [{"role": "user", "content": f"hi @fake {json.dumps({'say': say, 'block': block})}"}]
        prompt = engine.text.render(Conversation(messages=messages, tools=TOOLS))
        monitor = Monitor("on", POLICY, engine.text, window=65_536, argloop=argloop)
        request = RequestEvent(messages=messages, tools=TOOLS, live=not holds)
        supervisor = monitor.begin(mode, request, prompt, SessionView(key="k", first_date=DAY))
        if supervisor is not None:
            supervisor.holds = holds
        generation = generation_under(
            supervisor,
            engine,
            prompt,
            TOOLS,
            ReadingRules(holds=holds and supervisor is not None, drops_closers=True),
            live=not holds,
            limit=4_000,
            window=65_536,
            reasoning_cap=None if cap is None else ReasoningCap(cap, closing_ids(engine.text)),
        )
        self.deltas = drive(engine, engine.open(prompt), generation)
        self.finish = finish_of(self.deltas)
        self.text = text_of(self.deltas)
        self.arguments = "".join(delta.text for delta in self.deltas if isinstance(delta, CallArguments))
        self.whole_calls = sum(isinstance(delta, CallEnd) for delta in self.deltas)
        events = [] if supervisor is None else supervisor.take_events()
        self.rows = [event for event in events if event.decision not in ("OUTCOME", "COUNTS")]

    @property
    def row(self) -> MonitorEvent:
        (row,) = self.rows
        return row


@pytest.mark.spec("MON-045", "MON-151")
def test_a_loop_in_the_reasoning_is_closed_and_the_answer_follows() -> None:
    """H-01 and H-07: in raw it goes on to the end."""
    say = "<think>" + "items " * 1_500 + "</think>Five."
    run = Run(say)
    assert 576 < reasoning_of(run.deltas).count("items") < 576 + 8
    assert (run.row.task, run.row.acted, run.row.reason) == ("D1", "CLOSE_REASONING", "loop(period)")
    assert run.finish.reason == "stop"
    for mode in ("shadow", "raw"):
        other = Run(say, mode=mode)
        assert reasoning_of(other.deltas) == "items " * 1_500
        assert other.text == "Five."
        assert [(row.task, row.acted) for row in other.rows] == ([("D1", None)] if mode == "shadow" else [])


@pytest.mark.spec("MON-156", "MON-151", "MON-049")
def test_a_loop_in_the_answer_ends_it_with_one_sentence() -> None:
    """H-01; 60 copies are left alone."""
    run = Run("items " * 1_500)
    written, _, sentence = run.text.partition("[TandemLLM ended this answer, because one piece of 6 characters came ")
    assert sentence.endswith(" times in succession.]")
    assert 1_024 <= written.count("items") < 1_100
    assert run.finish.reason == "stop"
    assert (run.row.task, run.row.acted, run.row.reason) == ("D3", "GIVE_UP", "answer_loop(period)")
    few = Run("items " * 60 + "and that is all.")
    assert (few.text, few.rows) == ("items " * 60 + "and that is all.", [])


@pytest.mark.spec("MON-156")
def test_a_flood_of_closing_tags_ends() -> None:
    """B-07: none of them is sent."""
    run = Run("<think>one two three four five six\n" + "</think>\n" * 1_500, cap=4)
    assert run.text.startswith("[TandemLLM ended this answer, because one piece of 9 characters came ")
    assert run.finish.reason == "stop"


CALL = '<tool_call>\n{"name": "write", "arguments": {"path": "a", "content": "' + "very " * 2_000


@pytest.mark.spec("MON-107", "MON-109", "MON-151", "API-123", "MON-049")
def test_a_loop_in_a_held_call_drops_it_with_one_sentence() -> None:
    """H-04."""
    run = Run("Here it is. " + CALL)
    assert run.arguments == ""
    assert "[TandemLLM cut off the write call at 1088 tokens, because one piece of 5 characters came" in run.text
    assert run.finish.reason == "stop"
    assert run.finish.detail == "tool_arg_loop"
    row = run.row
    assert (row.task, row.acted, row.detail["rule"], row.detail["unit"]) == ("A1", "GIVE_UP", "periodic", 5)


@pytest.mark.spec("MON-107", "MON-159", "API-123")
def test_calls_ahead_of_a_dropped_one_go_out() -> None:
    whole = '<tool_call>\n{"name": "write", "arguments": {"path": "b", "content": "x"}}\n</tool_call>\n'
    run = Run(whole + CALL)
    assert json.loads(run.arguments) == {"path": "b", "content": "x"}
    assert run.whole_calls == 1
    assert run.finish.reason == "tool_calls"
    assert "very" not in run.text


@pytest.mark.spec("MON-108", "MON-151", "API-123")
def test_a_loop_in_a_streaming_call_leaves_it_without_an_end() -> None:
    run = Run(CALL, holds=False)
    assert 1_000 < run.arguments.count("very") < 1_100
    assert run.whole_calls == 0
    assert run.text == ""
    assert (run.finish.reason, run.finish.detail) == ("tool_calls", "tool_arg_loop")


@pytest.mark.spec("MON-103")
def test_the_switch() -> None:
    log, off = Run(CALL, argloop="log", holds=False), Run(CALL, argloop="off", holds=False)
    assert log.deltas == off.deltas
    assert log.arguments.count("very") == 2_000
    assert [(row.decision, row.acted) for row in log.rows] == [("GIVE_UP", None)]
    assert off.rows == []


@pytest.mark.spec("MON-113")
def test_the_history_is_cut_where_the_guard_acts() -> None:
    text = FakeEngine().text
    on = Monitor("on", POLICY, text)
    assert (on.marker("on", 1) or "").startswith("[TandemLLM cut this {tool} call")
    assert [on.marker("shadow", 1), on.marker("raw", 1), on.marker("on", 2)] == [None] * 3
    assert Monitor("shadow", POLICY, text).marker("on", 1) is None
    assert [Monitor("on", POLICY, text, argloop=each).marker("on", 1) for each in ("log", "off")] == [None] * 2
