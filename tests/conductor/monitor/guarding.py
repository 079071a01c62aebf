"""What the loop guards are shown: texts as they are while they are written, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import BlockEvent, RequestEvent, ToolCallEvent, View
from tandem.conductor.monitor.state import NOTHING_SEEN, Monitored
from tandem.conductor.monitor.tier0 import registered
from tandem.engine.fake.vocabulary import Vocabulary
from tandem.engine.text.reading.trace import OpenBlock, Trace
from tests.conductor.monitor.calling import shipped_task

__all__ = ["WORDS", "answering", "asked_again", "calling", "cut", "first", "thinking"]

WORDS = Vocabulary()
SENTENCES = {"answer_loop": "[a piece of {unit}, {copies} times]"}


def cut(text: str, size: int = 0) -> list[str]:
    """Pieces of `size` characters, or as the fake cuts a text."""
    if size:
        return [text[at : at + size] for at in range(0, len(text), size)]
    return [WORDS.piece(token).decode() for token in WORDS.encode(text)]


def ids_of(pieces: Sequence[str]) -> list[int]:
    return [hash(piece) for piece in pieces]


def thinking(
    pieces: Sequence[str], *, task: str = "D1", session: Monitored = NOTHING_SEEN, **req: Any
) -> Action | None:
    """What the task says of a thinking block of these tokens."""
    trace = Trace(reasoning=ids_of(pieces), thoughts=list(pieces))
    event = BlockEvent(reasoning_tokens=len(pieces), answer_tokens=0, inside=True, position=7)
    return _asked(task, event, trace, session, **req)


def answering(
    pieces: Sequence[str],
    *,
    task: str = "D3",
    session: Monitored = NOTHING_SEEN,
    ids: Sequence[int] | None = None,
    **req: Any,
) -> Action | None:
    """What the task says of an answer."""
    trace = Trace(answer_ids=list(ids or ids_of(pieces)), answer=list(pieces))
    event = BlockEvent(reasoning_tokens=0, answer_tokens=len(trace.answer_ids), inside=False)
    return _asked(task, event, trace, session, **req)


def calling(
    pieces: Sequence[str], *, session: Monitored = NOTHING_SEEN, tool: str = "write", **req: Any
) -> Action | None:
    """What A1 says of a call block that is being written."""
    trace = Trace(block=OpenBlock(list(pieces), ids_of(pieces), tool))
    event = ToolCallEvent(name=tool, arguments="", text="".join(pieces), final=False, complete=False)
    return _asked("A1", event, trace, session, **req)


def asked_again(
    messages: Sequence[Mapping[str, Any]], *, session: Monitored = NOTHING_SEEN, **req: Any
) -> Action | None:
    """What A1 says of a request with tools."""
    task = shipped_task("A1")
    event = RequestEvent(**{"messages": messages, "tools": ({"type": "function"},), **req})
    at_request = registered()[task.rule].at_request
    assert at_request is not None
    found = at_request(event, task, View(req=event, trace=Trace(), session=session))
    assert found is None or isinstance(found, Action)
    return found


def first(look: Any, pieces: Sequence[str], start: int = 64) -> tuple[int, Action] | None:
    """How many tokens there are at the first finding, looked for every 64, and what it is."""
    for end in range(start, len(pieces) + 1, 64):
        found = look(pieces[:end])
        if found is not None:
            return end, found
    return None


def _asked(id: str, event: Any, trace: Trace, session: Monitored, **req: Any) -> Action | None:
    task = shipped_task(id)
    request = RequestEvent(**{"messages": ({"role": "tool", "content": "ok"},), **req})
    view = View(req=request, trace=trace, session=session, texts=SENTENCES)
    found = registered()[task.rule].fn(event, task, view)
    assert found is None or isinstance(found, Action)
    return found
