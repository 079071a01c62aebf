"""The calls of one answer, judged together: all checks see all of them before any goes out (MON-076 to MON-079)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tandem.conductor.monitor.events import ToolCallEvent
from tandem.conductor.monitor.record import Finding
from tandem.engine.text.reading.deltas import FinishReason
from tandem.engine.text.reading.held import Held

__all__ = ["CallFinding", "call_events", "is_cut_by_stop", "open_event", "release_block", "release_call", "repaired"]

CUTS: Final = ("stop", "length", "timeout")


@dataclass(frozen=True, slots=True)
class CallFinding:
    """What a task wants done about one of the held items."""

    item: Held
    finding: Finding


def call_events(
    items: Sequence[Held], tools: Sequence[Mapping[str, Any]], ended: FinishReason | None, position: int
) -> tuple[ToolCallEvent, ...]:
    """One event an item, each with all of them as its `others`."""
    schemas = _schemas(tools)
    events = tuple(
        ToolCallEvent(
            name=item.name,
            arguments=item.arguments,
            index=item.index,
            schema=schemas.get(item.name),
            offered=item.name in schemas,
            text=item.text,
            why=item.why,
            complete=item.complete,
            ended=ended if ended in CUTS else None,
            position=position,
        )
        for item in items
    )
    return tuple(replace(event, others=events) for event in events)


def open_event(tool: str | None, text: str, index: int, tools: Sequence[Mapping[str, Any]], at: int) -> ToolCallEvent:
    """The block that is being written."""
    schemas, name = _schemas(tools), tool or ""
    return ToolCallEvent(
        name=name,
        arguments="",
        index=index,
        schema=schemas.get(name),
        offered=name in schemas,
        final=False,
        text=text,
        complete=False,
        position=at,
    )


def is_cut_by_stop(event: ToolCallEvent) -> bool:
    """A block that the client's stop string cut is plain text to the client (MON-079)."""
    return event.why is not None and not event.complete and event.ended == "stop"


def release_call(item: Held, arguments: str | None = None) -> Held:
    """A call as it goes out: with other arguments, where it was repaired (MON-144)."""
    return item if arguments is None else replace(item, arguments=arguments)


def release_block(item: Held, calls: Sequence[Mapping[str, Any]] = ()) -> tuple[Held, ...]:
    """A rejected block as it goes out: as content, or as the calls (`name`, `arguments`) that a repair read in it."""
    if not calls:
        return (item,)
    return tuple(
        Held(index=item.index, name=call["name"], arguments=call["arguments"], text=item.text, at=item.at)
        for call in calls
    )


def repaired(items: Sequence[Held], repairs: Mapping[int, Mapping[str, Any]]) -> tuple[Held, ...]:
    """The set with what `REPAIR_CALL` details say, by the items' indexes."""
    found: list[Held] = []
    for item in items:
        detail = repairs.get(item.index, {})
        if item.why is None:
            found.append(release_call(item, detail.get("arguments")))
        else:
            found += release_block(item, detail.get("calls", ()))
    return tuple(found)


def _schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any] | None]:
    """The parameters of each offered tool; of two of one name the first counts (API-104)."""
    functions = [tool.get("function", {}) for tool in reversed(tools)]
    return {function.get("name", ""): function.get("parameters") for function in functions}
