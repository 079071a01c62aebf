"""The drafting layer of Qwen3.5 against the same layer in plain float64, and what loads it."""

from __future__ import annotations

import pytest
import torch

from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.qwen3_5 import load_mtp
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet, tiny_llama
from tests.engine.models.mtp import canonical, naive, tiny_mtp

ROWS = 12
DRAW = torch.Generator().manual_seed(5)
IDS = torch.randint(VOCAB, (ROWS,), generator=DRAW)
HIDDEN = torch.randn(ROWS, 64, generator=DRAW)


@pytest.fixture(autouse=True, scope="module")
def no_autograd() -> object:
    with torch.inference_mode():
        yield


@pytest.mark.spec("ENG-052")
@pytest.mark.parametrize("seed", [0, 1])
def test_it_computes_what_the_plain_layer_does(seed: int) -> None:
    tiny = tiny_mtp(seed)
    cache, states = tiny.layer.new_cache(ROWS), naive(tiny, IDS.tolist(), HIDDEN)
    head = tiny.tensors["lm_head.weight"].double()
    for row in range(ROWS):
        state = tiny.layer.forward(IDS[row : row + 1], HIDDEN[row : row + 1], row, cache)
        torch.testing.assert_close(state[0].double(), states[row], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(tiny.layer.logits(state)[0].double(), head @ states[row], rtol=1e-4, atol=1e-4)


@pytest.mark.spec("ENG-052")
@pytest.mark.parametrize("cut", [1, 5, ROWS - 1])
def test_in_chunks_it_is_what_it_is_row_by_row(cut: int) -> None:
    layer = tiny_mtp(2).layer
    by_row, in_chunks = layer.new_cache(ROWS), layer.new_cache(ROWS)
    states = [layer.forward(IDS[row : row + 1], HIDDEN[row : row + 1], row, by_row) for row in range(ROWS)]
    layer.keep(IDS[:cut], HIDDEN[:cut], 0, in_chunks)
    state = layer.forward(IDS[cut:], HIDDEN[cut:], cut, in_chunks)
    torch.testing.assert_close(state, states[-1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(in_chunks.keys, by_row.keys, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(in_chunks.values, by_row.values, rtol=1e-5, atol=1e-5)


@pytest.mark.spec("ENG-052")
def test_positions_count_from_anywhere() -> None:
    """So a drafter may begin in the middle of a sequence."""
    tiny = tiny_mtp(3)
    state = tiny.layer.forward(IDS, HIDDEN, 0, tiny.layer.new_cache(ROWS))
    states = naive(tiny, IDS.tolist(), HIDDEN, first=1000)
    torch.testing.assert_close(state[0].double(), states[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["bf16", "int8"])
def test_narrow_weights_are_near(kind: CpuWeights) -> None:
    exact, narrow = tiny_mtp(4).layer, tiny_mtp(4, cpu_weights=kind).layer
    states = [each.forward(IDS, HIDDEN, 0, each.new_cache(ROWS)) for each in (exact, narrow)]
    assert 0 < ((states[0] - states[1]).norm() / states[0].norm()).item() < 0.05
    assert narrow.nbytes < exact.nbytes
    numbers = sum(each.numel() for name, each in tiny_mtp(4).tensors.items() if name.startswith("mtp."))
    assert exact.nbytes == 4 * (numbers + (4 + 2 - 2) * 32)  # a norm for each of the heads
    assert set(narrow.formats) == {kind}
    assert sum(narrow.formats.values()) == 5


@pytest.mark.spec("ENG-047")
def test_what_is_missing_or_strange_is_named() -> None:
    tiny = tiny_mtp()
    weights = canonical(tiny.tensors).tensors
    less = {name: each for name, each in weights.items() if name != "mtp.fc.weight"}
    with pytest.raises(CheckpointError, match=r"mtp\.fc\.weight"):
        load_mtp(tiny.model, MemoryWeights(less), quiet)
    more = weights | {"mtp.layers.1.input_layernorm.weight": torch.zeros(64)}
    with pytest.raises(CheckpointError, match=r"drafting layer has mtp\.layers\.1"):
        load_mtp(tiny.model, MemoryWeights(more), quiet)
    with pytest.raises(TypeError, match="LlamaModel"):
        load_mtp(tiny_llama().model, MemoryWeights(weights), quiet)
