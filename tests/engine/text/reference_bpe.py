"""A plain byte-level BPE to compare with: split by pattern, then merge the best-ranked neighbours, one at a time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence

import regex  # type: ignore[import-untyped]

__all__ = ["GPT2", "ReferenceBpe"]

GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
_DIGIT = regex.compile(r"(\p{N})")


class ReferenceBpe:
    """`single_digits` cuts every digit off before the words are found, as SmolLM's tokenizer does."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[str], *, single_digits: bool) -> None:
        self._vocabulary = vocabulary
        self._ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
        self._single_digits = single_digits
        self._word = functools.cache(self._merge)

    def encode(self, text: str) -> list[int]:
        parts = _DIGIT.split(text) if self._single_digits else [text]
        return [token for part in parts for word in GPT2.findall(part) for token in self._word(word)]

    def _merge(self, word: str) -> list[int]:
        symbols = [_symbol(byte) for byte in word.encode()]
        while True:
            pairs = [
                (self._ranks[pair], at) for at, pair in enumerate(itertools.pairwise(symbols)) if pair in self._ranks
            ]
            if not pairs:
                return [self._vocabulary[symbol] for symbol in symbols]
            at = min(pairs)[1]
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


@functools.cache
def _symbol(byte: int) -> str:
    printable = [
        chr(each) for each in range(256) if each not in range(33) and each not in range(127, 161) and each != 173
    ]
    if chr(byte) in printable:
        return chr(byte)
    return chr(256 + sum(chr(each) not in printable for each in range(byte)))
