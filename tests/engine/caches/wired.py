"""Engines with caches over tiny models, driven a turn at a time, and what a run without any cache gives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.models.model import Model
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Prefilled
from tests.engine.decoding.engines import KIND, tiny, tiny_engine, trace

__all__ = ["ALL", "BARE", "MIB", "NEAR_TIE", "ON", "Turn", "cold", "flush", "on_disk", "served", "turn", "warm"]

MIB = 1 << 20
NEAR_TIE = 1e-3
"""Nats by which the logits of two runs of a tiny fp32 model may part (ENG-066)."""
ON = DiskSettings(mode="on", admit_after=1, min_free=0)
ALL = CacheSettings(guest_max=100, stash=MIB, park=MIB, store=8 * MIB, gate=False)
BARE = CacheSettings(stash=0, park=0, store=0, gate=False)
_FINGERPRINT = "0123456789abcdef" * 2


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: its last `Prefilled`, what it wrote and the rows that came of."""

    prefilled: Prefilled
    ids: list[int]
    rows: list[Tensor]

    @property
    def source(self) -> str:
        return self.prefilled.source

    @property
    def resumed(self) -> int:
        return self.prefilled.resumed

    def is_cold_run(self, ids: Sequence[int], seed: int = 0) -> bool:
        """Whether every bit is that of a run without caches."""
        other = cold(ids, len(self.ids), seed)
        return self.ids == other.ids and all(torch.equal(a, b) for a, b in zip(self.rows, other.rows, strict=True))

    def writes_as_cold(self, ids: Sequence[int], seed: int = 0) -> bool:
        """Whether the tokens are, and the rows they come of but for rounding."""
        other = cold(ids, len(self.ids), seed)
        near = all(torch.allclose(a, b, atol=NEAR_TIE, rtol=0) for a, b in zip(self.rows, other.rows, strict=True))
        return self.ids == other.ids and near


def warm(
    settings: CacheSettings = ALL, *, seed: int = 0, fingerprint: str = _FINGERPRINT, **options: Any
) -> TorchEngine:
    """An engine; with folders in `settings` it reads what the one before has spilled."""
    engine = tiny_engine(seed, model=_model(seed), caches=settings, fingerprint=fingerprint, **options)
    engine.read_spill()
    return engine


def turn(engine: TorchEngine, ids: Sequence[int], count: int = 4, *, head: int = 0) -> Turn:
    """One request from its opening to its closing."""
    client = Prompt.of_client(ids)
    seq = engine.open(Prompt(client.ids, client.spans, client.insertion, head=head))
    try:
        while (prefilled := engine.prefill(seq, len(ids))).done < len(ids):
            pass
        return Turn(prefilled, *trace(engine, seq, count))
    finally:
        engine.close(seq)


_COLD: dict[tuple[str, int, int, tuple[int, ...]], Turn] = {}


def cold(ids: Sequence[int], count: int = 4, seed: int = 0) -> Turn:
    """The same without any cache."""
    asked = (KIND.get(), seed, count, tuple(ids))
    if asked not in _COLD:
        engine = tiny_engine(seed, model=_model(seed), resident=False)
        _COLD[asked] = turn(engine, ids, count)
    return _COLD[asked]


_MODELS: dict[tuple[str, int], Model] = {}


def _model(seed: int) -> Model:
    key = KIND.get(), seed
    if key not in _MODELS:
        _MODELS[key] = tiny(seed).model
    return _MODELS[key]


def flush(engine: TorchEngine, *, most: int = 1000) -> int:
    """Do all upkeep that is due, as the service does between requests: how many files."""
    count, now = 0, time.time()
    while count < most and (job := engine.upkeep(now)) is not None:
        engine.kept(job, write(job), now)
        count += 1
    return count


def on_disk(folder: Path, **further: Any) -> CacheSettings:
    """The disk tier alone."""
    return CacheSettings(stash=0, park=0, store=0, gate=False, disk=ON, disk_folder=folder, **further)


@contextmanager
def served(settings: CacheSettings = ALL, *, seed: int = 0, **options: Any) -> Iterator[TorchEngine]:
    """A process's life: it ends without a word, its folder's lock with it."""
    engine = warm(settings, seed=seed, **options)
    try:
        yield engine
    finally:
        engine.leave()
