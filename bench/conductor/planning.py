"""What planning a request takes of the processor beside its questions (RTR-029): at first sight of a conversation, and
on its next turn. Rendering and tokenising are not counted: the raw path does them too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from bench.conductor.desk import Desk
from bench.conductor.labelled import Message, material
from tandem.bench.report import Report
from tandem.conductor.router.placing import place
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.router.prepare import prepare
from tandem.engine.text.model import TextModel

__all__ = ["conversation", "planning_report"]

T = TypeVar("T")
STEPS = ("prepare", "plan", "place")
SITUATIONS = ("first sight", "user turn", "tool turn")
MATERIAL = ("python", "log", "html", "table")
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "shell",
            "description": "Runs a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    },
)


def conversation(count: int, mark: str = "") -> list[Message]:
    """`count` messages: in turn a user's, a call, what it printed, an answer; then the newest of the user."""
    messages: list[Message] = []
    for at in range(count):
        match at % 4:
            case 0:
                messages.append({"role": "user", "content": f"{mark}Now look at part {at} and change what is wrong."})
            case 1:
                arguments = f'{{"command": "cat part{at}.py"}}'
                call = {"id": f"c{at}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            case 2:
                text = material(MATERIAL[at // 4 % len(MATERIAL)])
                messages.append({"role": "tool", "tool_call_id": f"c{at - 1}", "content": f"{at}\n{text}"})
            case _:
                messages.append({"role": "assistant", "content": f"Part {at - 3} is done; its last line was wrong."})
    return [*messages, {"role": "user", "content": f"{mark}And what of part {count}?"}]


def planning_report(text: TextModel, *, count: int = 200, rounds: int = 7) -> Report:
    """Medians over `rounds` conversations of `count` messages, each with its next two turns."""
    taken: dict[str, list[dict[str, float]]] = {}
    tokens = 0
    for number in range(rounds):
        desk = Desk(text, _sure)
        messages = conversation(count, f"{number}. ")
        for name in SITUATIONS:
            if name != SITUATIONS[0]:
                messages = [*messages, *_more(name)]
            times, tokens = _planned(desk, messages)
            taken.setdefault(name, []).append(times)
    rows: list[tuple[str, ...]] = [
        (step, *(f"{statistics.median(each[step] for each in taken[name]):.2f}" for name in SITUATIONS))
        for step in STEPS
    ]
    sums = {name: [sum(each.values()) for each in all_] for name, all_ in taken.items()}
    decided = {name: [each["prepare"] + each["plan"] for each in all_] for name, all_ in taken.items()}
    rows.append(("prepare and plan, best", *(f"{min(decided[name]):.2f}" for name in SITUATIONS)))
    rows.append(("together", *(f"{statistics.median(sums[name]):.2f}" for name in SITUATIONS)))
    rows.append(("together, best", *(f"{min(sums[name]):.2f}" for name in SITUATIONS)))
    rows.append(("together, worst", *(f"{max(sums[name]):.2f}" for name in SITUATIONS)))
    return Report(
        f"Planning on {count} messages of {tokens:,} tokens, CPU ms",
        ("step", *SITUATIONS),
        tuple(rows),
        (
            "aims: 100 ms at first sight, 1 ms seen before, the median of a turn that asks nothing (RTR-029)",
            "a user turn asks its class and package here; place copies the prompt's ids once",
        ),
    )


def _more(name: str) -> list[Message]:
    """What a turn of this kind adds."""
    if name == "user turn":
        return [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on with the next part."}]
    call = {"id": "last", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "last", "content": "part1.py part2.py"},
    ]


def _planned(desk: Desk, messages: Sequence[Message]) -> tuple[dict[str, float], int]:
    """CPU milliseconds of each step, and the prompt's tokens. Like a body's, its strings have never been hashed."""
    facts = desk.facts(msgspec.json.decode(msgspec.json.encode(messages)), tools=TOOLS, kind="opencode")
    taken: dict[str, float] = {}
    prepared = _timed(taken, "prepare", lambda: prepare(desk.kit, facts, desk.documents))
    session = desk.sessions.open(prepared.session)
    prompt = desk.text.render(prepared.conversation)
    plan = _timed(taken, "plan", lambda: desk.plan(prepared, session, prompt))
    placed = _timed(taken, "place", lambda: place(desk.kit, plan, prompt))
    if placed.delta is not None:
        desk.sessions.commit(session, placed.delta)
    return taken, len(prompt.ids)


def _timed(taken: dict[str, float], name: str, work: Callable[[], T]) -> T:
    started = time.thread_time()
    done = work()
    taken[name] = 1e3 * (time.thread_time() - started)
    return done


def _sure(question: Question) -> Answer:
    picked = "code_edit" if question.id == "class" else "none"
    shares: dict[str, Any] = {option.id: float(option.id == picked) for option in question.options}
    return Answer(probabilities=shares)
