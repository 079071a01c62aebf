"""What became of a request: the one record that ledger row, log line, metrics and live view are made from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One request, ended. Token columns are None where nothing was generated (OBS-003). Milliseconds are floats."""

    request_id: str
    ts_ms: int
    """Arrival, wall clock, milliseconds since the epoch."""
    endpoint: str
    """`chat` or `completions`."""
    stream: bool
    status: int
    """The HTTP status, or the one a refusal inside an open stream would have had (OBS-014)."""
    finish_reason: str
    """`stop`, `length`, `tool_calls`, `timeout`, `abandoned`, `error` or `refused`."""
    error_type: str | None = None
    """The error's `code`, else its `type`."""
    stop_detail: str | None = None
    model: str | None = None
    """The name the client sent."""
    model_served: str = "TandemLLM"
    client_id: str = "anon"
    client_kind: str = "anon"
    conductor_mode: str = "raw"
    profile: str | None = None
    thinking: str | None = None
    """`on` or `off`; None for text completions and where no prompt was made."""
    sampling: str | None = None
    """`client`, `regenerate`, `loop_escape` or `card`; None is greedy."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    conductor_acts: int | None = None
    conductor_acted: bool = False
    conductor_hidden_tokens: int | None = None
    engine_cached: int | None = None
    forwarded_tokens: int | None = None
    lane: str | None = None
    """`decode`, `prefill` or `self` of a side-lane guest."""
    lent_ms: float | None = None
    """How long its holder stood still for it: for the log line, no column."""
    wait_own_ms: float | None = None
    """Wait behind the server's own work."""
    wait_mem_ms: float | None = None
    """Wait for memory, part of `queue_ms`."""
    queue_ms: float | None = None
    prompt_ms: float | None = None
    ttft_ms: float | None = None
    decode_ms: float | None = None
    total_ms: float = 0.0
    decode_tps: float | None = None
    prefill_tps: float | None = None
    blocks: int | None = None
    draft_tokens: int | None = None
    draft_accepted: int | None = None
    tool_calls: int | None = None
    cache_source: str | None = None
    max_tokens: int | None = None
    slot: int | None = None
    engine_version: str | None = None
    code_sha: str | None = None
    draft_s: float | None = None
    """Seconds of drafting, and of verifying, over all rounds: for the metrics, no column."""
    verify_s: float | None = None
    images_left_out: int = 0
    """For the metrics; no column."""
