"""What can be seen of a request while it runs: facts without a word of its prompt or answer (OBS-048, OBS-064)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["ConductorSeen", "Phase", "RequestSeen"]

Phase: TypeAlias = Literal["reading", "queued", "prefilling", "writing", "finishing"]
"""Body, images and prompt are read; waits for a slot, or in it for memory; its prompt is read; writes; its last pieces
go out."""


class ConductorSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the session monitor does to a request."""

    mode: str
    """`on`, or `shadow`, which acts on nothing."""
    acts: int
    hidden_tokens: int
    """Read by the model and not sent to the client, those of the prompt among them."""
    task: str | None
    """Of the newest finding; `decision` is what was due, `action` what was done of it."""
    decision: str | None
    action: str | None
    supervising: bool
    """Hidden text is read, or a hidden question asked, at this moment."""


class RequestSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request at one moment. Times are seconds on trio's clock; None is what has not happened or is not known.

    A struct and no dataclass, as it is made for every request at every tick, and takes a fifth of the time.
    """

    request_id: str
    endpoint: str
    """`chat` or `completions`."""
    stream: bool
    model: str | None
    """The name the client sent."""
    client_kind: str
    client_id: str
    mode: str
    profile: str | None
    thinking: str | None
    """`on`, `off` or None, as in the ledger."""
    temperature: float | None
    max_tokens: int | None
    choices: int
    choice: int
    """Index of the choice that is written."""
    phase: Phase
    ts_ms: int
    """Arrival on the wall clock, milliseconds since 1970."""
    arrived_at: float
    granted_at: float | None
    first_at: float | None
    last_at: float | None
    client_gone_at: float | None
    """When the client's connection was found closed."""
    slot: int | None
    wait_s: float | None
    """How long it may wait for its slot, from its arrival on."""
    lane: str | None
    """`decode`, `prefill` or `self` of a side-lane guest, as in the ledger."""
    missing: int
    """Bytes of memory that it waits for, in its slot; 0 where it does not."""
    memory_place: int
    """Among those who wait for memory."""
    prompt_tokens: int | None
    """As the client counts them."""
    rows: int | None
    """Prompt rows of the engine, `read` of them read, `resumed` of those found in a cache."""
    read: int
    resumed: int
    cache_source: str
    """As in the `timings` of its answer."""
    image: tuple[int, int] | None
    """Of the images in the prompt the one that is read next, from 1 on, and how many there are."""
    completion: int
    """Tokens written, of all choices; `reasoning` of them in thinking blocks."""
    reasoning: int
    in_reasoning: bool
    in_call: bool
    tool: str | None
    """Name of the newest tool call."""
    tool_bytes: int
    """Bytes of that call's arguments so far."""
    tool_open: bool
    """Whether that call is still being written."""
    rounds: int
    drafted: int
    draft_accepted: int
    is_closed: bool
    """Its record has been written: nothing more comes of it."""
    line: str | None = None
    """Its newest state line (SCH-104)."""
    conductor: ConductorSeen | None = None
    """There where the session monitor looks on."""
