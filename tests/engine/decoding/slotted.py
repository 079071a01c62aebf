"""Engines of several slots over a tiny model, and loops that run them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.tree import cut, share
from tandem.engine.models.model import Model
from tandem.engine.verbs import Accepted, SamplingRules
from tests.engine.decoding.engines import GREEDY, KIND, PROMPT, ids_of, read, rounds, tiny, tiny_engine

__all__ = ["PROMPTS", "Asked", "alone", "slotted", "together"]

PROMPTS = [PROMPT, ids_of(41, 3), ids_of(98, 5), ids_of(20, 6)]
"""Of different lengths, with lines and without."""


@dataclass
class Asked:
    """A request of one slot, and what it has written."""

    prompt: Sequence[int]
    rules: SamplingRules = GREEDY
    count: int = 16
    written: list[int] = field(default_factory=list)
    rounds: list[Accepted] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return len(self.written) >= self.count or any(token in self.rules.end_ids for token in self.written)

    def took(self, accepted: Accepted) -> None:
        self.rounds.append(accepted)
        self.written += accepted.ids


def slotted(
    count: int = 2, drafter: Callable[[int], Drafter | None] = lambda slot: None, window: int = 256, **options: Any
) -> TorchEngine:
    """Slot 0 and `count` - 1 side slots; `drafter` makes each its own."""
    engine = tiny_engine(model=_model(), drafter=drafter(0), **options)
    for slot in range(1, count):
        engine.add_side(window, drafter(slot))
    return engine


def alone(asked: Asked) -> list[int]:
    """What the same request writes on an engine of its own, plainly, and 16 tokens more."""
    rules = replace(asked.rules, end_ids=frozenset())
    key = (KIND.get(), tuple(asked.prompt), repr(rules), asked.count)
    if key not in _PLAIN:
        engine = tiny_engine(model=_model())
        _PLAIN[key] = rounds(engine, read(engine, asked.prompt), asked.count + 16, rules)
    return _PLAIN[key]


_PLAIN: dict[tuple[str, tuple[int, ...], str, int], list[int]] = {}
_MODELS: dict[str, Model] = {}


def _model() -> Model:
    if KIND.get() not in _MODELS:
        _MODELS[KIND.get()] = tiny().model
    return _MODELS[KIND.get()]


def together(engine: TorchEngine, requests: Sequence[Asked]) -> list[TorchSequence]:
    """Every request on its own slot; rounds in lockstep, as the service has them, until all are over."""
    seqs = [read(slot, asked.prompt) for slot, asked in zip(engine.slots, requests, strict=False)]
    parts = list(zip(engine.slots, seqs, requests, strict=False))
    while busy := [part for part in parts if not part[2].is_over]:
        trees = [slot.draft(seq, asked.count - len(asked.written)) for slot, seq, asked in busy]
        nodes = share(len(busy))
        pairs = [(seq, cut(tree, nodes)) for (_, seq, _), tree in zip(busy, trees, strict=True)]
        for (slot, seq, asked), rows in zip(busy, engine.verify(pairs), strict=True):
            asked.took(slot.accept(seq, rows, asked.rules))
    return seqs
