"""Exact draws that start from a drafter's (ENG-068, ENG-069): speculative sampling, arXiv:2211.17192, arXiv:2302.01318.

A proposed token x, drawn from q, is taken with probability min(1, p(x) / q(x)); otherwise one is drawn from what p has
more than q, max(0, p - q), scaled to one. The token is distributed as p then, whatever q is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tandem.engine.decoding.noise import Noise
from tandem.engine.drafting.drafter import Drawn

__all__ = ["Proposed", "judged", "proposed_at"]


@dataclass(frozen=True, slots=True, eq=False)
class Proposed:
    """A token that was drawn, and the distribution (vocab, fp64) it was drawn from."""

    token: int
    shares: Tensor


def proposed_at(drawn: Drawn | None, node: int, vocab: int) -> Proposed | None:
    """What a chain proposes as its token number `node`."""
    if drawn is None or drawn.shares is None or node >= len(drawn.tree.tokens):
        return None
    shares = drawn.shares[node]
    if drawn.ids is not None:
        shares = torch.zeros(vocab, dtype=shares.dtype).index_copy_(0, drawn.ids, shares)
    return Proposed(drawn.tree.tokens[node], shares)


def judged(scaled: Tensor, ids: Tensor | None, proposed: Proposed, noise: Noise) -> int:
    """A draw from softmax(`scaled`) (vocab, fp64) over the tokens `ids`, None: over all."""
    kept = torch.arange(len(scaled)) if ids is None else ids
    target, drafted = torch.softmax(scaled[kept], dim=0), proposed.shares[kept]
    own = target[kept == proposed.token]
    # One number is drawn whether it is needed or not: what is thrown away tells nothing of what follows.
    chance = noise.uniform() * float(proposed.shares[proposed.token])
    if len(own) and chance < float(own):
        return proposed.token
    rest = (target - drafted).clamp_(min=0.0)
    if not rest.any():
        rest = target  # they are the same up to a rounding
    return int(kept[(rest.log() + noise.unseeded(len(kept))).argmax()].item())
