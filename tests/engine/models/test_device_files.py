"""Checkpoints on a device: what is kept as it is stored, what is joined, what a load is weighed at, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.checkpoints.weights import Coded
from tandem.engine.errors import CheckpointError
from tandem.engine.kernels.choice import Chosen
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB, Board
from tandem.engine.models.device_matrix import Beside, Dense, DeviceMatrix, Kept, beside, bytes_of
from tandem.engine.models.placement import CPU, CUDA, placed
from tandem.engine.models.qwen3_5 import DeviceQwen35, load_qwen3_5, load_qwen3_5_device
from tandem.engine.room import Budgets, device_needs
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.kernels.running import close
from tests.engine.models.device import NARROW, teacher_forced
from tests.engine.models.memory import quiet

CHOSEN = Chosen(torch.device("cpu"))
CODED = {"qwen3_5": None, "qwen3_5-fp8": "fp8", "qwen3_5-nvfp4": "nvfp4"}


def weight(rows: int, columns: int = 128, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def rows(count: int, columns: int = 128) -> Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(count))


def values(kept: Kept) -> Tensor:
    return kept.weight if isinstance(kept, Dense) else kept.rows(0, kept.shape[0])


FORMS: dict[str, Kept] = {
    "nvfp4": Nvfp4.of(weight(160)),
    "fp8": Fp8Blocks.of(weight(160)),
    "fp8-rows": Fp8Rows.of(weight(160)),
    "fp32": Dense(weight(160)),
    "bf16": Dense(weight(160).bfloat16()),
}


@pytest.mark.spec("ENG-011", "ENG-021", "ENG-022", "ENG-023")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 32, 33])
def test_a_matrix_gives_the_product_of_its_values_for_any_number_of_rows(form: str, count: int) -> None:
    kept = FORMS[form]
    matrix, x = DeviceMatrix(kept, CHOSEN), rows(count)
    x = x.bfloat16() if form == "bf16" else x
    expected = x.float() @ values(kept).float().t()
    assert close(matrix(x), expected, 8e-3 if form == "bf16" else 1e-5)
    assert matrix(x).dtype == x.dtype
    assert close(matrix.logits(x), expected, 1e-5)
    assert (matrix.shape, matrix.format, matrix.nbytes) == (kept.shape, form, kept.nbytes)


@pytest.mark.spec("ENG-021", "ENG-022", "ENG-023")
@pytest.mark.parametrize("form", ["nvfp4", "fp8"])
def test_in_bf16_a_chunk_is_as_near_as_its_types_allow(form: str) -> None:
    x = rows(40).bfloat16()
    assert close(DeviceMatrix(FORMS[form], CHOSEN)(x), x.float() @ values(FORMS[form]).t(), 1e-2)


def nvfp4(count: int, scale: Tensor) -> Nvfp4:
    made = Nvfp4.of(weight(count, seed=count))
    return Nvfp4(made.codes, made.scales, scale)


ONE, TWO = torch.tensor(0.01), torch.tensor(0.02)


@pytest.mark.spec("ENG-021")
@pytest.mark.parametrize(
    ("parts", "products"),
    [
        ([nvfp4(32, ONE), nvfp4(48, ONE), nvfp4(16, TWO)], 2),
        ([Fp8Blocks.of(weight(128)), Fp8Blocks.of(weight(40))], 1),
        ([Fp8Blocks.of(weight(40)), Fp8Blocks.of(weight(128))], 2),
        ([Fp8Rows.of(weight(8)), Fp8Rows.of(weight(9))], 1),
        ([Dense(weight(8)), Dense(weight(9)), Fp8Rows.of(weight(9))], 2),
    ],
    ids=["scales", "whole blocks", "a block cut", "rows", "formats"],
)
def test_matrices_are_joined_where_no_value_changes(parts: list[Kept], products: int) -> None:
    x = rows(3)
    joined = beside(parts, CHOSEN)
    assert (len(joined._parts) if isinstance(joined, Beside) else 1) == products
    assert close(joined(x), x @ torch.cat([values(part) for part in parts]).t(), 1e-5)
    assert joined.shape == (sum(part.shape[0] for part in parts), 128)
    assert joined.nbytes in (sum(part.nbytes for part in parts), sum(part.nbytes for part in parts) - 4)


@dataclass(frozen=True, slots=True)
class Loaded:
    path: Path
    config: ModelConfig
    model: DeviceQwen35
    weighed: int


def loaded(kind: str, folder: Path) -> Loaded:
    path = make_tiny(kind, folder / "tiny", seed=3)
    checkpoint = open_checkpoint(path)
    config, weights = checkpoint.config, checkpoint.weights
    weighed = sum(bytes_of(name, each, torch.float32) for name, each in weights.stored().items())
    model = load_qwen3_5_device(config, weights, quiet, CPU)
    weights.close()
    return Loaded(path, config, model, weighed)


@pytest.mark.spec("ENG-021", "ENG-022", "ENG-023", "ENG-031")
@pytest.mark.parametrize("kind", CODED)
def test_a_checkpoint_keeps_its_codes_and_gives_the_decoded_models_text(tmp_path: Path, kind: str) -> None:
    made = loaded(kind, tmp_path)
    coded = CODED[kind]
    assert (coded in made.model.formats) == (coded is not None)
    assert set(made.model.formats) <= {coded, "fp32"}
    assert sum(made.model.nbytes.values()) == pytest.approx(made.weighed, rel=0.03)
    decoded = load_qwen3_5(made.config, open_checkpoint(made.path).weights, quiet, "fp32")
    ids = torch.randint(made.config.vocab_size, (50,), generator=torch.Generator().manual_seed(1))
    ours, theirs = (teacher_forced(model, ids, 40) for model in (made.model, decoded))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_of_a_model_with_codes_only_norms_are_in_fp32(tmp_path: Path) -> None:
    path = make_tiny("qwen3_5-fp8", tmp_path / "tiny")
    checkpoint = open_checkpoint(path)
    model = load_qwen3_5_device(checkpoint.config, checkpoint.weights, quiet, NARROW)
    assert set(model.formats) == {"fp8", "bf16"}
    state = model.new_state(8)
    assert (state.kv.keys.dtype, state.empty.layers[0].matrix.dtype) == (torch.bfloat16, torch.float32)
    assert state.empty.layers[0].tail.dtype == torch.bfloat16


@pytest.mark.spec("ENG-031", "ENG-189")
@pytest.mark.parametrize("kind", CODED)
def test_a_load_is_weighed_at_what_it_takes_there(tmp_path: Path, kind: str) -> None:
    checkpoint = open_checkpoint(make_tiny(kind, tmp_path / "tiny"))
    config, stored = checkpoint.config, checkpoint.weights.stored()
    board = Board(shared=True, free=GIB, total=64 * GIB)
    asked = device_needs(stored, config, NARROW, 64, Budgets(anchors=0), board)
    weights, window, margin = (need.nbytes for need in asked)
    model = load_qwen3_5_device(config, checkpoint.weights, quiet, NARROW)
    assert weights == pytest.approx(sum(model.nbytes.values()), rel=0.03)
    state = model.new_state(64)
    assert window == state.kv.nbytes + 4 * state.bytes_per_anchor
    assert margin == 6 * GIB


def test_a_missing_code_is_named(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(make_tiny("qwen3_5-fp8", tmp_path / "tiny"))

    class Cut:
        """The checkpoint without some of its matrices' rows."""

        names, tensor, rows = checkpoint.weights.names, checkpoint.weights.tensor, checkpoint.weights.rows

        def coded(self, name: str) -> Coded | None:
            found = checkpoint.weights.coded(name)
            return Fp8Blocks(found.codes[:32], found.scales[:1]) if isinstance(found, Fp8Blocks) else None

    with pytest.raises(CheckpointError, match=r"layers\.0\.\S+\.weight has shape \[32, "):
        load_qwen3_5_device(checkpoint.config, Cut(), quiet, CPU)


@pytest.mark.spec("ENG-016")
def test_cuda_is_taken_where_it_is_to_be_had_and_refused_in_words_where_it_is_not(tmp_path: Path) -> None:
    assert placed("auto", "qwen3_5", served=True, lacking="") == CUDA
    assert placed("auto", "qwen3_5", served=True, lacking="there is no device") == CPU
    assert placed("auto", "llama", served=False, lacking="") == CPU
    assert placed("cpu", "qwen3_5", served=True, lacking="") == CPU
    with pytest.raises(CheckpointError, match="--device cuda: triton is not there; --device cpu serves it"):
        placed("cuda", "qwen3_5", served=True, lacking="triton is not there")
    with pytest.raises(CheckpointError, match="architecture llama run on the CPU alone"):
        load_engine(make_tiny("llama", tmp_path / "llama"), device="cuda")
    if not torch.cuda.is_available():
        path = make_tiny("qwen3_5", tmp_path / "qwen")
        with pytest.raises(CheckpointError, match="there is no CUDA device"):
            load_engine(path, device="cuda")
        assert load_engine(path, device="auto", cpu_weights="bf16").card.weights["dtype"] == "bf16"
