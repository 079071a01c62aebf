"""`usage` and `timings` (API, section 18), made from what the engine counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tandem.engine.text.reading.deltas import Finish, Timings, Usage
from tandem.engine.verbs import NOTHING_SPENT

__all__ = ["add_up", "timings_json", "usage_json"]


def add_up(finishes: Sequence[Finish]) -> tuple[Usage, Timings]:
    """The counts of a whole response from those of its choices, in order of their index (API-032).

    The prompt, its waiting and its cached part are those of choice 0, which every other choice starts from.
    Completions, decode times and blocks are added up; the total is that of the choice that ended last.
    """
    if not finishes:
        raise ValueError("a response has at least one choice")
    first = finishes[0]
    usages = [finish.usage for finish in finishes]
    timings = [finish.timings for finish in finishes]
    usage = Usage(
        prompt=first.usage.prompt,
        cached=first.usage.cached,
        completion=sum(usage.completion for usage in usages),
        reasoning=sum(usage.reasoning for usage in usages),
        hidden=first.usage.hidden,
        engine_cached=first.usage.engine_cached,
        engine_prompt=first.usage.engine_prompt,
    )
    whole = Timings(
        queue_ms=first.timings.queue_ms,
        prompt_ms=first.timings.prompt_ms,
        predicted_ms=sum(timing.predicted_ms for timing in timings),
        total_ms=max(timing.total_ms for timing in timings),
        blocks=sum(timing.blocks for timing in timings),
        drafted=sum(timing.drafted for timing in timings),
        draft_accepted=sum(timing.draft_accepted for timing in timings),
        spent=sum((timing.spent for timing in timings), NOTHING_SPENT),
        cache_source=first.timings.cache_source,
    )
    return usage, whole


def usage_json(usage: Usage, sampled: str | None = None) -> dict[str, Any]:
    """The `usage` object; `hidden_tokens` is there only when a plan added any (API-156).

    `sampled` says by what rule the server chose the sampling, where it did (API-159).
    """
    prompt_details = {"cached_tokens": min(usage.cached, usage.prompt)}
    if usage.hidden:
        prompt_details["hidden_tokens"] = usage.hidden
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        **({} if sampled is None else {"tandem": {"sampling": sampled}}),
    }


def timings_json(usage: Usage, timings: Timings) -> dict[str, Any]:
    """The `timings` object of API-160; times in milliseconds, a rate that is not defined is 0.

    The prefill gives the first token, so decode rates are over the tokens after it (API-161).
    """
    decoded = max(usage.completion - 1, 0)
    return {
        "cache_n": usage.engine_cached,
        "prompt_n": usage.engine_prompt,
        "prompt_ms": _round(timings.prompt_ms),
        "prompt_per_token_ms": _ratio(timings.prompt_ms, usage.engine_prompt),
        "prompt_per_second": _ratio(usage.engine_prompt * 1000, timings.prompt_ms),
        "predicted_n": usage.completion,
        "predicted_ms": _round(timings.predicted_ms),
        "predicted_per_token_ms": _ratio(timings.predicted_ms, decoded),
        "predicted_per_second": _ratio(decoded * 1000, timings.predicted_ms),
        "draft_n": timings.drafted,
        "draft_n_accepted": timings.draft_accepted,
        "ttft_ms": _round(timings.queue_ms + timings.prompt_ms),
        "queue_ms": _round(timings.queue_ms),
        "total_ms": _round(timings.total_ms),
        "blocks": timings.blocks,
        "tokens_per_block": _ratio(usage.completion, timings.blocks),
        "reasoning_n": usage.reasoning,
        "cache_source": timings.cache_source,
    }


def _ratio(amount: float, per: float) -> float:
    return _round(amount / per) if per > 0 else 0.0


def _round(value: float) -> float:
    return round(value, 3) if math.isfinite(value) else 0.0
