"""Rows and the recurrent part of a state as parts of a file, and back.

Rows are a part for each layer: what is read of a file, checked and put in place stays in a core's own cache meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from torch import Tensor

from tandem.engine.caches.pieces import Damaged, PieceFile, Scratch
from tandem.engine.models.kv import KVRows
from tandem.engine.models.recurrent import LayerMemory, Recurrent

__all__ = ["Span", "put_rows", "recurrent_facts", "recurrent_of", "recurrent_parts", "rows_parts"]

Span: TypeAlias = Callable[[int, int], KVRows]
"""Views of a buffer's rows from one to below another, to be written: `KVCache.span`."""


def rows_parts(rows: KVRows, prefix: str = "") -> list[tuple[str, Tensor]]:
    return [
        (f"{prefix}{name}.{layer}", part)
        for name, whole in (("keys", rows.keys), ("values", rows.values))
        for layer, part in enumerate(whole)
    ]


def put_rows(file: PieceFile, into: KVRows, scratch: Scratch, prefix: str = "") -> None:
    """Into views of a buffer; `Damaged` may leave some of it written."""
    for name, whole in (("keys", into.keys), ("values", into.values)):
        for layer, part in enumerate(whole):
            stored = file.read(f"{prefix}{name}.{layer}", scratch)
            if (stored.shape, stored.dtype) != (part.shape, part.dtype):
                raise Damaged(f"{file.path.name} has rows of another shape")
            part.copy_(stored)


def recurrent_facts(recurrent: Recurrent) -> Mapping[str, int]:
    return {"row": recurrent.row, "offset": recurrent.offset, "layers": len(recurrent.layers)}


def recurrent_parts(recurrent: Recurrent, prefix: str = "") -> list[tuple[str, Tensor]]:
    return [
        (f"{prefix}{name}.{layer}", getattr(memory, name))
        for layer, memory in enumerate(recurrent.layers)
        for name in LayerMemory._fields
    ]


def recurrent_of(file: PieceFile, prefix: str = "", facts: Mapping[str, int] | None = None) -> Recurrent:
    """What was made of it, in memory of its own; `Damaged` where it does not check."""
    facts = file.facts if facts is None else facts
    try:
        row, offset, layers = (int(facts[name]) for name in ("row", "offset", "layers"))
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{file.path.name} does not say where its recurrent part stands") from error
    read = (LayerMemory(*(file.read(f"{prefix}{name}.{at}") for name in LayerMemory._fields)) for at in range(layers))
    return Recurrent(row, tuple(read), offset)
