"""The operations in C against their twins in torch: within a bound, and a row alone as among others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tandem.bench.ops import OpTimer
from tandem.engine.kernels.trees import chain
from tandem.engine.models import digits, formats, layers, nibbles
from tandem.engine.models.digits import DigitMatrix
from tandem.engine.models.formats import kernel_of, matrix
from tandem.engine.models.layers import attend, behind, rms
from tandem.engine.models.llama import LlamaModel, load_llama
from tandem.engine.models.nibbles import NibbleMatrix
from tandem.engine.models.packed import BOUND, Int4Matrix, int4_codes
from tandem.engine.native import FEW, Native, native, packed, unpacked
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet, tiny_spec
from tests.engine.models.test_verify import ids_of
from tests.tiny import llama_config, llama_tensors

pytestmark = pytest.mark.skipif(native() is None, reason="there is no compiler here, or a processor without VNNI")
ROWS = (1, 2, 3, 7, 8, 15, FEW)
SHAPES = ((16, 32), (192, 96), (80, 576))


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ours() -> Native:
    made = native()
    assert made is not None
    return made


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing can be compiled."""
    for module in (digits, formats, layers, nibbles):
        monkeypatch.setattr(module, "native", lambda: None)


def test_packed_codes_come_back() -> None:
    codes, scales, zeros = int4_codes(drawn(48, 96))
    back = unpacked(packed(codes, scales, zeros))
    assert all(torch.equal(one, other) for one, other in zip(back, (codes, scales, zeros), strict=True))


@pytest.mark.spec("ENG-021", "ENG-028")
@pytest.mark.parametrize("shape", SHAPES)
def test_four_bits_are_a_hundred_times_nearer_than_bf16_activations(shape: tuple[int, int]) -> None:
    weight, bias = drawn(*shape), drawn(shape[0], seed=1)
    matrix, plain = NibbleMatrix(weight, bias), Int4Matrix.dequantised(weight)
    assert (matrix.shape, matrix.format) == (shape, "int4")
    for rows in ROWS:
        x = drawn(rows, shape[1], seed=rows) * drawn(rows, 1, seed=3).exp()
        x[0, 0] = 1000  # a feature that towers above the others
        expected = x.double() @ plain.double().T + bias
        tops = x.abs().view(rows, -1, 32).amax(dim=2).repeat_interleave(32, dim=1)  # what a group's unit is of
        assert bool(((matrix(x) - expected).abs() <= 2.0**-15 * (tops @ plain.abs().T) + 1e-5).all())


@pytest.mark.spec("ENG-028")
@pytest.mark.parametrize("keeps_copy", [True, False])
def test_more_rows_are_within_the_bound_of_the_format(keeps_copy: bool) -> None:
    weight, x = drawn(4096 + 64, 64), drawn(FEW + 1, 64, seed=1)
    matrix, plain = NibbleMatrix(weight, keeps_copy=keeps_copy), Int4Matrix.dequantised(weight)
    assert bool(((matrix(x).float() - x @ plain.T).abs() <= 2 * BOUND * (x.abs() @ plain.abs().T)).all())
    assert matrix.copy_nbytes == (2 * weight.numel() if keeps_copy else 0)
    assert matrix.nbytes == Int4Matrix.bytes_for(matrix.shape)


@pytest.mark.spec("ENG-027")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_alone_and_among_others(shape: tuple[int, int], two_threads: None) -> None:
    matrix, x = NibbleMatrix(drawn(*shape)), drawn(FEW, shape[1], seed=3)
    alone = torch.cat([matrix(row[None]) for row in x])
    assert all(torch.equal(matrix(x[:rows]), alone[:rows]) for rows in range(2, FEW + 1))
    torch.set_num_threads(1)
    assert torch.equal(matrix(x), alone), "on any number of threads"


@pytest.mark.spec("ENG-027")
@pytest.mark.skipif(not digits._packs(64, 64), reason="oneDNN's integer kernels do not serve this CPU")
def test_eight_bits_have_the_bits_of_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = drawn(320, 128), drawn(digits.OURS, 128, seed=1) * drawn(digits.OURS, 1, seed=2).exp()
    x[3] = 0
    theirs = DigitMatrix(weight)._exact(x)
    monkeypatch.setattr(digits, "_PART_BYTES", 128 * 128)
    parts = DigitMatrix(weight)
    assert all(torch.equal(parts(x[:rows]), theirs[:rows]) for rows in range(1, len(x) + 1))


@pytest.mark.spec("ENG-028")
@pytest.mark.parametrize("columns", [16, 576, 1040])
def test_norms_are_those_of_torch(columns: int) -> None:
    x, weight = drawn(FEW, columns) * 30, drawn(columns, seed=1)
    normed = rms(x, weight, 1e-5)
    torch.testing.assert_close(normed, functional.rms_norm(x, weight.shape, weight, 1e-5))
    assert torch.equal(normed, torch.cat([rms(row[None], weight, 1e-5) for row in x]))
    assert ours().rms_norm(drawn(FEW + 1, columns), weight, 1e-5) is None
    assert ours().rms_norm(x[:, :15], weight[:15], 1e-5) is None, "no whole vectors"


def cached(kv_heads: int, length: int, size: int) -> tuple[Tensor, Tensor]:
    """Views of a longer buffer, as a cache gives them."""
    keys, values = drawn(2, kv_heads, length + 40, size)[:, None, :, :length].unbind()
    return keys, values


@pytest.mark.spec("ENG-028")
@pytest.mark.parametrize("size", [64, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (4, 4), (16, 1)])
def test_attention_is_that_of_torch(size: int, heads: int, kv_heads: int, two_threads: None) -> None:
    for rows, length in ((1, 1), (1, 100), (7, 7), (16, 16), (3, 100), (FEW, 131)):
        keys, values = cached(kv_heads, length, size)
        q = drawn(rows, heads + 2, size, seed=1)[:, :heads] * 3
        mask = None if rows in (1, length) else behind(chain(rows), length - rows)[1]
        mixed = attend(q, keys, values, mask)
        expected = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None].double(),
            keys.double(),
            values.double(),
            attn_mask=None if mask is None else mask.double(),
            is_causal=rows == length,
            enable_gqa=True,
        )
        torch.testing.assert_close(mixed.double(), expected[0].transpose(0, 1).flatten(1), rtol=1e-5, atol=2e-6)
        if mask is not None:
            for row in range(rows):
                seen = length - rows + row + 1
                lone = attend(q[row : row + 1], keys[:, :, :seen], values[:, :, :seen], None)
                assert torch.equal(lone[0], mixed[row]), "a row of a chain alone"


def test_a_number_that_is_none_stays_one() -> None:
    x, nan = drawn(3, 64), torch.tensor(torch.nan)
    x[1, 5] = nan
    for y in (NibbleMatrix(drawn(64, 64))(x), rms(x, drawn(64), 1e-5)):
        assert bool(y[1].isnan().all())
        assert bool(y[[0, 2]].isfinite().all())
    keys, values = cached(1, 20, 64)
    q = drawn(2, 1, 64)
    q[0, 0, 3] = nan
    mixed = attend(q, keys, values, behind(chain(2), 18)[1])
    assert bool(mixed[0].isnan().all())
    assert bool(mixed[1].isfinite().all())


def test_a_timer_of_torchs_calls_sees_ours() -> None:
    with OpTimer() as timer:
        NibbleMatrix(drawn(64, 64))._native.rms_norm(drawn(1, 64), drawn(64), 1e-5)
        attend(drawn(1, 1, 64), *cached(1, 20, 64), None)
    assert (timer.calls["norms"], timer.calls["attention"]) == (1, 1)


def test_other_tensors_are_torchs() -> None:
    keys, values = cached(1, 20, 64)
    q = drawn(1, 1, 64)
    assert ours().attention(q, keys, values, None) is not None
    assert ours().attention(q.double(), keys.double(), values.double(), None) is None
    assert ours().attention(drawn(FEW + 1, 1, 64), keys, values, None) is None
    assert ours().attention(q[..., :32], keys[..., :32], values[..., :32], None) is None, "no such head"
    assert ours().attention(q, keys.transpose(2, 3).contiguous().transpose(2, 3), values, None) is None


def wide_llama() -> LlamaModel:
    sizes: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4}
    config = llama_config(VOCAB, head_dim=64, num_hidden_layers=2, num_key_value_heads=2, **sizes)
    canonical = {name.removeprefix("model."): tensor for name, tensor in llama_tensors(config).items()}
    return load_llama(tiny_spec(config), MemoryWeights(canonical), quiet, "int4")


@pytest.mark.spec("ENG-011", "ENG-027")
@torch.inference_mode()
def test_a_chain_has_the_bits_of_one_token_after_the_other() -> None:
    """So at no place can a draft that is right be refused, or another one taken, because two numbers are near."""
    model, ids = wide_llama(), ids_of(70, 1)
    assert model.formats["int4"] == 8
    one, other = model.new_state(128), model.new_state(128)
    for state in (one, other):
        model.forward(ids[:38], 0, state)
    verified = model.verify(ids[38:], chain(32), 38, one)
    stepped = torch.cat([model.forward(ids[at : at + 1], at, other) for at in range(38, 70)])
    assert torch.equal(verified, stepped)
    assert torch.equal(one.kv.copy(70).keys, other.kv.copy(70).keys)


def test_without_it_everything_is_torchs(without: None) -> None:
    weight, x = drawn(192, 96), drawn(9, 96, seed=1)
    plain = matrix(weight, None, "int4")
    assert type(plain) is Int4Matrix
    assert kernel_of("int4") == "torch weight_int4pack"
    assert torch.equal(plain(x), Int4Matrix(weight)(x))
    assert torch.equal(rms(x, drawn(96), 1e-5), functional.rms_norm(x, (96,), drawn(96), 1e-5))
    keys, values = cached(1, 20, 64)
    q = drawn(1, 1, 64)
    assert torch.equal(
        attend(q, keys, values, None)[0], functional.scaled_dot_product_attention(q[None], keys, values).flatten()
    )
    with pytest.raises(ValueError, match="product of our own"):
        NibbleMatrix(weight)


@pytest.mark.spec("ENG-016", "ENG-031")
def test_the_report_says_what_multiplies() -> None:
    assert type(matrix(drawn(192, 96), None, "int4")) is NibbleMatrix
    assert kernel_of("int4") == "integers in C"
    assert kernel_of("fp32") == "torch linear"
    assert kernel_of("fp8") == "fp8"
