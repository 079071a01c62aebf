"""C4: calls that cannot be run are mended where that is certain, else written again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_repair import repaired
from tandem.conductor.monitor.call_schemas import fault
from tandem.conductor.monitor.events import ToolCallEvent
from tests.conductor.monitor.calling import acted, answer, checked, declare, holding, shipped_task, view

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "order": {"enum": ["asc", "desc"]},
        "deep": {"type": "object", "properties": {"kind": {"const": "Any"}}, "required": ["kind"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS = [declare("read", parameters=SCHEMA), declare("bash", "command")]
TASK = shipped_task("C4")
SEEN = view(tools=TOOLS)


def found(name: str, arguments: Any) -> Action | None:
    return checked(TASK, SEEN, answer(SEEN, (name, arguments)))[0]


def block(text: str, why: str = "unclosed", **more: Any) -> Action:
    event = ToolCallEvent(name=more.pop("name", ""), arguments="", text=text, why=why, offered=False, **more)
    (action,) = checked(TASK, SEEN, [replace(event, others=(event,))])
    assert action is not None
    return action


@pytest.mark.spec("MON-093", "MON-094", "MON-152")
@pytest.mark.parametrize(
    ("name", "arguments", "finding", "why", "keyword"),
    [
        ("reed", {}, "unknown_tool", "there is no such tool", "there is no such tool"),
        ("read", {}, "absent", "the argument path is missing", "required"),
        ("read", {"path": "a", "deep": {}}, "absent", "the argument kind is missing in deep", "required"),
        ("read", {"path": "secret", "limit": "x"}, "value", "limit must be of type integer", "type"),
        ("read", {"path": "a", "limit": 0}, "value", "limit does not fit its schema (minimum)", "minimum"),
        ("read", {"path": "a", "order": "up"}, "value", 'order must be one of "asc", "desc"', "enum"),
        (
            "read",
            {"path": "a", "secret": 1},
            "value",
            "arguments has one that the tool does not know",
            "additionalProperties",
        ),
        ("read", "[]", "value", "its arguments are no JSON object", "type"),
        ("read", "{", "unparsable", "its arguments are no JSON", "json"),
    ],
)
def test_what_does_not_fit_is_written_again(name: str, arguments: Any, finding: str, why: str, keyword: str) -> None:
    action = found(name, arguments)
    assert action is not None
    assert (action.kind, action.reason) == ("REGENERATE_CALL", f"malformed({finding})")
    assert action.text == f"The {name} call could not be read: {why}. Write it again in the exact call format."
    length = len(arguments if isinstance(arguments, str) else json.dumps(arguments))
    assert action.detail == {"tool": name, "index": 0, "finding": finding, "length": length, "reason": keyword}
    assert "secret" not in f"{action.text}{action.detail}"


@pytest.mark.spec("MON-093")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("read", {"path": "a", "limit": 3, "order": "asc"}), ("bash", {"command": "ls", "more": 1}), ("bash", "{}")],
)
def test_what_fits_is_no_finding(name: str, arguments: Any) -> None:
    assert found(name, arguments) is None


def test_a_schema_may_say_nullable() -> None:
    schema = {"properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}}
    assert fault('{"a": null}', schema) is None
    assert fault('{"b": null}', schema) is not None


@pytest.mark.spec("MON-094")
def test_a_choice_in_another_case_is_mended() -> None:
    action = found("read", {"path": "ä", "order": " ASC", "deep": {"kind": "any"}})
    assert action is not None
    assert (action.kind, action.reason) == ("REPAIR_CALL", "malformed(value)")
    assert json.loads(action.detail["arguments"]) == {"path": "ä", "order": "asc", "deep": {"kind": "Any"}}
    twofold = fault('{"a": "x"}', {"properties": {"a": {"enum": ["X", "x "]}}})
    assert twofold is not None
    assert twofold.mended == '{"a": "X"}'
    unclear = fault('{"a": "oN"}', {"properties": {"a": {"enum": ["on", "ON"]}}})
    assert unclear is not None
    assert unclear.mended is None


@pytest.mark.spec("MON-094")
def test_once_written_again_the_turn_ends() -> None:
    seen = replace(SEEN, done=(acted("C4"),))
    (action,) = checked(TASK, seen, answer(seen, ("read", {})))
    assert action is not None
    assert (action.kind, action.reason, action.text) == ("GIVE_UP", "malformed(absent)", None)


WHOLE = "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
JSON = '<tool_call>\n{"name": "read", "arguments": {"path": "a}b", "limit": 3}}\n</tool_call>'
LIST = "<|tool_call_start|>[read(path='a.py')]<|tool_call_end|>"


@pytest.mark.spec("MON-094")
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (WHOLE.removesuffix("\n</tool_call>"), {"path": "a.py"}),
        (WHOLE.removesuffix("\n</function>\n</tool_call>"), {"path": "a.py"}),
        (WHOLE.replace("\n</function>", ""), {"path": "a.py"}),
        (WHOLE[12:].removesuffix("\n</function>\n</tool_call>"), {"path": "a.py"}),
        (JSON.removesuffix("\n</tool_call>"), {"path": "a}b", "limit": 3}),
        (JSON.replace("}}\n", "}\n"), {"path": "a}b", "limit": 3}),
        ('<tool_call>{"name": "read", "arguments": {"path": "a"', {"path": "a"}),
        (LIST.removesuffix("<|tool_call_end|>"), {"path": "a.py"}),
        (LIST.removesuffix("]<|tool_call_end|>"), {"path": "a.py"}),
    ],
)
def test_what_lacks_only_its_end_is_mended(text: str, arguments: Any) -> None:
    action = block(text)
    assert action.kind == "REPAIR_CALL"
    (call,) = action.detail["calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("read", arguments)
    assert (action.detail["finding"], action.detail["reason"], action.detail["length"]) == (
        "unparsable",
        "unclosed",
        len(text),
    )


@pytest.mark.spec("MON-094")
@pytest.mark.parametrize(
    "text",
    [
        WHOLE[: WHOLE.index("py")],
        JSON[: JSON.index("}b")],
        JSON[: JSON.index("3") + 1],
        '<tool_call>{"name": "read", "arguments": {"path"',
        '<tool_call>{"name": "read", "arguments": {"limit": 3}',
        '<tool_call>{"name": "other", "arguments": {"path": "a"}',
        '<tool_call>{"name": "read", "arguments": ["path"]}',
        '<tool_call>{"name": "read"]}',
        "<tool_call>\nsomething else",
        "<|tool_call_start|>[read(path='a",
        "[" * 5_000,
        "<tool_call>" * 2_000,
        '<tool_call>{"' + '\\"' * 100_000,
        "",
    ],
)
def test_what_is_not_certain_is_written_again(text: str) -> None:
    action = block(text, why="bad json", name="read")
    assert (action.kind, action.reason) == ("REGENERATE_CALL", "malformed(unparsable)")
    assert action.text == "The read call could not be read: bad json. Write it again in the exact call format."


def test_a_block_of_a_megabyte_is_not_repaired() -> None:
    assert repaired('<tool_call>{"name": "read", "arguments": {"path": "' + "a" * 1_000_000 + '"}', TOOLS) == ()


@pytest.mark.spec("MON-078", "MON-079")
def test_a_block_that_was_cut() -> None:
    text = WHOLE.removesuffix("\n</tool_call>")
    stopped = block(text, complete=False, ended="stop")
    assert (stopped.kind, stopped.reason) == ("PASS", "cut_by_stop")
    limited = block(text, complete=False, ended="length")
    assert (limited.kind, limited.reason) == ("GIVE_UP", "cut(length)")
    event = ToolCallEvent(name="", arguments="", text=text, why="unclosed", complete=False, ended="length")
    (passed,) = checked(shipped_task("C4", cut="pass"), SEEN, [event])
    assert passed is not None
    assert (passed.kind, passed.reason) == ("PASS", "cut(length)")


@pytest.mark.spec("MON-074")
def test_it_holds_where_tools_are_offered() -> None:
    assert holding(TASK, SEEN)
    assert not holding(TASK, view())


LOOP: dict[str, Any] = {"$ref": "#"}
WIDE = {"$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}, "$ref": "#/$defs/d0"}
WIDE["$defs"]["d40"] = {"properties": {"a": {"type": "integer"}}}  # type: ignore[index]
DEEP: dict[str, Any] = {}
for _ in range(3_000):
    DEEP = {"properties": {"a": DEEP}}


@pytest.mark.parametrize(
    "schema",
    [
        LOOP,
        WIDE,
        DEEP,
        {"$ref": "https://example.invalid/schema"},
        {"$ref": "#/nowhere"},
        {"type": "no such type"},
        {"type": 3},
        {"properties": []},
        {"required": 3},
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {"patternProperties": {"(a+)+$": {"type": "integer"}}, "additionalProperties": False},
        {"properties": {"a": {"minLength": "x"}}, "items": [1]},
        None,
        True,
    ],
)
def test_no_schema_of_a_client_does_any_harm(schema: Any) -> None:
    assert fault(json.dumps({"a": "a" * 40 + "!"}), schema) is None


@pytest.mark.parametrize(
    "arguments",
    ["[" * 100_000, '{"a": ' * 100_000, '{"path": "\\ud800"}', '{"path": "a", "limit": ' + "9" * 5_000 + "}"],
)
def test_no_arguments_do_either(arguments: str) -> None:
    found = fault(arguments, SCHEMA)
    assert found is None or found.finding == "unparsable"


def test_a_long_list_is_looked_at_for_a_while() -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    assert fault(json.dumps({"a": ["x"] * 100_000 + [1]}), schema) is None
    assert fault(json.dumps({"a": ["x", 1]}), schema) is not None


@pytest.mark.spec("MON-093")
def test_the_calls_of_one_answer_share_what_may_be_looked_at() -> None:
    schema = {"properties": {f"p{at}": {"type": "string"} for at in range(100)}}
    wrong = json.dumps({f"p{at}": at if at == 99 else "x" for at in range(100)})
    assert fault(wrong, schema) is not None
    assert fault(wrong, schema, calls=128) is None
