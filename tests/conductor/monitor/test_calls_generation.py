"""C1 to C5 in the decode loop on the fake engine, each with an answer that it holds back and one that it lets go: what
the client gets, what the model reads, what the rows say.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.monitor.events import RequestEvent, TaskMode
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.sessions.view import SessionView
from tandem.engine.fake import FakeEngine
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.deltas import CallArguments, CallStart
from tandem.engine.text.reading.rules import ReadingRules
from tests.conductor.monitor.calling import called, declare, shipped
from tests.conductor.monitor.generating import generation_under
from tests.engine.decoding.driving import drive, finish_of, text_of

DAY = datetime.date(2026, 11, 30)
TOOLS = [declare("bash", "command"), declare("write", "path", "content"), declare("send", "to", "body")]
SYSTEM = {"role": "system", "content": "PROGRESS.yaml\nWorking directory: /srv/app"}


def written(name: str, **arguments: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


class Run:
    """One request under the shipped policy with one of its tasks, or with nobody watching."""

    def __init__(self, script: Mapping[str, Any], task: str | None, mode: TaskMode = "act", *before: Any) -> None:
        engine = FakeEngine()
        rounds = sum(message["role"] == "assistant" for message in before)
        script = {**script, "turns": [script] * rounds}
        messages = [SYSTEM, {"role": "user", "content": f"hi @fake {json.dumps(script)}"}, *before]
        prompt = engine.text.render(Conversation(messages=messages, tools=TOOLS))
        tasks = tuple(replace(each, mode=mode) for each in shipped().tasks if each.id == task)
        monitor = Monitor("on", replace(shipped(), tasks=tasks), engine.text, window=engine.card.max_len)
        request = RequestEvent(messages=messages, tools=TOOLS)
        view = SessionView(key="k", first_date=DAY)
        supervisor = None if task is None else monitor.begin("on", request, prompt, view)
        self.holds = supervisor is not None and supervisor.holds
        rules = ReadingRules(holds=self.holds)
        generation = generation_under(supervisor, engine, prompt, TOOLS, rules, limit=200)
        seq = engine.open(prompt)
        deltas = drive(engine, seq, generation)
        finish = finish_of(deltas)
        self.text, self.reason = text_of(deltas).strip(), finish.reason
        names = [delta.name for delta in deltas if isinstance(delta, CallStart)]
        self.indexes = [delta.index for delta in deltas if isinstance(delta, CallStart)]
        self.calls = list(zip(names, (d.text for d in deltas if isinstance(d, CallArguments)), strict=True))
        self.read = b"".join(engine.text.piece(token) for token in seq.output).decode()
        self.rows = list[tuple[str, str | None, str]]()
        if supervisor is not None:
            supervisor.finished(finish, 1.0)
            events = supervisor.take_events()
            self.rows = [(each.decision, each.acted, each.reason) for each in events if each.decision != "OUTCOME"]


def calls(*made: tuple[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    return [(name, json.dumps(arguments, separators=(",", ":"))) for name, arguments in made]


LS = ("bash", {"command": "ls"})
RM = ("bash", {"command": "rm -rf /"})
HOSTS = ("write", {"path": "/etc/hosts", "content": "x"})
OWN = ("write", {"path": "a.py", "content": "x"})
MAIL = ("send", {"to": "a", "body": "b"})
UNKNOWN = ("look", {"path": "a"})
LOOKED = called(*(("bash", '{"command": "ls"}', "nothing"),) * 2)
FOUND: Mapping[str, tuple[Sequence[Any], Sequence[Any], str, str]] = {
    "C1": ([LS, RM], [], "risky(delete_root)", "held back by rule delete_root"),
    "C2": ([HOSTS], [], "project(outside_root)", "held back by rule outside_root"),
    "C3": ([LS], LOOKED, "repeat(3)", "would be number 3"),
    "C4": ([UNKNOWN], [], "malformed(unknown_tool)", "there is no such tool"),
    "C5": ([MAIL, OWN], [], "sequence(mutations=2)", "These calls change things: send, write."),
}
"""By task an answer that it holds back, what stands before it, the reason and some words of the reminder."""
CLEAN: Mapping[str, Sequence[Any]] = {"C1": [LS], "C2": [OWN], "C3": [OWN], "C4": [LS, OWN], "C5": [LS, MAIL]}
THEN = [OWN]


def said(made: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    return "\n".join(written(name, **arguments) for name, arguments in made)


@pytest.mark.spec("MON-077", "MON-086", "MON-091", "MON-094", "MON-096", "MON-151")
@pytest.mark.parametrize("task", FOUND)
def test_a_finding_is_written_again_and_the_client_gets_the_second_set_alone(task: str) -> None:
    made, before, reason, words = FOUND[task]
    run = Run({"say": said(made), "then": [said(THEN)], "block": 4}, task, "act", *before)
    assert run.holds
    assert (run.calls, run.indexes, run.text, run.reason) == (calls(*THEN), [0], "", "tool_calls")
    assert words in run.read
    assert run.rows[0] == ("REGENERATE_CALL", "REGENERATE_CALL", reason)


@pytest.mark.spec("MON-003", "MON-086", "MON-151")
@pytest.mark.parametrize("task", FOUND)
def test_in_shadow_it_goes_out_as_it_came_and_leaves_a_row(task: str) -> None:
    made, before, reason, _ = FOUND[task]
    script = {"say": said(made), "then": [said(THEN)]}
    run, bare = Run(script, task, "shadow", *before), Run(script, None, "act", *before)
    assert not run.holds
    assert (run.calls, run.text, run.reason, run.read) == (bare.calls, bare.text, bare.reason, bare.read)
    assert run.calls == calls(*made)
    assert run.rows == [("REGENERATE_CALL", None, reason)]


@pytest.mark.spec("MON-083", "MON-151")
@pytest.mark.parametrize("task", CLEAN)
def test_a_clean_answer_goes_out_as_it_came(task: str) -> None:
    run = Run({"say": said(CLEAN[task])}, task, "act", *FOUND[task][1])
    assert run.holds
    assert (run.calls, run.text, run.reason) == (calls(*CLEAN[task]), "", "tool_calls")
    assert run.rows == [("COUNTS", None, "")]


@pytest.mark.spec("MON-090", "MON-074")
def test_c3_holds_nothing_before_a_run_lacks_its_last_call() -> None:
    assert not Run({"say": said([LS])}, "C3", "act", *LOOKED[:2]).holds


@pytest.mark.spec("MON-086", "MON-091", "MON-094", "MON-097")
@pytest.mark.parametrize("task", FOUND)
def test_the_same_once_more_ends_the_turn_and_c5_lets_it_go(task: str) -> None:
    made, before, reason, _ = FOUND[task]
    run = Run({"say": said(made), "then": [said(made)]}, task, "act", *before)
    if task == "C5":
        assert run.calls == calls(*made)
        assert run.rows[1] == ("PASS", None, "fallback(regenerations=1)")
        return
    assert (run.calls, run.reason) == ([], "stop")
    assert run.text.startswith("[TandemLLM ended this turn")
    assert run.rows[1][1] == "GIVE_UP"
    assert run.rows[1][2] == ("repeated" if task == "C3" else reason)


@pytest.mark.spec("MON-094")
def test_a_missing_end_is_mended_and_nothing_is_written_again() -> None:
    run = Run({"say": written(*OWN[:1], **OWN[1]).removesuffix("\n</tool_call>"), "then": ["No."]}, "C4")
    assert (run.calls, run.text, run.reason) == (calls(OWN), "", "tool_calls")
    assert run.rows == [("REPAIR_CALL", "REPAIR_CALL", "malformed(unparsable)")]
    assert run.read.endswith('"content": "x"}}')
