"""Hidden tokens of earlier turns, put back into the next prompt where the rows of a cache hold them (ENG-111, SCH-114).

A client sends back what it has seen. Where the rows hold more, notes or a closer that was forced unseen, its prompt
parts from them at the first such token, and all behind that is read again. So the tokens are put back, hidden as they
were, where everything else is the same up to the end of those rows. A prompt gets tokens of another by that, so it
happens for the session that wrote them alone. Decisions only: ids in, a prompt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tandem.engine.text.images import PromptImage
from tandem.engine.text.prompt import Prompt, Span

__all__ = ["Run", "Whose", "Written", "finalise", "hide"]

Run: TypeAlias = tuple[int, int]
"""From an index up to another, excluded."""


@dataclass(frozen=True, slots=True)
class Whose:
    """The session that wrote rows, an opaque value, and the runs of them, in order, that its client has not seen."""

    session: str
    hidden: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A conversation up to where an answer ended: all of `keys` have rows, and a prompt can go on behind them."""

    keys: tuple[int, ...] = field(repr=False)
    whose: Whose


def hide(runs: list[Run], at: int, count: int, dropped: int = 0) -> int:
    """`count` tokens from index `at` on, the newest, are hidden, and with them the `dropped` ones before them that were
    not: `runs` then say so, and what lay hidden between is part of theirs. Where they begin.
    """
    start = at
    while runs and dropped > start - runs[-1][1]:
        before = runs.pop()
        dropped -= start - before[1]
        start = before[0]
    start -= dropped
    runs.append((start, at + count))
    return start


def finalise(prompt: Prompt, written: Iterable[Written], window: int) -> Prompt:
    """`prompt` with what it lacks of the longest of `written` that it goes on from; itself where there is none, where
    the session is another or the prompt has none, or where it would have no room in `window`.
    """
    if prompt.session is None:
        return prompt
    keys = prompt.keys
    for each in sorted(written, key=lambda each: -len(each.keys)):
        if each.whose.session != prompt.session or (lacking := _lacking(prompt, keys, each)) is None:
            continue
        if len(prompt.ids) + sum(stop - start for start, stop in lacking) < window:
            return _with(prompt, each.keys, lacking)
    return prompt


def _lacking(prompt: Prompt, keys: Sequence[int], written: Written) -> list[Run] | None:
    """The hidden runs that a prompt does not have yet; None where it parts from the rows elsewhere, has nothing behind
    them, or lacks nothing.
    """
    at, read, lacking = 0, 0, list[Run]()
    for start, stop in [*written.whose.hidden, (len(written.keys), len(written.keys))]:
        seen = start - read
        if seen < 0 or stop < start:
            return None  # runs that are not in order tell nothing
        if tuple(keys[at : at + seen]) != written.keys[read:start]:
            return None
        at, read = at + seen, stop
        # A note that the plan has set again is there already.
        if _is_hidden(prompt, at, stop - start) and tuple(keys[at : at + stop - start]) == written.keys[start:stop]:
            at += stop - start
        elif start < stop:
            lacking.append((start, stop))
    return lacking if lacking and at < len(keys) else None


def _is_hidden(prompt: Prompt, at: int, count: int) -> bool:
    return any(span.kind != "client" and span.start <= at and at + count <= span.end for span in prompt.spans)


def _with(prompt: Prompt, keys: tuple[int, ...], lacking: Sequence[Run]) -> Prompt:
    """`lacking` are runs of `keys`, in order; each goes to the index it has there."""
    ids, spans, images = list(prompt.ids), list(prompt.spans), list(prompt.images)
    insertion, head = prompt.insertion, prompt.head
    for start, stop in lacking:
        count = stop - start
        ids[start:start] = keys[start:stop]
        spans = _opened(spans, start, count)
        images = [_moved(image, start, count) for image in images]
        insertion += count if start <= insertion else 0
        head += count if start < head else 0
    return replace(
        prompt,
        ids=tuple(ids),
        spans=tuple(spans),
        images=tuple(images),
        insertion=insertion,
        head=head,
        turn_ends=None,
    )


def _opened(spans: Sequence[Span], at: int, count: int) -> list[Span]:
    """Spans with a replayed one of `count` tokens at an index."""
    before = [Span(each.kind, each.start, min(each.end, at)) for each in spans if each.start < at]
    after = [Span(each.kind, max(each.start, at) + count, each.end + count) for each in spans if each.end > at]
    return [*before, Span("replayed", at, at + count), *after]


def _moved(image: PromptImage, at: int, count: int) -> PromptImage:
    return image if image.start < at else replace(image, start=image.start + count)
