"""The memory gate in front of an engine's prefills, over a simulated allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tandem.engine.caches.budget import Limits, WorkspaceEstimate
from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.caches.policy import Policy
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.text.prompt import Prompt
from tests.engine.caches.wired import ALL, BARE, served, turn
from tests.engine.decoding.engines import GRID, PROMPT, ids_of

pytestmark = pytest.mark.usefixtures("kind")

OTHER, GUEST = ids_of(110, 8), ids_of(20, 7)


@dataclass
class Simulated:
    """What is held beside the caches, and the caches."""

    base: int = 0
    caches: Callable[[], int] = int
    emptied: int = 0

    def reserved(self) -> int:
        return self.base + self.caches()

    def allocated(self) -> int:
        return self.reserved()

    def pooled(self) -> int:
        return 0

    def empty_cache(self) -> None:
        self.emptied += 1

    def collect(self) -> None:
        """There is no garbage."""


@contextmanager
def gated(settings: CacheSettings = ALL, *, peak: int = 1 << 30) -> Iterator[tuple[TorchEngine, Simulated]]:
    """An engine whose prefills take 1,000 bytes."""
    memory = Simulated()
    policy = Policy(WorkspaceEstimate(GRID, per_row=0, least=1000), Limits(peak, peak), memory)
    with served(settings, policy=policy) as engine:

        def held() -> int:
            state = engine.state()
            anchors = state["resident_anchors"] * engine.cost()["bytes_per_anchor"]
            return anchors + sum(state.get(f"{name}_bytes", 0) for name in ("parked", "stash", "state_store"))

        memory.caches = held
        yield engine, memory


@pytest.mark.spec("ENG-125", "ENG-127")
def test_a_prompt_without_room_is_refused_with_numbers_and_what_is_resident_stays() -> None:
    with gated(BARE) as (engine, memory):
        first = turn(engine, PROMPT)
        memory.base = 1 << 30
        for in_a_row in (1, 2):
            with pytest.raises(MemoryRefused) as refused:
                turn(engine, OTHER)
            assert refused.value.numbers["in_a_row"] == in_a_row
            assert refused.value.numbers["need"] == 1000
            assert refused.value.retry_after == 10
        assert [event.kind for event in engine.memory().events][-2:] == ["refuse", "refuse"]
        memory.base = 0
        following = [*PROMPT, *first.ids, 3]
        answer = turn(engine, following)
        assert answer.resumed > 0
        assert answer.writes_as_cold(following)


@pytest.mark.spec("ENG-126")
def test_caches_are_given_up_in_order_and_no_more_than_is_needed() -> None:
    with gated() as (engine, memory):
        for ids in (PROMPT, OTHER, ids_of(120, 2)):
            turn(engine, ids)
        guest = turn(engine, GUEST)
        state = engine.state()
        held = {name: state[f"{name}_bytes"] for name in ("state_store", "stash", "parked")}
        assert all(held.values())
        # A turn of the guest: the stash beneath it is in use, and the store is enough.
        memory.base = (1 << 30) - memory.caches() + 1
        turn(engine, [*GUEST, *guest.ids, 1])
        [event] = engine.memory().events
        assert set(event.shed) == {"state_store"}
        after = engine.state()
        assert (after["stash_bytes"] > 0, after["parked_bytes"]) == (True, held["parked"])


@pytest.mark.spec("ENG-126")
def test_the_stash_under_a_running_guest_is_never_given_up() -> None:
    with gated() as (engine, memory):
        first = turn(engine, OTHER)
        seq = engine.open(Prompt.of_client(GUEST))
        engine.prefill(seq, 10)
        memory.base = 1 << 31
        engine._hoard._policy.settle(0)
        assert engine.state()["stash_bytes"] > 0
        memory.base = 0
        engine.close(seq)
        following = [*OTHER, *first.ids, 3]
        back = turn(engine, following)
        assert back.resumed == len(OTHER) + 3
        assert back.writes_as_cold(following)


@pytest.mark.spec("ENG-126", "ENG-073")
def test_anchors_that_were_given_up_cost_time_and_no_token() -> None:
    with gated() as (engine, memory):
        first = turn(engine, OTHER)
        memory.base = 1 << 31
        engine.upkeep(0)
        memory.base = 0
        following = [*OTHER, *first.ids, 3]
        assert turn(engine, following).writes_as_cold(following)


@pytest.mark.spec("ENG-129")
def test_a_cache_that_may_not_grow_does_not_store() -> None:
    with gated() as (engine, memory):
        turn(engine, PROMPT)
        memory.base = (1 << 30) - 2000 - memory.caches()
        turn(engine, OTHER)
        turn(engine, PROMPT)
        state = engine.state()
        assert (state["parked_bytes"], state["state_store_bytes"], state["stash_bytes"]) == (0, 0, 0)
