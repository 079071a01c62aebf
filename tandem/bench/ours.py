"""Tandem's own engine as a subject, driven through its verbs as a slot drives it."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tandem import __version__
from tandem.bench.subject import BenchError, SecondTurn
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.choice import DrafterAsked
from tandem.engine.load import load_engine
from tandem.engine.models.formats import CpuWeights
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, Engine, SamplingRules, SeqT

__all__ = ["Ours", "load_ours", "read", "write"]

GREEDY = SamplingRules()


def load_ours(
    path: Path, threads: int, window: int, cpu_weights: CpuWeights | None, drafter: DrafterAsked = "none"
) -> Ours:
    """A subject over the checkpoint at `path`, loaded as `tandem serve` does; with `auto` its drafter as well."""
    return Ours(load_engine(path, max_len=window, threads=threads, cpu_weights=cpu_weights, drafter=drafter))


def read(engine: Engine[SeqT, Any], ids: Sequence[int]) -> SeqT:
    """A sequence whose prompt is read."""
    seq = engine.open(Prompt.of_client(ids))
    while engine.prefill(seq, len(ids)).done < len(ids):
        pass
    return seq


def write(engine: Engine[SeqT, Any], seq: SeqT, count: int) -> list[int]:
    """The next `count` tokens."""
    ids: list[int] = []
    while len(ids) < count:
        accepted = perform(engine, seq, Round(count - len(ids)), GREEDY)
        assert isinstance(accepted, Accepted)
        ids += accepted.ids
    return ids


class Ours:
    """A `Subject` over any engine that has the verbs."""

    def __init__(self, engine: Engine[Any, Any]) -> None:
        self._engine = engine

    def about(self) -> str:
        kind = self._engine.card.weights.get("dtype", "unknown")
        return f"tandem {__version__}, torch {torch.__version__}, Python {platform.python_version()}, weights {kind}"

    def prefill(self, ids: Sequence[int]) -> float:
        start = time.perf_counter()
        seq = read(self._engine, ids)
        elapsed = time.perf_counter() - start
        resumed = self._engine.prefill(seq, len(ids)).resumed
        self._engine.close(seq)
        if resumed:
            raise BenchError(f"{resumed} of {len(ids)} prompt tokens came from a cache; this was no cold prefill")
        return elapsed

    def decode(self, ids: Sequence[int], count: int) -> float:
        seq = read(self._engine, ids)
        write(self._engine, seq, 1)
        start = time.perf_counter()
        write(self._engine, seq, count)
        elapsed = time.perf_counter() - start
        self._engine.close(seq)
        return elapsed / count

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> SecondTurn:
        seq = read(self._engine, ids)
        written = write(self._engine, seq, answer)
        self._engine.close(seq)
        start = time.perf_counter()
        seq = read(self._engine, [*ids, *written, *more])
        write(self._engine, seq, 1)
        first = time.perf_counter()
        write(self._engine, seq, count)
        end = time.perf_counter()
        self._engine.close(seq)
        return SecondTurn(first - start, (end - first) / count)

    def rounds(self) -> int:
        return self._engine.state()["rounds"]

    def close(self) -> None:
        """Nothing is held outside the engine."""
