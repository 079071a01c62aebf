"""The response cache: which requests are identical, and how long an answer stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.engine.caches.response import ResponseCache, ResponseKey, response_key
from tandem.engine.verbs import SamplingRules

IDS = (1, 2, 3)
GREEDY = SamplingRules()
LIMITS = {"max_tokens": 10, "stop": ["x"]}


def key(
    rules: SamplingRules = GREEDY, ids: tuple[int, ...] = IDS, weights: str = "w", **other: Any
) -> ResponseKey | None:
    return response_key(ids, rules, weights, **{"limits": LIMITS, **other})


class AnyMask:
    """A mask nobody asks."""


def test_only_a_single_greedy_answer_has_a_key() -> None:
    assert key() == key() is not None
    assert key(replace(GREEDY, temperature=0.1)) is None
    assert key(replace(GREEDY, choice=1)) is None
    masked: Any = replace(GREEDY, mask=AnyMask())  # type: ignore[arg-type]
    assert key(masked) is None
    assert key(masked, constraint="json") == key(masked, constraint="json") is not None


def test_whatever_changes_the_answer_changes_the_key() -> None:
    other: list[dict[str, Any]] = [{name: 2} for name in ("repetition_penalty", "no_repeat_ngram", "logprobs")]
    keys = [
        key(),
        key(ids=(1, 2, 4)),
        key(weights="v"),
        key(limits={"max_tokens": 11, "stop": ["x"]}),
        key(constraint="json"),
        *(key(replace(GREEDY, **fields)) for fields in (*other, {"end_ids": frozenset({1, 2})})),
        key(replace(GREEDY, logit_bias={5: 1.0})),
        key(replace(GREEDY, logit_bias={5: 1.0, 6: 1.0})),
    ]
    assert len(set(keys)) == len(keys)
    assert key(replace(GREEDY, seed=7)) == key(), "nothing is drawn"
    assert key(replace(GREEDY, logit_bias={6: 1.0, 5: 1.0})) == keys[-1]


def test_an_answer_stays_for_its_time_within_the_budget() -> None:
    cache, one = ResponseCache[str](1000, ttl=60), key()
    assert one is not None
    assert cache.get(one, 0) is None
    cache.put(one, "answer", 100, 0)
    assert cache.get(one, 60) == "answer"
    assert cache.get(one, 61) is None
    others = [each for at in range(20) if (each := key(ids=(at,))) is not None]
    for other in others:
        cache.put(other, str(other.ids[0]), 100, 1)
        assert cache.state()["response_cache_bytes"] <= 1000
    assert cache.get(others[-1], 20) == "19"
    assert cache.get(others[0], 20) is None
    cache.put(one, "too large", 2000, 20)
    assert cache.get(one, 20) is None
    held = cache.state()["response_cache_bytes"]
    assert cache.clear() == held > 0
    assert cache.state()["response_cache_bytes"] == 0
    assert cache.state()["response_cache_hits"] == 2
    assert cache.state()["response_cache_saved_tokens"] == 3 + 1


@pytest.mark.spec("SCH-102")
def test_a_sweep_forgets_what_nobody_would_get() -> None:
    cache = ResponseCache[str](1000, ttl=60)
    old, new = key(ids=(1,)), key(ids=(2,))
    assert old is not None
    assert new is not None
    cache.put(old, "old", 100, 0)
    cache.put(new, "new", 100, 30)
    cache.sweep(60)
    assert cache.state()["response_cache_entries"] == 2
    cache.sweep(61)
    assert cache.state()["response_cache_entries"] == 1
    assert cache.get(new, 61) == "new"
    cache.sweep(100)
    assert cache.state()["response_cache_bytes"] == 0
