"""Matches: places where the last tokens have stood before, and what came after them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tandem.engine.drafting.grams import Grams
from tandem.engine.drafting.suffixes import CONTEXT, SHORTEST, Suffixes, agreed

__all__ = ["Match", "OwnText", "Source", "found_in"]


@dataclass(frozen=True, slots=True)
class Match:
    """`length` tokens that agree with the last ones, and `follow`, what came after them."""

    length: int
    follow: Sequence[int]
    late: float = 0.0
    """How far into its text it stands, 0 to 1."""
    kind: str = ""
    """What it counts as, where not as one of its source."""


class Source(Protocol):
    """Texts in which matches are looked for."""

    def matches(self, last: Sequence[int], count: int, depth: int) -> list[Match]:
        """At most `count` of the longest matches of `last`'s end, each with at most `depth` tokens behind it."""


def found_in(suffixes: Suffixes, last: Sequence[int], count: int, depth: int, least: int = SHORTEST) -> list[Match]:
    """Matches in a text that does not change, of `least` tokens at least."""
    ends = suffixes.ends(last, count, least)
    return [Match(agreed(suffixes.ids, end, last), follow) for end in ends if (follow := suffixes.follow(end, depth))]


class OwnText:
    """The ids of one sequence, prompt and output, indexed while they grow.

    A suffix array covers all but the last token at `start`, runs what came since. The newest token is never covered: a
    place counts once the token after it is known, so the end of the text does not match itself.

    A copy in which one token is replaced goes on behind that token as if it had not been: so long as a match of `_SURE`
    tokens is not found again, the place that the last one would have come to is a match of the kind `edited`.
    """

    _RUNS = 4_096
    """Tokens behind the array at which a new one is made."""
    _SURE, _LOST = 4, 64
    """Tokens of a match that is followed, and tokens after which it is given up."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._covered = 0
        self._suffixes = Suffixes.of(np.empty(0, np.int32))
        self._grams = Grams()
        self._followed: tuple[int, int] | None = None  # behind the last sure match, and the text's length then

    def start(self, ids: Sequence[int]) -> None:
        """Another text; what the one before has in common with it stays indexed."""
        self._followed, covered = None, self._covered
        same = covered < len(ids) and self.ids[:covered] == list(ids[:covered])
        self.ids = list(ids)
        if not same or len(ids) - covered > self._RUNS // 8:
            self._cover()
        else:
            self._grams = Grams()
            self._grams.add(self.ids, self._covered + 1, len(self.ids))

    def extend(self, ids: Sequence[int]) -> None:
        """`ids` are all ids of the text now; those known already are taken to be the same."""
        known = len(self.ids)
        if known > len(ids) or self.ids[-CONTEXT:] != list(ids[max(0, known - CONTEXT) : known]):
            self.start(ids)
            return
        self.ids += ids[known:]
        self._grams.add(self.ids, max(known, self._covered + 1), len(self.ids))
        if len(self.ids) - self._covered > self._RUNS:
            self._cover()

    def matches(self, last: Sequence[int], count: int, depth: int) -> list[Match]:
        text, ends = self.ids, {*self._suffixes.ends(last, count), *self._grams.ends(last, count)}
        longest = sorted(((agreed(text, end, last), end) for end in ends), reverse=True)[:count]
        found = [Match(length, self._follow(end, depth), end / len(text)) for length, end in longest]
        if longest and longest[0][0] >= self._SURE:
            self._followed = longest[0][1], len(text)
        elif self._followed is not None:
            behind, length = self._followed
            end, lost = behind + len(text) - length, len(text) - length
            if 0 < lost <= self._LOST:
                found.append(Match(SHORTEST, self._follow(end, depth), end / len(text), "edited"))
        return found

    def _follow(self, end: int, depth: int) -> list[int]:
        """What comes after position `end`; where the text ends it goes on as if the match did, so a loop unrolls."""
        period = len(self.ids) - end
        ids = self.ids[end : end + depth]
        while len(ids) < depth:
            ids.append(ids[-period])
        return ids

    def _cover(self) -> None:
        self._covered = max(0, len(self.ids) - 1)
        self._suffixes = Suffixes.of(np.array(self.ids[: self._covered], np.int32))
        self._grams = Grams()
