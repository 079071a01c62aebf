"""Whether a text says one thought again and again in slightly other words (H-02): passages that share their trigrams.

A passage is a line that is long enough by itself, or the short lines between two blank ones. Only prose is compared:
lines of a table, of JSON or of code resemble each other by nature. Numbers are words: `case 7` is not `case 8`, and
short cases that differ in all their numbers share little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

__all__ = ["Drift", "drifting"]

Trigrams: TypeAlias = frozenset[tuple[str, str, str]]

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")
"""A character of Chinese, Japanese or Korean counts as a word: they are written without spaces."""
_LETTERS: Final = 0.7
"""Share of letters among the characters of prose: it has 0.75 to 0.85."""


class _Said(NamedTuple):
    """A line, or several."""

    words: list[str]
    length: int

    @property
    def is_prose(self) -> bool:
        return sum(len(word) for word in self.words if word.isalpha()) >= _LETTERS * self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """When the newest passages are one thought."""

    copies: int
    """Passages in succession that each resemble earlier ones."""
    back: int
    """How many passages before it a passage is compared with."""
    words: int
    """Shorter passages are left out."""
    nearest: float
    """Of a passage's trigrams, the least that one of the earlier passages has."""
    twice: float
    """Of a passage's trigrams, the least that two of them have: a second draft of a text is none of this."""


def drifting(text: str, rule: Drift) -> float | None:
    """The least share that the newest `copies` whole passages have of an earlier one; None where one of them is new."""
    passages = _newest_passages(text, rule.words, rule.copies + rule.back)
    if len(passages) <= rule.copies:
        return None
    least = 1.0
    for at in range(rule.copies):
        passage, earlier = passages[at], passages[at + 1 : at + 1 + rule.back]
        nearest = max(len(passage & each) for each in earlier) / len(passage)
        found = Counter(chain.from_iterable(passage & each for each in earlier))
        twice = sum(times > 1 for times in found.values()) / len(passage)
        if nearest < rule.nearest or twice < rule.twice:
            return None
        least = min(least, nearest)
    return least


def _newest_passages(text: str, least: int, most: int) -> list[Trigrams]:
    """The trigrams of whole passages of prose, the newest first."""
    # The last line is still being written, and of the first nobody knows where it begins.
    lines = text.lower().split("\n")[1:-1]
    passages = islice(_passages(map(_line, reversed(lines)), least), most)
    return [frozenset(zip(words, words[1:], words[2:], strict=False)) for words in passages]


def _line(text: str) -> _Said:
    shown = text.strip()
    return _Said(_WORD.findall(shown), len(shown))


def _passages(lines: Iterable[_Said], least: int) -> Iterator[list[str]]:
    """Words of the passages of prose, from lines that come from the last to the first."""
    short: list[_Said] = []
    for line in chain(lines, [_Said([], 0)]):
        is_long = len(line.words) >= least
        if short and (is_long or not line.length):
            whole = _Said([word for each in reversed(short) for word in each.words], sum(each.length for each in short))
            if len(whole.words) >= least and whole.is_prose:
                yield whole.words
            short = []
        if is_long and line.is_prose:
            yield line.words
        elif line.length and not is_long:
            short.append(line)
