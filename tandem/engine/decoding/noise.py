"""Gumbel noise for draws: the argmax of log p + G is an exact draw from p (Gumbel 1954; arXiv:1411.0030).

Noise belongs to a token id, so what a filter leaves out does not move the noise of the rest, and two runs whose
distributions differ by a rounding draw the same token.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Noise"]

_WORD = 1 << 64


class Noise:
    """Seeded noise is a function of (seed, choice, index) alone; unseeded noise comes from one generator an engine.

    `entropy` seeds the generator of unseeded draws; None takes it from the operating system.
    """

    def __init__(self, entropy: int | None = None) -> None:
        self._shared = np.random.Generator(np.random.Philox(entropy))

    def seeded(self, seed: int, choice: int, index: int, vocab: int) -> Tensor:
        """Noise (vocab, fp64) of the token at `index` of the output (ENG-067); choice 0 is the plain seed (ENG-083)."""
        # Philox is keyed by (seed, choice); the index stands in a word of the counter that no row's draws reach.
        # Raw words and not numpy's distributions: only the raw stream is promised to stay the same.
        key = np.array([seed % _WORD, choice], dtype=np.uint64)
        stream = np.random.Philox(key=key, counter=np.array([0, 0, index, 0], dtype=np.uint64))
        return _gumbel((stream.random_raw(vocab) >> np.uint64(11)) * np.float64(2.0**-53))

    def uniform(self) -> float:
        """A fresh number from [0, 1)."""
        return float(self._shared.random())

    def unseeded(self, count: int) -> Tensor:
        """Fresh noise (count, fp64)."""
        return _gumbel(self._shared.random(count))


def _gumbel(uniform: npt.NDArray[np.float64]) -> Tensor:
    """Uniform numbers in [0, 1) to standard Gumbel noise; 0 gives -inf, a token that is not drawn."""
    with np.errstate(divide="ignore"):
        return torch.from_numpy(-np.log(-np.log(uniform)))
