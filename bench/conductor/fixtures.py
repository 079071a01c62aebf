"""Sessions to be replayed: what a client sends, turn after turn. Answers are the fixture's own.

A step's `do` says what happens: `user` and `tool` add a message, `again` asks the last user turn once more, `edit` puts
another text in its place, `side` is a request beside the conversation, `compaction` has the history summarised (its
`text` is the summary) and goes on with that, `restart` ends the server between two turns. `class` and `sure` are the
answer to the class question where nobody real gives one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.conductor.labelled import Message, material
from tandem.conductor.router.compaction import COMPACTION_SHAPES
from tandem.engine.text.side import SIDE_SHAPES

__all__ = ["Fixture", "Request", "Step", "fixtures", "requests"]

HERE = Path(__file__).parent / "sessions"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"class_": "class"}):
    """One thing that happens."""

    do: Literal["user", "tool", "again", "edit", "side", "compaction", "restart"]
    text: str = ""
    material: str | None = None
    class_: str = "chat"
    sure: float = 0.95
    answer: str = ""
    call: str | None = None
    """Arguments of a call of the first tool, in place of an answer."""
    shape: str | None = None
    directory: str = ""

    @property
    def said(self) -> str:
        return self.text if self.material is None else f"{self.text}\n\n{material(self.material)}"


class Fixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One session."""

    about: str
    kind: Any
    steps: tuple[Step, ...]
    system: str = ""
    headers: dict[str, str] = {}
    """What tells the conversation, as this client sends it."""
    tools: tuple[dict[str, Any], ...] = ()
    moves: bool = False
    """Its tools tell a working directory that changes: raw reads all of it again, a plan does not."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, and the answer as the client keeps it; no messages: the server restarts."""

    what: str
    step: Step
    messages: tuple[Message, ...] = ()
    tools: tuple[Message, ...] = ()
    answer: Message | None = None


def fixtures() -> dict[str, Fixture]:
    paths = sorted(HERE.glob("*.json"))
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Fixture) for path in paths}


def requests(fixture: Fixture) -> Iterator[Request]:
    """The session's requests, in order."""
    head: list[Message] = [{"role": "system", "content": fixture.system}] if fixture.system else []
    history = list(head)
    for number, step in enumerate(fixture.steps, 1):
        what = f"{number} {step.do}"
        match step.do:
            case "restart":
                yield Request(what, step)
                continue
            case "side":
                yield Request(what, step, tuple(_side(step)))
                continue
            case "compaction":
                summarised = ({"role": "system", "content": COMPACTION_SHAPES[0]}, _user(_told(history)))
                yield Request(what, step, summarised, (), {"role": "assistant", "content": step.text})
                history = [*head, _user(f"So far:\n{step.text}"), {"role": "assistant", "content": "I see."}]
                continue
            case "user":
                history.append(_user(step.said))
            case "tool":
                history.append({"role": "tool", "tool_call_id": _call_id(history), "content": step.said})
            case "again":
                del history[_last_user(history) + 1 :]
            case "edit":
                del history[_last_user(history) :]
                history.append(_user(step.said))
        answer = _answer(step, fixture, len(history))
        yield Request(what, step, tuple(history), tuple(_tools(fixture, step)), answer)
        history.append(answer)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _side(step: Step) -> Iterator[Message]:
    shape = next(shape for shape in SIDE_SHAPES if shape.id == step.shape)
    if shape.role == "system":
        yield {"role": "system", "content": shape.opens[0]}
        yield _user(step.said)
    else:
        yield _user(f"{shape.opens[0]}\n\n{step.said}")


def _answer(step: Step, fixture: Fixture, number: int) -> Message:
    if step.call is None:
        return {"role": "assistant", "content": step.answer}
    function = {"name": fixture.tools[0]["name"], "arguments": step.call}
    return {
        "role": "assistant",
        "content": step.answer,
        "tool_calls": [{"id": f"call{number}", "type": "function", "function": function}],
    }


def _tools(fixture: Fixture, step: Step) -> Iterator[Message]:
    for tool in fixture.tools:
        described = tool["description"].replace("{directory}", step.directory)
        yield {"type": "function", "function": {**tool, "description": described}}


def _last_user(history: list[Message]) -> int:
    return max(at for at, message in enumerate(history) if message["role"] == "user")


def _call_id(history: list[Message]) -> str:
    return str(history[-1]["tool_calls"][0]["id"])


def _told(history: list[Message]) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in history)
