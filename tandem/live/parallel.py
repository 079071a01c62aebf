"""The part of the live view's document that tells how requests share the engine; only with side slots (OBS-085)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["AdmissionNow", "GuestNow", "LaneNow", "Parallel", "SlotNow", "SlotState", "TurnNow"]

SlotState: TypeAlias = Literal["idle", "own", "memory", "prefilling", "writing", "gone"]
"""`own`: the service's own work holds it. `memory`: its request waits for memory. `gone`: it is out of service."""


class GuestNow(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str
    label: str


class SlotNow(msgspec.Struct, frozen=True, kw_only=True):
    """`gpu_s` is the GPU time it has had since the start; `guests` are lane jobs that it serves between its steps."""

    slot: int
    state: SlotState
    request_id: str | None
    label: str
    since_ms: float | None
    gpu_s: float
    guests: tuple[GuestNow, ...]


class TurnNow(msgspec.Struct, frozen=True, kw_only=True):
    """Who had the GPU turn when the scheduler last said so: several slots in a joint pass; own work has slot 0's."""

    slots: tuple[int, ...]
    hand_overs: int


class LaneNow(msgspec.Struct, frozen=True, kw_only=True):
    """Guests that have ended, by what their holder was at; `self`: the engine was theirs alone."""

    waiting: int
    served: dict[str, int]


class AdmissionNow(msgspec.Struct, frozen=True, kw_only=True):
    """`available_bytes` is None where the system does not say. `waiting` are the sentences of those who wait now."""

    reserved_bytes: int
    floor_bytes: int
    available_bytes: int | None
    waits: int
    waiting: tuple[str, ...]


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """`rounds` are joint passes by how many slots shared them; `meeting` is empty unless rounds are timed (SCH-070)."""

    slots: tuple[SlotNow, ...]
    turn: TurnNow
    rounds: dict[str, int]
    lane: LaneNow
    admission: AdmissionNow | None
    meeting: dict[str, dict[str, float]]
