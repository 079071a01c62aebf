"""The page of a scrape in the text format 0.0.4: counted series, then what was read for it (OBS-031, OBS-033)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "CacheReading", "Readings", "TurnsReading", "render", "up_page"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
STATE_STORE = "sessions"
"""The cache whose budget is a series of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReading:
    """One cache that is on. `hits` are by kind of hit."""

    name: str
    entries: int
    bytes: int
    hits: Mapping[str, int]
    misses: int
    evictions: int = 0
    collisions: int | None = None
    """None: it has nothing that could collide."""
    budget: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsReading:
    """Who has had the GPU turn, where there are side slots."""

    hand_overs: int
    rounds: Mapping[int, int]
    """Joint rounds by how many slots shared them."""
    seconds: Mapping[int, float]
    """GPU time by slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What is read at the time of a scrape; whatever could not be read is None and left out of the page."""

    requests_running: int | None = None
    requests_waiting: int | None = None
    resident_memory_bytes: int | None = None
    uptime_s: float | None = None
    started_at: float | None = None
    """Seconds since 1970."""
    ledger_rows: int | None = None
    """Rows written since the start."""
    ledger_dropped: int | None = None
    live_subscribers: int | None = None
    log_subscribers: int | None = None
    lane_waiting: int | None = None
    sheds: int | None = None
    turns: TurnsReading | None = None
    admission_waits: int | None = None
    own_work_s: Mapping[str, float] | None = None
    """By the name of the job."""
    caches: Sequence[CacheReading] = ()
    engine: Mapping[str, str] | None = None
    """Labels of `tandem_engine_info`."""
    build: Mapping[str, str] | None = None
    """Labels of `tandem_build_info`."""


def render(counted: Iterable[Metric], readings: Readings) -> bytes:
    """The whole page."""
    read = [*_numbers(readings), *_shared(readings), *_caches(readings.caches), *_infos(readings)]
    return generate_latest(_Families([*counted, *read]))


def up_page(up: bool) -> bytes:
    """The page of the one series `tandem_up`."""
    return generate_latest(_Families([GaugeMetricFamily("tandem_up", "1 while serving, 0 while draining.", int(up))]))


class _Families(Collector):
    """Families as `generate_latest` takes them, without the times at which series began: nothing asks for those."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            if family.samples:
                yield family


def _numbers(readings: Readings) -> list[Metric]:
    gauges = [
        ("tandem_requests_running", "Completion requests on the engine.", readings.requests_running),
        ("tandem_requests_waiting", "Completion requests in the queue.", readings.requests_waiting),
        ("tandem_lane_jobs_waiting", "Short requests that wait for a safe point of another.", readings.lane_waiting),
        (
            "tandem_process_resident_memory_bytes",
            "Memory of the process that is in RAM.",
            readings.resident_memory_bytes,
        ),
        ("tandem_engine_uptime_seconds", "Since the service started.", readings.uptime_s),
        ("tandem_engine_start_time_seconds", "When the service started, since 1970.", readings.started_at),
        ("tandem_live_subscribers", "Readers of the live view.", readings.live_subscribers),
        ("tandem_log_subscribers", "Readers of the log.", readings.log_subscribers),
    ]
    counters = [
        ("tandem_usage_ledger_rows", "Rows of the ledger written since the start.", readings.ledger_rows),
        ("tandem_usage_ledger_dropped", "Rows of the ledger lost since the start.", readings.ledger_dropped),
        ("tandem_memory_sheds", "Times that caches gave up memory for others.", readings.sheds),
        ("tandem_admission_waits", "Requests that waited for memory others held.", readings.admission_waits),
    ]
    return [
        *(GaugeMetricFamily(name, help, value) for name, help, value in gauges if value is not None),
        *(CounterMetricFamily(name, help, value) for name, help, value in counters if value is not None),
    ]


def _shared(readings: Readings) -> list[Metric]:
    """How slots and own work have shared the engine (SCH-106)."""
    rounds = CounterMetricFamily("tandem_joint_rounds", "Verifies shared by slots, by their number.", labels=("slots",))
    seconds = CounterMetricFamily("tandem_slot_gpu_seconds", "GPU time of a slot.", labels=("slot",))
    own_work = CounterMetricFamily("tandem_own_work_seconds", "Idle windows that a job has had.", labels=("job",))
    families: list[Metric] = [rounds, seconds, own_work]
    if (turns := readings.turns) is not None:
        for size, count in turns.rounds.items():
            rounds.add_metric((str(size),), count)
        for slot, spent in turns.seconds.items():
            seconds.add_metric((str(slot),), spent)
        told = "Times that the GPU turn went from one slot to another."
        families.append(CounterMetricFamily("tandem_turn_hand_overs", told, turns.hand_overs))
    for job, spent in (readings.own_work_s or {}).items():
        own_work.add_metric((job,), spent)
    return families


def _caches(caches: Sequence[CacheReading]) -> list[Metric]:
    hits = CounterMetricFamily("tandem_cache_hits", "Lookups that found something.", labels=("cache", "kind"))
    misses = CounterMetricFamily("tandem_cache_misses", "Lookups that found nothing.", labels=("cache",))
    evictions = CounterMetricFamily("tandem_cache_evictions", "Entries that had to go for others.", labels=("cache",))
    collisions = CounterMetricFamily("tandem_cache_collisions", "Names that other ids had.", labels=("cache",))
    entries = GaugeMetricFamily("tandem_cache_entries", "What the cache holds.", labels=("cache",))
    size = GaugeMetricFamily("tandem_cache_bytes", "Size of what the cache holds.", labels=("cache",))
    budget = GaugeMetricFamily("tandem_state_store_budget_bytes", "What the state store may take.")
    for cache in caches:
        for kind, count in cache.hits.items():
            hits.add_metric((cache.name, kind), count)
        misses.add_metric((cache.name,), cache.misses)
        evictions.add_metric((cache.name,), cache.evictions)
        if cache.collisions is not None:
            collisions.add_metric((cache.name,), cache.collisions)
        entries.add_metric((cache.name,), cache.entries)
        size.add_metric((cache.name,), cache.bytes)
        if cache.name == STATE_STORE and cache.budget is not None:
            budget.add_metric((), cache.budget)
    return [hits, misses, evictions, collisions, entries, size, budget]


def _infos(readings: Readings) -> list[Metric]:
    """Constant 1, with what there is to tell in the labels: gauges, as the format has no type for it."""
    named = [
        ("tandem_engine_info", "The model and the version that serves it.", readings.engine),
        ("tandem_build_info", "What runs: commit, and hashes of code and settings.", readings.build),
    ]
    families: list[Metric] = []
    for name, help, labels in named:
        if labels is not None:
            family = GaugeMetricFamily(name, help, labels=tuple(labels))
            family.add_metric(tuple(labels.values()), 1)
            families.append(family)
    return families
