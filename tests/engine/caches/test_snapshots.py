"""The state store: which snapshot a prompt reads on behind, and what stays of them within the budget."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.caches.snapshots import StateStore, Use

IDS = tuple(range(100, 120))


def filled(*lengths: int, budget: int = 1000) -> StateStore[int]:
    store = StateStore[int](budget)
    for length in lengths:
        assert store.put(IDS[:length], "session", 10, partial(int, length))
    return store


@pytest.mark.spec("ENG-114", "ENG-105")
def test_the_longest_snapshot_that_leaves_a_token_to_read() -> None:
    store = filled(4, 8, 12)
    found = store.find(IDS)
    assert found is not None
    assert (found.row, found.snapshot, found.exactness) == (12, 12, "text")
    assert store.find(IDS[:12]) == store.find((*IDS[:9], 1, 2, 3)) != found
    assert store.find(IDS, beyond=12) is store.find((1, *IDS[1:])) is None
    assert store.state() == {
        "state_store_bytes": 30,
        "state_store_budget_bytes": 1000,
        "state_store_entries": 3,
        "state_store_hits": 3,
        "state_store_misses": 2,
        "state_store_saved_tokens": 12 + 8 + 8,
        "state_store_evictions": 0,
        "state_store_refused": 0,
    }


@pytest.mark.spec("ENG-115")
def test_room_is_made_before_the_clone() -> None:
    store = StateStore[str](100)
    for name in "abcd":
        assert store.put((ord(name),), "prefix", 25, partial(str, name))
    assert store.put((1, 2), "prefix", 25, lambda: str(store.nbytes))
    made = store.find((1, 2, 3))
    assert made is not None
    assert made.snapshot == "75", "what was held when it was cloned"
    assert store.find((ord("a"), 1)) is None, "the longest unused has gone"
    assert store.find((ord("b"), 1)) is not None


@pytest.mark.spec("ENG-115")
def test_one_takes_a_quarter_of_the_budget_at_most() -> None:
    store = filled(4, budget=100)
    assert not store.put(IDS, "session", 26, lambda: pytest.fail("it was cloned"))
    assert store.find(IDS) is not None
    assert store.state()["state_store_refused"] == 1


@pytest.mark.spec("ENG-129")
def test_the_policy_is_asked_and_its_no_means_that_nothing_is_stored() -> None:
    store = StateStore[int](100, may_grow=lambda nbytes: nbytes < 20)
    assert not store.put(IDS, "session", 20, lambda: pytest.fail("it was cloned"))
    assert store.nbytes == 0
    assert store.put(IDS, "session", 19, lambda: 1)


@pytest.mark.spec("ENG-114")
@pytest.mark.parametrize("use", ["prefix", "session"])
def test_each_use_has_its_switch(use: Use) -> None:
    store = StateStore[int](100, prefix=use != "prefix", session=use != "session")
    assert not store.put(IDS, use, 10, lambda: 1)
    assert store.put(IDS, "session" if use == "prefix" else "prefix", 10, lambda: 1)


@pytest.mark.spec("ENG-073")
def test_of_the_same_ids_the_one_of_bit_class_stays() -> None:
    store = StateStore[str](100)
    assert store.put(IDS, "session", 10, lambda: "session")
    assert store.put(IDS, "prefix", 10, lambda: "prefix")
    assert store.put(IDS, "session", 10, lambda: pytest.fail("it was cloned"))
    found = store.find((*IDS, 1))
    assert found is not None
    assert (found.snapshot, found.exactness, store.nbytes) == ("prefix", "bit", 10)


@pytest.mark.spec("ENG-132", "ENG-126")
def test_a_lower_budget_a_shed_and_a_clear_give_bytes_up() -> None:
    store = filled(2, 4, 6, 8, 10)
    assert store.resize(40) == 10
    assert store.shed(11) == 20
    assert store.shed(0) == 0
    assert store.clear() == 20
    assert store.shed(5) == store.nbytes == 0


def test_a_clone_that_fails_leaves_nothing() -> None:
    store = filled(4)
    with pytest.raises(MemoryError):
        store.put(IDS, "session", 10, lambda: (_ for _ in ()).throw(MemoryError))
    assert store.nbytes == 10


SHORT = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple)


@given(st.lists(st.tuples(SHORT, st.integers(1, 40), st.booleans()), max_size=30), SHORT)
def test_it_finds_what_a_search_of_all_finds(
    puts: list[tuple[tuple[int, ...], int, bool]], ids: tuple[int, ...]
) -> None:
    store = StateStore[tuple[int, ...]](100)
    sizes: dict[tuple[int, ...], int] = {}
    for held, size, prefix in puts:
        store.put(held, "prefix" if prefix else "session", size, partial(tuple, held))
        sizes = {each.ids: each.nbytes for each in store._kept.values()}
        assert store.nbytes == sum(sizes.values()) <= 100
    usable = [held for held in sizes if len(held) < len(ids) and held == ids[: len(held)]]
    found = store.find(ids)
    assert (found.ids if found else ()) == max(usable, key=len, default=())
    assert found is None or found.snapshot == found.ids
