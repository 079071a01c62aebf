"""Whether a drafter leaves a short greedy text as it is, asked once when it is loaded (ENG-053)."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.errors import EngineError
from tandem.engine.models.model import Model
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import ModelCard, SamplingRules

__all__ = ["WINDOW", "disagreement"]

WINDOW: Final = 64
"""The window in which it is asked."""
_PROMPT, _TEXT = 8, 24
_TIE: Final = 0.125
"""Two tokens no further apart, in nats, may change places where rows are verified together (ENG-066)."""


def disagreement(model: Model, text: TextModel, drafter: Drafter) -> str:
    """Why `drafter`, made for a window of `WINDOW` tokens, is not to be used; empty where nothing speaks against it."""
    try:
        plain, rows = _written(_engine(model, text, None))
        drafted, _ = _written(_engine(model, text, drafter))
    except EngineError as error:
        return f"a short text with it failed: {error}"
    for at, (row, one, other) in enumerate(zip(rows, plain, drafted, strict=True)):
        if one != other:
            gap = float(row[one] - row[other])
            return "" if gap <= _TIE else f"a short greedy text differs with it, by {gap:.2f} nats at token {at}"
    return ""


def _engine(model: Model, text: TextModel, drafter: Drafter | None) -> TorchEngine:
    config = model.config
    card = ModelCard(
        name=config.name,
        architecture=config.architecture,
        max_len=WINDOW,
        vocab_size=config.vocab_size,
        anchor_grid=model.anchor_grid,
    )
    return TorchEngine(model, text, card, drafter=drafter)


def _written(engine: TorchEngine) -> tuple[tuple[int, ...], tuple[Tensor, ...]]:
    """A short text, and of a plain one the row (vocab) that each of its tokens was taken from."""
    ids = tuple(range(min(_PROMPT, engine.card.vocab_size)))
    seq, out, kept = engine.open(Prompt.of_client(ids)), list[int](), list[Tensor]()
    try:
        engine.prefill(seq, len(ids))
        while len(out) < _TEXT:
            [rows] = engine.verify([(seq, engine.draft(seq, _TEXT - len(out)))])
            kept.append(rows.logits)
            out += engine.accept(seq, rows, SamplingRules()).ids
    finally:
        engine.close(seq)
    return tuple(out), tuple(kept)
