"""What the queue is told of a request: its rank, what it needs of a slot, how long it may wait, whether it may be lent
to (SCH-011, SCH-018, SCH-019, SCH-038, API-198). Plain decisions from what is known before the queue.

All that is asked of a lane job is that it be small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tandem.actors.line import Rank
from tandem.actors.queue import Needs
from tandem.config import Settings
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.side import side_shape

__all__ = ["NOTES_MOST", "SHORT_SIDE", "Entry", "Limits", "entry_of", "limits_of"]

SHORT_SIDE = 8_192
"""Prompt rows up to which a side request is a guest of the resident prefix, so that it may overtake (SCH-012)."""
NOTES_MOST = 8_192
"""Prompt rows that a plan may still add under the grant (SCH-050)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a request enters the queue."""

    rank: Rank
    needs: Needs
    wait_s: float
    """The longest wait for a grant, from arrival on."""
    is_lane: bool = False
    """A holder may serve it between two steps of its own."""
    is_guest: bool = False
    """Slot 0 lends it the engine: what is resident there stays, also where that is a guest itself (RTR-010)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of a request; times in seconds."""

    request_timeout: float
    prefill_heartbeat: float
    looks: bool = False
    """It is looked at often, because progress lines may be due (STA-023)."""


def entry_of(
    prompt: Prompt,
    settings: Settings,
    *,
    limit: int,
    choices: int,
    stream: bool,
    messages: Sequence[Mapping[str, Any]] = (),
    has_tools: bool = False,
    is_side: bool | None = None,
) -> Entry:
    """`messages` and `has_tools` are as the client sent them: a client's own title or summary call shows in them,
    unless a plan has said whether it is one.
    """
    rows = len(prompt.ids)
    if is_side is None:
        is_side = side_shape(messages, has_tools=has_tools) is not None
    rank = Rank.TURN if not is_side else Rank.SIDE if rows <= SHORT_SIDE else Rank.LONG_SIDE
    is_small = rows <= settings.side_lane_prompt_max and limit <= settings.side_lane_new_max and choices == 1
    is_plain = not prompt.images and prompt.thinking == "off"
    return Entry(
        rank=rank,
        needs=Needs(prompt=rows, output=limit, text_only=not prompt.images, keys=prompt.keys),
        wait_s=settings.request_timeout if stream or is_side else settings.queue_timeout,
        is_lane=settings.side_lane != "off" and is_small and is_plain,
    )


def limits_of(settings: Settings, *, looks: bool) -> Limits:
    """Those of a client's request."""
    heartbeat = settings.prefill_heartbeat_s
    return Limits(request_timeout=settings.request_timeout, prefill_heartbeat=heartbeat, looks=looks)


def with_question(entry: Entry, prompt: Prompt) -> Entry:
    """That of a request whose slot first reads `prompt`, which asks, and then the turn with what its plan adds. No
    holder can serve two things, so nobody is lent to.
    """
    needs = replace(entry.needs, prompt=len(prompt.ids), margin=entry.needs.margin + NOTES_MOST)
    return replace(entry, needs=needs, is_lane=False)
