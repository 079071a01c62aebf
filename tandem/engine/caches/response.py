"""The response cache: an identical greedy request is answered from memory (ENG-120).

Whoever keeps a request out of it does not ask, and keeps a response from entering by not putting it in.
"""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tandem.engine.verbs import SamplingRules

__all__ = ["RESPONSE_TTL", "ResponseCache", "ResponseKey", "response_key"]

T = TypeVar("T")

RESPONSE_TTL: Final = 3600.0
"""Seconds that an answer stays."""

_ID_BYTES: Final = 8
_IDLE: Final = frozenset({"mask", "seed", "choice", "draft_temperature"})
"""Rules that are looked at here, or that a greedy draw does not read."""


@dataclass(frozen=True, slots=True)
class ResponseKey:
    """All that a greedy answer depends on. Keys are compared whole, never by a hash alone (ENG-105)."""

    ids: tuple[int, ...] = field(repr=False)
    parameters: str
    weights: str

    @property
    def nbytes(self) -> int:
        return _ID_BYTES * len(self.ids) + len(self.parameters) + len(self.weights)


def response_key(
    ids: tuple[int, ...],
    rules: SamplingRules,
    weights: str,
    *,
    limits: Mapping[str, object],
    constraint: str | None = None,
) -> ResponseKey | None:
    """The key of a request, None where its answer is drawn or one of several.

    `limits` is what else ends an answer or shapes it (stop strings, most tokens, thinking budget), as JSON has it;
    `constraint` says what the mask allows, and without it a masked request has no key.
    """
    if rules.temperature > 0 or rules.choice or (rules.mask is not None and constraint is None):
        return None
    read = {each.name: getattr(rules, each.name) for each in dataclasses.fields(rules) if each.name not in _IDLE}
    bias = sorted(read.pop("logit_bias").items())
    parameters = json.dumps([read, bias, limits, constraint], sort_keys=True, default=sorted)  # of sets
    return ResponseKey(ids, parameters, weights)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    answer: T
    nbytes: int
    at: float


class ResponseCache(Generic[T]):
    """Answers in at most `limit` bytes, each for `ttl` seconds; the longest unused go first."""

    def __init__(self, limit: int, ttl: float = RESPONSE_TTL) -> None:
        self._limit = limit
        self._ttl = ttl
        self._kept: OrderedDict[ResponseKey, _Kept[T]] = OrderedDict()
        self._bytes = 0
        self._counts = dict.fromkeys(("hits", "misses", "saved_tokens", "evictions"), 0)

    def get(self, key: ResponseKey, now: float) -> T | None:
        kept = self._kept.get(key)
        if kept is None or kept.at + self._ttl < now:
            self._remove(key)
            self._counts["misses"] += 1
            return None
        self._kept.move_to_end(key)
        self._counts["hits"] += 1
        self._counts["saved_tokens"] += len(key.ids)
        return kept.answer

    def put(self, key: ResponseKey, answer: T, nbytes: int, now: float) -> None:
        """Keep an answer of `nbytes`, unless it alone is over the budget."""
        self._remove(key)
        size = nbytes + key.nbytes
        if size > self._limit:
            return
        self._kept[key] = _Kept(answer, size, now)
        self._bytes += size
        self._evict()

    def sweep(self, now: float) -> None:
        """Forget what nobody would get any more (SCH-102)."""
        for key in [key for key, kept in self._kept.items() if kept.at + self._ttl < now]:
            self._remove(key)

    def resize(self, limit: int) -> None:
        self._limit = limit
        self._evict()

    def clear(self) -> int:
        """Forget everything: the bytes given up."""
        held, self._bytes = self._bytes, 0
        self._kept.clear()
        return held

    def state(self) -> Mapping[str, int]:
        """What is held now, and what has come of it since the load."""
        held = {"bytes": self._bytes, "entries": len(self._kept)}
        return {f"response_cache_{name}": count for name, count in (held | self._counts).items()}

    def _evict(self) -> None:
        while self._bytes > self._limit:
            self._remove(next(iter(self._kept)))
            self._counts["evictions"] += 1

    def _remove(self, key: ResponseKey) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self._bytes -= kept.nbytes
