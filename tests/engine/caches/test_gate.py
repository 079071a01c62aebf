"""The memory gate over a simulated allocator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.config import Settings
from tandem.engine import warm
from tandem.engine.caches.budget import Limits, WorkspaceEstimate
from tandem.engine.caches.gate import EVENTS, ORDER, Level, MemoryGate, Refused
from tandem.engine.caches.process_memory import ProcessMemory, memory_limit
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.memory import GIB
from tandem.engine.models.placement import CPU
from tandem.engine.models.state import State
from tests.engine.models.memory import tiny_llama


@dataclass
class Simulated:
    """An allocator whose caches give freed bytes back to it, and it back to the device when it is emptied."""

    fixed: int
    caches: dict[str, int] = field(default_factory=dict)
    free: int = 0
    stuck: int = 0
    """Free blocks that no emptying gives back."""
    pool: int = 0
    garbage: int = 0
    collected: int = 0

    def allocated(self) -> int:
        return self.fixed + self.garbage + sum(self.caches.values())

    def reserved(self) -> int:
        return self.allocated() + self.free + self.stuck + self.pool

    def pooled(self) -> int:
        return self.pool

    def empty_cache(self) -> None:
        self.free = 0

    def collect(self) -> None:
        self.collected += 1
        self.free, self.garbage = self.free + self.garbage, 0

    def shed(self, name: str, needed: int) -> int:
        given = min(needed, self.caches[name])
        self.caches[name] -= given
        self.free += given
        return given


def gate(allocator: Simulated, ceiling: int = 100, peak: int = 150) -> MemoryGate:
    levels = tuple(Level(name, partial(allocator.shed, name)) for name in allocator.caches)
    return MemoryGate(Limits(ceiling, peak), allocator, levels)


@pytest.mark.spec("ENG-125")
def test_what_fits_is_admitted_and_nothing_is_given_up() -> None:
    allocator = Simulated(50, {"state_store": 20, "parked": 20})
    tested = gate(allocator)
    assert tested.admit(60, 0) is None
    assert allocator.caches == {"state_store": 20, "parked": 20}
    assert not tested.events


@pytest.mark.spec("ENG-125")
def test_free_blocks_go_back_before_a_cache_does() -> None:
    allocator = Simulated(50, {"state_store": 20}, free=70)
    assert gate(allocator).admit(60, 0) is None
    assert allocator.caches == {"state_store": 20}


@pytest.mark.spec("ENG-124", "ENG-125")
def test_between_requests_it_returns_under_the_ceiling() -> None:
    allocator = Simulated(70, {"state_store": 60})
    tested = gate(allocator)
    tested.settle(3)
    assert allocator.reserved() == 100
    assert [(event.kind, event.at, event.shed) for event in tested.events] == [("shed", 3, {"state_store": 30})]


@pytest.mark.spec("ENG-126")
def test_levels_go_in_their_order_and_no_further_than_needed() -> None:
    allocator = Simulated(30, dict.fromkeys(reversed(ORDER), 10))
    tested = gate(allocator)
    assert tested.admit(85, 0) is None
    assert [name for name in ORDER if allocator.caches[name] < 10] == [
        "state_store",
        "grid_anchors",
        "end_anchor",
        "stash",
    ]
    assert tested.events[-1].shed == {"state_store": 10, "grid_anchors": 10, "end_anchor": 10, "stash": 5}


@pytest.mark.spec("ENG-127")
def test_a_refusal_has_the_numbers_and_counts_in_a_row() -> None:
    allocator = Simulated(90, {"parked": 5}, stuck=5)
    tested = gate(allocator)
    assert tested.admit(60, 1) == Refused(90, 95, 60, 150, 1)
    refused = tested.admit(3 * GIB, 2)
    figures = "allocated 0.00 GiB, reserved 0.00 GiB, need 3.00 GiB, peak 0.00 GiB"
    assert str(refused) == f"no memory for a prompt: {figures}; refused 2 in a row"
    assert isinstance(refused, Refused)
    assert refused.retry_after == 10
    assert [event.kind for event in tested.events] == ["shed", "refuse", "refuse"]
    assert tested.admit(50, 3) is None
    again = tested.admit(60, 4)
    assert isinstance(again, Refused)
    assert again.in_a_row == 1


@pytest.mark.spec("ENG-127")
def test_a_last_collect_saves_a_request() -> None:
    allocator = Simulated(60, garbage=35)
    assert gate(allocator).admit(80, 0) is None
    assert allocator.collected == 1


@pytest.mark.spec("ENG-128")
def test_blocks_held_free_take_a_workspace_and_those_of_a_pool_do_not() -> None:
    stale = gate(Simulated(90, stuck=60))
    assert stale.admit(12, 0) is None
    assert [event.kind for event in stale.events] == ["stale_admit"]
    assert isinstance(stale.admit(61, 0), Refused)
    assert isinstance(gate(Simulated(90, pool=60)).admit(12, 0), Refused)


@pytest.mark.spec("ENG-127")
def test_the_newest_events_are_kept() -> None:
    tested = gate(Simulated(200))
    for at in range(EVENTS + 50):
        tested.admit(1, at)
    assert [event.at for event in tested.events] == list(range(50, EVENTS + 50))


@pytest.mark.spec("ENG-129")
def test_a_cache_grows_up_to_the_ceiling_and_free_blocks_count() -> None:
    tested = gate(Simulated(60, free=10))
    assert tested.may_grow(40)
    assert not tested.may_grow(41)
    assert not gate(Simulated(60, pool=50)).may_grow(1)


@pytest.mark.spec("ENG-125", "ENG-126")
@given(
    st.integers(0, 120),
    st.lists(st.integers(0, 40), min_size=7, max_size=7),
    st.tuples(*[st.integers(0, 40)] * 4),
    st.integers(0, 200),
)
def test_what_is_admitted_stays_within_the_peak_or_in_free_blocks(
    fixed: int, held: list[int], other: tuple[int, int, int, int], need: int
) -> None:
    free, stuck, pool, garbage = other
    allocator = Simulated(fixed, dict(zip(ORDER, held, strict=True)), free, stuck, pool, garbage)
    least = fixed + stuck + pool
    refused = gate(allocator).admit(need, 0)
    if refused is None:
        assert allocator.reserved() + need <= 150 or need <= allocator.free + allocator.stuck
    else:
        assert least + need > 150
        assert need > stuck
        assert sum(allocator.caches.values()) == 0, "it is refused only when nothing is left to give up"
    emptied = [left == 0 for left in allocator.caches.values()]
    touched = [left < before for left, before in zip(allocator.caches.values(), held, strict=True)]
    if any(touched):
        last = max(at for at, was in enumerate(touched) if was)
        assert all(emptied[:last]), "a level is begun when those before it have nothing left"


@pytest.mark.spec("ENG-124")
@pytest.mark.parametrize("limit", [None, 64 * GIB])
def test_both_numbers_derive_from_the_load(monkeypatch: pytest.MonkeyPatch, limit: int | None) -> None:
    monkeypatch.setattr(ProcessMemory, "reserved", lambda self: 10 * GIB)
    monkeypatch.setattr(warm, "memory_limit", lambda: limit)
    config, caches = tiny_llama().model.config, CacheSettings().on(device=False)
    workspace = warm.estimate_of(config, CPU, 32).of(256)
    ceiling = 10 * GIB + State.bytes_for(config, 256) + caches.total + 7 + workspace
    assert limits_of(config, caches) == Limits(ceiling, ceiling + workspace if limit is None else limit)
    assert limits_of(config, replace(caches, mem_ceiling=5, mem_peak=9)) == Limits(5, 9)


def limits_of(config: ModelConfig, caches: CacheSettings) -> Limits:
    policy = warm.policy_of(config, CPU, 256, 32, caches, 7)
    policy.over(())
    view = policy.view(())
    assert view.ceiling is not None
    assert view.peak is not None
    return Limits(view.ceiling, view.peak)


@pytest.mark.spec("ENG-124")
def test_what_is_set_counts_and_both_numbers_rise_with_side_slots() -> None:
    limits = Limits.of(10 * GIB, 12 * GIB)
    assert limits == Limits(10 * GIB, 12 * GIB)
    assert limits.beside(GIB) == Limits(limits.ceiling + GIB, limits.peak + GIB)
    # The machine allows no more for them, and what is set above that stands.
    assert Limits(3 * GIB, 5 * GIB, most=5 * GIB).beside(4 * GIB) == Limits(5 * GIB, 5 * GIB, most=5 * GIB)
    assert Limits(3 * GIB, 9 * GIB, most=5 * GIB).beside(GIB) == Limits(4 * GIB, 9 * GIB, most=5 * GIB)
    assert Limits.of(7, 8, 5, 9) == Limits(5, 9)
    assert Limits.of(7, 8, 5) == Limits(5, 8)
    assert Limits.of(7, 8, 5, 4) == Limits(5, 5)


@pytest.mark.spec("ENG-132")
def test_budgets_of_the_embedded_model_come_to_two_gib_at_most() -> None:
    """It is a Llama: it has no anchors, and no tower."""
    assert CacheSettings().on(device=False).total + Settings().response_cache_mb * 2**20 <= 2 * GIB


@pytest.mark.spec("ENG-130")
def test_a_workspace_grows_with_what_is_read_up_to_a_chunk() -> None:
    estimate = WorkspaceEstimate(1024, per_row=1000, per_pair=2, least=50_000)
    assert estimate.of(10) == 50_000
    assert estimate.of(500) == 500 * 1000 + 500 * 500 * 2
    assert estimate.of(8000) == 1024 * 1000 + 1024 * 8000 * 2
    assert estimate.of(8000, 7900) == 100 * 1000 + 100 * 8000 * 2


@pytest.mark.spec("ENG-130")
def test_a_measured_peak_raises_it_for_good() -> None:
    estimate = WorkspaceEstimate(1024, per_row=1000)
    estimate.measured(100, 0, 90_000)
    assert estimate.of(100) == 100_000
    estimate.measured(100, 0, 150_000)
    assert estimate.of(100) == 150_000
    assert estimate.of(200) == 300_000
    estimate.measured(100, 0, 1)
    assert estimate.state() == {"workspace_exceeded": 1, "workspace_percent": 150}


@pytest.mark.spec("ENG-132")
def test_on_the_cpu_the_process_and_its_group_are_what_counts(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    assert ProcessMemory(proc).reserved() == 0
    assert memory_limit(proc, sys) is None
    (proc / "self").mkdir(parents=True)
    (proc / "self/status").write_text("Name:\tx\nVmRSS:\t    2048 kB\n")
    (proc / "meminfo").write_text("MemTotal:       8388608 kB\n")
    (sys / "fs/cgroup").mkdir(parents=True)
    (sys / "fs/cgroup/memory.max").write_text("max\n")
    memory = ProcessMemory(proc)
    assert memory.reserved() == memory.allocated() == 2 << 20
    assert memory_limit(proc, sys) == 8 * GIB
    (sys / "fs/cgroup/memory.max").write_text(f"{3 * GIB}\n")
    assert memory_limit(proc, sys) == 3 * GIB
