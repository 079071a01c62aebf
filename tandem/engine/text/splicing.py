"""Token ids put into a prompt that is rendered: notes before turn-end ids, and the thinking block closed at its end.

A prompt is never rendered again for them, so all that stood in it stays at the place among the client's tokens where a
cache has it (NOTE-002). Decisions only: ids in, a prompt out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem.engine.text.images import PromptImage
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt, Span, SpanKind, turn_end_rows

__all__ = ["Openings", "Piece", "close_thinking", "openings", "splice"]


@dataclass(frozen=True, slots=True)
class Piece:
    """`ids` of one origin that go before the token at row `row`; those of one row follow each other as given."""

    row: int
    kind: SpanKind
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Openings:
    """What a prompt ends with behind its last turn-end id: the answer's opening, its thinking left open or closed."""

    open: tuple[int, ...]
    closed: tuple[int, ...]
    turn_ends: frozenset[int]


def splice(prompt: Prompt, pieces: Sequence[Piece]) -> Prompt:
    """`prompt` with `pieces`, which are in the order of their rows. Its insertion point moves behind those at it."""
    pieces = [piece for piece in pieces if piece.ids]
    if not pieces:
        return prompt
    spans: list[Span] = []
    at = hidden = 0
    for piece in pieces:
        spans += _between(prompt, at, piece.row, hidden)
        at, hidden = piece.row, hidden + len(piece.ids)
        spans.append(Span(piece.kind, at + hidden - len(piece.ids), at + hidden))
    # From the last on, so that a row stays where it is named; every further copy of all ids would be felt (RTR-029).
    ids = list(prompt.ids)
    for piece in reversed(pieces):
        ids[piece.row : piece.row] = piece.ids
    return replace(
        prompt,
        ids=tuple(ids),
        spans=_joined([*spans, *_between(prompt, at, len(prompt.ids), hidden)]),
        turn_ends=None if prompt.turn_ends is None else _moved_rows(prompt.turn_ends, pieces),
        images=tuple(_moved(image, pieces) for image in prompt.images),
        insertion=prompt.insertion + sum(len(piece.ids) for piece in pieces if piece.row <= prompt.insertion),
        head=prompt.head + sum(len(piece.ids) for piece in pieces if piece.row < prompt.head),
    )


def openings(text: TextModel) -> Openings | None:
    """How the model's template opens an answer, thinking left to it and thinking off; None where the two are the same
    or the template ends no turn.
    """
    if not text.turn_ends:
        return None
    tails: list[tuple[int, ...]] = []
    for kwargs in ({}, {"enable_thinking": False}):
        ids = text.render(Conversation(messages=[{"role": "user", "content": "a"}], template_kwargs=kwargs)).ids
        rows = turn_end_rows(ids, text.turn_ends)
        if not rows:
            return None
        tails.append(ids[rows[-1] + 1 :])
    opened, closed = tails
    return None if opened == closed else Openings(opened, closed, text.turn_ends)


def close_thinking(prompt: Prompt, known: Openings | None) -> Prompt:
    """`prompt` with its thinking block closed (EFF-004), itself where it does not end as the template opens an answer.

    As many of the closed opening's tokens count as the client's as there were before, so counts stay the raw path's.
    """
    if known is None or prompt.thinking == "off":
        return prompt
    start = next((row + 1 for row in range(len(prompt.ids) - 1, -1, -1) if prompt.ids[row] in known.turn_ends), 0)
    tail = prompt.ids[start:]
    if tail[: len(known.open)] != known.open:
        return prompt
    own = start + min(len(tail), len(known.closed))
    spans = [*_between(prompt, 0, start, 0), Span("client", start, own)]
    ids = prompt.ids[:start] + known.closed
    if own < len(ids):
        spans.append(Span("closed_think", own, len(ids)))
    insertion = min(prompt.insertion, start)
    return replace(prompt, ids=ids, spans=_joined(spans), thinking="off", insertion=insertion)


def _between(prompt: Prompt, start: int, stop: int, shift: int) -> list[Span]:
    """The spans of rows start…stop of the prompt, moved by `shift`."""
    if start == stop:
        return []
    within = (span for span in prompt.spans if span.start < stop and start < span.end)
    return [Span(span.kind, max(span.start, start) + shift, min(span.end, stop) + shift) for span in within]


def _moved_rows(rows: Sequence[int], pieces: Sequence[Piece]) -> tuple[int, ...]:
    moved: list[int] = []
    at = hidden = 0
    for row in rows:
        while at < len(pieces) and pieces[at].row <= row:
            at, hidden = at + 1, hidden + len(pieces[at].ids)
        moved.append(row + hidden)
    return tuple(moved)


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Client spans that touch become one; hidden ones stay apart, each a text of its own."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].kind == span.kind == "client":
            joined[-1] = Span("client", joined[-1].start, span.end)
        else:
            joined.append(span)
    return tuple(joined)


def _moved(image: PromptImage, pieces: Sequence[Piece]) -> PromptImage:
    shift = sum(len(piece.ids) for piece in pieces if piece.row <= image.start)
    return replace(image, start=image.start + shift) if shift else image
