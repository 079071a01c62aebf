"""Engines over random tiny models, and a plain loop over their verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch import Tensor

from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.models.model import Model
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, ModelCard, SamplingRules
from tests.engine.models.hybrid import TinyHybrid, tiny_hybrid
from tests.engine.models.memory import VOCAB, TinyLlama, tiny_llama

__all__ = [
    "GREEDY",
    "GRID",
    "KIND",
    "KINDS",
    "PROMPT",
    "ids_of",
    "kept_row",
    "read",
    "rounds",
    "same",
    "state_of",
    "tiny",
    "tiny_engine",
    "trace",
]

KINDS: Mapping[str, Callable[[int], TinyLlama | TinyHybrid]] = {"llama": tiny_llama, "qwen3_5": tiny_hybrid}
KIND: ContextVar[str] = ContextVar("kind", default="llama")
"""The architecture of the models that `tiny` makes; the fixture `kind` runs a module once for each."""

GRID = 32
GREEDY = SamplingRules()


def tiny_engine(
    seed: int = 0, *, max_len: int = 256, grid: int = GRID, model: Model | None = None, **options: Any
) -> TorchEngine:
    """An engine over a random model. It has no text: the verbs speak of ids alone."""
    card = ModelCard(name="tiny", architecture=KIND.get(), max_len=max_len, vocab_size=VOCAB, anchor_grid=grid)
    model = model if model is not None else tiny(seed).model
    return TorchEngine(model, cast(TextModel, None), card, noise=Noise(seed), **options)


def tiny(seed: int = 0) -> TinyLlama | TinyHybrid:
    """A random model of the kind that is tested now."""
    return KINDS[KIND.get()](seed)


def ids_of(length: int, seed: int = 0) -> list[int]:
    """Random ids."""
    return torch.randint(VOCAB, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def read(engine: TorchEngine, ids: Sequence[int]) -> TorchSequence:
    """Open a sequence and prefill all of it."""
    seq = engine.open(Prompt.of_client(ids))
    while engine.prefill(seq, len(ids)).done < len(ids):
        pass
    return seq


def rounds(engine: TorchEngine, seq: TorchSequence, count: int, rules: SamplingRules = GREEDY) -> list[int]:
    """The ids of `count` rounds."""
    out: list[int] = []
    for _ in range(count):
        accepted = perform(engine, seq, Round(1), rules)
        assert isinstance(accepted, Accepted)
        out.extend(accepted.ids)
    return out


def kept_row(engine: TorchEngine, seq: TorchSequence) -> Tensor:
    """The logits that the next token is taken from."""
    [rows] = engine.verify([(seq, engine.draft(seq, 1))])
    return rows.logits.clone()


def trace(engine: TorchEngine, seq: TorchSequence, count: int = 8) -> tuple[list[int], list[Tensor]]:
    """Greedy ids and the rows they came from."""
    ids, rows = [], []
    for _ in range(count):
        rows.append(kept_row(engine, seq))
        ids += rounds(engine, seq, 1)
    return ids, rows


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def state_of(engine: TorchEngine, seq: TorchSequence) -> Tensor:
    """A copy of all that a sequence owns in its model, as one row of numbers: its rows and its recurrent part."""
    copy = engine._state.copy(seq.length)
    memory = [each for layer in copy.recurrent.layers for each in layer]
    return torch.cat([each.flatten() for each in (copy.rows.keys, copy.rows.values, *memory)])


PROMPT = ids_of(75)
"""A prompt of two whole chunks and a part of one."""
