"""The figures of an ended request, as columns of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tandem.conductor.monitor.events import MonitorEvent
from tandem.engine.text.reading.deltas import Finish
from tandem.http.events import Course
from tandem.http.openai.counts import add_up

__all__ = ["figures", "hidden_in_answer", "waits"]


def waits(course: Course) -> dict[str, Any]:
    """Where it ran and what it waited for; a wait there was none of is null (SCH-105)."""
    return {
        "slot": course.slot,
        "lane": course.lane,
        "lent_ms": None if course.lent_s is None else 1e3 * course.lent_s,
        "wait_own_ms": 1e3 * course.wait_own_s or None,
        "wait_mem_ms": 1e3 * course.wait_mem_s or None,
    }


def figures(finishes: Sequence[Finish], calls: int, acts: Sequence[MonitorEvent] = ()) -> dict[str, Any]:
    """Token counts and times of all choices: the prompt is read once, what they wrote adds up (OBS-009, OBS-010).

    `acts`: the monitor's; what one of them has put into the answer counts as hidden besides the prompt's.
    """
    if not finishes:
        return {}
    usage, timings = add_up(finishes)
    steps = usage.completion - 1  # as `timings` counts them (OBS-009)
    return {
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "reasoning_tokens": usage.reasoning,
        "conductor_acts": len(acts) or None,
        "conductor_acted": bool(acts),
        "conductor_hidden_tokens": usage.hidden + hidden_in_answer(acts),
        "engine_cached": usage.engine_cached,
        "forwarded_tokens": usage.engine_prompt,
        "queue_ms": timings.queue_ms,
        "prompt_ms": timings.prompt_ms,
        "ttft_ms": timings.queue_ms + timings.prompt_ms,
        "decode_ms": timings.predicted_ms,
        "decode_tps": _rate(steps, timings.predicted_ms),
        "prefill_tps": _rate(usage.engine_prompt, timings.prompt_ms),
        "blocks": timings.blocks,
        "draft_tokens": timings.drafted,
        "draft_accepted": timings.draft_accepted,
        "draft_s": timings.spent.draft / 1e3,
        "verify_s": timings.spent.verify / 1e3,
        "tool_calls": calls,
        "cache_source": timings.cache_source,
    }


def hidden_in_answer(acts: Sequence[MonitorEvent]) -> int:
    """Hidden tokens that these have put into the answer; what SP4 adds is the prompt's."""
    return sum(act.hidden_tokens for act in acts if act.sp != "SP4")


def _rate(tokens: int, ms: float) -> float | None:
    return 1e3 * tokens / ms if ms > 0 and tokens > 0 else None
