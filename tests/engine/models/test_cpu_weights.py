"""Every kind of CPU weights through the whole model: how far cuts may part it, and where none may."""

from __future__ import annotations

import pytest
import torch

from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.llama import LlamaModel, load_llama
from tandem.engine.text.prompt import Prompt
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, kept_row, read, rounds, same, tiny_engine, trace
from tests.engine.models.memory import MemoryWeights, quiet, tiny_llama, tiny_spec

AGREE = {"fp32": 1e-4, "bf16": 0.1, "int8": 0.1, "int4": 0.1}
"""How far logits of one prefill and of single rows may lie apart, as a share of the logits' standard deviation."""

every_kind = pytest.mark.parametrize("kind", CPU_WEIGHTS)


def model_of(kind: CpuWeights, seed: int = 0) -> LlamaModel:
    tiny = tiny_llama(seed)
    canonical = {name.removeprefix("model."): tensor for name, tensor in tiny.tensors.items()}
    return load_llama(tiny_spec(tiny.config), MemoryWeights(canonical), quiet, kind)


def engine_of(kind: CpuWeights) -> TorchEngine:
    return tiny_engine(model=model_of(kind))


@pytest.mark.spec("ENG-028", "ENG-035")
@every_kind
def test_a_prefill_and_single_rows_agree_within_the_bound(kind: CpuWeights) -> None:
    model, ids = model_of(kind), torch.tensor(PROMPT)
    with torch.inference_mode():
        whole = model.logits(model.forward(ids, 0, model.new_state(len(ids))))
        cache = model.new_state(len(ids))
        rows = [model.forward(one, at, cache) for at, one in enumerate(torch.split(ids, 1))]
        steps = model.logits(torch.cat(rows))
    assert (whole - steps).abs().max() <= AGREE[kind] * whole.std()


@pytest.mark.spec("ENG-016", "ENG-035", "ENG-037")
@every_kind
def test_a_resumed_run_has_the_bits_of_a_cold_one_at_the_grid(kind: CpuWeights) -> None:
    cold, warm = engine_of(kind), engine_of(kind)
    expected = trace(cold, read(cold, PROMPT))
    first = read(warm, PROMPT[: 2 * GRID] + ids_of(9, seed=3))
    warm.close(first)
    seq = read(warm, PROMPT)
    assert seq.resumed == 2 * GRID
    ids, rows = trace(warm, seq)
    assert ids == expected[0]
    assert same(rows, expected[1])


@pytest.mark.spec("ENG-037")
@every_kind
def test_a_stopped_prefill_is_continued_with_the_same_bits(kind: CpuWeights) -> None:
    cold, warm = engine_of(kind), engine_of(kind)
    expected = trace(cold, read(cold, PROMPT))
    stopped = warm.open(Prompt.of_client(PROMPT))
    warm.prefill(stopped, len(PROMPT))
    warm.close(stopped)
    seq = read(warm, PROMPT)
    assert seq.resumed == GRID
    assert same(trace(warm, seq)[1], expected[1])


@pytest.mark.spec("ENG-041", "ENG-016")
@every_kind
def test_asking_and_restoring_leave_no_trace(kind: CpuWeights) -> None:
    plain, asked = engine_of(kind), engine_of(kind)
    expected = trace(plain, read(plain, PROMPT))
    seq = read(asked, PROMPT)
    rounds(asked, seq, 2)
    asked.ask(seq, ids_of(5, seed=5), (1, 2))
    kept = asked.snapshot(seq)
    rounds(asked, seq, 3)
    asked.restore(seq, kept)
    assert torch.equal(kept_row(asked, seq), expected[1][2])
    assert same(trace(asked, seq, 6)[1], expected[1][2:])
