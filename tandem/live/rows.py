"""The row of a request in flight, made from the last look at it (OBS-064)."""

from __future__ import annotations

from tandem.live import words
from tandem.live.conductor import conductor_now
from tandem.live.event import Activity, ClientNow, Row
from tandem.live.figures import ms, per_second, ratio, span_ms
from tandem.live.line import Line
from tandem.live.seen import RequestSeen
from tandem.live.watched import Watched

__all__ = ["running_row"]

CONNECTED = ClientNow(connected=True, gone_ms=None)


def running_row(watched: Watched, line: Line, now: float, arrived_at: str, *, shows_activity: bool) -> Row:
    """`line` says who waits where."""
    seen = watched.seen
    if seen is None:
        return Row(
            request_id=watched.request_id,
            phase=watched.phase,
            arrived_at=arrived_at,
            elapsed_ms=ms(now - watched.began_at),
            activity=_activity_unseen(watched, now) if shows_activity else None,
            timeline=watched.steps if shows_activity else (),
        )
    began, first, last = seen.granted_at, seen.first_at, seen.last_at
    forwarded = max(seen.read - seen.resumed, 0)
    has_read = seen.read > 0
    return Row(
        request_id=watched.request_id,
        phase=watched.phase,
        model=None if seen.model is None else words.clip(seen.model),
        mode=seen.mode,
        profile=seen.profile,
        client_kind=seen.client_kind,
        client_id=seen.client_id,
        endpoint=seen.endpoint,
        stream=seen.stream,
        thinking=seen.thinking,
        temperature=seen.temperature,
        max_tokens=seen.max_tokens,
        choices=seen.choices,
        choice=seen.choice,
        arrived_at=arrived_at,
        elapsed_ms=ms(now - seen.arrived_at),
        queue_ms=span_ms(seen.arrived_at, began or now) if seen.phase != "reading" else None,
        prompt_ms=span_ms(began, first or now),
        ttft_ms=span_ms(seen.arrived_at, first),
        decode_ms=span_ms(first, last),
        prompt_tokens=seen.prompt_tokens,
        cached_tokens=min(seen.resumed, seen.prompt_tokens or 0) if has_read else None,
        forwarded_tokens=forwarded if has_read else None,
        completion_tokens=seen.completion,
        reasoning_tokens=seen.reasoning,
        blocks=seen.rounds,
        tokens_per_block=ratio(seen.completion, seen.rounds),
        decode_tps=per_second(seen.completion - 1, first, last),
        prefill_tps=per_second(forwarded, began, first or now),
        cache_source=seen.cache_source if has_read else None,
        lane=seen.lane,
        slot=seen.slot,
        line=seen.line if shows_activity else None,
        activity=_activity(watched, seen, line, now) if shows_activity else None,
        timeline=watched.steps if shows_activity else (),
    )


def _activity_unseen(watched: Watched, now: float) -> Activity:
    return Activity(state=watched.state, label=watched.label(now), since_ms=watched.since_ms(now), client=CONNECTED)


def _activity(watched: Watched, seen: RequestSeen, line: Line, now: float) -> Activity:
    """All that is known of what it does."""
    queue = line.queue(watched.request_id, seen, now) if watched.state == "queued" else None
    if queue is not None:
        estimate = line.why(watched.request_id).estimate
        label = words.waiting(queue, line.running, estimate, line.own, only_slot_0=line.has_free_side)
    else:
        label = words.of_guest(watched.label(now), line.holder) if watched.is_guest else watched.label(now)
    gone_at = seen.client_gone_at
    return Activity(
        state=watched.state,
        label=label if gone_at is None else words.gone(label),
        since_ms=watched.since_ms(now),
        queue=queue,
        prefill=watched.prefill(seen, now) if watched.state == "prefilling" else None,
        decode=watched.decode if seen.completion else None,
        tool=watched.tool,
        client=CONNECTED if gone_at is None else ClientNow(connected=False, gone_ms=span_ms(gone_at, now)),
        conductor=conductor_now(seen.conductor),
    )
