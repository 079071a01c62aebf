"""Notes: hidden text at the end of a turn, and what of it is live on a later one (NOTE-001 to NOTE-010).

A note goes right before the turn-end id of the last message. On every later turn it is put back at the same place, so
the tokens that a cache holds never move. The place is named by two things: `ordinal`, which of the prompt's turn-end
ids it stands before, and `chain`, a digest of the messages up to the one that carries it. A client's text never becomes
a turn-end id, so while the chain is unchanged the ordinal is too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

__all__ = [
    "GAP",
    "NO_NOTES",
    "Carried",
    "Dedup",
    "LiveNote",
    "NewNote",
    "NoteKind",
    "NotePart",
    "NoteRun",
    "carry",
    "live_notes",
    "text_hash",
]

NoteKind: TypeAlias = Literal["directory", "class", "card", "outcome", "library", "identity", "monitor"]
"""What a part is; in this order they make a note (NOTE-003). Cards, outcomes and the library come with later work. The
monitor's is a note of its own behind the router's (MON-034).
"""
ORDER: tuple[NoteKind, ...] = ("directory", "class", "card", "outcome", "library", "identity")
Dedup: TypeAlias = Literal["parts", "block"]
Encode: TypeAlias = Callable[[str], Sequence[int]]

GAP = "\n\n"
"""Before every part: a note follows the message's own text."""
HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class NotePart:
    """One part: a package, the effort sentence, a rule, the directory sentence …"""

    kind: NoteKind
    name: str
    """For the row: `effort`, `package:coding`, `rule`, `reading`, `tool_fit`, `identity`, `directory`."""
    text: str

    @property
    def origin(self) -> Literal["client", "note"]:
        """The directory sentence is the client's text in another place (FIT-001): it counts as prompt tokens."""
        return "client" if self.kind == "directory" else "note"


@dataclass(frozen=True, slots=True)
class NoteRun:
    """Text of one origin, tokenized by itself."""

    kind: Literal["client", "note"]
    text: str


@dataclass(frozen=True, slots=True)
class NewNote:
    """A note that a turn adds, not yet placed."""

    parts: tuple[NotePart, ...]
    runs: tuple[NoteRun, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class LiveNote:
    """A note that a session carries on. `runs` is the text as it was first inserted (NOTE-002)."""

    ordinal: int
    chain: str
    runs: tuple[NoteRun, ...]
    parts: tuple[tuple[NoteKind, str, str], ...]
    """Kind, name and text hash of each part."""
    tokens: int

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, slots=True)
class Carried:
    """What one turn has of notes: those put back, the one it adds, and those that the budget no longer holds."""

    replays: tuple[LiveNote, ...] = ()
    new: NewNote | None = None
    dropped: tuple[LiveNote, ...] = ()


NO_NOTES = Carried()


def text_hash(text: str) -> str:
    """By which rows and the journal name a hidden text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def live_notes(notes: Iterable[LiveNote], places: Collection[str]) -> tuple[LiveNote, ...]:
    """Those whose message is still there with all before it unchanged (NOTE-008), in the order of their places."""
    return tuple(sorted((note for note in notes if note.chain in places), key=lambda note: note.ordinal))


def carry(
    live: Sequence[LiveNote], parts: Sequence[NotePart], *, most_tokens: int, encode: Encode, dedup: Dedup = "parts"
) -> Carried:
    """The live notes and a new one of `parts`, within `most_tokens` (NOTE-006, NOTE-007).

    Above it the oldest notes go first. What a dropped note said counts as not said, so the new note says it again where
    it is among `parts`. One that would only be said again stays, and a turn that adds nothing drops nothing: no room is
    won, and a note that is larger than the budget would come and go for ever.
    """
    kept, new = tuple(live), _new_note(parts, live, encode, dedup)
    if new is None:
        return Carried(kept)
    tokens = _tokens(kept, new)
    for note in live:
        if tokens <= most_tokens:
            break
        fewer = tuple(each for each in kept if each is not note)
        again = _new_note(parts, fewer, encode, dedup)
        if (left := _tokens(fewer, again)) < tokens:
            kept, new, tokens = fewer, again, left
    return Carried(kept, new, tuple(note for note in live if note not in kept))


def _tokens(kept: Sequence[LiveNote], new: NewNote | None) -> int:
    return sum(note.tokens for note in kept) + (new.tokens if new else 0)


def _new_note(parts: Sequence[NotePart], live: Sequence[LiveNote], encode: Encode, dedup: Dedup) -> NewNote | None:
    said = {digest for note in live for _, _, digest in note.parts}
    where = _last_directory(live)
    parts = [part for part in parts if part.text]
    fresh = [part for part in parts if _is_fresh(part, said, where)]
    if dedup == "block" and any(part.kind == "class" for part in fresh):
        fresh = [part for part in parts if part.kind == "class" or part in fresh]
    if not fresh:
        return None
    fresh.sort(key=lambda part: ORDER.index(part.kind))
    runs = tuple(
        NoteRun(origin, "".join(GAP + part.text for part in run))
        for origin, run in groupby(fresh, key=lambda part: part.origin)
    )
    return NewNote(tuple(fresh), runs, sum(len(encode(run.text)) for run in runs))


def _is_fresh(part: NotePart, said: Collection[str], directory: str | None) -> bool:
    """Not said by a live note. A directory is said again when another was said since (FIT-001)."""
    digest = text_hash(part.text)
    return digest != directory if part.kind == "directory" else digest not in said


def _last_directory(live: Sequence[LiveNote]) -> str | None:
    return next((digest for note in reversed(live) for kind, _, digest in note.parts if kind == "directory"), None)
