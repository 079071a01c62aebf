"""Which acts of the monitor get a line. Those of a plan are in tests/service/test_lines.py, with whole plans."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.lines.frame import framed, without_lines
from tandem.conductor.lines.occasions import acted_line
from tandem.conductor.monitor.events import MonitorEvent


def event(task: str, acted: Any, **more: Any) -> MonitorEvent:
    given = {"rule": None, "tier": 0, "sp": "SP1", "mode": "act", "decision": acted or "PASS", "reason": ""}
    return MonitorEvent(**{**given, "task": task, "acted": acted, **more})


@pytest.mark.spec("STA-003", "STA-004")
@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (event("D2", "CLOSE_REASONING", reasoning_cut=16_384), "cap", "thinking closed at 16,384 tokens"),
        (event("budget", "CLOSE_REASONING", reasoning_cut=512), "cap", "thinking closed at 512 tokens"),
        (event("D1", "CLOSE_REASONING", reasoning_cut=512), "loop", "stopped a repetition in the thinking"),
        (event("D1b", "CLOSE_REASONING"), "loop", "stopped a repetition in the thinking"),
        (event("D3", "GIVE_UP"), "loop", "stopped a repetition in the answer"),
        (event("A1", "GIVE_UP"), "loop", "stopped a repetition in a tool call"),
        (event("E1", "CONTINUE_HIDDEN"), "continue", "the turn goes on: there was no answer yet"),
        (event("E2", "CONTINUE_HIDDEN"), "continue", "the turn goes on: nothing showed that the work was done"),
        (
            event("C4", "REGENERATE_CALL", detail={"tool": "bash"}),
            "tool_check",
            "checked bash: it could not be read, written again",
        ),
        (
            event("C5", "REGENERATE_CALL", detail={"tools": ["bash", "edit"]}),
            "tool_check",
            "checked bash, edit: several changes at once, written again",
        ),
        (
            event("C5", "REGENERATE_CALL", detail={"tools": 5}),
            "tool_check",
            "checked call: several changes at once, written again",
        ),
        (event("S2", "PROMPT_TAIL_NOTE", sp="SP4"), "note", "reminded of the files to read again"),
        (
            event("A1", "PROMPT_TAIL_NOTE", sp="SP4"),
            "note",
            "reminded of a call that ended in a repetition",
        ),
    ],
)
def test_an_act_has_a_line(given: MonitorEvent, kind: str, text: str) -> None:
    line = acted_line(given)
    assert line is not None
    assert (line.kind, line.text) == (kind, text)
    assert without_lines(framed(line.text)) == ""


@pytest.mark.spec("STA-003")
@pytest.mark.parametrize(
    "given",
    [
        event("D1", None),
        event("E1", "PASS"),
        event("S1", "NOTIFY"),
        event("D2", "SET_THINK_BUDGET"),
        event("X", "GIVE_UP"),
        event("E1", "GIVE_UP"),  # the turn does not go on
        event("E2", "GIVE_UP"),
    ],
)
def test_what_changed_nothing_has_none(given: MonitorEvent) -> None:
    assert acted_line(given) is None
