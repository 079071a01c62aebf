"""Calls that a model has written at the end of its reasoning instead of in its answer (MON-053, MON-054)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.engine.text.closing import CLOSING_PHRASE
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.calls import CallCodec, Text, xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart
from tandem.engine.text.reading.detokenizer import Detokenizer
from tandem.engine.text.reading.splitter import CLOSER

__all__ = ["Codec", "Reasoned", "reasoned_calls"]

_PHRASE: Final = CLOSING_PHRASE.partition(CLOSER)[0].strip()
Codec = Callable[..., CallCodec]
"""`xml_calls` or `pythonic_calls`: the one that reads the model's answers."""


@dataclass(frozen=True, slots=True)
class Reasoned:
    """Whole calls of offered tools, with nothing but white space between and behind them."""

    ids: tuple[int, ...] = field(repr=False)
    """Their own tokens, from the first call's on."""
    names: tuple[str, ...]


def reasoned_calls(
    reasoning: Sequence[int], tok: TextModel, tools: Sequence[Mapping[str, Any]], codec: Codec = xml_calls
) -> Reasoned | None:
    """The calls that `reasoning` ends with, as the model's own codec reads them.

    A call that more reasoning follows was thought better of, and is none of them. None where there are none, and where
    any block of the reasoning cannot be read or names a tool that is not among `tools`.
    """
    if not tools or not reasoning:
        return None
    ends, text = _spelled(reasoning, tok)
    text = text.rstrip().removesuffix(_PHRASE)  # a cap that is the client's may have closed the block
    offered = {tool["function"]["name"] for tool in tools}
    names: list[str] = []
    start = 0
    reader = codec(tools, live=False, new_id=lambda: "")
    for piece in [*reader.feed(text), *reader.end()]:
        match piece:
            case CallStart(name=name) if name in offered:
                names.append(name)
            case CallArguments() | CallEnd():
                pass
            case Text(at, said, why=None):
                if said.strip():
                    names, start = [], at + len(said.rstrip())
            case _:
                return None
    return _cut(reasoning, text, ends, start, names) if names else None


def _spelled(ids: Sequence[int], tok: TextModel) -> tuple[list[int], str]:
    """The text of `ids`, and behind how many characters of it each of them ends."""
    detokenizer = Detokenizer()
    ends, parts, length = [], [], 0
    for token in ids:
        parts.append(detokenizer.feed(tok.piece(token)))
        length += len(parts[-1])
        ends.append(length)
    return ends, "".join([*parts, detokenizer.end()])


def _cut(ids: Sequence[int], text: str, ends: Sequence[int], start: int, names: Sequence[str]) -> Reasoned | None:
    """The tokens from the first character behind `start` that is no white space on; None where a token has more in
    front of it.
    """
    while text[start].isspace():
        start += 1
    first = next(at for at, end in enumerate(ends) if end > start)
    begins = ends[first - 1] if first else 0
    if text[begins:start].strip():
        return None
    solid = len(text.rstrip())
    last = next(at for at, end in enumerate(ends) if end >= solid)
    return Reasoned(tuple(ids[first : last + 1]), tuple(names))
