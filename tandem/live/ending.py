"""How an ended request is shown: its row for a while, and its line among the recent ones.

All figures are those of the `Outcome`, so they equal the `usage` and `timings` of the response (OBS-071); what an
outcome does not hold comes from the last look. Both forms never change, so they are encoded once.
"""

from __future__ import annotations

import datetime

import msgspec
from msgspec import UNSET, UnsetType

from tandem.live import words
from tandem.live.conductor import ConductorNow, conductor_now
from tandem.live.event import Activity, ClientNow, DecodeNow, Recent, Row, ToolNow
from tandem.live.figures import date, ratio, rounded
from tandem.live.seen import RequestSeen
from tandem.live.watched import Watched
from tandem.store.outcome import Outcome

__all__ = ["ended_row", "recent"]


def ended_row(outcome: Outcome, watched: Watched | None, zone: datetime.tzinfo | None, *, shows_activity: bool) -> Row:
    """`watched` is None where the hub has never heard of the request before."""
    seen = watched.seen if watched else None
    tool = watched.tool if watched else None
    sentence = words.ended(outcome, tool.name if tool else None)
    return Row(
        request_id=outcome.request_id,
        phase="done",
        status=outcome.status,
        finish_reason=outcome.finish_reason,
        model=None if outcome.model is None else words.clip(outcome.model),
        mode=outcome.conductor_mode,
        profile=outcome.profile,
        client_kind=outcome.client_kind,
        client_id=outcome.client_id,
        endpoint=outcome.endpoint,
        stream=outcome.stream,
        thinking=outcome.thinking,
        temperature=seen.temperature if seen else None,
        max_tokens=outcome.max_tokens,
        choices=seen.choices if seen else 1,
        choice=seen.choice if seen else 0,
        arrived_at=date(outcome.ts_ms, zone),
        ended_at=date(outcome.ts_ms + outcome.total_ms, zone),
        elapsed_ms=round(outcome.total_ms, 3),
        queue_ms=rounded(outcome.queue_ms),
        prompt_ms=rounded(outcome.prompt_ms),
        ttft_ms=rounded(outcome.ttft_ms),
        decode_ms=rounded(outcome.decode_ms),
        prompt_tokens=outcome.prompt_tokens,
        cached_tokens=outcome.cached_tokens,
        forwarded_tokens=outcome.forwarded_tokens,
        completion_tokens=outcome.completion_tokens,
        reasoning_tokens=outcome.reasoning_tokens,
        blocks=outcome.blocks,
        tokens_per_block=ratio(outcome.completion_tokens, outcome.blocks),
        decode_tps=_decode_tps(outcome),
        prefill_tps=rounded(outcome.prefill_tps),
        cache_source=outcome.cache_source,
        lane=outcome.lane,
        slot=outcome.slot,
        sentence=sentence,
        tone=words.tone(outcome.finish_reason),
        activity=_activity(outcome, seen, tool, sentence) if shows_activity else None,
        timeline=watched.steps if watched and shows_activity else (),
    )


def recent(outcome: Outcome, watched: Watched | None, zone: datetime.tzinfo | None) -> msgspec.Raw:
    tool = watched.tool if watched else None
    line = Recent(
        request_id=outcome.request_id,
        ended_at=date(outcome.ts_ms + outcome.total_ms, zone),
        endpoint=outcome.endpoint,
        stream=outcome.stream,
        model=None if outcome.model is None else words.clip(outcome.model),
        client_kind=outcome.client_kind,
        client_id=outcome.client_id,
        status=outcome.status,
        finish_reason=outcome.finish_reason,
        sentence=words.ended(outcome, tool.name if tool else None),
        tone=words.tone(outcome.finish_reason),
        prompt_tokens=outcome.prompt_tokens,
        cached_tokens=outcome.cached_tokens,
        completion_tokens=outcome.completion_tokens,
        reasoning_tokens=outcome.reasoning_tokens,
        queue_ms=rounded(outcome.queue_ms),
        ttft_ms=rounded(outcome.ttft_ms),
        total_ms=round(outcome.total_ms, 3),
        decode_tps=_decode_tps(outcome),
    )
    return msgspec.Raw(msgspec.json.encode(line))


def _activity(outcome: Outcome, seen: RequestSeen | None, tool: ToolNow | None, sentence: str) -> Activity:
    decode = None
    if outcome.completion_tokens is not None:
        thinking = outcome.reasoning_tokens or 0
        decode = DecodeNow(
            thinking_tokens=thinking,
            content_tokens=outcome.completion_tokens - thinking,
            rounds=outcome.blocks or 0,
            tokens_per_round=ratio(outcome.completion_tokens, outcome.blocks),
            rate=_decode_tps(outcome),
        )
    client = ClientNow(connected=outcome.finish_reason != "abandoned", gone_ms=None)
    return Activity(
        state="done",
        label=sentence,
        since_ms=None,
        decode=decode,
        tool=tool,
        client=client,
        conductor=_conductor(outcome, seen),
    )


def _conductor(outcome: Outcome, seen: RequestSeen | None) -> ConductorNow | UnsetType:
    """As it was seen last, with the ledger's figures."""
    if seen is None or seen.conductor is None:
        return UNSET
    figures = {"acts": outcome.conductor_acts or 0, "hidden_tokens": outcome.conductor_hidden_tokens or 0}
    return conductor_now(msgspec.structs.replace(seen.conductor, supervising=False, **figures))


def _decode_tps(outcome: Outcome) -> float | None:
    """As in `timings`: the prefill gives the first token, however many choices there are (API-161)."""
    steps = (outcome.completion_tokens or 0) - 1
    return round(1e3 * steps / outcome.decode_ms, 3) if outcome.decode_ms and steps > 0 else None
