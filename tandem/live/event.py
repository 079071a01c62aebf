"""The live view's document: one event, whole, as it goes out (OBS-063, OBS-064); its schema is in `contract/`.

Running times are milliseconds up to the event, dates ISO 8601, figures the ledger's. None is not known, or not yet.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tandem.live.conductor import ConductorNow
from tandem.live.parallel import Parallel

__all__ = [
    "CONTRACT_VERSION",
    "Activity",
    "ActivityState",
    "ClientNow",
    "Counts",
    "DecodeNow",
    "EngineNow",
    "Event",
    "Holder",
    "ImageNow",
    "Kv",
    "Memory",
    "Now",
    "OwnNow",
    "Phase",
    "PrefillNow",
    "QueueNow",
    "Reason",
    "Recent",
    "Row",
    "Sample",
    "SamplerNow",
    "Step",
    "Tone",
    "ToolNow",
]

CONTRACT_VERSION = "1.2"

ActivityState: TypeAlias = Literal[
    "arriving", "queued", "prefilling", "thinking", "writing", "tool_call", "finishing", "done", "unknown"
]
"""Those of OBS-065 that there are yet; `arriving` is before the queue, `unknown` a request that cannot be looked at."""
Phase: TypeAlias = Literal["reading", "queued", "prefilling", "writing", "finishing", "done", "unknown"]
Reason: TypeAlias = Literal["running", "side", "own", "deciding", "memory"]
"""Why a request waits (SCH-028), as the queue names it."""
Tone: TypeAlias = Literal["ok", "warn", "bad"]


class Kv(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the longest sequence in work, against the served window."""

    length: int
    limit: int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Of the process, in RAM."""

    rss_bytes: int | None
    peak_bytes: int | None


class OwnNow(msgspec.Struct, frozen=True, kw_only=True):
    """The service's own work that holds the engine, by name."""

    name: str
    label: str
    since_ms: float


class EngineNow(msgspec.Struct, frozen=True, kw_only=True):
    state: Literal["idle", "busy", "draining"]
    label: str
    since_ms: float
    model: str
    base_model: str
    version: str
    kv: Kv
    memory: Memory
    own_work: OwnNow | None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """`lane`: of those queued; `completed_1m`: ended well in the last minute; the last three: since the start."""

    in_flight: int
    queued: int
    lane: int
    prefilling: int
    decoding: int
    completed_1m: int
    served: int
    errors: int
    refused: int


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of the last two seconds."""

    decode_tps: float
    prefill_tps: float
    prefilling: bool
    tokens_per_block: float | None
    last_prefill_ms_ago: float | None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the engine, and what it does there."""

    request_id: str
    client_kind: str
    endpoint: str
    slot: int | None
    state: ActivityState
    since_ms: float
    label: str


class QueueNow(msgspec.Struct, frozen=True, kw_only=True):
    """`place` 1 is granted next if nobody comes or goes: of the line, of the side lane, or of those who lack memory."""

    place: int | None
    of: int
    waited_ms: float
    timeout_s: float | None
    reason: Reason
    estimate_s: float | None
    is_lane: bool
    missing_bytes: int | None
    holder: Holder | None


class ImageNow(msgspec.Struct, frozen=True, kw_only=True):
    """The image whose rows come next, 1 is the prompt's first."""

    number: int
    of: int


class PrefillNow(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt rows; `eta_s` is what is left at the rate so far."""

    done: int
    total: int
    cached: int
    percent: float
    rate: float | None
    eta_s: float | None
    image: ImageNow | None


class DecodeNow(msgspec.Struct, frozen=True, kw_only=True):
    thinking_tokens: int
    content_tokens: int
    rounds: int
    tokens_per_round: float | None
    rate: float | None


class ToolNow(msgspec.Struct, frozen=True, kw_only=True):
    """The newest call: its name, and the size of its arguments so far."""

    name: str
    bytes: int


class ClientNow(msgspec.Struct, frozen=True, kw_only=True):
    connected: bool
    gone_ms: float | None


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    state: ActivityState
    label: str
    since_ms: float | None
    queue: QueueNow | None = None
    prefill: PrefillNow | None = None
    decode: DecodeNow | None = None
    tool: ToolNow | None = None
    client: ClientNow
    conductor: ConductorNow | UnsetType = UNSET


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A state, and when it began after the request's arrival."""

    state: ActivityState
    at_ms: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request, in flight or just ended. `sentence` and `tone` tell its end."""

    request_id: str
    phase: Phase
    status: int | None = None
    finish_reason: str | None = None
    model: str | None = None
    mode: str = "raw"
    profile: str | None = None
    client_kind: str = "anon"
    client_id: str = "anon"
    endpoint: str | None = None
    stream: bool | None = None
    thinking: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    choices: int = 1
    choice: int = 0
    arrived_at: str
    ended_at: str | None = None
    elapsed_ms: float
    queue_ms: float | None = None
    prompt_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    forwarded_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    blocks: int | None = None
    tokens_per_block: float | None = None
    decode_tps: float | None = None
    prefill_tps: float | None = None
    cache_source: str | None = None
    lane: str | None = None
    slot: int | None = None
    line: str | None = None
    sentence: str | None = None
    tone: Tone | None = None
    activity: Activity | None = None
    timeline: tuple[Step, ...] = ()


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """A request that has ended, in short."""

    request_id: str
    ended_at: str
    endpoint: str
    stream: bool
    model: str | None
    client_kind: str
    client_id: str
    status: int
    finish_reason: str
    sentence: str
    tone: Tone
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    queue_ms: float | None
    ttft_ms: float | None
    total_ms: float
    decode_tps: float | None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One second: `t` is its end in seconds since 1970, `tokens` were written in it."""

    t: float
    decode_tps: float
    prefill_tps: float
    running: int
    waiting: int
    tokens: int


class SamplerNow(msgspec.Struct, frozen=True, kw_only=True):
    """What the view itself costs: CPU time of a tick, the mean of the last ones."""

    ticks: int
    encodes: int
    tick_cost_ms: float
    readers: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    contract_version: str = CONTRACT_VERSION
    seq: int
    generated_at: str
    interval_s: float
    engine: EngineNow
    counts: Counts
    now: Now
    requests: tuple[Row | msgspec.Raw, ...]
    """Those that have ended are encoded once, at their end."""
    recent: tuple[msgspec.Raw, ...]
    parallel: Parallel | UnsetType = UNSET
    """Only with side slots."""
    sample: Sample | None
    history: tuple[Sample, ...] | UnsetType = UNSET
    sampler: SamplerNow
