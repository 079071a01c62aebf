"""Prompts of an exact length that share no beginning with each other."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["WORDS", "Prompts"]

WORDS = (
    "a boat bridge clocks counted doors engines every flour for full garden green harbours it large letters light "
    "morning nobody numbers of over paper questions river rope runs salt small stone that the under wait water while"
)


class Prompts:
    """Plain words in a fixed random order; every prompt begins with another word than the one before it."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._made = 0

    def fresh(self, length: int) -> list[int]:
        """The ids of a new text, cut to `length`. The same calls give the same prompts in every run."""
        known = WORDS.split()
        text, order = known[self._made % len(known)], random.Random(self._made)
        self._made += 1
        ids: list[int] = []
        while len(ids) < length:
            text = " ".join([text, *order.choices(known, k=length)])
            ids = self._encode(text)
        return ids[:length]
