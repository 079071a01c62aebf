"""What is counted of requests: each series of it declared once, filled from outcomes (OBS-036, OBS-041).

Nothing is done a token: a request counts once, when it has ended. `tandem_spec_*`, `tandem_verify_seconds` and
`tandem_draft_seconds` are about blocks: rounds of draft, verify and accept.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram

from tandem.conductor.monitor.counting import on_conductor_event
from tandem.conductor.monitor.events import MonitorEvent
from tandem.metrics import buckets
from tandem.metrics.labels import ERRORS, FINISH_REASONS, LANES, REFUSALS, SUCCESSES, one_of, route_of
from tandem.metrics.page import Readings, render
from tandem.metrics.weighted import WeightedHistogram
from tandem.store.outcome import Outcome

__all__ = ["Metrics"]

CONDUCTOR: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "decisions": ("What the conductor has decided, what changed nothing included.", ("task", "decision", "mode")),
    "actions": ("What the monitor has done to answers and prompts.", ("task", "action")),
    "hidden_tokens": ("Tokens that the model read and the client did not send.", ()),
    "gave_up": ("Answers that the monitor has ended.", ("task",)),
    "questions": ("Questions put to the served model.", ("task",)),
    "question_failures": ("Those of them that had no answer.", ("task",)),
    "reasoning_tokens_cut": ("Tokens of reasoning at which the monitor closed it.", ("task",)),
    "journal_dropped": ("Rows of the journal that found no place.", ()),
}
"""The series of OBS-037: what each counts, and its labels."""


class Metrics:
    """Counters and histograms with a registry of their own, so that two services can share a process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = _Requests(self._registry)
        self._tokens = _Tokens(self._registry)
        self._latency = _Latency(self._registry)
        self._blocks = _Blocks(self._registry)
        self._conductor = _Conductor(self._registry)
        self._http = Counter(
            "tandem_http_requests",
            "HTTP responses of every route, by status.",
            ("route", "code"),
            registry=self._registry,
        )

    def ended(self, outcome: Outcome) -> None:
        """A completion request has ended."""
        self._requests.ended(outcome)
        self._tokens.ended(outcome)
        self._latency.ended(outcome)
        self._blocks.ended(outcome)

    def answered(self, path: str, status: int) -> None:
        """A response of any route has begun."""
        self._http.labels(route_of(path), str(status)).inc()

    def planned(self, decision: str | None, mode: str, hidden: int) -> None:
        """The router has planned a request (OBS-037)."""
        self._conductor.planned(decision, mode, hidden)

    def asked(self, task: str, *, failed: bool) -> None:
        """The served model was asked a question of the conductor's."""
        self._conductor.asked(task, failed=failed)

    def monitored(self, event: MonitorEvent) -> None:
        """The monitor has decided something."""
        self._conductor.monitored(event)

    def journal_lost(self, rows: int) -> None:
        """Rows of the conductor's journal found no place."""
        self._conductor.journal_lost(rows)

    def page(self, readings: Readings) -> bytes:
        """Everything counted, and what was read for this scrape, in the text format 0.0.4."""
        return render(self._registry.collect(), readings)


class _Requests:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "tandem_requests",
            "Completion requests that have ended, by how; refused holds rejections (400 and the like) too.",
            ("finish_reason",),
            registry=registry,
        )
        self._succeeded = Counter(
            "tandem_request_success", "Completion requests that got their answer.", registry=registry
        )
        self._refused = Counter(
            "tandem_requests_refused", "Completion requests refused for want of room.", ("reason",), registry=registry
        )
        self._errors = Counter(
            "tandem_errors", "Completion requests that ended in an error of the server.", ("type",), registry=registry
        )
        self._lane = Counter(
            "tandem_lane_jobs", "Short requests served between the steps of another.", ("kind",), registry=registry
        )
        self._images_left_out = Counter(
            "tandem_images_left_out", "Images left out of prompts that held too many.", registry=registry
        )
        # A series that first appears with its first event has no increase that an alert could see.
        for reason in FINISH_REASONS:
            self._ended.labels(reason)
        for reason in REFUSALS:
            self._refused.labels(reason)
        for kind in ERRORS:
            self._errors.labels(kind)
        for lane in LANES:
            self._lane.labels(lane)

    def ended(self, outcome: Outcome) -> None:
        reason = one_of(FINISH_REASONS, outcome.finish_reason)
        self._ended.labels(reason).inc()
        if reason in SUCCESSES:
            self._succeeded.inc()
        elif reason == "error":
            self._errors.labels(one_of(ERRORS, outcome.error_type or "server_error")).inc()
        elif reason == "refused" and outcome.error_type in REFUSALS:
            self._refused.labels(outcome.error_type).inc()
        if outcome.lane is not None:
            self._lane.labels(one_of(LANES, outcome.lane)).inc()
        self._images_left_out.inc(outcome.images_left_out)


class _Tokens:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._prompt = Counter("tandem_prompt_tokens", "Tokens of the clients' prompts.", registry=registry)
        self._cached = Counter(
            "tandem_prompt_tokens_cached", "Those of them that were found in a cache.", registry=registry
        )
        self._written = Counter("tandem_generation_tokens", "Tokens generated, reasoning included.", registry=registry)
        self._reasoning = Counter("tandem_reasoning_tokens", "Those of them that were reasoning.", registry=registry)
        self._reused = Counter(
            "tandem_prefill_tokens_reused", "Prompt rows taken from a cache, hidden ones included.", registry=registry
        )
        self._forwarded = Counter(
            "tandem_prefill_tokens_forwarded", "Prompt rows read by the model, hidden ones included.", registry=registry
        )
        self._prompts = Histogram(
            "tandem_request_prompt_tokens", "Prompt tokens of a request.", buckets=buckets.TOKENS, registry=registry
        )
        self._completions = Histogram(
            "tandem_request_completion_tokens",
            "Tokens generated for a request, over all its choices.",
            buckets=buckets.TOKENS,
            registry=registry,
        )

    def ended(self, outcome: Outcome) -> None:
        if outcome.prompt_tokens is None or outcome.completion_tokens is None:
            return  # nothing was generated (OBS-003)
        self._prompt.inc(outcome.prompt_tokens)
        self._cached.inc(outcome.cached_tokens or 0)
        self._written.inc(outcome.completion_tokens)
        self._reasoning.inc(outcome.reasoning_tokens or 0)
        self._reused.inc(outcome.engine_cached or 0)
        self._forwarded.inc(outcome.forwarded_tokens or 0)
        self._prompts.observe(outcome.prompt_tokens)
        self._completions.observe(outcome.completion_tokens)


class _Conductor:
    """Without a conductor none of these series is on the page."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._series: dict[str, Counter] = {}

    def planned(self, decision: str | None, mode: str, hidden: int) -> None:
        self._grow("decisions", {"task": "route", "decision": decision or "none", "mode": mode})
        self._grow("hidden_tokens", {}, hidden)

    def asked(self, task: str, *, failed: bool) -> None:
        self._grow("questions", {"task": task})
        self._grow("question_failures", {"task": task}, failed)

    def monitored(self, event: MonitorEvent) -> None:
        for growth in on_conductor_event(event):
            self._grow(growth.series, growth.labels, growth.by)

    def journal_lost(self, rows: int) -> None:
        self._grow("journal_dropped", {}, rows)

    def _grow(self, series: str, labels: Mapping[str, str], by: float = 1) -> None:
        if not self._series:
            self._series = {
                name: Counter(f"tandem_conductor_{name}", about, names, registry=self._registry)
                for name, (about, names) in CONDUCTOR.items()
            }
        counter = self._series[series]
        (counter.labels(**labels) if labels else counter).inc(by)


class _Latency:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._request = Histogram(
            "tandem_e2e_request_latency_seconds",
            "From arrival to the end of a request that was not refused.",
            buckets=buckets.REQUEST_S,
            registry=registry,
        )
        self._queue = Histogram(
            "tandem_request_queue_seconds",
            "From arrival to the engine, or to the refusal of a request that waited too long.",
            buckets=buckets.QUEUE_S,
            registry=registry,
        )
        self._prefill = Histogram(
            "tandem_request_prefill_seconds",
            "From the engine to the first token.",
            buckets=buckets.FIRST_TOKEN_S,
            registry=registry,
        )
        self._first_token = Histogram(
            "tandem_time_to_first_token_seconds",
            "From arrival to the first token.",
            buckets=buckets.FIRST_TOKEN_S,
            registry=registry,
        )
        self._per_token = Histogram(
            "tandem_time_per_output_token_seconds",
            "Mean time between the tokens of a request.",
            buckets=buckets.PER_TOKEN_S,
            registry=registry,
        )
        self._decode_rate = Histogram(
            "tandem_request_decode_tokens_per_second",
            "Tokens a second of a request, after its first.",
            buckets=buckets.DECODE_RATE,
            registry=registry,
        )
        self._prefill_rate = Histogram(
            "tandem_request_prefill_tokens_per_second",
            "Prompt rows a second that the model read for a request.",
            buckets=buckets.PREFILL_RATE,
            registry=registry,
        )

    def ended(self, outcome: Outcome) -> None:
        if outcome.finish_reason != "refused":
            self._request.observe(outcome.total_ms / 1e3)
        if (queue_ms := _waited_ms(outcome)) is not None:
            self._queue.observe(queue_ms / 1e3)
        if outcome.completion_tokens and outcome.prompt_ms is not None and outcome.ttft_ms is not None:
            self._prefill.observe(outcome.prompt_ms / 1e3)
            self._first_token.observe(outcome.ttft_ms / 1e3)
        if not _tells_speed(outcome):
            return
        if outcome.decode_tps:
            self._per_token.observe(1 / outcome.decode_tps)
            self._decode_rate.observe(outcome.decode_tps)
        if outcome.prefill_tps:
            self._prefill_rate.observe(outcome.prefill_tps)


class _Blocks:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._blocks = Counter("tandem_spec_decode_num_drafts", "Blocks.", registry=registry)
        self._drafted = Counter("tandem_spec_decode_num_draft_tokens", "Tokens drafted.", registry=registry)
        self._accepted = Counter(
            "tandem_spec_decode_num_accepted_tokens", "Drafted tokens that were accepted.", registry=registry
        )
        self._per_block = WeightedHistogram(
            "tandem_spec_accept_per_block",
            "Drafted tokens accepted a block, as the mean of its request.",
            bounds=buckets.ACCEPTED,
            registry=registry,
        )
        self._verify = WeightedHistogram(
            "tandem_verify_seconds",
            "Verifying one block, as the mean of its request.",
            bounds=buckets.STEP_S,
            registry=registry,
        )
        self._draft = WeightedHistogram(
            "tandem_draft_seconds",
            "Drafting one block, as the mean of its request.",
            bounds=buckets.STEP_S,
            registry=registry,
        )

    def ended(self, outcome: Outcome) -> None:
        blocks, accepted = outcome.blocks, outcome.draft_accepted or 0
        if not blocks:
            return
        self._blocks.inc(blocks)
        self._drafted.inc(outcome.draft_tokens or 0)
        self._accepted.inc(accepted)
        if outcome.lane is not None:
            return  # one token at a time, between the steps of another
        self._per_block.observe(accepted / blocks, blocks)
        # An engine that has no drafter, or does not time itself, spends nothing.
        if outcome.verify_s:
            self._verify.observe(outcome.verify_s / blocks, blocks)
        if outcome.draft_s:
            self._draft.observe(outcome.draft_s / blocks, blocks)


def _waited_ms(outcome: Outcome) -> float | None:
    """None of a request that was refused at once, or left before it was known how long it had waited."""
    waited_in_vain = outcome.finish_reason == "refused" and outcome.wait_mem_ms is not None
    return outcome.total_ms if outcome.error_type == "queue_timeout" or waited_in_vain else outcome.queue_ms


def _tells_speed(outcome: Outcome) -> bool:
    """Whether its rates are those of undisturbed work (OBS-013)."""
    return not (
        outcome.conductor_acted
        or outcome.lane is not None
        or outcome.cache_source == "response"
        or outcome.finish_reason in ("error", "refused")
    )
