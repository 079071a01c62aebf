"""From a row of logits to a token, on every path by this one function (ENG-075)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.decoding.logprobs import token_logprob
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History, adjust, changes
from tandem.engine.decoding.ranking import best
from tandem.engine.decoding.rejection import Proposed, judged
from tandem.engine.drafting.drafter import Draw
from tandem.engine.errors import NumericalError
from tandem.engine.verbs import SamplingRules, TokenLogprob

__all__ = ["GREEDY_BELOW", "draw_of", "kept", "sample"]

GREEDY_BELOW = 1e-5
"""Temperatures under this are greedy (ENG-076)."""


def draw_of(rules: SamplingRules, noise: Noise) -> Draw | None:
    """How a drafter may draw for `rules`; None where its likeliest tokens are what serves them.

    A seeded token is one fixed draw, which no rejection may move (ENG-067); and of what a mask leaves of a chain nobody
    knows the distribution.
    """
    if rules.temperature < GREEDY_BELOW or rules.seed is not None or rules.mask is not None:
        return None
    asked = rules.temperature if rules.draft_temperature is None else rules.draft_temperature
    return Draw(asked if asked >= GREEDY_BELOW else 0.0, noise.unseeded)


def sample(
    row: Tensor,
    rules: SamplingRules,
    history: History,
    noise: Noise,
    *,
    position: int,
    path: Sequence[int] = (),
    proposed: Proposed | None = None,
) -> tuple[int, TokenLogprob | None]:
    """The token that follows `history`, and its log-probability where the rules ask for it.

    `row` is (vocab) in fp32 and is not changed. Order: repetition, presence and frequency penalty, n-grams, bias,
    mask, temperature, top_k, top_p, min_p, draw. `NumericalError` carries `position`, the row's place in the sequence.
    `path` is the end of `history` that the walk of this round has taken, which the mask is asked behind. A draw without
    a seed or a mask begins from what was `proposed` for it.
    """
    token = _highest(row, position)
    if changes(rules):
        row = adjust(row, rules, history, path)
        token = _highest(row, position)
    if rules.temperature >= GREEDY_BELOW:
        token = _draw(row, rules, history.written, noise, proposed)
    return token, None if rules.logprobs is None else token_logprob(row, token, rules.logprobs)


def _highest(row: Tensor, position: int) -> int:
    """The lowest of the ids with the highest logit. A NaN wins every comparison here and so is always noticed."""
    value, token = torch.max(row, dim=0)
    if not math.isfinite(value.item()):
        raise NumericalError(position)
    return int(token.item())


def _draw(row: Tensor, rules: SamplingRules, index: int, noise: Noise, proposed: Proposed | None) -> int:
    scaled = row.double() / rules.temperature
    ids = kept(scaled, rules)
    if proposed is not None and draw_of(rules, noise) is not None:
        return judged(scaled, ids, proposed, noise)
    if rules.seed is None:
        gumbel = noise.unseeded(scaled.shape[0] if ids is None else ids.shape[0])
    else:
        gumbel = noise.seeded(rules.seed, rules.choice, index, scaled.shape[0])
        gumbel = gumbel if ids is None else gumbel[ids]
    if ids is None:
        return int(torch.argmax(scaled + gumbel).item())
    return int(ids[torch.argmax(scaled[ids] + gumbel)].item())


def kept(scaled: Tensor, rules: SamplingRules) -> Tensor | None:
    """Ids that top_k, top_p and min_p leave of `scaled` (vocab, after temperature), best first; None: all of them.

    Each of the three keeps a beginning of the same order, so together they keep the shortest of their beginnings.
    The best token always stays. top_p counts in the distribution that top_k leaves.
    """
    if rules.top_k <= 0 and rules.top_p >= 1.0 and rules.min_p <= 0.0:
        return None
    count = scaled.shape[0]
    if rules.top_k > 0:
        count = min(count, rules.top_k)
    if rules.top_p < 1.0:
        count = _nucleus(scaled, count, rules.top_p)
    if rules.min_p > 0.0:
        count = min(count, int((scaled >= scaled.max() + math.log(rules.min_p)).sum().item()))
    return best(scaled, max(count, 1))


def _nucleus(scaled: Tensor, count: int, top_p: float) -> int:
    """How many of the `count` best make the smallest set whose share of their probability reaches `top_p`."""
    highest = scaled.max()
    pool = scaled if count == scaled.shape[0] else torch.topk(scaled, count).values
    goal = top_p * (pool - highest).exp().sum()
    # A nucleus is nearly always small: look among ever more of the best before sorting a whole vocabulary.
    width = min(256, count)
    while True:
        reached = (torch.topk(pool, width).values - highest).exp().cumsum(0) >= goal
        if width == count or reached[-1]:
            return min(int((~reached).sum().item()) + 1, count)
        width = min(width * 16, count)
