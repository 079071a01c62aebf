"""The session spill: conversations written at a drain and read back at the next start (ENG-121).

One file each, in the folder of the serving profile: `resident.spill` and, where one is parked, `parked.spill`. It has
the ids, the rows in chunks, so that neither writing nor reading holds more than one of them beside the buffer, and
every anchor, the end's among them, each of the class it had (ENG-073). A spill is read once and removed: what it holds
would be stale after the next turn. Another fingerprint or damage is a cold start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from tandem.engine.caches.keys import Keys
from tandem.engine.caches.parts import (
    Span,
    put_rows,
    recurrent_facts,
    recurrent_of,
    recurrent_parts,
    rows_parts,
)
from tandem.engine.caches.pieces import TEMPORARY, Damaged, PieceFile, Scratch, write_piece
from tandem.engine.caches.resident import Anchor
from tandem.engine.models.kv import KVRows

__all__ = ["Place", "Spilled", "discard_spill", "read_spill", "spill"]

Place: TypeAlias = Literal["resident", "parked"]

_CHUNK: Final = 1024
_PLACES: Final[tuple[Place, ...]] = ("resident", "parked")


@dataclass(frozen=True, slots=True)
class Spilled:
    """A conversation: its key ids, all of which have rows, and its anchors."""

    ids: tuple[int, ...] = field(repr=False)
    anchors: tuple[Anchor, ...]


def spill(folder: Path, place: Place, fingerprint: str, spilled: Spilled, rows: KVRows) -> int:
    """Write one, over what is there: its size. `rows` are all of its, not copied. `OSError` leaves nothing there."""
    keys = Keys.of(spilled.ids)
    facts = {
        "images": keys.images,
        "anchors": [
            {**recurrent_facts(anchor.recurrent), "at": anchor.row, "exactness": anchor.exactness}
            for anchor in spilled.anchors
        ],
    }
    parts: list[tuple[str, Tensor]] = [("ids", torch.from_numpy(keys.numbers))]
    for start in range(0, len(spilled.ids), _CHUNK):
        end = min(start + _CHUNK, len(spilled.ids))
        parts += rows_parts(KVRows(rows.keys[:, :, start:end], rows.values[:, :, start:end]), f"{start}.")
    for at, anchor in enumerate(spilled.anchors):
        parts += recurrent_parts(anchor.recurrent, f"anchor.{at}.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _path(folder, place)
    path.unlink(missing_ok=True)
    return write_piece(path, place, fingerprint, facts, parts)


def read_spill(folder: Path, place: Place, fingerprint: str, max_rows: int, span: Span) -> Spilled | None:
    """Put a spilled conversation's rows in place and remove the file; None, a cold start, where there is none to use.

    Rows may have been written when it comes to nothing.
    """
    path = _path(folder, place)
    try:
        with PieceFile.open(path) as file:
            if (file.fingerprint, file.kind) != (fingerprint, place):
                return None
            ids = Keys.stored(file.read("ids").numpy(), file.facts.get("images")).ids
            if len(ids) > max_rows:
                return None  # of a wider window
            # Anchors first: they are few, and rows need not be read where one of them is damaged.
            anchors = tuple(_anchors(file, len(ids)))
            _rows(file, len(ids), span)
            return Spilled(ids, anchors)
    except (Damaged, IndexError, KeyError, TypeError):
        return None
    finally:
        _remove(path)


def discard_spill(folder: Path) -> None:
    """Remove what is there, of a write that was cut short too: the caches were cleared, or spilling is off."""
    for place in _PLACES:
        path = _path(folder, place)
        _remove(path)
        _remove(path.with_name(path.name + TEMPORARY))


def _anchors(file: PieceFile, rows: int) -> Iterator[Anchor]:
    stored: Sequence[Mapping[str, Any]] = file.facts.get("anchors", ())
    for at, facts in enumerate(stored):
        row, exactness = facts["at"], facts["exactness"]
        if not 0 < row <= rows or exactness not in ("bit", "text"):
            raise Damaged(f"{file.path.name} has an anchor outside of its rows")
        yield Anchor(row, exactness, recurrent_of(file, f"anchor.{at}.", facts))


def _rows(file: PieceFile, count: int, span: Span) -> None:
    scratch = Scratch()
    for start in range(0, count, _CHUNK):
        put_rows(file, span(start, min(start + _CHUNK, count)), scratch, f"{start}.")


def _path(folder: Path, place: Place) -> Path:
    return folder / f"{place}.spill"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # nothing of it is used again: its fingerprint and checksums are looked at each time
