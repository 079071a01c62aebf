"""The live view's document as far as the terminal shows it (OBS-063). Members of later versions are passed over."""

from __future__ import annotations

from typing import Any

import msgspec

from tandem.cli.client import ChatError

__all__ = ["Document", "Ended", "Final", "Parallel", "Row", "Sample", "read_document"]

CONTRACT = "1."
"""Major version of the contract that is read here."""


class Final(ChatError):
    """Another try would end the same way."""


class Engine(msgspec.Struct, frozen=True):
    state: str
    label: str
    model: str
    base_model: str
    version: str


class Counts(msgspec.Struct, frozen=True):
    in_flight: int
    queued: int
    completed_1m: int
    served: int
    errors: int
    refused: int


class Now(msgspec.Struct, frozen=True):
    decode_tps: float
    prefill_tps: float


class Sample(msgspec.Struct, frozen=True):
    """A second of the past."""

    t: float
    decode_tps: float
    prefill_tps: float


class Conductor(msgspec.Struct, frozen=True):
    """What the session monitor does to the request."""

    label: str


class Activity(msgspec.Struct, frozen=True):
    state: str
    label: str
    conductor: Conductor | None = None


class Row(msgspec.Struct, frozen=True):
    """A request in flight, or one that ended a moment ago."""

    request_id: str
    phase: str
    client_kind: str
    elapsed_ms: float
    ended_at: str | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    decode_tps: float | None = None
    lane: str | None = None
    slot: int | None = None
    activity: Activity | None = None


class Ended(msgspec.Struct, frozen=True):
    """One of the last requests."""

    client_kind: str
    ended_at: str
    sentence: str
    tone: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_ms: float | None = None


class Turn(msgspec.Struct, frozen=True):
    slots: tuple[int, ...]
    hand_overs: int


class Admission(msgspec.Struct, frozen=True):
    reserved_bytes: int
    floor_bytes: int
    waits: int
    available_bytes: int | None = None


class Parallel(msgspec.Struct, frozen=True):
    """What the slots share; only with side slots."""

    turn: Turn
    rounds: dict[str, int]
    admission: Admission | None = None


class Document(msgspec.Struct, frozen=True):
    contract_version: str
    seq: int
    generated_at: str
    engine: Engine
    counts: Counts
    now: Now
    requests: tuple[Row, ...]
    recent: tuple[Ended, ...]
    sample: Sample | None = None
    history: tuple[Sample, ...] | None = None
    parallel: Parallel | None = None


def read_document(value: Any) -> Document:
    """The document in decoded JSON. Raises `Final` where it is none, or of another major version."""
    version = value.get("contract_version") if isinstance(value, dict) else None
    if not isinstance(version, str):
        raise Final("the server sent something that is not Tandem's live view; does --url name the right port?")
    if not version.startswith(CONTRACT):
        raise Final("the server's live view is of another version: use the tandem that came with the server")
    try:
        return msgspec.convert(value, Document)
    except msgspec.ValidationError as error:
        raise Final(f"the server's live view cannot be read: {error}") from None
