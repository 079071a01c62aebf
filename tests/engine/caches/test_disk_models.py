"""A resume from disk with real models: every bit equals a cold run's (ENG-073)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tandem.engine.caches.disk import DiskTier
from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.resident import Anchor
from tandem.engine.models.model import Model
from tandem.engine.models.state import State
from tests.engine.caches.stored import FINGERPRINT, ON
from tests.engine.models.hybrid import tiny_hybrid
from tests.engine.models.memory import tiny_llama

GRID, ROWS = 8, 30


def read(model: Model, state: State, ids: list[int], start: int) -> tuple[Tensor, list[Anchor]]:
    """Read on from `start` in grid chunks: the hidden states, and the recurrent part at each line."""
    hidden, anchors = [], list[Anchor]()
    for low in range(start, len(ids), GRID):
        high = min(low + GRID, len(ids))
        hidden.append(model.forward(torch.tensor(ids[low:high]), low, state))
        if high % GRID == 0:
            anchors.append(Anchor(high, "bit", state.keep()))
    return torch.cat(hidden), anchors


@pytest.mark.spec("ENG-073", "ENG-116")
@pytest.mark.parametrize("kind", ["llama", "hybrid"])
@torch.inference_mode()
def test_a_run_that_resumes_from_disk_equals_a_cold_one(tmp_path: Path, kind: str) -> None:
    model: Model = tiny_llama().model if kind == "llama" else tiny_hybrid().model
    ids = torch.randint(0, model.config.vocab_size, (ROWS,), generator=torch.Generator().manual_seed(1)).tolist()
    cold = model.new_state(64)
    hidden, anchors = read(model, cold, ids, 0)

    tier = DiskTier(tmp_path, FINGERPRINT, GRID, recurrent=kind == "hybrid", settings=ON, now=0)
    tier.saw(ids)
    for missing in tier.missing(ids, anchors):
        rows = cold.kv.copy(GRID, missing.row - GRID) if missing.kind == "rows" else None
        job = tier.job(ids, missing, rows)
        assert job is not None
        tier.written(job, write(job), 0)

    warm = model.new_state(64)
    restored = tier.read(ids, 0, warm.kv.span, 0)
    assert restored is not None
    assert restored.row == 24
    warm.put_back(restored.recurrent)
    again, _ = read(model, warm, ids, restored.row)
    assert torch.equal(again, hidden[restored.row :])
    assert torch.equal(warm.kv.keys[:, :, :ROWS], cold.kv.keys[:, :, :ROWS])
    assert torch.equal(warm.kv.values[:, :, :ROWS], cold.kv.values[:, :, :ROWS])
    for ours, theirs in zip(warm.keep().layers, cold.keep().layers, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
