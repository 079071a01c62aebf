"""A stand-in for a model in tests of caches: rows and recurrent parts that are a function of the ids below them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from tandem.engine.caches.disk import DiskTier, Restored
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.disk_prefix import Missing, start_of
from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.resident import Anchor
from tandem.engine.models.kv import KVRows
from tandem.engine.models.recurrent import NO_LAYERS, LayerMemory, Recurrent

__all__ = ["FINGERPRINT", "GRID", "ON", "Buffer", "end", "fill", "open_tier", "recurrent_at", "resumed", "rows_of"]

GRID = 4
FINGERPRINT = "0123456789abcdef" * 2
ON = DiskSettings(mode="on", admit_after=1, min_free=0)


def _numbers(ids: Sequence[int], count: int, salt: bytes) -> Tensor:
    data = blake2b(salt + repr(tuple(ids)).encode(), digest_size=4 * count).digest()
    return torch.frombuffer(bytearray(data), dtype=torch.int32).float()


def rows_of(ids: Sequence[int], start: int, end: int) -> KVRows:
    """(2 layers, 1 head, rows, 3): what a model would have written for rows start…end - 1 of `ids`."""

    def part(salt: bytes) -> Tensor:
        rows = [_numbers(ids[: row + 1], 6, salt).reshape(2, 1, 3) for row in range(start, end)]
        return torch.stack(rows, dim=2)

    return KVRows(part(b"k"), part(b"v").to(torch.bfloat16))


def recurrent_at(ids: Sequence[int], row: int) -> Recurrent:
    layers = tuple(
        LayerMemory(_numbers(ids[:row], 4, b"m%d" % layer).reshape(1, 2, 2), _numbers(ids[:row], 3, b"t").reshape(3, 1))
        for layer in range(2)
    )
    return Recurrent(row, layers, -row // 2)


class Buffer:
    """Where rows are put, and what of it is right."""

    def __init__(self, rows: int = 64) -> None:
        self.keys = torch.full((2, 1, rows, 3), -1.0)
        self.values = torch.full((2, 1, rows, 3), -1.0, dtype=torch.bfloat16)

    def span(self, start: int, end: int) -> KVRows:
        return KVRows(self.keys[:, :, start:end], self.values[:, :, start:end])

    def holds(self, ids: Sequence[int], start: int, end: int) -> bool:
        wanted, held = rows_of(ids, start, end), self.span(start, end)
        return torch.equal(held.keys, wanted.keys) and torch.equal(held.values, wanted.values)


def open_tier(
    folder: Path, *, settings: DiskSettings = ON, fingerprint: str = FINGERPRINT, recurrent: bool = True, now: float = 0
) -> DiskTier:
    return DiskTier(folder, fingerprint, GRID, recurrent=recurrent, settings=settings, now=now)


def fill(tier: DiskTier, ids: Sequence[int], *, now: float = 0, anchors: Sequence[int] | None = None) -> int:
    """A request of `ids` is read, and all that the tier wants of it is written: how many files."""
    tier.saw(ids)
    lines = range(GRID, len(ids) + 1, GRID) if anchors is None else anchors
    wanted = tier.missing(ids, [Anchor(row, "bit", recurrent_at(ids, row)) for row in lines])
    return sum(store(tier, ids, each, now) for each in wanted)


def end(tier: DiskTier, ids: Sequence[int], *, exact: int = 0, before: int = 0, now: float = 0) -> int:
    """A conversation of `ids` ends; its bit class ends at `exact`, and its last turn went on at the end `before`."""
    anchors = [Anchor(row, "bit", recurrent_at(ids, row)) for row in (exact,) if row]
    anchors += [Anchor(row, "text", recurrent_at(ids, row)) for row in (before, len(ids)) if row]
    tier.ended(ids, anchors)
    return sum(store(tier, ids, each, now) for each in tier.missing(ids, anchors))


def store(tier: DiskTier, ids: Sequence[int], missing: Missing, now: float) -> bool:
    rows = None if missing.kind == "anchor" else rows_of(ids, start_of(missing.row, GRID), missing.row)
    if (job := tier.job(ids, missing, rows)) is None:
        return False
    outcome = write(job)
    tier.written(job, outcome, now)
    return not isinstance(outcome, OSError)


def resumed(
    tier: DiskTier,
    ids: Sequence[int],
    have: int = 0,
    *,
    beyond: int | None = None,
    now: float = 0,
    recurrent: bool = True,
) -> int:
    """Read as a prompt would; the row, once every byte of what came back has been compared."""
    buffer = Buffer()
    restored: Restored | None = tier.read(ids, have, buffer.span, now, beyond=beyond)
    if restored is None:
        return have
    assert have < restored.row < len(ids)
    assert have <= restored.start <= max(have, beyond or 0)
    assert restored.exactness == "text" or restored.row % GRID == 0
    assert buffer.holds(ids, restored.start, restored.row)
    wanted = recurrent_at(ids, restored.row) if recurrent else NO_LAYERS
    assert (restored.recurrent.row, restored.recurrent.offset) == (wanted.row, wanted.offset)
    for got, right in zip(restored.recurrent.layers, wanted.layers, strict=True):
        assert torch.equal(got.matrix, right.matrix)
        assert torch.equal(got.tail, right.tail)
    return restored.row
