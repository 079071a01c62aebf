"""Client text stays text: keeps client strings from spelling a special token through a chat template (ENG-178).

A template mixes its own markers with client strings, and after rendering nothing tells them apart. So before it every
place of a client string where a marker's literal starts is broken up by a *sentinel*, a code point that occurs nowhere
in the input; after it the text is split at the markers that are still whole, which are the template's own, and the
sentinel is taken out of the plain pieces between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

__all__ = ["Guard"]

# Noncharacters (Unicode 23.7) first: text in the wild has none. The private-use plane is the way out for a client
# that sends them all.
_CANDIDATES = tuple(map(chr, chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xF2000))))


class Guard:
    """Breaks up the literals of special tokens inside client values. Immutable, so any thread may use it."""

    def __init__(self, literals: Iterable[str]) -> None:
        # A one-character literal cannot be broken up; the tokenizer never splits at one either.
        markers = sorted({literal for literal in literals if len(literal) > 1})
        self._start = re.compile("(?=" + "|".join(map(re.escape, markers)) + ")(.)", re.DOTALL) if markers else None
        self._heads = tuple({marker[:cut] for marker in markers for cut in range(1, len(marker))})
        self._tails = tuple({marker[cut:] for marker in markers for cut in range(1, len(marker))})

    def sentinel(self, values: Iterable[Any], template: str) -> str:
        """A character that neither `values` (searched through) nor the template's source holds."""
        used = set(template)
        for text in chain.from_iterable(map(_strings, values)):
            used.update(text)
        for candidate in _CANDIDATES:
            if candidate not in used:
                return candidate
        raise ValueError("no unused code point left")

    def protect(self, value: Any, sentinel: str) -> Any:
        """`value` with every string in it, keys included, broken up; other leaves are kept as they are."""
        if isinstance(value, str):
            return self._protect_text(value, sentinel)
        if isinstance(value, Mapping):
            return {self.protect(key, sentinel): self.protect(item, sentinel) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.protect(item, sentinel) for item in value]
        return value

    def _protect_text(self, text: str, sentinel: str) -> str:
        if self._start is None or not text:
            return text
        broken = self._start.sub(lambda match: match[1] + sentinel, text)
        # Two client strings, or one and the template's text, may meet and spell a literal between them, also after
        # the template has trimmed them.
        body = broken.rstrip()
        if body.endswith(self._heads):
            broken = body + sentinel + broken[len(body) :]
        body = broken.lstrip()
        if body.startswith(self._tails):
            broken = broken[: len(broken) - len(body)] + sentinel + body
        return broken


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
