"""Messages with calls, and the checks of calls as the shipped policy has them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tandem.conductor.monitor.rules  # noqa: F401  (registers them)
from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import MonitorEvent, RequestEvent, Task, ToolCallEvent, View
from tandem.conductor.monitor.policy import Policy, policy_of, shipped_body
from tandem.conductor.monitor.state import NOTHING_SEEN, Monitored
from tandem.conductor.monitor.tier0 import registered
from tandem.conductor.tool_arguments import declared
from tandem.engine.text.reading.trace import Trace

__all__ = [
    "USER",
    "acted",
    "answer",
    "called",
    "checked",
    "declare",
    "holding",
    "round_of",
    "shipped",
    "shipped_task",
    "view",
]

USER: Mapping[str, Any] = {"role": "user", "content": "Do it"}


@functools.cache
def shipped() -> Policy:
    """The policy that ships."""
    return policy_of(shipped_body())


def shipped_task(id: str, **params: Any) -> Task:
    task = next(task for task in shipped().tasks if task.id == id)
    return replace(task, mode="act", params={**task.params, **params})


def declare(name: str, *arguments: str, description: str = "", **more: Any) -> dict[str, Any]:
    """A tool with arguments of type string; `more` is laid over its function."""
    parameters = {"type": "object", "properties": {each: {"type": "string"} for each in arguments}}
    function = {"name": name, "description": description, "parameters": parameters, **more}
    return {"type": "function", "function": function}


def round_of(*made: tuple[str, str, str], id: str = "c") -> list[dict[str, Any]]:
    """An assistant's message with calls (tool, arguments, result), and the results."""
    calls = [
        {"id": f"{id}{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments, _) in enumerate(made)
    ]
    results = [{"role": "tool", "tool_call_id": f"{id}{at}", "content": each[2]} for at, each in enumerate(made)]
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *results]


def called(*made: tuple[str, str, str], start: int = 0) -> list[dict[str, Any]]:
    """One call a message, each with an id of its own."""
    return [message for at, each in enumerate(made, start) for message in round_of(each, id=f"k{at}-")]


def view(
    messages: Sequence[Mapping[str, Any]] = (USER,),
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    session: Monitored = NOTHING_SEEN,
    now: float = 1_000.0,
    done: Sequence[MonitorEvent] = (),
    **req: Any,
) -> View:
    request = RequestEvent(messages=messages, tools=tools, now=now, **req)
    return View(req=request, trace=Trace(), session=session, done=tuple(done))


def answer(seen: View, *calls: tuple[str, Any], ended: str | None = None) -> tuple[ToolCallEvent, ...]:
    """The events of an answer's calls (tool, arguments)."""
    events = []
    for at, (name, arguments) in enumerate(calls):
        tool = declared(seen.req.tools, name)
        schema = None if tool is None else tool["function"].get("parameters")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        events.append(
            ToolCallEvent(name=name, arguments=written, index=at, schema=schema, offered=tool is not None, ended=ended)
        )
    return tuple(replace(event, others=tuple(events)) for event in events)


def checked(task: Task, seen: View, events: Sequence[ToolCallEvent]) -> list[Action | None]:
    """What the task's rule says of each."""
    rule = registered()[task.rule]
    found = [rule.fn(event, task, seen) for event in events]
    assert all(each is None or isinstance(each, Action) for each in found)
    return found  # type: ignore[return-value]


def holding(task: Task, seen: View) -> bool:
    holds = registered()[task.rule].holds
    assert holds is not None
    return holds(task, seen)


def acted(task: str, kind: Any = "REGENERATE_CALL") -> MonitorEvent:
    return MonitorEvent(task=task, rule=None, tier=0, sp="SP3", mode="act", decision=kind, acted=kind, reason="")
