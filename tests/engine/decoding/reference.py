"""The sampler again, in plain NumPy and the slowest clear way: what the tests compare with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tandem.engine.verbs import SamplingRules

__all__ = ["adjusted", "distribution", "log_softmax", "order"]

Row = npt.NDArray[np.float64]


def adjusted(logits: Sequence[float], rules: SamplingRules, prompt: Sequence[int], output: Sequence[int]) -> Row:
    """Logits after repetition, presence and frequency penalty, n-grams, bias and mask, in this order."""
    row = np.array(logits, dtype=np.float64)
    for token in {*prompt, *output}:
        row[token] = row[token] / rules.repetition_penalty if row[token] > 0 else row[token] * rules.repetition_penalty
    for token in set(output):
        row[token] -= rules.presence_penalty + rules.frequency_penalty * list(output).count(token)
    if rules.no_repeat_ngram:
        for token in range(len(row)):
            if _repeats([*prompt, *output], token, rules.no_repeat_ngram):
                row[token] -= 4.0
    for token, bias in rules.logit_bias.items():
        row[token] += bias
    if rules.mask is not None:
        for token in range(len(row)):
            if not rules.mask.allows((), token):
                row[token] = -np.inf
    return row


def distribution(row: Row, rules: SamplingRules) -> Row:
    """Probabilities after temperature, top_k, top_p and min_p, each filter over what the one before it left."""
    kept = order(row)
    scaled = row / rules.temperature
    if rules.top_k > 0:
        kept = kept[: rules.top_k]
    shares = _softmax(scaled, kept)
    if rules.top_p < 1:
        reached, nucleus = 0.0, []
        for token in kept:
            nucleus.append(token)
            reached += shares[token]
            if reached >= rules.top_p:
                break
        kept = nucleus
    shares = _softmax(scaled, kept)
    kept = [token for token in kept if shares[token] >= rules.min_p * shares[kept[0]]]
    return _softmax(scaled, kept)


def order(row: Row) -> list[int]:
    """Ids, higher logits first and of equals the lowest id first."""
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def log_softmax(row: Row) -> Row:
    highest = row.max()
    return np.asarray(row - highest - np.log(np.exp(row - highest).sum()))


def _softmax(scaled: Row, kept: Sequence[int]) -> Row:
    shares = np.zeros_like(scaled)
    shares[kept] = np.exp(scaled[kept] - scaled[kept].max())
    return np.asarray(shares / shares.sum())


def _repeats(ids: list[int], token: int, n: int) -> bool:
    gram = [*ids, token][-n:]
    return len(gram) == n and any(ids[at : at + n] == gram for at in range(len(ids) - n + 1))
