"""A plan's notes put into the rendered prompt (NOTE-001, NOTE-002, NOTE-012), and what of them the session keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tandem.conductor.router.kit import Kit
from tandem.conductor.router.notes import GAP, LiveNote, NewNote, NoteKind, NoteRun, text_hash
from tandem.conductor.router.plan import Plan
from tandem.conductor.sessions import SessionDelta
from tandem.engine.text.prompt import Prompt, turn_end_rows
from tandem.engine.text.splicing import Piece, close_thinking, splice

__all__ = ["Placed", "PlacedNote", "has_place", "noted_behind", "place", "place_behind"]


@dataclass(frozen=True, slots=True)
class PlacedNote:
    """A note of this turn's prompt, as the row has it (NOTE-011)."""

    note: LiveNote
    position: int
    """Row of its first token."""
    is_new: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """The prompt with all that the plan puts into it."""

    prompt: Prompt
    notes: tuple[PlacedNote, ...] = ()
    delta: SessionDelta | None = None
    """The plan's, with the new note as it is carried on."""
    marks: tuple[str, ...] = ()
    """`note.window`: one did not fit. `note.no_place`: the template ends no turn."""


def place(kit: Kit, plan: Plan, prompt: Prompt, room: int | None = None) -> Placed:
    """`prompt` is rendered of what was prepared; `room` is how many more tokens the window holds.

    What is left out for want of room is the new note first, then the newest of the old: what stays, stays in its place.
    """
    effects = plan.effects
    if not effects.under_plan:
        return Placed(prompt, delta=plan.delta)
    if effects.close_thinking:
        before, prompt = len(prompt.ids), close_thinking(prompt, kit.openings)
        room = None if room is None else room - (len(prompt.ids) - before)
    if effects.hidden_session is not None:
        prompt = replace(prompt, session=effects.hidden_session)
    ends = _ends(kit, prompt)
    if ends:
        prompt = replace(prompt, insertion=ends[-1])
    if effects.note is None and not effects.replays:
        return Placed(prompt, delta=plan.delta)
    replays = [note for note in effects.replays if note.ordinal < len(ends)]
    new = _live(plan, effects.note, len(ends) - 1) if effects.note and ends else None
    marks = ("note.no_place",) if effects.note and new is None else ()
    wanted = [*replays, new] if new is not None else replays
    lengths = [sum(len(kit.encode(run.text)) for run in note.runs) for note in wanted]
    notes = [note for note, end in zip(wanted, accumulate(lengths), strict=True) if room is None or end <= room]
    if len(notes) < len(wanted):
        new, marks = None, (*marks, "note.window")
    delta = plan.delta
    if delta is not None and new is not None:
        delta = replace(delta, notes=(new,))
    pieces = [Piece(ends[note.ordinal], run.kind, kit.encode(run.text)) for note in notes for run in note.runs]
    return Placed(splice(prompt, pieces), _placed(notes, lengths, ends, new), delta, marks)


def has_place(kit: Kit, plan: Plan, placed: Placed) -> bool:
    """Whether `place_behind` knows where to put a note."""
    return bool(_ends(kit, placed.prompt)) and plan.place is not None and placed.delta is not None


def noted_behind(plan: Plan, placed: Placed) -> frozenset[str]:
    """Hashes of the monitor's notes that are put back where this turn's would go: the same request has come before."""
    here = [each.note for each in placed.notes if each.note.chain == plan.place]
    return frozenset(text for note in here for kind, _, text in note.parts if kind == "monitor")


def place_behind(kit: Kit, plan: Plan, placed: Placed, text: str, name: str, room: int) -> Placed | None:
    """A note of the monitor's task `name`, behind the turn's own, and carried on like it (MON-034, K-10); None where it
    has no place or more than `room` tokens.
    """
    prompt, delta = placed.prompt, placed.delta
    ends, ids = _ends(kit, prompt), kit.encode(GAP + text)
    if not ends or plan.place is None or delta is None or len(ids) > room:
        return None
    parts: tuple[tuple[NoteKind, str, str], ...] = (("monitor", name, text_hash(text)),)
    note = LiveNote(len(ends) - 1, plan.place, (NoteRun("note", GAP + text),), parts, len(ids))
    whole = splice(replace(prompt, insertion=ends[-1]), [Piece(ends[-1], "note", ids)])
    return replace(placed, prompt=whole, delta=replace(delta, notes=(*delta.notes, note)))


def _ends(kit: Kit, prompt: Prompt) -> Sequence[int]:
    return turn_end_rows(prompt.ids, kit.turn_ends) if prompt.turn_ends is None else prompt.turn_ends


def _live(plan: Plan, new: NewNote, ordinal: int) -> LiveNote | None:
    if plan.place is None:
        return None
    parts = tuple((part.kind, part.name, text_hash(part.text)) for part in new.parts)
    return LiveNote(ordinal, plan.place, new.runs, parts, new.tokens)


def _placed(
    notes: Sequence[LiveNote], lengths: Sequence[int], ends: Sequence[int], new: LiveNote | None
) -> tuple[PlacedNote, ...]:
    """`lengths` are counted anew: a session may have been stored under another model."""
    before = accumulate(lengths, initial=0)
    return tuple(
        PlacedNote(note, ends[note.ordinal] + hidden, note is new) for note, hidden in zip(notes, before, strict=False)
    )
