"""The masks of an answer that is in a language from some token on: behind its reasoning and the blank lines (ENG-087).

A `State` says how far an output has come before and into the language. It is immutable, so that the committed output
has one and every path of a draft has its own; the states of paths are kept until the next commit. A matcher is moved by
commits alone, where the answer has begun; a path that begins inside a token gets a copy of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from tandem.engine.grammar.borders import OPENER, WHITESPACE, Borders, borders, closed, joined
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Thinking

if TYPE_CHECKING:
    from tandem.engine.grammar.matcher import Matcher

__all__ = ["BranchMask", "ConstraintMask"]

MOST_BLANKS: Final = 8
"""Blank tokens before an answer (decided): a template has one or two, and a model must not loop in them."""

_Path: TypeAlias = tuple[int, ...]


class _Phase(Enum):
    START = auto()
    """No text of the answer yet; perhaps blank lines, or a part of an opening tag."""
    REASONING = auto()
    """The block is open; nothing is constrained."""
    ANSWER = auto()
    """The language has begun."""
    OUT = auto()
    """What was written is in no language: nothing may follow."""


class _Cursor(NamedTuple):
    """A language that has read what a path holds from index `start` on, and that `matcher` has not."""

    matcher: Matcher
    start: int


_Cursors: TypeAlias = "tuple[_Cursor | None, ...]"
"""One for each language, None where it is ruled out."""


@dataclass(frozen=True, slots=True)
class _State:
    phase: _Phase
    cursors: _Cursors
    is_closed: bool = False
    """A thinking block was open and no longer is."""
    seen: int = 0
    """Bytes written of the opening tag in `START`, of the closing one in `REASONING`."""
    blanks: int = 0

    @property
    def cursor(self) -> _Cursor:
        """The only language left."""
        [cursor] = filter(None, self.cursors)
        return cursor


class _Row(NamedTuple):
    """What the model's own first token decides (ENG-091): the language, None for any, and what else is allowed."""

    only: int | None
    blank: bool
    tag: bool


_OPEN_ROW: Final = _Row(None, blank=True, tag=True)
_CALLS: Final = 0
_DOCUMENT: Final = 1
"""The two languages of a `BranchMask`, by index."""


class _AnswerMask:
    """What the two masks share. Their difference is whether whitespace may lead an answer of any language (`leads`)."""

    def __init__(self, matchers: Sequence[Matcher], text: TextModel, thinking: Thinking, *, leads: bool) -> None:
        self._matchers = tuple(matchers)
        self._text = text
        self._opens = thinking == "free"
        self._leads = leads
        phase = _Phase.REASONING if thinking == "open" else _Phase.START
        if thinking == "off" and len(self._matchers) == 1:
            phase = _Phase.ANSWER
        self._base = _State(phase, self._fresh(0))
        self._held: _Path = ()
        """Committed tokens that may be the language's or a tag's, not yet in `_base`; paths go on from them."""
        self._known: dict[_Path, _State] = {}
        """States of paths, which begin with the held tokens."""
        self._rows: dict[_Path, _Row] = {}
        """What has been decided at rows of paths."""

    def allows(self, path: Sequence[int], token: int) -> bool:
        """Whether `token` may come after the committed output and `path`."""
        if self._base.phase is _Phase.ANSWER:
            return self._base.cursor.matcher.allows(path, token)
        whole = (*self._held, *path)
        state = self._at(whole)
        if state.phase is _Phase.ANSWER:
            return state.cursor.matcher.allows(whole[state.cursor.start :], token)
        return self._step(state, whole, token).phase is not _Phase.OUT

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        """One bit a token; None where the reasoning may go on with any."""
        if self._base.phase is _Phase.ANSWER:
            bits: bytes | None = self._base.cursor.matcher.bits(path)
        else:
            whole = (*self._held, *path)
            bits = self._bits(self._at(whole), whole, best)
        return self._with_best(bits, path, best) if self._text.is_open_vocabulary else bits

    def commit(self, ids: Sequence[int]) -> None:
        """The output has grown by `ids`, chosen by the model or forced."""
        if self._base.phase is _Phase.ANSWER:
            self._base.cursor.matcher.commit(ids)
            return
        whole = (*self._held, *ids)
        state = self._at(whole)
        start, row = len(whole), None
        if state.phase is _Phase.ANSWER:
            state.cursor.matcher.commit(whole[state.cursor.start :])
        elif state.phase is _Phase.START:
            # Where a language has read tokens that may still turn out to be a tag's, they wait.
            start = min((cursor.start for cursor in state.cursors if cursor), default=start)
            row = self._rows.get(whole[:start])
            state = self._at(whole[:start])
        self._held = whole[start:]
        self._base = replace(state, cursors=tuple(cursor and _Cursor(cursor.matcher, 0) for cursor in state.cursors))
        self._known.clear()
        self._rows = {(): row} if row is not None and self._held else {}

    def forced(self) -> tuple[int, ...]:
        """What must follow the committed output; nothing is certain before the answer's first token."""
        return self._base.cursor.matcher.forced() if self._base.phase is _Phase.ANSWER else ()

    @property
    def _borders(self) -> Borders:
        return borders(self._text)

    def _fresh(self, start: int) -> _Cursors:
        """Every language at its beginning, none of the path's first `start` tokens read."""
        return tuple(_Cursor(matcher, start) for matcher in self._matchers)

    def _row(self, state: _State, whole: _Path, best: int) -> _Row:
        """What `best` decides where the next token may be the answer's first."""
        return _OPEN_ROW

    def _pick(self, cursors: _Cursors, body: bytes) -> _Cursors:
        """The language that an answer which begins with `body` is in, of those that allow it."""
        return cursors

    def _at(self, whole: _Path) -> _State:
        """The state behind `whole`. Rows are asked in walk order, so mostly its last token is all that is new."""
        count = len(whole)
        while count and whole[:count] not in self._known:
            count -= 1
        state = self._known[whole[:count]] if count else self._base
        for at in range(count, len(whole)):
            state = self._known[whole[: at + 1]] = self._step(state, whole[:at], whole[at])
        return state

    def _step(self, state: _State, path: _Path, token: int) -> _State:
        """The state behind `path` and `token`, where `state` is the one behind `path`."""
        match state.phase:
            case _Phase.START:
                return self._start(state, path, token)
            case _Phase.REASONING if token in self._borders.ends:
                return replace(state, phase=_Phase.OUT)
            case _Phase.REASONING:
                return self._reason(state.seen, self._borders.piece(token), len(path) + 1)
            case _Phase.ANSWER | _Phase.OUT:
                return state

    def _start(self, state: _State, path: _Path, token: int) -> _State:
        piece = self._borders.piece(token)
        body = piece if state.seen else piece.lstrip(WHITESPACE)
        row = self._rows.get(path, _OPEN_ROW)
        taking = tuple(
            cursor if cursor and row.only in (None, at) and cursor.matcher.allows(path[cursor.start :], token) else None
            for at, cursor in enumerate(state.cursors)
        )
        if piece and not body and row.blank and (blank := self._blank(state, piece, len(path) + 1, taking)):
            return blank
        if body and row.tag and self._may_open(state):
            tag = OPENER[state.seen :]
            if body.startswith(tag):
                inside = self._reason(0, body[len(tag) :], len(path) + 1)
                return inside if inside.phase is not _Phase.ANSWER else replace(inside, phase=_Phase.OUT)
            if tag.startswith(body) and self._borders.spells_opener:
                return replace(state, seen=state.seen + len(body), cursors=taking)
        if not any(taking):
            return replace(state, phase=_Phase.OUT)
        return replace(state, phase=_Phase.ANSWER, cursors=self._pick(taking, OPENER[: state.seen] + body))

    def _blank(self, state: _State, piece: bytes, end: int, taking: _Cursors) -> _State | None:
        """Behind whitespace that need not be the language's, or that a tag may still follow; None behind any other."""
        if state.blanks < MOST_BLANKS and (self._leads or (state.is_closed and piece.endswith(b"\n"))):
            return replace(state, blanks=state.blanks + 1, cursors=self._fresh(end))
        # Without a tag behind it this whitespace is text of the answer, so the language has to take it.
        return replace(state, cursors=taking) if self._may_open(state) and any(taking) else None

    def _may_open(self, state: _State) -> bool:
        """Whether a thinking block may still open where `state` is."""
        return self._opens and not state.is_closed

    def _reason(self, seen: int, piece: bytes, end: int) -> _State:
        """Behind `piece` inside the block. What follows the closing tag in one token is read at once."""
        seen, rest = closed(seen, piece)
        if rest is None:
            return _State(_Phase.REASONING, self._fresh(end), seen=seen)
        body = self._body(rest)
        if not body:
            return _State(_Phase.START, self._fresh(end), is_closed=True)
        cursors: list[_Cursor | None] = []
        for matcher in self._matchers:
            cursors.append(None)
            if matcher.allows_bytes(body):
                twin = matcher.copy()
                twin.commit_bytes(body)
                cursors[-1] = _Cursor(twin, end)
        if not any(cursors):
            return _State(_Phase.OUT, tuple(cursors), is_closed=True)
        return _State(_Phase.ANSWER, self._pick(tuple(cursors), body), is_closed=True)

    def _body(self, rest: bytes) -> bytes:
        """`rest` without the blank lines in front; its first line's indentation is the answer's own."""
        body = rest.lstrip(WHITESPACE)
        if not body or self._leads:
            return body
        return rest[rest.rfind(b"\n", 0, len(rest) - len(body)) + 1 :]

    def _bits(self, state: _State, whole: _Path, best: int) -> bytes | None:
        match state.phase:
            case _Phase.START:
                return self._start_bits(state, whole, best)
            case _Phase.REASONING:
                return self._reasoning_bits(state, best)
            case _Phase.ANSWER:
                return state.cursor.matcher.bits(whole[state.cursor.start :])
            case _Phase.OUT:
                return self._borders.nothing

    def _start_bits(self, state: _State, whole: _Path, best: int) -> bytes:
        row = _OPEN_ROW if state.seen else self._row(state, whole, best)
        masks = [
            cursor.matcher.bits(whole[cursor.start :])
            for at, cursor in enumerate(state.cursors)
            if cursor and row.only in (None, at)
        ]
        if row.blank and not state.seen and state.blanks < MOST_BLANKS:
            masks += [self._borders.blank] if self._leads else [self._borders.lines] if state.is_closed else []
        if row.tag and self._may_open(state):
            masks.append(self._borders.opening[state.seen])
        return joined(masks or [self._borders.nothing])

    def _reasoning_bits(self, state: _State, best: int) -> bytes:
        """Anything but an end, which would leave the answer out. A model that would end here closes the block."""
        if best in self._borders.ends:
            return self._borders.closers[state.seen]
        closing = self._borders.closing[state.seen]
        out = [token for token in closing if not self._closes_well(state.seen, token)]
        return self._borders.all_but((*self._borders.ends, *out)) if out else self._borders.no_end

    def _closes_well(self, seen: int, token: int) -> bool:
        rest = closed(seen, self._borders.piece(token))[1]
        body = self._body(rest or b"")
        return any(matcher.allows_bytes(body) for matcher in self._matchers)

    def _with_best(self, bits: bytes | None, path: Sequence[int], best: int) -> bytes | None:
        """An open vocabulary's masks show its bytes alone, so the token that the model would choose is looked at."""
        is_allowed = self.allows(path, best)
        if bits is None:
            return None if is_allowed else self._borders.all_but((best,))
        if bits[best >> 3] >> (best & 7) & 1 == is_allowed:
            return bits
        corrected = bytearray(bits)
        corrected[best >> 3] ^= 1 << (best & 7)
        return bytes(corrected)


class ConstraintMask(_AnswerMask):
    """Keeps the answer in one language. `matcher` is at its beginning and belongs to the mask from here on.

    `open`: everything but an end is allowed until the block closes, then blank lines or the language's first token.
    `free`: the model may open a block itself. `off`: the language begins at the first token.
    """

    def __init__(self, matcher: Matcher, text: TextModel, thinking: Thinking) -> None:
        super().__init__((matcher,), text, thinking, leads=False)


class BranchMask(_AnswerMask):
    """Calls or a document, whichever the model begins by itself (ENG-091); from there on that language alone.

    What a row's `best` decides holds for the rows behind it and is forgotten unless they are committed. Whitespace
    decides nothing and may come first, also where thinking is off.
    """

    def __init__(self, calls: Matcher, document: Matcher, text: TextModel, thinking: Thinking) -> None:
        super().__init__((calls, document), text, thinking, leads=True)

    @property
    def branch(self) -> Literal["calls", "document"] | None:
        """The language that the committed output is in (API-134); None while it is open."""
        if self._base.phase is not _Phase.ANSWER:
            return None
        return "document" if self._base.cursors[_CALLS] is None else "calls"

    def _row(self, state: _State, whole: _Path, best: int) -> _Row:
        row = self._decide(best, may_open=self._may_open(state))
        if row != self._rows.get(whole, _OPEN_ROW):
            self._rows[whole] = row
            # States behind this row were found for the token alone, as when a draft was cut.
            self._known = {path: state for path, state in self._known.items() if len(path) <= len(whole)}
        return row

    def _decide(self, best: int, *, may_open: bool) -> _Row:
        piece = self._borders.piece(best)
        body = piece.lstrip(WHITESPACE)
        if (piece and not body) or (may_open and body.startswith(OPENER)):
            return _OPEN_ROW
        if body.startswith(b"<"):
            return _Row(_CALLS, blank=False, tag=self._borders.spells_opener and OPENER.startswith(body))
        return _Row(_DOCUMENT, blank=False, tag=False)

    def _pick(self, cursors: _Cursors, body: bytes) -> _Cursors:
        kept = _CALLS if body.startswith(b"<") else _DOCUMENT
        return tuple(cursor if at == kept else None for at, cursor in enumerate(cursors)) if all(cursors) else cursors
