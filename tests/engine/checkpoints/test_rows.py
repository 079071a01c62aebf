"""Matrices read a few rows at a time: the same numbers, and never more of them at once than a chunk."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.rows import Held, Picked, Rows, Stack, chunks
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights, matrix, stacked, table
from tandem.engine.models.registry import package_of
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.models.memory import quiet

CHUNK = 16 << 10


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.engine.checkpoints.rows.CHUNK_BYTES", CHUNK)


def whole(rows: Rows) -> Tensor:
    return torch.cat([part for _, part in chunks(rows)])


@pytest.mark.usefixtures("small_chunks")
def test_chunks_cover_a_matrix_once_in_order() -> None:
    weight = torch.randn(300, 64)
    pieces = list(chunks(weight))
    assert [(at.start, at.stop) for at, _ in pieces] == [(0, 64), (64, 128), (128, 192), (192, 256), (256, 300)]
    assert torch.equal(torch.cat([piece for _, piece in pieces]), weight)
    assert torch.equal(whole(Held(weight.bfloat16())), weight.bfloat16().float())


@pytest.mark.usefixtures("small_chunks")
def test_rows_in_another_order_and_one_below_the_other() -> None:
    first, second = torch.randn(200, 64), torch.randn(100, 64)
    order = torch.arange(200).view(10, 2, 10).transpose(1, 2).flatten()
    assert torch.equal(whole(Picked(Held(first), order)), first[order])
    assert torch.equal(whole(Stack([Held(first), Held(second)])), torch.cat((first, second)))
    with pytest.raises(ValueError, match=r"one width, not \[64, 65\]"):
        Stack([Held(first), Held(torch.zeros(1, 65))])


@pytest.mark.spec("ENG-021", "ENG-031")
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_a_matrix_made_in_chunks_is_the_one_made_at_once(kind: CpuWeights, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [torch.randn(rows, 128, generator=torch.Generator().manual_seed(rows)) for rows in (208, 80, 16)]
    x = torch.randn(9, 128, generator=torch.Generator().manual_seed(1))
    parts = [(Held(weight), None) for weight in weights]
    at_once = [stacked(parts, kind), matrix(weights[0], None, kind), table(weights[0], None, kind)]
    monkeypatch.setattr("tandem.engine.checkpoints.rows.CHUNK_BYTES", CHUNK)
    in_chunks = [stacked(parts, kind), matrix(Held(weights[0]), None, kind), table(Held(weights[0]), None, kind)]
    for one, other in zip(at_once, in_chunks, strict=True):
        assert torch.equal(one(x), other(x))
        assert torch.equal(one(x[:1]), other(x[:1]))
        assert (one.nbytes, one.format) == (other.nbytes, other.format)


@dataclass(slots=True)
class Watched:
    """`Weights` that count the bytes they have handed out and that are still alive."""

    weights: Weights
    alive: int = 0
    most: int = 0
    largest_tensor: int = 0
    read: dict[str, int] = field(default_factory=dict)

    def names(self) -> Iterable[str]:
        return self.weights.names()

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        tensor = self.weights.tensor(name, shape, dtype)
        self.largest_tensor = max(self.largest_tensor, tensor.nbytes)
        return tensor

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Tensor:
        part = self.weights.rows(name, shape, start, stop).clone()
        self.read[name] = self.read.get(name, 0) + stop - start
        self.alive += part.nbytes
        self.most = max(self.most, self.alive)
        weakref.finalize(part, self._gone, part.nbytes)
        return part

    def _gone(self, nbytes: int) -> None:
        self.alive -= nbytes


@pytest.mark.spec("ENG-031")
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("kind", "cpu_weights"),
    [
        ("llama", "fp32"),
        ("llama-gguf", "int4"),
        ("qwen3_5", "bf16"),
        ("qwen3_5-fp8", "int8"),
        ("qwen3_5-nvfp4", "fp32"),
    ],
)
def test_a_load_holds_no_more_of_the_checkpoint_than_a_chunk(
    tmp_path: Path, kind: str, cpu_weights: CpuWeights
) -> None:
    checkpoint = open_checkpoint(make_tiny(kind, tmp_path / "tiny", hidden=128))
    matrices = {name: each for name, each in checkpoint.weights.stored().items() if len(each.shape) == 2}
    assert max(torch.Size(each.shape).numel() * 4 for each in matrices.values()) > 8 * CHUNK
    watched = Watched(checkpoint.weights)
    model = package_of(checkpoint.config.architecture)(checkpoint.config, watched, quiet, cpu_weights)
    gc.collect()
    # Rows of at least 64, of the widest matrix; of two parts where a stack changes from one to the next.
    widest = max(each.shape[1] for each in matrices.values())
    assert watched.most <= 3 * max(CHUNK, 4 * 64 * widest)
    assert watched.largest_tensor <= CHUNK, "only small tensors come whole"
    assert watched.alive <= 4 * 64 * widest, "nothing of it is kept"
    assert set(watched.read) <= set(matrices)
    del model


@pytest.mark.spec("ENG-019", "ENG-021")
def test_a_model_has_no_window_on_its_files(tmp_path: Path) -> None:
    """F32 tensors under fp32 need no conversion, and are copied nevertheless."""
    checkpoint = open_checkpoint(make_tiny("llama", tmp_path / "tiny"))
    config = replace(checkpoint.config)
    model = package_of("llama")(config, checkpoint.weights, quiet, "fp32")
    checkpoint.weights.close()
    gc.collect()
    mapped = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else ""
    assert str(tmp_path) not in mapped
    ids = torch.arange(5)
    assert model.logits(model.forward(ids, 0, model.new_state(8))).isfinite().all()
