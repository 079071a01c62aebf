"""Log-probabilities as clients read them (ENG-082)."""

from __future__ import annotations

import torch
from torch import Tensor

from tandem.engine.decoding.ranking import best
from tandem.engine.verbs import TokenLogprob

__all__ = ["token_logprob"]


def token_logprob(row: Tensor, token: int, count: int) -> TokenLogprob:
    """Of `token` and of the `count` best of `row`: logits (vocab) after penalties, bias and mask.

    Temperature and truncation do not enter. A token that a mask forbids has no finite value and is left out of the top.
    """
    logs = torch.log_softmax(row.double(), dim=0)
    if count == 0:
        return TokenLogprob(token, logs[token].item())
    ids = best(row, count)
    top = zip(ids.tolist(), logs[ids].tolist(), strict=True)
    return TokenLogprob(token, logs[token].item(), tuple(pair for pair in top if pair[1] > -torch.inf))
