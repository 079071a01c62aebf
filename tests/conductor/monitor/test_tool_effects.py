"""What a tool changes, by its declaration; and C5, which wants one change at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.monitor.tool_effects import effect_of, is_shell, is_writer
from tests.conductor.monitor.calling import acted, answer, checked, declare, holding, shipped_task, view

SEND = declare("send_email", "to", "subject", "body")
EVENT = declare("create_calendar_event", "title", "start", "end")
REMINDER = declare("set_reminder", "text", "due")
WRITE = declare("write", "filePath", "content")
EDIT = declare("edit", "filePath", "oldString", "newString")
READ = declare("read", "filePath", "offset")
BASH = declare("bash", "command", "description", description="Executes a command")
READERS = [
    READ,
    declare("glob", "pattern", "path", description="Fast file pattern matching"),
    declare("grep", "pattern", "path", "include"),
    BASH,
    declare("webfetch", "url", "format", description="Fetches content from a URL"),
    declare("search_web", "query"),
    declare("fetch_url", "url"),
]


@pytest.mark.spec("MON-098", "MON-099")
def test_the_fixture() -> None:
    found = [effect_of(tool) for tool in (SEND, EVENT, REMINDER, WRITE, EDIT)]
    assert found == ["send", "schedule", "schedule", "write", "write"]
    assert [effect_of(tool) for tool in READERS] == [None] * len(READERS)


@pytest.mark.spec("MON-098")
@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        (declare("mcp__mail__post", "channel", "text"), "send"),
        (declare("mcp__github__create_issue", "repo"), "create"),
        (declare("github_create_issue", "repo"), "create"),
        (declare("github.delete-branch", "name"), "delete"),
        (declare("removeLabel", "name"), "delete"),
        (declare("notes", "id", description="Deletes a note"), "delete"),
        (declare("label", "id", description="Updates the label."), "create"),
        (declare("get_message", "to", "body"), None),
        (declare("listEvents", "date", "title"), None),
        (declare("calendar_search", "date", "title"), None),
        (declare("look", "path", description="Reads it"), None),
        (declare("resettle", "id"), None),
        (declare("asset_info", "id"), None),
        (declare("wipe", "id"), None),
        (declare("str_replace_based_edit_tool", "command", "path", "file_text"), "write"),
        (declare("run", "cmd", "path"), None),
        (declare("wipe", "id", annotations={"destructiveHint": True}), "delete"),
        (declare("delete", "id", annotations={"readOnlyHint": True}), None),
        ({"type": "function", "function": {"name": "delete_it"}}, "delete"),
        ({}, None),
        ({"function": {"name": None, "parameters": {"properties": {"to": 1, "body": []}}, "description": 3}}, "send"),
    ],
)
def test_the_table(tool: Any, effect: str | None) -> None:
    assert effect_of(tool) == effect


def test_shells_and_writers() -> None:
    assert is_shell(BASH)
    assert not is_shell(WRITE)
    assert is_writer(EDIT)
    assert not is_writer(READ)


TASK = shipped_task("C5")
TOOLS = [SEND, EVENT, WRITE, *READERS]
MAIL = ("send_email", {"to": "a", "subject": "b", "body": "c"})
FILE = ("write", {"filePath": "a", "content": "b"})
LOOK = ("read", {"filePath": "a"})


@pytest.mark.spec("MON-095", "MON-096", "MON-152")
def test_the_second_change_of_an_answer_is_found_once() -> None:
    seen = view(tools=TOOLS)
    found = checked(TASK, seen, answer(seen, LOOK, MAIL, LOOK, FILE, MAIL))
    assert [action is not None for action in found] == [True, False, False, False, False]
    action = found[0]
    assert action is not None
    assert (action.kind, action.reason) == ("REGENERATE_CALL", "sequence(mutations=3)")
    assert action.text == (
        "These calls change things: send_email, write. Send one, read its result, then decide on the next."
    )
    assert action.detail == {"tool": "write", "index": 3, "mutations": 3}


@pytest.mark.spec("MON-095")
@pytest.mark.parametrize("calls", [(LOOK, LOOK, LOOK), (LOOK, MAIL, LOOK), (("nothing", {}), MAIL)])
def test_reads_and_one_change_among_them_are_fine(calls: Any) -> None:
    seen = view(tools=TOOLS)
    assert checked(TASK, seen, answer(seen, *calls)) == [None] * len(calls)


@pytest.mark.spec("MON-097")
def test_it_never_ends_a_turn() -> None:
    again = view(tools=TOOLS, done=[acted("C5")])
    action = checked(TASK, again, answer(again, MAIL, FILE))[0]
    assert action is not None
    assert (action.kind, action.reason) == ("PASS", "fallback(regenerations=1)")
    seen = view(tools=TOOLS)
    action = checked(TASK, seen, answer(seen, MAIL, FILE, ended="length"))[0]
    assert action is not None
    assert (action.kind, action.reason) == ("PASS", "ended(mutations=2)")


@pytest.mark.spec("MON-100", "MON-074")
def test_it_holds_where_a_changing_tool_is_offered() -> None:
    assert holding(TASK, view(tools=TOOLS))
    assert not holding(TASK, view(tools=READERS))
    assert not holding(TASK, view())
